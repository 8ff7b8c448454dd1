"""The folder of this process for the sockets between Spark's JVM and its Python workers, and for files sent to executors."""

from __future__ import annotations

import atexit
import shutil
from pathlib import Path

from flinkish.engine.scratch import make_folder, remove_orphans
from flinkish.engine.spark.scratch import make_scratch_folder

#: Folder for the sockets of flinkish's session on one machine, or for the package that it sends to executors.
_folder: Path | None = None
#: Maximum length of the folder's path: the address of a Unix socket has at most 103 bytes, and Spark adds a name of 42.
_LONGEST_SOCKET_FOLDER = 60
#: Folder for sockets if the path of the folder for scratch data is too long, and the prefix of names there.
_SHORT, _SHORT_PREFIX = Path("/tmp"), "flinkish"


def socket_folder() -> Path:
    """Create a folder that is removed when this process ends; if it is killed, the next process removes it.

    Spark leaves sockets behind if the driver is killed, and fails with a long path of them.

    A JVM uses the first folder that it was given, so the folder is kept until this process ends.
    """
    global _folder
    if _folder is None:
        folder = make_scratch_folder(None)
        if len(str(folder)) > _LONGEST_SOCKET_FOLDER:
            folder.rmdir()
            remove_orphans(_SHORT, _SHORT_PREFIX)
            folder = make_folder(_SHORT, _SHORT_PREFIX)
        _folder = folder
        atexit.register(remove_socket_folder)
    return _folder


def remove_socket_folder() -> None:
    """Remove the folder with the sockets of the session's JVM or its package; called at the end of the process."""
    if _folder is not None:
        shutil.rmtree(_folder, ignore_errors=True)

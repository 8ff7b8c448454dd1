"""Folders that are removed at the end of this process; folders of a killed process are removed by the next one."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError, EngineError
from flinkish.common.files.schemes import without_user
from flinkish.common.paths import location
from flinkish.engine.processes import ProcessId, namespace, this_process

#: Folder below an engine's scratch root with the checkpoints of a job that has no folder for them.
CHECKPOINTS: Final = "checkpoints"
#: The format of the rest of a folder's name, which other versions of flinkish may read differently: change it whenever the rest
#: or the meaning of `ProcessId.created` changes. It is no number, because versions without it look for the start time here.
_FORMAT: Final = "f2"
#: Created folders with the process that created them, because a forked process must not remove them.
_made: list[tuple[int, Path]] = []


def make_folder(parent: Path, prefix: str) -> Path:
    """Create a folder with mode 0700, named after this process.

    The name has the prefix, user, pid, format, start time, pid namespace, and a random part. It is short, because folders of
    sockets are named so, too. Raises OSError.
    """
    owner = this_process()
    name = f"{_mine(prefix)}{owner.pid}-{_FORMAT}-{int(owner.created):x}-{namespace('pid'):x}-"
    # Absolute, since the program may change its working folder before the end.
    folder = Path(tempfile.mkdtemp(prefix=name, dir=parent.absolute()))
    _made[:] = [(pid, made) for pid, made in _made if made.exists()]
    _made.append((owner.pid, folder))
    return folder


def temporary_folder(configuration: Configuration) -> str | None:
    """Return the folder of io.tmp.dirs; None = the system's folder for temporary files.

    Raises ConfigurationError for a place that is no folder of the file system.
    """
    text = configuration.get(options.TMP_DIRS)
    if not text:
        return None
    place = location(text)
    if not place.is_local:
        raise ConfigurationError(
            f"{options.TMP_DIRS.key} = {without_user(text)!r}: scratch files are kept in a folder, not at {place.scheme}://",
            hint="each epoch writes and renames several of them, which would take an object store seconds; checkpoints can be "
            "there. On a cluster, give a folder that all machines mount.",
        )
    return place.file


class DiskFolder:
    """A folder for scratch files or large data, created on first use: below io.tmp.dirs, else on the disk of temporary files.

    Unlike the scratch folder of the Spark engine, it is never in memory.
    """

    def __init__(self, temporary: str | None, prefix: str) -> None:
        """Describe a folder below `temporary`, which all tasks can access (None = the system's folder)."""
        self._temporary = temporary
        self._prefix = prefix
        self._path: Path | None = None

    def path(self) -> Path:
        """Return the folder. Raises EngineError if it cannot be made."""
        if self._path is None:
            parent = Path(self._temporary or tempfile.gettempdir())
            try:
                parent.mkdir(parents=True, exist_ok=True)
                if self._temporary is None:
                    remove_orphans(parent, self._prefix)
                self._path = make_folder(parent, self._prefix)
            except OSError as error:
                raise EngineError(f"No folder can be made in {parent}: {error}", hint="set io.tmp.dirs.") from error
        return self._path

    def remove(self) -> None:
        """Remove the folder with its content, if it was created."""
        path, self._path = self._path, None
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)


@atexit.register
def remove_made() -> None:
    """Remove what is left of this process's folders at its end: those of jobs that could not be stopped, and of sockets."""
    for pid, folder in _made:
        if pid == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)


def remove_orphans(parent: Path, prefix: str) -> None:
    """Remove the folders of processes that ended without removing them (kill -9).

    To be used only for storage of this machine: on shared storage, and in another container, a pid has no meaning. Folders of
    versions whose names have another format stay, because their start times cannot be compared; those without any
    format are removed if no process has the pid.
    """
    for folder in parent.glob(f"{_mine(prefix)}*"):
        pid, *rest = folder.name.removeprefix(_mine(prefix)).split("-")
        known = rest[:1] == [_FORMAT]
        base = 16 if known else 10
        try:
            created, inside = (int(each, base) for each in rest[known:][:2])
            owner = ProcessId.of(int(pid))
        except ValueError:
            continue
        if inside == namespace("pid") and (owner is None or (known and abs(int(owner.created) - created) > 1)):
            shutil.rmtree(folder, ignore_errors=True)


def _mine(prefix: str) -> str:
    return f"{prefix}-{os.getuid()}-"

"""Creates the folder for the Spark engine's scratch data."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from flinkish.common.errors import EngineError
from flinkish.engine.scratch import make_folder, remove_orphans
from flinkish.engine.spark.settings import scratch_parent

_PREFIX = "flinkish-scratch"
_SHARED_MEMORY = Path("/dev/shm")


def make_scratch_folder(scratch_dir: Path | None) -> Path:
    """Create a folder with mode 0700, named after this process. Raises EngineError if that is not possible.

    It is in `scratch_dir`, else on memory-backed storage with enough space, else in the temporary folder. Folders of killed
    processes are removed, because memory-backed storage would fill up.
    """
    free = {}
    if os.access(_SHARED_MEMORY, os.W_OK):
        free[_SHARED_MEMORY] = shutil.disk_usage(_SHARED_MEMORY).free
    parent = scratch_parent(scratch_dir, free, Path(tempfile.gettempdir()))
    try:
        parent.mkdir(parents=True, exist_ok=True)
        if scratch_dir is None:
            remove_orphans(parent, _PREFIX)
        return make_folder(parent, _PREFIX)
    except OSError as error:
        raise EngineError(f"No folder for scratch data can be made in {parent}: {error}", hint="set io.tmp.dirs.") from error

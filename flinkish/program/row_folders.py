"""Folders for files with rows of DataFrames: next to the checkpoints that name them, or temporary ones of this process."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
from pathlib import Path

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.common.disk import sync
from flinkish.common.errors import EngineError, UnsupportedError
from flinkish.common.paths import location

#: Ending of the name of the file beside a temporary folder.
_LOCK = ".lock"
#: Name of the mark of a folder, and ending of the name of the mark beside a sink's file, that a savepoint may need.
_KEPT = ".kept"


def row_folder(configuration: Configuration, job_id: str) -> Path:
    """Return the folder of a job's rows; the same on the driver and in the tasks. It need not be there.

    Raises UnsupportedError for checkpoints in a place that is not mounted as a folder.
    """
    directory = configuration.get(options.CHECKPOINTS_DIRECTORY)
    if directory is None:
        return Path(configuration.get(options.TMP_DIRS) or tempfile.gettempdir()).absolute() / f"{_prefix()}{job_id}"
    place = location(directory)
    if not place.is_local:
        raise UnsupportedError(
            f"{options.CHECKPOINTS_DIRECTORY.key} is {directory}; rows of DataFrames need a mounted folder.",
            hint="use a folder that all machines have mounted for the checkpoints of this job.",
        )
    return Path(place.file).absolute() / job_id / "rows"


def sink_folder(configuration: Configuration, job_id: str, lineage: str, sink_uid: str) -> Path:
    """Return the folder of the files in which the rows of a sink wait for their checkpoint. It need not be there."""
    name = hashlib.sha256(f"{lineage}/{sink_uid}".encode()).hexdigest()[:24]
    return row_folder(configuration, job_id) / "sinks" / name


def remove_file(path: Path) -> None:
    """Remove a file of a sink, if it is there, unless a savepoint may need it."""
    if not _mark_of(path).exists():
        path.unlink(missing_ok=True)


class HeldRows:
    """A job's temporary folder of rows, from its start to the end of this process.

    While the process runs, it has a lock on a file beside the folder, so that the next process can tell the folder of a killed
    one, also of another container or machine, whose process ids mean nothing here.
    """

    def __init__(self, folder: Path) -> None:
        """Make the folder, with mode 0700, and remove those of processes that were killed; raises EngineError."""
        self._lock = folder.with_name(folder.name + _LOCK)
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            _remove_orphans(folder.parent)
            # It stays open until the end of the process, with which the lock ends.
            self._file: int | None = _locked(self._lock)
            folder.mkdir(mode=0o700, exist_ok=True)
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                raise EngineError(f"The folder {folder} belongs to someone else or is a link.", hint="set io.tmp.dirs.")
            folder.chmod(0o700)
        except OSError as error:
            raise EngineError(
                f"No folder for rows of DataFrames can be made in {folder.parent}: {error}", hint="set io.tmp.dirs."
            ) from error

    def release(self) -> None:
        """Leave the folder, if it is still there, to those who know that it is needed, such as the owner of a savepoint."""
        file, self._file = self._file, None
        if file is not None:
            self._lock.unlink(missing_ok=True)
            os.close(file)


def hold_rows(configuration: Configuration, job_id: str) -> HeldRows | None:
    """Make the folder of a job's rows, if it is a temporary one; None = rows are kept with the checkpoints."""
    return None if configuration.contains(options.CHECKPOINTS_DIRECTORY) else HeldRows(row_folder(configuration, job_id))


def _locked(path: Path) -> int:
    """Create a file and lock it; a job that is started again while its first process still runs has the lock, too."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_SH)
        # Meanwhile, another process may have taken it for one of a killed process.
        with contextlib.suppress(FileNotFoundError):
            if path.stat().st_ino == os.fstat(file).st_ino:
                return file
        os.close(file)


def _remove_orphans(parent: Path) -> None:
    """Remove the folders whose lock nobody holds."""
    for lock in parent.glob(f"{_prefix()}*{_LOCK}"):
        with contextlib.suppress(OSError), open(lock, "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.with_name(lock.name.removesuffix(_LOCK)), ignore_errors=True)
            lock.unlink()


def _prefix() -> str:
    return f"flinkish-rows-{os.getuid()}-"


def keep_rows(configuration: Configuration, job_id: str) -> None:
    """Keep all rows that a job has now for ever, because a savepoint of its user may need them."""
    folder = row_folder(configuration, job_id)
    if not folder.exists():
        return
    (folder / _KEPT).touch()
    sync(folder)
    for sink in (folder / "sinks").glob("*"):
        for path in sink.glob("*.parquet"):
            _mark_of(path).touch()
        sync(sink)


def remove_rows(configuration: Configuration, job_id: str) -> None:
    """Remove the rows of a job that has ended, unless a savepoint may need some."""
    try:
        folder = row_folder(configuration, job_id)
    except UnsupportedError:
        return
    if not (folder / _KEPT).exists():
        shutil.rmtree(folder, ignore_errors=True)


def _mark_of(path: Path) -> Path:
    return path.with_name(path.name + _KEPT)

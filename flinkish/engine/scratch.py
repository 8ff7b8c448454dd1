"""Folders that end with this process; what a killed one left behind is removed by the next."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from flinkish.common.errors import EngineError
from flinkish.engine.processes import ProcessId

#: Folders made, with the process that made them: one that was forked from it must not remove them.
_made: list[tuple[int, Path]] = []


def make_folder(parent: Path, prefix: str) -> Path:
    """Make a folder, mode 0700, named after this process: prefix, user, pid, when it began, pid namespace, a random part.

    Raises OSError.
    """
    owner = ProcessId.of(os.getpid())
    assert owner is not None
    name = f"{_mine(prefix)}{owner.pid}-{int(owner.created)}-{_pid_namespace()}-"
    folder = Path(tempfile.mkdtemp(prefix=name, dir=parent))
    _made[:] = [(pid, made) for pid, made in _made if made.exists()]
    _made.append((owner.pid, folder))
    return folder


class DiskFolder:
    """A folder for what may be large, made on first use: where io.tmp.dirs says, else on the disk of temporary files.

    Unlike the scratch folder of the Spark engine it never lies in memory.
    """

    def __init__(self, temporary: str | None, prefix: str) -> None:
        """Make one below `temporary`, which all tasks reach (None: the system's folder)."""
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
        """Remove the folder, if it was made, with all that is in it."""
        path, self._path = self._path, None
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)


def remove_made() -> None:
    """Remove what this process has made and not removed: at its end, when a job has not let itself be stopped."""
    for pid, folder in _made:
        if pid == os.getpid() and folder.exists():
            shutil.rmtree(folder, ignore_errors=True)


def remove_orphans(parent: Path, prefix: str) -> None:
    """Remove the folders of processes that ended without doing so (kill -9).

    Only where this machine alone writes: on shared storage a pid says nothing. Nor does one of another container.
    """
    for folder in parent.glob(f"{_mine(prefix)}*"):
        pid, created, namespace, *_ = [*folder.name.removeprefix(_mine(prefix)).split("-"), "", "", ""]
        if pid.isdigit() and created.isdigit() and namespace == _pid_namespace():
            owner = ProcessId.of(int(pid))
            if owner is None or abs(int(owner.created) - int(created)) > 1:
                shutil.rmtree(folder, ignore_errors=True)


def _mine(prefix: str) -> str:
    return f"{prefix}-{os.getuid()}-"


def _pid_namespace() -> str:
    """Return what tells the pids of one container from those of another; Linux only."""
    try:
        return "".join(filter(str.isdigit, os.readlink("/proc/self/ns/pid")))
    except OSError:
        return "0"

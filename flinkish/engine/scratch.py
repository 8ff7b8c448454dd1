"""Folders that end with this process; what a killed one left behind is removed by the next."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

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

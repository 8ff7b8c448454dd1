"""Starts slot hosts and their templates: makes a private folder, and starts a process that reports when it is ready."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path

from flinkish.common.errors import EngineError
from flinkish.engine.processes import ProcessId

#: A start takes 0.15 s (measured); a machine that is swapping needs much longer.
START_TIMEOUT_S = 60
#: Maximum length of a folder's path: the address of a Unix socket has at most 107 bytes on Linux, 103 on macOS.
_LONGEST_FOLDER = 85


def short_path(name: str) -> Path:
    """Return the path of a folder for sockets: below the folder of temporary files or, if that path is too long, below /tmp."""
    path = Path(tempfile.gettempdir()) / name
    return path if len(str(path)) < _LONGEST_FOLDER else Path("/tmp") / name


def make_folder(path: Path) -> None:
    """Create a folder that only this user can access; raises EngineError for one that another user created."""
    path.mkdir(mode=0o700, exist_ok=True)
    status = path.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or path.is_symlink():
        raise EngineError(
            f"The folder {path} for slot hosts is not ours alone: owner {status.st_uid}, mode {status.st_mode & 0o777:o}; "
            f"expected owner {os.getuid()}, mode 700.",
            hint="remove it, and set TMPDIR to a folder of your own.",
        )


def start_process(module: str, python: str, environment: Mapping[str, str], order: Mapping[str, object]) -> ProcessId | None:
    """Run a module in a new process; return the process when it reports that it is ready, None if it does not.

    It reads its order from stdin as JSON. The entry `readiness` is the descriptor to which it writes a byte when it is ready.
    Raises OSError if the interpreter cannot be run.
    """
    ready, readiness = os.pipe()
    with open(ready, "rb", buffering=0) as ready_pipe:
        try:
            process = subprocess.Popen(
                [python, "-m", module],
                stdin=subprocess.PIPE,
                stdout=2,  # stdout of a Spark worker's daemon is a protocol channel
                pass_fds=(readiness,),
                start_new_session=True,  # neither Ctrl-C nor the end of the worker's process group ends it
                env=dict(environment),
            )
        finally:
            os.close(readiness)
        # Reap the process, so that it does not stay a zombie while this worker lives.
        threading.Thread(target=process.wait, name=f"flinkish-reaper-{process.pid}", daemon=True).start()
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError), process.stdin as pipe:
            pipe.write(json.dumps({**order, "readiness": readiness}).encode())
        readable, _, _ = select.select([ready_pipe], [], [], START_TIMEOUT_S)
        started = bool(readable and ready_pipe.read(1))
    found = ProcessId.of(process.pid)
    if not started or found is None:
        process.kill()
        return None
    return found

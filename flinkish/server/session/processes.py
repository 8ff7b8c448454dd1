"""Starts, observes and kills drivers as processes of this machine; other implementations are for tests."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from flinkish.common.errors import EngineError
from flinkish.engine.processes import ProcessId
from flinkish.server.session.process_location import this_location


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A process to start."""

    arguments: Sequence[str]
    environment: Mapping[str, str]
    folder: Path
    log: Path
    stdout: Path


class Processes:
    """The processes of this location; all methods may be called from any thread."""

    def __init__(self) -> None:
        #: The processes that were started here and may be running, with their start times: only their parent can reap them.
        self._children: dict[int, tuple[subprocess.Popen[bytes], float]] = {}

        #: For records of these processes; see `process_location`.
        self.location = this_location()

    def start(self, command: Command) -> tuple[int, float]:
        """Start a process in a session of its own; return its id and start time. Raises EngineError."""
        # Reap children that nobody checks any more, such as the spark-submit of a driver that was killed.
        for pid, (earlier, _) in list(self._children.items()):
            if earlier.poll() is not None:
                self._children.pop(pid, None)
        try:
            with _append(command.log) as log, _append(command.stdout) as stdout:
                child = subprocess.Popen(
                    command.arguments,
                    stdin=subprocess.DEVNULL,
                    stdout=stdout,
                    stderr=log,
                    cwd=command.folder,
                    env=dict(command.environment),
                    start_new_session=True,  # a driver outlives the Dispatcher
                )
        except OSError as error:
            raise EngineError(
                f"the driver could not be started: {error}", hint="check the free space, and the folder of env.log.dir."
            ) from error
        try:
            found = ProcessId.of(child.pid)
        except OSError as error:
            # Without its start time, the process could not be recorded.
            child.kill()
            child.wait()
            raise EngineError(f"the driver could not be started: {error}") from error
        created = 0.0 if found is None else found.created
        self._children[child.pid] = child, created
        return child.pid, created

    def is_alive(self, pid: int, created: float) -> bool:
        """Return whether the process with this id and this start time (seconds since the epoch) is running."""
        child, started = self._children.get(pid, (None, 0.0))
        if child is not None and started == created:
            if child.poll() is None:
                return True
            self._children.pop(pid, None)
            return False
        return ProcessId(pid, created).is_alive()

    def kill(self, pid: int, created: float) -> None:
        """Kill a process and its process group, if it is running."""
        if self.is_alive(pid, created):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                # With spark-submit, the driver that reports is not the process that was started, but is in its group.
                os.killpg(os.getpgid(pid), signal.SIGKILL)


def driver_command(python: str = sys.executable) -> list[str]:
    """Return the command that starts a driver directly."""
    return [python, "-m", "flinkish.cli.driver"]


def submit_command(script: Path, python: str = sys.executable) -> list[str]:
    """Return the command that starts a driver on this machine with `spark-submit`; further options are in the environment.

    It sets the deploy mode, because Spark's own configuration may have another one.
    """
    program = [python, "-c", "from flinkish.cli.main import main; main()"]
    return [*program, "submit", "--deploy-mode", "client", str(script)]


def _append(path: Path) -> IO[bytes]:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")

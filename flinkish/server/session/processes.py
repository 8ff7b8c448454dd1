"""Starts, observes and kills drivers as processes of this machine, and decides what a process id in a record says here.

A record may be from another machine or container, or from before a restart. Names of hosts do not decide that: containers, and
clones of a machine, often have the same one. A location names the boot of the kernel, the namespaces of the process, and the
machine. All of them are facts of the kernel that no image contains, or are not used alone.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from flinkish.common.errors import EngineError
from flinkish.engine.processes import ProcessId, namespace


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

        #: For records of these processes; see `Location`.
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


def submit_command(script: Path) -> list[str]:
    """Return the command that starts a driver on this machine with `spark-submit`; further options are in the environment.

    It sets the deploy mode, because Spark's own configuration may have another one.
    """
    program = "from flinkish.cli.main import main; main()"
    return [sys.executable, "-c", program, "submit", "--deploy-mode", "client", str(script)]


def _append(path: Path) -> IO[bytes]:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab")


class Location(NamedTuple):
    """The machine, container and network in which a process runs. Records contain its text."""

    #: Id of this run of the kernel: all containers of a machine have the same one, and no two machines do.
    boot: str
    #: The pid namespace, in which ids of processes are unique, and the network namespace, in which 127.0.0.1 is one host.
    processes: str
    network: str
    #: A hash that is the same after a restart of the machine, and different on any other one; "" = it is not known.
    machine: str

    def __str__(self) -> str:
        return "/".join(self)

    @classmethod
    def parse(cls, text: str) -> Location:
        """Return the location that a record names; parts that a damaged record lacks are not known."""
        return cls(*[*text.split("/"), "", "", ""][:4])


def is_running(there: str, here: str, runs_here: Callable[[], bool]) -> bool | None:
    """Return whether a process that was recorded at `there` is running; None = that cannot be known at `here`.

    `runs_here` returns whether it is a process of `here`. That decides if boot and pid namespace are the same. After a restart of
    the machine, all processes of before are gone. Nothing is known of other machines and other containers. A container that is
    started again is another one: its pid namespace is new, and nothing shows that the former one is gone.
    """
    before, now = Location.parse(there), Location.parse(here)
    if (before.boot, before.processes) == (now.boot, now.processes):
        return runs_here()
    if before.boot != now.boot and before.machine and before.machine == now.machine:
        return False
    return None


def has_same_loopback(there: str, here: str) -> bool:
    """Return whether 127.0.0.1 is the same host at both locations."""
    before, now = Location.parse(there), Location.parse(here)
    return (before.boot, before.network) == (now.boot, now.network)


@functools.cache
def this_location() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        # Not Linux, so no containers; the start times of processes show which ones are from before a restart.
        return str(Location(boot=f"{socket.gethostname()}-{uuid.getnode():x}", processes="", network="", machine=""))
    return str(Location(boot=boot, processes=str(namespace("pid")), network=str(namespace("net")), machine=machine_of(Path("/"))))


def machine_of(root: Path) -> str:
    """Return a hash of what stays the same on a machine below `root`; "" if that does not distinguish it from others.

    Images may contain /etc/machine-id and a host name, so the addresses of the machine's own network cards are needed, too:
    containers have virtual ones, which do not count.
    """
    try:
        parts = [socket.gethostname(), (root / "etc/machine-id").read_text().strip()]
        cards = sorted(
            (card / "address").read_text().strip() for card in (root / "sys/class/net").iterdir() if (card / "device").exists()
        )
    except OSError:
        return ""
    cards = [address for address in cards if address.strip("0:")]
    if not all(parts) or not cards:
        return ""
    return hashlib.sha256("\n".join(["flinkish", *parts, *cards]).encode()).hexdigest()[:32]

"""Finds, starts and ends slot hosts: the processes in which an engine with workers on other machines runs its slots.

A shim is the code of such an engine that calls a host; on Spark it runs in the Python workers of the executors. Each slot of an
attempt has at most one host per executor. Its files are in one folder per attempt and executor (mode 0700): `s<slot>.sock` is the
socket; `s<slot>.lock` is locked during a call, and contains the identity of the host and whether it is in a call. The kernel
frees the lock of a shim that died, but the mark "in a call" stays; so the next shim knows that the host was abandoned, kills it
and starts another. The engine also stores the content of the host's heap as its state (on Spark: in GroupState).
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import signal
import stat
import struct
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Client
from pathlib import Path

from flinkish.common.clock import SystemClock
from flinkish.common.errors import EngineError
from flinkish.engine.processes import ProcessId
from flinkish.engine.slots import template
from flinkish.engine.slots.messages import Call, Reply, receive_reply, send_call
from flinkish.engine.slots.template import make_folder, short_path, start_process

#: The content of a lock file: pid, start time of the process, whether it is in a call.
_RECORD = struct.Struct("<qd?")
#: Spark kills a cancelled task's worker after 2 s (spark.python.task.killTimeout); until then it may hold the lock.
_ABANDONED_AFTER_MS = 5_000
_LOCK_TIMEOUT_MS = 30_000
#: A host that dies in a call is replaced and the call repeated, as Spark would do; after this many tries, its code is at fault.
_TRIES = 3
_POLL_S = 0.01

_clock = SystemClock()


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFolder:
    """A folder for scratch files in the working folder of each executor, because executors share none with the driver.

    It is removed with the executor's working folder. If a slot moves to another executor, its state is not found there, and the
    attempt fails.
    """

    #: Name of the folder, the same on all executors.
    name: str
    #: Number of the attempt among those of its engine; its files are in a subfolder of this name.
    attempt: int
    #: The content of the program file.
    program: bytes


class HostLostError(Exception):
    """The slot host ended in the middle of a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostConfig:
    """The data that a shim needs to find or start the hosts of one attempt."""

    attempt_id: str
    #: Secret of the attempt, 32 hex digits, which clients of a host must know.
    key: str
    #: The file written by `pickling.dump_program`. When it is removed, the attempt is over.
    program_file: str
    #: Set if executors cannot access `program_file`: each writes its own, below the folder described here.
    own_folder: OwnFolder | None = None
    #: Whether all executors are on the driver's machine.
    one_machine: bool = False
    #: Class of the slot task, as "module:Class".
    task: str
    #: The int that represents each slot in packed frames; Spark sends it to the slot's partition.
    slot_values: tuple[int, ...]
    #: The driver's sys.path if workers run on its machine, so that modules in the folder of the job script are found.
    path: tuple[str, ...] = ()
    #: Entries of sys.path that were sent to the executors' working folders, relative to these.
    sent: tuple[str, ...] = ()
    #: The interpreter of the hosts; None = the one that runs Spark's workers.
    python: str | None = None
    #: Milliseconds without a call after which a host ends by itself, unless the program file was touched in the meantime, as the
    #: driver does while no epoch begins.
    silence_ms: int = 600_000
    #: Whether every host needs Arrow: for checkpoints or columns.
    uses_arrow: bool = False


def folder_prefix(attempt_id: str) -> str:
    """Return the prefix of the names of an attempt's host folders."""
    return f"flinkish-hosts-{attempt_id[:16]}-"


def _folder_path(attempt_id: str, executor: ProcessId) -> Path:
    return short_path(f"{folder_prefix(attempt_id)}{executor.pid}")


def call(config: HostConfig, slot: int, executor: ProcessId, request: Call) -> Reply:
    """Run a level on the host of a slot and return its reply; starts the host if there is none.

    `executor` is the process that the host belongs to: the host ends when it is gone. On Spark this is the executor's JVM.

    Raises EngineError if several hosts in a row end in the call, or if the attempt is over.
    """
    slot_host = _SlotHost(config, slot, executor)
    with slot_host.locked():
        for attempt in range(1, _TRIES + 1):
            try:
                return slot_host.call(request)
            except HostLostError as error:
                if attempt == _TRIES:
                    raise EngineError(
                        f"The process of slot {slot} ended {_TRIES} times in level {request.level} of the same epoch: {error}",
                        hint="a crash in native code or too little memory; see the executor's stderr, and `dmesg` for the "
                        "kernel's out-of-memory killer.",
                    ) from None
    raise AssertionError("unreachable")


class _SlotHost:
    """The host of one slot, as seen by a shim that has its lock or waits for it."""

    def __init__(self, config: HostConfig, slot: int, executor: ProcessId) -> None:
        self._config = config
        self._slot = slot
        self._executor = executor
        own = config.own_folder
        self._program_file = config.program_file if own is None else str(_own_program_file(own, working_folder(executor)))
        self._refuse_if_over()
        folder = _folder_path(config.attempt_id, executor)
        make_folder(folder)
        self._lock_file = folder / f"s{slot}.lock"
        self._address = str(folder / f"s{slot}.sock")
        self._descriptor = -1

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        self._descriptor = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._acquire()
            yield
        finally:
            os.close(self._descriptor)  # frees the lock

    def _acquire(self) -> None:
        began = _clock.monotonic()
        killed = False
        while True:
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            waited = _clock.monotonic() - began
            if waited > _ABANDONED_AFTER_MS and not killed:
                # The lock belongs to a task that Spark has given up, otherwise this one would not run: end its call.
                self._kill()
                killed = True
            if waited > _LOCK_TIMEOUT_MS:
                raise EngineError(f"Another task holds slot {self._slot} since {waited} ms: {self._lock_file}")
            threading.Event().wait(_POLL_S)

    def call(self, request: Call) -> Reply:
        host, in_call = self._read()
        if in_call or host is None or not host.is_alive():
            # If the attempt is over, the host is closing its user functions: do not disturb it.
            self._refuse_if_over()
            self._kill()
            host = self._start()
        self._write(host, in_call=True)
        try:
            with Client(self._address, "AF_UNIX") as connection:
                connection.send_bytes(self._config.key.encode())
                send_call(connection, request)
                reply = receive_reply(connection)
        except (EOFError, OSError) as error:
            raise HostLostError(f"{type(error).__name__} {error}".strip()) from error
        self._write(host, in_call=False)
        return reply

    def _refuse_if_over(self) -> None:
        if not os.path.exists(self._program_file):
            raise EngineError(f"Attempt {self._config.attempt_id} is over: {self._program_file} is gone.")

    def _read(self) -> tuple[ProcessId | None, bool]:
        return _parse(os.pread(self._descriptor, _RECORD.size, 0))

    def _write(self, host: ProcessId, *, in_call: bool) -> None:
        os.pwrite(self._descriptor, _RECORD.pack(host.pid, host.created, in_call), 0)

    def _kill(self) -> None:
        host, _ = self._read()
        if host is not None:
            host.send(signal.SIGKILL)
            _wait_for_end([host], 10_000)

    def _start(self) -> ProcessId:
        config = self._config
        # After what was sent, the worker's own path: with spark-submit --py-files, the executor's copies are used.
        own = [str(working_folder(self._executor) / entry) for entry in config.sent]
        path = [entry for entry in (*own, *sys.path, *config.path) if entry]
        python = config.python or sys.executable
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(path))}
        self._unlink_socket()
        try:
            return template.fork_host(self._order(), self._executor, python, environment)
        except (template.TemplateError, EngineError, OSError):
            self._unlink_socket()  # the host starts as a process of its own
        host = start_process("flinkish.engine.slots.slot_host", python, environment, self._order())
        if host is None:
            raise EngineError(
                f"The process of slot {self._slot} could not start: {python} -m flinkish.engine.slots.slot_host.",
                hint="is flinkish installed on the executors, or sent with --py-files? The executor's stderr has the details.",
            )
        return host

    def _unlink_socket(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._address)

    def _order(self) -> dict[str, object]:
        config = self._config
        return {
            "address": self._address,
            "key": config.key,
            "program_file": self._program_file,
            "own_folder": config.own_folder is not None,
            "one_machine": config.one_machine,
            "task": config.task,
            "slot": self._slot,
            "slot_values": config.slot_values,
            "silence_ms": config.silence_ms,
            "uses_arrow": config.uses_arrow,
            "executor": [self._executor.pid, self._executor.created],
        }


def working_folder(executor: ProcessId) -> Path:
    """Return the working folder of an executor, which user code in its workers cannot change. Linux only; raises EngineError."""
    try:
        return Path(os.readlink(f"/proc/{executor.pid}/cwd"))
    except OSError as error:
        raise EngineError(f"The working folder of the executor, process {executor.pid}, cannot be found: {error}") from error


def _own_program_file(own: OwnFolder, parent: Path) -> Path:
    """Return this executor's program file; the first call of an attempt writes it and removes the files of earlier attempts.

    Raises EngineError if a later attempt has begun on this executor.
    """
    root = parent / own.name
    file = root / str(own.attempt) / "program"
    if file.exists():
        return file
    # Spark may have created the folder, with the permissions of the user's umask.
    file.parent.mkdir(parents=True, exist_ok=True)
    root.chmod(0o700)
    attempts = {int(folder.name): folder for folder in root.iterdir() if folder.name.isdigit()}
    if max(attempts) > own.attempt:
        raise EngineError(f"Attempt {own.attempt} is over: attempt {max(attempts)} has begun on this executor.")
    for number, folder in attempts.items():
        if number < own.attempt:
            shutil.rmtree(folder, ignore_errors=True)
    written = file.with_name(f"program-{os.getpid()}")
    written.write_bytes(own.program)
    written.rename(file)
    return file


def _parse(record: bytes) -> tuple[ProcessId | None, bool]:
    if len(record) < _RECORD.size:
        return None, False
    pid, created, in_call = _RECORD.unpack(record)
    return ProcessId(pid, created), in_call


def _wait_for_end(processes: list[ProcessId], timeout_ms: int) -> list[ProcessId]:
    """Wait until all have ended and return those that have not."""
    deadline = _clock.monotonic() + timeout_ms
    left = processes
    while left and _clock.monotonic() < deadline:
        left = [process for process in left if process.is_alive()]
        if left:
            threading.Event().wait(_POLL_S)
    return left


def hosts_of(attempt_id: str) -> list[ProcessId]:
    """Return the hosts of an attempt that run on this machine."""
    found = []
    for folder in _folders(attempt_id):
        # Finds none if the last host has just ended by itself and removed the folder, for which Path.glob raises an error.
        for name in glob.glob("s*.lock", root_dir=folder):
            with contextlib.suppress(OSError):
                host, _ = _parse((folder / name).read_bytes())
                if host is not None and host.is_alive():
                    found.append(host)
    return found


def _folders(attempt_id: str) -> list[Path]:
    roots = {Path(tempfile.gettempdir()), Path("/tmp")}
    return [folder for root in roots for folder in root.glob(f"{folder_prefix(attempt_id)}*") if _is_ours(folder)]


def _is_ours(folder: Path) -> bool:
    """Tell whether this user created a folder: the pids in another user's folder may be any of our processes."""
    try:
        status = folder.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077


def close_hosts(attempt_id: str, *, grace_ms: int) -> None:
    """End the hosts of an attempt on this machine and remove their folders.

    A host first gets SIGTERM, so that user functions are closed, and is killed after the grace period. Hosts on other machines
    end by themselves when the program file is gone. Call this after removing that file, so that no shim starts another host.
    """
    hosts = hosts_of(attempt_id)
    for host in hosts:
        host.send(signal.SIGTERM)
    for host in _wait_for_end(hosts, grace_ms):
        host.send(signal.SIGKILL)
    _wait_for_end(hosts, 2_000)
    for folder in _folders(attempt_id):
        shutil.rmtree(folder, ignore_errors=True)

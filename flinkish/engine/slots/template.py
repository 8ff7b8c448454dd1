"""A process with all imports of slot hosts, which forks them: a host starts in 30 ms instead of 400 ms for a new interpreter.

`python -m flinkish.engine.slots.template`, one for each executor and each environment in which its workers run; the first host
starts it. It has one thread, runs no user code, and ends with the executor, or when no host was requested for a while. If
it cannot start, hosts are started as new processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gc
import hashlib
import importlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flinkish.common.errors import EngineError
from flinkish.engine.processes import ProcessId

#: A start takes 0.15 s (measured); a machine that is swapping needs much longer.
_START_TIMEOUT_S = 60
#: Maximum length of a folder's path: the address of a Unix socket has at most 107 bytes on Linux, 103 on macOS.
_LONGEST_FOLDER = 85
#: Seconds.
_REQUEST_TIMEOUT = 10.0
_WATCH_INTERVAL = 1.0
#: Seconds without requests after which it ends; without Arrow it takes 30 MB, and half a second to start.
_IDLE_LIMIT = 120.0
#: Length of the order; pid of the host.
_LENGTH, _PID = struct.Struct("<I"), struct.Struct("<q")

#: What hosts need for checkpoints and columns.
_ARROW_MODULES = (
    "flinkish.runtime.operators.columns",
    "flinkish.runtime.operators.window.columns",
    "flinkish.runtime.state.restore",
    "flinkish.runtime.state.snapshot",
    "pyarrow.parquet",
)


class TemplateError(Exception):
    """A template did not provide a host."""


# -- starting processes ---------------------------------------------------------------------------------------------------------


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
        readable, _, _ = select.select([ready_pipe], [], [], _START_TIMEOUT_S)
        started = bool(readable and ready_pipe.read(1))
    found = ProcessId.of(process.pid)
    if not started or found is None:
        process.kill()
        return None
    return found


# -- asking for a host -----------------------------------------------------------------------------------------------------------


def fork_host(order: Mapping[str, object], executor: ProcessId, python: str, environment: Mapping[str, str]) -> ProcessId:
    """Return a host that carries out an order and has bound its socket; `python` is its interpreter.

    Raises TemplateError, EngineError and OSError, possibly after the host was forked; without calls, that host ends by itself.
    """
    module = str(order["task"]).partition(":")[0]
    folder = _folder_path(executor, [python, module, sorted(environment.items()), os.getcwd()])
    make_folder(folder)
    address = str(folder / "sock")
    connection = _connect(address)
    if connection is None:
        with open(folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            connection = _connect(address)  # another slot's shim may have started it in the meantime
            if connection is None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(address)
                request = {"address": address, "executor": [executor.pid, executor.created], "module": module}
                if start_process(__name__, python, environment, request) is None:
                    raise TemplateError("the template of hosts did not start")
                connection = _connect(address)
    if connection is None:
        raise TemplateError("the template of hosts has ended")
    with connection:
        content = json.dumps(dict(order)).encode()
        connection.sendall(_LENGTH.pack(len(content)) + content)
        (pid,) = _PID.unpack(_receive(connection, _PID.size))
        _receive(connection, 1)
    host = ProcessId.of(pid)
    if host is None:
        raise TemplateError(f"the host {pid} has ended")
    return host


def _folder_path(executor: ProcessId, environment: list[object]) -> Path:
    digest = hashlib.sha256(json.dumps(environment).encode()).hexdigest()[:12]
    return short_path(f"flinkish-template-{executor.pid}-{digest}")


def _connect(address: str) -> socket.socket | None:
    """Return a connection to the template at an address, None if there is none."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_START_TIMEOUT_S)
    try:
        connection.connect(address)
    except OSError:
        connection.close()
        return None
    return connection


def _receive(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        piece = connection.recv(count - len(received))
        if not piece:
            raise TemplateError("the host ended while it started")
        received += piece
    return received


# -- the template ----------------------------------------------------------------------------------------------------------------


def main() -> None:
    """Import modules, bind the socket, report readiness, and fork hosts on request."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    request = json.loads(sys.stdin.buffer.read())
    folder = Path(request["address"]).parent
    from flinkish.engine.slots import slot_host

    importlib.import_module(request["module"])
    importlib.import_module("flinkish.datastream")  # the functions of nearly every program refer to it
    # numpy and Arrow have threads, which take care of forks by themselves.
    warnings.filterwarnings("ignore", ".* is multi-threaded, use of fork", DeprecationWarning)
    order = None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        before = os.umask(0o077)
        listener.bind(request["address"])
        os.umask(before)
        listener.listen(64)
        os.write(request["readiness"], b"1")
        os.close(request["readiness"])
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the hosts
        _share_imports()
        order = _serve(listener, ProcessId(*request["executor"]))
    if order is not None:
        slot_host.run(slot_host.Order(**order))
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


def _share_imports() -> None:
    """Keep the pages of what is imported out of garbage collection, so that hosts share them."""
    gc.collect()
    gc.freeze()


@functools.cache
def _import_arrow() -> None:
    """Import once what each host would import: with pandas, which pyarrow imports for its first array, it takes 0.7 s."""
    for module in _ARROW_MODULES:
        importlib.import_module(module)
    importlib.import_module("pyarrow").array([0])
    _share_imports()


def _serve(listener: socket.socket, executor: ProcessId) -> dict[str, Any] | None:
    """Fork hosts until the executor is gone or there are no requests; return an order in each host, None in the template."""
    with _end_of(executor) as ended:
        idle = 0.0
        while executor.is_alive() and idle < _IDLE_LIMIT:
            readable, _, _ = select.select([listener.fileno(), *ended], [], [], _WATCH_INTERVAL)
            idle = 0.0 if readable else idle + _WATCH_INTERVAL
            if listener.fileno() in readable:
                with contextlib.suppress(OSError, ValueError, TemplateError):  # the requesting process has ended
                    connection, _ = listener.accept()
                    order = _fork(connection)
                    if order is not None:
                        return order
    return None


def _fork(connection: socket.socket) -> dict[str, Any] | None:
    with connection:
        connection.settimeout(_REQUEST_TIMEOUT)
        (length,) = _LENGTH.unpack(_receive(connection, _LENGTH.size))
        order: dict[str, Any] = json.loads(_receive(connection, length))
        if order["uses_arrow"]:
            _import_arrow()
        if os.fork():
            return None
        # In the host: create a new session, as for a new process.
        try:
            os.setsid()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            connection.settimeout(None)
            connection.sendall(_PID.pack(os.getpid()))
            order["readiness"] = connection.detach()
        except BaseException:
            os._exit(1)  # the requesting process has ended; this process must not continue as a second template
        return order


@contextlib.contextmanager
def _end_of(process: ProcessId) -> Iterator[list[int]]:
    """Yield the descriptors that select() finds readable when a process ends, if the system supports this."""
    descriptors = []
    with contextlib.suppress(AttributeError, OSError):
        descriptors.append(os.pidfd_open(process.pid))
    try:
        yield descriptors
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


if __name__ == "__main__":
    # The classes of the job script become attributes of __main__, so use the imported module to avoid conflicts of names.
    from flinkish.engine.slots.template import main as imported_main

    imported_main()

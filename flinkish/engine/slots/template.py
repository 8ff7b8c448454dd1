"""A process with all imports of slot hosts, which forks them: a host starts in 30 ms instead of 400 ms for a new interpreter.

`python -m flinkish.engine.slots.template`, one for each executor and each environment in which its workers run; the first host
starts it. It has one thread, runs no user code, and ends with the executor, or when no host was requested for a while. If
it cannot start, hosts are started as new processes.
"""

from __future__ import annotations

import contextlib
import fcntl
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
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from flinkish.engine.processes import ProcessId
from flinkish.engine.slots.starting import START_TIMEOUT_S, make_folder, short_path, start_process

#: Seconds.
_REQUEST_TIMEOUT = 10.0
_WATCH_INTERVAL = 1.0
#: Seconds without requests after which it ends; it takes 30 MB, and half a second to start.
_IDLE_LIMIT = 120.0
#: Length of the order; pid of the host.
_LENGTH, _PID = struct.Struct("<I"), struct.Struct("<q")


class TemplateError(Exception):
    """A template did not provide a host."""


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
    connection.settimeout(START_TIMEOUT_S)
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
    order = None
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        before = os.umask(0o077)
        listener.bind(request["address"])
        os.umask(before)
        listener.listen(64)
        os.write(request["readiness"], b"1")
        os.close(request["readiness"])
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the hosts
        gc.collect()
        gc.freeze()  # so that hosts share the pages of what is imported
        order = _serve(listener, ProcessId(*request["executor"]))
    if order is not None:
        slot_host.run(slot_host.Order(**order))
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


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

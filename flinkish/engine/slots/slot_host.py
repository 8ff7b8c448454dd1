"""The process of one slot on one executor in one attempt: `python -m flinkish.engine.slots.slot_host`, started by a shim.

It takes one call at a time, in its main thread, because clients that user functions open often belong to the thread that created
them. It ends on SIGTERM, when the executor or the attempt's program file is gone, or after a long time without calls; in
all cases user functions are closed first. It imports no pyspark, and Arrow only for jobs that use it, so it starts in 0.15 s.
"""

from __future__ import annotations

import contextlib
import errno
import hmac
import json
import os
import shutil
import signal
import sys
import threading
import traceback
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from pkgutil import resolve_name
from types import FrameType
from typing import TYPE_CHECKING, Any

from flinkish.common import pickling
from flinkish.common.closing import Unwinding
from flinkish.common.files import store_settings
from flinkish.engine import dependencies
from flinkish.engine.slots.frame_files import FrameFiles
from flinkish.engine.slots.messages import Call, Reply, busy_file, pack, receive_call, send_reply

if TYPE_CHECKING:
    from flinkish.runtime.protocol import EpochCommand
    from flinkish.runtime.slot import SlotTask

_WATCH_INTERVAL_S = 1.0
#: Maximum seconds for close() of user functions before the process ends anyway.
_CLOSE_GRACE_S = 10.0
#: Maximum bytes of what a client sends as the key.
_LONGEST_KEY = 64
_OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)


class Closing(Unwinding):
    """Raised in the main thread to end everything that it does, including user code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    address: str
    key: str
    program_file: str
    task: str
    slot: int
    slot_values: list[int]
    silence_ms: int
    #: Pid and start time of the process that this one belongs to.
    executor: list[Any]
    readiness: int
    #: Whether scratch files are beside the program file, instead of in the folder that the program names.
    own_folder: bool = False
    #: Whether all slots are on this machine, so that large frames go through files.
    one_machine: bool = False
    #: Whether the template imports Arrow before it forks the host.
    uses_arrow: bool = False


class _Host:
    def __init__(self, order: Order) -> None:
        self._order = order
        self._task: SlotTask | None = None
        self._last_command: tuple[bytes, EpochCommand] | None = None
        self._files: FrameFiles | None = None
        self.calls = 0
        self.in_call = False
        self._closing = False

    def serve(self, listener: Listener) -> None:
        """Take calls until `Closing` is raised."""
        while True:
            try:
                with listener.accept() as connection:
                    self._check_key(connection)
                    request = receive_call(connection)
                    self.in_call = True
                    self._answer(connection, request)
            except (EOFError, OSError, AuthenticationError) as error:
                if getattr(error, "errno", None) in _OUT_OF_DESCRIPTORS:
                    raise  # it can accept no more calls; when it ends, shims start another host instead of waiting for ever
                continue  # the shim died; the next one sees the mark in the lock file and ends this process
            finally:
                self.in_call = False
                self.calls += 1

    def _check_key(self, connection: Connection) -> None:
        """Raise AuthenticationError unless the client knows the key: a call is pickled, so it could run any code.

        The key is sent, as only this user's processes can connect. To prove it in both directions, as `Listener` does with
        `authkey`, takes three round trips between processes that wait for a processor: as long as the rest of a short call.
        """
        if not hmac.compare_digest(connection.recv_bytes(_LONGEST_KEY), self._order.key.encode()):
            raise AuthenticationError("wrong key")

    def _answer(self, connection: Connection, request: Call) -> None:
        try:
            reply = self._run(request)
        except Unwinding:
            raise
        except BaseException:
            reply = Reply(error=traceback.format_exc())
        send_reply(connection, reply)

    def _run(self, request: Call) -> Reply:
        order = self._order
        if self._task is None:
            self._task = _load_task(order)
            if order.one_machine:
                self._files = FrameFiles(Path(order.program_file).parent / "frames", order.slot)
        command = self._command(request)
        frames = [frame for packed in request.frames for frame in packed.frames(order.slot)]
        if self._files is not None:
            self._files.begin_epoch(command.epoch)
            frames = self._files.get(frames)
        result = self._task.run_level(request.level, command, request.state, frames)
        sent = result.frames if self._files is None else self._files.put(result.frames)
        return Reply(state=result.state, report=pickling.dumps(result.report), frames=list(pack(sent, order.slot_values)))

    def _command(self, request: Call) -> EpochCommand:
        """Decode the command once for all levels of an epoch."""
        name = request.command_file.encode() if request.command_file else request.command
        if self._last_command is None or self._last_command[0] != name:
            data = Path(request.command_file).read_bytes() if request.command_file else request.command
            self._last_command = (name, pickling.loads(data))
        return self._last_command[1]

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Interrupt the main thread, once: closing itself is not interrupted."""
        if not self._closing:
            self._closing = True
            raise Closing

    def close(self) -> None:
        """Close the user functions; print their errors to stderr, because the attempt has ended by a failure or cancellation."""
        self._closing = True
        if self._task is not None:
            try:
                self._task.close()
            except BaseException:
                print(f"slot {self._order.slot}: closing a user function failed", file=sys.stderr)
                traceback.print_exc()


def _load_task(order: Order) -> SlotTask:
    dependencies.take_over(Path(order.program_file).parent)
    program = pickling.load_program(Path(order.program_file).read_bytes())
    if order.own_folder:
        program = program.moved_to(Path(order.program_file).parent)
    store_settings.use(program.configuration)
    task: SlotTask = resolve_name(order.task)(program, order.slot)
    return task


def _watch(order: Order, host: _Host) -> None:
    """Make the main thread end when this process is no longer needed, and end the process if the thread does not."""
    from flinkish.engine.processes import ProcessId

    executor = ProcessId(*order.executor)
    silent_s, calls, touched = 0.0, -1, 0
    busy = None  # so that the name left by a host that was killed is overwritten
    pause = threading.Event()
    while executor.is_alive() and (now_touched := _touched(order.program_file)) is not None:
        # Only calls that take longer than an interval are looked at.
        now_busy = _operator() if host.in_call and host.calls == calls else ""
        if now_busy != busy:
            busy = now_busy
            with contextlib.suppress(OSError):
                busy_file(order.program_file, order.slot).write_text(busy)
        if host.in_call or host.calls != calls or now_touched != touched:
            silent_s, calls, touched = 0.0, host.calls, now_touched
        if silent_s * 1000 > order.silence_ms:
            break
        pause.wait(_WATCH_INTERVAL_S)
        silent_s += _WATCH_INTERVAL_S
    os.kill(os.getpid(), signal.SIGTERM)
    pause.wait(_CLOSE_GRACE_S)
    _remove_files(order)
    os._exit(0)


def _operator() -> str:
    """Return the name of the operator that the main thread is in; an empty text if it is in none."""
    from flinkish.runtime.failing import working

    operator = working(sys._current_frames().get(threading.main_thread().ident or 0))
    return "" if operator is None else operator.node.name


def _touched(path: str) -> int | None:
    """Return when the file was last written or touched; None if it is gone, 0 if its storage does not answer."""
    try:
        return os.stat(path).st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return 0


def _remove_files(order: Order) -> None:
    """Remove the socket, and also the lock file if no shim can use it: the attempt is over, or the executor is gone."""
    from flinkish.engine.processes import ProcessId

    with contextlib.suppress(OSError):
        os.unlink(order.address)
    if not os.path.exists(order.program_file) or not ProcessId(*order.executor).is_alive():
        with contextlib.suppress(OSError):
            os.unlink(order.address.removesuffix(".sock") + ".lock")
        with contextlib.suppress(OSError):
            os.rmdir(os.path.dirname(order.address))
        if order.own_folder:
            # No other executor uses it.
            shutil.rmtree(os.path.dirname(order.program_file), ignore_errors=True)


def _listen(order: Order) -> Listener:
    """Bind the socket, for this user only; other files of the tasks have the permissions of the user's umask."""
    before = os.umask(0o077)
    try:
        return Listener(order.address, "AF_UNIX", backlog=16)
    finally:
        os.umask(before)


def main() -> None:
    """Read the order from stdin and carry it out."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    run(Order(**json.loads(sys.stdin.buffer.read())))


def run(order: Order) -> None:
    """Bind the socket, report readiness, serve calls, and end the process."""
    host = _Host(order)
    try:
        signal.signal(signal.SIGTERM, host.on_signal)
        with _listen(order) as listener:
            os.write(order.readiness, b"1")
            os.close(order.readiness)
            threading.Thread(target=_watch, args=(order, host), name="flinkish-watch", daemon=True).start()
            host.serve(listener)
    except Closing:
        pass
    except BaseException:
        traceback.print_exc()
    host.close()
    _remove_files(order)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    # Threads that user code has started must not keep the process alive.
    os._exit(0)


if __name__ == "__main__":
    # The classes of the job script become attributes of __main__, so use the imported module to avoid conflicts of names.
    from flinkish.engine.slots.slot_host import main as imported_main

    imported_main()

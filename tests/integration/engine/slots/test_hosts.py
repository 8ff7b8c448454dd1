"""Slot hosts without Spark: a shim's calls, real processes."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import pickling
from flinkish.common.clock import SystemClock
from flinkish.common.errors import EngineError
from flinkish.common.ids import AttemptId, Epoch
from flinkish.engine.processes import ProcessId, this_process
from flinkish.engine.slots import hosts, slot_host, template
from flinkish.engine.slots.hosts import HostConfig
from flinkish.engine.slots.messages import Call, Reply, receive_reply, send_call
from flinkish.engine.spark.query import slot_values
from flinkish.runtime.protocol import EpochCommand, EpochReport, TaskProgram
from tests.kit.child import python
from tests.kit.own_process import set_temporary_folder
from tests.kit.waiting import wait_until
from tests.spark.toy import TOY, ToySettings, toy_program

_clock = SystemClock()


def _config(program: TaskProgram, **changes: object) -> HostConfig:
    program.scratch.mkdir(parents=True)
    file = program.scratch / "program"
    file.write_bytes(pickling.dump_program(program))
    values: dict[str, object] = {
        "attempt_id": program.attempt_id,
        "key": "secret",
        "program_file": str(file),
        "task": TOY,
        "slot_values": slot_values(program.plan.slots),
        "path": tuple(sys.path),
    }
    return HostConfig(**{**values, **changes})  # type: ignore[arg-type]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that the hosts reach too; short, as pytest's own are long."""
    with tempfile.TemporaryDirectory(prefix="fh-") as path:
        yield Path(path)


@pytest.fixture
def make(folder: Path) -> Iterator[Callable[..., HostConfig]]:
    """Make configurations of attempts; their hosts are closed at the end of the test."""
    attempts: list[str] = []

    def make_config(settings: ToySettings | None = None, **changes: object) -> HostConfig:
        program = toy_program(folder, settings=settings)
        attempts.append(program.attempt_id)
        return _config(program, **changes)

    yield make_config
    for attempt in attempts:
        hosts.close_hosts(attempt, grace_ms=2_000)


def _command(epoch: int = 0, carry_over: dict[int, bytes] | None = None) -> bytes:
    return pickling.dumps(
        EpochCommand(
            attempt_id=AttemptId("a"), attempt_number=0, epoch=Epoch(epoch), processing_time=0, carry_over=carry_over or {}
        )
    )


def _level_zero(config: HostConfig, slot: int = 0, epoch: int = 0, executor: ProcessId | None = None) -> EpochReport:
    return _report(hosts.call(config, slot, executor or this_process(), Call(level=0, command=_command(epoch))))


def _report(reply: Reply) -> EpochReport:
    assert reply.error is None, reply.error
    report: EpochReport = pickling.loads(reply.report)
    return report


Make = Callable[..., HostConfig]


def test_a_host_stays_from_call_to_call(make: Make) -> None:
    config = make()
    pids = {_level_zero(config, epoch=epoch).process["pid"] for epoch in range(3)}
    assert len(pids) == 1
    assert os.getpid() not in pids


def test_each_slot_has_a_host_of_its_own(make: Make) -> None:
    config = make()
    assert _level_zero(config, 0).process["pid"] != _level_zero(config, 1).process["pid"]


def test_user_code_runs_in_the_main_thread_of_the_host(make: Make) -> None:
    config = make()
    assert {_level_zero(config, epoch=epoch).process["thread"] for epoch in range(2)} == {"MainThread"}


def test_a_large_command_goes_by_file(make: Make, folder: Path) -> None:
    config = make()
    file = folder / "command"
    file.write_bytes(_command(7, {0: b"300"}))
    report = _report(hosts.call(config, 0, this_process(), Call(level=0, command=b"", command_file=str(file))))
    assert (report.epoch, report.carry_over) == (7, b"400")


def test_a_host_that_is_gone_is_started_anew(make: Make) -> None:
    config = make()
    first = _level_zero(config).process["pid"]
    os.kill(first, signal.SIGKILL)
    assert _level_zero(config, epoch=1).process["pid"] != first


def test_a_host_killed_in_a_call_is_replaced_and_the_call_made_again(make: Make, folder: Path) -> None:
    marker = folder / "marker"

    def die_once(slot: int, level: int, command: EpochCommand) -> None:
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    assert _level_zero(make(ToySettings(hook=die_once))).carry_over == b"100"


def test_a_host_that_dies_each_time_is_an_engine_error(make: Make) -> None:
    config = make(ToySettings(hook=lambda slot, level, command: os.kill(os.getpid(), signal.SIGKILL)))
    with pytest.raises(EngineError, match=r"slot 0 ended 3 times in level 0"):
        _level_zero(config)


def _call_as_a_worker_of(executor: ProcessId, config: HostConfig) -> None:
    hosts.call(config, 0, executor, Call(level=0, command=_command()))


def test_a_host_left_in_a_call_by_its_shim_is_replaced(make: Make, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release = folder / "entered", folder / "release"

    def wait_once(slot: int, level: int, command: EpochCommand) -> None:
        if not entered.exists():
            entered.write_text(str(os.getpid()))
            while not release.exists():
                threading.Event().wait(0.01)

    config = make(ToySettings(hook=wait_once))
    shim = multiprocessing.get_context("spawn").Process(target=_call_as_a_worker_of, args=(this_process(), config))
    shim.start()
    wait_until("the call", lambda: entered.exists() and entered.read_text() != "")
    shim.kill()
    shim.join()
    shim.close()
    abandoned = ProcessId.of(int(entered.read_text()))
    report = _level_zero(config)
    assert report.process["pid"] != int(entered.read_text())
    assert abandoned is not None
    assert not abandoned.is_alive()


def test_an_error_of_the_task_itself_is_reported_as_text(make: Make) -> None:
    reply = hosts.call(make(ToySettings(fail_in_constructor=True)), 0, this_process(), Call(level=0, command=_command()))
    assert reply.error is not None
    assert "ValueError: the toy was told to fail" in reply.error


def test_a_task_class_that_is_missing_is_reported_as_text(make: Make) -> None:
    reply = hosts.call(make(task="flinkish.common.ids:Nothing"), 0, this_process(), Call(level=0, command=_command()))
    assert "has no attribute 'Nothing'" in (reply.error or "")


def test_no_host_is_started_for_an_attempt_that_is_over(make: Make) -> None:
    config = make()
    Path(config.program_file).unlink()
    with pytest.raises(EngineError, match="is over"):
        _level_zero(config)


def test_a_client_without_the_key_gets_nothing_and_the_host_lives_on(make: Make) -> None:
    config = make()
    pid = _level_zero(config).process["pid"]
    address = str(hosts._folder_path(config.attempt_id, this_process()) / "s0.sock")

    def ask(key: bytes) -> Reply:
        with Client(address, "AF_UNIX") as connection:
            connection.send_bytes(key)
            send_call(connection, Call(level=0, command=_command(1)))
            return receive_reply(connection)

    for wrong in (b"wrong", b"longer" * 100, b""):
        with pytest.raises((EOFError, ConnectionError)):
            ask(wrong)
    assert ask(b"secret").error is None
    assert _level_zero(config, epoch=2).process["pid"] == pid


def test_close_lets_user_functions_close_and_leaves_nothing(make: Make, folder: Path) -> None:
    closed = folder / "closed"
    config = make(ToySettings(on_close=lambda slot: closed.touch()))
    pid = _level_zero(config).process["pid"]
    host = ProcessId.of(pid)
    Path(config.program_file).unlink()
    hosts.close_hosts(config.attempt_id, grace_ms=5_000)
    assert closed.exists()
    assert host is not None
    assert not host.is_alive()
    assert hosts._folders(config.attempt_id) == []


def test_close_interrupts_user_code(make: Make, folder: Path) -> None:
    entered, closed = folder / "entered", folder / "closed"

    def hang(slot: int, level: int, command: EpochCommand) -> None:
        entered.touch()
        threading.Event().wait(60)

    config = make(ToySettings(hook=hang, on_close=lambda slot: closed.touch()))
    failures: list[BaseException] = []

    def call() -> None:
        try:
            _level_zero(config)
        except EngineError as error:
            failures.append(error)

    caller = threading.Thread(target=call)
    caller.start()
    wait_until("the call", entered.exists)
    Path(config.program_file).unlink()
    hosts.close_hosts(config.attempt_id, grace_ms=5_000)
    caller.join(60)
    assert closed.exists()
    assert "is over" in str(failures[0])


def test_a_host_that_does_not_end_is_killed_after_the_grace(make: Make, folder: Path) -> None:
    config = make(ToySettings(on_close=lambda slot: threading.Event().wait(60)))
    host = ProcessId.of(_level_zero(config).process["pid"])
    Path(config.program_file).unlink()
    hosts.close_hosts(config.attempt_id, grace_ms=200)
    assert host is not None
    assert not host.is_alive()


def test_a_host_ends_by_itself_when_the_program_file_is_gone(make: Make, folder: Path) -> None:
    closed = folder / "closed"
    config = make(ToySettings(on_close=lambda slot: closed.touch()))
    host = ProcessId.of(_level_zero(config).process["pid"])
    assert host is not None
    Path(config.program_file).unlink()
    wait_until("the end of the host", lambda: not host.is_alive())
    assert closed.exists()
    assert hosts._folders(config.attempt_id) == []


def test_a_host_ends_by_itself_after_a_silence_and_the_next_call_starts_another(make: Make) -> None:
    config = make(silence_ms=1_000)
    host = ProcessId.of(_level_zero(config).process["pid"])
    assert host is not None
    wait_until("the end of the host", lambda: not host.is_alive())
    assert _level_zero(config, epoch=1).process["pid"] != host.pid


def test_a_host_is_kept_as_long_as_the_driver_touches_the_program_file(make: Make) -> None:
    # A busy disk may hold a touch up for a second or two.
    config = make(silence_ms=4_000)
    host = ProcessId.of(_level_zero(config).process["pid"])
    assert host is not None
    deadline = _clock.monotonic() + 6_500
    while _clock.monotonic() < deadline:
        os.utime(config.program_file)
        assert host.is_alive()
        threading.Event().wait(0.1)
    wait_until("the end of the host", lambda: not host.is_alive())


def _leave_no_descriptor(slot: int, level: int, command: EpochCommand) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    def take_all() -> None:
        # accept() has taken its descriptor before it waits; without one it would fail at once, and the host would end
        main = threading.main_thread().ident
        while main is None or sys._current_frames()[main].f_code.co_name != "accept":
            threading.Event().wait(0.01)
        threading.Event().wait(0.2)
        while True:
            with contextlib.suppress(OSError):
                os.dup(0)

    threading.Thread(target=take_all, daemon=True).start()


def test_a_host_without_a_descriptor_left_ends_with_its_attempt(make: Make) -> None:
    config = make(ToySettings(hook=_leave_no_descriptor))
    host = ProcessId.of(_level_zero(config).process["pid"])
    assert host is not None
    threading.Event().wait(2 * slot_host._WATCH_INTERVAL_S)  # the watching thread has looked at the JVM
    assert host.is_alive()
    Path(config.program_file).unlink()
    wait_until("the end of the host", lambda: not host.is_alive())


def test_a_host_that_can_take_no_call_for_want_of_descriptors_ends_instead_of_trying_for_ever(make: Make) -> None:
    class NoDescriptors:
        def accept(self) -> None:
            raise OSError(errno.EMFILE, "Too many open files")

    order: Any = None
    with pytest.raises(OSError, match="Too many open files"):
        slot_host._Host(order).serve(NoDescriptors())  # type: ignore[arg-type]


def test_a_process_is_seen_without_a_descriptor_left() -> None:
    code = (
        "import os, resource\n"
        "from flinkish.engine.processes import ProcessId\n"
        "here, gone = ProcessId.of(os.getpid()), ProcessId(2**22 + 1, 0.0)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "print(here.is_alive(), gone.is_alive())"
    )
    result = python("-c", code)
    assert result.stdout.split() == ["True", "False"]


def test_a_task_that_ends_the_program_while_it_is_made_is_reported_as_text(make: Make) -> None:
    reply = hosts.call(make(task="tests.spark.toy:leaving"), 0, this_process(), Call(level=0, command=_command()))
    assert "SystemExit: not today" in str(reply.error)


def test_a_host_ends_when_its_executor_is_gone(make: Make) -> None:
    config = make()
    with subprocess.Popen(["sleep", "60"]) as process:
        host = ProcessId.of(_level_zero(config, executor=ProcessId.of(process.pid)).process["pid"])
        process.kill()
    assert host is not None
    wait_until("the end of the host", lambda: not host.is_alive())
    assert hosts._folders(config.attempt_id) == []


def test_a_folder_that_others_can_enter_is_refused(folder: Path) -> None:
    open_folder = folder / "open"
    open_folder.mkdir()
    open_folder.chmod(0o755)
    with pytest.raises(EngineError, match="not ours alone"):
        template.make_folder(open_folder)


def test_the_socket_of_a_host_is_for_its_user_only_and_the_umask_stays_as_it_was(make: Make, folder: Path) -> None:
    def hook(slot: int, level: int, command: EpochCommand) -> None:
        (folder / "output").write_text("x")

    before = os.umask(0o002)
    try:
        config = make(ToySettings(hook=hook))
        _level_zero(config)
    finally:
        os.umask(before)
    (socket,) = hosts._folder_path(config.attempt_id, this_process()).glob("*.sock")
    assert socket.stat().st_mode & 0o777 == 0o700
    assert (folder / "output").stat().st_mode & 0o777 == 0o664


def test_a_folder_of_somebody_else_does_not_say_which_processes_are_hosts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = subprocess.Popen(["sleep", "60"])
    try:
        process = ProcessId.of(victim.pid)
        assert process is not None
        set_temporary_folder(monkeypatch, folder)
        for name, mode in (("open", 0o755), ("link", 0o700)):
            claimed = folder / f"{hosts.folder_prefix('a' * 32)}{name}"
            claimed.mkdir()
            (claimed / "s0.lock").write_bytes(hosts._RECORD.pack(process.pid, process.created, False))
            claimed.chmod(mode)
            if name == "link":
                claimed.rename(folder / "theirs")
                claimed.symlink_to(folder / "theirs")
        hosts.close_hosts("a" * 32, grace_ms=0)
        assert victim.poll() is None
    finally:
        victim.kill()
        victim.wait()


def test_a_slot_host_does_not_import_spark_or_pandas() -> None:
    code = "import sys, flinkish.engine.slots.slot_host; print([m for m in ('pyspark', 'pandas', 'pyarrow') if m in sys.modules])"
    result = python("-c", code)
    assert result.stdout.strip() == "[]"


def test_classes_of_a_job_script_do_not_replace_names_of_the_slot_host(make: Make, folder: Path) -> None:
    script = folder / "job.py"
    script.write_text(_SCRIPT)
    # The shell stands for the JVM: with its end the template of the hosts ends, which has our pipes, too.
    result = subprocess.run(
        ["sh", "-c", '"$0" "$@"; exit $?', sys.executable, str(script), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    )
    assert (result.returncode, result.stdout.strip()) == (0, "Listener"), result.stderr


_SCRIPT = """
import pickle, sys
from pathlib import Path
from flinkish.common import pickling
from flinkish.engine.slots import hosts, slot_host
from flinkish.engine.slots.messages import Call
from tests.spark.toy import ToySettings, toy_program
from tests.integration.engine.slots import test_hosts as helpers

class Listener:
    pass

class Reply:
    pass

def hook(slot, level, command):
    pickle.dumps([Listener(), Reply()])

program = toy_program(Path(sys.argv[1]), settings=ToySettings(hook=hook))
config = helpers._config(program)
try:
    for epoch in range(2):
        assert helpers._level_zero(config, epoch=epoch).carry_over == b"100"
    print(Listener.__name__)
finally:
    hosts.close_hosts(program.attempt_id, grace_ms=2000)
"""


def test_a_reused_pid_is_another_process() -> None:
    me = ProcessId.of(os.getpid())
    assert me is not None
    assert me.is_alive()
    assert not ProcessId(me.pid, me.created - 100).is_alive()


def test_closing_gets_along_with_a_last_host_that_takes_its_folder_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def vanish(folder: Path, pattern: str) -> Iterator[Path]:
        # Between pathlib's look whether there is a folder and its reading of it.
        yield from (Path(entry) for entry in os.scandir(folder))

    monkeypatch.setattr(hosts, "_folders", lambda attempt_id: [tmp_path / "gone"])
    monkeypatch.setattr(Path, "glob", vanish)
    assert hosts.hosts_of("a" * 32) == []
    hosts.close_hosts("a" * 32, grace_ms=0)


@pytest.fixture
def executor(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder of an executor."""
    executor = folder / "executor"
    executor.mkdir()
    monkeypatch.setattr(hosts, "working_folder", lambda _: executor)
    return executor


def test_executors_without_a_shared_folder_have_program_and_scratch_files_in_their_own(make: Make, executor: Path) -> None:
    def of_attempt(number: int) -> HostConfig:
        config = make()
        own = hosts.OwnFolder(name=".own", attempt=number, program=Path(config.program_file).read_bytes())
        os.unlink(config.program_file)
        return dataclasses.replace(config, own_folder=own)

    first, second = of_attempt(1), of_attempt(2)
    report = _level_zero(first)
    assert (executor / ".own" / "1" / "program").is_file()
    assert (executor / ".own").stat().st_mode & 0o777 == 0o700
    # The next attempt ends the hosts of the one before, and that one's late tasks.
    other = _level_zero(second)
    host = ProcessId.of(report.process["pid"])
    wait_until("the host of the first attempt ends", lambda: host is None or not host.is_alive(), 120)
    assert [path.name for path in (executor / ".own").iterdir()] == ["2"]
    with pytest.raises(EngineError, match="Attempt 1 is over: attempt 2 has begun on this executor"):
        _level_zero(first)
    assert _level_zero(second, epoch=1).process["pid"] == other.process["pid"]


def test_modules_that_spark_has_unpacked_in_the_working_folder_come_first(
    make: Make, executor: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (executor / "program").mkdir()
    paths = []

    def fork(order: object, executor: object, python: str, environment: Mapping[str, str]) -> ProcessId:
        paths.append(environment["PYTHONPATH"].split(os.pathsep))
        raise template.TemplateError

    monkeypatch.setattr(template, "fork_host", fork)
    _level_zero(dataclasses.replace(make(), sent=("sent/python-0", "program")))
    assert [path[:2] for path in paths] == [[str(executor / "sent/python-0"), str(executor / "program")]]


def test_a_program_moves_with_all_its_folders(folder: Path) -> None:
    program = dataclasses.replace(toy_program(folder), disk=folder / "disk")
    moved = program.moved_to(folder / "own")
    assert (moved.scratch, moved.disk) == (folder / "own", folder / "own" / "disk")
    assert dataclasses.replace(moved, scratch=program.scratch, disk=program.disk) == program

"""The template that slot hosts are forked from: real processes, without Spark."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from flinkish.common.errors import EngineError
from flinkish.engine.processes import ProcessId
from flinkish.engine.slots import template
from flinkish.engine.slots.template import TemplateError, fork_host
from tests.kit.child import python
from tests.kit.own_process import set_temporary_folder

#: A task that the host imports when it is first called, which these tests do not.
TASK = "flinkish.common.ids:Nothing"


def _wait_for(what: str, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"{what} did not happen within 60 s")
        threading.Event().wait(0.01)


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder for temporary files; short, as it holds sockets."""
    with tempfile.TemporaryDirectory(prefix="ft-") as path:
        set_temporary_folder(monkeypatch, path)
        yield Path(path)


@pytest.fixture
def executor() -> Iterator[subprocess.Popen[bytes]]:
    """What stands for the executor: with its end all of its hosts and templates end."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


def _id(process: subprocess.Popen[bytes]) -> ProcessId:
    found = ProcessId.of(process.pid)
    assert found is not None
    return found


def _host(
    folder: Path, executor: ProcessId, slot: int = 0, environment: dict[str, str] | None = None, *, uses_arrow: bool = False
) -> ProcessId:
    program = folder / "program"
    program.touch()
    order = {
        "address": str(folder / f"s{slot}.sock"),
        "key": "secret",
        "program_file": str(program),
        "task": TASK,
        "slot": slot,
        "slot_values": [0, 1],
        "silence_ms": 60_000,
        "uses_arrow": uses_arrow,
        "executor": [executor.pid, executor.created],
    }
    return fork_host(order, executor, sys.executable, environment or {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


def _template_of(host: ProcessId) -> ProcessId:
    parent = psutil.Process(host.pid).parent()
    assert parent is not None
    assert template.__name__ in parent.cmdline()
    found = ProcessId.of(parent.pid)
    assert found is not None
    return found


def test_hosts_have_one_template_and_sessions_and_sockets_of_their_own(folder: Path, executor: subprocess.Popen[bytes]) -> None:
    hosts = [_host(folder, _id(executor), slot) for slot in range(2)]
    assert _template_of(hosts[0]) == _template_of(hosts[1])
    assert [os.getsid(host.pid) for host in hosts] == [host.pid for host in hosts]
    assert all((folder / f"s{slot}.sock").is_socket() for slot in range(2))


def test_arrow_is_imported_once_for_the_hosts_of_jobs_that_use_it(folder: Path, executor: subprocess.Popen[bytes]) -> None:
    hosts = [_host(folder, _id(executor), slot, uses_arrow=slot > 0) for slot in range(3)]
    assert len(set(map(_template_of, hosts))) == 1
    loaded = [{part for part in ("pyarrow", "pandas") if f"/{part}/" in _maps(host)} for host in hosts]
    assert loaded == [set(), {"pyarrow", "pandas"}, {"pyarrow", "pandas"}]


def _maps(process: ProcessId) -> str:
    """Return the files that a process has loaded."""
    return Path(f"/proc/{process.pid}/maps").read_text()


def test_another_environment_has_another_template(folder: Path, executor: subprocess.Popen[bytes]) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OF_THE_USER": "1"}
    first, second = _host(folder, _id(executor)), _host(folder, _id(executor), 1, environment)
    assert _template_of(first) != _template_of(second)
    assert psutil.Process(second.pid).environ()["OF_THE_USER"] == "1"


def test_all_end_with_the_executor_and_leave_nothing(folder: Path, executor: subprocess.Popen[bytes]) -> None:
    host = _host(folder, _id(executor))
    parent = _template_of(host)
    executor.kill()
    _wait_for("the end of the template", lambda: not parent.is_alive())
    _wait_for("the end of the host", lambda: not host.is_alive())
    assert list(folder.glob("flinkish-template-*")) == []


def test_a_killed_template_is_started_anew_and_its_hosts_stay(folder: Path, executor: subprocess.Popen[bytes]) -> None:
    first = _host(folder, _id(executor))
    parent = _template_of(first)
    os.kill(parent.pid, signal.SIGKILL)
    _wait_for("the end of the template", lambda: not parent.is_alive())
    second = _host(folder, _id(executor), 1)
    assert _template_of(second) != parent
    assert first.is_alive()


def test_a_killed_host_leaves_no_zombie(folder: Path, executor: subprocess.Popen[bytes]) -> None:
    host = _host(folder, _id(executor))
    os.kill(host.pid, signal.SIGKILL)
    _wait_for("the end of the host", lambda: not psutil.pid_exists(host.pid))


def test_who_asks_and_goes_away_does_no_harm(folder: Path, executor: subprocess.Popen[bytes]) -> None:
    parent = _template_of(_host(folder, _id(executor)))
    (address,) = folder.glob("flinkish-template-*/sock")
    for sent in (b"", template._LENGTH.pack(100), template._LENGTH.pack(3) + b"{]!"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(address))
            connection.sendall(sent)
    assert _template_of(_host(folder, _id(executor), 1)) == parent
    assert psutil.Process(parent.pid).num_threads() == 1


def test_hosts_draw_other_random_numbers(folder: Path, executor: subprocess.Popen[bytes]) -> None:
    code = "import random, os; pid = os.fork(); os.write(1, f'{random.random()} '.encode()); pid and os.waitpid(pid, 0)"
    drawn = python("-c", code).stdout.split()
    assert len(set(drawn)) == 2  # Python itself seeds anew in each fork; the template relies on it


def test_a_host_that_ends_in_its_start_is_one_error_and_no_second_template(
    folder: Path, executor: subprocess.Popen[bytes]
) -> None:
    parent = _template_of(_host(folder, _id(executor)))
    (folder / "s1.sock").mkdir()  # the host cannot bind its socket
    with pytest.raises(TemplateError, match="ended while it started"):
        _host(folder, _id(executor), 1)
    (folder / "s1.sock").rmdir()
    assert _template_of(_host(folder, _id(executor), 1)) == parent


def test_a_folder_that_is_not_ours_alone_is_not_used(folder: Path, executor: subprocess.Popen[bytes]) -> None:
    _host(folder, _id(executor))
    (made,) = folder.glob("flinkish-template-*")
    made.chmod(0o777)
    with pytest.raises(EngineError, match="not ours alone"):
        _host(folder, _id(executor), 1)
    made.chmod(0o700)


def test_an_interpreter_that_does_not_start_is_an_error(folder: Path, executor: subprocess.Popen[bytes]) -> None:
    with pytest.raises(OSError, match="missing"):
        fork_host({"task": TASK}, _id(executor), str(folder / "missing"), dict(os.environ))
    with pytest.raises(TemplateError, match="did not start"):
        fork_host({"task": "no.such.module:Task"}, _id(executor), sys.executable, dict(os.environ))

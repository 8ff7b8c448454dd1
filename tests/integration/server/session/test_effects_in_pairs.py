"""Pairs of effects, each interrupted in between: nothing is lost and nothing is done twice. And whose processes are judged."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from flinkish.checkpoint.delta_log import DeltaLog
from flinkish.checkpoint.signing import SigningKey
from flinkish.common.clock import ManualClock
from flinkish.common.errors import EngineError, ForeignCheckpointError, RegistryError, StaleGenerationError
from flinkish.server.proof import Reply
from flinkish.server.session import driver_protocol, reporter, service
from flinkish.server.session.processes import Location
from flinkish.server.session.registry import Registry
from flinkish.server.session.service import Service
from flinkish.server.session.storage import SessionStorage
from flinkish.server.session.supervision import Close, Keep, Start, decide
from tests.unit.server.session.support import FakeProcess, FakeProcesses, Member, fail_put, puts, summary
from tests.unit.server.session.test_decisions import DRIVER, ENTRY, LIMITS, sight

HERE = Location(boot="b1", processes="p1", network="n1", machine="m1")


class Killed(BaseException):
    """The Dispatcher is killed here."""


def _silence(member: Member, driver: FakeProcess) -> None:
    """Let a driver be silent for longer than it may, while the Dispatcher leads."""
    lead = member.dispatcher.leadership.leading()
    lead.live[driver.job_id].heard = member.clock.monotonic() - 60_000


def _fails(*_: Any) -> None:
    raise RegistryError("no space")


# -- a silent driver is killed and replaced


def test_a_driver_that_is_alive_is_killed_before_anything_is_decided_about_its_job() -> None:
    often = tuple(sight().now - 100_000 + each for each in range(3))
    silent = sight(silent=50_001)
    for entry in (ENTRY, _with(cancelling=True), _with(restarts=often), _with(restarts=(silent.now - 1,))):
        assert decide(entry, silent, LIMITS) == Start(kill=True)
    # What has ended may still be busy with something else.
    assert decide(ENTRY, sight(silent=50_001, ended="FINISHED"), LIMITS) == Close("FINISHED")


def test_a_condemned_driver_is_killed_until_it_is_gone_but_not_for_ever() -> None:
    condemned = _with(driver=_condemned())
    assert decide(condemned, sight(), LIMITS) == Start(kill=True)
    assert decide(condemned, sight(silent=60_000), LIMITS) == Start(kill=True)
    assert decide(condemned, sight(silent=60_001), LIMITS) == Start(kill=False)
    assert decide(condemned, sight(alive=False), LIMITS) == Start(kill=False)
    # On another machine, it cannot be killed; its reports are refused.
    assert decide(condemned, sight(alive=None), LIMITS) == Start(kill=False)
    assert decide(ENTRY, sight(), LIMITS) == Keep()


def _with(**changes: Any) -> Any:
    return msgspec.structs.replace(ENTRY, **changes)


def _condemned() -> Any:
    return msgspec.structs.replace(DRIVER, condemned=True)


@pytest.mark.parametrize("dies", ["before", "after"])
def test_a_dispatcher_that_dies_at_the_kill_of_a_driver_leaves_it_to_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    member = Member(tmp_path)
    first = member.submit()
    _silence(member, first)
    kill = member.processes.kill

    def dying(pid: int, created: float) -> None:
        if dies == "after":
            kill(pid, created)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(member.processes, "kill", dying)
        with pytest.raises(Killed):
            member.dispatcher.step()
    member.restart()
    # It is heard again in the meantime: it was to be killed, so it must not go on.
    assert not member.dispatcher.report(first.report(), first.token)
    for _ in range(4):
        member.dispatcher.step()

    assert member.processes.killed == [first.pid]
    assert len(member.processes.started) == 2
    entry = member.dispatcher.job(first.job_id)
    assert entry is not None
    assert len(entry.restarts) == 1


def test_a_dispatcher_that_does_not_lead_any_more_kills_nothing(tmp_path: Path) -> None:
    processes = FakeProcesses()
    first = Member(tmp_path, processes=processes)
    driver = first.submit()
    _silence(first, driver)
    lead = first.dispatcher.leadership.leading()
    other = Member(tmp_path, processes=processes, clock=ManualClock(5_000_000))
    other.dispatcher = other.make("http://b:1", first_id=1_000)
    other.dispatcher.step()
    other.wait(10_001)
    assert other.dispatcher.leadership.lead

    # Its own clock has stood still since it looked who leads.
    first.dispatcher._supervise(lead)

    assert processes.killed == []
    assert other.dispatcher.report(driver.report(), driver.token)


def test_the_end_that_a_driver_writes_before_it_is_killed_counts(tmp_path: Path) -> None:
    # Its checkpoints may be gone: another driver would begin from nothing.
    class EndingFirst(FakeProcesses):
        def kill(self, pid: int, created: float) -> None:
            member.storage.write(driver_protocol.end_file(driver.job_id, driver.driver_id), b'{"status":"FINISHED"}')
            super().kill(pid, created)

    member = Member(tmp_path, processes=EndingFirst())
    driver = member.submit()
    _silence(member, driver)
    for _ in range(3):
        member.dispatcher.step()

    assert member.state(driver.job_id) == "FINISHED"
    assert len(member.processes.started) == 1


def test_a_silent_driver_of_a_cancelled_job_does_not_run_on(tmp_path: Path) -> None:
    member = Member(tmp_path)
    driver = member.submit()
    entry = member.entry(driver)
    member.dispatcher.cancel(entry)
    _silence(member, driver)
    for _ in range(3):
        member.dispatcher.step()

    assert member.processes.killed == [driver.pid]
    assert member.state(driver.job_id) == "CANCELED"


# -- a driver is started


def test_a_driver_whose_process_cannot_be_stored_is_killed_and_its_job_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = Member(tmp_path)
    submission = member.prepare()

    with monkeypatch.context() as patch:
        fail_put(member, patch, 2, RegistryError("no space"))
        with pytest.raises(RegistryError, match="no space"):
            member.dispatcher.submit(submission)
    member.wait(9_000)

    assert member.processes.killed == [member.processes.last.pid]
    assert member.dispatcher.jobs() == []
    assert len(member.processes.started) == 1


def test_a_job_whose_start_failed_is_not_started_later_if_it_cannot_be_forgotten_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = Member(tmp_path, processes=FakeProcesses(full=True))
    submission = member.prepare()
    with monkeypatch.context() as patch:
        patch.setattr(member.dispatcher.leadership.leading().registry, "remove", _fails)
        with pytest.raises(EngineError, match="could not be started"):
            member.dispatcher.submit(submission)
    member.processes.full = False
    member.wait(9_000)

    assert member.processes.started == []
    assert [member.state(job.job_id) for job in member.dispatcher.jobs()] == ["CANCELED"]


def test_a_job_that_was_started_at_the_end_of_a_lease_goes_on_under_the_next_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # An error would make its client start it a second time.
    member = Member(tmp_path)
    other = member.make("http://b:1", first_id=1_000)
    submission = member.prepare()
    other.step()

    def act(number: int, entry: Any, put: Callable[[Any], None]) -> None:
        if number == 2:
            member.clock.advance(10_001)
            other.step()
        put(entry)

    with monkeypatch.context() as patch:
        puts(member, patch, act)
        job_id = member.dispatcher.submit(submission)
    driver = member.processes.last

    assert (driver.job_id, bool(other.leadership.lead), member.processes.killed) == (job_id, True, [])
    assert other.report(driver.report(), driver.token)
    assert [job.job_id for job in other.jobs()] == [job_id]


def test_an_error_about_a_job_leaves_no_entry_for_the_next_dispatcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    member = Member(tmp_path)
    submission = member.prepare()
    log = member.dispatcher.leadership.leading().registry._log
    assert log is not None
    refresh, replace_files = type(log).refresh, type(log).replace_files
    silent: list[bool] = []

    def arrives(self: Any, *arguments: Any, **named: Any) -> None:
        replace_files(self, *arguments, **named)
        silent.append(True)

    def refreshes(self: Any) -> None:
        if silent:
            raise OSError("no answer")
        refresh(self)

    with monkeypatch.context() as patch:
        patch.setattr(type(log), "replace_files", arrives)
        patch.setattr(type(log), "refresh", refreshes)
        with pytest.raises(RegistryError, match="no answer"):
            member.dispatcher.submit(submission)
    member.dispatcher.step()
    member.restart()
    member.wait(6_000)

    assert member.dispatcher.jobs() == []
    assert member.processes.started == []
    entries = tmp_path / "ha" / "session" / "registry" / "entries"
    assert len(list(entries.iterdir())) == 1


def test_a_driver_that_was_just_started_is_not_replaced_because_a_claim_was_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = Member(tmp_path)
    submission = member.prepare()

    with monkeypatch.context() as patch:
        fail_put(member, patch, 2, Killed())
        patch.setattr(member.dispatcher.leadership, "forget", lambda *_: None)
        with pytest.raises(Killed):
            member.dispatcher.submit(submission)
    claim = Registry.claim

    def slow(self: Registry) -> Any:
        found = claim(self)
        member.clock.advance(7_000)
        return found

    monkeypatch.setattr(Registry, "claim", slow)
    member.restart()
    member.dispatcher.step()
    (driver,) = member.processes.started

    assert member.dispatcher.report(driver.report(), driver.token)


def test_the_name_of_a_job_is_stored_with_a_later_report_if_the_first_one_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    member = Member(tmp_path)
    submission = member.prepare()
    member.dispatcher.submit(submission)
    driver = member.processes.last

    with monkeypatch.context() as patch:
        fail_put(member, patch, 1, RegistryError("no space"))
        with pytest.raises(RegistryError, match="no space"):
            member.dispatcher.report(driver.report(), driver.token)
        assert member.dispatcher.report(driver.report(), driver.token)
    member.restart()

    entry = member.entry(driver)
    assert entry.summary is not None
    assert entry.summary.name == "a job"


def test_all_jobs_are_cancelled_at_the_end_of_a_session_whatever_happens_to_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    member = Member(tmp_path)
    drivers = [member.submit() for _ in range(4)]
    asked: list[str] = []

    def forward(report: Any, method: str, path: str, *_: Any) -> Reply:
        asked.append(path)
        if report.job_id == drivers[1].job_id:
            raise OSError("it hangs")
        return Reply(500 if report.job_id == drivers[2].job_id else 202, b"an error of it", "")

    clock: Any = SimpleNamespace(monotonic=iter(range(0, 10**9, 40_000)).__next__)
    ending = Service(member.settings, processes=member.processes, clock=clock)
    ending.dispatcher = member.dispatcher
    monkeypatch.setattr(service, "forward", forward)
    monkeypatch.setattr(service, "_STEP", 0.001)
    with monkeypatch.context() as patch:
        fail_put(member, patch, 1, RegistryError("no space"))
        ending._cancel_all()

    assert sorted(asked) == sorted(f"/jobs/{driver.job_id}" for driver in drivers)
    for words in ("no space", "it hangs", "an error of it", "has not ended within 30 s"):
        assert words in caplog.text


@pytest.mark.parametrize("length", [5, 1_000_000])
def test_the_report_of_a_job_with_a_long_name_is_short(length: int) -> None:
    # A Dispatcher refuses reports of more than 100 KB, so the driver would count as silent.
    shown = reporter._shortened(summary("1" * 32, "RUNNING", name="ä" * length))

    assert len(msgspec.json.encode(shown)) < 10_000
    assert shown.name.startswith("ä" * min(length, 1_000))


def test_an_archive_is_read_again_while_its_driver_may_add_to_it(tmp_path: Path) -> None:
    member = Member(tmp_path)
    driver = member.submit()
    member.archive(driver, **{"/a": 1})
    assert member.dispatcher.report(driver.report("FINISHED", status="FINISHED"), driver.token)
    # The next Dispatcher has no report of it.
    member.restart()
    entry = member.entry(driver)
    assert member.dispatcher.archive(entry) is not None
    member.archive(driver, **{"/a": 1, "/savepoints/b": 2})
    found = member.dispatcher.archive(entry)
    assert found is not None
    assert found.find("/savepoints/b", {}) == b"2"


def test_an_archive_whose_folder_was_away_for_a_moment_is_found_again(tmp_path: Path) -> None:
    member = Member(tmp_path)
    driver = member.submit()
    member.archive(driver, **{"/a": 1})
    member.lose(driver)
    entry = member.entry(driver)
    root = member.settings.root
    root.rename(root.with_name("away"))
    assert member.dispatcher.archive(entry) is None
    root.with_name("away").rename(root)
    found = member.dispatcher.archive(entry)
    assert found is not None
    assert found.find("/a", {}) == b"1"


def test_an_ended_job_is_not_forgotten_while_its_script_goes_on(tmp_path: Path) -> None:
    member = Member(tmp_path, **{"jobstore.max-capacity": 0})
    driver = member.submit()
    assert member.dispatcher.report(driver.report("FINISHED", status="FINISHED"), driver.token)
    member.dispatcher.step()
    assert member.dispatcher.job(driver.job_id) is not None
    member.lose(driver)

    assert member.dispatcher.job(driver.job_id) is None


def test_of_two_dispatchers_that_claim_at_the_same_time_each_has_a_generation_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With the same one, neither would fence the other.
    first, second = (Registry(tmp_path, SigningKey(b"k" * 32), ManualClock()) for _ in range(2))
    note = DeltaLog.note_transaction
    raced: list[str] = []

    def races(self: DeltaLog, *arguments: Any) -> None:
        if not raced:
            raced.append("now")
            second.claim()
        note(self, *arguments)

    monkeypatch.setattr(DeltaLog, "note_transaction", races)
    first.claim()

    assert (second.generation, first.generation) == (1, 2)
    with pytest.raises(StaleGenerationError):
        second.put(ENTRY)
    first.put(ENTRY)


def test_a_dispatcher_with_another_key_does_not_take_the_session_from_its_leader(tmp_path: Path) -> None:
    first = Registry(tmp_path, SigningKey(b"k" * 32), ManualClock())
    first.claim()
    first.put(ENTRY)
    for _ in range(2):
        with pytest.raises(ForeignCheckpointError):
            Registry(tmp_path, SigningKey(b"x" * 32), ManualClock()).claim()
    first.put(_with(cancelling=True))

    assert Registry(tmp_path, SigningKey(b"k" * 32), ManualClock()).claim() == {ENTRY.job_id: _with(cancelling=True)}


def test_an_entry_that_is_replaced_while_it_is_read_is_no_damage(tmp_path: Path) -> None:
    done: list[str] = []

    class Late(Registry):
        def _read(self, path: str) -> Any:
            if first._files[ENTRY.job_id][0] == path and not done:
                done.append(path)
                first.put(replaced)
            return super()._read(path)

    first, second = (kind(tmp_path, SigningKey(b"k" * 32), ManualClock()) for kind in (Registry, Late))
    first.claim()
    first.put(ENTRY)
    replaced = _with(cancelling=True)
    assert second.claim() == {ENTRY.job_id: replaced}


class _Unheard(reporter.SessionDriver):
    def _current(self) -> None:
        return None

    def _send(self, body: bytes) -> bool:
        return False


def _driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[reporter.SessionDriver, ManualClock, SessionStorage]:
    """Return a driver whose Dispatcher does not answer any more."""
    storage = SessionStorage(tmp_path)
    storage.make()
    assignment = driver_protocol.Assignment(
        job_id="1" * 32, driver_id="d", reports="127.0.0.1:1", storage=str(tmp_path), token="t", secret="s", files=("log", "out")
    )
    clock = ManualClock(1_000_000)
    monkeypatch.setattr(reporter, "this_location", lambda: str(HERE))
    return _Unheard(assignment, clock), clock, storage


@pytest.mark.parametrize(
    ("leader", "beats", "ends"),
    [
        (str(HERE), True, False),
        ("elsewhere", True, True),
        # It was killed, too, so nobody starts another driver.
        ("elsewhere", False, False),
    ],
)
def test_a_driver_ends_before_a_leader_that_it_cannot_reach_starts_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leader: str, beats: bool, ends: bool
) -> None:
    driver, clock, storage = _driver(tmp_path, monkeypatch)
    host = str(_elsewhere(boot="b2", network="n2")) if leader == "elsewhere" else leader
    times = []
    for beat in range(60):
        record = driver_protocol.LeaderRecord(
            generation=2, address="a", reports="127.0.0.1:2", host=host, pid=1, created=1.0, beat=beat if beats else 0
        )
        storage.write_leader(record)
        driver._report()
        times += [clock.monotonic()] if driver._superseded else []
        clock.advance(1_000)

    assert bool(times) is ends
    # heartbeat.timeout is 50 s.
    assert not times or 40_000 < times[0] - 1_000_000 < 50_000


# -- whose process it is


def _others(tmp_path: Path, here: Location, there: Location) -> tuple[Member, Member, FakeProcess]:
    """Return a leader with a running job, another Dispatcher elsewhere which sees no process of either, and the driver."""
    leader = Member(tmp_path, processes=FakeProcesses(location=str(here)))
    driver = leader.submit()
    seen = FakeProcesses(location=str(there), dead={os.getpid(), driver.pid})
    return leader, Member(tmp_path, processes=seen, clock=leader.clock), driver


def _elsewhere(**changes: str) -> Location:
    return Location(**{"boot": "b1", "processes": "p1", "network": "n1", "machine": "m1", **changes})


@pytest.mark.parametrize("changes", [{"processes": "p2"}, {"boot": "b2", "machine": "m2"}, {"boot": "b2", "machine": ""}])
def test_a_dispatcher_of_the_same_name_elsewhere_takes_nobody_for_dead(tmp_path: Path, changes: dict[str, str]) -> None:
    leader, other, driver = _others(tmp_path, HERE, _elsewhere(**changes))
    for _ in range(3):
        leader.wait(4_000)
        other.dispatcher.step()
        assert (bool(leader.dispatcher.leadership.lead), bool(other.dispatcher.leadership.lead)) == (True, False)

    leader.clock.advance(10_001)
    other.dispatcher.step()
    assert other.dispatcher.leadership.lead
    other.wait(9_000)
    # The driver may be running: only its silence tells.
    assert other.processes.started == []
    for _ in range(6):
        other.wait(9_000)
    assert (other.processes.last.job_id, other.processes.killed) == (driver.job_id, [])


@pytest.mark.parametrize("there", [HERE, _elsewhere(boot="b2")])
def test_a_killed_dispatcher_and_its_drivers_are_replaced_at_once_here_and_after_a_restart_of_the_machine(
    tmp_path: Path, there: Location
) -> None:
    _, other, driver = _others(tmp_path, HERE, there)
    other.dispatcher = other.make("http://b:1", first_id=1_000)
    other.dispatcher.step()
    assert other.dispatcher.leadership.lead
    other.dispatcher.step()

    assert other.processes.last.job_id == driver.job_id

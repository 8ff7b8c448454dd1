"""The life of jobs in a session: started, lost, started again, ended, forgotten; and over Dispatchers that come and go."""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flinkish.checkpoint.signing import SigningKey
from flinkish.common.clock import ManualClock, SystemClock
from flinkish.common.errors import CheckpointError, ConfigurationError, EngineError, ForeignCheckpointError, RegistryError
from flinkish.server.answers.jobs import RestartsInfo
from flinkish.server.session import driver_protocol
from flinkish.server.session.dispatcher import Dispatcher
from flinkish.server.session.entries import Submission
from flinkish.server.session.launch import StartError
from flinkish.server.session.leadership import NotLeaderError
from flinkish.server.session.registry import Registry
from flinkish.server.session.storage import SessionStorage
from tests.unit.server.session.support import SCRIPT, FakeProcess, FakeProcesses, Member, fail_put, other_key, puts


@pytest.fixture
def member(tmp_path: Path) -> Member:
    return Member(tmp_path)


def _taken_over(tmp_path: Path) -> tuple[Member, Dispatcher, FakeProcess]:
    """Return a Dispatcher that hangs, so that it writes no records, the one that has taken over, and the driver of a job."""
    clock = ManualClock(1_000_000)
    first = Member(tmp_path, clock=clock, processes=FakeProcesses())
    second = first.make("http://b:1", first_id=1_000)
    driver = first.submit()
    second.step()
    clock.advance(10_001)
    second.step()
    return first, second, driver


def test_a_program_is_started_as_a_driver_with_nothing_on_its_command_line(member: Member) -> None:
    driver = member.submit(arguments=("--password", "hunter2"), properties=("parallelism.default=3",), entry_class=None)

    assert not any("hunter2" in word or driver.token in word for word in driver.command.arguments)
    program = msgspec.json.decode(driver.environment[driver_protocol.PROGRAM_VARIABLE], type=driver_protocol.Program)
    assert Path(program.file).read_bytes() == SCRIPT
    assert list(program.arguments) == ["--password", "hunter2"]
    assert "parallelism.default=3" in driver.environment["FLINKISH_PROPERTIES"]
    assert member.state(driver.job_id) == "RUNNING"
    assert Path(program.file).stat().st_mode & 0o077 == 0


def test_no_token_is_stored(member: Member, tmp_path: Path) -> None:
    driver = member.submit()

    stored = b"".join(file.read_bytes() for file in (tmp_path / "ha").rglob("*") if file.is_file())
    assert driver.token.encode() not in stored
    assert b"of the driver" not in stored


def test_a_report_with_another_token_is_refused(member: Member) -> None:
    driver = member.submit()

    assert not member.dispatcher.report(driver.report(), "another token")


def test_a_lost_driver_is_started_again_under_the_same_job_id(member: Member) -> None:
    first = member.submit(arguments=("a",))
    member.lose(first)

    second = member.processes.last
    assert second is not first
    assert second.job_id == first.job_id
    assert second.environment[driver_protocol.PROGRAM_VARIABLE] == first.environment[driver_protocol.PROGRAM_VARIABLE]
    assert second.token != first.token
    assert member.state(first.job_id) == "RESTARTING"
    # Its driver is there, but answers only when its job has started.
    assert member.dispatcher.report(second.report(None), second.token)
    assert member.state(first.job_id) == "RESTARTING"
    assert member.dispatcher.report(second.report(), second.token)
    assert member.state(first.job_id) == "RUNNING"
    # The first one may only have been slow: it is told to end.
    assert not member.dispatcher.report(first.report(), first.token)


def test_a_job_whose_driver_was_lost_has_no_running_subtasks(member: Member) -> None:
    driver = member.submit()
    report = driver.report()
    assert report.summary is not None
    running = msgspec.structs.replace(report.summary, tasks={"total": 4, "running": 3, "finished": 1})
    assert member.dispatcher.report(msgspec.structs.replace(report, summary=running), driver.token)
    member.lose(driver)

    entry = member.entry(driver)
    shown = member.dispatcher.summary(entry)
    assert (shown.state, shown.tasks) == ("RESTARTING", {"total": 4, "running": 0, "finished": 0, "canceled": 4})


def test_a_lost_driver_is_a_restart_of_its_job(member: Member) -> None:
    first = member.submit()
    reported = RestartsInfo(count=3, last_failure="ValueError: 7", last_failure_time=member.clock.wall_time() - 5_000)
    assert member.dispatcher.report(_with_restarts(first.report(), reported), first.token)
    member.lose(first)

    lost = member.clock.wall_time()
    expected = RestartsInfo(
        count=4, last_failure="the job's driver was lost", last_failure_time=lost, restarting_since=lost - 5_000
    )
    assert _restarts(member, first.job_id) == expected
    second = member.processes.last
    assert second.assignment.earlier == expected
    assert member.dispatcher.report(second.report(None), second.token)
    assert _restarts(member, first.job_id) == expected
    # What the second driver reports contains the restarts before it.
    runs = RestartsInfo(count=4, last_failure=expected.last_failure, last_failure_time=lost)
    assert member.dispatcher.report(_with_restarts(second.report(), runs), second.token)
    assert _restarts(member, first.job_id) == runs


def test_a_driver_that_is_lost_long_after_the_last_failure_restarts_its_job_once(member: Member) -> None:
    first = member.submit()
    reported = RestartsInfo(count=1, last_failure="ValueError: 7", last_failure_time=member.clock.wall_time() - 600_001)
    assert member.dispatcher.report(_with_restarts(first.report(), reported), first.token)
    member.lose(first)

    restarts = _restarts(member, first.job_id)
    assert isinstance(restarts, RestartsInfo)
    assert (restarts.count, restarts.restarting_since) == (2, None)


def _with_restarts(report: driver_protocol.Report, restarts: RestartsInfo) -> driver_protocol.Report:
    assert report.summary is not None
    return msgspec.structs.replace(report, summary=msgspec.structs.replace(report.summary, restarts=restarts))


def _restarts(member: Member, job_id: str) -> object:
    entry = member.dispatcher.job(job_id)
    assert entry is not None
    return member.dispatcher.summary(entry).restarts


def test_a_silent_driver_is_killed_and_replaced(member: Member) -> None:
    first = member.submit()
    member.clock.advance(45_000)
    assert member.dispatcher.leadership.lead
    member.dispatcher.step()
    # The lease was lost in the meantime: the same Dispatcher takes the lead again at once, and gives drivers time to report.
    member.dispatcher.step()
    assert member.processes.killed == []
    for _ in range(8):
        member.wait(9_000)

    assert member.processes.killed == [first.pid]
    assert member.processes.last is not first


def test_a_job_whose_driver_is_lost_again_and_again_fails(tmp_path: Path) -> None:
    member = Member(tmp_path, **{"session.driver.max-restarts": 2})
    driver = member.submit()
    for _ in range(40):
        member.processes.last.alive = False
        member.wait(1_000)

    assert len(member.processes.started) == 3
    assert member.state(driver.job_id) == "FAILED"
    entry = member.entry(driver)
    assert "lost 3 times within 10 min" in (entry.failure or "")
    restarts = member.dispatcher.summary(entry).restarts
    assert isinstance(restarts, RestartsInfo)
    assert (restarts.count, restarts.restarting_since) == (2, None)


def test_a_driver_that_reports_the_end_is_not_started_again(member: Member) -> None:
    driver = member.submit()
    member.archive(driver)
    assert member.dispatcher.report(driver.report("FINISHED", status="FINISHED"), driver.token)
    member.lose(driver)

    assert len(member.processes.started) == 1
    assert member.state(driver.job_id) == "FINISHED"


def test_an_end_that_could_not_be_reported_is_found_in_the_storage(member: Member) -> None:
    driver = member.submit()
    member.archive(driver, "CANCELED")
    member.lose(driver)

    assert member.state(driver.job_id) == "CANCELED"
    assert len(member.processes.started) == 1


def test_a_driver_that_died_after_it_noted_the_end_is_not_started_again(member: Member) -> None:
    # Its checkpoints may be deleted: started again, the job would begin from nothing and do its work twice.
    driver = member.submit()
    member.storage.write(driver_protocol.end_file(driver.job_id, driver.driver_id), b'{"status":"FINISHED"}')
    member.lose(driver)

    assert member.state(driver.job_id) == "FINISHED"
    assert len(member.processes.started) == 1


def test_the_end_that_an_earlier_driver_noted_does_not_count(member: Member) -> None:
    first = member.submit()
    member.lose(first)
    second = member.processes.last
    assert member.dispatcher.report(second.report(), second.token)
    member.archive(first, "FAILED")
    member.dispatcher.step()

    assert member.state(first.job_id) == "RUNNING"


def test_a_job_that_is_cancelled_while_its_driver_is_gone_is_not_started_again(tmp_path: Path) -> None:
    member = Member(tmp_path)
    driver = member.submit()
    entry = member.entry(driver)
    driver.alive = False
    member.dispatcher.cancel(entry)
    member.dispatcher.step()

    assert member.state(driver.job_id) == "CANCELED"


# -- starts --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("log", "shown", "hint"),
    [
        ("ZeroDivisionError: division by zero\n", "division by zero", False),
        ("2026-11-23 05:45:53,599 INFO uvicorn.error: Shutting down\n", "(it is empty)", True),
        ("before\nValueError: " + "x" * 3_000 + " at last\n", "xxx at last", True),
        ("x" * 3_000 + "\nE: the last\n2026-11-23 05:45:53,599 INFO a: b\n", "The end of its log:\nE: the last\nHint", True),
    ],
)
def test_a_script_that_ends_without_a_job_is_an_error_with_its_log(tmp_path: Path, log: str, shown: str, hint: bool) -> None:
    class DyingProcesses(FakeProcesses):
        def start(self, command: Any) -> tuple[int, float]:
            started = super().start(command)
            self.last.alive = False
            command.log.write_text(log)
            return started

    member = Member(tmp_path, processes=DyingProcesses(), **{"session.driver.start-timeout": "10 s"})
    submission = member.prepare()
    with pytest.raises(StartError, match=r"(?s)job.py ended without starting a job") as raised:
        member.dispatcher.submit(submission)
    assert shown in str(raised.value)
    assert "INFO" not in str(raised.value)
    assert ("must call execute()" in str(raised.value)) is hint

    assert member.dispatcher.jobs() == []
    member.dispatcher.step()
    assert len(member.processes.started) == 1


def test_a_job_that_cannot_be_started_is_not_kept(tmp_path: Path) -> None:
    member = Member(tmp_path, processes=FakeProcesses(full=True))
    with pytest.raises(EngineError, match="no space"):
        member.dispatcher.submit(member.prepare())

    assert member.dispatcher.jobs() == []


def test_a_full_disk_is_an_error_and_the_session_goes_on(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = member.submit()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("flinkish.common.files.local.LocalFiles.create", full)
        with pytest.raises(RegistryError, match="No space left on device"):
            member.dispatcher.upload("other.py", SCRIPT)
        # It is lost while nothing can be stored: nothing is done without the registry.
        member.lose(driver)
        assert len(member.processes.started) == 1
    member.dispatcher.step()
    assert len(member.processes.started) == 2


def test_a_folder_of_the_session_that_cannot_be_made_is_told_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "ha").touch()
    with pytest.raises(
        ConfigurationError, match=r"high-availability\.storageDir: .*/ha/session cannot be used: NotADirectoryError"
    ):
        Member(tmp_path).dispatcher.open()


def test_a_job_id_that_is_taken_is_refused(member: Member) -> None:
    driver = member.submit()
    program = member.dispatcher.programs()[0]

    with pytest.raises(StartError, match="there is a job"):
        member.dispatcher.submit(Submission(program=program, job_id=driver.job_id))


def test_a_program_that_was_changed_in_the_storage_is_not_run(member: Member) -> None:
    submission = member.prepare()
    member.storage.write(f"programs/{submission.program.id[:32]}", b"print('evil')")

    with pytest.raises(StartError, match="not the one that was uploaded"):
        member.dispatcher.submit(submission)


def test_a_deleted_program_is_kept_for_the_jobs_that_need_it(member: Member) -> None:
    driver = member.submit()
    program = member.dispatcher.programs()[0]

    assert member.dispatcher.delete_program(program.id)
    assert not member.dispatcher.delete_program(program.id)
    member.lose(driver)
    assert len(member.processes.started) == 2


# -- Dispatchers that come and go ------------------------------------------------------------------------------------------------


def test_a_new_dispatcher_finds_all_jobs_and_their_drivers(member: Member) -> None:
    running, ended, lost = member.submit(), member.submit(), member.submit()
    member.archive(ended, "FINISHED", **{f"/jobs/{ended.job_id}": {"state": "FINISHED"}})
    member.dispatcher.report(ended.report("FINISHED", status="FINISHED"), ended.token)
    lost.alive = False
    member.dispatcher.leadership.resign()

    member.restart()
    member.dispatcher.step()

    assert member.state(ended.job_id) == "FINISHED"
    assert member.dispatcher.report(running.report(), running.token)
    assert member.state(running.job_id) == "RUNNING"
    assert member.processes.last.job_id == lost.job_id
    assert len(member.processes.started) == 4
    entry = member.dispatcher.job(ended.job_id)
    assert entry is not None
    archive = member.dispatcher.archive(entry)
    assert archive is not None
    assert archive.find(f"/jobs/{ended.job_id}", {}) == b'{"state": "FINISHED"}'
    assert [program.name for program in member.dispatcher.programs()] == ["job.py"] * 3


def test_a_leader_whose_disk_is_full_says_so_and_does_not_name_itself_as_the_leader(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = member.submit()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("flinkish.common.files.local.LocalFiles.replace", full)
        for _ in range(3):
            member.clock.advance(10_001)
            # Its lease ends, and then it cannot lead again.
            with suppress(OSError, RegistryError):
                member.dispatcher.step()
        with pytest.raises(NotLeaderError, match="No space left on device") as refused:
            member.dispatcher.jobs()
        assert str(member.settings.root) in str(refused.value)
        assert "http://a:1" not in str(refused.value)
    member.dispatcher.step()
    assert member.dispatcher.report(driver.report(), driver.token)
    assert member.state(driver.job_id) == "RUNNING"


def test_of_two_dispatchers_one_leads_and_the_other_names_it(tmp_path: Path) -> None:
    clock, processes = ManualClock(1_000_000), FakeProcesses()
    first = Member(tmp_path, clock=clock, processes=processes)
    second = first.make("http://b:1", first_id=1_000)
    driver = first.submit()
    second.step()

    assert (bool(first.dispatcher.leadership.lead), bool(second.leadership.lead)) == (True, False)
    with pytest.raises(NotLeaderError, match="the session's leader is http://a:1"):
        second.jobs()
    with pytest.raises(NotLeaderError):
        second.report(driver.report(), driver.token)


def test_the_other_dispatcher_takes_over_when_the_lease_ends_and_the_first_one_can_do_nothing_more(tmp_path: Path) -> None:
    first, second, driver = _taken_over(tmp_path)

    assert second.leadership.lead
    entry = second.job(driver.job_id)
    assert entry is not None
    assert second.report(driver.report(), driver.token)
    # It wakes up in the middle of a request, before it has looked at its lease.
    with pytest.raises(NotLeaderError):
        first.dispatcher.upload("late.py", SCRIPT)
    first.dispatcher.step()
    assert not first.dispatcher.leadership.lead
    first.dispatcher.step()
    with pytest.raises(NotLeaderError, match="the session's leader is http://b:1"):
        first.dispatcher.leadership.leading()
    assert [program.name for program in second.programs()] == ["job.py"]


def test_a_leader_that_resigns_is_replaced_at_once(tmp_path: Path) -> None:
    first = Member(tmp_path)
    second = first.make("http://b:1")
    first.dispatcher.step()
    second.step()
    assert not second.leadership.lead
    first.dispatcher.leadership.resign()
    second.step()

    assert second.leadership.lead


def test_a_dispatcher_that_died_between_the_start_of_a_driver_and_its_note_starts_no_second_one_at_once(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    submission = member.prepare()
    fail_put(member, monkeypatch, 2, SystemExit())
    monkeypatch.setattr(member.dispatcher.leadership, "forget", lambda *_: None)
    with pytest.raises(SystemExit):
        member.dispatcher.submit(submission)
    member.dispatcher.leadership.resign()
    member.restart()
    member.dispatcher.step()
    (driver,) = member.processes.started
    assert member.dispatcher.report(driver.report(), driver.token)
    member.wait(6_000)

    assert member.processes.started == [driver]


def test_entries_that_another_key_signed_are_refused(member: Member, tmp_path: Path) -> None:
    member.submit()
    member.dispatcher.leadership.resign()
    member.settings = other_key(tmp_path, member.settings)

    with pytest.raises(ForeignCheckpointError, match="was not signed by our key"):
        member.make().step()


# -- jobs that have ended --------------------------------------------------------------------------------------------------------


def test_jobs_that_ended_long_ago_are_forgotten_with_their_files(member: Member, tmp_path: Path) -> None:
    driver = member.submit()
    member.archive(driver)
    member.dispatcher.report(driver.report("FINISHED", status="FINISHED"), driver.token)
    driver.alive = False
    member.dispatcher.delete_program(member.dispatcher.programs()[0].id)
    member.dispatcher.step()
    assert member.state(driver.job_id) == "FINISHED"
    member.wait(3_600_001)
    member.dispatcher.step()
    member.dispatcher.step()

    assert member.dispatcher.job(driver.job_id) is None
    storage = SessionStorage(member.settings.root)
    assert storage.read(driver_protocol.archive_file(driver.job_id, driver.driver_id)) is None
    assert not any((tmp_path / "ha" / "session" / "programs").iterdir())


def test_at_most_so_many_ended_jobs_are_kept(tmp_path: Path) -> None:
    member = Member(tmp_path, **{"jobstore.max-capacity": 1})
    for number in range(3):
        driver = member.submit()
        member.clock.advance(10 + number)
        member.dispatcher.report(driver.report("FINISHED", status="FINISHED"), driver.token)
        driver.alive = False
    member.dispatcher.step()

    assert [job.job_id for job in member.dispatcher.jobs()] == [member.processes.last.job_id]


def test_the_registry_keeps_few_files(member: Member, tmp_path: Path) -> None:
    driver = member.submit()
    for _ in range(15):
        member.dispatcher.upload("job.py", SCRIPT)
    folder = tmp_path / "ha" / "session" / "registry"

    assert len(list((folder / "entries").iterdir())) == 17
    assert len(list((folder / "_delta_log").glob("*.json"))) <= 12
    member.dispatcher.leadership.resign()
    member.dispatcher = member.make()
    member.dispatcher.step()
    assert len(member.dispatcher.programs()) == 16
    assert member.dispatcher.job(driver.job_id) is not None


# -- storage in S3


def test_an_entry_whose_commit_nobody_confirmed_is_there_for_the_next_dispatcher(
    member: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The commit arrives, and then the storage does not answer: deleted, the entry's file would be missing in the table.
    member.dispatcher.step()
    log = member.dispatcher.leadership.leading().registry._log
    assert log is not None
    replace_files, refresh = type(log).replace_files, type(log).refresh
    answers = {"refresh": True}

    def loses_answer(self: Any, *arguments: Any, **named: Any) -> None:
        replace_files(self, *arguments, **named)
        answers["refresh"] = False
        raise OSError("no answer")

    def refreshes(self: Any) -> None:
        if not answers["refresh"]:
            raise OSError("still no answer")
        refresh(self)

    with monkeypatch.context() as patch:
        patch.setattr(type(log), "replace_files", loses_answer)
        patch.setattr(type(log), "refresh", refreshes)
        with pytest.raises(RegistryError, match="no answer"):
            member.dispatcher.upload("job.py", SCRIPT)

    member.dispatcher.leadership.resign()
    member.restart()
    assert [program.name for program in member.dispatcher.programs()] == ["job.py"]


def test_a_job_that_is_cancelled_before_its_driver_has_reported_does_not_run(tmp_path: Path) -> None:
    member = Member(tmp_path)
    driver = _unreported(member)
    entry = member.entry(driver)
    member.dispatcher.cancel(entry)

    assert not member.dispatcher.report(driver.report(), driver.token)
    member.lose(driver)
    assert member.state(driver.job_id) == "CANCELED"
    assert len(member.processes.started) == 1


def test_a_job_that_is_cancelled_between_two_reports_of_its_start_does_not_run(tmp_path: Path) -> None:
    member = Member(tmp_path)
    driver = _unreported(member)
    assert member.dispatcher.report(driver.report(None), driver.token)
    entry = member.entry(driver)
    member.dispatcher.cancel(entry)

    assert not member.dispatcher.report(driver.report(), driver.token)


def test_a_driver_that_cancels_its_job_may_end_by_itself(member: Member) -> None:
    # As at the end of a session, which notes the cancellation before it asks the drivers.
    driver = member.submit()
    entry = member.entry(driver)
    member.dispatcher.cancel(entry)

    assert member.dispatcher.report(driver.report(), driver.token)
    assert member.dispatcher.report(driver.report("CANCELLING"), driver.token)
    # Another Dispatcher that takes over meanwhile leaves it alone, too.
    member.dispatcher.leadership.resign()
    member.restart()
    assert member.dispatcher.report(driver.report("CANCELLING"), driver.token)


def _unreported(member: Member) -> FakeProcess:
    """Start a driver that has not reported yet."""
    member.dispatcher.submit(member.prepare())
    return member.processes.last


def test_a_job_that_is_forgotten_meanwhile_is_not_cancelled(tmp_path: Path) -> None:
    member = Member(tmp_path, **{"jobstore.max-capacity": 0})
    driver = member.submit()
    entry = member.entry(driver)
    member.dispatcher.report(driver.report("FINISHED", status="FINISHED"), driver.token)
    member.lose(driver)
    assert member.dispatcher.job(driver.job_id) is None

    member.dispatcher.cancel(entry)


def test_a_leader_whose_lease_has_ended_takes_no_reports(tmp_path: Path) -> None:
    # It would keep drivers from the new leader, which would hold them for lost.
    first, second, driver = _taken_over(tmp_path)
    assert second.leadership.lead

    with pytest.raises(NotLeaderError):
        first.dispatcher.report(driver.report(), driver.token)
    with pytest.raises(NotLeaderError):
        first.dispatcher.jobs()
    assert second.report(driver.report(), driver.token)


def test_what_drivers_had_on_this_machine_goes_with_their_jobs(member: Member) -> None:
    driver = member.submit()
    program = Path(msgspec.json.decode(driver.environment[driver_protocol.PROGRAM_VARIABLE], type=driver_protocol.Program).file)
    member.dispatcher.report(driver.report("FINISHED", status="FINISHED"), driver.token)
    member.lose(driver)
    assert program.exists()
    member.clock.advance(3_600_001)
    for _ in range(3):
        member.dispatcher.step()

    assert not program.parent.exists()


def test_a_record_that_goes_while_it_is_read_is_looked_for_again(member: Member) -> None:
    member.dispatcher.step()
    earlier = member.dispatcher.leadership.leading().record
    member.storage.write(driver_protocol.leader_file(earlier.generation), msgspec.json.encode(earlier))

    class Late(SessionStorage):
        def read(self, inside: str) -> bytes | None:
            if inside == driver_protocol.leader_file(1):
                self.write_leader(msgspec.structs.replace(earlier, generation=2))
                self.remove(inside)
            return super().read(inside)

    found = Late(member.settings.root).leader()

    assert found is not None
    assert found.generation == 2


def test_drivers_whose_reports_a_slow_storage_has_held_up_are_not_lost(member: Member, monkeypatch: pytest.MonkeyPatch) -> None:
    lost, healthy = member.submit(), member.submit()

    def slow(_: int, entry: Any, put: Callable[[Any], None]) -> None:
        # Nobody can report meanwhile: reports wait for the same lock.
        member.clock.advance(60_000)
        put(entry)

    lost.alive = False
    with monkeypatch.context() as patch:
        puts(member, patch, slow)
        member.dispatcher.step()
    for _ in range(3):
        member.dispatcher.step()

    assert healthy.pid not in member.processes.killed
    assert member.dispatcher.report(healthy.report(), healthy.token)


def test_a_registry_that_cannot_be_made_names_the_key_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "a file").write_text("")
    registry = Registry(tmp_path / "a file" / "session", SigningKey(b"k" * 32), SystemClock())
    with pytest.raises(CheckpointError, match=r"^high-availability\.storageDir: \S.* cannot be used: NotADirectoryError: "):
        registry.claim()

"""The logs of drivers are shown by Dispatchers on other machines, after the end of the job."""

from __future__ import annotations

from pathlib import Path

from flinkish.common import redaction
from flinkish.server.session import driver_protocol
from flinkish.server.session.storage import SessionStorage
from tests.unit.server.session.support import FakeProcess, FakeProcesses, Member


def _elsewhere(tmp_path: Path, member: Member) -> Member:
    """Return a Dispatcher of the same session on a machine with a disk of its own, which leads."""
    processes = FakeProcesses(location="boot2/pid2/net2/machine2")
    other = Member(tmp_path, processes=processes, clock=member.clock, **{"env.log.dir": tmp_path / "log2"})
    member.dispatcher.leadership.resign()
    other.dispatcher.step()
    assert other.dispatcher.leadership.lead
    return other


def _ended(member: Member) -> FakeProcess:
    """Run a job to its end, with a log that its driver has kept."""
    driver = member.submit()
    driver.command.log.write_text("it runs with hush-hush-hush\n")
    driver.command.stdout.write_text("42\n")
    member.storage.keep_logs(driver.job_id, driver.driver_id, (driver.command.log, driver.command.stdout))
    member.archive(driver)
    member.dispatcher.report(driver.report("FINISHED", status="FINISHED"), driver.token)
    driver.alive = False
    return driver


def _texts(member: Member) -> dict[str, str]:
    return {path.name: path.read_text() for path in member.dispatcher.logs_of_drivers() if path.exists()}


def test_a_dispatcher_on_another_machine_has_the_logs_of_ended_jobs(tmp_path: Path) -> None:
    redaction.remember({"s3.secret-key": "hush-hush-hush"})
    member = Member(tmp_path)
    driver = _ended(member)
    other = _elsewhere(tmp_path, member)

    log, out = f"driver-{driver.job_id}.log", f"driver-{driver.job_id}.out"
    expected = {log: "it runs with ******\n", out: "42\n"}
    assert _texts(other) == expected
    assert ((tmp_path / "log2" / log).stat().st_mode & 0o777) == 0o600
    # They are copied once: also by the next Dispatcher there.
    other.dispatcher = other.make()
    other.wait(60_000)
    assert _texts(other) == expected
    # On the machine of the driver, the whole log stays as it is.
    member.dispatcher = member.make()
    other.dispatcher.leadership.resign()
    member.dispatcher.step()
    assert _texts(member) == {log: "it runs with hush-hush-hush\n", out: "42\n"}


def test_the_log_of_an_earlier_driver_on_this_machine_is_the_earlier_part(tmp_path: Path) -> None:
    member = Member(tmp_path)
    driver = _ended(member)
    log = f"driver-{driver.job_id}.log"
    (tmp_path / "log2").mkdir()
    (tmp_path / "log2" / log).write_text("an earlier driver\n")
    other = _elsewhere(tmp_path, member)
    texts = _texts(other)
    assert (texts[log].startswith("it runs"), texts[f"{log}.1"]) == (True, "an earlier driver\n")


def test_the_log_of_a_job_whose_driver_is_lost_too_often_is_kept_and_goes_with_the_job(tmp_path: Path) -> None:
    member = Member(tmp_path, **{"session.driver.max-restarts": 0})
    driver = member.submit()
    driver.command.log.write_text("Segmentation fault\n")
    member.lose(driver)
    assert member.state(driver.job_id) == "FAILED"
    log, out = driver_protocol.log_files(driver.job_id, driver.driver_id)
    storage = SessionStorage(member.settings.root)
    assert (storage.read(log), storage.read(out)) == (b"Segmentation fault\n", None)
    member.clock.advance(3_600_001)
    for _ in range(3):
        member.dispatcher.step()
    assert member.dispatcher.job(driver.job_id) is None
    assert storage.read(log) is None

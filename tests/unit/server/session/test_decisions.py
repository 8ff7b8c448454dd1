"""What becomes of a job whose driver may be gone, and who leads: decisions without processes, files and clocks."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flinkish.server.session.driver_protocol import LeaderRecord
from flinkish.server.session.entries import (
    DriverRecord,
    JobEntry,
    ProgramEntry,
)
from flinkish.server.session.leadership import Lease, Watch
from flinkish.server.session.supervision import (
    Close,
    Fail,
    Keep,
    Limits,
    Sight,
    Start,
    decide,
)

LIMITS = Limits(heartbeat_timeout=50_000, max_restarts=3, restart_window=600_000)
PROGRAM = ProgramEntry(id="a" * 32 + "_job.py", name="job.py", size=1, sha256="", uploaded=0)
DRIVER = DriverRecord(id="d" * 32, token_hash="", started=0, host="here", pid=7, created=1.0)
ENTRY = JobEntry(job_id="1" * 32, program=PROGRAM, submitted=0, driver=DRIVER)
NOW = 10_000_000


def sight(**changes: Any) -> Sight:
    return Sight(**{"alive": True, "silent": 0, "ended": None, "now": NOW, **changes})


@pytest.mark.parametrize("alive", [True, None])
def test_a_driver_that_reports_is_kept(alive: bool | None) -> None:
    assert decide(ENTRY, sight(alive=alive, silent=50_000), LIMITS) == Keep()


def test_a_driver_whose_process_is_gone_is_started_again_at_once() -> None:
    assert decide(ENTRY, sight(alive=False), LIMITS) == Start(kill=False)


def test_a_silent_driver_is_killed_before_another_one_is_started() -> None:
    assert decide(ENTRY, sight(silent=50_001), LIMITS) == Start(kill=True)
    # It may be on another machine: its checkpoints are fenced, it cannot be killed from here.
    assert decide(ENTRY, sight(alive=None, silent=50_001), LIMITS) == Start(kill=False)


def test_a_job_whose_driver_was_never_started_is_started() -> None:
    assert decide(replace(ENTRY, driver=None), sight(alive=None), LIMITS) == Start(kill=False)


def test_a_job_that_has_ended_for_good_is_not_started_again() -> None:
    assert decide(ENTRY, sight(alive=False, ended="FINISHED"), LIMITS) == Close("FINISHED")


def test_a_cancelled_job_without_a_driver_is_cancelled() -> None:
    assert decide(replace(ENTRY, cancelling=True), sight(alive=False), LIMITS) == Close("CANCELED")
    assert decide(replace(ENTRY, cancelling=True), sight(), LIMITS) == Keep()


def test_pauses_between_starts_double() -> None:
    once, twice = (NOW - 900,), (NOW - 5_000, NOW - 1_900)

    assert decide(replace(ENTRY, restarts=once), sight(alive=False), LIMITS) == Keep()
    assert decide(replace(ENTRY, restarts=once), sight(alive=False, now=NOW + 100), LIMITS) == Start(kill=False)
    assert decide(replace(ENTRY, restarts=twice), sight(alive=False), LIMITS) == Keep()
    assert decide(replace(ENTRY, restarts=twice), sight(alive=False, now=NOW + 100), LIMITS) == Start(kill=False)


def test_a_job_whose_driver_is_lost_too_often_fails_and_says_why() -> None:
    often = tuple(NOW - 100_000 + each for each in range(3))

    decision = decide(replace(ENTRY, restarts=often), sight(alive=False), LIMITS)

    assert decision == Fail("its driver was lost 4 times within 10 min (session.driver.max-restarts)")
    # Losses of long ago do not count.
    assert decide(replace(ENTRY, restarts=often), sight(alive=False, now=NOW + 600_000), LIMITS) == Start(kill=False)


RECORD = LeaderRecord(generation=3, address="http://a:1", reports="a:2", host="there", pid=5, created=1.0)


def test_nobody_leads_if_there_is_no_record_or_the_leader_has_resigned() -> None:
    watch = Watch(10_000, "here", lambda pid, created: True)

    assert watch.is_free(None, 0)
    assert watch.is_free(LeaderRecord(**{**{f: getattr(RECORD, f) for f in RECORD.__struct_fields__}, "ended": True}), 0)


def test_a_record_that_does_not_change_for_the_lease_is_that_of_a_dead_leader() -> None:
    watch = Watch(10_000, "here", lambda pid, created: False)

    assert not watch.is_free(RECORD, 100)
    assert not watch.is_free(RECORD, 10_100)
    assert watch.is_free(RECORD, 10_101)


def test_a_record_that_changes_keeps_the_lead() -> None:
    watch = Watch(10_000, "here", lambda pid, created: False)
    beats = [LeaderRecord(generation=3, address="", reports="", host="there", pid=5, created=1.0, beat=beat) for beat in range(3)]

    assert [watch.is_free(beat, 9_000 * number) for number, beat in enumerate(beats)] == [False, False, False]


def test_a_leader_of_this_machine_whose_process_is_gone_is_replaced_at_once() -> None:
    record = LeaderRecord(generation=3, address="", reports="", host="here", pid=5, created=1.0)

    assert Watch(10_000, "here", lambda pid, created: (pid, created) != (5, 1.0)).is_free(record, 0)
    assert not Watch(10_000, "here", lambda pid, created: True).is_free(record, 0)


def test_a_leader_stops_before_another_one_may_take_over() -> None:
    lease = Lease(10_000, 0)

    assert [lease.is_due(1_999), lease.is_due(2_000)] == [False, True]
    assert [lease.is_lost(9_999), lease.is_lost(10_000)] == [False, True]
    lease.renewed = 9_000
    assert not lease.is_lost(18_999)


def test_a_clock_that_was_put_back_does_not_make_a_pause_longer() -> None:
    later = (NOW + 3_600_000,)

    assert decide(replace(ENTRY, restarts=later), sight(alive=False), LIMITS) == Start(kill=False)

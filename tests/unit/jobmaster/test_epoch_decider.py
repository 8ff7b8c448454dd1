from __future__ import annotations

from typing import Any

from flinkish.jobmaster.pacing import EpochFacts, EpochReason, WaitFor, decide

QUIET: dict[str, Any] = {
    "wall": 1_000_000,
    "now": 5_000,
    "first": False,
    "farewell": False,
    "barrier_due": False,
    "next_checkpoint": None,
    "input_ready": False,
    "back_pressured": False,
    "next_timer": None,
    "next_poll": None,
    "idle_deadline": None,
}


def facts(**changes: Any) -> EpochFacts:
    return EpochFacts(**{**QUIET, **changes})


def test_with_nothing_to_come_it_waits_for_a_ring_only() -> None:
    assert decide(facts()) == WaitFor(timeout=None)


def test_the_first_epoch_runs_whatever_there_is() -> None:
    assert decide(facts(first=True)) == EpochReason.FIRST


def test_each_reason_runs_an_epoch() -> None:
    assert decide(facts(farewell=True)) == EpochReason.FAREWELL
    assert decide(facts(barrier_due=True)) == EpochReason.CHECKPOINT
    assert decide(facts(input_ready=True)) == EpochReason.INPUT
    assert decide(facts(next_timer=1_000_000)) == EpochReason.TIMER
    assert decide(facts(next_poll=5_000)) == EpochReason.POLL
    assert decide(facts(idle_deadline=4_999)) == EpochReason.IDLE


def test_it_waits_until_the_earliest_of_what_comes() -> None:
    later = facts(next_timer=1_000_300, next_poll=5_200, next_checkpoint=5_100, idle_deadline=50_000)
    assert decide(later) == WaitFor(timeout=100)


def test_a_far_timer_is_looked_at_every_minute_as_the_wall_clock_may_be_set() -> None:
    assert decide(facts(next_timer=1_000_000 + 3_600_000)) == WaitFor(timeout=60_000)


def test_input_waits_while_the_client_is_slow_but_timers_and_checkpoints_do_not() -> None:
    assert decide(facts(back_pressured=True, input_ready=True, next_poll=1)) == WaitFor(timeout=None)
    assert decide(facts(back_pressured=True, input_ready=True, barrier_due=True)) == EpochReason.CHECKPOINT
    assert decide(facts(back_pressured=True, input_ready=True, next_timer=1)) == EpochReason.TIMER


def test_tasks_that_write_snapshots_are_asked_again_also_while_the_client_is_slow() -> None:
    assert decide(facts(uploads_due=5_000)) == EpochReason.UPLOADS
    assert decide(facts(uploads_due=5_000, back_pressured=True)) == EpochReason.UPLOADS
    assert decide(facts(uploads_due=5_070, idle_deadline=50_000)) == WaitFor(timeout=70)


def test_a_checkpoint_that_is_overdue_but_not_allowed_yet_does_not_spin() -> None:
    assert decide(facts(next_checkpoint=1)) == WaitFor(timeout=1)

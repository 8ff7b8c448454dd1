"""Whether to run an epoch now, wait, or end the attempt: a pure function of facts.

The JobMaster collects the facts, waits on its condition as long as this says, and looks again. Nothing is polled but readers that
said they have nothing now.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class EpochReason(Enum):
    """Why an epoch runs; the order is that of the checks."""

    FIRST = "the attempt begins"
    FAREWELL = "functions learn of the last checkpoint"
    CHECKPOINT = "a checkpoint or savepoint is to be taken"
    INPUT = "there is input"
    TIMER = "a processing-time timer is due"
    POLL = "readers that had nothing are asked again"
    IDLE = "the engine must not be silent for longer"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFacts:
    """All that the decision depends on. Times are milliseconds: `wall` on the wall clock, all else on the monotonic one."""

    wall: int
    now: int
    #: The attempt is over: cancelled, failed, stopped or finished.
    over: bool
    first: bool
    #: All is done; only the functions have to be told.
    farewell: bool
    #: A barrier is to be sent with the next command.
    barrier_due: bool
    #: When the coordinator is to be looked at again: a checkpoint is due, or overdue, or it is time to look for another driver.
    next_checkpoint: int | None
    #: Readers have more, got new splits or must learn that none will come; records of a driver source are there.
    input_ready: bool
    #: The client does not take results as fast as they come: sources have to wait.
    back_pressured: bool
    #: When the earliest processing-time timer is due, on the wall clock.
    next_timer: int | None
    #: When readers that said NOTHING_AVAILABLE are to be asked again.
    next_poll: int | None
    #: When an epoch must run at the latest, whatever happens.
    idle_deadline: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEpoch:
    reason: EpochReason


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFor:
    """Wait for at most so many milliseconds, or until something happens (None: for that only)."""

    timeout: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndAttempt:
    """No epoch any more."""


EpochDecision = RunEpoch | WaitFor | EndAttempt

#: A wait for the wall clock looks at it again after a minute at the latest: the clock may have been set forward meanwhile.
_LONGEST_TIMER_WAIT = 60_000


def decide(facts: EpochFacts) -> EpochDecision:
    """Say what to do now."""
    if facts.over:
        return EndAttempt()
    if facts.first:
        return RunEpoch(reason=EpochReason.FIRST)
    if facts.farewell:
        return RunEpoch(reason=EpochReason.FAREWELL)
    if facts.barrier_due:
        return RunEpoch(reason=EpochReason.CHECKPOINT)
    if facts.input_ready and not facts.back_pressured:
        return RunEpoch(reason=EpochReason.INPUT)
    if facts.next_timer is not None and facts.next_timer <= facts.wall:
        return RunEpoch(reason=EpochReason.TIMER)
    if facts.next_poll is not None and facts.next_poll <= facts.now and not facts.back_pressured:
        return RunEpoch(reason=EpochReason.POLL)
    if facts.idle_deadline is not None and facts.idle_deadline <= facts.now:
        return RunEpoch(reason=EpochReason.IDLE)
    waits = []
    if facts.next_checkpoint is not None:
        waits.append(facts.next_checkpoint - facts.now)
    if facts.next_timer is not None:
        waits.append(min(_LONGEST_TIMER_WAIT, facts.next_timer - facts.wall))
    if facts.next_poll is not None and not facts.back_pressured:
        waits.append(facts.next_poll - facts.now)
    if facts.idle_deadline is not None:
        waits.append(facts.idle_deadline - facts.now)
    return WaitFor(timeout=max(1, min(waits)) if waits else None)

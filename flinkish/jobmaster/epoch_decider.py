"""Decides whether to run an epoch now or to wait: a pure function of facts.

The JobMaster collects the facts, waits on its condition as long as the decision says, and checks again. Only readers that had no
records are polled.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class EpochReason(Enum):
    """The reason for running an epoch; reasons are checked in this order."""

    FIRST = "the attempt begins"
    FAREWELL = "functions learn of the last checkpoint"
    CHECKPOINT = "a checkpoint or savepoint is to be taken"
    INPUT = "there is input"
    TIMER = "a processing-time timer is due"
    POLL = "readers that had nothing are asked again"
    IDLE = "the engine must not be silent for longer"


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochFacts:
    """The facts that the decision depends on. Times are milliseconds: `wall` on the wall clock, others on the monotonic one."""

    wall: int
    now: int
    first: bool = False
    #: Whether everything is done except notifying and closing the functions.
    farewell: bool = False
    #: Whether a barrier is to be sent with the next command.
    barrier_due: bool = False
    #: When to check the coordinator again: a checkpoint is due or overdue, or another driver may have taken over the job.
    next_checkpoint: int | None = None
    #: Whether readers have more records, got new splits or must learn that none will come, or a driver source has records.
    input_ready: bool
    #: Whether sources must wait because the client does not take results as fast as they come.
    back_pressured: bool
    #: When the earliest processing-time timer is due, on the wall clock.
    next_timer: int | None
    #: When readers that reported NOTHING_AVAILABLE are to be polled again.
    next_poll: int | None
    #: When an epoch must run at the latest, whatever happens.
    idle_deadline: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFor:
    """Wait until something happens, but at most for the given milliseconds (None = no limit)."""

    timeout: int | None


#: Longest wait for a time of the wall clock before the clock is read again, because it may have been set forward.
_LONGEST_TIMER_WAIT = 60_000


def decide(facts: EpochFacts) -> EpochReason | WaitFor:
    """Return the reason to run an epoch now, or how long to wait."""
    if facts.first:
        return EpochReason.FIRST
    if facts.farewell:
        return EpochReason.FAREWELL
    if facts.barrier_due:
        return EpochReason.CHECKPOINT
    if facts.input_ready and not facts.back_pressured:
        return EpochReason.INPUT
    if facts.next_timer is not None and facts.next_timer <= facts.wall:
        return EpochReason.TIMER
    if facts.next_poll is not None and facts.next_poll <= facts.now and not facts.back_pressured:
        return EpochReason.POLL
    if facts.idle_deadline is not None and facts.idle_deadline <= facts.now:
        return EpochReason.IDLE
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

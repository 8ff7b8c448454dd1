"""How many records an epoch may read, so that it takes about the time it should.

A pure function of what the epoch before took. The goal is `execution.epoch.target-duration`: shorter epochs pay the fixed cost of
an epoch (on Spark about 0.2 s) too often, longer ones make timers, checkpoints and cancel wait.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Before anything was measured: small enough that even 50 us a record take half a second only.
_INITIAL_CREDIT = 10_000
#: However slow the user's functions are, an epoch reads a few records, or nothing would move.
_LEAST_CREDIT = 16
#: One epoch's figures are noisy (garbage collection, a first call): the credit grows and shrinks in steps.
_STEP = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    """`target_duration` in milliseconds; `max_records` bounds what a source subtask reads, `max_bytes` what a slot sends on."""

    target_duration: int
    max_records: int
    max_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCost:
    """What an epoch took.

    `records` is the most that one source subtask read, `busy_ms` that of the busiest slot over all levels, `elapsed_ms` the time
    from command to reports: the difference is the engine's own. `bytes` is the most that one slot sent on at one level.
    """

    records: int
    busy_ms: float
    elapsed_ms: float
    bytes: int = 0


def initial_credit(settings: AdmissionSettings) -> int:
    """Return the credit of each source subtask in the first epoch of an attempt."""
    return min(_INITIAL_CREDIT, settings.max_records)


def next_credit(credit: int, cost: EpochCost, settings: AdmissionSettings) -> int:
    """Return how many records each source subtask may read in the next epoch, given the credit and the cost of the last."""
    if cost.records == 0:
        return credit
    by_time = _by_time(credit, cost, settings)
    # Sources stop by themselves when their own slot has sent enough; a slot further down may send many times that.
    return max(1, min(by_time, cost.records * settings.max_bytes // max(1, cost.bytes)))


def _by_time(credit: int, cost: EpochCost, settings: AdmissionSettings) -> int:
    least = min(_LEAST_CREDIT, settings.max_records)
    overhead = max(0.0, cost.elapsed_ms - cost.busy_ms)
    # Where the overhead eats most of the target, an epoch still works for half of it: else it would do nothing but begin and end.
    budget = max(settings.target_duration - overhead, settings.target_duration / 2)
    wanted = int(cost.records * budget / max(cost.busy_ms, 0.5))
    if cost.records < credit // 2 and cost.elapsed_ms <= settings.target_duration:
        # The sources had less to give than they might: what so few records took says little about many.
        return credit
    bounded = max(credit // _STEP, min(credit * _STEP, wanted))
    return max(least, min(settings.max_records, bounded))

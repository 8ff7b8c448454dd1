"""Limits the number of records that an epoch reads, so that epochs take about their target duration.

Pure logic on the measured costs of the last epochs. The goal is `execution.epoch.target-duration`: shorter epochs pay the fixed
cost of an epoch (on Spark about 0.1 s) too often, longer ones delay timers, checkpoints and cancellation.

The model: an epoch takes `fixed + marginal * records`. The fixed cost contains the engine's own work, the levels, part files and,
if every epoch has one, the snapshot. Records get the part of the target that the fixed cost leaves. If the fixed cost exceeds
half of the target, records get as much time as the fixed cost: then the epoch exceeds its target, but at least half of it is
useful work. Without that rule the credit would sink further and further, because fewer records do not reduce the fixed cost.

At the least credit, epochs do not differ in their records, so they do not show which of the two costs makes them long. Then the
credit is doubled for an epoch: if the fixed cost was the reason, the difference shows it, and the credit grows.

Before anything has been measured, an epoch is a probe: it reads few records, because one record may take a microsecond or, if a
function calls a service, a second.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

#: The credit of the probe, the first epoch with records: with functions of 10 ms for a record it takes five seconds. A probe of
#: a job with fast functions costs one short epoch more.
PROBE_CREDIT = 500
#: The same for jobs on columns without functions of the program, in which a record takes a few microseconds at most.
COLUMNS_PROBE_CREDIT = 10_000
#: Maximum factor of growth after the probe: small enough that even 50 us a record, in a job with functions, make a second.
_FIRST_STEP = 40
#: However slow the user's functions are, an epoch reads a few records; otherwise the job would make no progress.
_LEAST_CREDIT = 16
#: Maximum factor by which the credit changes after one epoch, because single epochs are noisy (garbage collection, a first call).
_STEP = 4
#: Maximum factor of growth after an epoch that took half of its target or more, unless most of that was the fixed cost: one small
#: step shows whether the model is wrong.
_SMALL_STEP = 2
#: Maximum factor of growth after an epoch in which slots worked so little that this many times the records, even if each takes
#: `_STEP` times as long, are no more than the target of work. Small jobs end sooner by it.
_LARGE_STEP = 16
#: Number of epochs that the model is fitted to. In simulations (see tests/unit/jobmaster/test_admission.py), 8 epochs followed
#: noise, and 24 adapted slowly to changed costs.
_REMEMBERED = 12
#: With at least this many ordinary epochs, the model ignores special ones, such as those with a snapshot.
_ENOUGH = 3
#: Least difference between the numbers of records of two epochs, as a share of the larger, for estimating the marginal cost.
_APART = 0.3
#: Factor by which the weight of a pair of epochs decreases with each epoch after it.
_FADING = 0.8
#: Two epochs in a row that take longer or shorter than predicted by more than this factor show that costs have changed.
_SURPRISE = 2.0
#: Number of latest epochs that the model uses as long as all epochs had about the same number of records.
_LATEST = 5
#: Factor by which an earlier estimate of the fixed cost decreases with each epoch that cannot confirm it.
_TRUST = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings:
    """The limits of an epoch: duration in milliseconds, records read by one source subtask, bytes sent on by one slot."""

    target_duration: int
    max_records: int
    max_bytes: int
    #: How many records the first epoch may read.
    probe: int = PROBE_CREDIT


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCost:
    """The measured cost of an epoch.

    `records` is the maximum that one source subtask read. `busy_ms` is the time that the busiest slot worked, over all levels;
    `elapsed_ms` is the time from the command to the last report, so the difference is the engine's own time. `bytes` is the
    maximum that one slot sent on at one level.
    """

    records: int
    busy_ms: float
    elapsed_ms: float
    bytes: int = 0
    #: Whether the epoch did more than ordinary ones: it took a snapshot, or was the first of an attempt.
    special: bool = False


@dataclass(frozen=True, slots=True)
class _Model:
    fixed_ms: float
    marginal_ms: float
    #: Whether the model includes special epochs, because there are too few others.
    of_all: bool
    #: Whether epochs with different numbers of records show both costs; otherwise the fixed cost is a guess.
    measured: bool

    def predict(self, records: int) -> float:
        return self.fixed_ms + self.marginal_ms * records


class Admission:
    """The credit of one attempt: how many records each source subtask may read in the next epoch."""

    def __init__(self, settings: AdmissionSettings) -> None:
        self.credit = min(settings.probe, settings.max_records)
        self._settings = settings
        self._probing = True
        self._seen: deque[EpochCost] = deque(maxlen=_REMEMBERED)
        self._model: _Model | None = None
        #: Whether the last epoch took far more (1) or less (-1) than expected.
        self._surprise = 0

    def observe(self, cost: EpochCost) -> None:
        """Record the cost of an epoch, and set the credit of the next one."""
        if self._probing:
            self._probe(cost)
            return
        self._notice_change(cost)
        self._seen.append(cost)
        if cost.records == 0:
            return
        self._model = model = self._fit()
        self.credit = max(1, min(self._by_time(cost, model), self._by_bytes(cost)))

    def _probe(self, cost: EpochCost) -> None:
        """Set the credit by the first epochs, up to one that shows what a record takes.

        The model ignores these epochs, because all first calls are in them.
        """
        if cost.records == 0:
            return
        settings = self._settings
        by_time = self.credit
        if cost.records >= self.credit // 2 or cost.busy_ms > settings.target_duration:
            self._probing = False
            most = min(_FIRST_STEP * settings.probe, settings.max_records)
            affordable = int(settings.target_duration * cost.records / cost.busy_ms) if cost.busy_ms else most
            by_time = min(most, max(_LEAST_CREDIT, affordable))
        self.credit = max(1, min(by_time, self._by_bytes(cost)))

    def _by_bytes(self, cost: EpochCost) -> int:
        # Sources stop by themselves when their own slot has sent enough, but a slot at a later level may send many times as much.
        return cost.records * self._settings.max_bytes // max(1, cost.bytes)

    def _notice_change(self, cost: EpochCost) -> None:
        """Discard earlier measurements if two epochs in a row deviate far in the same direction; a single deviation is noise."""
        if self._model is None or (cost.special and not self._model.of_all):
            return
        expected = self._model.predict(cost.records)
        surprise = (cost.elapsed_ms > _SURPRISE * expected) - (cost.elapsed_ms * _SURPRISE < expected)
        if surprise and surprise == self._surprise:
            last = self._seen[-1]
            self._seen.clear()
            self._seen.append(last)
            surprise = 0
        self._surprise = surprise

    def _fit(self) -> _Model:
        """Estimate fixed and marginal cost by medians, so that no single epoch decides."""
        ordinary = [cost for cost in self._seen if not cost.special]
        of_all = len(ordinary) < _ENOUGH or not any(cost.records for cost in ordinary)
        costs = list(self._seen) if of_all else ordinary
        latest = [cost for cost in costs if cost.records][-_LATEST:]
        shortest = min(cost.elapsed_ms for cost in latest)
        slopes = _slopes(costs)
        if slopes:
            marginal = max(0.0, _weighted_median(slopes))
            fixed = median(cost.elapsed_ms - marginal * cost.records for cost in costs)
            return _Model(max(0.0, min(fixed, shortest)), marginal, of_all, measured=True)
        # All epochs had about the same number of records: keep the earlier estimate of the fixed cost, but at least the engine's
        # own time. The estimate decreases with each epoch, until the credit has changed enough to measure the fixed cost again.
        before = 0.0 if self._model is None else min(_TRUST * self._model.fixed_ms, shortest)
        fixed = max(before, median(max(0.0, cost.elapsed_ms - cost.busy_ms) for cost in latest))
        marginal = max(0.0, median((cost.elapsed_ms - fixed) / cost.records for cost in latest))
        return _Model(fixed, marginal, of_all, measured=False)

    def _by_time(self, cost: EpochCost, model: _Model) -> int:
        settings, credit = self._settings, self.credit
        if cost.records < credit // 2 and cost.elapsed_ms <= settings.target_duration:
            # The sources had fewer records than they were allowed to read, and the cost of few records says little about many.
            return credit
        budget = max(settings.target_duration - model.fixed_ms, model.fixed_ms)
        affordable = budget > model.marginal_ms * settings.max_records
        wanted = settings.max_records if affordable else int(budget / model.marginal_ms)
        # Where fixed costs are at least half of an epoch, four times the records make it at most two and a half times as long.
        mostly_fixed = model.measured and cost.elapsed_ms <= 2 * model.fixed_ms
        step = _STEP if mostly_fixed or cost.elapsed_ms < settings.target_duration / 2 else _SMALL_STEP
        if step == _STEP and cost.busy_ms * _STEP * _LARGE_STEP <= settings.target_duration:
            step = _LARGE_STEP
        bounded = max(credit // _STEP, min(credit * step, wanted))
        if bounded <= _LEAST_CREDIT and not model.measured and len(self._seen) >= _LATEST:
            bounded = 2 * _LEAST_CREDIT
        return max(min(_LEAST_CREDIT, settings.max_records), min(settings.max_records, bounded))


def _slopes(costs: Sequence[EpochCost]) -> list[tuple[float, float]]:
    """Return the cost per record from each pair of clearly different epochs, with the pair's weight (Theil-Sen estimator)."""
    slopes = []
    for age, later in enumerate(reversed(costs)):
        for earlier in costs[: len(costs) - 1 - age]:
            more = later.records - earlier.records
            if more and abs(more) >= _APART * max(later.records, earlier.records):
                slopes.append(((later.elapsed_ms - earlier.elapsed_ms) / more, abs(more) * _FADING**age))
    return slopes


def _weighted_median(weighted: Sequence[tuple[float, float]]) -> float:
    ordered = sorted(weighted)
    half = sum(weight for _, weight in ordered) / 2
    for value, weight in ordered:
        half -= weight
        if half <= 0:
            return value
    return ordered[-1][0]

"""How many records an epoch may read, so that it takes about the time it should.

Pure logic on what the last epochs took. The goal is `execution.epoch.target-duration`: shorter epochs pay the fixed cost of an
epoch (on Spark about 0.2 s) too often, longer ones make timers, checkpoints and cancel wait.

The model: an epoch takes `fixed + marginal * records`. Fixed are the engine's own work, levels, part files and, where every
epoch has one, the snapshot. What the fixed part leaves of the target is for records. Where it takes more than half of the target,
records get as much time as it takes: an epoch is longer than its target then, but at least half of it is work. Without that rule
the credit sinks, as fewer records make the fixed part no shorter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

#: Before anything was measured: small enough that even 50 us a record take half a second only.
_INITIAL_CREDIT = 10_000
#: However slow the user's functions are, an epoch reads a few records, or nothing would move.
_LEAST_CREDIT = 16
#: One epoch's figures are noisy (garbage collection, a first call): the credit grows and shrinks in steps.
_STEP = 4
#: The same for growing when an epoch takes half of its target or more: a model that is wrong is found out after one step.
_SMALL_STEP = 2
#: Epochs that are looked at. In simulations (tests/unit/jobmaster/test_admission.py has them) 8 followed noise, 24 were slow to
#: follow costs that change.
_REMEMBERED = 12
#: Epochs without a snapshot that are enough to leave those with one out.
_ENOUGH = 3
#: Two epochs tell the marginal cost if their numbers of records are this far apart, as a share of the larger one.
_APART = 0.2
#: How much less a pair of epochs counts for each epoch that came since.
_FADING = 0.8
#: How many times what the model says two epochs in a row must take, or fall short of, to show that costs have changed.
_SURPRISE = 2.0
#: Epochs that the model goes by as long as all had about as many records.
_LATEST = 5
#: How much of the fixed cost found before is believed in an epoch that does not confirm it.
_TRUST = 0.9


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
    #: It did something that not every epoch does: took a snapshot, or was the first of an attempt.
    special: bool = False


@dataclass(frozen=True, slots=True)
class _Model:
    fixed_ms: float
    marginal_ms: float
    #: Special epochs are so frequent that the model is of them too.
    of_all: bool

    def predict(self, records: int) -> float:
        return self.fixed_ms + self.marginal_ms * records


class Admission:
    """The credit of one attempt: how many records each source subtask may read in the next epoch."""

    def __init__(self, settings: AdmissionSettings) -> None:
        self.credit = min(_INITIAL_CREDIT, settings.max_records)
        self._settings = settings
        self._seen: deque[EpochCost] = deque(maxlen=_REMEMBERED)
        self._model: _Model | None = None
        #: Whether the last epoch took far more (1) or less (-1) than expected.
        self._surprise = 0

    def observe(self, cost: EpochCost) -> None:
        """Take in what an epoch took, and set the credit of the next one."""
        self._notice_change(cost)
        self._seen.append(cost)
        if cost.records == 0:
            return
        self._model = model = self._fit()
        # Sources stop by themselves when their own slot has sent enough; a slot further down may send many times that.
        by_bytes = cost.records * self._settings.max_bytes // max(1, cost.bytes)
        self.credit = max(1, min(self._by_time(cost, model), by_bytes))

    def _notice_change(self, cost: EpochCost) -> None:
        """Forget how it was when two epochs in a row were far off to the same side; a single one is noise."""
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
        of_all = len(ordinary) < _ENOUGH
        costs = list(self._seen) if of_all else ordinary
        latest = [cost for cost in costs if cost.records][-_LATEST:]
        shortest = min(cost.elapsed_ms for cost in latest)
        slopes = _slopes(costs)
        if slopes:
            marginal = max(0.0, _weighted_median(slopes))
            fixed = median(cost.elapsed_ms - marginal * cost.records for cost in costs)
            return _Model(max(0.0, min(fixed, shortest)), marginal, of_all)
        # All had about as many records: fixed is what it was found to be before, at least the engine's own time. It is trusted
        # less with each epoch, until the credit has moved far enough to find it out again.
        before = 0.0 if self._model is None else min(_TRUST * self._model.fixed_ms, shortest)
        fixed = max(before, median(max(0.0, cost.elapsed_ms - cost.busy_ms) for cost in latest))
        return _Model(fixed, max(0.0, median((cost.elapsed_ms - fixed) / cost.records for cost in latest)), of_all)

    def _by_time(self, cost: EpochCost, model: _Model) -> int:
        settings, credit = self._settings, self.credit
        if cost.records < credit // 2 and cost.elapsed_ms <= settings.target_duration:
            # The sources had less to give than they might: what so few records took says little about many.
            return credit
        budget = max(settings.target_duration - model.fixed_ms, model.fixed_ms)
        affordable = budget > model.marginal_ms * settings.max_records
        wanted = settings.max_records if affordable else int(budget / model.marginal_ms)
        step = _STEP if cost.elapsed_ms < settings.target_duration / 2 else _SMALL_STEP
        bounded = max(credit // _STEP, min(credit * step, wanted))
        return max(min(_LEAST_CREDIT, settings.max_records), min(settings.max_records, bounded))


def _slopes(costs: Sequence[EpochCost]) -> list[tuple[float, float]]:
    """Return the cost of a record by each pair of epochs that are apart, with the pair's weight (Theil-Sen estimator)."""
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

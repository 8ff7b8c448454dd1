"""The credit of epochs, with costs of a synthetic model: what an epoch takes is a function of its records and of its number."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

import pytest

from flinkish.jobmaster.admission import Admission, AdmissionSettings, EpochCost

TARGET = 1_000
SETTINGS = AdmissionSettings(target_duration=TARGET, max_records=1_000_000, max_bytes=1 << 40)
#: What the engine itself takes in an epoch, and tells apart.
ENGINE = 170.0

Cost = Callable[[int, int], EpochCost]
OfEpoch = float | Callable[[int], float]


def linear(fixed: OfEpoch, marginal: OfEpoch, *, noise: float = 0.0, outliers: float = 0.0, seed: int = 7) -> Cost:
    """Costs of `fixed + marginal * records` in milliseconds; `noise`: sigma of a factor, `outliers`: share of 10 times."""
    rng = random.Random(seed)

    def at(cost: OfEpoch, epoch: int) -> float:
        return cost(epoch) if callable(cost) else cost

    def of(epoch: int, records: int) -> EpochCost:
        elapsed = (at(fixed, epoch) + at(marginal, epoch) * records) * math.exp(rng.gauss(0, noise))
        if rng.random() < outliers:
            elapsed *= 10
        return EpochCost(records=records, busy_ms=max(0.0, elapsed - ENGINE), elapsed_ms=elapsed)

    return of


def with_snapshots(cost: Cost, every: int, takes: float) -> Cost:
    def of(epoch: int, records: int) -> EpochCost:
        plain = cost(epoch, records)
        if epoch % every:
            return plain
        return EpochCost(
            records=records, busy_ms=plain.busy_ms + takes, elapsed_ms=plain.elapsed_ms + takes, bytes=plain.bytes, special=True
        )

    return of


@dataclass
class Run:
    credits: list[int]
    epochs: list[EpochCost]

    @property
    def per_second(self) -> float:
        return 1_000 * sum(cost.records for cost in self.epochs) / sum(cost.elapsed_ms for cost in self.epochs)

    def elapsed(self, start: int = 0, end: int | None = None) -> list[float]:
        return [cost.elapsed_ms for cost in self.epochs[start:end]]


def probed(settings: AdmissionSettings = SETTINGS) -> Admission:
    """Return the credit after a probe of fast records."""
    admission = Admission(settings)
    admission.observe(cost(admission.credit, busy=0))
    return admission


def run(cost: Cost, epochs: int = 120, settings: AdmissionSettings = SETTINGS) -> Run:
    admission = probed(settings)
    credits, costs = [], []
    for epoch in range(epochs):
        credits.append(admission.credit)
        costs.append(cost(epoch, admission.credit))
        admission.observe(costs[-1])
    return Run(credits, costs)


def after(*costs: EpochCost, settings: AdmissionSettings = SETTINGS) -> int:
    admission = probed(settings)
    for cost in costs:
        admission.observe(cost)
    return admission.credit


def cost(records: int, busy: float, elapsed: float | None = None) -> EpochCost:
    return EpochCost(records=records, busy_ms=busy, elapsed_ms=busy if elapsed is None else elapsed)


@pytest.mark.parametrize("marginal", [0.002, 0.01, 0.5, 5.0])
def test_an_epoch_settles_at_its_target(marginal: float) -> None:
    tail = run(linear(ENGINE, marginal)).elapsed(20)
    assert min(tail) > 0.95 * TARGET
    assert max(tail) < 1.05 * TARGET


@pytest.mark.parametrize("fixed", [600.0, 1_200.0, 10_000.0])
def test_records_get_half_of_an_epoch_where_fixed_costs_exceed_half_of_the_target(fixed: float) -> None:
    settled = run(linear(fixed, 0.01), 60)
    tail = settled.elapsed(30)
    assert median(tail) > 1.8 * fixed
    assert min(tail) > 1.5 * fixed
    assert max(settled.elapsed()) < 2.5 * fixed
    assert settled.per_second > 0.85 * 1_000 / 0.01 / 2


def test_a_few_epochs_of_ten_times_the_length_change_little() -> None:
    settled = run(linear(ENGINE, 0.01, noise=0.1, outliers=0.05))
    assert median(settled.elapsed(20)) == pytest.approx(TARGET, rel=0.15)
    assert min(settled.credits[20:]) > 20_000


def test_records_that_take_ten_times_as_long_are_met_within_a_few_epochs() -> None:
    changed = run(linear(ENGINE, lambda epoch: 0.1 if 40 <= epoch < 80 else 0.01, noise=0.05))
    assert median(changed.elapsed(46, 80)) == pytest.approx(TARGET, rel=0.2)
    assert median(changed.elapsed(90)) == pytest.approx(TARGET, rel=0.2)


def test_fixed_costs_that_come_and_go_are_met_within_a_few_epochs() -> None:
    changed = run(linear(lambda epoch: 1_200.0 if 40 <= epoch < 80 else ENGINE, 0.01, noise=0.05))
    assert min(changed.credits[2:]) > 20_000
    assert max(changed.elapsed()) < 3 * 2_400
    assert median(changed.elapsed(90)) == pytest.approx(TARGET, rel=0.2)


def test_costs_that_grow_slowly_are_followed() -> None:
    # State that grows makes each epoch longer; after 200 epochs it takes two seconds of each.
    grown = run(linear(lambda epoch: ENGINE + 10.0 * epoch, 0.01, noise=0.1), 200)
    assert min(grown.credits[2:]) > 20_000
    assert median(grown.elapsed(180)) < 3 * 2 * 2_170


def test_now_and_then_a_snapshot_does_not_count() -> None:
    settled = run(with_snapshots(linear(ENGINE, 0.01), every=10, takes=5_000))
    assert min(settled.credits[10:]) > 75_000
    assert [round(elapsed) for elapsed in settled.elapsed(-9)] == [pytest.approx(TARGET, rel=0.1)] * 9


def test_a_snapshot_in_every_epoch_is_a_fixed_cost_like_others() -> None:
    settled = run(with_snapshots(linear(ENGINE, 0.01, noise=0.1), every=1, takes=1_200), 60)
    assert min(settled.credits[5:]) > 40_000
    assert max(settled.elapsed(5)) < 3 * 2 * (1_200 + ENGINE)


def test_a_jvm_that_warms_up_takes_no_credit_away() -> None:
    def warm_up(epoch: int, records: int) -> EpochCost:
        busy = 0.002 * (1 + 4 * 0.8**epoch) * records
        return EpochCost(records=records, busy_ms=busy, elapsed_ms=busy + ENGINE + 6_000 * 0.5**epoch, special=epoch == 0)

    warming = run(warm_up, 60)
    assert min(warming.credits) == 20_000
    assert median(warming.elapsed(30)) == pytest.approx(TARGET, rel=0.1)


def test_what_the_engine_takes_for_each_record_is_no_fixed_cost() -> None:
    def transported(epoch: int, records: int) -> EpochCost:
        return EpochCost(records=records, busy_ms=0.002 * records, elapsed_ms=ENGINE + 0.005 * records)

    assert median(run(transported).elapsed(20)) == pytest.approx(TARGET, rel=0.1)


@pytest.mark.parametrize("fixed", [1_200.0, 5_000.0])
def test_a_backlog_behind_a_trickle_is_read_where_fixed_costs_exceed_the_target(fixed: float) -> None:
    # While few records come, epochs do not show which cost makes them long, and the credit sinks to the least one.
    for seed in range(5):
        cost = linear(fixed, 0.05, noise=0.4, seed=seed)
        admission = probed()
        least, costs = admission.credit, []
        for epoch in range(300):
            costs.append(cost(epoch, min(admission.credit, 20 if epoch < 100 else 1_000_000)))
            admission.observe(costs[-1])
            least = min(least, admission.credit)
        backlog = costs[200:]
        rate = sum(each.records for each in backlog) / sum(each.elapsed_ms for each in backlog)
        assert least <= 32, f"seed {seed}"
        assert rate > 0.5 * 1 / 0.05 / 2, f"seed {seed}"


def test_the_least_credit_is_doubled_now_and_then_where_records_are_slow() -> None:
    slow = run(linear(ENGINE, 100.0), 100).credits[20:]
    assert set(slow) == {16, 32}
    assert slow.count(32) <= 10


def test_one_epoch_that_takes_a_minute_does_not_take_the_credit_to_the_ground() -> None:
    assert after(cost(20_000, busy=60_000)) == 5_000


def test_one_epoch_that_takes_nothing_does_not_take_the_credit_to_the_sky() -> None:
    assert after(cost(20_000, busy=0)) == 320_000


def test_the_credit_grows_faster_after_an_epoch_with_hardly_any_work() -> None:
    assert after(cost(20_000, busy=15, elapsed=ENGINE)) == 320_000
    assert after(cost(20_000, busy=16, elapsed=ENGINE)) == 80_000
    assert after(cost(20_000, busy=15, elapsed=TARGET / 2)) == 40_000


def test_a_larger_probe_is_followed_by_a_larger_epoch() -> None:
    settings = AdmissionSettings(target_duration=TARGET, max_records=1_000_000, max_bytes=1 << 40, probe=8_000)
    assert Admission(settings).credit == 8_000
    assert probed(settings).credit == 320_000


def test_the_credit_stays_within_its_bounds() -> None:
    most = AdmissionSettings(target_duration=TARGET, max_records=15_000, max_bytes=1 << 40)
    assert after(cost(10_000, busy=1), settings=most) == 15_000
    assert run(linear(ENGINE, 50_000.0), 20).credits[-1] == 16
    tiny = AdmissionSettings(target_duration=TARGET, max_records=5, max_bytes=1 << 40)
    assert Admission(tiny).credit == after(cost(5, busy=1_000_000), settings=tiny) == 5


def test_epochs_that_read_little_say_nothing() -> None:
    assert after(cost(0, busy=900)) == 20_000
    assert after(cost(10, busy=200)) == 20_000


def test_few_records_that_took_too_long_lower_the_credit() -> None:
    assert after(cost(1_000, busy=10_000)) == 5_000


def test_a_slot_that_sends_more_than_it_may_lowers_the_credit_at_once() -> None:
    settings = AdmissionSettings(target_duration=TARGET, max_records=200_000, max_bytes=1_000_000)

    def sent(records: int, size: int) -> EpochCost:
        return EpochCost(records=records, busy_ms=100, elapsed_ms=100, bytes=records * size)

    assert after(sent(10_000, size=100), settings=settings) == 10_000
    assert after(sent(10_000, size=10_000), settings=settings) == 100
    assert after(sent(16, size=10_000_000), settings=settings) == 1
    # From there on it grows again.
    assert after(sent(10_000, size=10_000), sent(100, size=10), settings=settings) == 400


def test_the_bound_of_bytes_holds_whatever_the_fixed_costs_are() -> None:
    settings = AdmissionSettings(target_duration=TARGET, max_records=1_000_000, max_bytes=1_000_000)

    def large(epoch: int, records: int) -> EpochCost:
        return EpochCost(records=records, busy_ms=1_200, elapsed_ms=1_200, bytes=records * 10_000)

    credits = run(large, 40, settings).credits[1:]
    assert max(credits) == 100
    assert min(credits) > 50


@pytest.mark.parametrize("milliseconds", [0.001, 0.02, 0.5, 10.0, 50.0])
def test_the_first_epochs_take_neither_minutes_nor_many_where_a_record_takes(milliseconds: float) -> None:
    admission = Admission(SETTINGS)
    costs = []
    while sum(each.elapsed_ms for each in costs) < 40_000:
        costs.append(linear(ENGINE, milliseconds)(len(costs), admission.credit))
        admission.observe(costs[-1])
    assert costs[0].elapsed_ms < 26_000
    assert costs[0].records == 500
    assert costs[1].elapsed_ms == pytest.approx(min(TARGET, ENGINE + 20_000 * milliseconds), rel=0.25)
    assert costs[-1].elapsed_ms == pytest.approx(TARGET, rel=0.1)


def test_first_epochs_with_few_records_say_nothing_unless_they_take_longer_than_the_target() -> None:
    admission = Admission(SETTINGS)
    for few in (cost(0, busy=5_000), cost(10, busy=900), cost(249, busy=900)):
        admission.observe(few)
        assert admission.credit == 500
    admission.observe(cost(10, busy=1_100))
    assert admission.credit == 16
    admission = Admission(SETTINGS)
    admission.observe(cost(250, busy=100))
    assert admission.credit == 2_500


def test_first_epochs_keep_within_the_bound_of_bytes() -> None:
    settings = AdmissionSettings(target_duration=TARGET, max_records=200_000, max_bytes=1_000_000)
    admission = Admission(settings)
    admission.observe(EpochCost(records=100, busy_ms=1, elapsed_ms=1, bytes=10_000_000))
    assert admission.credit == 10
    admission.observe(EpochCost(records=10, busy_ms=1, elapsed_ms=1, bytes=1_000))
    assert admission.credit == 10_000


def test_a_job_whose_epochs_are_all_fixed_cost_soon_reads_as_much_as_it_may() -> None:
    # A sink that takes 1.7 s for each epoch, however little is in it: the probe takes that for the cost of its records.
    admission = Admission(SETTINGS)
    read = epochs = 0
    while read < 150_000:
        read += admission.credit
        epochs += 1
        admission.observe(cost(admission.credit, busy=1_742 + 0.01 * admission.credit))
    assert epochs <= 8


def test_a_quiet_job_whose_next_record_comes_with_a_checkpoint() -> None:
    quiet = [EpochCost(records=0, busy_ms=1, elapsed_ms=ENGINE)] * 12
    assert after(*quiet, EpochCost(records=10, busy_ms=1, elapsed_ms=ENGINE + 20, special=True)) > 10

from __future__ import annotations

from flinkish.jobmaster.admission import AdmissionSettings, EpochCost, initial_credit, next_credit

SETTINGS = AdmissionSettings(target_duration=1_000, max_records=200_000, max_bytes=1_000_000)


def cost(records: int, busy: float, elapsed: float | None = None) -> EpochCost:
    return EpochCost(records=records, busy_ms=busy, elapsed_ms=busy if elapsed is None else elapsed)


def test_the_credit_settles_where_an_epoch_takes_its_target() -> None:
    credit = initial_credit(SETTINGS)
    for _ in range(10):
        credit = next_credit(credit, cost(credit, busy=credit * 0.02), SETTINGS)
    assert credit == 50_000


def test_the_engines_own_time_is_taken_off_the_target() -> None:
    assert next_credit(10_000, cost(10_000, busy=200, elapsed=400), SETTINGS) == 40_000


def test_the_engines_own_time_takes_half_of_the_target_at_most() -> None:
    assert next_credit(10_000, cost(10_000, busy=500, elapsed=5_000), SETTINGS) == 10_000


def test_one_slow_epoch_does_not_take_the_credit_to_the_ground() -> None:
    assert next_credit(40_000, cost(40_000, busy=60_000), SETTINGS) == 10_000


def test_one_fast_epoch_does_not_take_the_credit_to_the_sky() -> None:
    assert next_credit(1_000, cost(1_000, busy=0), SETTINGS) == 4_000


def test_the_credit_stays_within_its_bounds() -> None:
    assert next_credit(150_000, cost(150_000, busy=1), SETTINGS) == 200_000
    assert next_credit(20, cost(20, busy=1_000_000), SETTINGS) == 16
    tiny = AdmissionSettings(target_duration=1_000, max_records=5, max_bytes=1_000_000)
    assert initial_credit(tiny) == next_credit(5, cost(5, busy=1_000_000), tiny) == 5


def test_epochs_that_read_little_say_nothing() -> None:
    assert next_credit(10_000, cost(0, busy=900), SETTINGS) == 10_000
    assert next_credit(10_000, cost(10, busy=200), SETTINGS) == 10_000


def test_few_records_that_took_too_long_lower_the_credit() -> None:
    assert next_credit(10_000, cost(1_000, busy=10_000), SETTINGS) == 2_500


def test_a_slot_that_sends_more_than_it_may_lowers_the_credit_at_once() -> None:
    def sent(records: int, size: int) -> EpochCost:
        return EpochCost(records=records, busy_ms=100, elapsed_ms=100, bytes=records * size)

    assert next_credit(10_000, sent(10_000, size=100), SETTINGS) == 10_000
    assert next_credit(10_000, sent(10_000, size=10_000), SETTINGS) == 100
    assert next_credit(10_000, sent(16, size=10_000_000), SETTINGS) == 1
    # From there on it grows again.
    assert next_credit(100, sent(100, size=10), SETTINGS) == 400

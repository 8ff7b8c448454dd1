from __future__ import annotations

from flinkish.jobmaster.rates import Rates, RateWindow, Totals


def total(records: int, busy: float = 0.0, idle: float = 0.0, held: float = 0.0) -> Totals:
    return Totals(records_in=records, busy_ms=busy, idle_ms=idle, back_pressured_ms=held)


def test_before_the_first_epoch_a_subtask_is_idle() -> None:
    assert RateWindow(0).rates("a", Totals(), 0, 0.0) == Rates(idle=1000.0)


def test_a_young_job_is_averaged_from_its_begin() -> None:
    rates = RateWindow(0).rates("a", total(10, busy=500, idle=500), 2_000, 1_000)
    assert rates.records_in == 5
    assert (rates.busy, rates.idle) == (250, 750)


def test_what_is_older_than_the_window_does_not_count() -> None:
    window = RateWindow(0)
    for second in range(1, 21):
        window.mark(1_000 * second, {"a": total(100 * second if second <= 10 else 1_000)})
    assert window.rates("a", total(1_000), 20_000, 0.0).records_in == 0
    assert window.rates("a", total(2_000), 20_000, 0.0).records_in == 100


def test_a_rate_covers_the_whole_last_epoch_if_that_was_longer_than_the_window() -> None:
    window = RateWindow(0)
    window.mark(30_000, {"a": total(300)})
    window.mark(60_000, {"a": total(900)})
    assert window.rates("a", total(900), 60_000, 0.0).records_in == 20


def test_a_job_that_stands_still_loses_its_rates() -> None:
    window = RateWindow(0)
    window.mark(10_000, {"a": total(900, busy=9_000, idle=1_000)})
    assert window.rates("a", total(900, busy=9_000, idle=1_000), 20_000, 10_000) == Rates(idle=1000.0)


def test_rates_do_not_depend_on_how_often_they_are_asked_for() -> None:
    asked, unasked = RateWindow(0), RateWindow(0)
    for second in range(1, 15):
        for window in (asked, unasked):
            window.mark(1_000 * second, {"a": total(second * second)})
        for _ in range(3):
            asked.rates("a", total(second * second), 1_000 * second, 0.0)
    assert asked.rates("a", total(196), 14_000, 0.0) == unasked.rates("a", total(196), 14_000, 0.0)


def test_the_three_shares_of_time_are_a_second_together() -> None:
    rates = RateWindow(0).rates("a", total(1, busy=100, idle=100, held=100), 700, 0.0)
    assert round(rates.busy + rates.back_pressured + rates.idle, 6) == 1000

"""Watermark generators per split, combined."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.common.time import Duration
from flinkish.common.watermark_strategy import WatermarkStrategy
from flinkish.runtime.watermarks import CombinedWatermarks
from tests.kit.functions import Punctuated

BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(10))


def after_epoch(combined: CombinedWatermarks, now: int, **how: Any) -> tuple[int | None, bool | None]:
    """Return the watermark and the idleness that an epoch ends with."""
    combined.end_epoch(now, **how)
    return combined.take()


def test_a_periodic_watermark_is_the_highest_timestamp_less_the_bound_less_one() -> None:
    combined = CombinedWatermarks(BOUNDED, periodic=True)
    combined.split("", 0).event("v", 100)
    assert after_epoch(combined, 0) == (89, None)


def test_a_periodic_watermark_waits_for_the_end_of_the_epoch() -> None:
    combined = CombinedWatermarks(BOUNDED, periodic=True)
    combined.split("", 0)
    combined.take()
    combined.split("", 0).event("v", 100)
    assert not combined.changed


def test_an_interval_of_zero_turns_periodic_watermarks_off() -> None:
    combined = CombinedWatermarks(BOUNDED, periodic=False)
    combined.split("", 0).event("v", 100)
    assert after_epoch(combined, 0) == (None, None)


def test_a_punctuated_watermark_goes_out_at_once() -> None:
    combined = CombinedWatermarks(WatermarkStrategy.for_generator(Punctuated), periodic=True)
    combined.split("", 0).event("v", 7)
    assert combined.changed
    assert combined.take() == (7, None)


def test_the_slowest_split_holds_back_the_watermark_until_it_is_finished() -> None:
    combined = CombinedWatermarks(BOUNDED, periodic=True)
    combined.split("fast", 0).event("v", 1000)
    combined.split("slow", 0).event("v", 100)
    assert after_epoch(combined, 0) == (89, None)
    combined.remove("slow")
    assert combined.take() == (989, None)


def test_a_split_without_records_is_idle_after_the_timeout_and_active_with_the_next_record() -> None:
    combined = CombinedWatermarks(BOUNDED.with_idleness(Duration.of_millis(50)), periodic=True)
    combined.split("a", 0).event("v", 1000)
    combined.split("b", 0)
    assert after_epoch(combined, 0) == (None, None)
    combined.split("a", 60).event("v", 2000)
    assert after_epoch(combined, 60) == (1989, None)
    assert after_epoch(combined, 200) == (None, True)
    combined.split("b", 210).event("v", 3000)
    assert after_epoch(combined, 210) == (2989, False)


def test_a_paused_split_is_not_idle_and_its_timeout_begins_again_when_it_resumes() -> None:
    combined = CombinedWatermarks(BOUNDED.with_idleness(Duration.of_millis(50)), periodic=True)
    combined.split("ahead", 0).event("v", 1000)
    combined.split("behind", 0).event("v", 100)
    combined.end_epoch(0)
    assert combined.splits_after(988) == {"ahead": 989}
    assert combined.splits_after(989) == {}
    assert after_epoch(combined, 60, paused={"ahead"}) == (989, None)  # only the other one is idle
    assert after_epoch(combined, 109) == (None, None)
    assert after_epoch(combined, 110) == (None, True)


def test_a_split_that_its_source_calls_idle_stays_so_whatever_came_before_in_the_epoch() -> None:
    combined = CombinedWatermarks(WatermarkStrategy.no_watermarks(), periodic=True)
    busy, quiet = combined.split("busy", 0), combined.split("quiet", 0)
    quiet.event("v", 1)
    quiet.mark_idle()
    busy.emit_watermark(5)
    assert after_epoch(combined, 0) == (5, None)
    quiet.mark_active()
    busy.emit_watermark(9)
    assert combined.take() == (None, None)
    quiet.emit_watermark(7)
    assert combined.take() == (7, None)


def test_a_generator_goes_on_from_its_state_in_another_process() -> None:
    combined = CombinedWatermarks(BOUNDED, periodic=True)
    combined.split("a", 0).event("v", 1000)
    combined.end_epoch(0)
    combined.take()
    other = CombinedWatermarks(BOUNDED, periodic=True)
    other.split("a", 5, combined.state_of("a")).event("v", 900)
    assert after_epoch(other, 5) == (989, None)


# -- splits that end -------------------------------------------------------------------------------------------------------------


def read_to_its_end(combined: CombinedWatermarks, split: str, *timestamps: int) -> None:
    for timestamp in timestamps:
        combined.split(split, 0).event("v", timestamp)
    combined.remove(split, last_word=True)


def test_what_a_split_came_to_counts_when_nothing_is_left_to_read() -> None:
    combined = CombinedWatermarks(BOUNDED, periodic=True)
    read_to_its_end(combined, "a", 100)
    assert combined.take() == (None, None)
    assert after_epoch(combined, 0, drained=False) == (None, None)
    assert after_epoch(combined, 0, drained=True) == (89, None)


def test_splits_that_are_read_one_after_the_other_are_not_held_against_each_other() -> None:
    combined = CombinedWatermarks(BOUNDED, periodic=True)
    read_to_its_end(combined, "newer", 1000)
    combined.split("older", 0).event("v", 100)
    assert after_epoch(combined, 0, drained=False) == (89, None)
    read_to_its_end(combined, "older", 200)
    assert after_epoch(combined, 0, drained=True) == (989, None)


def test_a_split_that_ends_beside_a_slower_one_is_held_back_by_it() -> None:
    combined = CombinedWatermarks(BOUNDED, periodic=True)
    combined.split("slow", 0).event("v", 100)
    combined.end_epoch(0)
    read_to_its_end(combined, "fast", 1000)
    read_to_its_end(combined, "slow", 200)
    assert after_epoch(combined, 0, drained=True) == (189, None)


def test_no_periodic_watermark_comes_of_a_split_that_ends_where_they_are_turned_off() -> None:
    combined = CombinedWatermarks(BOUNDED, periodic=False)
    read_to_its_end(combined, "a", 100)
    assert after_epoch(combined, 0, drained=True) == (None, None)


# -- idleness --------------------------------------------------------------------------------------------------------------------


def test_a_subtask_without_splits_is_idle_after_the_timeout_and_active_with_the_next_split() -> None:
    combined = CombinedWatermarks(BOUNDED.with_idleness(Duration.of_millis(50)), periodic=True)
    combined.end_epoch(1_000, drained=True)
    assert after_epoch(combined, 1_049, drained=True) == (None, None)
    assert after_epoch(combined, 1_050, drained=True) == (None, True)
    combined.split("a", 1_060).event("v", 100)
    assert after_epoch(combined, 1_060) == (89, False)


@pytest.mark.parametrize("idle", [False, True])
def test_another_attempt_counts_idleness_from_its_start_whatever_the_clocks_say(idle: bool) -> None:
    strategy = BOUNDED.with_idleness(Duration.of_millis(50))
    before = CombinedWatermarks(strategy, periodic=True, attempt="1")
    before.split("a", 1_000).event("v", 1)
    before.end_epoch(1_000)
    before.end_epoch(1_050 if idle else 1_049)
    state = before.state_of("a")
    for start in (5, 1_000_000):
        after = CombinedWatermarks(strategy, periodic=True, attempt="2")
        after.split("a", start, state)
        after.end_epoch(start + 49)
        assert after.take()[1] is None
        after.end_epoch(start + 50)
        assert after.take()[1] is True
    rebuilt = CombinedWatermarks(strategy, periodic=True, attempt="1")
    rebuilt.split("a", 1_049, state)
    rebuilt.end_epoch(1_050)
    assert rebuilt.take()[1] is True


def test_a_split_that_its_source_calls_idle_is_still_so_in_another_attempt() -> None:
    before = CombinedWatermarks(WatermarkStrategy.no_watermarks(), periodic=True, attempt="1")
    before.split("quiet", 0).mark_idle()
    after = CombinedWatermarks(WatermarkStrategy.no_watermarks(), periodic=True, attempt="2")
    after.split("quiet", 0, before.state_of("quiet"))
    after.split("busy", 0).emit_watermark(5)
    assert after.take() == (5, None)

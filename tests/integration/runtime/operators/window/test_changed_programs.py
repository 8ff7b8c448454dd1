"""Windows that go on from a checkpoint of an earlier version of the program: as in Flink, or refused; never forgotten."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinkish.common.errors import ForeignCheckpointError
from flinkish.common.time import Time
from flinkish.datastream import DataStream, KeyedProcessFunction
from flinkish.datastream.evictors import CountEvictor
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from flinkish.datastream.windowed_stream import WindowedStream
from flinkish.testing import OneInputHarness
from tests.unit.runtime.operators.window.functions import (
    PAIRS,
    AnotherEventTimeTrigger,
    Folded,
    Sum,
    SumWithoutMerge,
    WithWindow,
    by_key,
)

Version = Callable[[KeyedStream], DataStream]


def tumbling(keyed: KeyedStream, size: int = 10) -> WindowedStream:
    return keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(size)))


def sliding(keyed: KeyedStream, size: int = 10, slide: int = 5) -> WindowedStream:
    return keyed.window(SlidingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(slide)))


def sessions(keyed: KeyedStream, gap: int = 5) -> WindowedStream:
    return keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(gap)))


def summed(windows: WindowedStream) -> DataStream:
    return windows.aggregate(Sum(), WithWindow())


def reduced(windows: WindowedStream) -> DataStream:
    return windows.reduce(lambda a, b: (a[0], a[1] + b[1]))


def listed(windows: WindowedStream) -> DataStream:
    return windows.process(Folded())


def by_any_trigger(windows: WindowedStream) -> WindowedStream:
    return windows.trigger(AnotherEventTimeTrigger())


class AnotherCountTrigger(CountTrigger):
    """With it, the general operator runs count windows, and keeps also those that are full."""


def counted(keyed: KeyedStream, size: int, slide: int = 0) -> DataStream:
    return reduced(keyed.count_window(size, slide))


def counted_by_any_trigger(keyed: KeyedStream, size: int, slide: int = 0) -> DataStream:
    return reduced(keyed.count_window(size, slide).trigger(AnotherCountTrigger(size)))


SHARED = {"execution.windows.share-panes": "true"}


def run(before: Version, after: Version, *settings: dict[str, Any]) -> list[Any]:
    """Records 1, 4 and 8 in the one version, 9 and 12 in the other, to the end; return all results, without the key.

    `settings` are those of each version; none by default.
    """
    first_settings, second_settings = settings or ({}, {})

    def build(version: Version) -> Callable[[DataStream], DataStream]:
        return lambda stream: version(by_key(stream)).uid("windows")

    with OneInputHarness(build(before), PAIRS, settings=first_settings) as first:
        for number in (1, 4, 8):
            first.process_element(("a", number), number)
        snapshot = first.snapshot()
    harness = OneInputHarness(build(after), PAIRS, snapshot=snapshot, parallelism=2, settings=second_settings)
    try:
        for number in (9, 12):
            harness.process_element(("a", number), number)
        harness.process_watermark(12)
        harness.end_input()
        return [result[1:] for result in harness.take_values()]
    finally:
        harness.close()


ONE_SESSION = [(1, 17, 34, 5)]
SAME = [(0, 10, 22, 4), (10, 20, 12, 1)]
OVERLAPPING = [(-5, 5, 5, 2), (0, 10, 22, 4), (5, 15, 29, 3), (10, 20, 12, 1)]


@pytest.mark.parametrize(
    ("before", "after", "results"),
    [
        (lambda k: summed(tumbling(k)), lambda k: summed(tumbling(k).allowed_lateness(5)), SAME),
        (lambda k: summed(tumbling(k).allowed_lateness(5)), lambda k: summed(tumbling(k)), SAME),
        (lambda k: summed(tumbling(k)), lambda k: summed(by_any_trigger(tumbling(k))), SAME),
        (lambda k: summed(by_any_trigger(tumbling(k))), lambda k: summed(tumbling(k)), SAME),
        (lambda k: listed(tumbling(k)), lambda k: listed(by_any_trigger(tumbling(k))), SAME),
        # What was open stays open until its end, what comes goes into windows of the new kind.
        (lambda k: summed(tumbling(k)), lambda k: summed(tumbling(k, 20)), [(0, 10, 13, 3), (0, 20, 21, 2)]),
        (lambda k: summed(tumbling(k, 20)), lambda k: summed(tumbling(k)), [(0, 10, 9, 1), (0, 20, 13, 3), (10, 20, 12, 1)]),
        (
            lambda k: listed(sliding(k)),
            lambda k: listed(sliding(k, 20)),
            [
                *[(-5, 5, 5, 2), (-10, 10, 9, 1), (0, 10, 13, 3), (-5, 15, 21, 2)],
                *[(5, 15, 8, 1), (0, 20, 21, 2), (5, 25, 21, 2), (10, 30, 12, 1)],
            ],
        ),
        (lambda k: summed(sessions(k)), lambda k: summed(sessions(k, 9)), [(1, 21, 34, 5)]),
        (lambda k: summed(sessions(k)), lambda k: summed(sessions(k).allowed_lateness(5)), ONE_SESSION),
        (lambda k: summed(sessions(k).allowed_lateness(5)), lambda k: summed(sessions(k)), ONE_SESSION),
        (lambda k: summed(sessions(k)), lambda k: summed(by_any_trigger(sessions(k))), ONE_SESSION),
        (lambda k: summed(by_any_trigger(sessions(k))), lambda k: summed(sessions(k)), ONE_SESSION),
        (lambda k: summed(sliding(k)), lambda k: summed(sliding(k).allowed_lateness(3)), OVERLAPPING),
        (lambda k: summed(sliding(k)), lambda k: summed(by_any_trigger(sliding(k))), OVERLAPPING),
        (lambda k: summed(by_any_trigger(sliding(k))), lambda k: summed(sliding(k)), OVERLAPPING),
        (lambda k: listed(sliding(k)), lambda k: listed(by_any_trigger(sliding(k))), OVERLAPPING),
        (lambda k: listed(by_any_trigger(sliding(k))), lambda k: listed(sliding(k)), OVERLAPPING),
        (lambda k: summed(sliding(k)), lambda k: sliding(k).aggregate(SumWithoutMerge(), WithWindow()), OVERLAPPING),
        (lambda k: summed(tumbling(k)), lambda k: summed(sliding(k)), [(0, 10, 22, 4), (5, 15, 21, 2), (10, 20, 12, 1)]),
        (lambda k: summed(sliding(k)), lambda k: summed(tumbling(k)), [(-5, 5, 5, 2), *SAME[:1], (5, 15, 8, 1), *SAME[1:]]),
    ],
)
def test_open_windows_go_on(before: Version, after: Version, results: list[Any]) -> None:
    assert run(before, after) == results


@pytest.mark.parametrize("before", [counted, counted_by_any_trigger])
@pytest.mark.parametrize(
    ("windows", "results"),
    [
        *(((1,), [(9,), (12,)]), ((2,), [(17,)]), ((3,), []), ((4,), [(22,)]), ((9,), [])),
        *(((2, 1), [(17,), (21,)]), ((3, 1), [(21,), (29,)]), ((3, 2), [(29,)])),
        *(((2, 3), [(21,)]), ((4, 2), [(22,)]), ((4, 1), [(22,), (33,)])),
    ],
)
def test_open_windows_of_a_number_of_records_go_on(before: Any, windows: tuple[int, ...], results: list[Any]) -> None:
    assert run(lambda k: before(k, *windows), lambda k: counted(k, *windows)) == results


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda k: counted(k, 2), lambda k: counted(k, 4)),
        (lambda k: counted_by_any_trigger(k, 2), lambda k: counted(k, 4)),
        (lambda k: counted(k, 2), lambda k: counted_by_any_trigger(k, 2)),
        (lambda k: counted(k, 4), lambda k: counted(k, 4, 2)),
        (lambda k: counted(k, 4, 2), lambda k: counted(k, 4, 3)),
        (lambda k: counted_by_any_trigger(k, 3, 2), lambda k: counted(k, 3, 1)),
        (lambda k: counted_by_any_trigger(k, 4, 4), lambda k: counted(k, 4, 2)),
        (lambda k: counted(k, 2), lambda k: listed(k.count_window(2))),
        (lambda k: counted(k, 2), lambda k: reduced(tumbling(k))),
        (lambda k: reduced(tumbling(k)), lambda k: counted(k, 2)),
    ],
)
def test_open_windows_of_a_number_of_records_are_not_forgotten_where_they_cannot_go_on(before: Version, after: Version) -> None:
    with pytest.raises(ForeignCheckpointError, match=r"operator windows"):
        run(before, after)


@pytest.mark.parametrize(
    ("after", "results"),
    [
        (lambda k: summed(sliding(k).allowed_lateness(3)), OVERLAPPING),
        # Panes of one length serve windows of any size; those that are new hold what panes hold.
        (
            lambda k: summed(sliding(k, 20)),
            [(-15, 5, 5, 2), (-10, 10, 22, 4), (-5, 15, 34, 5), (0, 20, 34, 5), (5, 25, 29, 3), (10, 30, 12, 1)],
        ),
    ],
)
def test_open_windows_that_share_panes_go_on(after: Version, results: list[Any]) -> None:
    assert run(lambda k: summed(sliding(k)), after, SHARED, SHARED) == results


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda k: reduced(tumbling(k)), lambda k: summed(tumbling(k))),
        (lambda k: summed(tumbling(k)), lambda k: listed(tumbling(k))),
        (lambda k: listed(tumbling(k)), lambda k: listed(tumbling(k).evictor(CountEvictor.of(9)))),
        (lambda k: listed(tumbling(k).evictor(CountEvictor.of(9))), lambda k: listed(tumbling(k))),
        (lambda k: summed(sliding(k)), lambda k: listed(sliding(k))),
        (lambda k: listed(sliding(k)), lambda k: summed(sliding(k))),
        (lambda k: summed(sessions(k)), lambda k: summed(tumbling(k))),
    ],
)
def test_open_windows_are_not_forgotten_where_their_contents_are_kept_in_another_way(before: Version, after: Version) -> None:
    with pytest.raises(ForeignCheckpointError, match=r"operator windows"):
        run(before, after)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda k: summed(tumbling(k)), lambda k: summed(sliding(k))),
        (lambda k: summed(sliding(k)), lambda k: summed(tumbling(k))),
        (lambda k: summed(sliding(k)), lambda k: summed(sliding(k, 10, 2))),
        (lambda k: summed(sliding(k)), lambda k: listed(sliding(k))),
        (lambda k: listed(sliding(k)), lambda k: summed(sliding(k))),
        (lambda k: summed(sliding(k)), lambda k: summed(by_any_trigger(sliding(k)))),
        (lambda k: summed(by_any_trigger(sliding(k))), lambda k: summed(sliding(k))),
        (lambda k: summed(sliding(k)), lambda k: summed(sliding(k).trigger(PurgingTrigger.of(CountTrigger.of(2))))),
    ],
)
def test_open_windows_that_share_panes_are_not_forgotten_where_they_cannot_go_on(before: Version, after: Version) -> None:
    with pytest.raises(ForeignCheckpointError, match=r"operator windows"):
        run(before, after, SHARED, SHARED)


@pytest.mark.parametrize(("before", "after", "wanted"), [(SHARED, {}, "true"), ({}, SHARED, "false")])
def test_open_windows_are_not_forgotten_where_panes_begin_or_cease_to_be_shared(
    before: dict[str, str], after: dict[str, str], wanted: str
) -> None:
    with pytest.raises(ForeignCheckpointError, match=f"Hint: .* with execution.windows.share-panes: {wanted}"):
        run(lambda k: summed(sliding(k)), lambda k: summed(sliding(k)), before, after)


def test_the_error_names_the_operator_and_both_ways_of_keeping_windows() -> None:
    def before(keyed: KeyedStream) -> DataStream:
        return summed(sliding(keyed))

    with pytest.raises(ForeignCheckpointError) as error:
        run(before, lambda keyed: summed(by_any_trigger(sliding(keyed))), SHARED, {})
    assert (
        "operator windows cannot go on with its open windows: the checkpoint holds them in panes that overlapping windows share "
        "(5 ms) (as window-panes-5), but this program keeps them window by window (as window-contents)" in str(error.value)
    )


def test_windows_that_no_time_bounds_do_not_become_windows_of_time() -> None:
    with pytest.raises(ForeignCheckpointError, match=r"operator windows .* of another kind than"):
        run(lambda k: summed(k.window(GlobalWindows.create())), lambda k: summed(tumbling(k)))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (lambda k: summed(tumbling(k)), lambda k: summed(k.window(GlobalWindows.create()).trigger(CountTrigger.of(2)))),
        (lambda k: summed(k.window(GlobalWindows.create())), lambda k: summed(by_any_trigger(tumbling(k)))),
        (lambda k: summed(k.window(GlobalWindows.create())), lambda k: summed(by_any_trigger(sessions(k)))),
    ],
)
def test_windows_of_another_kind_are_not_forgotten(before: Version, after: Version) -> None:
    with pytest.raises(
        ForeignCheckpointError, match=r"operator windows cannot go on with its open windows: .* of another kind than"
    ):
        run(before, after)


@pytest.mark.parametrize("trigger", [lambda windows: windows, by_any_trigger])
def test_windows_that_were_not_merged_are_not_forgotten_where_windows_are_merged(
    trigger: Callable[[WindowedStream], WindowedStream],
) -> None:
    with pytest.raises(ForeignCheckpointError, match=r"operator windows .* window by window .* as windows that are merged"):
        run(lambda k: summed(trigger(tumbling(k))), lambda k: summed(by_any_trigger(sessions(k))))


class AtTheEnd(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(100)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield ctx.get_current_key(), timestamp


WINDOWS: list[Version] = [
    lambda k: summed(tumbling(k)),
    lambda k: listed(by_any_trigger(tumbling(k))),
    lambda k: summed(sessions(k)),
    lambda k: summed(by_any_trigger(sessions(k))),
]


@pytest.mark.parametrize("windows", WINDOWS)
def test_the_timers_of_windows_are_not_taken_for_those_of_a_function(windows: Version) -> None:
    with pytest.raises(ForeignCheckpointError, match=r"operator windows cannot go on .* which has open windows"):
        run(windows, lambda k: k.process(AtTheEnd()))


@pytest.mark.parametrize("windows", WINDOWS)
def test_the_timers_of_a_function_are_not_taken_for_those_of_windows(windows: Version) -> None:
    with pytest.raises(ForeignCheckpointError, match=r"operator windows cannot go on .* which has timers"):
        run(lambda k: k.process(AtTheEnd()), windows)


def test_a_session_that_has_fired_and_waits_for_late_records_is_done_when_none_are_allowed_any_more() -> None:
    def build(lateness: int) -> Callable[[DataStream], DataStream]:
        return lambda stream: summed(sessions(by_key(stream)).allowed_lateness(lateness)).uid("windows")

    with OneInputHarness(build(50), PAIRS) as first:
        first.process_element(("a", 1), 1)
        first.process_watermark(20)
        first.process_element(("a", 30), 30)
        assert first.take_values() == [("a", 1, 6, 1, 1)]
        snapshot = first.snapshot()
    with OneInputHarness(build(0), PAIRS, snapshot=snapshot) as second:
        second.end_input()
        assert second.take_values() == [("a", 30, 35, 30, 1)]

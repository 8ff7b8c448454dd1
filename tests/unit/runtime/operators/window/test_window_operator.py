"""Triggers, evictors, state and time of windows, case by case."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from flinkish.common.errors import InvalidArgumentError, StateError, TypeMismatchError
from flinkish.common.serializer import TypeSerializer
from flinkish.common.time import Duration, Time
from flinkish.common.typeinfo import Types
from flinkish.common.watermark_strategy import WatermarkStrategy
from flinkish.datastream import (
    DataStream,
    OutputTag,
    ProcessWindowFunction,
    WindowFunction,
)
from flinkish.datastream.evictors import CountEvictor, DeltaEvictor, Evictor, TimeEvictor
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.state import ListStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from flinkish.datastream.window import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    Window,
    WindowAssigner,
)
from flinkish.testing import OneInputHarness
from tests.kit.environments import env_of
from tests.kit.functions import Greatest
from tests.unit.runtime.operators.window.functions import LATE, PAIRS, Numbers, Sum, WithWindow, by_key

TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))


def harness(build: Callable[[KeyedStream], DataStream], **arguments: Any) -> OneInputHarness:
    return OneInputHarness(lambda stream: build(by_key(stream)), PAIRS, **arguments)


def sum_of(windows: Any) -> Any:
    return windows.reduce(lambda a, b: (a[0], a[1] + b[1]))


# -- triggers --------------------------------------------------------------------------------------------------------------------


def test_a_continuous_trigger_fires_once_per_interval_also_when_one_watermark_passes_many() -> None:
    # As in Java; PyFlink fires at 3, 8, 12 and 17.
    nine = TumblingEventTimeWindows.of(Time.milliseconds(9))
    trigger = ContinuousEventTimeTrigger.of(Time.milliseconds(3))
    with harness(lambda keyed: sum_of(keyed.window(nine).trigger(trigger))) as window:
        window.process_element(("a", 1), 1)
        window.process_element(("a", 2), 10)
        window.end_input()
        sums = [(1, 3), (1, 6), (1, 8), (2, 12), (2, 15), (2, 17)]
        assert window.take_output() == [(("a", total), time) for total, time in sums]


def test_a_continuous_trigger_with_lateness_fires_once_at_the_end_and_then_with_each_late_record() -> None:
    nine = TumblingEventTimeWindows.of(Time.milliseconds(9))
    trigger = ContinuousEventTimeTrigger.of(Time.milliseconds(3))
    with harness(lambda keyed: sum_of(keyed.window(nine).trigger(trigger).allowed_lateness(5))) as window:
        for number, watermark in ((1, 0), (10, 9), (4, 9), (2, 9), (12, 11)):
            window.process_element(("a", number), number)
            window.process_watermark(watermark)
        window.end_input()
        early = [(("a", 1), 3), (("a", 1), 6), (("a", 1), 8)]
        late = [(("a", 5), 4), (("a", 7), 2)]
        assert window.take_output() == [*early, *late, (("a", 22), 12), (("a", 22), 15), (("a", 22), 17)]


class Rescheduling(Trigger[Any, Any]):
    """Sets timers at 5, 7 and 9; the one at 5 sets one at 6 and one at 3, which is past, and deletes that at 7."""

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        for time in (9, 5, 7):
            ctx.register_event_time_timer(time)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        if time == 5:
            ctx.register_event_time_timer(6)
            ctx.register_event_time_timer(3)
            ctx.delete_event_time_timer(7)
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None: ...

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None: ...


def test_timers_that_a_triggers_timer_sets_and_deletes_take_part_at_once() -> None:
    with harness(lambda keyed: sum_of(keyed.window(GlobalWindows.create()).trigger(Rescheduling()))) as window:
        window.process_element(("a", 1), 1)
        window.process_watermark(9)
        assert [time for _, time in window.take_output()] == [5, 3, 6, 9]


def test_a_continuous_processing_time_trigger_fires_while_time_goes_on() -> None:
    trigger = ContinuousProcessingTimeTrigger.of(Time.milliseconds(4))
    assigner = TumblingProcessingTimeWindows.of(Time.milliseconds(10))
    with harness(lambda keyed: sum_of(keyed.window(assigner).trigger(trigger))) as window:
        window.set_processing_time(1)
        window.process_element(("a", 1))
        for time in (4, 5, 8, 9, 20):
            window.set_processing_time(time)
        assert window.take_output() == [(("a", 1), 4), (("a", 1), 8), (("a", 1), 9)]


def test_processing_time_windows_fire_with_the_time_of_the_timer() -> None:
    for assigner in (
        TumblingProcessingTimeWindows.of(Time.milliseconds(10)),
        ProcessingTimeSessionWindows.with_gap(Time.milliseconds(10)),
    ):
        with harness(lambda keyed, assigner=assigner: sum_of(keyed.window(assigner))) as window:  # type: ignore[misc]
            window.process_element(("a", 1), 500)
            window.process_element(("a", 2), 600)
            window.set_processing_time(8)
            assert window.take_output() == []
            window.set_processing_time(9)
            assert window.take_output() == [(("a", 3), 9)]


class EverySecondSum(Trigger[Any, Any]):
    """Fires when the numbers of a window that came since it last fired add up to ten."""

    descriptor = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        total: Any = ctx.get_partitioned_state(self.descriptor)
        total.add(element[1])
        if total.get() < 10:
            return TriggerResult.CONTINUE
        total.clear()
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.descriptor)

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        total: Any = ctx.get_partitioned_state(self.descriptor)
        total.clear()


def test_the_state_of_a_trigger_is_merged_with_its_windows_and_survives_a_rescale() -> None:
    assigner = EventTimeSessionWindows.with_gap(Time.milliseconds(10))
    with harness(lambda keyed: keyed.window(assigner).trigger(EverySecondSum()).apply(Numbers())) as window:
        window.process_element(("a", 4), 0)
        window.process_element(("a", 5), 20)
        window.restart(parallelism=3)
        window.process_element(("a", 1), 10)
        assert window.take_output() == [(("a", [4, 5, 1]), 10)]


class MergesAValue(EverySecondSum):
    """Asks for what Flink cannot merge either."""

    last = ValueStateDescriptor("last", Types.LONG())

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None:
        ctx.merge_partitioned_state(self.last)


def test_a_trigger_that_merges_a_value_state_is_told_which_states_can_be_merged() -> None:
    assigner = EventTimeSessionWindows.with_gap(Time.milliseconds(10))
    with harness(lambda keyed: keyed.window(assigner).trigger(MergesAValue()).apply(Numbers())) as window:
        window.process_element(("a", 4), 0)
        with pytest.raises(StateError, match=r"the state 'last' of a trigger cannot be merged.*ValueStateDescriptor"):
            window.process_element(("a", 5), 5)


def test_sessions_say_which_windows_to_merge() -> None:
    told: list[Any] = []
    callback: Any = SimpleNamespace(merge=lambda windows, result: told.append((list(windows), result)))
    windows = [TimeWindow(0, 10), TimeWindow(20, 30), TimeWindow(5, 15)]
    EventTimeSessionWindows.with_gap(Time.milliseconds(10)).merge_windows(windows, callback)
    assert told == [([TimeWindow(0, 10), TimeWindow(5, 15)], TimeWindow(0, 15))]


def test_windows_of_a_stream_refuse_a_trigger_that_cannot_merge() -> None:
    def build(stream: DataStream) -> DataStream:
        return stream.window_all(EventTimeSessionWindows.with_gap(Time.seconds(1))).trigger(NeverTrigger()).reduce(max)

    with pytest.raises(InvalidArgumentError, match="does not support merging"):
        OneInputHarness(build, PAIRS)


# -- late records ----------------------------------------------------------------------------------------------------------------


def calls_of_a_watermark(kept: int) -> int:
    """Return how many calls the watermark makes that fires one window while `kept` others wait for late records."""
    calls = 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += 1

    with harness(lambda keyed: sum_of(keyed.window(TEN).allowed_lateness(1_000_000))) as window:
        with window.epoch():
            for number in range(kept + 1):
                window.process_element(("a", number), number * 10)
        window.process_watermark(kept * 10 - 1)
        assert len(window.take_values()) == kept
        sys.setprofile(count)
        try:
            window.process_watermark(kept * 10 + 9)
        finally:
            sys.setprofile(None)
        assert window.take_values() == [("a", kept)]
    return calls


def test_windows_that_wait_for_late_records_do_not_make_watermarks_slow() -> None:
    assert calls_of_a_watermark(1_000) < 2 * calls_of_a_watermark(10)


@pytest.mark.parametrize("lateness", [0, 2**61])
def test_a_batch_removes_each_keys_windows_however_long_they_take_late_records(lateness: int) -> None:
    env = env_of({"execution.runtime-mode": "BATCH"})
    near_the_end = WatermarkStrategy.no_watermarks().with_timestamp_assigner(lambda record, _: 2**63 - 1_000)
    stream = env.from_collection([("a", 1), ("b", 2), ("c", 3)], PAIRS).assign_timestamps_and_watermarks(near_the_end)
    windows = stream.key_by(lambda record: record[0], Types.STRING()).window(TEN).allowed_lateness(lateness)
    assert list(sum_of(windows).execute_and_collect()) == [("a", 1), ("b", 2), ("c", 3)]


def test_late_records_are_counted_if_no_side_output_takes_them() -> None:
    with harness(lambda keyed: keyed.window(TEN).apply(Numbers())) as window:
        window.process_watermark(9)
        window.process_element(("a", 1), 5)
        assert window.take_values() == []
        counters = {name: value for report in window._run() for metrics in report.metrics for name, value in metrics.user.items()}
        assert counters["TumblingEventTimeWindows.numLateRecordsDropped"] == 1
    tagged = harness(lambda keyed: keyed.window(TEN).side_output_late_data(LATE).apply(Numbers()), side_outputs=[LATE])
    with tagged as window:
        window.process_watermark(8)
        window.process_element(("a", 1), 5)
        window.process_watermark(9)
        window.process_element(("a", 2), 5)
        assert window.take_output(LATE) == [(("a", 2), 5)]
        assert window.take_output() == [(("a", [1]), 9)]


def test_late_records_have_the_type_with_which_their_side_output_is_read() -> None:
    def sums(stream: DataStream) -> DataStream:
        windows = stream.key_by(lambda value: 0).window(TEN).side_output_late_data(OutputTag("late"))
        return windows.reduce(lambda one, other: one + other)

    late = OutputTag("late", Types.INT())
    with OneInputHarness(sums, Types.DOUBLE(), side_outputs=[late]) as window:
        window.process_watermark(9)
        window.process_element(2.7, 5)
        assert window.take_output(late) == [(2, 5)]


# -- window functions ------------------------------------------------------------------------------------------------------------


def test_a_window_function_that_returns_none_fails_when_it_fires() -> None:
    class Nothing(WindowFunction[Any, Any, str, Any]):
        def apply(self, key: str, window: Any, inputs: Iterable[Any]) -> Any:
            pass

    window = harness(lambda keyed: keyed.window(TEN).apply(Nothing()))
    window.process_element(("a", 1), 5)
    with pytest.raises(TypeError, match="must return an iterable of results"):
        window.process_watermark(9)
    window.close()


class Counting(ProcessWindowFunction[Any, Any, str, Any]):
    """How often this window has fired, and how often all windows of the key have."""

    descriptor = ValueStateDescriptor("fired", Types.LONG())

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        here, everywhere = (store.get_state(self.descriptor) for store in (context.window_state(), context.global_state()))
        here.update((here.value() or 0) + 1)
        everywhere.update((everywhere.value() or 0) + 1)
        yield context.window().start, here.value(), everywhere.value(), context.current_watermark()

    def clear(self, context: Any) -> None:
        assert context.window_state().get_state(self.descriptor).value() is not None
        context.window_state().get_state(self.descriptor).clear()


@pytest.mark.parametrize("trigger", [EventTimeTrigger(), PurgingTrigger.of(EventTimeTrigger())])
def test_window_state_is_that_of_one_window_and_global_state_that_of_the_key(trigger: Trigger[Any, Any]) -> None:
    with harness(lambda keyed: keyed.window(TEN).trigger(trigger).allowed_lateness(5).process(Counting())) as window:
        window.process_element(("a", 1), 1)
        window.process_element(("a", 2), 11)
        window.process_watermark(10)
        window.process_element(("a", 3), 2)
        assert window.take_values() == [(0, 1, 1, 10), (0, 2, 2, 10)]
        window.restart(parallelism=2)
        window.process_watermark(20)
        assert window.take_values() == [(10, 1, 3, 20)]


class Removed(ProcessWindowFunction[Any, Any, str, Any]):
    """Which windows of the key were removed before this one fired."""

    descriptor = ListStateDescriptor("removed", Types.LONG())

    def process(self, key: str, context: Any, elements: Iterable[Any]) -> Iterable[Any]:
        yield context.window().start, list(context.global_state().get_list_state(self.descriptor).get())

    def clear(self, context: Any) -> None:
        context.global_state().get_list_state(self.descriptor).add(context.window().start)


@pytest.mark.parametrize("trigger", [EventTimeTrigger(), PurgingTrigger.of(EventTimeTrigger())])
def test_windows_fire_and_are_removed_in_order_of_time_also_by_one_watermark(trigger: Trigger[Any, Any]) -> None:
    with harness(lambda keyed: keyed.window(TEN).trigger(trigger).allowed_lateness(5).process(Removed())) as window:
        for time in (1, 11, 21):
            window.process_element(("a", time), time)
        window.process_watermark(100)
        assert window.take_values() == [(0, []), (10, [0]), (20, [0, 10])]


def test_there_is_no_window_state_where_windows_are_merged() -> None:
    window = harness(lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(Time.milliseconds(5))).process(Counting()))
    window.process_element(("a", 1), 1)
    with pytest.raises(StateError, match="per-window state is not allowed"):
        window.process_watermark(100)
    window.close()


# -- custom windows --------------------------------------------------------------------------------------------------------------


class Named(Window):
    """A window with a name, which never ends."""

    def __init__(self, name: str) -> None:
        self.name = name

    def max_timestamp(self) -> int:
        return 2**63 - 1

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Named) and other.name == self.name


class NamedSerializer(TypeSerializer[Named]):
    def serialize(self, element: Named, stream: Any) -> None:
        stream.write(element.name.encode())

    def deserialize(self, stream: Any) -> Named:
        return Named(stream.read().decode())


class ByParity(WindowAssigner[Any, Named]):
    def assign_windows(self, element: Any, timestamp: int, context: WindowAssigner.WindowAssignerContext) -> Collection[Named]:
        return [Named("odd" if element[1] % 2 else "even")]

    def get_default_trigger(self, env: Any) -> Trigger[Any, Any]:
        return CountTrigger.of(2)

    def get_window_serializer(self) -> TypeSerializer[Named]:
        return NamedSerializer()

    def is_event_time(self) -> bool:
        return False


class Name(ProcessWindowFunction[Any, Any, str, Named]):
    def process(self, key: str, context: ProcessWindowFunction.Context[Named], elements: Iterable[Any]) -> Iterable[Any]:
        yield context.window().name, [number for _, number in elements]


def test_windows_of_ones_own_class_are_kept_by_their_serializer() -> None:
    with harness(lambda keyed: keyed.window(ByParity()).process(Name())) as window:
        for number in (1, 2):
            window.process_element(("a", number))
        window.restart(parallelism=2)
        for number in (3, 4):
            window.process_element(("a", number))
        assert window.take_values() == [("odd", [1, 3]), ("even", [2, 4])]


# -- evictors --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("evictor", "fired"),
    [
        (CountEvictor.of(2), [[1, 2], [3, 4]]),
        (CountEvictor.of(1, True), [[1, 2], [2, 3, 4]]),
        (TimeEvictor.of(Time.milliseconds(2)), [[1, 2], [3, 4]]),
        (DeltaEvictor.of(2, lambda record, last: last[1] - record[1]), [[1, 2], [3, 4]]),
    ],
)
def test_evictors_remove_records_for_good(evictor: Evictor[Any, Any], fired: list[list[int]]) -> None:
    windows = harness(
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2)).evictor(evictor).apply(Numbers())
    )
    with windows as window:
        for number in (1, 2):
            window.process_element(("a", number), number)
        window.lose_heap()
        for number in (3, 4):
            window.process_element(("a", number), number)
        assert window.take_values() == [("a", numbers) for numbers in fired]


def test_an_evictor_by_time_leaves_records_without_timestamps_alone() -> None:
    def build(keyed: KeyedStream) -> DataStream:
        windows = keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(2))
        return windows.evictor(TimeEvictor.of(Time.milliseconds(1))).apply(Numbers())

    with harness(build) as window:
        for number in (1, 2):
            window.process_element(("a", number))
        assert window.take_values() == [("a", [1, 2])]


def test_reduce_and_aggregate_see_what_an_evictor_left() -> None:
    def windows(keyed: KeyedStream) -> Any:
        return keyed.window(TEN).evictor(CountEvictor.of(2))

    for build, result in (
        (lambda keyed: sum_of(windows(keyed)), ("a", 5)),
        (lambda keyed: windows(keyed).aggregate(Sum(), WithWindow()), ("a", 0, 10, 5, 2)),
    ):
        with harness(build) as window:
            for number in (1, 2, 3):
                window.process_element(("a", number), number)
            window.process_watermark(9)
            assert window.take_output() == [(result, 9)]


# -- what is refused -------------------------------------------------------------------------------------------------------------


def test_sizes_are_times() -> None:
    with pytest.raises(TypeError, match="must be a Time"):
        TumblingEventTimeWindows.of(Duration.of_seconds(1))  # type: ignore[arg-type]


def test_wrong_arguments_are_refused_when_the_job_is_built() -> None:
    def refused(build: Callable[[KeyedStream], Any]) -> None:
        with pytest.raises(TypeError):
            harness(build)

    refused(lambda keyed: keyed.window(5))  # type: ignore[arg-type]
    refused(lambda keyed: keyed.window(TEN).trigger(TEN))  # type: ignore[arg-type]
    refused(lambda keyed: keyed.window(TEN).apply(Counting()))  # type: ignore[arg-type]
    refused(lambda keyed: keyed.window(TEN).process(Numbers()))  # type: ignore[arg-type]
    refused(lambda keyed: keyed.window(TEN).aggregate(Sum(), Sum()))  # type: ignore[arg-type]
    refused(lambda keyed: keyed.window(TEN).evictor(TEN))  # type: ignore[arg-type]
    refused(lambda keyed: keyed.window(TEN).side_output_late_data("late"))  # type: ignore[arg-type]


SLIDING = SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
SESSIONS = EventTimeSessionWindows.with_gap(Time.milliseconds(10))
#: Windows of all implementations: those made fast, those with a trigger of one's own, and with an evictor.
ALL_KINDS: dict[str, Callable[[KeyedStream], Any]] = {
    "tumbling": lambda keyed: keyed.window(TEN),
    "sliding": lambda keyed: keyed.window(SLIDING),
    "sessions": lambda keyed: keyed.window(SESSIONS),
    "any trigger": lambda keyed: keyed.window(TEN).trigger(PurgingTrigger.of(EventTimeTrigger.create())),
    "any trigger in sessions": lambda keyed: keyed.window(SESSIONS).trigger(PurgingTrigger.of(EventTimeTrigger.create())),
    "evictor": lambda keyed: keyed.window(TEN).evictor(CountEvictor.of(5)),
}
ANY = Types.PICKLED_BYTE_ARRAY()


class Appending(Sum):
    """Forgets to return the accumulator that it changes."""

    def add(self, value: Any, accumulator: Any) -> Any:
        super().add(value, accumulator)


class Merging(Sum):
    """Forgets to return the accumulator that it merged."""

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        super().merge(acc_a, acc_b)


def add_two(build: Callable[[Any], Any], kind: str) -> list[Any]:
    """Return what a window of a kind gives for two records of one key."""
    with OneInputHarness(lambda stream: build(ALL_KINDS[kind](by_key(stream))), ANY) as window:
        for number in (5, 6):
            window.process_element(("a", number), number)
        window.process_watermark(1_000)
        return window.take_values()


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_functions_that_forget_to_return_what_they_made_of_the_records_are_refused(kind: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"reduce of '.+' must return the combined record; got None"):
        add_two(lambda windows: windows.reduce(lambda a, b: None), kind)
    with pytest.raises(InvalidArgumentError, match=r"add of '.+' must return the accumulator; got None"):
        add_two(lambda windows: windows.aggregate(Appending()), kind)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_an_aggregate_function_may_begin_with_none(kind: str) -> None:
    assert set(add_two(lambda windows: windows.aggregate(Greatest()), kind)) == {6}


@pytest.mark.parametrize("kind", ["sessions", "any trigger in sessions"])
def test_sessions_refuse_a_merge_that_returns_none(kind: str) -> None:
    with OneInputHarness(lambda stream: ALL_KINDS[kind](by_key(stream)).aggregate(Merging()), ANY) as window:
        for time in (0, 18):
            window.process_element(("a", 1), time)
        with pytest.raises(InvalidArgumentError, match=r"merge of .+ must return the accumulator; got None"):
            window.process_element(("a", 1), 9)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_window_that_ends_after_the_last_time_there_is_is_refused(kind: str) -> None:
    with harness(lambda keyed: sum_of(ALL_KINDS[kind](keyed))) as window:
        window.process_element(("a", 1), 2**63 - 1 - 20)
        with pytest.raises(TypeMismatchError, match="after the last time that there is"):
            window.process_element(("a", 1), 2**63 - 1 - 3)


# -- overlapping windows ---------------------------------------------------------------------------------------------------------


def sliding_by_processing_time(keyed: KeyedStream) -> DataStream:
    assigner = SlidingProcessingTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))
    return keyed.window(assigner).aggregate(Sum(), WithWindow())


@pytest.mark.parametrize("share", ["false", "true"])
@pytest.mark.parametrize("lose", ["nothing", "heap", "restore"])
def test_sliding_processing_time_windows_fire_once_whatever_is_lost_between(lose: str, share: str) -> None:
    window = harness(sliding_by_processing_time, parallelism=2, settings={"execution.windows.share-panes": share})
    outputs = []
    try:
        for time in (1, 6, 12, 16):
            window.set_processing_time(time)
            for key in "abc":
                window.process_element((key, time))
            outputs += window.take_output()
            if lose == "heap":
                window.lose_heap()
            elif lose == "restore":
                snapshot = window.snapshot()
                window.close()
                window = window.restored(snapshot, parallelism=1)
        window.set_processing_time(50)
        outputs += window.take_output()
    finally:
        window.close()
    expected = [
        *[((-5, 5, 1, 1), 4), ((0, 10, 7, 2), 9), ((5, 15, 18, 2), 14)],
        *[((10, 20, 28, 2), 19), ((15, 25, 16, 1), 24)],
    ]
    for key in "abc":
        assert [(value[1:], time) for value, time in outputs if value[0] == key] == expected


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        ("false", [(("a", -5, 5, 2, 1), 4), (("a", 0, 10, 3, 2), 9)]),
        ("true", [(("a", 0, 10, 3, 2), 9), (("a", 5, 15, 2, 1), 14)]),
    ],
)
def test_a_record_at_the_last_millisecond_of_a_fired_processing_time_window_is_in_the_next_only_where_panes_are_shared(
    share: str, expected: list[Any]
) -> None:
    with harness(sliding_by_processing_time, settings={"execution.windows.share-panes": share}) as window:
        window.process_element(("a", 1))
        window.set_processing_time(4)
        assert window.take_output() == [(("a", -5, 5, 1, 1), 4)]
        window.process_element(("a", 2))
        window.set_processing_time(30)
        assert window.take_output() == expected


def test_a_record_at_the_last_millisecond_of_a_fired_tumbling_processing_time_window_fires_it_again() -> None:
    assigner = TumblingProcessingTimeWindows.of(Time.milliseconds(10))
    with harness(lambda keyed: keyed.window(assigner).aggregate(Sum(), WithWindow())) as window:
        window.process_element(("a", 1))
        window.set_processing_time(9)
        window.process_element(("a", 2))
        window.set_processing_time(30)
        assert window.take_output() == [(("a", 0, 10, 1, 1), 9), (("a", 0, 10, 2, 1), 9)]

"""The operator harnesses, on simple operators."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pytest

from flinkish.common import Row, Time, Types, options
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, TypeMismatchError
from flinkish.datastream import (
    AsyncDataStream,
    AsyncFunction,
    BroadcastProcessFunction,
    CoMapFunction,
    DataStream,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    RuntimeContext,
    TimeDomain,
)
from flinkish.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkish.datastream.window import SlidingProcessingTimeWindows, TumblingEventTimeWindows
from flinkish.runtime.protocol import MAX_WATERMARK
from flinkish.testing import EndOfInput, OneInputHarness, StreamRecord, TwoInputHarness, Watermark, WatermarkStatus
from flinkish.testing import steps as step


def double(stream: DataStream) -> DataStream:
    return stream.map(lambda value: 2 * value)


def test_a_record_comes_out_with_its_time() -> None:
    with OneInputHarness(double) as harness:
        harness.process_element(1, 10)
        harness.process_element(2)
        assert harness.take_output() == [StreamRecord(2, 10), StreamRecord(4, None)]
        assert harness.take_output() == []


def test_control_elements_come_out_in_order_with_the_records() -> None:
    with OneInputHarness(double) as harness:
        with harness.epoch():
            harness.process_element(1, 10)
            harness.process_watermark(10)
            harness.process_element(2, 12)
            harness.process_status(idle=True)
        harness.end_input()
        assert harness.take_elements() == [
            StreamRecord(2, 10),
            Watermark(10),
            StreamRecord(4, 12),
            WatermarkStatus(True),
            WatermarkStatus(False),
            Watermark(MAX_WATERMARK),
            EndOfInput(),
        ]


def test_nothing_can_be_pushed_into_an_input_that_has_ended() -> None:
    with OneInputHarness(double) as harness:
        harness.end_input()
        with pytest.raises(InvalidArgumentError, match="has ended"):
            harness.process_element(1)


def test_values_are_converted_to_the_type_of_the_input() -> None:
    rows = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])
    with OneInputHarness(lambda stream: stream.map(lambda row: row.b), rows) as harness:
        harness.process_elements([(1, "x"), Row(a=2, b="y")])
        assert harness.take_values() == ["x", "y"]
        with pytest.raises(TypeMismatchError):
            harness.process_element((1, object()))


def test_an_error_of_user_code_is_raised_by_the_push_and_ends_the_harness() -> None:
    def fail(value: Any) -> Any:
        raise ValueError(f"cannot digest {value}")

    with OneInputHarness(lambda stream: stream.map(fail)) as harness:
        with pytest.raises(ValueError, match="cannot digest 1"):
            harness.process_element(1)
        with pytest.raises(InvalidArgumentError, match="failed before"):
            harness.process_element(2)


def test_what_does_not_read_its_input_is_refused() -> None:
    with pytest.raises(InvalidProgramError, match="must read all of its inputs"):
        TwoInputHarness(lambda first, second: first.map(lambda value: value))


def test_what_is_not_made_by_an_operator_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="must return a DataStream"):
        OneInputHarness(lambda stream: stream.key_by(lambda value: value))


SIDE = OutputTag("side", Types.STRING())


class Split(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value
        yield SIDE, str(value)


def test_side_outputs_are_read_apart() -> None:
    with OneInputHarness(lambda stream: stream.process(Split()), side_outputs=[SIDE]) as harness:
        harness.process_element(1, 5)
        assert harness.take_output(SIDE) == [StreamRecord("1", 5)]
        assert harness.take_values() == [1]
        with pytest.raises(InvalidArgumentError, match="'other' is not read"):
            harness.take_output(OutputTag("other", Types.STRING()))


class Alarm(KeyedProcessFunction):
    """Counts, and tells the count after 10 ms of processing time and 100 ms of event time."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        self.count.update((self.count.value() or 0) + 1)
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 10)
        timers.register_event_time_timer(ctx.timestamp() + 100)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield ctx.get_current_key(), self.count.value(), ctx.time_domain() is TimeDomain.EVENT_TIME


def alarm(stream: DataStream) -> DataStream:
    return stream.key_by(lambda value: value, Types.LONG()).process(Alarm())


def test_timers_of_both_domains_fire_when_the_test_says() -> None:
    with OneInputHarness(alarm) as harness:
        harness.process_element(7, 1)
        harness.set_processing_time(9)
        assert harness.take_output() == []
        harness.set_processing_time(10)
        assert harness.take_output() == [StreamRecord((7, 1, False), 10)]
        harness.process_watermark(101)
        assert harness.take_output() == [StreamRecord((7, 1, True), 101)]


def test_processing_time_does_not_go_back() -> None:
    with OneInputHarness(alarm) as harness:
        harness.set_processing_time(5)
        with pytest.raises(InvalidArgumentError, match="cannot go back"):
            harness.set_processing_time(4)


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_state_and_timers_survive_a_restore_at_any_parallelism(parallelism: int) -> None:
    with OneInputHarness(alarm, parallelism=2) as harness:
        harness.process_elements(range(20), timestamp=1)
        harness.process_watermark(50)
        snapshot = pickle.loads(pickle.dumps(harness.snapshot()))
    with harness.restored(snapshot, parallelism=parallelism) as restored:
        restored.process_elements(range(10, 20), timestamp=1)
        restored.process_watermark(101)
        assert sorted(restored.take_values()) == [(key, 1 + (key >= 10), True) for key in range(20)]


def test_state_survives_the_loss_of_the_heap() -> None:
    with OneInputHarness(alarm) as harness:
        harness.process_element(3, 1)
        harness.lose_heap()
        harness.process_element(3, 1)
        harness.lose_heap()
        harness.process_watermark(101)
        assert harness.take_values() == [(3, 2, True)]


def test_the_entries_of_a_snapshot_show_values_and_timers() -> None:
    with OneInputHarness(alarm) as harness:
        harness.process_element(3, 1)
        entries = harness.snapshot().entries()
    assert sorted((entry.state_name, entry.kind, entry.value) for entry in entries) == [
        ("count", "value", "1"),
        ("timers", "timer_event", "101"),
        ("timers", "timer_processing", "10"),
    ]


def test_the_entries_of_a_snapshot_do_not_show_states_of_the_runtime() -> None:
    def build(pairs: DataStream) -> DataStream:
        windows = SlidingProcessingTimeWindows.of(Time.seconds(2), Time.seconds(1))
        return pairs.key_by(lambda pair: pair[0]).window(windows).reduce(lambda first, second: first)

    with OneInputHarness(build, settings={options.SHARE_PANES.key: True}) as harness:
        harness.set_processing_time(500)
        harness.process_element(("a", 1))
        harness.set_processing_time(1_200)
        assert [entry.value for entry in harness.snapshot().entries()] == ['["a",1]']


class Tell(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return "first", value

    def map2(self, value: Any) -> Any:
        return "second", value


def test_two_inputs_and_the_lower_of_their_watermarks() -> None:
    with TwoInputHarness(lambda first, second: first.connect(second).map(Tell())) as harness:
        harness.process_element2("b", 2)
        harness.process_element1("a", 1)
        harness.process_watermark1(10)
        harness.process_watermark2(5)
        assert harness.take_elements() == [
            StreamRecord(("second", "b"), 2),
            StreamRecord(("first", "a"), 1),
            Watermark(5),
        ]


def test_an_idle_input_does_not_hold_back_the_watermark() -> None:
    with TwoInputHarness(lambda first, second: first.connect(second).map(Tell())) as harness:
        harness.process_watermark1(10)
        assert harness.take_elements() == []
        harness.process_status2(idle=True)
        assert harness.take_elements() == [Watermark(10)]


def test_a_whole_pipeline_with_shuffles_is_run() -> None:
    def pipeline(stream: DataStream) -> DataStream:
        counted = stream.flat_map(str.split).map(lambda word: (word, 1)).key_by(lambda pair: pair[0])
        return counted.reduce(lambda a, b: (a[0], a[1] + b[1])).map(lambda pair: pair[1]).key_by(lambda count: 0).sum()

    with OneInputHarness(pipeline, parallelism=3) as harness:
        harness.process_element("to be or not to be")
        snapshot = harness.snapshot()
        assert harness.take_values()[-1] == 8
    with harness.restored(snapshot, parallelism=2) as restored:
        restored.process_element("be")
        assert restored.take_values() == [11]


RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Multiply(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Any:
        yield value * (ctx.get_broadcast_state(RULES).get("factor") or 1)

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Any:
        ctx.get_broadcast_state(RULES).put("factor", value)


def multiply(numbers: DataStream, factors: DataStream) -> DataStream:
    return numbers.connect(factors.broadcast(RULES)).process(Multiply())


def test_a_broadcast_input_reaches_all_subtasks_also_after_a_restore() -> None:
    with TwoInputHarness(multiply, parallelism=2) as harness:
        harness.process_element2(3)
        with harness.epoch():
            for number in range(4):
                harness.process_element1(number)
        assert sorted(harness.take_values()) == [0, 3, 6, 9]
        snapshot = harness.snapshot()
    with harness.restored(snapshot, parallelism=3) as restored:
        with restored.epoch():
            for number in range(6):
                restored.process_element1(number)
        assert sorted(restored.take_values()) == [0, 3, 6, 9, 12, 15]


# -- what has tests of its own elsewhere: here, that the harness carries it ----------------------------------------------------


LATE = OutputTag("late", Types.LONG())


def test_windows_with_late_records_fire_at_watermarks_and_survive_a_restart() -> None:
    def windows(stream: DataStream) -> DataStream:
        tens = stream.key_by(lambda value: 0, Types.LONG()).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        return tens.side_output_late_data(LATE).reduce(lambda a, b: a + b)

    with OneInputHarness(windows, Types.LONG(), side_outputs=[LATE]) as harness:
        harness.process_elements([StreamRecord(1, 3), StreamRecord(2, 9), StreamRecord(4, 10)])
        harness.process_watermark(9)
        harness.restart(parallelism=2)
        harness.process_element(8, 9)
        harness.process_watermark(19)
        assert harness.take_output() == [(3, 9), (4, 19)]
        assert harness.take_output(LATE) == [(8, 9)]


class Fetch(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        await asyncio.sleep((3 - value) / 1000)
        return [value * 10]


def test_asynchronous_calls_end_within_the_push() -> None:
    def calls(stream: DataStream) -> DataStream:
        return AsyncDataStream.ordered_wait(stream, Fetch(), Time.seconds(20), 10)

    with OneInputHarness(calls, Types.LONG()) as harness:
        harness.process_elements([1, 2, 3], timestamp=7)
        assert harness.take_output() == [(10, 7), (20, 7), (30, 7)]


# -- steps -------------------------------------------------------------------------------------------------------------------


def test_steps_do_what_the_calls_do() -> None:
    with OneInputHarness(alarm) as harness:
        harness.play(
            [
                step.Emit(3, 1),
                step.LoseHeap(),
                step.Emit(3, 1),
                step.TakeCheckpoint(),
                step.Restart(parallelism=3),
                step.MarkIdle(),
                step.MarkActive(),
                step.Advance(10),
                step.EmitWatermark(101),
                step.Settle(),
                step.End(),
            ]
        )
        assert harness.parallelism == 3
        assert harness.take_output() == [((3, 2, False), 10), ((3, 2, True), 101)]


def test_steps_name_the_input_of_two() -> None:
    with TwoInputHarness(lambda first, second: first.connect(second).map(Tell())) as harness:
        harness.play([step.Emit("b", 2, "right"), step.Emit("a", 1, "left")], ["left", "right"])
        assert harness.take_values() == [("second", "b"), ("first", "a")]
        with pytest.raises(InvalidArgumentError, match="which input is 'other'"):
            harness.play([step.Emit("b", 2, "other")], ["left", "right"])
        with pytest.raises(InvalidArgumentError, match="which input is 'source'"):
            harness.play([step.Emit("b")])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (step.Crash(), "a step for a JobHarness"),
        (step.Pause(5), "a step for a JobHarness"),
        (step.Fail(), "a step for a JobHarness"),
        (step.Emit(1, split=1), "has no splits"),
        (step.Advance(-1), "cannot go back"),
    ],
)
def test_steps_that_an_operator_does_not_know_are_refused(wrong: step.Step, message: str) -> None:
    with OneInputHarness(double) as harness, pytest.raises(InvalidArgumentError, match=message):
        harness.play([wrong])


def test_a_restart_keeps_outputs_that_were_not_taken_and_goes_on_from_its_state() -> None:
    with OneInputHarness(alarm, parallelism=2) as harness:
        harness.process_elements(range(4), timestamp=1)
        harness.set_processing_time(10)
        harness.restart(parallelism=3)
        harness.process_watermark(101)
        first, second = harness.take_output()[:4], harness.take_output()
        assert sorted(first) == [((key, 1, False), 10) for key in range(4)]
        assert second == []


def test_unknown_options_are_refused_and_settings_are_copied() -> None:
    with pytest.raises(TypeError, match="side_output"):
        OneInputHarness(double, side_output=[])  # type: ignore[call-arg]
    settings = {"execution.runtime-mode": "STREAMING"}
    with OneInputHarness(double, settings=settings) as harness:
        settings["execution.runtime-mode"] = "unknown"
        harness.restart()
        harness.process_element(1)
        assert harness.take_values() == [2]

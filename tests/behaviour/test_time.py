"""Event time, watermarks, timers in both time domains, on both engines."""

from __future__ import annotations

from typing import Any

from flinkish.common import Duration, Time, Types, WatermarkStrategy
from flinkish.datastream import DataStream, StreamExecutionEnvironment, TimeDomain
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.functions import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ProcessFunction,
    RuntimeContext,
)
from flinkish.datastream.state import ValueStateDescriptor
from flinkish.datastream.window import TumblingEventTimeWindows
from tests.conftest import MakeEnvironment, locally
from tests.kit.functions import Emits, Punctuated, Second
from tests.kit.results import collect

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1


BOUNDED = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(5)).with_timestamp_assigner(Second())
PUNCTUATED = WatermarkStrategy.for_generator(Punctuated).with_timestamp_assigner(Second())


class Times(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value[0], ctx.timestamp(), ctx.timer_service().current_watermark()


@locally
def test_a_punctuated_watermark_is_seen_by_the_next_record(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    stream = env.from_collection([("a", 10), ("b", 20), ("c", 15)]).assign_timestamps_and_watermarks(PUNCTUATED)
    assert collect(stream.process(Times())) == [("a", 10, LONG_MIN), ("b", 20, 10), ("c", 15, 20)]


def test_watermarks_cross_a_shuffle_as_the_least_of_all_channels(env: StreamExecutionEnvironment) -> None:
    class Keyed(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            yield value[1], ctx.timer_service().current_watermark()

    stream = env.from_collection([("a", 10), ("a", 20), ("a", 15)]).assign_timestamps_and_watermarks(PUNCTUATED)
    results = collect(stream.set_parallelism(1).key_by(lambda value: value[0]).process(Keyed()))
    assert results == [(10, LONG_MIN), (20, 10), (15, 20)]


class Alarm(KeyedProcessFunction):
    """Sets the timers that a record requests, and emits when they fire."""

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        _, _, *timers = value
        for timer in timers:
            ctx.timer_service().register_event_time_timer(timer)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield ctx.get_current_key(), timestamp, ctx.timestamp(), ctx.time_domain() is TimeDomain.EVENT_TIME


def alarms(env: StreamExecutionEnvironment, records: list[Any], strategy: WatermarkStrategy = PUNCTUATED) -> list[Any]:
    env.set_parallelism(1)
    stream = env.from_collection(records).assign_timestamps_and_watermarks(strategy)
    return collect(stream.key_by(lambda value: value[0], key_type=Types.STRING()).process(Alarm()))


def test_timers_fire_in_the_order_of_time_over_all_keys(env: StreamExecutionEnvironment) -> None:
    results = alarms(env, [("a", 1, 30, 10), ("b", 2, 20)])
    assert [(key, time) for key, time, _, _ in results] == [("a", 10), ("b", 20), ("a", 30)]
    assert all(timestamp == time and event for _, time, timestamp, event in results)


def test_processing_time_timers_fire_on_time_while_the_job_is_idle_unless_they_are_deleted(
    env: StreamExecutionEnvironment,
) -> None:
    class Delay(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            service = ctx.timer_service()
            now = service.current_processing_time()
            for delay in (400, 700, 1_000):
                service.register_processing_time_timer(now + delay)
            service.delete_processing_time_timer(now + 400)
            self.due = now + 700

        def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
            assert ctx.time_domain() is TimeDomain.PROCESSING_TIME
            yield timestamp - self.due, ctx.timer_service().current_processing_time() - timestamp

    # an unbounded source that has nothing to give after its first record
    source = DataGeneratorSource(lambda index: index, count=None, records_per_second=0.01, type_info=Types.LONG())
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "slow").key_by(lambda value: value).process(Delay())
    with stream.execute_and_collect() as results:
        fired = [next(results), next(results)]
    assert [after for after, _ in fired] == [0, 300]
    assert [late for _, late in fired if not 0 <= late < 2_000] == []


def test_both_inputs_of_a_keyed_co_process_function_share_state_and_timers(env: StreamExecutionEnvironment) -> None:
    class Match(KeyedCoProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.left = runtime_context.get_state(ValueStateDescriptor("left", Types.INT()))

        def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
            self.left.update(value[1])
            ctx.timer_service().register_event_time_timer(value[1] + 100)

        def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
            ctx.timer_service().register_event_time_timer(value[1] + 200)

        def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Any:
            yield ctx.get_current_key(), timestamp, self.left.value()

    def stream(records: list[Any]) -> Any:
        return env.from_collection(records).assign_timestamps_and_watermarks(BOUNDED)

    connected = stream([("a", 1), ("b", 2)]).connect(stream([("a", 3)]))
    keyed = connected.key_by(lambda value: value[0], lambda value: value[0], key_type=Types.STRING())
    assert sorted(collect(keyed.process(Match()))) == [("a", 101, 1), ("a", 203, 1), ("b", 102, 2)]


def read_together(env: StreamExecutionEnvironment, strategy: WatermarkStrategy) -> int:
    """Read a source with a fast event time and one with a slow event time; return the maximum lead of the fast one."""

    def source(name: str, count: int, step: int) -> DataStream:
        generated = DataGeneratorSource(lambda index: (name, index * step), count=count)
        return env.from_source(generated, strategy, name)

    seen = collect(source("fast", 100, 10).union(source("slow", 250, 4)))
    slow = ahead = 0
    for name, time in seen:
        slow = time if name == "slow" else slow
        ahead = max(ahead, time - slow if name == "fast" else 0)
    return ahead


def test_sources_of_an_alignment_group_do_not_run_ahead_of_the_slowest(make_env: MakeEnvironment, engine: str) -> None:
    # An epoch of the slow source: 80 ms.
    settings = {"execution.epoch.max-records": 20}
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    aligned = strategy.with_watermark_alignment("group", Duration.of_millis(50), Duration.of_millis(20))
    # Unlimited is the first epoch, with 200 ms of the fast source; then come drift, 16 records at a time, and the epoch itself.
    assert read_together(make_env(1, settings), aligned) < 50 + 160 + 80
    if engine == "local":
        assert read_together(make_env(1, settings), strategy) > 500


def test_a_stream_after_a_source_becomes_idle_although_nothing_else_happens(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    waiting = strategy.with_idleness(Duration.of_millis(300))
    pairs = Types.TUPLE([Types.STRING(), Types.LONG()])
    busy = env.add_source(Emits(("a", 1), ("a", 30)), "busy", pairs)
    quiet = env.add_source(Emits(), "quiet", pairs)
    timed = busy.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Second()))
    both = timed.union(quiet.assign_timestamps_and_watermarks(waiting.with_timestamp_assigner(Second())))
    windows = both.window_all(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    with windows.reduce(lambda a, b: (a[0], a[1] + b[1])).execute_and_collect() as sums:
        assert next(sums) == ("a", 1)

"""RuntimeExecutionMode.BATCH and AUTOMATIC, on both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Time, Types, WatermarkStrategy
from flinkish.common.errors import CheckpointError, ConfigurationError, InvalidProgramError, UnsupportedError
from flinkish.datastream import (
    BroadcastProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    MapFunction,
    RuntimeContext,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import KeyedCoProcessFunction, KeyedProcessFunction, ProcessFunction
from flinkish.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkish.datastream.window import (
    ContinuousProcessingTimeTrigger,
    TumblingProcessingTimeWindows,
)
from tests.conftest import MakeEnvironment, locally
from tests.kit.environments import env_of
from tests.kit.functions import Second
from tests.kit.results import collect

PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
RECORDS = [("b", 5), ("a", 3), ("c", 1), ("a", 1), ("b", 2), ("a", 2)]
PAIR_OF_LONGS = Types.TUPLE([Types.LONG(), Types.LONG()])
LAST = 2**63 - 1


@pytest.fixture
def batch(make_env: MakeEnvironment) -> StreamExecutionEnvironment:
    # Small epochs, so that the sorted records arrive in several of them.
    return make_env(2, {"execution.epoch.max-records": 4}).set_runtime_mode(RuntimeExecutionMode.BATCH)


def timed(env: StreamExecutionEnvironment, records: list[Any] = RECORDS) -> DataStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    return env.from_collection(records, PAIR).assign_timestamps_and_watermarks(strategy)


class Timestamp(ProcessFunction):
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield value, ctx.timestamp()


@locally
def test_results_of_reduce_and_of_aggregations_have_no_timestamp(batch: StreamExecutionEnvironment) -> None:
    keyed = timed(batch).key_by(lambda pair: pair[0], Types.STRING())
    reduced = keyed.reduce(lambda one, other: (one[0], one[1] + other[1])).process(Timestamp())
    greatest = keyed.max_by(1).process(Timestamp())
    found = collect(reduced.union(greatest))
    assert sorted(found) == sorted((pair, -(2**63)) for pair in [("a", 6), ("b", 7), ("c", 1), ("a", 3), ("b", 5), ("c", 1)])


class Trace(KeyedProcessFunction):
    """Emits each record with the number of records of its key so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        assert ctx.timer_service().current_watermark() == -(2**63)
        ctx.timer_service().register_event_time_timer(100 - value[1])
        if value[1] == 1:
            ctx.timer_service().register_processing_time_timer(LAST - 1)
        yield "record", *value, self.count.value()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        assert ctx.timer_service().current_watermark() == LAST
        # Ignored, as in Flink: the key has ended.
        ctx.timer_service().register_event_time_timer(timestamp + 1)
        ctx.timer_service().register_processing_time_timer(timestamp + 1)
        yield ctx.time_domain().name, ctx.get_current_key(), timestamp, self.count.value()


def test_keyed_input_comes_key_by_key_sorted_by_time_with_the_timers_of_a_key_at_its_end(
    batch: StreamExecutionEnvironment,
) -> None:
    batch.set_parallelism(1)
    assert collect(timed(batch).key_by(lambda value: value[0], Types.STRING()).process(Trace())) == [
        ("record", "a", 1, 1),
        ("record", "a", 2, 2),
        ("record", "a", 3, 3),
        ("EVENT_TIME", "a", 97, 3),
        ("EVENT_TIME", "a", 98, 3),
        ("EVENT_TIME", "a", 99, 3),
        ("PROCESSING_TIME", "a", LAST - 1, 3),
        ("record", "b", 2, 1),
        ("record", "b", 5, 2),
        ("EVENT_TIME", "b", 95, 2),
        ("EVENT_TIME", "b", 98, 2),
        ("record", "c", 1, 1),
        ("EVENT_TIME", "c", 99, 1),
        ("PROCESSING_TIME", "c", LAST - 1, 1),
    ]


def test_each_of_several_keyed_operators_sorts_its_input(batch: StreamExecutionEnvironment) -> None:
    sums = timed(batch).key_by(lambda value: value[0]).sum(1)
    total = sums.map(lambda pair: ("all", pair[1]), PAIR).key_by(lambda pair: pair[0]).sum(1)
    assert collect(total) == [("all", 14)]


@locally
def test_two_keyed_inputs_are_merged_by_key_and_time(batch: StreamExecutionEnvironment) -> None:
    class Both(KeyedCoProcessFunction):
        def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
            yield 1, *value

        def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Any:
            yield 2, *value

    batch.set_parallelism(1)
    first, second = timed(batch, [("b", 4), ("a", 5), ("a", 1)]), timed(batch, [("a", 3), ("b", 9), ("a", 5), ("b", 1)])
    connected = first.connect(second).key_by(lambda value: value[0], lambda value: value[0], Types.STRING())
    assert collect(connected.process(Both())) == [
        (1, "a", 1),
        (2, "a", 3),
        (1, "a", 5),
        (2, "a", 5),
        (2, "b", 1),
        (1, "b", 4),
        (2, "b", 9),
    ]


@locally
def test_windows_in_processing_time_fire_when_their_key_has_ended(batch: StreamExecutionEnvironment) -> None:
    keyed = timed(batch, [*RECORDS, ("a", 12)]).key_by(lambda value: value[0], Types.STRING())
    hours = keyed.window(TumblingProcessingTimeWindows.of(Time.hours(24 * 365)))
    sums = hours.trigger(ContinuousProcessingTimeTrigger.of(Time.milliseconds(5))).reduce(lambda a, b: (a[0], a[1] + b[1]))
    assert sorted(collect(sums)) == [("a", 18), ("b", 7), ("c", 1)]


RULES = MapStateDescriptor("rules", Types.LONG(), Types.LONG())


class Sizes(KeyedBroadcastProcessFunction):
    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Any:
        yield value, len(ctx.get_broadcast_state(RULES).keys())

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Any:
        ctx.get_broadcast_state(RULES).put(value, value)


def test_the_broadcast_side_is_read_first(batch: StreamExecutionEnvironment) -> None:
    class Plain(BroadcastProcessFunction):
        def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Any:
            yield value, len(ctx.get_broadcast_state(RULES).keys())

        def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Any:
            ctx.get_broadcast_state(RULES).put(value, value)

    # The broadcast side is the longer one, so that the other one is at its end long before.
    def rules() -> Any:
        return batch.from_collection(list(range(9)), Types.LONG()).broadcast(RULES)

    numbers = batch.from_collection([1, 2, 3], Types.LONG())
    assert sorted(collect(numbers.connect(rules()).process(Plain()))) == [(1, 9), (2, 9), (3, 9)]
    assert sorted(collect(numbers.key_by(lambda value: value).connect(rules()).process(Sizes()))) == [(1, 9), (2, 9), (3, 9)]


def test_what_does_not_fit_into_memory_goes_to_disk_and_is_released_in_parts(make_env: MakeEnvironment, tmp_path: Path) -> None:
    settings = {
        "execution.runtime-mode": "BATCH",
        "execution.sorted-inputs.memory": "20 kb",
        "execution.epoch.max-records": 300,
        "io.tmp.dirs": tmp_path / "tmp",
    }
    env = make_env(2, settings)
    written = tmp_path / "written"

    class Note(MapFunction):
        def map(self, value: Any) -> Any:
            if value[0] == 999:
                files = list((tmp_path / "tmp").rglob("*.run"))
                written.write_text(str(len(files)), encoding="utf-8")
            return value

    numbers = env.from_collection(list(range(1000)), Types.LONG())
    rules = env.from_collection(list(range(700)), Types.LONG()).broadcast(RULES)
    sized = numbers.key_by(lambda value: value % 7, Types.LONG()).connect(rules).process(Sizes(), PAIR_OF_LONGS)
    result = collect(sized.map(Note(), PAIR_OF_LONGS).key_by(lambda value: 0, Types.LONG()).sum(0))
    assert result == [(499_500, 700)]
    assert int(written.read_text(encoding="utf-8")) > 2
    assert list((tmp_path / "tmp").rglob("*.run")) == []


@locally
def test_without_keys_there_is_one_watermark_at_the_end(batch: StreamExecutionEnvironment) -> None:
    class Watermark(ProcessFunction):
        def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
            yield ctx.timer_service().current_watermark()

    numbers = batch.from_collection([("k", number) for number in range(20)], PAIR)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    assert set(collect(numbers.assign_timestamps_and_watermarks(strategy).rebalance().process(Watermark()))) == {-(2**63)}


@locally
def test_keys_that_have_no_order_among_each_other_are_allowed(batch: StreamExecutionEnvironment) -> None:
    keyed = batch.from_collection([(1, 1), ("a", 2), ([1], 3), (1, 4), ([1], 5)]).key_by(lambda value: value[0])
    assert sorted(value[1] for value in collect(keyed.reduce(lambda one, two: (one[0], one[1] + two[1])))) == [2, 5, 8]


# -- which mode --------------------------------------------------------------------------------------------------------------


def endless(env: StreamExecutionEnvironment, name: str) -> DataStream:
    return env.from_source(DataGeneratorSource(lambda index: index, count=None), WatermarkStrategy.no_watermarks(), name)


@locally
def test_an_unbounded_source_is_refused_in_batch_mode_by_name(batch: StreamExecutionEnvironment) -> None:
    batch.from_collection([1]).union(endless(batch, "clicks")).print()
    with pytest.raises(InvalidProgramError, match="'clicks' is unbounded"):
        batch.execute()


@pytest.mark.parametrize("key", ["execution.sorted-inputs.enabled", "execution.batch-state-backend.enabled"])
def test_a_batch_without_sorted_input_is_refused(key: str) -> None:
    env = env_of({"execution.runtime-mode": "BATCH", key: "false"})
    env.from_collection([1]).print()
    with pytest.raises(UnsupportedError, match=key):
        env.execute()


@locally
def test_automatic_is_batch_if_all_sources_are_bounded_else_streaming(make_env: MakeEnvironment) -> None:
    env = make_env().set_runtime_mode(RuntimeExecutionMode.AUTOMATIC)
    assert collect(timed(env).key_by(lambda value: "all").sum(1).map(lambda value: value[1])) == [14]

    ones = env.from_collection([1, 1, 1], Types.LONG()).union(endless(env, "numbers").map(lambda value: 1, Types.LONG()))
    assert ones.key_by(lambda value: 0).sum(0).execute_and_collect(limit=4) == [1, 2, 3, 4]


class Fails(MapFunction):
    """Fails once, at the last record."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def map(self, value: int) -> int:
        if value == 99 and not self.marker.exists():
            self.marker.touch()
            raise RuntimeError("once")
        return value


def test_a_failed_batch_starts_again_and_its_results_are_seen_once(make_env: MakeEnvironment, tmp_path: Path) -> None:
    settings = {
        "execution.runtime-mode": "BATCH",
        "execution.epoch.max-records": 10,
        # Checkpoints are not taken in batch mode.
        "execution.checkpointing.interval": "10 ms",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    env = make_env(2, settings)
    numbers = env.from_source(NumberSequenceSource(0, 99), WatermarkStrategy.no_watermarks(), "numbers")

    assert sorted(collect(numbers.map(Fails(tmp_path / "failed")))) == list(range(100))
    assert (tmp_path / "failed").exists()
    assert not (tmp_path / "checkpoints").exists()


@locally
def test_a_batch_has_no_savepoints_and_starts_from_none(make_env: MakeEnvironment, tmp_path: Path) -> None:
    env = make_env(1, {"execution.runtime-mode": "BATCH", "execution.epoch.max-records": 1})
    env.from_source(NumberSequenceSource(0, 100_000), WatermarkStrategy.no_watermarks(), "numbers").map(lambda v: v)
    client = env.execute_async()
    with pytest.raises(CheckpointError, match="batch mode"):
        client.trigger_savepoint(str(tmp_path)).result(120)
    client.cancel().result(120)

    env = make_env(1, {"execution.runtime-mode": "BATCH", "execution.state-recovery.path": tmp_path})
    env.from_collection([1]).print()
    with pytest.raises(ConfigurationError, match="batch mode"):
        env.execute()

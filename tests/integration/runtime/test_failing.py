"""What the error of a failed job says: operator, line of the program, record, and the program's frames only."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from flinkish.common import Encoder, Row, RowKind, Time, Types, WatermarkStrategy
from flinkish.common.errors import JobExecutionError
from flinkish.common.tracebacks import NO_FRAMES
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import AsyncDataStream, aggregates
from flinkish.datastream.connectors.base import Sink, SinkWriter
from flinkish.datastream.connectors.file_system import FileCompactor, FileCompactStrategy, FileSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.evictors import Evictor
from flinkish.datastream.execution_mode import RuntimeExecutionMode
from flinkish.datastream.functions import (
    AggregateFunction,
    AsyncFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
)
from flinkish.datastream.state import MapStateDescriptor
from flinkish.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)
from flinkish.program import operators as configs
from flinkish.program.transformations import SinkTransformation, SourceTransformation, Transformation
from flinkish.runtime.operators.factory import OPERATORS
from tests.kit.environments import env_of

HERE = str(Path(__file__))
Numbers = DataStream[int]
Build = Callable[[Numbers], Any]
Case = tuple[Build, str]


def explode(value: Any) -> Any:
    raise ValueError("boom")


def explode_at_3(value: Any) -> Any:
    if value == 3:
        raise ValueError("boom")
    return value


def failed(build: Build, **settings: bool) -> JobExecutionError:
    """Run what `build` makes of the numbers 1 to 5 and return the error of the job."""
    return failed_program(build, **settings)[0]


def failed_program(
    build: Build, *, batch: bool = False, full: bool = False
) -> tuple[JobExecutionError, Sequence[Transformation]]:
    """Like `failed`; return what the program is made of, too."""
    env = env_of({"execution.full-traceback": full})
    if batch:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers = env.from_collection([1, 2, 3, 4, 5], Types.INT())
    stream = build(numbers)
    if isinstance(stream, DataStream):
        stream.print()
    transformations = list(env.transformations.values())
    with pytest.raises(JobExecutionError) as error:
        env.execute("failing")
    return error.value, transformations


class FailingAssigner(TimestampAssigner):
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return int(explode_at_3(value)) * 1000


class Fails:
    """Fails at the record 3 in each method that gets records, with a context behind them or without."""

    def process_element(self, *arguments: Any) -> Any:
        explode_at_3(arguments[0])

    process_element1 = flat_map1 = map1 = process_broadcast_element = process_element

    def process_element2(self, *arguments: Any) -> Any:
        yield explode_at_3(arguments[0])

    flat_map2 = process_element2

    def map2(self, value: Any) -> Any:
        return explode_at_3(value)


class FailingProcess(Fails, ProcessFunction): ...  # type: ignore[misc]


class FailingKeyedProcess(Fails, KeyedProcessFunction): ...  # type: ignore[misc]


class FailingCoMap(Fails, CoMapFunction): ...


class FailingCoFlatMap(Fails, CoFlatMapFunction): ...


class FailingCoProcess(Fails, CoProcessFunction): ...  # type: ignore[misc]


class FailingKeyedCoProcess(Fails, KeyedCoProcessFunction): ...  # type: ignore[misc]


class FailingBroadcast(Fails, BroadcastProcessFunction): ...  # type: ignore[misc]


class FailingKeyedBroadcast(Fails, KeyedBroadcastProcessFunction): ...  # type: ignore[misc]


class FailingSecond:
    """Put before one of the classes above, it passes the first input on, so that the second fails."""

    def process_element(self, *arguments: Any) -> Any: ...

    process_element1 = flat_map1 = map1 = process_element


class Timer(KeyedProcessFunction):
    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value * 1000)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        explode(timestamp)


class CoTimer(KeyedCoProcessFunction):
    def process_element1(self, value: int, ctx: KeyedCoProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value * 1000)

    def process_element2(self, value: int, ctx: KeyedCoProcessFunction.Context) -> None: ...

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Any:
        explode(timestamp)


class BroadcastTimer(KeyedBroadcastProcessFunction):
    def process_element(self, value: int, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> None:
        ctx.timer_service().register_event_time_timer(value * 1000)

    def process_broadcast_element(self, value: int, ctx: KeyedBroadcastProcessFunction.Context) -> None: ...

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Any:
        explode(timestamp)


class FailingJoin(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: Any) -> Any:
        explode_at_3(right)


class FailingWindow(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        yield explode(key)


class Sum(AggregateFunction):
    """Fails in one of its methods."""

    def __init__(self, fails_in: str) -> None:
        self._fails_in = fails_in

    def create_accumulator(self) -> int:
        return 0

    def add(self, value: int, accumulator: int) -> int:
        if self._fails_in == "add":
            explode_at_3(value)
        return accumulator + value

    def get_result(self, accumulator: int) -> int:
        return int(explode(accumulator)) if self._fails_in == "get_result" else accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class FailingTrigger(Trigger):  # type: ignore[type-arg]
    """Fails in one of its methods."""

    def __init__(self, fails_in: str) -> None:
        self._fails_in = fails_in

    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        if self._fails_in == "on_element":
            explode_at_3(element)
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        if self._fails_in == "on_event_time":
            explode(time)
        return TriggerResult.FIRE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None: ...

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None:
        if self._fails_in == "clear":
            explode(window)


class FailingEvictor(Evictor):  # type: ignore[type-arg]
    def evict_before(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
        explode(window)

    def evict_after(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None: ...


class FailingAssignment(TumblingEventTimeWindows):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        explode_at_3(element)
        return super().assign_windows(element, timestamp, context)


class FailingCall(AsyncFunction):
    async def async_invoke(self, value: int) -> list[int]:
        return [explode_at_3(value)]

    def timeout(self, value: int) -> list[int]:
        return []


class FailingOpen(MapFunction):
    def open(self, runtime_context: Any) -> None:
        explode(None)

    def map(self, value: Any) -> Any:
        return value


class FailingWriter(SinkWriter[Any, Any]):
    def write(self, element: Any, context: Any) -> None:
        explode_at_3(element)


class FailingSink(Sink[Any, Any]):
    def create_writer(self, context: Any) -> FailingWriter:
        return FailingWriter()


class FailingEncoder(Encoder):
    def encode_function(self, type_info: Any) -> Callable[[Any], bytes]:
        return lambda value: str(explode_at_3(value)).encode()


class FailingReader(NumberSequenceSource):
    def create_reader(self, context: Any) -> Any:
        reader = super().create_reader(context)
        reader.poll_next = lambda output: output.collect_all(explode_at_3(number) for number in range(5))  # type: ignore[method-assign]
        return reader


def timed(numbers: Numbers) -> Numbers:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda value, _: value * 1000)
    return numbers.assign_timestamps_and_watermarks(strategy)


def parity(value: int) -> int:
    return value % 2


def windowed(numbers: Numbers, assigner: Any = None) -> Any:
    """Windows that each hold several numbers of a parity."""
    return timed(numbers).key_by(parity).window(assigner or TumblingEventTimeWindows.of(Time.seconds(10)))


def keyed_pair(numbers: Numbers) -> Any:
    return timed(numbers).key_by(parity).connect(timed(numbers).key_by(parity))


def broadcast(numbers: Numbers) -> Any:
    return timed(numbers).broadcast(MapStateDescriptor("rules", Types.INT(), Types.INT()))


def failing_second(function: type[Any]) -> Any:
    return type(f"Second{function.__name__}", (FailingSecond, function), {})()


def from_failing_reader(numbers: Numbers) -> Any:
    env = numbers.get_execution_environment()
    return env.from_source(FailingReader(1, 9), WatermarkStrategy.no_watermarks(), "reader").map(lambda value: value)


def failing_assigner(numbers: Numbers) -> Numbers:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FailingAssigner())
    return numbers.assign_timestamps_and_watermarks(strategy)


def assigned_at_the_source(numbers: Numbers) -> Numbers:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(FailingAssigner())
    return numbers.get_execution_environment().from_source(NumberSequenceSource(1, 5), strategy, "numbers")


def to_compacted_files(numbers: Numbers) -> None:
    strategy = FileCompactStrategy.builder().set_size_threshold(1024).build()
    files = FileSink.for_row_format("files", FailingEncoder())
    numbers.sink_to(files.enable_compact(strategy, FileCompactor.concat_file_compactor()).build())


BATCH = "No record: a batch of records was processed."


def pairs(numbers: Numbers) -> DataStream[Row]:
    row_type = Types.ROW_NAMED(["number", "parity", "power"], [Types.INT(), Types.LONG(), Types.LONG()])
    return numbers.map(lambda value: Row(number=value, parity=value % 2, power=1 << 62), row_type)


def updated(numbers: Numbers) -> DataStream[Row]:
    """Keep the greatest number of each key, and fail at a record of another kind than INSERT: the third of all."""

    def change(row: Row) -> Row:
        row.set_row_kind(RowKind.UPDATE_AFTER if row.number == 3 else RowKind.INSERT)
        return row

    rows = pairs(numbers)
    return rows.map(change, rows.get_type()).key_by("parity").top_n(1, "number")


def totals(rows: DataStream[Row]) -> DataStream[Row]:
    """Add up numbers whose sum leaves 64 bits at the second record of a key: the third of all."""
    return rows.key_by("parity").aggregate(total=aggregates.sum("power"))


TEN_SECONDS = Time.seconds(10)
SLIDING = SlidingEventTimeWindows.of(TEN_SECONDS, Time.seconds(5))
SESSIONS = EventTimeSessionWindows.with_gap(TEN_SECONDS)


def fails_at_3(one: int, two: int) -> int:
    return int(explode_at_3(two))


def folds(assigner: Any) -> tuple[Case, ...]:
    """A fold of windows fails: where a record is added, where accumulators are merged, and where a window is due."""
    return (
        (lambda numbers: windowed(numbers, assigner).reduce(fails_at_3), "Record: 3"),
        (lambda numbers: windowed(numbers, assigner).aggregate(Sum("add")), "Record: 3"),
        (lambda numbers: windowed(numbers, assigner).aggregate(Sum("get_result")), "No record: "),
        (lambda numbers: windowed(numbers, assigner).process(FailingWindow()), "No record: "),
    )


#: For each kind of operator: what makes a stream that fails in it, and the line about the record.
CASES: Mapping[type[configs.OperatorConfig], Sequence[Case]] = {
    configs.SourceConfig: (
        (from_failing_reader, "No record: the source was being read."),
        (assigned_at_the_source, "Record: 3"),
    ),
    configs.MapConfig: (
        (lambda numbers: numbers.map(explode_at_3), "Record: 3"),
        (lambda numbers: numbers.map(explode_at_3, Types.INT()), "Record: 3"),
        (lambda numbers: numbers.map(lambda value: "x" if value == 3 else value, Types.INT()), "Record: 3"),
        (lambda numbers: numbers.key_by(parity).map(explode_at_3), "Record: 3"),
        (lambda numbers: numbers.map(FailingOpen()), "No record: it was being opened."),
        (lambda numbers: numbers.map(lambda value: value + 1).key_by(explode_at_3).reduce(max), "Record: 3"),
    ),
    configs.FlatMapConfig: (
        (lambda numbers: numbers.filter(lambda value: value != 1).flat_map(explode_at_3), "Record: 2"),
        (lambda numbers: numbers.flat_map(lambda value: [explode_at_3(value)]), "Record: 3"),
        (lambda numbers: numbers.flat_map(lambda value: ["x"] if value == 3 else [], Types.INT()), "Record: 3"),
    ),
    configs.FilterConfig: ((lambda numbers: numbers.map(lambda value: value, Types.INT()).filter(explode_at_3), "Record: 3"),),
    configs.ProcessConfig: ((lambda numbers: numbers.process(FailingProcess()), "Record: 3"),),
    configs.KeyedProcessConfig: (
        (lambda numbers: numbers.key_by(parity).process(FailingKeyedProcess()), "Record: 3"),
        (lambda numbers: timed(numbers).key_by(parity).process(Timer()), "due at 1000, of the key 1"),
    ),
    configs.DeduplicateConfig: (),  # it calls no function, and checks no record
    configs.TopNConfig: ((updated, "Record: Row(number=3, parity=1, power=4611686018427387904)"),),
    configs.MapBatchesConfig: (
        (lambda numbers: numbers.map_batches(explode), BATCH),
        (lambda numbers: numbers.map_batches(explode, batch_format="pandas"), BATCH),
        (lambda numbers: numbers.map_batches(lambda batch: None), BATCH),
        (lambda numbers: timed(numbers).map_batches(lambda batch: batch.slice(1)), BATCH),
        (lambda numbers: numbers.key_by(parity).map_batches(explode), BATCH),
    ),
    configs.FilterColumnsConfig: ((lambda numbers: numbers.filter(pc.scalar(1) / (pc.field("value") - 3) > 0), BATCH),),
    configs.SelectColumnsConfig: (
        (lambda numbers: pairs(numbers).select("number", quotient=pc.scalar(1) / (pc.field("number") - 3)), BATCH),
    ),
    configs.AggregateConfig: (
        (
            lambda numbers: totals(pairs(numbers).filter(pc.field("number") > 0)),
            "Record: Row(number=..., parity=1, power=4611686",
        ),
        (lambda numbers: totals(pairs(numbers)), "Record: Row(number=3, parity=1, power=4611686018427387904)"),
    ),
    configs.ReduceConfig: ((lambda numbers: numbers.key_by(parity).reduce(fails_at_3), "Record: 3"),),
    configs.CoMapConfig: (
        (lambda numbers: numbers.connect(numbers).map(FailingCoMap()), "Record: 3"),
        (lambda numbers: numbers.connect(numbers).map(failing_second(FailingCoMap)), "Record: 3"),
    ),
    configs.CoFlatMapConfig: (
        (lambda numbers: numbers.connect(numbers).flat_map(FailingCoFlatMap()), "Record: 3"),
        (lambda numbers: numbers.connect(numbers).flat_map(failing_second(FailingCoFlatMap)), "Record: 3"),
    ),
    configs.CoProcessConfig: (
        (lambda numbers: numbers.connect(numbers).process(FailingCoProcess()), "Record: 3"),
        (lambda numbers: numbers.connect(numbers).process(failing_second(FailingCoProcess)), "Record: 3"),
    ),
    configs.KeyedCoProcessConfig: (
        (lambda numbers: keyed_pair(numbers).process(FailingKeyedCoProcess()), "Record: 3"),
        (lambda numbers: keyed_pair(numbers).process(failing_second(FailingKeyedCoProcess)), "Record: 3"),
        (lambda numbers: keyed_pair(numbers).process(CoTimer()), "due at 1000, of the key 1"),
    ),
    configs.BroadcastProcessConfig: (
        (lambda numbers: numbers.connect(broadcast(numbers)).process(FailingBroadcast()), "Record: 3"),
        (lambda numbers: numbers.connect(broadcast(numbers)).process(failing_second(FailingBroadcast)), "Record: 3"),
    ),
    configs.KeyedBroadcastProcessConfig: (
        (lambda numbers: numbers.key_by(parity).connect(broadcast(numbers)).process(FailingKeyedBroadcast()), "Record: 3"),
        (
            lambda numbers: numbers.key_by(parity).connect(broadcast(numbers)).process(failing_second(FailingKeyedBroadcast)),
            "Record: 3",
        ),
        (
            lambda numbers: timed(numbers).key_by(parity).connect(broadcast(numbers)).process(BroadcastTimer()),
            "due at 1000, of the key 1",
        ),
    ),
    configs.AsyncWaitConfig: (
        (lambda numbers: AsyncDataStream.unordered_wait(numbers, FailingCall(), Time.seconds(5), 9), "Record: 3"),
        (lambda numbers: AsyncDataStream.ordered_wait(numbers, FailingCall(), Time.seconds(5), 2), "Record: 3"),
    ),
    configs.IntervalJoinConfig: (
        (
            lambda numbers: (
                timed(numbers)
                .key_by(parity)
                .interval_join(timed(numbers).key_by(parity))
                .between(Time.seconds(0), Time.seconds(0))
                .process(FailingJoin())
            ),
            "Record: 3",
        ),
    ),
    configs.TimestampsAndWatermarksConfig: ((failing_assigner, "Record: 3"),),
    configs.WindowConfig: (
        *folds(TumblingEventTimeWindows.of(TEN_SECONDS)),
        *folds(SLIDING),
        *folds(SESSIONS),
        (lambda numbers: windowed(numbers).trigger(CountTrigger.of(2)).process(FailingWindow()), "Record: 3"),
        (lambda numbers: windowed(numbers).trigger(CountTrigger.of(2)).reduce(fails_at_3), "Record: 3"),
        (lambda numbers: numbers.key_by(parity).count_window(2).reduce(fails_at_3), "Record: 3"),
        (lambda numbers: windowed(numbers).trigger(FailingTrigger("on_element")).reduce(max), "Record: 3"),
        (lambda numbers: windowed(numbers).trigger(FailingTrigger("on_event_time")).reduce(max), "due at 9999, of the key 1"),
        (lambda numbers: windowed(numbers).trigger(FailingTrigger("clear")).reduce(max), "due at 9999, of the key 1"),
        (lambda numbers: windowed(numbers).evictor(FailingEvictor()).reduce(max), "due at 9999, of the key 1"),
        (lambda numbers: windowed(numbers, FailingAssignment(10_000, 0)).reduce(max), "Record: 3"),
    ),
    configs.SinkConfig: ((lambda numbers: numbers.sink_to(FailingSink()), "Record: 3"),),
    configs.SinkWriterConfig: ((to_compacted_files, "Record: 3"),),
}


def kind(transformation: Transformation) -> type[configs.OperatorConfig] | None:
    match transformation:
        case SourceTransformation():
            return configs.SourceConfig
        case SinkTransformation():
            return configs.SinkConfig
    return type(getattr(transformation, "operator", None))


@pytest.mark.parametrize("config", OPERATORS)
def test_the_record_that_was_processed_is_shown(
    config: type[configs.OperatorConfig], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # for files
    for build, at in CASES[config]:
        error, transformations = failed_program(build)
        first, *lines = str(error).splitlines()
        assert [at for line in lines if line.startswith(("Record: ", "No record: ")) and at in line] == [at], str(error)
        assert any(f"{each.name}' (uid" in first for each in transformations if kind(each) is config), first


def test_the_record_is_shown_in_batch_mode() -> None:
    assert "Record: 3" in str(failed(lambda numbers: numbers.key_by(parity).reduce(fails_at_3), batch=True)).splitlines()


def test_a_key_selector_is_named_beside_the_operator_before_it() -> None:
    text = str(failed(lambda numbers: numbers.map(lambda value: value).key_by(explode_at_3).reduce(max)))
    assert "Record: 3\nIt was on its way to the next operator: the key selector" in text


PAIR = Types.ROW_NAMED(["number", "parity"], [Types.INT(), Types.INT()])


def pair(value: int) -> Row:
    return Row(number=value, parity=value % 2)


@pytest.mark.parametrize(
    ("function", "selector", "at"),
    [
        (pair, lambda row: explode_at_3(row.number), "Record: Row(number=3, parity=1)\nIt was on its way to the next operator"),
        (lambda value: Row(value, 0), lambda row: explode_at_3(row.number), "Record: Row(number=3, parity=0)\nIt was on its way"),
        (lambda value: pair(explode_at_3(value)), lambda row: row.parity, "Record: 3\n"),
        (lambda value: Row(number=value, parity="x" if value == 3 else 0), lambda row: row.parity, "Record: 3\n"),
    ],
    ids=["selector", "selector of a converted row", "function", "type"],
)
@pytest.mark.parametrize("stamped", [False, True])
def test_the_record_is_shown_where_the_edge_converts_rows(function: Any, selector: Any, at: str, stamped: bool) -> None:
    def build(numbers: Numbers) -> Any:
        return (timed(numbers) if stamped else numbers).map(function, PAIR).key_by(selector).reduce(lambda a, b: a)

    text = str(failed(build))
    assert at in f"{text}\n"
    assert ("on its way" in text) == ("on its way" in at)
    assert "operator 'Map'" in text.splitlines()[0]


def test_frames_are_those_of_the_program_only_with_file_line_and_source() -> None:
    error = failed(lambda numbers: numbers.map(lambda value: explode(value)).name("Explode"))
    files = [line.split('"')[1] for line in str(error).splitlines() if line.startswith("  File ")]
    assert set(files) == {HERE}
    assert 'raise ValueError("boom")' in str(error)
    assert "operator 'Explode'" in str(error).splitlines()[0]
    assert "ValueError: boom" in str(error).splitlines()[0]


def test_frames_of_flinkish_are_shown_where_that_is_set() -> None:
    error = failed(lambda numbers: numbers.map(explode), full=True)
    assert "/flinkish/runtime/slot.py" in str(error)
    assert 'raise ValueError("boom")' in str(error)


def test_frames_of_those_it_came_from_are_the_programs_too() -> None:
    def wrapped(value: int) -> int:
        try:
            return int(explode(value))
        except ValueError as error:
            raise RuntimeError("wrapped") from error

    text = str(failed(lambda numbers: numbers.map(wrapped)))
    assert "ValueError: boom" in text
    assert "RuntimeError: wrapped" in text
    assert {line.split('"')[1] for line in text.splitlines() if line.startswith("  File ")} == {HERE}


def test_an_error_without_a_frame_of_the_program_says_so() -> None:
    text = str(failed(lambda numbers: numbers.map(operator.itemgetter("key"))))
    assert NO_FRAMES in text
    assert "Record: 1" in text
    assert "  File " not in text


def test_the_line_that_made_the_operator_is_shown() -> None:
    def build(numbers: Numbers) -> Numbers:
        return (
            numbers.map(lambda value: value)
            .map(explode)  # this line
            .name("Explode")
        )

    (line,) = (line for line in str(failed(build)).splitlines() if line.startswith("Operator made in "))
    assert line.startswith(f"Operator made in {HERE} line ")
    assert line.endswith(": .map(explode)  # this line")


class Loud:
    def __repr__(self) -> str:
        raise SystemExit("from repr")


class Large:
    def __repr__(self) -> str:
        return "x" * 10_000


# Records are made in the test: pytest shows the arguments of a test that fails, and the first two would end it.
@pytest.mark.parametrize(
    ("make", "shown"),
    [
        (Loud, "Record: an instance of Loud, whose repr raises SystemExit"),
        (lambda: [Loud()], "Record: an instance of list, whose repr raises SystemExit"),
        (lambda: list(range(10**6)), "Record: [0, 1, 2, "),
        (lambda: b"x" * 10**7, "Record: b'xxx"),
        (Large, "Record: xxx"),
        (lambda: "one\ntwo" * 1000, "Record: 'one\\ntwo"),
    ],
)
def test_a_record_is_shown_in_one_short_line_whatever_it_is(make: Callable[[], Any], shown: str) -> None:
    record = make()

    def build(numbers: Numbers) -> Numbers:
        return numbers.map(lambda value: record).map(explode)

    (line,) = (line for line in str(failed(build)).splitlines() if line.startswith("Record: "))
    assert line.startswith(shown)
    assert len(line) <= len("Record: ") + 200

"""What the error of a failed job says: operator, line of the program, record, and the program's frames only."""

from __future__ import annotations

import operator
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Configuration, Row, Time, Types, WatermarkStrategy
from flinkish.common.errors import JobExecutionError
from flinkish.common.tracebacks import NO_FRAMES
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import AsyncDataStream, StreamExecutionEnvironment
from flinkish.datastream.connectors.base import Sink, SinkWriter
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.execution_mode import RuntimeExecutionMode
from flinkish.datastream.functions import AsyncFunction, CoMapFunction, KeyedProcessFunction, MapFunction, ProcessWindowFunction
from flinkish.datastream.window import CountTrigger, EventTimeSessionWindows, TumblingEventTimeWindows

HERE = str(Path(__file__))
Numbers = DataStream[int]


def explode(value: Any) -> Any:
    raise ValueError("boom")


def explode_at_3(value: Any) -> Any:
    if value == 3:
        raise ValueError("boom")
    return value


def failed(build: Callable[[Numbers], Any], *, batch: bool = False, full: bool = False) -> JobExecutionError:
    """Run what `build` makes of the numbers 1 to 5 and return the error of the job."""
    settings = {"execution.engine": "local", "execution.full-traceback": full}
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(1)
    if batch:
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers = env.from_collection([1, 2, 3, 4, 5], Types.INT())
    stream = build(numbers)
    if isinstance(stream, DataStream):
        stream.print()
    with pytest.raises(JobExecutionError) as error:
        env.execute("failing")
    return error.value


class AsTime(TimestampAssigner):
    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value * 1000


class Timer(KeyedProcessFunction):
    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        ctx.timer_service().register_event_time_timer(value * 1000)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        explode(timestamp)


class FailingWindow(ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        yield explode(key)


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


class FailingCoMap(CoMapFunction):
    def map1(self, value: Any) -> Any:
        return value

    def map2(self, value: Any) -> Any:
        return explode_at_3(value)


class FailingWriter(SinkWriter[Any, Any]):
    def write(self, element: Any, context: Any) -> None:
        explode_at_3(element)


class FailingSink(Sink[Any, Any]):
    def create_writer(self, context: Any) -> FailingWriter:
        return FailingWriter()


class FailingReader(NumberSequenceSource):
    def create_reader(self, context: Any) -> Any:
        reader = super().create_reader(context)
        reader.poll_next = lambda output: output.collect_all(explode_at_3(number) for number in range(5))  # type: ignore[method-assign]
        return reader


def timed(numbers: Numbers) -> Numbers:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(AsTime())
    return numbers.assign_timestamps_and_watermarks(strategy)


def parity(value: int) -> int:
    return value % 2


def from_failing_reader(numbers: Numbers) -> Any:
    env = numbers.get_execution_environment()
    return env.from_source(FailingReader(1, 9), WatermarkStrategy.no_watermarks(), "reader").map(lambda value: value)


@pytest.mark.parametrize(
    ("build", "batch", "at"),
    [
        (lambda numbers: numbers.map(explode_at_3), False, "Record: 3"),
        (lambda numbers: numbers.map(explode_at_3, Types.INT()), False, "Record: 3"),
        (lambda numbers: numbers.map(lambda value: value, Types.INT()).filter(explode_at_3), False, "Record: 3"),
        (lambda numbers: numbers.filter(lambda value: value != 1).flat_map(explode_at_3), False, "Record: 2"),
        (lambda numbers: numbers.flat_map(lambda value: [explode_at_3(value)]), False, "Record: 3"),
        (lambda numbers: numbers.map(lambda value: "x" if value == 3 else value, Types.INT()), False, "Record: 3"),
        (lambda numbers: numbers.flat_map(lambda value: ["x"] if value == 3 else [], Types.INT()), False, "Record: 3"),
        (lambda numbers: numbers.map(lambda value: value + 1).key_by(explode_at_3).reduce(max), False, "Record: 3"),
        (lambda numbers: numbers.key_by(parity).reduce(lambda one, two: explode_at_3(two)), False, "Record: 3"),
        (lambda numbers: numbers.key_by(parity).reduce(lambda one, two: explode_at_3(two)), True, "Record: 3"),
        (lambda numbers: numbers.key_by(parity).map(explode_at_3), False, "Record: 3"),
        (lambda numbers: numbers.connect(numbers).map(FailingCoMap()), False, "Record: 3"),
        (lambda numbers: timed(numbers).key_by(parity).process(Timer()), False, "due at 1000, of the key 1"),
        (
            lambda numbers: (
                timed(numbers)
                .key_by(parity)
                .window(TumblingEventTimeWindows.of(Time.seconds(10)))
                .reduce(lambda one, two: explode_at_3(two))
            ),
            False,
            "Record: 3",
        ),
        (
            lambda numbers: (
                timed(numbers).key_by(parity).window(EventTimeSessionWindows.with_gap(Time.seconds(10))).process(FailingWindow())
            ),
            False,
            "No record: ",
        ),
        (
            lambda numbers: (
                timed(numbers)
                .key_by(parity)
                .window(TumblingEventTimeWindows.of(Time.seconds(10)))
                .trigger(CountTrigger.of(2))
                .process(FailingWindow())
            ),
            False,
            "Record: 3",
        ),
        (lambda numbers: AsyncDataStream.unordered_wait(numbers, FailingCall(), Time.seconds(5), 9), False, "Record: 3"),
        (lambda numbers: AsyncDataStream.ordered_wait(numbers, FailingCall(), Time.seconds(5), 2), False, "Record: 3"),
        (lambda numbers: numbers.sink_to(FailingSink()), False, "Record: 3"),
        (lambda numbers: numbers.map(FailingOpen()), False, "No record: it was being opened."),
        (from_failing_reader, False, "No record: the source was being read."),
    ],
)
def test_the_record_that_was_processed_is_shown(build: Callable[[Numbers], Any], batch: bool, at: str) -> None:
    text = str(failed(build, batch=batch))
    lines = [line for line in text.splitlines() if line.startswith(("Record: ", "No record: "))]
    assert len(lines) == 1, text
    assert at in lines[0], text


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
    cause = error.__cause__
    assert [frame.filename for frame in traceback.extract_tb(cause.__traceback__)] == [HERE, HERE]  # type: ignore[union-attr]


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

"""What only columns could get wrong, in programs on the local engine; tests/models/runtime/test_columns.py looks further."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from flinkish.common import Instant, Row, RowKind, Time, Types, WatermarkStrategy
from flinkish.common.columns import Columns
from flinkish.common.errors import JobExecutionError
from flinkish.common.limits import LONG_MAX, LONG_MIN
from flinkish.common.typeinfo import DecimalTypeInfo, TypeInformation
from flinkish.datastream import DataStream, OutputTag, StreamExecutionEnvironment, aggregates
from flinkish.datastream.connectors import DataGeneratorSource
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.evictors import Evictor
from flinkish.datastream.window import (
    EventTimeSessionWindows,
    GlobalWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flinkish.runtime import partitioners
from flinkish.runtime.operators.window import combining
from flinkish.testing import OneInputHarness, StreamRecord, WatermarkStatus
from tests.kit.column_source import RunsSource
from tests.kit.environments import env_of
from tests.kit.folded import folded as folded
from tests.kit.folded import note_combined
from tests.kit.results import collect

ROW = Types.ROW_NAMED(["key", "value", "time"], [Types.LONG(), Types.DOUBLE(), Types.LONG()])
BY_TIME = WatermarkStrategy.no_watermarks().with_timestamp_assigner("time")
FIGURES: dict[str, Any] = {"key": aggregates.key(), "total": aggregates.sum("value"), "count": aggregates.count()}


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    return env_of()


def rows(env: StreamExecutionEnvironment, *script: Any) -> DataStream:
    """Return a stream of columns of rows, with watermarks between them."""
    return env.from_source(RunsSource(ROW, (script,)), BY_TIME, "rows")


def several(count: int, keys: int = 20) -> list[Row]:
    return [Row(key=number * 7 % keys, value=number / 7, time=number * 13 % 60) for number in range(count)]


def both(env: StreamExecutionEnvironment, build: Callable[[DataStream], DataStream], *script: Any) -> tuple[Any, Any]:
    """Return the results of columns, and of the same rows one by one."""
    columns = rows(env, *script).filter(pc.field("time").is_valid())
    by_record = rows(env, *script).map(lambda row: row, ROW)
    return tuple([repr(record) for record in collect(build(stream))] for stream in (columns, by_record))  # type: ignore[return-value]


@pytest.mark.parametrize("mapped", [False, True])
def test_aggregates_of_no_value_are_none(env: StreamExecutionEnvironment, mapped: bool) -> None:
    nothing = rows(env, [Row(key=number, value=None, time=1) for number in range(9)])
    if mapped:
        nothing = nothing.map(lambda row: row, ROW)
    names = ("sum", "min", "max", "avg", "first", "last", "count")
    kinds: dict[str, Any] = {name: getattr(aggregates, name)("value") for name in names}
    by: dict[str, Any] = {"lowest": aggregates.min_by("value", by="time"), "none": aggregates.max_by("key", by="value")}
    windows: Any = nothing.key_by("key").window(TumblingEventTimeWindows.of(Time.seconds(1)))
    for stream in (nothing.key_by("key").aggregate(**kinds), windows.aggregate(**kinds)):
        assert collect(stream) == [Row(**{name: 0 if name == "count" else None for name in kinds})] * 9
    assert collect(windows.aggregate(**by)) == [Row(lowest=None, none=None)] * 9


class FireAtHighValues(Trigger):  # type: ignore[type-arg]
    def on_element(self, element: Any, timestamp: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if element.value > 5 else TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: Trigger.TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    on_event_time = on_processing_time

    def on_merge(self, window: Any, ctx: Trigger.OnMergeContext) -> None: ...

    def clear(self, window: Any, ctx: Trigger.TriggerContext) -> None: ...


class GapByValue(SessionWindowTimeGapExtractor):
    def extract(self, element: Any) -> int:
        return 1 if element.value > 5 else 3


class ByValue(TumblingEventTimeWindows):
    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return super().assign_windows(element, 0 if element.value > 5 else timestamp, context)


class HighValuesOnly(Evictor):  # type: ignore[type-arg]
    def evict_before(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None:
        for element in elements:
            if element.value.value > 5:
                elements.remove(element) if hasattr(elements, "remove") else None

    def evict_after(self, elements: Any, size: int, window: Any, evictor_context: Any) -> None: ...


TEN_MS = Time.milliseconds(10)


@pytest.mark.parametrize(
    "windows",
    [
        lambda keyed: keyed.window(GlobalWindows.create()).trigger(FireAtHighValues()),
        lambda keyed: keyed.window(EventTimeSessionWindows.with_dynamic_gap(GapByValue())),
        lambda keyed: keyed.window(ByValue(10, 0)),
        lambda keyed: keyed.window(TumblingEventTimeWindows.of(TEN_MS)).evictor(HighValuesOnly()),
    ],
    ids=["trigger", "gap", "assigner", "evictor"],
)
def test_what_looks_at_the_records_of_windows_sees_all_their_fields(
    env: StreamExecutionEnvironment, windows: Callable[[Any], Any]
) -> None:
    def build(stream: DataStream) -> DataStream:
        counted: DataStream = windows(stream.key_by("key")).aggregate(key=aggregates.key(), count=aggregates.count())
        return counted

    columns, records = both(env, build, several(90))
    assert sorted(columns) == sorted(records)
    assert columns


@pytest.mark.parametrize(("size", "slide", "lateness"), [(30, 15, 0), (30, 20, 0), (30, 15, 1000), (30, 30, 1000), (30, 30, 0)])
def test_each_window_folds_its_records_in_the_order_of_arrival(
    env: StreamExecutionEnvironment, folded: list[int], size: int, slide: int, lateness: int
) -> None:
    assigner: Any = SlidingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(slide))
    late = OutputTag("late", ROW)

    def build(stream: DataStream) -> DataStream:
        windows: Any = stream.key_by("key").window(assigner).allowed_lateness(lateness).side_output_late_data(late)
        found: DataStream = windows.aggregate(start=aggregates.window_start(), **FIGURES)
        return found.map(repr, Types.STRING()).union(found.get_side_output(late).map(repr, Types.STRING()))

    # Sums of floats depend on the order; some records are late, or belong to windows that have fired.
    columns, records = both(env, build, several(400), 17, several(300), 50, several(500))
    assert columns == records
    assert folded


@pytest.mark.parametrize("times", [(LONG_MIN + 1000, LONG_MIN + 5000), (LONG_MIN + 2500, 0), (-1, 0), (LONG_MAX - 9000, 0)])
@pytest.mark.parametrize("offset", [0, 700, -700])
def test_windows_at_the_ends_of_time(env: StreamExecutionEnvironment, times: tuple[int, ...], offset: int) -> None:
    script = [Row(key=1, value=1.0, time=times[number % 2]) for number in range(100)]
    assigner = TumblingEventTimeWindows.of(Time.seconds(2), Time.milliseconds(offset % 2000))

    def build(stream: DataStream) -> DataStream:
        windows: Any = stream.key_by("key").window(assigner)
        found: DataStream = windows.aggregate(end=aggregates.window_end(), **FIGURES)
        return found

    columns, records = both(env, build, script)
    assert columns == records
    assert len(columns) == 2 if times != (-1, 0) or offset == 0 else columns


@pytest.mark.parametrize(
    "times", [(LONG_MIN, LONG_MIN + 5000), (LONG_MAX - 2000, 0), (-(1 << 62), 1 << 62), (LONG_MAX - 1999, 0)]
)
def test_sessions_at_the_ends_of_time(env: StreamExecutionEnvironment, times: tuple[int, ...]) -> None:
    """The last one ends behind all 64 bits; its last timestamp is the last of all."""
    script = [Row(key=number % 2, value=1.0, time=times[number % 2]) for number in range(100)]
    common = [Row(key=3, value=1.0, time=5) for _ in range(100)]

    def build(stream: DataStream) -> DataStream:
        windows: Any = stream.key_by("key").window(EventTimeSessionWindows.with_gap(Time.seconds(2)))
        found: DataStream = windows.aggregate(**FIGURES)
        return found.filter(pc.field("count") > 0)

    columns, records = both(env, build, common, script)
    assert sorted(map(repr, columns)) == sorted(map(repr, records))
    assert len(columns) == 3


def test_a_key_of_no_declared_type_is_aggregated_record_by_record(env: StreamExecutionEnvironment) -> None:
    keyed = rows(env, several(4, keys=2)).key_by(lambda row: (row.key, "text"))
    assert collect(keyed.aggregate(**FIGURES))[-1] == Row(key=(1, "text"), total=1 / 7 + 3 / 7, count=2)


@pytest.mark.parametrize("mapped", [False, True])
def test_windows_of_windows_count_distinct_values(env: StreamExecutionEnvironment, mapped: bool) -> None:
    several_rows = several(500)
    stream = rows(env, several_rows[:250], 3, several_rows[250:])
    if mapped:
        stream = stream.map(lambda row: row, ROW)
    size = TumblingEventTimeWindows.of(Time.milliseconds(10))
    each: Any = stream.key_by(["key", "time"]).window(size)
    again: Any = each.aggregate(key=aggregates.first("key"), total=aggregates.count()).key_by("key").window(size)
    results = again.aggregate(
        key=aggregates.key(), start=aggregates.window_start(), times=aggregates.count(), total=aggregates.sum("total")
    )
    expected = [
        Row(key=key, start=start, times=len(set(times)), total=len(times))
        for key in range(20)
        for start in range(0, 60, 10)
        if (times := [row.time for row in several_rows if row.key == key and start <= row.time < start + 10])
    ]
    assert sorted(collect(results), key=repr) == sorted(expected, key=repr)


def test_results_leave_before_the_input_becomes_idle(folded: list[int]) -> None:
    def build(stream: DataStream) -> DataStream:
        return stream.filter(pc.field("time") > 0).key_by("key").aggregate(**FIGURES)

    with OneInputHarness(build, ROW) as harness:
        with harness.epoch():
            harness.process_elements([Row(key=1, value=2.0, time=3)])
            harness.process_status(idle=True)
        assert harness.take_elements() == [StreamRecord(Row(key=1, total=2.0, count=1), None), WatermarkStatus(True)]
    assert folded


def test_infinite_sums_and_nan_are_results_without_a_warning(env: StreamExecutionEnvironment, folded: list[int]) -> None:
    values = [math.inf, -math.inf, 1e308, 1e308]
    data = [Row(key=number // 2, value=value, time=1) for number, value in enumerate(values)]
    columns, records = both(env, lambda stream: stream.key_by("key").aggregate(mean=aggregates.avg("value"), **FIGURES), data)
    assert columns == records
    assert [row.split("total=")[1].split(",")[0] for row in columns] == ["inf", "nan", "1e+308", "inf"]
    assert folded


def test_the_last_of_all_numbers_are_integers(env: StreamExecutionEnvironment) -> None:
    numbers = env.from_source(NumberSequenceSource(LONG_MAX - 2, LONG_MAX), WatermarkStrategy.no_watermarks(), "numbers")
    found = collect(numbers.filter(pc.field("value") > 0))
    assert list(map(repr, found)) == [str(LONG_MAX - 2), str(LONG_MAX - 1), str(LONG_MAX)]


MANY = Types.ROW_NAMED(
    ["number", "small", "float", "single", "flag", "text", "day", "at"],
    [
        *(Types.LONG(), Types.SHORT(), Types.DOUBLE(), Types.FLOAT(), Types.BOOLEAN(), Types.STRING()),
        *(Types.SQL_DATE(), Types.SQL_TIMESTAMP()),
    ],
)


@pytest.mark.parametrize("nulls", [False, True])
def test_a_frame_keeps_each_value(env: StreamExecutionEnvironment, nulls: bool) -> None:
    values = [2**60 + 1, 3, math.nan, 0.5, True, "ä", datetime.date(1, 2, 3), datetime.datetime(1969, 1, 1, 0, 0, 0, 1000)]
    data = [
        Row(*values),
        Row(*([None] * len(values) if nulls else values)),
        Row(LONG_MIN, 1, -0.0, math.inf, False, "", *values[6:]),
    ]
    found = collect(env.from_collection(data, MANY).map_batches(lambda frame: frame, batch_format="pandas"))
    assert [list(map(repr, row)) for row in found] == [list(map(repr, row)) for row in data]


@pytest.mark.parametrize(
    ("column", "wanted", "message"),
    [
        (pa.array(["12"]), Types.LONG(), "column 'value' must be int64; got string: that is another kind of values"),
        (pa.array([0], pa.timestamp("us")), Types.LONG(), "must be int64; got timestamp"),
        (pa.array([True]), Types.LONG(), "must be int64; got bool"),
        (pa.array([1]), Types.STRING(), "must be string; got int64"),
        (pa.array([1]), Types.BOOLEAN(), "must be bool; got int64"),
        (pa.array([0.5]), Types.LONG(), "must be int64; got double: Float value 0.500000 was truncated"),
        (pa.array([1 << 40]), Types.INT(), "must be int32; got int64: Integer value 1099511627776 not in range"),
        (pa.array([2**60 + 1]), Types.DOUBLE(), "must be double; got int64: Integer value 1152921504606846977 not in range"),
        (pa.array([1e300]), Types.FLOAT(), "must be float; got double: a number is too large for it"),
        (pa.array([None], pa.int64()), Types.LONG(), "column 'value' has nulls; only fields of rows may be None"),
        (pa.array([None], pa.int64()), Types.TUPLE([Types.LONG()]), "column 'f0' has nulls; only fields of rows may be None"),
    ],
)
def test_columns_of_another_type_are_refused(env: StreamExecutionEnvironment, column: Any, wanted: Any, message: str) -> None:
    stream = env.from_collection([1], Types.LONG()).map_batches(lambda _: pa.record_batch([column], ["value"]), wanted)
    with pytest.raises(JobExecutionError, match=r"failed in operator 'Wrong'.*: the function of 'Wrong': column ") as error:
        collect(stream.name("Wrong"))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("column", "wanted", "value"),
    [
        (pa.array([1], pa.int8()), Types.LONG(), 1),
        (pa.array([3.0]), Types.LONG(), 3),
        (pa.array([3]), Types.DOUBLE(), 3.0),
        (pa.array([0.5, math.inf][:1]), Types.FLOAT(), 0.5),
        (pa.array([math.inf]), Types.FLOAT(), math.inf),
        (pa.array(["a"]).dictionary_encode(), Types.STRING(), "a"),
        (pa.array(["a"], pa.large_string()), Types.STRING(), "a"),
        (pa.array([0], pa.timestamp("ns")), Types.SQL_TIMESTAMP(), datetime.datetime(1970, 1, 1)),
        (pa.array([[1]], pa.list_(pa.int32())), Types.LIST(Types.LONG()), [1]),
    ],
)
def test_columns_whose_values_keep_their_meaning_are_cast(
    env: StreamExecutionEnvironment, column: Any, wanted: Any, value: Any
) -> None:
    stream = env.from_collection([1], Types.LONG()).map_batches(lambda _: pa.record_batch([column], ["value"]), wanted)
    assert list(map(repr, collect(stream))) == [repr(value)]


UPDATE = [Row.of_kind(RowKind.DELETE, 1, 2.0, 3)]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda rows: rows.map_batches(lambda batch: None),
            "must return a pyarrow.RecordBatch, a pyarrow.Table or a pandas.Data",
        ),
        (lambda rows: rows.map_batches(lambda batch: batch.select(["key", "time"])), r"must return the columns \['key', 'value'"),
        (lambda rows: rows.map_batches(lambda batch: batch.slice(1)), "returned 3 rows for 4, which have event times"),
        (lambda rows: rows.filter(pc.field("key") * (1 << 62) < 3), "the expression of 'Wrong' cannot be computed: overflow"),
        (lambda rows: rows.select(far=pc.field("key") * (1 << 62)), "the expression of 'Wrong' cannot be computed: overflow"),
        (lambda rows: rows.select(cut=pc.field("value").cast(pa.int64())), "cannot be computed: Float value .* was truncated"),
        (lambda rows: rows.map(lambda row: None, ROW).map_batches(lambda batch: batch), "columns hold only records .*; got None"),
        (lambda rows: rows.map(lambda row: UPDATE[0], ROW).filter(pc.field("key") > 0), r"got Row\(.*\) of kind DELETE"),
    ],
)
def test_what_fails_is_named_with_its_reason(
    env: StreamExecutionEnvironment, build: Callable[[DataStream], DataStream], message: str
) -> None:
    timed = rows(env, several(4)).assign_timestamps_and_watermarks(BY_TIME)
    with pytest.raises(JobExecutionError, match=rf"failed in operator 'Wrong'.*TypeMismatchError: .*{message}") as error:
        collect(build(timed).name("Wrong"))
    assert "No record: a batch of records was processed." in str(error.value)


@pytest.mark.parametrize("at_source", [False, True])
def test_a_record_without_a_time_is_named(env: StreamExecutionEnvironment, at_source: bool) -> None:
    data = [Row(key=1, value=1.0, time=1), Row(key=2, value=1.0, time=None), Row(key=3, value=1.0, time=3)]
    if at_source:
        timed = rows(env, data)
    else:
        untimed = env.from_source(RunsSource(ROW, ((data,),)), WatermarkStrategy.no_watermarks(), "rows")
        timed = untimed.assign_timestamps_and_watermarks(BY_TIME)
    with pytest.raises(JobExecutionError, match=r"got None of type NoneType for the record Row\(key=2, value=1.0, time=None\)"):
        collect(timed.filter(pc.field("key") > 0))


@pytest.mark.parametrize("per", ["record", "epoch"])
def test_a_sum_that_leaves_64_bits_fails_the_job(env: StreamExecutionEnvironment, per: Any) -> None:
    data = [Row(key=number % 9, value=1.0, time=1 << 60) for number in range(99)]
    stream = env.from_source(RunsSource(ROW, ((data,),)), WatermarkStrategy.no_watermarks(), "rows")
    totals = stream.key_by("key").aggregate(per=per, total=aggregates.sum("time")).name("totals")
    with pytest.raises(JobExecutionError, match=r"failed in operator 'totals'.*got 9223372036854775808 of type int") as error:
        collect(totals)
    assert "Record: Row(key=0, value=..., time=1152921504606846976)" in str(error.value)


def test_texts_that_are_there_are_counted(env: StreamExecutionEnvironment, folded: list[int]) -> None:
    row_type = Types.ROW_NAMED(["key", "name"], [Types.LONG(), Types.STRING()])
    some = [Row(key=number % 3, name=None if number % 2 else "a") for number in range(60)]
    stream = env.from_source(RunsSource(row_type, ((some,),)), WatermarkStrategy.no_watermarks(), "rows")
    found = collect(stream.key_by("key").aggregate(key=aggregates.key(), names=aggregates.count("name"), all=aggregates.count()))
    assert sum(folded) == 60
    assert sorted(map(tuple, found))[-1] == (2, 10, 20)
    assert {(row.key, row.all, row.names) for row in found} >= {(0, 1, 1), (0, 2, 1), (0, 20, 10)}


def test_keys_of_many_records_are_added_up_in_their_order(env: StreamExecutionEnvironment, folded: list[int]) -> None:
    # Key 0 has two of three records of a run, and each run begins with what the one before has left.
    def run(first: int) -> list[Row]:
        return [
            Row(key=0 if n % 3 else n % 37, value=None if n % 11 == 5 else math.sin(n) * 10 ** (n % 9), time=n % 60)
            for n in range(first, first + 500)
        ]

    figures: dict[str, Any] = {name: getattr(aggregates, name)("value") for name in ("sum", "min", "max", "avg", "count")}
    columns, by_record = both(
        env, lambda stream: stream.key_by("key").aggregate(key=aggregates.key(), **figures), run(0), run(500)
    )
    assert columns == by_record
    assert sum(folded) == 1_000


@pytest.mark.parametrize("per", ["record", "epoch"])
def test_the_first_among_equals_is_taken(env: StreamExecutionEnvironment, folded: list[int], per: Any) -> None:
    values = [None, 1.0, 0.0, -0.0, None, 0.0, -0.0, 5.0, 5.0, None]
    data = [Row(key=number // 10, value=values[number % 10], time=number) for number in range(80)]
    figures: dict[str, Any] = {
        "key": aggregates.key(),
        "low": aggregates.min_by("time", by="value"),
        "lowest": aggregates.min_by("value", by="value"),
        "high": aggregates.max_by("time", by="value"),
        "first": aggregates.first("value"),
        "last": aggregates.last("value"),
    }
    columns, by_record = both(env, lambda stream: stream.key_by("key").aggregate(per=per, **figures), data[:45], data[45:])
    assert columns == by_record
    assert columns[-1] == "Row(key=7, low=72, lowest=0.0, high=77, first=1.0, last=5.0)"
    assert sum(folded) == 80


def test_nan_in_a_field_that_is_compared_is_compared_by_record(env: StreamExecutionEnvironment, folded: list[int]) -> None:
    data = [Row(key=number % 3, value=(1.0, math.nan, 3.0, 0.5)[number % 4], time=number) for number in range(60)]
    figures = {"low": aggregates.min_by("time", by="value"), "high": aggregates.max_by("time", by="value")}
    columns, by_record = both(env, lambda stream: stream.key_by("key").aggregate(**figures), data)
    assert columns == by_record
    assert not folded


def test_a_taken_value_of_none_is_told_from_no_value(env: StreamExecutionEnvironment, folded: list[int]) -> None:
    data = [Row(key=1, value=2.0, time=None), Row(key=1, value=None, time=5), Row(key=1, value=3.0, time=7)]
    stream = env.from_source(RunsSource(ROW, ((data,),)), WatermarkStrategy.no_watermarks(), "rows")
    found = collect(
        stream.key_by("key").aggregate(time=aggregates.min_by("time", by="value"), high=aggregates.max_by("time", by="value"))
    )
    assert list(map(tuple, found)) == [(None, None), (None, None), (None, 7)]
    assert folded == [3]


def test_a_value_in_state_that_no_column_holds_is_shown(folded: list[int]) -> None:
    row_type = Types.ROW_NAMED(["key", "at"], [Types.LONG(), Types.INSTANT()])

    def build(stream: DataStream, condition: Any) -> DataStream:
        keyed = stream.filter(condition).uid("filter").key_by("key")
        return keyed.aggregate(at=aggregates.last("at"), first=aggregates.first("at")).uid("last")

    fine = Instant(5, 123_456_789)
    with OneInputHarness(lambda stream: build(stream, lambda row: True), row_type) as harness:
        harness.process_element(Row(key=1, at=fine))
        snapshot = harness.snapshot()
    with OneInputHarness(lambda stream: build(stream, pc.field("key") > 0), row_type, snapshot=snapshot) as harness:
        harness.process_element(Row(key=1, at=None))
        assert harness.take_values() == [Row(at=fine, first=fine)]
        assert not folded
        harness.process_element(Row(key=2, at=Instant(6, 1_000)))
        assert harness.take_values() == [Row(at=Instant(6, 1_000), first=Instant(6, 1_000))]
    assert folded


@pytest.mark.parametrize("value_type", [Types.PICKLED_BYTE_ARRAY(), Types.CHAR(), Types.BIG_DEC(), Types.TUPLE([Types.INT()])])
def test_a_field_of_any_type_may_have_no_value_yet(env: StreamExecutionEnvironment, value_type: Any) -> None:
    data = [Row(key=1, value=None), Row(key=1, value=None)]
    stream = env.from_collection(data, Types.ROW_NAMED(["key", "value"], [Types.LONG(), value_type]))
    figures = {"last": aggregates.last("value"), "low": aggregates.min_by("value", by="key")}
    assert collect(stream.key_by("key").aggregate(**figures)) == [Row(last=None, low=None)] * 2


@pytest.mark.parametrize("kind", ["epoch", "tumbling", "sessions", "counts"])
def test_lists_and_rows_in_accumulators_go_from_epoch_to_epoch(kind: str, folded: list[int]) -> None:
    row = Types.ROW_NAMED(["one", "other"], [Types.LONG(), Types.STRING()])
    row_type = Types.ROW_NAMED(["key", "list", "row", "time"], [Types.LONG(), Types.LIST(Types.LONG()), row, Types.LONG()])
    windows: dict[str, Callable[[Any], Any]] = {
        "tumbling": lambda keyed: keyed.window(TumblingEventTimeWindows.of(Time.seconds(1))),
        "sessions": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(1))),
        "counts": lambda keyed: keyed.count_window(80),
    }
    figures = {
        "first": aggregates.first("list"),
        "row": aggregates.last("row"),
        "best": aggregates.max_by("list", by="time"),
        "n": aggregates.count(),
    }

    def build(stream: DataStream) -> DataStream:
        keyed = stream.filter(pc.field("time") >= 0).key_by("key")
        if kind == "epoch":
            return keyed.aggregate(per="epoch", **figures)
        found: DataStream = windows[kind](keyed).aggregate(**figures)
        return found

    with OneInputHarness(build, row_type) as harness:
        for epoch in range(2):
            with harness.epoch():
                for number in range(epoch * 40, epoch * 40 + 40):
                    value = Row(key=1, list=[number], row=Row(one=number, other=None), time=number)
                    harness.process_element(value, number)
        harness.process_watermark(5_000)
        assert harness.take_values()[-1] == Row(first=[0], row=Row(one=79, other=None), best=[79], n=80)
    assert folded == [40, 40]


def test_results_of_an_epoch_come_before_the_watermark(env: StreamExecutionEnvironment) -> None:
    def build(stream: DataStream) -> DataStream:
        latest = stream.key_by("key").aggregate(per="epoch", key=aggregates.key(), count=aggregates.count())
        windows = latest.key_by("key").window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
        found: DataStream = windows.aggregate(key=aggregates.key(), most=aggregates.max("count"))
        return found

    first = [Row(key=key, value=1.0, time=key) for key in (0, 1, 2, 1)]
    columns, by_record = both(env, build, first, 90, [Row(key=3, value=1.0, time=101)], 200)
    assert columns == by_record == [f"Row(key={key}, most={2 if key == 1 else 1})" for key in range(4)]


@pytest.mark.parametrize("mapped", [False, True])
def test_sums_of_decimals_are_exact(env: StreamExecutionEnvironment, mapped: bool) -> None:
    row_type = Types.ROW_NAMED(["key", "price"], [Types.LONG(), Types.BIG_DEC()])
    price = decimal.Decimal("12345678901234567890.123456789012345678")
    stream = env.from_source(RunsSource(row_type, ([[Row(key=1, price=price)] * 3],)), WatermarkStrategy.no_watermarks(), "rows")
    if mapped:
        stream = stream.map(lambda row: row, row_type)
    keyed = stream.key_by("key")
    total = decimal.Decimal("37037036703703703670.370370367037037034")
    assert collect(keyed.aggregate(total=aggregates.sum("price")))[-1] == Row(total=total)
    assert collect(keyed.sum("price"))[-1].price == total


def test_the_sum_of_a_decimal_type_has_more_digits(env: StreamExecutionEnvironment) -> None:
    row_type = Types.ROW_NAMED(["key", "price"], [Types.LONG(), DecimalTypeInfo(4, 2)])
    prices = env.from_collection([Row(key=1, price=decimal.Decimal("99.99"))] * 3, row_type)
    totals = prices.key_by("key").aggregate(total=aggregates.sum("price")).filter(pc.field("total") > decimal.Decimal("200.00"))
    assert collect(totals) == [Row(total=decimal.Decimal("299.97"))]


def test_sessions_with_the_least_time_and_others(env: StreamExecutionEnvironment) -> None:
    def build(stream: DataStream) -> DataStream:
        windows = stream.key_by("key").window(EventTimeSessionWindows.with_gap(Time.milliseconds(10)))
        figures = {"n": aggregates.count(), "start": aggregates.window_start(), "end": aggregates.window_end()}
        found: DataStream = windows.aggregate(**figures)
        return found

    columns, by_record = both(env, build, [Row(key=1, value=1.0, time=time) for time in (LONG_MIN, 0, 5)])
    assert columns == by_record == [f"Row(n=1, start={LONG_MIN}, end={LONG_MIN + 10})", "Row(n=2, start=0, end=15)"]


def test_rows_of_a_source_get_the_order_of_the_declared_type(env: StreamExecutionEnvironment) -> None:
    produced = Types.ROW_NAMED(["key", "value"], [Types.LONG(), Types.LONG()])
    declared = Types.ROW_NAMED(["value", "key"], [Types.LONG(), Types.LONG()])
    source: Any = DataGeneratorSource(lambda number: Row(key=1, value=100 + number), 2, None, produced)
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "rows", declared)
    assert collect(stream.select(value=pc.field("value"))) == [Row(value=100), Row(value=101)]
    assert collect(stream.key_by("key").aggregate(total=aggregates.sum("value"))) == [Row(total=100), Row(total=201)]


@pytest.fixture
def combined(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have few records combined; return the number of records each time."""
    monkeypatch.setattr(combining, "_LEAST_RECORDS", 2)
    monkeypatch.setattr(combining, "_LEAST_IN_GROUP", 1)
    return note_combined(monkeypatch, lambda groups, records: records)


NUMBERS = Types.ROW_NAMED(["key", "value"], [Types.LONG(), Types.LONG()])


def sums(stream: DataStream) -> DataStream:
    """Return sums of windows of 20 ms, each of two stretches."""
    filtered = stream.filter(pc.field("value").is_valid())
    windows: Any = filtered.key_by("key").window(SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10)))
    found: DataStream = windows.aggregate(sum=aggregates.sum("value"))
    return found


@pytest.mark.parametrize("lost", [False, True])
def test_that_combining_does_not_pay_is_remembered_also_without_the_heap(
    lost: bool, combined: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(combining, "_LEAST_IN_GROUP", 2)
    monkeypatch.setattr(partitioners, "_REST", 3)
    found = []
    with OneInputHarness(sums, NUMBERS) as harness:
        for epoch in range(6):
            with harness.epoch():
                for number in range(10):
                    harness.process_element(Row(key=number if epoch == 1 else 1, value=1), 15)
            found.append(bool(combined))
            combined.clear()
            if lost:
                harness.lose_heap()
        harness.process_watermark(19)
        assert Row(sum=51) in [value for value, _ in harness.take_output()]
    assert found == [True, False, False, False, True, True]


@pytest.mark.parametrize(
    ("type_info", "aggregate", "usual", "odd"),
    [(Types.LONG(), aggregates.sum("value"), 1, 2**62), (Types.DOUBLE(), aggregates.max("value"), 1.0, -0.0)],
)
def test_a_value_that_is_not_combined_does_not_keep_later_runs_from_it(
    combined: list[int], type_info: TypeInformation, aggregate: Any, usual: Any, odd: Any
) -> None:
    def program(stream: DataStream) -> DataStream:
        windows: Any = (
            stream.filter(pc.field("value").is_valid()).key_by("key").window(TumblingEventTimeWindows.of(Time.seconds(1)))
        )
        found: DataStream = windows.aggregate(result=aggregate)
        return found

    found = []
    with OneInputHarness(program, Types.ROW_NAMED(["key", "value"], [Types.LONG(), type_info])) as harness:
        for value in (usual, odd, usual):
            with harness.epoch():
                harness.process_element(Row(key=1, value=value), 15)
                harness.process_element(Row(key=1, value=usual), 15)
            found.append(bool(combined))
            combined.clear()
    assert found == [True, False, True]


def test_a_sum_may_leave_64_bits_in_between_if_records_were_combined(combined: list[int]) -> None:
    with OneInputHarness(sums, NUMBERS) as harness:
        for _ in range(2):
            with harness.epoch():
                harness.process_element(Row(key=1, value=2**62 - 6), 15)
        with harness.epoch():
            harness.process_element(Row(key=1, value=-128), 15)
            harness.process_element(Row(key=1, value=64), 5)
        harness.process_watermark(19)
        assert combined == [2]
        assert Row(sum=LONG_MAX - 11 - 64) in [value for value, _ in harness.take_output()]


def test_keys_that_cannot_be_sent_fail_in_the_operator_that_emits_them(combined: list[int]) -> None:
    env = env_of()
    stream = env.from_source(
        RunsSource(NUMBERS, (([Row(key=1_000, value=1)] * 3,),)), WatermarkStrategy.no_watermarks(), "numbers"
    )
    windows: Any = stream.filter(pc.field("value") == 1).name("my filter").key_by("key", Types.BYTE())
    counts = windows.window(TumblingProcessingTimeWindows.of(Time.hours(1))).aggregate(n=aggregates.count())
    with pytest.raises(JobExecutionError, match=r"(?s)'my filter'.*must be a whole number from -128 to 127"):
        collect(counts)


def test_only_fields_that_are_read_are_held_before_they_are_combined(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[int] = []
    hold = combining.Combiner.hold

    def looking(self: combining.Combiner, columns: Columns, passed: int) -> bool:
        held.extend(column.nbytes for column in columns.batch.columns)
        return hold(self, columns, passed)

    monkeypatch.setattr(combining.Combiner, "hold", looking)
    env = env_of()
    large = Types.ROW_NAMED(["key", "text"], [Types.LONG(), Types.STRING()])
    source = RunsSource(large, (([Row(key=1, text="x" * 1_000)] * 10,),))
    windows: Any = env.from_source(source, WatermarkStrategy.no_watermarks(), "texts").key_by("key")
    collect(windows.window(TumblingProcessingTimeWindows.of(Time.hours(1))).aggregate(n=aggregates.count()))
    assert held == [80, 0]

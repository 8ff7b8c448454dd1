"""Programs on columns against the same programs on records: the results are the same, value for value."""

from __future__ import annotations

import datetime
import decimal
import math
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow.compute as pc
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from flinkish.common import Configuration, Instant, Row, Time, Types, WatermarkStrategy
from flinkish.common.errors import JobExecutionError
from flinkish.common.limits import LONG_MAX, LONG_MIN
from flinkish.common.typeinfo import DecimalTypeInfo, TypeInformation
from flinkish.datastream import DataStream, OutputTag, StreamExecutionEnvironment, aggregates
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.execution_mode import RuntimeExecutionMode
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.window import (
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flinkish.runtime import partitioners
from flinkish.runtime.operators.window import combining, counts
from flinkish.testing import OneInputHarness
from tests.kit.column_source import RunsSource, Step
from tests.kit.folded import folded as folded
from tests.kit.folded import note_combined
from tests.models.testing.examples import examples

FIELDS = {
    "b": Types.BYTE(),
    "s": Types.SHORT(),
    "i": Types.INT(),
    "l": Types.LONG(),
    "d": Types.DOUBLE(),
    "f": Types.FLOAT(),
    "t": Types.STRING(),
    "o": Types.BOOLEAN(),
    "day": Types.SQL_DATE(),
    "at": Types.SQL_TIMESTAMP(),
    "list": Types.LIST(Types.DOUBLE()),
    "row": Types.ROW_NAMED(["one", "other"], [Types.INT(), Types.STRING()]),
    "letter": Types.CHAR(),
    "whole": Types.BIG_INT(),
    "fine": Types.BIG_DEC(),
    "price": DecimalTypeInfo(6, 2),
    "moment": Types.INSTANT(),
    "map": Types.MAP(Types.STRING(), Types.LONG()),
    "key": Types.LONG(),
    "small": Types.INT(),
    "tiny": Types.BYTE(),
    "name": Types.STRING(),
    "flag": Types.BOOLEAN(),
    "time": Types.LONG(),
}
KEYS = ("key", "small", "tiny", "name", "flag")
ROW = Types.ROW_NAMED(list(FIELDS), list(FIELDS.values()))
TUPLE = Types.TUPLE(list(FIELDS.values()))
LATE = OutputTag("late", ROW)

#: What numpy computes as Python does.
BY_COLUMNS = (
    [(kind, field) for kind in ("sum", "min", "max", "avg") for field in "bsild"]
    + [(kind, field) for kind in ("count", "first", "last") for field in FIELDS]
    + [(f"{end}_by {by}", field) for end in ("min", "max") for field in ("t", "d", "row", "at", "list") for by in "bld"]
)
#: What falls back to records, all of it.
BY_RECORDS = (
    [(kind, field) for kind in ("sum", "avg") for field in ("f", "whole", "fine", "price")]
    + [(kind, field) for kind in ("min", "max") for field in ("f", "t", "o", "day", "at", "letter", "price", "moment")]
    + [(f"{end}_by {by}", field) for end in ("min", "max") for field in ("t", "i") for by in ("f", "day")]
)


@dataclass(frozen=True)
class Data:
    """Runs of random rows with watermarks between them."""

    seed: int
    #: Sizes of the runs.
    sizes: tuple[int, ...]
    keys: int
    #: How far event times spread around the watermark.
    spread: int
    #: Whether integers and floats are anything, so that sums may overflow or are no numbers.
    extreme: bool
    null_keys: bool

    def script(self, *, nulls: bool) -> tuple[Step, ...]:
        """Return the steps of a source; `nulls`: whether fields may be None, which those of tuples may not."""
        choose = random.Random(self.seed)
        steps: list[Step] = []
        watermark = 0
        for size in self.sizes:
            steps.append([self._row(choose, watermark, nulls) for _ in range(size)])
            watermark += choose.choice((0, 1, self.spread // 2, self.spread))
            steps.append(watermark)
        return tuple(steps)

    def _row(self, choose: random.Random, watermark: int, nulls: bool) -> Row:
        key = choose.randrange(self.keys)
        integers = {name: self._integer(choose, bits) for name, bits in (("b", 8), ("s", 16), ("i", 32), ("l", 64))}
        values: dict[str, Any] = {
            **integers,
            "d": self._float(choose),
            "f": choose.choice((0.5, -0.0, 0.0, 3.25, math.inf, math.nan)),
            "t": choose.choice(("", "a", "ä\0", "🙂", "zz")),
            "o": choose.random() < 0.5,
            "day": datetime.date.min + datetime.timedelta(days=choose.randrange(3_000_000)),
            "at": datetime.datetime(1969, 1, 1) + datetime.timedelta(microseconds=choose.randrange(10**14)),
            "list": [self._float(choose) for _ in range(choose.randrange(3))],
            "row": Row(one=integers["i"], other=choose.choice(("", None))),
            "letter": choose.choice("xä🙂"),
            "whole": choose.choice((10**30, -(10**20), 0, 7)),
            # A column of BIG_DEC has 18 decimals.
            "fine": decimal.Decimal((choose.randrange(2), tuple(map(int, str(choose.randrange(10**30)))), -18)),
            "price": decimal.Decimal(choose.randrange(-(10**6), 10**6)).scaleb(-2),
            "moment": Instant(choose.randrange(-(10**9), 10**9), 1000 * choose.randrange(10**6)),
            "map": {letter: choose.randrange(9) for letter in "abc" if choose.random() < 0.5},
        }
        values = {name: None if nulls and choose.random() < 0.1 else value for name, value in values.items()}
        none = nulls and self.null_keys and choose.random() < 0.02
        values |= (
            dict.fromkeys(KEYS)
            if none
            else {
                "key": (LONG_MIN, LONG_MAX, -1)[key] if key < 3 else key * 7919,
                "small": (-(2**31), 2**31 - 1, -1)[key] if key < 3 else key,
                "tiny": key % 256 - 128,
                "name": f"{key}ö",
                "flag": key % 2 == 1,
            }
        )
        values["time"] = watermark + choose.randrange(-self.spread, 2 * self.spread)
        return Row(**values)

    def _integer(self, choose: random.Random, bits: int) -> int:
        if not self.extreme:
            return choose.randrange(-100, 100)
        edge = 1 << (bits - 1)
        return choose.choice((-edge, edge - 1, 0, 1, -1, edge // 3))

    def _float(self, choose: random.Random) -> float:
        if not self.extreme:
            return choose.randrange(-1000, 1000) / 7
        return choose.choice((0.0, -0.0, math.inf, -math.inf, math.nan, 1e308, 5e-324, 0.1, 2.0**53 + 1))


DATA = st.builds(
    Data,
    seed=st.integers(0, 2**32),
    sizes=st.lists(st.sampled_from((1, 9, 60, 400)), min_size=1, max_size=4).map(tuple),
    keys=st.sampled_from((1, 3, 20, 200)),
    spread=st.sampled_from((2, 10, 100)),
    extreme=st.booleans(),
    null_keys=st.booleans(),
)


def aggregates_of(chosen: list[tuple[str, str]], place: Callable[[str], Any]) -> dict[str, Any]:
    made = {}
    for kind, field in chosen:
        name, _, by = kind.partition(" ")
        made[f"{name}_{field}_{by}"] = getattr(aggregates, name)(place(field), *([place(by)] if by else []))
    return made


def several(count: int) -> settings:
    """Return settings for examples that are not made smaller: that takes minutes, and the data are made of a seed."""
    return settings(examples(count), phases=(Phase.explicit, Phase.generate))


Chosen = list[tuple[str, str]]
ONLY = st.lists(st.sampled_from(BY_COLUMNS), min_size=1, max_size=4, unique=True)
#: Most of the time only what columns can.
SOME = st.one_of(ONLY, ONLY, st.lists(st.sampled_from(BY_COLUMNS + BY_RECORDS), min_size=1, max_size=4, unique=True))


Build = Callable[[DataStream], DataStream]
BY_TIME = WatermarkStrategy.no_watermarks()


def shown(value: Any) -> Any:
    """Return what tells values apart that are equal: 0.0 and -0.0, 1 and 1.0; and not what is the same, as NaN."""
    return [*map(repr, value)] if isinstance(value, Row | tuple) else repr(value)


@dataclass(frozen=True)
class Way:
    """How the records of a program come to its operator."""

    columns: tuple[bool, ...] = (True,)
    #: Whether each record passes a function before.
    mapped: bool = False
    #: Whether another source, of records, is united with the columns.
    united: bool = False


RECORDS, COLUMNS, MIXED = Way(mapped=True), Way(), Way(columns=(True, True, False, True))


def results(build: Build, data: Data, way: Way, record_type: TypeInformation = ROW, **settings: Any) -> list[Any]:
    """Run a program on the local engine; return what it emits, in order."""
    options = {
        "state.backend.type": settings.get("backend", "hashmap"),
        "execution.windows.share-panes": settings.get("share", False),
    }
    config = Configuration.from_dict({"execution.engine": "local", **options})
    env = StreamExecutionEnvironment.get_execution_environment(config)
    env.set_parallelism(settings.get("parallelism", 1))
    if settings.get("batch"):
        env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    as_tuple = record_type == TUPLE
    script = data.script(nulls=not as_tuple)
    script = tuple([tuple(row) for row in step] if as_tuple and isinstance(step, list) else step for step in script)
    strategy = BY_TIME.with_timestamp_assigner(list(FIELDS).index("time") if as_tuple else "time")
    stream = env.from_source(RunsSource(record_type, (script,), way.columns), strategy, "runs")
    if way.mapped:
        stream = stream.map(lambda record: record, record_type)
    if way.united:
        stream = stream.union(env.from_source(RunsSource(record_type, (script,), (False,)), strategy, "records"))
    with build(stream).execute_and_collect() as found:
        return [shown(record) for record in found]


def outcome(build: Build, data: Data, way: Way, record_type: TypeInformation = ROW, **settings: Any) -> Any:
    """Return the results of a program, or what its failure says of the values."""
    try:
        return results(build, data, way, record_type, **settings)
    except JobExecutionError as error:
        text = str(error)
        found = re.search("must be a whole number from .*? to|unsupported operand|not supported between|NoneType", text)
        assert found is not None, text
        return found[0]


def equal(
    build: Build,
    data: Data,
    way: Way,
    record_type: TypeInformation = ROW,
    *,
    ordered: bool = True,
    combined: bool = False,
    **settings: Any,
) -> None:
    """Check that a program has the same results from columns as from records.

    With `ordered` also in the same order, if there is one subtask. `combined`: records may be held back before they are sent, so
    that others come first; then the order is another one, and it is not known which zero comes first.
    """
    united = Way(mapped=True, united=way.united)
    found, expected = (outcome(build, data, each, record_type, **settings) for each in (way, united))
    if not (ordered and not combined and settings.get("parallelism", 1) == 1) and isinstance(found, list):
        zero = "'0.0'" if combined else "'-0.0'"
        found, expected = (sorted(repr(row).replace("'-0.0'", zero) for row in rows) for rows in (found, expected))
    assert found == expected


def by_key(stream: DataStream, key: str, record_type: TypeInformation) -> KeyedStream:
    """Key by a field, or by several with spaces between them."""
    fields = [name if record_type == ROW else list(FIELDS).index(name) for name in key.split()]
    return stream.key_by(fields if len(fields) > 1 else fields[0])


def place_in(record_type: TypeInformation) -> Callable[[str], Any]:
    return (lambda field: field) if record_type == ROW else list(FIELDS).index


TYPES = st.sampled_from((ROW, TUPLE))
KEY_FIELDS = st.one_of(st.sampled_from(KEYS), st.sampled_from(("name key", "flag tiny name", "small flag")))
WAYS = st.sampled_from((COLUMNS, MIXED, Way(united=True)))
#: One subtask most of the time: then also the order of the results is compared.
SETTINGS = st.fixed_dictionaries(
    {
        "parallelism": st.sampled_from((1, 1, 2)),
        "backend": st.sampled_from(("hashmap", "hashmap", "rocksdb")),
        "share": st.sampled_from((False, False, True)),
    }
)

#: For each run: the parallelism with which it is processed, and whether as columns.
STARTS = st.lists(st.tuples(st.integers(1, 3), st.booleans()), min_size=1, max_size=5)


def test_rolling_aggregates(folded: list[int]) -> None:
    @several(40)
    @given(data=DATA, chosen=SOME, key=KEY_FIELDS, record_type=TYPES, way=WAYS, settings=SETTINGS)
    def check(data: Data, chosen: Chosen, key: str, record_type: Any, way: Way, settings: dict[str, Any]) -> None:
        def build(stream: DataStream) -> DataStream:
            made = aggregates_of(chosen, place_in(record_type))
            return by_key(stream, key, record_type).aggregate(key=aggregates.key(), n=aggregates.count(), **made)

        equal(build, data, way, record_type, **settings)

    check()
    assert len(folded) > 10


#: Fields of which columns take the sum, the least or the greatest value; and some that are taken record by record.
REDUCED = [(kind, field) for kind in ("sum", "min", "max", "min_by", "max_by") for field in "bsildft"]


def test_rolling_aggregations_of_pyflink(folded: list[int]) -> None:
    @several(40)
    @given(data=DATA, chosen=st.sampled_from(REDUCED), key=KEY_FIELDS, record_type=TYPES, way=WAYS, settings=SETTINGS)
    def check(data: Data, chosen: tuple[str, str], key: str, record_type: Any, way: Way, settings: dict[str, Any]) -> None:
        kind, field = chosen

        def build(stream: DataStream) -> DataStream:
            reduced: DataStream = getattr(by_key(stream, key, record_type), kind)(place_in(record_type)(field))
            return reduced

        equal(build, data, way, record_type, **settings)

    check()
    assert len(folded) > 10


def test_deduplication(folded: list[int]) -> None:
    @several(25)
    @given(data=DATA, key=KEY_FIELDS, record_type=TYPES, way=WAYS, settings=SETTINGS)
    def check(data: Data, key: str, record_type: Any, way: Way, settings: dict[str, Any]) -> None:
        def build(stream: DataStream) -> DataStream:
            # The results of functions have times of whole milliseconds.
            return by_key(stream, key, record_type).deduplicate().map(lambda record: record, record_type)

        equal(build, data, way, record_type, **settings)

    check()
    assert len(folded) > 10


def test_first_records_of_a_field(folded: list[int]) -> None:
    @several(30)
    @given(
        data=DATA,
        n=st.sampled_from((1, 2, 10)),
        field=st.sampled_from([field for field in FIELDS if field not in ("flag", "row", "list", "map")]),
        ascending=st.booleans(),
        key=KEY_FIELDS,
        way=WAYS,
        settings=SETTINGS,
    )
    def check(data: Data, n: int, field: str, ascending: bool, key: str, way: Way, settings: dict[str, Any]) -> None:
        def build(stream: DataStream) -> DataStream:
            first = by_key(stream, key, ROW).top_n(n, field, ascending=ascending)
            return first.map(lambda row: (str(row.get_row_kind()), row), Types.TUPLE([Types.STRING(), ROW]))

        equal(build, data, way, **settings)

    check()
    assert len(folded) > 5


def test_batches(folded: list[int]) -> None:
    @several(20)
    @given(data=DATA, chosen=SOME, key=KEY_FIELDS, per=st.sampled_from(("record", "epoch")), window=st.booleans())
    def check(data: Data, chosen: Chosen, key: str, per: Any, window: bool) -> None:
        def build(stream: DataStream) -> DataStream:
            keyed, made = by_key(stream, key, ROW), aggregates_of(chosen, str)
            windows: Any = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
            found: DataStream = windows.aggregate(**made) if window else keyed.aggregate(per=per, **made)
            return found

        equal(build, data, COLUMNS, batch=True)

    check()


def test_aggregates_of_each_epoch(folded: list[int]) -> None:
    """When epochs end is not defined, so the last results of each key are compared."""

    @several(20)
    @given(data=DATA, chosen=SOME, key=KEY_FIELDS, way=WAYS, settings=SETTINGS)
    def check(data: Data, chosen: Chosen, key: str, way: Way, settings: dict[str, Any]) -> None:
        def build(stream: DataStream) -> DataStream:
            made = aggregates_of(chosen, str)
            return by_key(stream, key, ROW).aggregate(per="epoch", key=aggregates.key(), **made)

        united = Way(mapped=True, united=way.united)
        columns, records = (outcome(build, data, each, **settings) for each in (way, united))
        last = [{row[0]: row for row in rows} if isinstance(rows, list) else rows for rows in (columns, records)]
        assert last[0] == last[1]

    check()
    assert len(folded) > 10


ms = Time.milliseconds
#: Windows; columns are folded into tumbling and sliding ones.
ASSIGNERS: dict[str, Callable[[Any], Any]] = {
    "tumbling": lambda keyed: keyed.window(TumblingEventTimeWindows.of(ms(10))),
    "tumbling with an offset": lambda keyed: keyed.window(TumblingEventTimeWindows.of(ms(25), ms(3))),
    "sliding": lambda keyed: keyed.window(SlidingEventTimeWindows.of(ms(20), ms(10))),
    "sliding unevenly": lambda keyed: keyed.window(SlidingEventTimeWindows.of(ms(50), ms(20))),
    "with gaps": lambda keyed: keyed.window(SlidingEventTimeWindows.of(ms(10), ms(15))),
    "sessions": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(ms(3))),
    "long sessions": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(ms(15))),
    "counts": lambda keyed: keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(3)),
    "counts of one": lambda keyed: keyed.count_window(1),
    "counts of seven": lambda keyed: keyed.count_window(7),
    "counts that overlap": lambda keyed: keyed.count_window(7, 3),
    "every second one": lambda keyed: keyed.window(TumblingEventTimeWindows.of(ms(10))).trigger(CountTrigger.of(2)),
}


ALIGNED = ("tumbling", "tumbling with an offset", "sliding", "sliding unevenly")


def test_windows(folded: list[int]) -> None:
    @several(60)
    @given(
        data=DATA,
        chosen=SOME,
        key=KEY_FIELDS,
        record_type=TYPES,
        way=WAYS,
        window=st.sampled_from(list(ASSIGNERS)),
        lateness=st.sampled_from((0, 3, 40)),
        side=st.booleans(),
        settings=SETTINGS,
    )
    def check(
        data: Data,
        chosen: Chosen,
        key: str,
        record_type: Any,
        way: Way,
        window: str,
        lateness: int,
        side: bool,
        settings: dict[str, Any],
    ) -> None:
        late = OutputTag("late", record_type)

        def build(stream: DataStream) -> DataStream:
            windows = ASSIGNERS[window](by_key(stream, key, record_type))
            outer = {"key": aggregates.key()}
            if "counts" not in window:
                windows = windows.allowed_lateness(lateness)
                outer |= {"start": aggregates.window_start(), "end": aggregates.window_end()}
            if side:
                windows = windows.side_output_late_data(late)
            found: DataStream = windows.aggregate(**outer, **aggregates_of(chosen, place_in(record_type)))
            if not side:
                return found
            return found.map(repr, Types.STRING()).union(found.get_side_output(late).map(repr, Types.STRING()))

        # Sessions that end at the same time may fire in any order.
        combined = window in ALIGNED and not lateness and not side
        equal(build, data, way, record_type, ordered="sessions" not in window, combined=combined, **settings)

    check()
    assert len(folded) > 3


def test_sessions(folded: list[int]) -> None:
    """Whole numbers, whose sums do not depend on the order, and floats, whose sums do."""

    @several(40)
    @given(data=DATA, chosen=ONLY, key=KEY_FIELDS, way=WAYS, gap=st.integers(1, 40), settings=SETTINGS)
    def check(data: Data, chosen: Chosen, key: str, way: Way, gap: int, settings: dict[str, Any]) -> None:
        def build(stream: DataStream) -> DataStream:
            windows: Any = by_key(stream, key, ROW).window(EventTimeSessionWindows.with_gap(ms(gap)))
            shown = {"key": aggregates.key(), "start": aggregates.window_start(), "end": aggregates.window_end()}
            found: DataStream = windows.aggregate(**shown, n=aggregates.count(), **aggregates_of(chosen, str))
            return found.filter(pc.field("n") != 2)

        equal(build, data, way, ordered=False, **settings)

    check()
    assert len(folded) > 10


def test_windows_of_a_number_of_records(folded: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Overlapping windows, such with records between them, and global ones; runs are cut, and operators restored."""
    monkeypatch.setattr(counts, "_MOST_FOLDED", 256)

    @several(40)
    @given(
        data=DATA,
        chosen=ONLY,
        key=KEY_FIELDS,
        way=WAYS,
        size=st.sampled_from((0, 0, 1, 2, 3, 5, 8, 12)),
        slide=st.integers(1, 12),
        starts=STARTS,
        settings=SETTINGS,
    )
    def check(
        data: Data,
        chosen: Chosen,
        key: str,
        way: Way,
        size: int,
        slide: int,
        starts: list[tuple[int, bool]],
        settings: dict[str, Any],
    ) -> None:
        def count(keyed: Any) -> DataStream:
            ever = keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(slide))
            windows = keyed.count_window(size, slide) if size else ever
            counted: DataStream = windows.aggregate(key=aggregates.key(), **aggregates_of(chosen, str))
            return counted

        equal(lambda stream: count(by_key(stream, key, ROW)), data, way, **settings)
        tame, by_record = replace(data, extreme=False), [(parallelism, False) for parallelism, _ in starts]
        assert restored(tame, count, key, starts, {}) == restored(tame, count, key, by_record, {})

    check()
    assert len(folded) > 10


OVER_ALL: dict[str, Any] = {
    "tumbling": TumblingEventTimeWindows.of(ms(20)),
    "sliding": SlidingEventTimeWindows.of(ms(20), ms(10)),
    "sessions": EventTimeSessionWindows.with_gap(ms(3)),
    "counts": CountTumblingWindowAssigner(7),
}


def test_windows_over_all(folded: list[int]) -> None:
    @several(20)
    @given(data=DATA, chosen=SOME, way=WAYS, window=st.sampled_from(list(OVER_ALL)), settings=SETTINGS)
    def check(data: Data, chosen: Chosen, way: Way, window: str, settings: dict[str, Any]) -> None:
        def build(stream: DataStream) -> DataStream:
            outer = {} if window == "counts" else {"start": aggregates.window_start()}
            found: DataStream = stream.window_all(OVER_ALL[window]).aggregate(**outer, **aggregates_of(chosen, str))
            return found

        combined = window in ("tumbling", "sliding")
        equal(build, data, way, ordered=window != "sessions", combined=combined, **settings)

    check()
    assert len(folded) > 3


#: Aggregates whose records may be combined before they are sent.
COMBINED = (
    [(kind, field) for kind in ("sum", "avg") for field in "bsil"]
    + [(kind, field) for kind in ("min", "max") for field in "bsild"]
    + [("count", field) for field in ("d", "t", "list")]
)


@pytest.fixture
def combined(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Have few records combined, but not all; return the numbers of groups."""
    monkeypatch.setattr(combining, "_LEAST_RECORDS", 2)
    monkeypatch.setattr(combining, "_LEAST_IN_GROUP", 2)
    monkeypatch.setattr(partitioners, "_REST", 1)
    monkeypatch.setattr(combining, "_MOST_RECORDS", 100)
    return note_combined(monkeypatch, lambda groups, records: groups)


WINDOWS_OF_COMBINED: dict[str, Callable[[Any], Any]] = {
    **{name: ASSIGNERS[name] for name in ALIGNED},
    "by clock": lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(Time.days(9_000))),
    "sliding by clock": lambda keyed: keyed.window(SlidingProcessingTimeWindows.of(Time.days(9_000), Time.days(9_000))),
}


def test_windows_of_records_that_were_combined_before(combined: list[int]) -> None:
    """Late records are dropped in both ways, and counted."""

    @several(60)
    @given(
        data=DATA,
        chosen=st.lists(st.sampled_from(COMBINED), min_size=1, max_size=4, unique=True),
        key=KEY_FIELDS,
        record_type=TYPES,
        way=WAYS,
        window=st.sampled_from(["over all", *WINDOWS_OF_COMBINED]),
        settings=SETTINGS,
    )
    def check(data: Data, chosen: Chosen, key: str, record_type: Any, way: Way, window: str, settings: dict[str, Any]) -> None:
        def build(stream: DataStream) -> DataStream:
            made = aggregates_of(chosen, place_in(record_type))
            if window == "over all":
                over_all: DataStream = stream.window_all(TumblingEventTimeWindows.of(ms(20))).aggregate(**made)
                return over_all
            found: DataStream = WINDOWS_OF_COMBINED[window](by_key(stream, key, record_type)).aggregate(
                key=aggregates.key(), n=aggregates.count(), **made
            )
            return found

        equal(build, data, way, record_type, combined=True, **settings)

    check()
    assert len(combined) > 10


def test_records_that_are_late_although_their_sender_could_not_know_are_counted_one_by_one(
    combined: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    row = Types.ROW_NAMED(["key", "time"], [Types.LONG(), Types.LONG()])
    ahead: tuple[Step, ...] = ([Row(key=1, time=990)], 1_000)
    idle: tuple[Step, ...] = (True, [Row(key=number % 3, time=number % 30) for number in range(99)])
    config = Configuration.from_dict({"execution.engine": "local"})
    env = StreamExecutionEnvironment.get_execution_environment(config).set_parallelism(2)
    strategy = BY_TIME.with_timestamp_assigner("time")
    windows: Any = env.from_source(RunsSource(row, (ahead, idle)), strategy, "runs").key_by("key")
    counts = windows.window(TumblingEventTimeWindows.of(ms(10))).aggregate(n=aggregates.count()).name("counts")
    counts.sink_to(DiscardingSink())
    assert env.execute("late").get_accumulator_result("counts.numLateRecordsDropped") == 99
    assert "'counts'" in next(line for line in caplog.messages if "has dropped a late record" in line)
    assert combined == [9]


Operator = Callable[[Any], DataStream]
FIGURES: dict[str, Any] = {
    "key": aggregates.key(),
    "n": aggregates.count(),
    "total": aggregates.sum("d"),
    "least": aggregates.min("d"),
    "mean": aggregates.avg("i"),
    "first": aggregates.first("t"),
    "at": aggregates.last("at"),
    "best": aggregates.max_by("d", by="l"),
}
OBJECTS: dict[str, Any] = {
    "key": aggregates.key(),
    "total": aggregates.sum("i"),
    "row": aggregates.last("row"),
    "list": aggregates.min_by("list", by="i"),
}
WHOLE: dict[str, Any] = {
    "key": aggregates.key(),
    "n": aggregates.count(),
    "total": aggregates.sum("i"),
    "least": aggregates.min("d"),
    "mean": aggregates.avg("s"),
}
#: Operators that are restored; their results and when they emit them follow from the steps alone.
OPERATORS: dict[str, Operator] = {
    "rolling": lambda keyed: keyed.aggregate(**FIGURES),
    "sum": lambda keyed: keyed.sum("time"),
    "least": lambda keyed: keyed.min_by("time"),
    "first": lambda keyed: keyed.deduplicate(),
    "greatest": lambda keyed: keyed.top_n(3, "d"),
    "rolling objects": lambda keyed: keyed.aggregate(**OBJECTS),
    "epochs": lambda keyed: keyed.aggregate(per="epoch", **FIGURES),
    "epochs of objects": lambda keyed: keyed.aggregate(per="epoch", **OBJECTS),
    "tumbling": lambda keyed: keyed.window(TumblingEventTimeWindows.of(ms(10))).allowed_lateness(15).aggregate(**FIGURES),
    "sliding": lambda keyed: keyed.window(SlidingEventTimeWindows.of(ms(20), ms(10))).aggregate(**FIGURES),
    "sliding objects": lambda keyed: keyed.window(SlidingEventTimeWindows.of(ms(20), ms(10))).aggregate(**OBJECTS),
    "sessions": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(ms(7))).aggregate(**FIGURES),
    "sessions of objects": lambda keyed: keyed.window(EventTimeSessionWindows.with_gap(ms(7))).aggregate(**OBJECTS),
    "counts": lambda keyed: keyed.count_window(5).aggregate(**FIGURES),
    "counts of objects": lambda keyed: keyed.count_window(5).aggregate(**OBJECTS),
    "sessions by clock": lambda keyed: keyed.window(ProcessingTimeSessionWindows.with_gap(ms(12))).aggregate(**FIGURES),
    "combined": lambda keyed: keyed.window(SlidingEventTimeWindows.of(ms(20), ms(10))).aggregate(**WHOLE),
    "combined by clock": lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(ms(10))).aggregate(**WHOLE),
    "clock": lambda keyed: keyed.window(TumblingProcessingTimeWindows.of(ms(10))).aggregate(**FIGURES),
    "sliding by clock": lambda keyed: keyed.window(SlidingProcessingTimeWindows.of(ms(25), ms(10))).aggregate(**FIGURES),
}


def test_operators_that_are_restored(folded: list[int], combined: list[int]) -> None:
    @several(60)
    @given(
        data=DATA,
        operator=st.sampled_from(list(OPERATORS)),
        key=KEY_FIELDS,
        starts=STARTS,
        share=st.booleans(),
    )
    def check(data: Data, operator: str, key: str, starts: list[tuple[int, bool]], share: bool) -> None:
        settings = {"execution.windows.share-panes": share}
        found = restored(data, OPERATORS[operator], key, starts, settings)
        # The order in which several subtasks send a key's records to the operator depends on how many they are.
        by_record = [(parallelism, False) for parallelism, _ in starts]
        assert found == restored(data, OPERATORS[operator], key, by_record, settings)

    check()
    assert len(folded) > 3


def restored(data: Data, operator: Operator, key: str, starts: list[tuple[int, bool]], settings: dict[str, Any]) -> Any:
    """Process each run in a harness of its own, restored from the one before; return the results of each, in any order."""
    # Keys of several fields must not be None.
    script, snapshot, found = replace(data, null_keys=data.null_keys and " " not in key).script(nulls=True), None, []
    for step in range(0, len(script), 2):
        parallelism, columns = starts[step // 2 % len(starts)]
        condition: Any = pc.field("time").is_valid() if columns else (lambda row: True)
        build = lambda stream: operator(by_key(stream.filter(condition).uid("filter"), key, ROW)).uid("operator")  # noqa: B023, E731
        with OneInputHarness(build, ROW, parallelism=parallelism, settings=settings, snapshot=snapshot) as harness:
            rows, watermark = script[step], script[step + 1]
            assert isinstance(rows, list)
            assert isinstance(watermark, int)
            with harness.epoch():
                for row in rows:
                    harness.process_element(row, row.time)
            harness.process_watermark(watermark)
            harness.set_processing_time(harness.processing_time + 7)
            found.append(sorted(repr([shown(value), timestamp]) for value, timestamp in harness.take_output()))
            snapshot = harness.snapshot()
    return found

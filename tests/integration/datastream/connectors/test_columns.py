"""Sources and sinks that have columns: by columns they read and write what they do by records, value for value."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from flinkish.common import Instant, Row, Types, WatermarkStrategy
from flinkish.common.arrow_types import RowsToArrow
from flinkish.common.column_layout import Layout
from flinkish.common.configuration import Configuration
from flinkish.common.typeinfo import DecimalTypeInfo, ListTypeInfo, MapTypeInfo, RowTypeInfo, TypeInformation
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors import DataFrameSink, DeltaSink, DeltaSource
from flinkish.datastream.connectors.file_system import (
    BucketAssigner,
    BulkFormat,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    ParquetWriterFactory,
    StreamFormat,
)
from flinkish.datastream.connectors.file_system.writer_factories import Timestamps
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy
from tests.kit.environments import env_of
from tests.unit.datastream.connectors.fakes import SinkRun, SourceRun

#: Each type with values that are easily changed on the way.
VALUES: dict[str, tuple[TypeInformation, list[Any]]] = {
    "flag": (Types.BOOLEAN(), [True, False]),
    "byte": (Types.BYTE(), [-128, 127]),
    "short": (Types.SHORT(), [-(2**15), 2**15 - 1]),
    "int": (Types.INT(), [-(2**31), 0]),
    "long": (Types.LONG(), [-(2**63), 2**63 - 1, 2**53 + 1]),
    "float": (Types.FLOAT(), [-0.0, math.nan, math.inf, 1.5]),
    "double": (Types.DOUBLE(), [-0.0, math.nan, -math.inf, 5e-324, 0.1]),
    "text": (Types.STRING(), ["", "a\0b", "ä€😀"]),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"", b"\x00\xff"]),
    "decimal": (DecimalTypeInfo(10, 2), [decimal.Decimal("-0.01"), decimal.Decimal("99999999.99")]),
    "big_dec": (Types.BIG_DEC(), [decimal.Decimal("1.500000000000000000")]),
    "big_int": (Types.BIG_INT(), [10**37, -(10**37)]),
    "date": (Types.SQL_DATE(), [datetime.date(1, 1, 1), datetime.date(1969, 12, 31), datetime.date(9999, 12, 31)]),
    "timestamp": (
        Types.SQL_TIMESTAMP(),
        [datetime.datetime(1, 1, 1), datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime.datetime.max],
    ),
    "instant": (Types.INSTANT(), [Instant(-1, 999_999_000), Instant(0, 0), Instant(253402300799, 999_999_000)]),
    "list": (Types.LIST(Types.SQL_TIMESTAMP()), [[], [None, datetime.datetime(1969, 1, 1)]]),
    "array": (Types.PRIMITIVE_ARRAY(Types.LONG()), [[1, -1]]),
    "map": (Types.MAP(Types.STRING(), Types.LONG()), [{}, {"b": 1, "a": None, "": -(2**63)}]),
    "maps": (Types.LIST(Types.MAP(Types.STRING(), Types.LONG())), [[{"b": 1, "a": 2}, None, {}]]),
    "row": (Types.ROW_NAMED(["x", "y"], [Types.LONG(), Types.INSTANT()]), [Row(x=1, y=Instant(-1, 0)), Row(x=None, y=None)]),
}
TYPES = Types.ROW_NAMED(list(VALUES), [type_info for type_info, _ in VALUES.values()])
#: Each value in some rows, in the others null.
ROWS = [
    Row(
        **{
            name: None if (n + place) % 5 == 0 else values[n % len(values)]
            for place, (name, (_, values)) in enumerate(VALUES.items())
        }
    )
    for n in range(60)
]


def table(rows: list[Row] = ROWS) -> pa.Table:
    arrow = RowsToArrow(TYPES.field_names, TYPES.field_types, zoned=False)
    return pa.Table.from_batches([arrow.batch([arrow.values(row) for row in rows])], arrow.schema)


def both(make: Callable[[], Any], **run: Any) -> tuple[SourceRun, list[str]]:
    """Read a source by records and by columns, which must give the same; return the second run, and the values' reprs."""
    shown = []
    for by_columns in (False, True):
        reading = SourceRun(make(), by_columns=by_columns, **run)
        shown.append(list(map(repr, reading.values())))
    assert shown[0] == shown[1]
    return reading, shown[0]


def parquet_source(path: Path, type_info: TypeInformation, **options: Any) -> Callable[[], FileSource]:
    def make() -> FileSource:
        builder = FileSource.for_bulk_file_format(BulkFormat.parquet_format(type_info, **options), str(path))
        return builder.set_file_enumerator(FileEnumeratorProvider(500)).on_record_error(RecordErrorPolicy.skip()).build()

    return make


@pytest.mark.parametrize("restart_readers", [False, True])
@pytest.mark.parametrize("credit", [1, 7, 1000])
def test_json_lines_are_read_alike(tmp_path: Path, credit: int, restart_readers: bool) -> None:
    whose = ["null", "{}", '{"id": 1, "tags": {"a": "ä", "b": null}}', '{"tags": null, "at": "2026-01-02"}']
    good = [
        f'{{"n": {n}, "text": "{"grün" * (n % 3)}", "at": "2026-01-02T03:04:{n % 60:02}Z", "x": 1, "who": {whose[n % 4]}}}'
        for n in range(200)
    ]
    mixed = ["", *good[:50], "[1, 2", *good[50:120], '{"n": 1.5}', "", '{"n": 7}', " {} ", *good[120:], '{"n": 8}', '{"who": 1}']
    (tmp_path / "a.json").write_text("\n".join(good) + "\n", encoding="utf-8")
    (tmp_path / "b.json").write_text("\ufeff" + "\n".join(mixed), encoding="utf-8")
    (tmp_path / "c.json").write_bytes("\r\n".join(good[:20]).encode())
    who = Types.ROW_NAMED(["id", "tags", "at"], [Types.LONG(), Types.MAP(Types.STRING(), Types.STRING()), Types.SQL_DATE()])
    rows = Types.ROW_NAMED(["n", "text", "at", "who"], [Types.LONG(), Types.STRING(), Types.INSTANT(), who])

    def make() -> FileSource:
        builder = FileSource.for_record_stream_format(StreamFormat.json_lines_format(rows), str(tmp_path))
        return builder.set_file_enumerator(FileEnumeratorProvider(500)).on_record_error(RecordErrorPolicy.skip()).build()

    run, values = both(make, credit=credit, restart_readers=restart_readers, parallelism=2)
    assert run.from_columns >= 220
    assert len(values) == 200 + 203 + 20


@pytest.mark.parametrize("credit", [1, 7, 1000])
def test_parquet_values_that_no_record_has_are_bad_records_alike(tmp_path: Path, credit: int) -> None:
    times = pa.array([0, 86_400_000_000, 1, -1], pa.int64()).view(pa.time64("us"))
    rows = Types.ROW_NAMED(["letter", "time", "n"], [Types.CHAR(), Types.SQL_TIME(), Types.LONG()])
    pq.write_table(pa.table({"letter": ["a", "b", "cd", "e"], "time": times, "n": [1, 2, 3, 4]}), tmp_path / "a.parquet")

    def make() -> FileSource:
        builder = FileSource.for_bulk_file_format(BulkFormat.parquet_format(rows), str(tmp_path))
        return builder.on_record_error(RecordErrorPolicy.skip()).build()

    _, values = both(make, credit=credit)
    assert values == [repr(Row(letter="a", time=datetime.time(0), n=1))]


@pytest.mark.parametrize("restart_readers", [False, True])
@pytest.mark.parametrize("credit", [1, 7, 1000])
@pytest.mark.parametrize("multiline", [False, True])
def test_csv_lines_are_read_alike(tmp_path: Path, credit: int, restart_readers: bool, multiline: bool) -> None:
    good = [f'{"grün" * (n % 3)},"{n}",2026-01-02T03:04:{n % 60:02}Z,{n / 7}' for n in range(200)]
    more = ['"two\nlines",1,,', "", "a,b,,", 'x"y,1,,', "a,1", ",,,"]
    mixed = [line for n, line in enumerate(good) for line in (*more[n % 50 : n % 50 + 1], line)]
    header = "text,n,at,x\n"
    (tmp_path / "a.csv").write_text(header + "\n".join(good) + "\n", encoding="utf-8")
    (tmp_path / "b.csv").write_text("\ufeff" + header + "\n".join(mixed), encoding="utf-8")
    (tmp_path / "c.csv").write_bytes((header + "\r\n".join(good[:20])).encode())
    rows = Types.ROW_NAMED(["n", "text", "at", "x"], [Types.LONG(), Types.STRING(), Types.INSTANT(), Types.DOUBLE()])

    def make() -> FileSource:
        format_ = StreamFormat.csv_format(rows, multiline=multiline)
        builder = FileSource.for_record_stream_format(format_, str(tmp_path))
        return builder.set_file_enumerator(FileEnumeratorProvider(500)).on_record_error(RecordErrorPolicy.skip()).build()

    run, values = both(make, credit=credit, restart_readers=restart_readers, parallelism=2)
    assert run.from_columns >= 200
    assert len(values) == 200 + 200 + 4 * 3 + 20


@pytest.mark.parametrize("restart_readers", [False, True])
@pytest.mark.parametrize("credit", [1, 7, 1000])
def test_parquet_files_are_read_alike(tmp_path: Path, credit: int, restart_readers: bool) -> None:
    pq.write_table(table(), tmp_path / "b.parquet", row_group_size=11)
    pq.write_table(table().slice(0, 0), tmp_path / "a.parquet")
    pq.write_table(table(), tmp_path / "c.parquet")
    run, values = both(parquet_source(tmp_path, TYPES), credit=credit, restart_readers=restart_readers, parallelism=2)
    assert run.from_columns == len(values) == 120
    assert sorted(values) == sorted(map(repr, ROWS * 2))


def test_columns_of_a_file_are_renamed_chosen_and_widened(tmp_path: Path) -> None:
    pq.write_table(table(), tmp_path / "a.parquet")
    chosen = Types.ROW_NAMED(
        ["timestamp", "int", "float", "date"], [Types.SQL_TIMESTAMP(), Types.LONG(), Types.DOUBLE(), Types.SQL_TIMESTAMP()]
    )
    run, _ = both(parquet_source(tmp_path, chosen))
    assert run.from_columns == 60
    as_tuples = Types.TUPLE(list(TYPES.field_types))
    run, values = both(parquet_source(tmp_path, as_tuples))
    assert run.from_columns == 60
    assert values == [repr(tuple(row)) for row in ROWS]


@pytest.mark.parametrize(
    ("column", "type_info"),
    [
        (pa.array([1, -1, None], pa.timestamp("ns", "UTC")), Types.INSTANT()),
        (pa.array(["1.50", "1.5"]).cast(pa.decimal128(10, 2)), Types.BIG_DEC()),
        (pa.array([[-1001]], pa.list_(pa.timestamp("ns", "UTC"))), Types.LIST(Types.INSTANT())),
    ],
)
def test_a_column_with_other_values_than_columns_hold_is_records(
    tmp_path: Path, column: pa.Array, type_info: TypeInformation
) -> None:
    pq.write_table(pa.table({"v": column}), tmp_path / "a.parquet")
    run, _ = both(parquet_source(tmp_path, Types.ROW_NAMED(["v"], [type_info])))
    assert run.from_columns == 0


@pytest.mark.parametrize(
    ("bad", "type_info"),
    [
        (pa.array([2**40], pa.int64()), Types.INT()),
        (pa.array([2_932_897], pa.int32()).view(pa.date32()), Types.SQL_DATE()),  # 10000-01-01
        (pa.array([-(2**62)], pa.int64()).view(pa.timestamp("us")), Types.SQL_TIMESTAMP()),
        (pa.array([2**62], pa.int64()).view(pa.timestamp("us", "UTC")), Types.INSTANT()),
        (pa.array([[1, None]]), Types.PRIMITIVE_ARRAY(Types.LONG())),
        (pa.array([[2_932_897]], pa.list_(pa.int32())).view(pa.list_(pa.date32())), Types.LIST(Types.SQL_DATE())),
        (pa.array([b"\xff"]).view(pa.string()), Types.STRING()),
        (pa.array([[("a", 2**40)]], pa.map_(pa.string(), pa.int64())), Types.MAP(Types.STRING(), Types.INT())),
    ],
)
def test_only_a_batch_with_a_bad_value_is_records(tmp_path: Path, bad: pa.Array, type_info: TypeInformation) -> None:
    column = pa.concat_arrays([pa.nulls(20, bad.type), bad, pa.nulls(9, bad.type)])
    pq.write_table(pa.table({"v": column, "n": range(30)}), tmp_path / "a.parquet", row_group_size=10)
    typed = Types.ROW_NAMED(["v", "n"], [type_info, Types.LONG()])
    for credit in (1, 7, 100):
        run, values = both(parquet_source(tmp_path, typed), credit=credit)
        assert (run.from_columns, len(values)) == (20, 29)


@pytest.mark.parametrize(
    ("map_type", "of_map"),
    [
        (Types.MAP(Types.STRING(), Types.LONG()), lambda entries: entries),
        (Types.LIST(Types.MAP(Types.STRING(), Types.LONG())), lambda entries: [[("x", 1)], None, entries]),
        (Types.MAP(Types.LONG(), Types.MAP(Types.STRING(), Types.LONG())), lambda entries: [(1, None), (2, entries)]),
        (Types.ROW_NAMED(["m"], [Types.MAP(Types.STRING(), Types.LONG())]), lambda entries: {"m": entries}),
    ],
)
def test_only_a_batch_with_two_entries_of_a_key_in_a_map_is_records(
    tmp_path: Path, map_type: TypeInformation, of_map: Callable[[Any], Any]
) -> None:
    typed = Types.ROW_NAMED(["v"], [map_type])
    maps = [of_map([("b", 1)])] * 20 + [of_map([("a", 1), ("a", 2)])] * 10
    pq.write_table(pa.table({"v": pa.array(maps, Layout(typed).schema.field(0).type)}), tmp_path / "a.parquet", row_group_size=10)
    run, values = both(parquet_source(tmp_path, typed))
    assert run.from_columns == 20
    assert ["{'b': 1}" in value for value in values] == [True] * 20 + [False] * 10
    assert ["{'a': 2}" in value for value in values] == [False] * 20 + [True] * 10


def test_times_in_the_zone_of_the_machine_are_records(tmp_path: Path) -> None:
    format_ = BulkFormat.parquet_format(Types.ROW_NAMED(["t"], [Types.LIST(Types.SQL_TIMESTAMP())]))
    assert format_.why_records is None
    format_.local_timestamps = True
    assert format_.why_records is not None


@pytest.mark.parametrize("credit", [1, 7, 1000])
def test_delta_tables_are_read_alike(tmp_path: Path, credit: int) -> None:
    names = [name for name in VALUES if name not in ("big_int", "big_dec")]  # Delta's decimals are DECIMAL
    part = pa.array(["x", "y", None] * 20)
    write_deltalake(str(tmp_path), table().select(names).append_column("part", part), partition_by=["part"])
    write_deltalake(
        str(tmp_path), pa.table({"new": [1], "part": ["x"]}), mode="append", schema_mode="merge", partition_by=["part"]
    )
    DeltaTable(str(tmp_path)).delete("int = 0")

    def make() -> DeltaSource:
        return DeltaSource.for_bounded_row_data(str(tmp_path)).build()

    run, values = both(make, credit=credit, restart_readers=True)
    assert run.from_columns == len(values) == 61 - sum(row.int == 0 for row in ROWS)


def test_rows_that_are_taken_back_are_records(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"n": [1, 2]}))
    DeltaTable(str(tmp_path)).alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    DeltaTable(str(tmp_path)).delete("n = 1")

    def make() -> DeltaSource:
        return DeltaSource.for_bounded_row_data(str(tmp_path)).starting_version(1).read_change_feed().build()

    run, values = both(make)
    assert (run.from_columns, values) == (0, ["Row(n=1)"])


def parquet_sink(path: Path, assigner: BucketAssigner | None = None, **options: Any) -> FileSink:
    assigner = assigner or BucketAssigner.base_path_bucket_assigner()
    return FileSink.for_bulk_format(str(path), ParquetWriterFactory(**options)).with_bucket_assigner(assigner).build()


def data_frames(path: Path) -> DataFrameSink:
    return DataFrameSink(lambda df, checkpoint_id: None)


def files_of(path: Path) -> pa.Table:
    """Return the rows of all Parquet files in a folder, the hidden ones, too."""
    found = sorted(file for file in path.rglob("*") if file.is_file() and file.read_bytes()[:4] == b"PAR1")
    return pa.concat_tables([pq.ParquetFile(file).read() for file in found])


def written(path: Path, sink: Callable[[Path], Any], type_info: TypeInformation, rows: list[Any]) -> int:
    """Write rows by records and by columns, which must be the same; return how many were written as columns."""
    tables, run = [], None
    for by_columns in (False, True):
        folder = path / str(by_columns)
        configuration = Configuration.from_dict({"execution.checkpointing.dir": str(folder)})
        run = SinkRun(sink(folder / "sink"), type_info, configuration=configuration, by_columns=by_columns).epoch(rows[:7])
        run.lost_epoch(rows[7:9]).epoch(rows[7:20]).lose_writers().checkpoint(rows[20:], commit=False)
        tables.append(files_of(folder))
    assert tables[0].schema == tables[1].schema
    assert tables[0].num_rows == len(rows)
    assert repr(tables[0].to_pylist()) == repr(tables[1].to_pylist())
    assert run is not None
    return run.from_columns


FLAT = [name for name in VALUES if name != "list"]  # a list of times is stored as a list of points in time


@pytest.mark.parametrize("as_tuples", [False, True])
@pytest.mark.parametrize(
    ("sink", "names"),
    [
        (lambda path: DeltaSink(str(path)), FLAT),
        (lambda path: DeltaSink(str(path), field_names=[f"c{n}" for n in range(len(FLAT))]), FLAT),
        (parquet_sink, list(VALUES)),
        (lambda path: parquet_sink(path, BucketAssigner.date_time_bucket_assigner()), FLAT),
        (lambda path: parquet_sink(path, timestamps=Timestamps.UTC), FLAT),
        (data_frames, list(VALUES)),
    ],
)
def test_sinks_write_alike(tmp_path: Path, sink: Callable[[Path], Any], names: list[str], as_tuples: bool) -> None:
    types = [VALUES[name][0] for name in names]
    rows: list[Any] = [Row(**{name: row[name] for name in names}) for row in ROWS]
    if as_tuples:
        taken = written(tmp_path, sink, Types.TUPLE(types), [tuple(row) for row in rows])
    else:
        taken = written(tmp_path, sink, Types.ROW_NAMED(names, types), rows)
    assert taken == 62  # two of them in a lost epoch


@pytest.mark.parametrize(
    "by", [["int"], ["flag", "text", "byte"], ["date", "short"], ["timestamp"], ["instant"], ["decimal", "long"], ["big_int"]]
)
@pytest.mark.usefixtures("small_partitions")
def test_partitions_are_written_alike(tmp_path: Path, by: list[str]) -> None:
    flat = [name for name in FLAT if name != by[0]] + by[:1]
    row_type = Types.ROW_NAMED(flat, [VALUES[name][0] for name in flat])
    rows: list[Any] = [Row(**{name: row[name] for name in flat}) for row in ROWS]
    taken = written(tmp_path, lambda path: DeltaSink(str(path), partition_by=by), row_type, rows)
    assert taken == 62
    records, columns = (
        sorted(str(file.parent.relative_to(tmp_path / way)) for file in (tmp_path / way).rglob("*.parquet"))
        for way in ("False", "True")
    )
    assert records == columns
    assert len(columns) > 2


def test_partitions_of_few_rows_are_written_as_records(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["n", "p"], [Types.LONG(), Types.LONG()])
    for partitions, taken in ((1, 60), (2, 0)):  # the longest runs have 30 rows
        rows = [Row(n=n, p=n % partitions) for n in range(80)]
        path = tmp_path / str(partitions)
        assert written(path, lambda path: DeltaSink(str(path), partition_by=["p"]), row_type, rows) == taken


@pytest.mark.parametrize(
    ("sink", "given"),
    [
        (lambda path: parquet_sink(path, timestamps=Timestamps.LOCAL), Types.ROW_NAMED(["t"], [Types.SQL_TIMESTAMP()])),
        (lambda path: DeltaSink(str(path)), Types.ROW_NAMED(["t"], [Types.LIST(Types.SQL_TIMESTAMP())])),
        (lambda path: DeltaSink(str(path)), Types.ROW_NAMED(["t"], [Types.MAP(Types.STRING(), Types.SQL_TIMESTAMP())])),
        (
            lambda path: DeltaSink(str(path), row_type=Types.ROW_NAMED(["t"], [Types.BIG_DEC()])),
            Types.ROW_NAMED(["t"], [DecimalTypeInfo(10, 2)]),
        ),
    ],
)
def test_values_that_are_stored_otherwise_are_written_as_records(
    tmp_path: Path, sink: Callable[[Path], Any], given: RowTypeInfo
) -> None:
    at = datetime.datetime(2024, 1, 1, 12)
    values: dict[type[TypeInformation], Any] = {
        DecimalTypeInfo: decimal.Decimal("1.5"), ListTypeInfo: [at], MapTypeInfo: {"k": at}
    }  # fmt: skip
    value = values.get(type(given.field_types[0]), at)
    assert written(tmp_path, sink, given, [Row(t=value), Row(t=None)] * 15) == 0


def test_fields_are_found_by_name(tmp_path: Path) -> None:
    stored = Types.ROW_NAMED(["b", "a"], [Types.STRING(), Types.LONG()])
    given = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
    rows = [Row(a=n, b=str(n)) for n in range(30)]
    assert written(tmp_path, lambda path: DeltaSink(str(path), row_type=stored), given, rows) == 32
    assert files_of(tmp_path / "True").column_names == ["b", "a"]


def test_records_and_columns_of_one_epoch_keep_their_order(tmp_path: Path) -> None:
    type_info = Types.ROW_NAMED(["n"], [Types.LONG()])
    layout = Layout(type_info)
    run = SinkRun(DeltaSink(str(tmp_path)), type_info)
    for n in range(0, 40, 2):
        run.write([Row(n=n)])
        assert run.writers[0].write_columns(layout.columns_of([Row(n=n + 1)], None))
    run.checkpoint()
    assert files_of(tmp_path)["n"].to_pylist() == list(range(40))


def test_rows_that_must_be_told_apart_are_records(tmp_path: Path) -> None:
    class ByValue(BucketAssigner):
        def get_bucket_id(self, element: Any, context: Any) -> str:
            return str(element.n)

    assert DeltaSink(str(tmp_path), upsert_keys=["n"]).why_records
    assert parquet_sink(tmp_path, ByValue()).why_records
    assert parquet_sink(tmp_path).why_records is None


def test_explain_says_why_a_source_or_sink_has_records(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["n"], [Types.LONG()])
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")

    def drawn(source: Any, sink: Any) -> str:
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"execution.engine": "local"}))
        rows = env.from_source(source, WatermarkStrategy.no_watermarks(), "files", row_type).filter(pc.field("n") > 0)
        rows.sink_to(sink)
        return env.explain()

    columns = drawn(parquet_source(tmp_path, row_type)(), DeltaSink(str(tmp_path / "table")))
    assert columns.count(", columns") >= 3
    assert "records" not in columns
    untyped = FileSource.for_bulk_file_format(BulkFormat.parquet_format(), str(tmp_path)).build()
    records = drawn(untyped, DeltaSink(str(tmp_path / "table"), upsert_keys=["n"]))
    assert "records: the Parquet format has no type_info with the columns" in records
    assert "records: rows are merged one by one" in records


@pytest.mark.parametrize(
    ("sink", "names"),
    [
        (lambda path: DeltaSink(str(path)), ["n", "long", "timestamp"]),
        (lambda path: DeltaSink(str(path)), ["n", "list"]),  # which the writer takes as records only
        (lambda path: DeltaSink(str(path), partition_by=["int"]), ["n", "int", "text"]),
        (parquet_sink, ["n", "list", "decimal"]),
    ],
)
def test_a_job_writes_the_same_with_and_without_columns(tmp_path: Path, sink: Callable[[Path], Any], names: list[str]) -> None:
    numbered = Types.ROW_NAMED(["n", *VALUES], [Types.LONG(), *TYPES.field_types])
    rows = table().add_column(0, "n", pa.array(range(60)))
    days = rows["date"].combine_chunks().cast(pa.int32()).to_pylist()
    days[30] = 2_932_897  # no date of Python: the row is skipped
    bad = pa.array(days, pa.int32()).view(pa.date32())
    rows = rows.set_column(rows.schema.get_field_index("date"), "date", bad)
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=25)
    results = []
    for by_columns in (False, True):
        env = env_of({"execution.epoch.max-records": 9}, 2)
        source = parquet_source(tmp_path / "a.parquet", numbered)()
        source.why_records = None if by_columns else "for comparison"
        stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "files").filter(pc.field("n") != 7)
        stream.select(*names).sink_to(sink(tmp_path / str(by_columns)))
        env.execute()
        found = files_of(tmp_path / str(by_columns)).sort_by("n")
        results.append((found.schema, repr(found.to_pylist())))
        assert found["n"].to_pylist() == [n for n in range(60) if n not in (7, 30)]
    assert results[0] == results[1]

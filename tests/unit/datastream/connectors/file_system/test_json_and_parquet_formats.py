"""JSON lines and Parquet files."""

from __future__ import annotations

import datetime
import decimal
import math
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SourceError
from flinkish.common.time import Instant
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.common.types import Row
from flinkish.datastream.connectors.file_system import BulkFormat, FileEnumeratorProvider, FileSource, StreamFormat
from flinkish.datastream.connectors.file_system.json_format import JsonLinesFormat
from flinkish.datastream.connectors.file_system.parquet_format import ParquetFormat
from flinkish.datastream.connectors.record_errors import RECORD_ERROR_TYPE, RECORD_ERRORS_METRIC, RecordErrorPolicy
from flinkish.datastream.formats.json import JsonRowSerializationSchema
from flinkish.datastream.formats.parquet import ParquetColumnarRowInputFormat
from flinkish.datastream.output_tag import OutputTag
from tests.unit.datastream.connectors.fakes import SourceRun


def read_json(path: Path, type_info: Any = None, policy: RecordErrorPolicy | None = None, **run: Any) -> list[Any]:
    builder = FileSource.for_record_stream_format(StreamFormat.json_lines_format(type_info), str(path))
    if policy is not None:
        builder.on_record_error(policy)
    return SourceRun(builder.build(), **run).values()


def write(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "a.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_untyped_json_is_what_it_says(tmp_path: Path) -> None:
    path = write(tmp_path, '{"a": [1, 2.5, null]}\n\n"x"\r\n  \n17\n')
    for restart in (False, True):
        assert read_json(path, credit=1, restart_readers=restart) == [{"a": [1, 2.5, None]}, "x", 17]


def test_typed_json_becomes_rows_with_nested_parts(tmp_path: Path) -> None:
    inner = Types.ROW_NAMED(["x"], [Types.DOUBLE()])
    type_info = Types.ROW_NAMED(
        ["id", "inner", "tags", "map", "day", "at", "stamp", "price", "pair"],
        [
            Types.LONG(), inner, Types.LIST(Types.STRING()), Types.MAP(Types.STRING(), Types.INT()), Types.SQL_DATE(),
            Types.SQL_TIMESTAMP(), Types.INSTANT(), Types.BIG_DEC(), Types.TUPLE([Types.INT(), Types.BOOLEAN()]),
        ],
    )  # fmt: skip
    path = write(
        tmp_path,
        '{"id": 1, "inner": {"x": 2}, "tags": ["a"], "map": {"k": 1}, "day": "2021-01-09", "at": "2021-01-09T10:00:00", '
        '"stamp": 1500, "price": "1.50", "pair": [1, true], "unknown": 0}\n{"id": null}\n',
    )
    first, second = read_json(path, type_info)
    assert first == Row(
        id=1, inner=Row(x=2.0), tags=["a"], map={"k": 1}, day=datetime.date(2021, 1, 9), at=datetime.datetime(2021, 1, 9, 10),
        stamp=Instant.of_epoch_milli(1500), price=decimal.Decimal("1.50"), pair=(1, True),
    )  # fmt: skip
    assert list(second) == [None] * 9


def test_decimals_lose_no_digit_and_bytes_are_base64(tmp_path: Path) -> None:
    type_info = Types.ROW_NAMED(["d", "x", "b"], [Types.BIG_DEC(), Types.DOUBLE(), Types.PRIMITIVE_ARRAY(Types.BYTE())])
    digits = "123456789012345678901234567890.123456789"
    path = write(tmp_path, f'{{"d": {digits}, "x": 1.5, "b": "aGk="}}\n{{"d": 1.10, "x": 2}}\n')
    first, second = read_json(path, type_info)
    assert first == Row(d=decimal.Decimal(digits), x=1.5, b=b"hi")
    assert (str(second.d), second.x.__class__, second.b) == ("1.10", float, None)


def test_numbers_that_json_lacks_are_read_as_the_texts_that_the_writer_makes(tmp_path: Path) -> None:
    type_info = Types.ROW_NAMED(["f", "d"], [Types.FLOAT(), Types.DOUBLE()])
    to_json = JsonRowSerializationSchema.builder().with_type_info(type_info).build()
    infinity = float("inf")
    rows = [Row(f=infinity, d=-infinity), Row(f=-infinity, d=infinity), Row(f=float("nan"), d=float("nan"))]
    path = write(tmp_path, b"\n".join(map(to_json.serialize, rows)))
    first, second, third = read_json(path, type_info)
    assert [first, second] == rows[:2]
    assert math.isnan(third.f)
    assert math.isnan(third.d)
    for text in ("nan", "1.5", "+Infinity", "inf"):
        with pytest.raises(SourceError, match="field 'd' must be Double; got a string"):
            read_json(write(tmp_path, f'{{"d": "{text}"}}'), type_info)


def test_floats_have_32_bits_and_points_in_time_nanoseconds(tmp_path: Path) -> None:
    path = write(tmp_path, '{"f": 1.1, "i": "2024-01-01T00:00:00.123456789Z"}\n')
    (row,) = read_json(path, Types.ROW_NAMED(["f", "i"], [Types.FLOAT(), Types.INSTANT()]))
    assert row == Row(f=1.100000023841858, i=Instant(1_704_067_200, 123_456_789))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"id": "1"}', r"field 'id' must be Long; got a string: '1'"),
        ('{"id": true}', r"field 'id' must be Long; got a boolean"),
        ('{"id": 1.5}', r"field 'id' must be Long; got a number: 1.5"),
        ('{"id": 9223372036854775808}', r"field 'id' must be Long"),
        ('{"sub": {"x": ["a"]}}', r"field 'sub\.x\[0\]' must be Integer; got a string"),
        ("[1]", r"the value must be RowTypeInfo.*got an array"),
        ('{"id": 1', r"not valid JSON"),
        ("x" * 300, r"not valid JSON.*300 characters"),
    ],
)
def test_bad_json_names_file_line_and_field(tmp_path: Path, line: str, reason: str) -> None:
    type_info = Types.ROW_NAMED(["id", "sub"], [Types.LONG(), Types.ROW_NAMED(["x"], [Types.LIST(Types.INT())])])
    path = write(tmp_path, f'{{"id": 1}}\n{line}\n{{"id": 2}}\n')
    with pytest.raises(SourceError, match=rf"a\.jsonl, line 2: .*{reason}"):
        read_json(path, type_info)
    assert [row.id for row in read_json(path, type_info, RecordErrorPolicy.skip())] == [1, 2]


def test_undecodable_json_is_a_bad_record(tmp_path: Path) -> None:
    path = write(tmp_path, b'"a"\n"\xff"\n')
    with pytest.raises(SourceError, match=r"line 2: .*character set"):
        read_json(path)
    assert read_json(path, None, RecordErrorPolicy.skip()) == ["a"]


def test_json_of_any_depth_is_a_bad_record(tmp_path: Path) -> None:
    # A value that can just be decoded may be too deep for the message that shows it.
    depth = sys.getrecursionlimit()
    path = write(tmp_path, "\n".join("[" * each + "]" * each for each in range(depth - 100, depth + 1)) + "\n1\n")
    assert read_json(path, Types.INT(), RecordErrorPolicy.skip()) == [1]


class OfTheUsersOwn(TypeInformation):
    """No type that a format knows."""


def test_types_without_a_json_form_are_refused() -> None:
    with pytest.raises(InvalidProgramError, match="STRING keys"):
        StreamFormat.json_lines_format(Types.MAP(Types.INT(), Types.INT()))
    with pytest.raises(InvalidProgramError, match="cannot be read from JSON"):
        StreamFormat.json_lines_format(OfTheUsersOwn())


def parquet(format_: BulkFormat, path: Path, **run: Any) -> list[Any]:
    return SourceRun(FileSource.for_bulk_file_format(format_, str(path)).build(), **run).values()


def many(path: Path, rows: int = 100, group: int = 10) -> None:
    pq.write_table(pa.table({"id": list(range(rows)), "name": [f"n{i}" for i in range(rows)]}), path, row_group_size=group)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("restart_readers", [False, True])
@pytest.mark.parametrize("credit", [1, 3, 1000])
def test_parquet_rows_come_in_order_after_any_restart(tmp_path: Path, credit: int, restart_readers: bool) -> None:
    many(tmp_path / "a.parquet")
    format_ = BulkFormat.parquet_format(Types.ROW_NAMED(["name", "id"], [Types.STRING(), Types.LONG()]), batch_size=4)
    rows = parquet(format_, tmp_path, credit=credit, restart_readers=restart_readers)
    assert rows == [Row(name=f"n{i}", id=i) for i in range(100)]


@pytest.mark.usefixtures("both_ways")
def test_parquet_files_are_cut_at_row_groups(tmp_path: Path) -> None:
    many(tmp_path / "a.parquet")
    source = (
        FileSource.for_bulk_file_format(BulkFormat.parquet_format(columns=["id"]), str(tmp_path))
        .set_file_enumerator(FileEnumeratorProvider.default_splittable_file_enumerator(200))
        .build()
    )
    result = SourceRun(source, parallelism=3, credit=7, restart_readers=True).by_subtask()
    assert all(result.values())
    assert sorted(row.id for rows in result.values() for row in rows) == list(range(100))


@pytest.mark.usefixtures("both_ways")
def test_parquet_without_a_type_takes_that_of_the_file(tmp_path: Path) -> None:
    when = datetime.datetime(2021, 1, 9, 10, tzinfo=datetime.UTC)
    table = pa.table(
        {
            "small": pa.array([1], pa.uint8()),
            "words": pa.array(["x"]).dictionary_encode(),
            "zoned": pa.array([when], pa.timestamp("ns", "UTC")),
            "local": pa.array([when.replace(tzinfo=None)], pa.timestamp("ns")),
            "price": pa.array([decimal.Decimal("1.50")], pa.decimal128(10, 2)),
            "data": pa.array([b"x"]),
            "list": pa.array([[1, None]], pa.list_(pa.int32())),
            "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
            "sub": pa.array([{"x": 1.5}]),
            "none": pa.array([None]),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    (row,) = parquet(BulkFormat.parquet_format(), tmp_path)
    assert row == Row(
        small=1, words="x", zoned=Instant(int(when.timestamp()), 0), local=when.replace(tzinfo=None),
        price=decimal.Decimal("1.50"),
        data=b"x", list=[1, None], map={"k": 1}, sub=Row(x=1.5), none=None,
    )  # fmt: skip


@pytest.mark.usefixtures("both_ways")
def test_texts_and_bytes_in_the_layout_of_deltalake_are_read(tmp_path: Path) -> None:
    table = pa.table({"s": ["a", None], "b": [b"x", None]}).cast(pa.schema([("s", pa.string_view()), ("b", pa.binary_view())]))
    pq.write_table(table, tmp_path / "a.parquet")
    typed = Types.ROW_NAMED(["s", "b"], [Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE())])
    for type_info in (None, typed):
        source = FileSource.for_bulk_file_format(BulkFormat.parquet_format(type_info), str(tmp_path)).build()
        assert SourceRun(source).values() == [Row(s="a", b=b"x"), Row(s=None, b=None)]


@pytest.mark.usefixtures("both_ways")
def test_parquet_columns_are_widened_but_not_narrowed_with_loss(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": pa.array([1, 2**40], pa.int64())}), tmp_path / "a.parquet")
    assert parquet(BulkFormat.parquet_format(Types.TUPLE([Types.DOUBLE()])), tmp_path) == [(1.0,), (float(2**40),)]
    with pytest.raises(SourceError, match=r"a\.parquet, row 2: column 'v' is int64 in the file, which cannot be read as Integer"):
        parquet(BulkFormat.parquet_format(Types.ROW_NAMED(["v"], [Types.INT()])), tmp_path)


@pytest.mark.usefixtures("both_ways")
def test_rows_with_values_that_do_not_fit_are_bad_records(tmp_path: Path) -> None:
    values = [1, 2**40, 3, -(2**40), 5]
    pq.write_table(pa.table({"v": pa.array(values, pa.int64()), "k": list("abcde")}), tmp_path / "a.parquet", row_group_size=3)
    format_ = BulkFormat.parquet_format(Types.ROW_NAMED(["v", "k"], [Types.INT(), Types.STRING()]))
    good = [Row(v=1, k="a"), Row(v=3, k="c"), Row(v=5, k="e")]
    for credit in (1, 2, 100):
        for restart in (False, True):
            source = FileSource.for_bulk_file_format(format_, str(tmp_path)).on_record_error(RecordErrorPolicy.skip()).build()
            run = SourceRun(source, credit=credit, restart_readers=restart)
            assert run.values() == good
            assert run.metric_group.counters[RECORD_ERRORS_METRIC].count == 2
    tag = OutputTag("bad", RECORD_ERROR_TYPE)
    source = FileSource.for_bulk_file_format(format_, str(tmp_path)).on_record_error(RecordErrorPolicy.side_output(tag)).build()
    bad = [value.value for value in SourceRun(source).values() if not isinstance(value, Row)]
    assert [(row.line, row.record) for row in bad] == [(2, f"{2**40}, b"), (4, f"{-(2**40)}, d")]


@pytest.mark.usefixtures("both_ways")
def test_a_column_of_a_type_that_never_fits_fails_whatever_the_policy(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [{"x": 1}]}), tmp_path / "a.parquet")
    format_ = BulkFormat.parquet_format(Types.ROW_NAMED(["v"], [Types.INT()]))
    source = FileSource.for_bulk_file_format(format_, str(tmp_path)).on_record_error(RecordErrorPolicy.skip()).build()
    with pytest.raises(
        SourceError, match=r"a\.parquet: column 'v' is struct<x: int64> in the file, which cannot be read as Integer"
    ):
        SourceRun(source).values()


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(
    ("values", "type_info"),
    [
        (pa.array([0.1]), Types.FLOAT()),  # rounded, and infinity from 1e39 on
        (pa.array([0.1]), Types.BIG_DEC()),
        (pa.array([1.5]), Types.BIG_INT()),
        (pa.array([1_700_000_000_000]), Types.SQL_TIMESTAMP()),  # milliseconds, taken for microseconds
        (pa.array([datetime.datetime(2024, 1, 1)]), Types.LONG()),
        (pa.array([datetime.datetime(2024, 1, 1, 5)]), Types.SQL_DATE()),
        (pa.array([5]), Types.STRING()),
        (pa.array(["5"]), Types.INT()),
        (pa.array([5]), Types.BOOLEAN()),
        (pa.array([[0.1]]), Types.LIST(Types.FLOAT())),
        (pa.array([{"x": 1}]), Types.ROW_NAMED(["x", "z"], [Types.LONG(), Types.LONG()])),
        (pa.array([{"x": 1}]), Types.TUPLE([Types.LONG(), Types.LONG()])),
    ],
)
def test_columns_are_not_read_as_types_of_another_meaning(tmp_path: Path, values: pa.Array, type_info: TypeInformation) -> None:
    pq.write_table(pa.table({"v": values}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet: column 'v' is .* in the file, which cannot be read as"):
        parquet(BulkFormat.parquet_format(Types.ROW_NAMED(["v"], [type_info])), tmp_path)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize(
    ("values", "type_info", "reason"),
    [
        (pa.array([decimal.Decimal("1.99")]), Types.BIG_INT(), "data loss"),
        (pa.array([2**61 // 125], pa.timestamp("ms")), Types.SQL_TIMESTAMP(), "out of bounds"),
        (pa.array([[1, None]]), Types.PRIMITIVE_ARRAY(Types.LONG()), "has a null"),
    ],
)
def test_values_that_would_lose_something_are_bad_records(
    tmp_path: Path, values: pa.Array, type_info: TypeInformation, reason: str
) -> None:
    pq.write_table(pa.table({"v": values}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=rf"a\.parquet, row 1: .*{reason}"):
        parquet(BulkFormat.parquet_format(Types.ROW_NAMED(["v"], [type_info])), tmp_path)


@pytest.mark.usefixtures("both_ways")
def test_nested_tuples_go_by_position_and_nested_rows_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"v": [[{"x": 1, "y": "a"}]], "w": [{"x": 2, "y": "b"}]}), tmp_path / "a.parquet")
    tuples, rows = Types.TUPLE([Types.LONG(), Types.STRING()]), Types.ROW_NAMED(["y", "x"], [Types.STRING(), Types.LONG()])
    (row,) = parquet(BulkFormat.parquet_format(Types.ROW_NAMED(["v", "w"], [Types.LIST(tuples), rows])), tmp_path)
    assert row == Row(v=[(1, "a")], w=Row(y="b", x=2))


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("type_info", [None, Types.ROW_NAMED(["a", "b"], [Types.LONG()] * 2), Types.TUPLE([Types.LONG()] * 3)])
def test_a_parquet_column_that_stands_twice_is_refused(tmp_path: Path, type_info: TypeInformation | None) -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "b"])
    pq.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"column 'a' could be any of \['a', 'a'\]"):
        parquet(BulkFormat.parquet_format(type_info), tmp_path)


@pytest.mark.usefixtures("both_ways")
def test_times_in_int96_are_right_in_all_years(tmp_path: Path) -> None:
    times = [datetime.datetime(1600, 1, 1), datetime.datetime(2300, 7, 1, 12), datetime.datetime(9999, 12, 31, 23, 59, 59)]
    table = pa.table({"t": pa.array(times, pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    for type_info in (None, Types.ROW_NAMED(["t"], [Types.SQL_TIMESTAMP()])):
        assert [row.t for row in parquet(BulkFormat.parquet_format(type_info), tmp_path)] == times


@pytest.mark.usefixtures("both_ways")
def test_a_datetime_has_no_nanoseconds_but_a_point_in_time_keeps_them_also_before_1970(tmp_path: Path) -> None:
    nanos = [-1, -1001, 1999]
    table = pa.table({"t": pa.array(nanos, pa.timestamp("ns")), "i": pa.array(nanos, pa.timestamp("ns", "Europe/Berlin"))})
    pq.write_table(table, tmp_path / "a.parquet")
    rows = parquet(BulkFormat.parquet_format(Types.ROW_NAMED(["t", "i"], [Types.SQL_TIMESTAMP(), Types.INSTANT()])), tmp_path)
    assert [row.t for row in rows] == [datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=n // 1000) for n in nanos]
    assert [row.i for row in rows] == [Instant(-1, 999_999_999), Instant(-1, 999_998_999), Instant(0, 1999)]


@pytest.mark.usefixtures("both_ways")
def test_a_time_of_day_has_no_nanoseconds(tmp_path: Path) -> None:
    nanos = pa.array([1999, 86_399_999_999_999, None], pa.int64())
    pq.write_table(pa.table({"t": nanos.view(pa.time64("ns"))}), tmp_path / "a.parquet")
    for type_info in (None, Types.ROW_NAMED(["t"], [Types.SQL_TIME()])):
        rows = parquet(BulkFormat.parquet_format(type_info), tmp_path)
        assert [row.t for row in rows] == [datetime.time(0, 0, 0, 1), datetime.time.max, None]


@pytest.mark.usefixtures("both_ways")
def test_a_point_in_time_is_read_as_utc_where_the_type_has_no_zone(tmp_path: Path) -> None:
    when = datetime.datetime(2021, 1, 9, 10, tzinfo=datetime.UTC)
    pq.write_table(pa.table({"t": pa.array([when], pa.timestamp("us", "Europe/Berlin"))}), tmp_path / "a.parquet")
    (row,) = parquet(BulkFormat.parquet_format(Types.ROW_NAMED(["t"], [Types.SQL_TIMESTAMP()])), tmp_path)
    assert row.t == datetime.datetime(2021, 1, 9, 10)


@pytest.mark.usefixtures("both_ways")
def test_missing_parquet_columns_are_named(tmp_path: Path) -> None:
    many(tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"a\.parquet: columns \['x'\] are missing; the file has \['id', 'name'\]"):
        parquet(BulkFormat.parquet_format(columns=["x"]), tmp_path)


def test_a_column_of_maps_whose_keys_are_lists_is_named(tmp_path: Path) -> None:
    maps = pa.array([[([1], 2)]], pa.map_(pa.list_(pa.int64()), pa.int64()))
    pq.write_table(pa.table({"m": maps, "n": [7]}), tmp_path / "a.parquet")
    with pytest.raises(
        SourceError, match=r"a\.parquet: column 'm' has the Arrow type map<.*lists and dicts; got ListTypeInfo<Long>"
    ):
        parquet(BulkFormat.parquet_format(), tmp_path)
    assert parquet(BulkFormat.parquet_format(columns=["n"]), tmp_path) == [Row(n=7)]


@pytest.mark.usefixtures("both_ways")
def test_what_is_no_parquet_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("text")
    with pytest.raises(SourceError, match=r"a\.parquet is not a Parquet file"):
        parquet(BulkFormat.parquet_format(), tmp_path)


@pytest.mark.usefixtures("both_ways")
def test_an_empty_parquet_file_has_no_rows(tmp_path: Path) -> None:
    many(tmp_path / "a.parquet", rows=0)
    assert parquet(BulkFormat.parquet_format(), tmp_path) == []


@pytest.mark.parametrize("format_class", [JsonLinesFormat, ParquetFormat, ParquetColumnarRowInputFormat])
def test_records_are_new_unless_the_reader_is_that_of_a_subclass(format_class: Any) -> None:
    class Own(format_class):  # type: ignore[misc]
        def open(self, *args: Any, **kwargs: Any) -> Any:
            """Return a reader that may keep its records."""

    row = Types.ROW_NAMED(["a"], [Types.LONG()])
    assert format_class(row).makes_new_records
    assert not Own(row).makes_new_records


def test_wrong_settings_of_parquet_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="ROW_NAMED"):
        BulkFormat.parquet_format(Types.STRING())
    with pytest.raises(InvalidProgramError, match="either a type_info or columns"):
        BulkFormat.parquet_format(Types.ROW([Types.INT()]), columns=["a"])
    with pytest.raises(InvalidArgumentError, match="BulkFormat"):
        FileSource.for_bulk_file_format(StreamFormat.text_line_format(), "/tmp")  # type: ignore[arg-type]

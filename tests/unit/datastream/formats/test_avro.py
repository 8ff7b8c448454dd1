"""Avro: files block by block, damage, schema resolution, writers; records as messages."""

from __future__ import annotations

import datetime
import decimal
import gzip
import io
import itertools
import json
import math
import random
import time
import uuid
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinkish.common.column_layout import Layout
from flinkish.common.columns import Columns
from flinkish.common.conversion import converter
from flinkish.common.errors import (
    DeserializationError,
    InvalidArgumentError,
    InvalidProgramError,
    SourceError,
    TypeMismatchError,
    UnsupportedError,
)
from flinkish.common.pickling import dumps, loads
from flinkish.common.time import Instant
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.common.types import Row
from flinkish.datastream.connectors.file_system import BulkFormat, FileCompactor, FileEnumeratorProvider, FileSource
from flinkish.datastream.connectors.record_errors import RECORD_ERROR_TYPE, RECORD_ERRORS_METRIC, RecordErrorPolicy
from flinkish.datastream.formats.avro import (
    AvroBulkWriters,
    AvroInputFormat,
    AvroRowDeserializationSchema,
    AvroRowSerializationSchema,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from flinkish.datastream.formats.parquet import AvroParquetReaders
from flinkish.datastream.output_tag import OutputTag
from tests.unit.datastream.connectors.fakes import FakeMetricGroup, SourceRun
from tests.unit.datastream.formats import support

NUMBERS = AvroSchema(
    {"type": "record", "name": "Number", "fields": [{"name": "n", "type": "long"}, {"name": "text", "type": "string"}]}
)


def number(n: int) -> dict[str, Any]:
    return {"n": n, "text": f"number {n}"}


def avro_file(path: Path, count: int = 100, codec: str = "null", per_block: int = 10) -> Path:
    """Write a file of some records in each block."""
    size = len(number(0)["text"]) + 2
    with open(path, "wb") as file:
        fastavro.writer(file, NUMBERS.parsed, map(number, range(count)), codec=codec, sync_interval=size * per_block)
    return path


def blocks(path: Path) -> list[Any]:
    with open(path, "rb") as file:
        return list(fastavro.block_reader(file))


# Reading.


@pytest.mark.parametrize("restart_readers", [False, True])
@pytest.mark.parametrize("credit", [1, 3, 10, 1000])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_records_come_in_order_after_any_restart(tmp_path: Path, codec: str, credit: int, restart_readers: bool) -> None:
    path = avro_file(tmp_path / "a.avro", codec=codec)
    assert len(blocks(path)) > 5
    found = support.read(path, BulkFormat.avro_format(NUMBERS), credit=credit, restart_readers=restart_readers)
    assert found == [number(i) for i in range(100)]


@pytest.mark.parametrize("block_size", [1, 50, 100, 333, 1000, 5000, 100_000])
def test_a_file_cut_anywhere_is_read_once(tmp_path: Path, block_size: int) -> None:
    path = avro_file(tmp_path / "a.avro")
    source = (
        FileSource.for_bulk_file_format(BulkFormat.avro_format(NUMBERS), str(path))
        .set_file_enumerator(FileEnumeratorProvider.default_splittable_file_enumerator(block_size))
        .build()
    )
    if block_size < 50:
        values = SourceRun(source, parallelism=2, credit=50).values()
    else:
        by_subtask = SourceRun(source, parallelism=3, credit=7, restart_readers=True).by_subtask()
        assert block_size >= 1000 or all(by_subtask.values())
        values = [value for values in by_subtask.values() for value in values]
    assert sorted(value["n"] for value in values) == list(range(100))


def test_every_position_in_a_file_is_in_the_region_of_the_marker_before_it(tmp_path: Path) -> None:
    """Cuts at every byte around a marker: no block is lost or read by two."""
    path = avro_file(tmp_path / "a.avro", count=30)
    size = path.stat().st_size
    format_ = BulkFormat.avro_format(NUMBERS)
    source = FileSource.for_bulk_file_format(format_, str(path)).build()
    second = blocks(path)[1].offset
    for cut in range(second - 20, second + 5):
        found = []
        for split in format_.cut(str(path), size, cut):
            reader = format_.open(split, source.create_reader(_context())._errors)  # type: ignore[attr-defined]
            while records := reader.read(4):
                found += [record["n"] for record in records]
            assert reader.finished
            reader.close()
        assert found == list(range(30)), cut


def _context() -> Any:
    from tests.unit.datastream.connectors.fakes import FakeReaderContext

    return FakeReaderContext()


def test_without_a_schema_records_are_what_the_file_says(tmp_path: Path) -> None:
    path = avro_file(tmp_path / "a.avro", count=2)
    assert support.read(path, BulkFormat.avro_format()) == [number(0), number(1)]
    assert BulkFormat.avro_format().produced_type() is None
    assert BulkFormat.avro_format(NUMBERS).produced_type() == GenericRecordAvroTypeInfo(NUMBERS)


def test_an_empty_file_of_records_and_a_compressed_one(tmp_path: Path) -> None:
    assert support.read(avro_file(tmp_path / "a.avro", count=0), BulkFormat.avro_format(NUMBERS)) == []
    packed = tmp_path / "b.avro.gz"
    packed.write_bytes(gzip.compress(avro_file(tmp_path / "a.avro").read_bytes()))
    for restart in (False, True):
        found = support.read(packed, BulkFormat.avro_format(NUMBERS), credit=7, restart_readers=restart)
        assert found == [number(i) for i in range(100)]


LATER = AvroSchema(
    {
        "type": "record",
        "name": "Number",
        "fields": [
            {"name": "n", "type": "double"},
            {"name": "unit", "type": ["null", "string"], "default": None},
            {"name": "label", "type": "string", "aliases": ["text"]},
        ],
    }
)


def test_files_are_resolved_to_the_declared_schema(tmp_path: Path) -> None:
    path = avro_file(tmp_path / "a.avro", count=2)
    expected = [{"n": float(i), "unit": None, "label": f"number {i}"} for i in range(2)]
    assert support.read(path, BulkFormat.avro_format(LATER), restart_readers=True, credit=1) == expected


def test_a_schema_that_does_not_fit_fails_with_both_whatever_the_policy(tmp_path: Path) -> None:
    path = avro_file(tmp_path / "a.avro", count=20)
    other = AvroSchema(
        {"type": "record", "name": "Number", "fields": [{"name": "n", "type": "int"}, {"name": "x", "type": "int"}]}
    )
    for policy in (RecordErrorPolicy.fail(), RecordErrorPolicy.skip()):
        with pytest.raises(
            SourceError, match=r"a\.avro, block at byte \d+: .*cannot be read as the declared schema.*\"text\".*\"x\""
        ):
            support.read(path, BulkFormat.avro_format(other), policy)


def damage(path: Path, block: int, at: int = 6) -> tuple[int, list[int]]:
    """Spoil a block; returns where it begins and what is left of the numbers."""
    found = blocks(path)
    data = bytearray(path.read_bytes())
    begin = found[block].offset
    data[begin + at] = 0xFF
    path.write_bytes(data)
    left = [record["n"] for index, each in enumerate(found) if index != block % len(found) for record in each]
    return begin, left


@pytest.mark.parametrize("block", [0, 3, -1])
@pytest.mark.parametrize("codec", ["null", "deflate"])
def test_a_damaged_block_is_one_bad_record(tmp_path: Path, codec: str, block: int) -> None:
    path = avro_file(tmp_path / "a.avro", codec=codec)
    begin, left = damage(path, block, at=3 if codec == "deflate" else 6)
    with pytest.raises(SourceError, match=rf"a\.avro, block at byte {begin}: the block is damaged"):
        support.read(path, BulkFormat.avro_format(NUMBERS))
    for credit in (1, 7, 1000):
        for restart in (False, True):
            metrics = FakeMetricGroup()
            found = support.read(
                path, BulkFormat.avro_format(NUMBERS), RecordErrorPolicy.skip(), credit=credit, restart_readers=restart,
                metric_group=metrics,
            )  # fmt: skip
            assert [record["n"] for record in found] == left
            assert metrics.counters[RECORD_ERRORS_METRIC].count == 1
    aside = RecordErrorPolicy.side_output(OutputTag("bad", RECORD_ERROR_TYPE))
    (bad,) = [value.value for value in support.read(path, BulkFormat.avro_format(NUMBERS), aside) if not isinstance(value, dict)]
    assert (bad.path, bad.line) == (str(path), begin)


def test_two_damaged_blocks_in_a_row_and_a_damaged_marker(tmp_path: Path) -> None:
    path = avro_file(tmp_path / "a.avro")
    found = blocks(path)
    data = bytearray(path.read_bytes())
    data[found[2].offset + 6] = data[found[3].offset + 6] = 0xFF
    data[found[6].offset - 1] ^= 0xFF  # of the marker behind block 5: that block and the next one cannot be told apart
    path.write_bytes(data)
    left = [record["n"] for index, block in enumerate(found) if index not in (2, 3, 5, 6) for record in block]
    for restart in (False, True):
        read = support.read(path, BulkFormat.avro_format(NUMBERS), RecordErrorPolicy.skip(), credit=3, restart_readers=restart)
        assert [record["n"] for record in read] == left


def test_a_file_that_was_cut_short_when_it_was_found_ends_in_a_bad_block(tmp_path: Path) -> None:
    path = avro_file(tmp_path / "a.avro")
    last = blocks(path)[-1]
    path.write_bytes(path.read_bytes()[: last.offset + 9])
    with pytest.raises(SourceError, match=f"block at byte {last.offset}: the block is damaged"):
        support.read(path, BulkFormat.avro_format(NUMBERS))
    read = support.read(path, BulkFormat.avro_format(NUMBERS), RecordErrorPolicy.skip())
    assert len(read) == 100 - last.num_records


@pytest.mark.parametrize("data", [b"", b"text", b"Obj\x01", b"Obj\x01" + bytes(100)])
def test_what_is_no_avro_file_is_named(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.avro").write_bytes(data)
    with pytest.raises(SourceError, match=r"a\.avro is not an Avro file, or it is damaged"):
        support.read(tmp_path / "a.avro", BulkFormat.avro_format(NUMBERS))


def test_a_damaged_compressed_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.avro.gz"
    path.write_bytes(gzip.compress(avro_file(tmp_path / "a.avro", count=5000).read_bytes())[:-2000])
    with pytest.raises(SourceError, match=r"cannot decompress .*a\.avro\.gz"):
        support.read(path, BulkFormat.avro_format(NUMBERS))


# Writing.

EVERYTHING = AvroSchema(
    {
        "type": "record",
        "name": "Everything",
        "fields": [
            {"name": "null", "type": "null"},
            {"name": "boolean", "type": "boolean"},
            {"name": "int", "type": "int"},
            {"name": "long", "type": "long"},
            {"name": "float", "type": "float"},
            {"name": "double", "type": "double"},
            {"name": "string", "type": "string"},
            {"name": "bytes", "type": "bytes"},
            {"name": "fixed", "type": {"type": "fixed", "name": "Two", "size": 2}},
            {"name": "suit", "type": {"type": "enum", "name": "Suit", "symbols": ["SPADES", "HEARTS"]}},
            {"name": "union", "type": ["int", "double", "null"]},
            {"name": "maybe", "type": ["null", "string"], "default": None},
            {"name": "array", "type": {"type": "array", "items": {"type": "record", "name": "Item", "fields": [
                {"name": "x", "type": "int"}, {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}}]}}},
            {"name": "map", "type": {"type": "map", "values": ["null", "long"]}},
            {"name": "again", "type": ["null", "Item"], "default": None},
            {"name": "date", "type": {"type": "int", "logicalType": "date"}},
            {"name": "time", "type": {"type": "long", "logicalType": "time-micros"}},
            {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
            {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
            {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        ],
    }
)  # fmt: skip
MOMENT = datetime.datetime(2021, 1, 9, 10, 11, 12, 123000, tzinfo=datetime.UTC)
ID = uuid.UUID("12345678-1234-5678-1234-567812345678")


def everything(i: int = 0) -> dict[str, Any]:
    return {
        "null": None, "boolean": True, "int": i, "long": 2**40, "float": 1.5, "double": 0.1, "string": "ü", "bytes": b"\x00",
        "fixed": b"ab", "suit": "HEARTS", "union": [1, 2.5, None][i % 3], "maybe": [None, "x"][i % 2],
        "array": [{"x": 1, "at": MOMENT}], "map": {"a": 1, "b": None}, "again": [None, {"x": 2, "at": MOMENT}][i % 2],
        "date": MOMENT.date(), "time": datetime.time(1, 2, 3, 4), "local": datetime.datetime(2021, 1, 9, 1, 2, 3, 4),
        "price": decimal.Decimal("12.50"), "id": ID,
    }  # fmt: skip


def test_records_of_all_kinds_are_written_and_read(tmp_path: Path) -> None:
    records = [everything(i) for i in range(6)]
    factory = AvroBulkWriters.for_generic_record(EVERYTHING)
    path = support.write(tmp_path, factory, records, GenericRecordAvroTypeInfo(EVERYTHING))
    assert support.read(path, BulkFormat.avro_format(EVERYTHING)) == records
    with open(path, "rb") as file:
        found = fastavro.reader(file)
        assert (found.codec, list(found)) == ("null", records)


def test_many_records_are_written_in_blocks_that_readers_can_share(tmp_path: Path) -> None:
    records = [number(i) for i in range(20_000)]
    path = support.write(tmp_path, AvroBulkWriters.for_generic_record(NUMBERS), records)
    assert all(block.size < 70_000 for block in blocks(path))
    assert len(blocks(path)) > 5
    assert support.read(path, BulkFormat.avro_format(NUMBERS), credit=3000) == records


def test_rows_are_written_as_records_with_what_they_hold(tmp_path: Path) -> None:
    record = everything(1)
    values = {**record, "again": Row(x=2, at=Instant(1610187072, 123_000_000)), "array": [Row(1, MOMENT.replace(tzinfo=None))]}
    row = Row(**values)
    path = support.write(tmp_path, AvroBulkWriters.for_generic_record(EVERYTHING), [row, Row(*values.values())])
    assert support.read(path, BulkFormat.avro_format()) == [record, record]


def test_missing_fields_take_their_defaults(tmp_path: Path) -> None:
    records = [{"n": 1.0, "label": "x"}]
    path = support.write(tmp_path, AvroBulkWriters.for_generic_record(LATER), records)
    assert support.read(path, BulkFormat.avro_format()) == [{"n": 1.0, "unit": None, "label": "x"}]


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"n": 1}, "text"), ({"n": "1", "text": "x"}, r"Number\.n is <1> of type <class 'str'> expected long"),
        ({"n": 1, "text": "x", "more": 1}, "more"), (5, "expected"), (None, "None"), ({"n": 2**63, "text": ""}, "long"),
        (Row(n=1), "expected 2 fields|do not exist"),
    ],
)  # fmt: skip
def test_records_of_another_schema_are_refused(tmp_path: Path, record: Any, reason: str) -> None:
    with pytest.raises(TypeMismatchError, match=f"the record is not of its Avro schema: .*{reason}"):
        support.write(tmp_path, AvroBulkWriters.for_generic_record(NUMBERS), [number(1), record])


def field(field_type: Any, **more: Any) -> AvroSchema:
    return AvroSchema({"type": "record", "name": "R", "fields": [{"name": "a", "type": field_type, **more}]})


ZONE = datetime.timezone(datetime.timedelta(hours=2))
NESTED = {"type": "record", "name": "Inner", "fields": [{"name": "x", "type": ["null", "int"]}]}


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize(
    ("field_type", "value"),
    [
        ("int", 1.5),
        ("int", 2**31),
        ("long", True),
        (["null", "long"], 1.5),
        ({"type": "array", "items": "string"}, "abc"),
        ({"type": "array", "items": "int"}, [1, 1.5]),
        ({"type": "map", "values": "int"}, {"k": 1.5}),
        (NESTED, {"x": 1.5}),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, datetime.datetime(2024, 1, 1, tzinfo=ZONE)),
        ({"type": "int", "logicalType": "time-millis"}, datetime.time(1, tzinfo=ZONE)),
    ],
)
def test_values_that_fastavro_would_change_are_refused(tmp_path: Path, field_type: Any, value: Any, rows: bool) -> None:
    record = Row(a=Row(**value) if field_type is NESTED else value) if rows else {"a": value}
    with pytest.raises(TypeMismatchError, match="the record is not of its Avro schema"):
        support.write(tmp_path, AvroBulkWriters.for_generic_record(field(field_type)), [record])
    with pytest.raises(TypeMismatchError, match="the record is not of its Avro schema"):
        AvroRowSerializationSchema(avro_schema_string=str(field(field_type))).serialize(record if rows else Row(**record))


DAY, CLOCK = {"type": "int", "logicalType": "date"}, {"type": "int", "logicalType": "time-millis"}
LOCAL, FINE_CLOCK = ({"type": "long", "logicalType": name} for name in ("local-timestamp-micros", "time-micros"))
POINT = {"type": "long", "logicalType": "timestamp-micros"}
AT = datetime.datetime(2024, 1, 1, 5, tzinfo=datetime.UTC)


FLOATS = {"type": "record", "name": "F", "fields": [{"name": "x", "type": "float"}, {"name": "f", "type": ["null", "int", "F"]}]}


@pytest.mark.parametrize(
    ("union", "wrong", "right"),
    [
        (["null", "string", FLOATS], {"x": 1e300, "f": None}, {"x": 0.5, "f": {"x": 0.5, "f": 1}}),
        (["string", FLOATS], {"x": 1.0, "f": {"x": 1e300, "f": None}}, {"x": 0.5, "f": None}),
        (["string", {"type": "array", "items": "float"}], [1e300], [0.5]),
        ([FLOATS, {"type": "map", "values": "float"}], {"k": 1e300}, {"k": 0.5}),
        (["string", {"type": "array", "items": CLOCK}], [datetime.time(1, tzinfo=ZONE)], [datetime.time(1)]),
        # fastavro lets a pair of a type's name and a value choose the type.
        (["float", "double"], ("float", 1e300), ("double", 1e300)),
        (["int", "long"], ("int", 2**40), ("long", 2**40)),
        ([FLOATS, "string"], ("F", {"x": 1e300, "f": None}), ("F", {"x": 0.5, "f": None})),
    ],
)
def test_values_within_a_union_of_several_types_are_checked(tmp_path: Path, union: Any, wrong: Any, right: Any) -> None:
    with pytest.raises(TypeMismatchError, match="the record is not of its Avro schema"):
        support.write(tmp_path / "wrong", AvroBulkWriters.for_generic_record(field(union)), [{"a": wrong}])
    path = support.write(tmp_path / "right", AvroBulkWriters.for_generic_record(field(union)), [{"a": right}])
    plain = right[1] if isinstance(right, tuple) else right
    assert support.read(path, BulkFormat.avro_format(field(union))) == [{"a": plain}]


@pytest.mark.parametrize(
    ("union", "wrong", "right"),
    [
        (["null", "double", "long"], 2**53 + 1, [7, 2**53, 1.5, None]),
        (["float", "int"], 2**24 + 1, [7, 2**24, 0.5]),
        (["null", DAY, POINT], AT, [AT.date(), None]),
        ([DAY, LOCAL, "bytes"], AT.replace(tzinfo=None), [AT.date(), b"x"]),
        ([CLOCK, FINE_CLOCK], datetime.time(1, 2, 3, 4), [datetime.time(1, 2, 3, 4000)]),
        (["string", LOCAL], AT, ["x", AT.replace(tzinfo=None)]),
        (["string", CLOCK], datetime.time(1, tzinfo=ZONE), ["x", datetime.time(1)]),
        (["long", "double"], 1.5j, [2**53 + 1, 1.5]),
        (["null", POINT, DAY], 1.5j, [AT, AT.date(), None]),
        ([FINE_CLOCK, CLOCK], 1.5j, [datetime.time(1, 2, 3, 4)]),
        ([DAY, "string"], "2024-01-01", [AT.date()]),
        (["string", DAY], 1.5j, ["2024-01-01", AT.date()]),
        ([DAY, "bytes"], 1.5j, [AT.date(), b"x"]),
    ],
)
def test_values_that_a_union_would_keep_in_part_are_refused(tmp_path: Path, union: Any, wrong: Any, right: list[Any]) -> None:
    schema = field(union)
    with pytest.raises(TypeMismatchError, match="the record is not of its Avro schema"):
        support.write(tmp_path / "wrong", AvroBulkWriters.for_generic_record(schema), [{"a": wrong}])
    with pytest.raises(TypeMismatchError, match="the record is not of its Avro schema"):
        AvroRowSerializationSchema(avro_schema_string=str(schema)).serialize(Row(a=wrong))
    path = support.write(tmp_path / "right", AvroBulkWriters.for_generic_record(schema), [{"a": value} for value in right])
    found = [record["a"] for record in support.read(path, BulkFormat.avro_format(schema))]
    assert found == right
    assert [isinstance(value, datetime.datetime) for value in found] == [isinstance(value, datetime.datetime) for value in right]


@pytest.mark.parametrize("union", [["null", POINT], [POINT, "string"], ["null", "string", POINT]])
def test_a_time_of_a_row_is_in_utc_also_in_a_union_whatever_the_zone_of_the_machine(
    union: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = str(field(union))
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        for value in (AT, AT.replace(tzinfo=None), Instant.of_epoch_milli(int(AT.timestamp() * 1000))):
            message = AvroRowSerializationSchema(avro_schema_string=schema).serialize(Row(a=value))
            found = fastavro.schemaless_reader(io.BytesIO(message), field(union).parsed, None)
            assert found == {"a": AT}
    finally:
        monkeypatch.undo()
        time.tzset()


ONE_INT = {"type": "record", "name": "One", "fields": [{"name": "x", "type": "int"}]}
TWO_INTS = {"type": "record", "name": "Two", "fields": [{"name": "x", "type": "int"}, {"name": "y", "type": "int"}]}
LINE = {"type": "record", "name": "Line", "fields": [{"name": "end", "type": "Named"}]}


@pytest.mark.parametrize(
    ("union", "row", "branch"),
    [
        (["string", "Named"], Row(x=1), 1),
        (["null", LINE, "string"], Row(end=Row(x=1)), 1),
        (["bytes", ONE_INT], Row(x=1), 1),
        ([{"type": "array", "items": "int"}, ONE_INT], Row(x=1), 1),
        ([{"type": "map", "values": "int"}, ONE_INT], Row(x=1), 1),
        ([ONE_INT, {"type": "map", "values": "int"}], Row(x=1), 0),
        ([TWO_INTS, ONE_INT], Row(x=1), 1),
        ([ONE_INT, TWO_INTS], Row(x=1, y=2), 1),
        ([ONE_INT, {"type": "map", "values": "string"}], Row(x="a"), None),
        ([{"type": "array", "items": "int"}, "string"], Row(x=1), None),
    ],
)
def test_a_row_in_a_union_of_several_types_is_one_of_its_records(union: Any, row: Row, branch: int | None) -> None:
    named = {"type": "record", "name": "Named", "fields": [{"name": "x", "type": "int"}]}
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": named}, {"name": "b", "type": union}]}
    writer = AvroRowSerializationSchema(avro_schema_string=json.dumps(schema))
    if branch is None:
        with pytest.raises(TypeMismatchError, match="no record of the union has the values of Row"):
            writer.serialize(Row(a=Row(x=5), b=row))
        return
    message = writer.serialize(Row(a=Row(x=5), b=row))
    assert message[1] == 2 * branch
    found = fastavro.schemaless_reader(io.BytesIO(message), fastavro.parse_schema(schema), None)
    assert found == {"a": {"x": 5}, "b": row.as_dict(recursive=True)}


MILLIS, MICROS = ({"type": "long", "logicalType": f"timestamp-{unit}"} for unit in ("millis", "micros"))


@pytest.mark.parametrize(
    ("written", "declared", "reason"),
    [
        (MICROS, "long", "field 'a' is timestamp-micros in the file, declared is long"),
        ("long", ["null", MILLIS], "field 'a' is long in the file, declared is timestamp-millis"),
        (MICROS, MILLIS, "is timestamp-micros in the file"),
        (
            {"type": "array", "items": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}},
            {"type": "array", "items": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
            r"field 'a\[\]' is decimal of scale 1 in the file",
        ),
        ({"type": "int", "logicalType": "own"}, "int", None),
        ({"type": "string", "avro.java.string": "String"}, "string", None),
        ("int", MILLIS, None),
    ],
)
def test_values_of_another_meaning_than_declared_are_refused(
    tmp_path: Path, written: Any, declared: Any, reason: str | None
) -> None:
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, field(written).parsed, [])
    if reason is None:
        assert support.read(tmp_path / "a.avro", BulkFormat.avro_format(field(declared))) == []
        return
    with pytest.raises(SourceError, match=rf"a\.avro cannot be read as the declared schema: .*{reason}"):
        support.read(tmp_path / "a.avro", BulkFormat.avro_format(field(declared)))


DEFAULTS: list[tuple[Any, Any, Any]] = [
    ("bytes", "\u00ff", b"\xff"),
    ("double", 1, 1.0),
    (["bytes", "null"], "x", b"x"),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, "\u0001", decimal.Decimal("0.01")),
    ({"type": "long", "logicalType": "timestamp-millis"}, 0, datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)),
    ({"type": "array", "items": "bytes"}, ["x"], [b"x"]),
    ({"type": "map", "values": {"type": "fixed", "name": "F", "size": 2}}, {"k": "xy"}, {"k": b"xy"}),
    ({"type": "record", "name": "S", "fields": [{"name": "x", "type": "bytes", "default": "q"}]}, {}, {"x": b"q"}),
]


@pytest.mark.parametrize(("field_type", "default", "value"), DEFAULTS)
def test_defaults_are_values_of_their_own_in_each_record(tmp_path: Path, field_type: Any, default: Any, value: Any) -> None:
    with (tmp_path / "a.avro").open("wb") as file:
        fastavro.writer(file, NUMBERS.parsed, [number(1), number(2)])
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "a.parquet")
    schema = AvroSchema({**field(field_type, default=default).definition, "name": "Number"})
    avro = support.read(tmp_path / "a.avro", BulkFormat.avro_format(schema))
    parquet = support.read(tmp_path / "a.parquet", AvroParquetReaders.for_generic_record(schema))
    for first, second in (avro, parquet):
        assert first == second == {"a": value}
        assert first["a"].__class__ is value.__class__
        assert first["a"] is not second["a"] or not isinstance(value, list | dict)


def test_the_type_checks_what_an_operator_returns() -> None:
    type_info = loads(dumps(GenericRecordAvroTypeInfo(NUMBERS)))
    assert type_info == GenericRecordAvroTypeInfo(NUMBERS)
    assert type_info != GenericRecordAvroTypeInfo(LATER)
    assert type_info != Types.PICKLED_BYTE_ARRAY()
    assert repr(type_info) == f'GenericRecord("{NUMBERS}")'
    convert = converter(type_info)
    assert convert is not None
    record = number(1)
    assert convert(record) is record
    assert convert(None) is None
    with pytest.raises(TypeMismatchError, match=r"Number\.n is <x>"):
        convert({"n": "x", "text": ""})
    in_a_row = converter(Types.ROW([type_info]))
    assert in_a_row is not None
    with pytest.raises(TypeMismatchError, match=r"Number\.text"):
        in_a_row(Row({"n": 1}))


def test_avro_files_are_merged_block_by_block(tmp_path: Path) -> None:
    factory: Any = AvroBulkWriters.for_generic_record(NUMBERS)
    paths = [support.write(tmp_path / str(i), factory, [number(2 * i), number(2 * i + 1)]) for i in range(3)]
    factory.merge([str(path) for path in paths], str(tmp_path / "merged"))
    assert support.read(tmp_path / "merged", BulkFormat.avro_format(NUMBERS)) == [number(i) for i in range(6)]
    with pytest.raises(ValueError, match="has another schema than the sink"):
        AvroBulkWriters.for_generic_record(LATER).merge([str(paths[0])], str(tmp_path / "other"))  # type: ignore[attr-defined]
    with pytest.raises(InvalidProgramError, match="AvroWriterFactory writes cannot be put behind one another"):
        FileCompactor.concat_file_compactor().for_bulk_format(factory)


# Schemas.


def test_a_schema_prints_as_json_and_pickles(tmp_path: Path) -> None:
    text = '{"type":"array","items":"long"}'
    schema = AvroSchema.parse_string('{"type": "array",\n "items": "long"}')
    assert str(schema) == text
    (tmp_path / "a.avsc").write_text(text)
    assert AvroSchema.parse_file(str(tmp_path / "a.avsc")) == schema == loads(dumps(schema))
    assert hash(schema) == hash(AvroSchema.parse_string(text))
    assert repr(schema) == f"AvroSchema({text})"


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("x", "Expecting value"), ('{"type": "record"}', '"name" is a required field'), ('"foo"', "unknown type foo"),
        ('{"type": "record", "name": "a", "fields": [{"name": "x", "type": "foo"}]}', "unknown type foo"), ("5", "not"),
        ('{"type": "enum", "name": "e", "symbols": ["1 x"]}', "symbol"), (None, "needs a str"),
    ],
)  # fmt: skip
def test_what_is_no_schema_is_refused(schema: Any, reason: str) -> None:
    with pytest.raises(InvalidArgumentError, match=reason):
        AvroSchema.parse_string(schema)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    for call in (
        lambda: BulkFormat.avro_format("x"), lambda: AvroBulkWriters.for_generic_record("x"),
        lambda: GenericRecordAvroTypeInfo("x"), lambda: AvroInputFormat(str(tmp_path), "x"),
    ):  # fmt: skip
        with pytest.raises(InvalidArgumentError, match="must be an AvroSchema"):
            call()  # type: ignore[no-untyped-call]
    with pytest.raises(InvalidArgumentError, match=r"cannot read the Avro schema .*none\.avsc"):
        AvroSchema.parse_file(str(tmp_path / "none.avsc"))
    for kind in (AvroRowDeserializationSchema, AvroRowSerializationSchema):
        with pytest.raises(TypeError, match="record_class or avro_schema_string should be specified"):
            kind()
        with pytest.raises(UnsupportedError, match="names a Java class"):
            kind(record_class="org.example.Record")
        with pytest.raises(InvalidProgramError, match="needs the schema of a record"):
            kind(avro_schema_string='"string"')


def test_the_input_format_reads_files(tmp_path: Path) -> None:
    avro_file(tmp_path / "a.avro", count=3)
    input_format = AvroInputFormat(str(tmp_path), NUMBERS)
    assert input_format.get_produced_type() == GenericRecordAvroTypeInfo(NUMBERS)
    assert SourceRun(input_format.create_source()).values() == [number(0), number(1), number(2)]


# Messages.


def test_rows_are_written_to_messages_and_read() -> None:
    text = str(EVERYTHING)
    reader, writer = loads(dumps((AvroRowDeserializationSchema(None, text), AvroRowSerializationSchema(avro_schema_string=text))))
    reader.open()
    writer.open()
    item = Row(x=2, at=MOMENT.replace(tzinfo=None))
    for i in range(6):
        record = everything(i)
        row = Row(**{**record, "array": [Row(x=1, at=MOMENT.replace(tzinfo=None))], "again": [None, item][i % 2], "id": str(ID)})
        message = writer.serialize(row)
        assert fastavro.schemaless_reader(io.BytesIO(message), EVERYTHING.parsed, None) == record
        assert reader.deserialize(message) == row
    pickled, bytes_type = Types.PICKLED_BYTE_ARRAY(), Types.PRIMITIVE_ARRAY(Types.BYTE())
    item_type = Types.ROW_NAMED(["x", "at"], [Types.INT(), Types.SQL_TIMESTAMP()])
    assert repr(reader.get_produced_type()) == repr(
        Types.ROW_NAMED(
            [field["name"] for field in json.loads(text)["fields"]],
            [
                pickled, Types.BOOLEAN(), Types.INT(), Types.LONG(), Types.FLOAT(), Types.DOUBLE(), Types.STRING(), bytes_type,
                bytes_type, Types.STRING(), pickled, Types.STRING(), Types.OBJECT_ARRAY(item_type),
                Types.MAP(Types.STRING(), Types.LONG()), item_type, Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(),
                Types.BIG_DEC(), Types.STRING(),
            ],
        )
    )  # fmt: skip


def test_a_record_that_holds_itself_is_a_row_with_records_further_down() -> None:
    text = '{"type":"record","name":"N","fields":[{"name":"v","type":"int"},{"name":"next","type":["null","N"],"default":null}]}'
    reader, writer = AvroRowDeserializationSchema(None, text), AvroRowSerializationSchema(None, text)
    message = writer.serialize(Row(v=1, next=Row(v=2, next=None)))
    assert reader.deserialize(message) == Row(v=1, next={"v": 2, "next": None})


@pytest.mark.parametrize(
    ("message", "reason"),
    [(b"", "EOFError"), (b"\x02\x02", "read 0"), (b"\x02\x02x!", "1 bytes are left over"), (b"\x02\x02\xff", "utf-8")],
)
def test_bytes_that_are_no_record_are_an_error(message: bytes, reason: str) -> None:
    with pytest.raises(DeserializationError, match=f"Failed to deserialize Avro record .*({reason})"):
        AvroRowDeserializationSchema(None, str(NUMBERS)).deserialize(message)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (Row(1), "expected 2 fields"),
        (Row("x", "y"), r"Number\.n is <x>"),
        (Row(a=1, b=2), "do not exist"),
        (Row(text="a", more=1, n=2), r"unknown fields \['more'\]"),
        (5, "expected"),
    ],
)
def test_rows_of_another_type_are_no_messages(row: Any, reason: str) -> None:
    with pytest.raises(TypeMismatchError, match=reason):
        AvroRowSerializationSchema(None, str(NUMBERS)).serialize(row)


def test_a_named_type_with_a_logical_type_is_used_again_by_its_name() -> None:
    money = {"type": "fixed", "name": "Money", "size": 8, "logicalType": "decimal", "precision": 9, "scale": 2}
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": money}, {"name": "b", "type": "Money"}]})
    row = Row(a=decimal.Decimal("1.25"), b=decimal.Decimal("-2.50"))
    message = AvroRowSerializationSchema(avro_schema_string=text).serialize(row)
    assert AvroRowDeserializationSchema(avro_schema_string=text).deserialize(message) == row


_LOGICAL = {
    "date": ("int", [-719162, 0, 2932896]),
    "time-millis": ("int", [0, 86_399_999]),
    "time-micros": ("long", [0, 86_399_999_999]),
    "timestamp-millis": ("long", [-62_135_596_800_000, -1, 253_402_300_799_999]),
    "timestamp-micros": ("long", [-62_135_596_800_000_000, 1, 253_402_300_799_999_999]),
    "local-timestamp-millis": ("long", [-1, 1_700_000_000_123]),
    "local-timestamp-micros": ("long", [-1, 1_700_000_000_123_456]),
}
_TIME = {"type": "long", "logicalType": "timestamp-millis"}
_DAYS = {"type": "record", "name": "Day", "fields": [{"name": "at", "type": _TIME}]}
_ROW = {
    "type": "record",
    "name": "Row",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "t", "type": ["null", "string"]},
        {"name": "at", "type": _TIME},
        {"name": "row", "type": [_DAYS, "null"]},
    ],
}
#: Types that are read as columns, and values of them in the form that is written.
FLAT: dict[str, tuple[Any, list[Any]]] = {
    "boolean": ("boolean", [True, False]),
    "int": ("int", [0, -1, 63, 64, -64, -65, 2**31 - 1, -(2**31)]),
    "long": ("long", [sign * 2**bits - less for bits in range(63) for sign in (1, -1) for less in (0, 1)] + [-(2**63)]),
    "float": ("float", [0.0, -0.0, 1.5, math.nan, math.inf]),
    "double": ("double", [0.1, -0.0, 5e-324, math.nan, -math.inf]),
    "string": ("string", ["", "a", "grün\n", "x" * 200]),
    "bytes": ("bytes", [b"", b"\xff\x00"]),
    "fixed": ({"type": "fixed", "name": "Three", "size": 3}, [b"abc", b"\x80\xff\x00"]),
    "enum": ({"type": "enum", "name": "Colour", "symbols": ["RED", "GREEN"]}, ["RED", "GREEN"]),
    "alone": (["int"], [1, 2]),
    "record": (_ROW, [{"i": 7, "t": None, "at": 0, "row": None}, {"i": -1, "t": "é", "at": -1, "row": {"at": -86_400_000}}]),
    "array": ({"type": "array", "items": "long"}, [[], [1], list(range(9)), [-(2**63), 2**63 - 1]]),
    "texts": ({"type": "array", "items": ["null", "string"]}, [[], [None], ["a", None, "", "é" * 40], ["b"]]),
    "arrays": ({"type": "array", "items": {"type": "array", "items": "boolean"}}, [[], [[]], [[True], [], [False, True]]]),
    "map": ({"type": "map", "values": "int"}, [{}, {"a": 1}, {"b": 2, "": -3, "ä": 2**31 - 1}]),
    "maps": ({"type": "map", "values": ["null", _TIME]}, [{}, {"a": None, "b": 0}]),
    **{name: ({"type": base, "logicalType": name}, values) for name, (base, values) in _LOGICAL.items()},
}


def underlying(schema: Any) -> Any:
    """Return a schema without its logical types, so that fastavro writes plain numbers."""
    match schema:
        case dict():
            return {key: underlying(value) for key, value in schema.items() if key != "logicalType"}
        case list():
            return list(map(underlying, schema))
        case _:
            return schema


def flat_messages(names: list[str], count: int, rng: random.Random) -> tuple[str, list[bytes]]:
    """Return a schema with fields of these types, some of which may be null, and messages of random records."""
    fields: list[dict[str, Any]] = []
    for position, name in enumerate(names):
        # A named type is declared once.
        kind = name if name in ("Three", "Colour") else FLAT[name][0]
        optional = [kind, ["null", kind], [kind, "null"]][0 if isinstance(kind, list) else rng.randrange(3)]
        fields.append({"name": f"f{position}", "type": optional})
    schema = {"type": "record", "name": "Flat", "fields": fields}
    writer = fastavro.parse_schema(underlying(schema))
    messages = []
    for _ in range(count):
        record = {}
        for field, name in zip(fields, names, strict=True):
            nullable = isinstance(field["type"], list) and "null" in field["type"]
            values = FLAT[{"Three": "fixed", "Colour": "enum"}.get(name, name)][1]
            record[field["name"]] = None if nullable and rng.random() < 0.4 else rng.choice(values)
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, writer, record)
        messages.append(buffer.getvalue())
    return json.dumps(schema), messages


def rows_of_batch(schema: AvroRowDeserializationSchema, messages: list[bytes]) -> list[Any] | None:
    batch = schema.deserialize_batch(messages)
    return None if batch is None else Layout(schema.get_produced_type()).records_of(batch)


def test_messages_are_read_as_columns_as_they_are_one_by_one() -> None:
    rng = random.Random(1)
    text, messages = flat_messages([*FLAT, "Three", "Colour"], 700, rng)
    schema = loads(dumps(AvroRowDeserializationSchema(avro_schema_string=text)))
    assert schema.why_records is None
    assert schema.makes_new_records
    rows = list(map(schema.deserialize, messages))
    assert repr(rows_of_batch(schema, messages)) == repr(rows)
    # Each type alone, so that its number of bytes does not hide that of another.
    for name in FLAT:
        text, messages = flat_messages([name], 50, rng)
        schema = AvroRowDeserializationSchema(avro_schema_string=text)
        for some in (messages, messages[:1]):
            assert repr(rows_of_batch(schema, some)) == repr(list(map(schema.deserialize, some))), name


def test_blocks_of_an_array_may_have_sizes() -> None:
    field = {"name": "f", "type": {"type": "array", "items": "long"}}
    schema = AvroRowDeserializationSchema(avro_schema_string=json.dumps({"type": "record", "name": "R", "fields": [field]}))
    blocks = [b"\x04\x02\x04", b"\x01\x02\x06", b"\x03\x04\x08\x0a"]  # [1, 2], [3] with its size, [4, 5] with its size
    messages = [b"".join(some) + b"\x00" for count in range(4) for some in itertools.permutations(blocks, count)]
    rows = list(map(schema.deserialize, messages))
    assert rows[-1] == Row(f=[4, 5, 3, 1, 2])
    assert rows_of_batch(schema, messages) == rows
    # A block of more items than there are bytes.
    assert schema.deserialize_batch([*messages, b"\xfe" + b"\xff" * 8 + b"\x01\x00"]) is None


def test_rows_of_columns_are_written_as_they_are_one_by_one() -> None:
    rng = random.Random(2)
    for names in ([*FLAT, "Three", "Colour"], *([name] for name in FLAT)):
        text, messages = flat_messages(names, 300, rng)
        reader = AvroRowDeserializationSchema(avro_schema_string=text)
        writer = loads(dumps(AvroRowSerializationSchema(avro_schema_string=text)))
        assert writer.why_records is None
        layout = Layout(reader.get_produced_type())
        for some in (messages, messages[:1]):
            batch = reader.deserialize_batch(some)
            assert batch is not None
            assert writer.serialize_columns(Columns(layout, batch, None)) == some, names
            assert writer.serialize_columns(Columns(layout, batch.slice(len(some) // 2), None)) == some[len(some) // 2 :], names
    times = [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_001), datetime.datetime(2000, 1, 1, 0, 0, 0, 1_999)]
    kinds: list[dict[str, Any]] = [{"type": base, "logicalType": name} for name, (base, _) in _LOGICAL.items() if "time" in name]
    for kind in kinds:
        values: list[Any] = [time.time() for time in times] if kind["logicalType"].startswith("time-") else times
        check_written(kind, Types.SQL_TIME() if values is not times else Types.SQL_TIMESTAMP(), values)


def check_written(kind: Any, type_info: TypeInformation, values: list[Any]) -> None:
    """Write rows with a field by columns and one by one; what is refused one by one must not be written by columns."""
    schema = AvroRowSerializationSchema(avro_schema_string=json.dumps(record_of(kind)))
    layout = Layout(Types.ROW_NAMED(["f"], [type_info]))
    rows = [Row(f=value) for value in values]
    try:
        expected = list(map(schema.serialize, rows))
    except TypeMismatchError:
        expected = None
    assert schema.serialize_columns(layout.columns_of(rows, None)) == expected


def record_of(kind: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]}


@pytest.mark.parametrize(
    ("kind", "type_info", "values"),
    [
        ("int", Types.LONG(), [1, 2**31 - 1, -(2**31)]),
        ("int", Types.LONG(), [1, 2**31]),
        ("long", Types.SHORT(), [1, -1]),
        ("int", Types.INT(), [1, None]),
        (["int"], Types.INT(), [1, None]),
        (["null", "int"], Types.INT(), [None]),
        ({"type": "fixed", "name": "F", "size": 2}, Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"ab", b"abc"]),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, Types.STRING(), ["A", "B"]),
        (record_of("int") | {"name": "Q"}, Types.ROW_NAMED(["f"], [Types.INT()]), [Row(f=1), Row(f=-1)]),
        (record_of("int") | {"name": "Q"}, Types.ROW_NAMED(["f"], [Types.INT()]), [Row(f=1), Row(f=None)]),
        ({"type": "array", "items": "int"}, Types.LIST(Types.INT()), [[1], [None]]),
        ({"type": "array", "items": ["int", "null"]}, Types.LIST(Types.INT()), [[None], [], [2, None, 3]]),
        ({"type": "map", "values": "string"}, Types.MAP(Types.STRING(), Types.STRING()), [{"a": "b"}, {"a": None}]),
        (["null", record_of(["null", "int"]) | {"name": "Q"}], Types.ROW_NAMED(["f"], [Types.INT()]), [Row(f=None), None]),
    ],
)
def test_columns_that_do_not_fit_the_schema_are_not_written(kind: Any, type_info: TypeInformation, values: list[Any]) -> None:
    check_written(kind, type_info, values)


def test_columns_of_other_fields_or_types_are_written_one_by_one() -> None:
    schema = AvroRowSerializationSchema(avro_schema_string=json.dumps(record_of("double")))
    for names, types in ((["g"], [Types.DOUBLE()]), (["f"], [Types.FLOAT()]), (["f", "g"], [Types.DOUBLE(), Types.DOUBLE()])):
        columns = Layout(Types.ROW_NAMED(names, types)).columns_of([Row(**dict.fromkeys(names, 1.5))], None)
        assert schema.serialize_columns(columns) is None
    columns = Layout(Types.TUPLE([Types.DOUBLE()])).columns_of([(1.5,)], None)
    assert schema.serialize_columns(columns) is None


@pytest.mark.parametrize("kind", ["array", "map"])
def test_arrays_and_maps_of_very_different_lengths_are_read_one_by_one(kind: str) -> None:
    values = {"type": kind, "items" if kind == "array" else "values": "long"}
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "f", "type": values}]})
    reader, writer = (each(avro_schema_string=schema) for each in (AvroRowDeserializationSchema, AvroRowSerializationSchema))

    def message(length: int) -> bytes:
        return writer.serialize(Row(f=list(range(length)) if kind == "array" else {str(n): n for n in range(length)}))

    short, long = [message(3)] * 1_000, message(20_000)
    assert rows_of_batch(reader, short) == list(map(reader.deserialize, short))
    assert reader.deserialize_batch([*short, long]) is reader.deserialize_batch([long]) is None
    # Many blocks of one item each.
    if kind == "array":
        assert reader.deserialize_batch([b"\x02\x00" * 1_000 + b"\x00"]) is None


@pytest.mark.parametrize("seed", range(20))
def test_columns_hold_no_message_that_cannot_be_read_alone(seed: int) -> None:
    rng = random.Random(seed)
    outcomes = set()
    for _ in range(60):
        names = rng.sample(list(FLAT), rng.randrange(1, 6))
        text, messages = flat_messages(names, rng.randrange(1, 5), rng)
        damaged = bytearray(messages[place := rng.randrange(len(messages))])
        for _ in range(rng.randrange(1, 3)):
            where = rng.randrange(len(damaged) + 1)
            match rng.randrange(3):
                case 0:
                    damaged[where:where] = rng.randbytes(rng.randrange(1, 4))
                case 1:
                    del damaged[where : where + rng.randrange(1, 4)]
                case 2:
                    damaged[where : where + 1] = rng.choice([b"\xff", b"\x80", b"\x01", rng.randbytes(1)])
        messages[place] = bytes(damaged)
        schema = AvroRowDeserializationSchema(avro_schema_string=text)
        try:
            expected = list(map(schema.deserialize, messages))
        except DeserializationError:
            expected = None
        found = rows_of_batch(schema, messages)
        # Bytes that fastavro takes for a value although the specification does not, are left to it.
        assert found is None or repr(found) == repr(expected), (text, messages)
        outcomes.add((expected is None, found is None))
    assert {(True, True), (False, False)} <= outcomes


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("int", b"\x80\x80\x80\x80\x80\x01"),  # more than 32 bits
        ("long", b"\xff" * 9 + b"\x02"),  # more than 64 bits
        ("long", b"\xff" * 10 + b"\x01"),
        ("boolean", b"\x02"),
        ("string", b"\x01"),  # of length -1
        ("string", b"\xfe" + b"\xff" * 8 + b"\x01"),  # of length 2**63 - 1
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02"),
        (["null", "int"], b"\x04\x02"),  # of a third branch
        ({"type": "int", "logicalType": "time-millis"}, b"\x01"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xfe" + b"\xff" * 8 + b"\x01"),
    ],
)
def test_bytes_out_of_the_range_of_their_type_are_no_columns(kind: Any, message: bytes) -> None:
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "f", "type": kind}]})
    assert AvroRowDeserializationSchema(avro_schema_string=text).deserialize_batch([message]) is None


def test_what_is_not_read_as_columns_is_told() -> None:
    class Own(AvroRowDeserializationSchema):
        pass

    def why(*types: Any) -> str:
        fields = [{"name": f"f{position}", "type": each} for position, each in enumerate(types)]
        text = json.dumps({"type": "record", "name": "R", "fields": fields})
        return AvroRowDeserializationSchema(avro_schema_string=text).why_records or ""

    inner = {"type": "record", "name": "Inner", "fields": []}
    for kind in (
        "null", inner, {"type": "array", "items": "null"}, {"type": "map", "values": inner}, ["null", "int", "string"],
        {"type": "bytes", "logicalType": "decimal", "precision": 4}, {"type": "string", "logicalType": "uuid"},
    ):  # fmt: skip
        assert "'f1' of Avro records is read one by one" in why("int", kind)
        within = {"type": "record", "name": "Within", "fields": [{"name": "f", "type": kind}]}
        assert "'f1' of Avro records is read one by one" in why("int", within)
    assert "'f0' of Avro records is read one by one" in why(["null", "R"])
    assert "with fields" in why()
    optional = AvroRowDeserializationSchema(avro_schema_string=json.dumps(["null", NUMBERS.definition]))
    assert "only Avro records" in (optional.why_records or "")
    assert optional.deserialize(b"\x02\x02\x00") == Row(n=1, text="")
    assert "one by one" in (Own(None, str(NUMBERS)).why_records or "")
    for kind in ({"type": "array", "items": "null"}, {"type": "map", "values": inner}, ["int", "string"], ["null", "R"]):
        written = AvroRowSerializationSchema(avro_schema_string=json.dumps(record_of(kind))).why_records or ""
        assert "'f' of Avro records is written one by one" in written
    assert not Own(None, str(NUMBERS)).makes_new_records

"""Parquet and ORC with PyFlink's builders: rows by a row type, records by an Avro schema."""

from __future__ import annotations

import datetime
import decimal
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from flinkish.common.configuration import Configuration
from flinkish.common.errors import (
    InvalidArgumentError,
    InvalidProgramError,
    SourceError,
    TypeMismatchError,
    UnsupportedError,
)
from flinkish.common.pickling import dumps, loads
from flinkish.common.time import Instant
from flinkish.common.typeinfo import Types
from flinkish.common.types import Row
from flinkish.datastream.connectors.file_system import FileEnumeratorProvider, FileSource
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy
from flinkish.datastream.formats.avro import AvroSchema, GenericRecordAvroTypeInfo
from flinkish.datastream.formats.orc import OrcBulkWriters
from flinkish.datastream.formats.parquet import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)
from flinkish.table import DataTypes
from tests.unit.datastream.connectors.fakes import SourceRun
from tests.unit.datastream.formats import support
from tests.unit.datastream.formats.test_avro import EVERYTHING, LATER, NUMBERS, everything, number

pytestmark = pytest.mark.usefixtures("both_ways")


@pytest.fixture
def shanghai() -> Iterator[None]:
    """Have the machine stand in Shanghai, 8 hours before UTC."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "Asia/Shanghai"
    time.tzset()
    yield
    if before is None:
        del os.environ["TZ"]
    else:
        os.environ["TZ"] = before
    time.tzset()


#: PyFlink's own example (test_parquet.py), and arrays and maps.
ROW_TYPE = DataTypes.ROW(
    [
        DataTypes.FIELD("char", DataTypes.CHAR(10)),
        DataTypes.FIELD("varbinary", DataTypes.VARBINARY(10)),
        DataTypes.FIELD("boolean", DataTypes.BOOLEAN()),
        DataTypes.FIELD("decimal", DataTypes.DECIMAL(2, 0)),
        DataTypes.FIELD("int", DataTypes.INT()),
        DataTypes.FIELD("bigint", DataTypes.BIGINT()),
        DataTypes.FIELD("double", DataTypes.DOUBLE()),
        DataTypes.FIELD("date", DataTypes.DATE().bridged_to("java.sql.Date")),
        DataTypes.FIELD("time", DataTypes.TIME().bridged_to("java.sql.Time")),
        DataTypes.FIELD("timestamp", DataTypes.TIMESTAMP(3).bridged_to("java.sql.Timestamp")),
        DataTypes.FIELD("timestamp_ltz", DataTypes.TIMESTAMP_LTZ(3)),
        DataTypes.FIELD("strings", DataTypes.ARRAY(DataTypes.STRING())),
        DataTypes.FIELD("times", DataTypes.ARRAY(DataTypes.TIMESTAMP(3))),
        DataTypes.FIELD("map", DataTypes.MAP(DataTypes.STRING(), DataTypes.INT())),
        DataTypes.FIELD("row", DataTypes.ROW([DataTypes.FIELD("x", DataTypes.TIMESTAMP(3))])),
    ]
)
WHEN = datetime.datetime(1970, 2, 3, 4, 5, 6, 700000)
ROW = Row(
    char="char", varbinary=b"\x00\xff", boolean=True, decimal=decimal.Decimal("1.5"), int=2**31 - 1, bigint=-(2**63), double=1e-3,
    date=WHEN.date(), time=WHEN.time(), timestamp=WHEN, timestamp_ltz=Instant(1, 500_000_000), strings=["x", None], times=[WHEN],
    map={"k": 1, "n": None}, row=Row(x=WHEN),
)  # fmt: skip
READ = Row(**{**ROW.as_dict(), "decimal": decimal.Decimal("2")})
NULLS = Row(**dict.fromkeys(ROW_TYPE.field_names()))


@pytest.mark.parametrize("utc", [True, False])
@pytest.mark.usefixtures("shanghai")
def test_rows_are_written_and_read_with_times_in_utc_or_of_the_machine(tmp_path: Path, utc: bool) -> None:
    factory = ParquetBulkWriters.for_row_type(ROW_TYPE, Configuration(), utc)
    path = support.write(tmp_path, factory, [ROW, NULLS], ROW_TYPE.type_info)
    point = WHEN if utc else WHEN - datetime.timedelta(hours=8)
    stored = pq.read_table(path)
    assert stored.column("timestamp").to_pylist()[0] == point.replace(tzinfo=datetime.UTC)
    assert stored.column("times").to_pylist()[0] == [point.replace(tzinfo=datetime.UTC)]
    assert stored.column("timestamp_ltz").to_pylist()[0].timestamp() == 1.5
    assert str(stored.schema.field("decimal").type) == "decimal128(2, 0)"
    for restart in (False, True):
        format_ = ParquetColumnarRowInputFormat(ROW_TYPE, Configuration(), 10, utc, False)
        assert support.read(path, format_, credit=1, restart_readers=restart) == [READ, NULLS]
    other = ParquetColumnarRowInputFormat(ROW_TYPE, is_utc_timestamp=not utc)
    assert support.read(path, other)[0].timestamp - WHEN == datetime.timedelta(hours=8 if utc else -8)


def test_a_row_type_of_types_does_as_well(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.LIST(Types.STRING())])
    path = support.write(tmp_path, ParquetBulkWriters.for_row_type(row_type), [(1, ["x"]), {"a": 2}, Row(b=[], a=3)])
    assert support.read(path, ParquetColumnarRowInputFormat(row_type)) == [Row(a=1, b=["x"]), Row(a=2, b=None), Row(a=3, b=[])]
    assert ParquetColumnarRowInputFormat(row_type).produced_type() == row_type


def test_columns_may_be_found_whatever_their_case(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ID": [1], "name": ["x"]}), tmp_path / "a.parquet")
    row_type = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("Name", DataTypes.STRING())])
    assert support.read(tmp_path, ParquetColumnarRowInputFormat(row_type, is_case_sensitive=False)) == [Row(id=1, Name="x")]
    with pytest.raises(SourceError, match=r"a\.parquet: columns \['id', 'Name'\] are missing; the file has \['ID', 'name'\]"):
        support.read(tmp_path, ParquetColumnarRowInputFormat(row_type))
    pq.write_table(pa.table({"ID": [1], "id": [2], "name": ["x"]}), tmp_path / "a.parquet")
    with pytest.raises(SourceError, match=r"column 'id' could be any of \['ID', 'id'\]"):
        support.read(tmp_path, ParquetColumnarRowInputFormat(row_type, is_case_sensitive=False))


@pytest.mark.parametrize("merged", [False, True])
def test_a_flipped_bit_in_a_file_is_an_error(tmp_path: Path, merged: bool) -> None:
    row_type = Types.ROW_NAMED(["a"], [Types.LONG()])
    settings = Configuration()
    settings.set_string("parquet.compression", "UNCOMPRESSED")
    factory = ParquetBulkWriters.for_row_type(row_type, settings)
    path = support.write(tmp_path / "a", factory, [(1234567890123,)])
    if merged:
        factory.merge([str(path), str(path)], str(tmp_path / "merged"))  # type: ignore[attr-defined]
        path = tmp_path / "merged"
    data = bytearray(path.read_bytes())
    data[data.index((1234567890123).to_bytes(8, "little"))] ^= 1
    path.write_bytes(data)
    with pytest.raises(SourceError, match=r"cannot read .*; it is damaged"):
        support.read(path, ParquetColumnarRowInputFormat(row_type))


def test_settings_of_the_writer(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["a"], [Types.INT()])
    for value, found in (("GZIP", "GZIP"), ("UNCOMPRESSED", "UNCOMPRESSED"), (None, "SNAPPY")):
        settings = Configuration()
        if value is not None:
            settings.set_string("parquet.compression", value)
        path = support.write(tmp_path / str(value), ParquetBulkWriters.for_row_type(row_type, settings), [(1,)])
        assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == found
    for key, value, error in (("parquet.compression", "x", InvalidArgumentError), ("fs.s3a.key", "y", UnsupportedError)):
        settings = Configuration()
        settings.set_string(key, value)
        with pytest.raises(error, match=key if error is UnsupportedError else "must be one of"):
            ParquetBulkWriters.for_row_type(row_type, settings)
    with pytest.raises(UnsupportedError, match="there is no Hadoop here"):
        ParquetColumnarRowInputFormat(row_type, settings)


def test_values_that_do_not_fit_are_refused_when_they_are_written(tmp_path: Path) -> None:
    row_type = DataTypes.ROW([DataTypes.FIELD("p", DataTypes.DECIMAL(3, 1)), DataTypes.FIELD("n", DataTypes.TINYINT())])
    factory = ParquetBulkWriters.for_row_type(row_type)
    for row, column in (((decimal.Decimal("123.4"), 1), "p"), ((None, 300), "n"), (("x", 1), "p")):
        with pytest.raises(TypeMismatchError, match=f"column '{column}' is"):
            support.write(tmp_path, factory, [row])


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (Types.INT(), 1.5),
        (Types.LONG(), 2.0),
        (Types.SQL_DATE(), 5),
        (Types.SQL_TIMESTAMP(), 1_700_000_000_000),
        (Types.LIST(Types.STRING()), "abc"),
        (Types.LIST(Types.STRING()), {"a": 1}),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), 5),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), {1: "a"}),
        (Types.STRING(), b"x"),
        (Types.LIST(Types.INT()), [1, 1.5]),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": 1.5}),
        (Types.ROW_NAMED(["x"], [Types.LONG()]), {"x": 1.5}),
    ],
)
def test_values_that_arrow_would_change_are_refused_when_they_are_written(tmp_path: Path, type_info: Any, value: Any) -> None:
    factory = ParquetBulkWriters.for_row_type(Types.ROW_NAMED(["a"], [type_info]))
    with pytest.raises(TypeMismatchError, match=r"column 'a' is"):
        support.write(tmp_path, factory, [(None,), (value,)])


def test_numbers_of_numpy_are_written_as_numbers(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.LIST(Types.LONG())])
    path = support.write(tmp_path, ParquetBulkWriters.for_row_type(row_type), [(np.int64(1), np.array([2, 3]))])
    assert support.read(path, ParquetColumnarRowInputFormat(row_type)) == [Row(a=1, b=[2, 3])]


@pytest.mark.parametrize("row_type", [DataTypes.INT(), Types.STRING(), Types.TUPLE([Types.INT()]), "x", None])
def test_what_is_no_row_type_is_refused(row_type: Any) -> None:
    for make in (ParquetBulkWriters.for_row_type, ParquetColumnarRowInputFormat, OrcBulkWriters.for_row_type):
        with pytest.raises(InvalidArgumentError, match=r"row_type of \w+ must be"):
            make(row_type)  # type: ignore[operator]


# Records of an Avro schema.


def test_records_of_all_kinds_are_written_and_read(tmp_path: Path) -> None:
    records = [everything(i) for i in range(6)]
    factory = loads(dumps(AvroParquetWriters.for_generic_record(EVERYTHING)))
    path = support.write(tmp_path, factory, records, GenericRecordAvroTypeInfo(EVERYTHING))
    format_ = loads(dumps(AvroParquetReaders.for_generic_record(EVERYTHING)))
    for restart in (False, True):
        assert support.read(path, format_, credit=2, restart_readers=restart) == records
    assert format_.produced_type() == GenericRecordAvroTypeInfo(EVERYTHING)
    file = pq.ParquetFile(path)
    assert AvroSchema(file.metadata.metadata[b"parquet.avro.schema"].decode()) == EVERYTHING
    members = [file.schema_arrow.field("union").type.field(i) for i in range(2)]
    assert [(member.name, str(member.type)) for member in members] == [("member0", "int32"), ("member1", "double")]
    nullable = [name for name in file.schema_arrow.names if file.schema_arrow.field(name).nullable]
    assert nullable == ["null", "union", "maybe", "again"]


UNIONS = AvroSchema(
    {
        "type": "record",
        "name": "U",
        "fields": [
            {
                "name": "u",
                "type": [
                    "null", "boolean", "int", "long", "double", "string", "bytes", {"type": "fixed", "name": "F", "size": 3},
                    {"type": "enum", "name": "E", "symbols": ["A"]}, {"type": "array", "items": "int"},
                    {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}, {"type": "map", "values": "F"},
                    {"type": "long", "logicalType": "timestamp-micros"}, {"type": "int", "logicalType": "date"},
                ],
            },
            {"name": "again", "type": ["F", "R"]},
        ],
    }
)  # fmt: skip


def test_unions_of_several_types_keep_their_values(tmp_path: Path) -> None:
    at = datetime.datetime(2021, 1, 9, 10, tzinfo=datetime.UTC)
    values = [None, True, 1, 2**40, 1.5, "x", b"ab", [1], {"x": 1}, {"k": b"abc"}, at.date(), at]
    records = [{"u": value, "again": [b"abc", {"x": 2}][i % 2]} for i, value in enumerate(values)]
    path = support.write(tmp_path, AvroParquetWriters.for_generic_record(UNIONS), records)
    found = support.read(path, AvroParquetReaders.for_generic_record(UNIONS))
    assert found == records
    assert [record["u"].__class__ for record in found] == [value.__class__ for value in values]


TIMES = [{"type": "int", "logicalType": "date"}, {"type": "long", "logicalType": "timestamp-micros"}]
MOMENT = datetime.datetime(2021, 1, 9, 10, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("union", "value", "member", "stored"),
    [
        (["ns.R", {"type": "map", "values": "long"}], {"x": 2**40}, "member1", [("x", 2**40)]),
        (["null", "ns.R", {"type": "map", "values": ["int", "string"]}], {"x": "y"}, "member1", None),
        (["ns.R", {"type": "record", "name": "Q", "fields": [{"name": "x", "type": "R"}]}], {"x": {"x": 1}}, "member1", None),
        # fastavro lets a pair of a type's name and a value choose the type.
        (
            ["ns.R", {"type": "record", "name": "Q", "fields": [{"name": "x", "type": "int"}]}],
            ("ns.Q", {"x": 1}),
            "member1",
            None,
        ),
        (["float", "double"], ("double", 0.1), "member1", 0.1),
        (["float", "long"], ("long", 2**60 + 1), "member1", 2**60 + 1),
        (TIMES, ("long", MOMENT), "member1", MOMENT),
        (TIMES, MOMENT.date(), "member0", MOMENT.date()),
    ],
)
def test_a_value_is_stored_as_the_type_of_the_union_that_avro_has_chosen(
    tmp_path: Path, union: Any, value: Any, member: str, stored: Any
) -> None:
    first = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int", "default": 1}]}
    fields = [{"name": "first", "type": first}, {"name": "all", "type": {"type": "array", "items": union}}]
    schema = AvroSchema({"type": "record", "name": "U", "namespace": "ns", "fields": fields})
    records = [{"first": {"x": 1}, "all": [value, value]}]
    path = support.write(tmp_path, AvroParquetWriters.for_generic_record(schema), records)
    plain = value[1] if isinstance(value, tuple) else value
    assert support.read(path, AvroParquetReaders.for_generic_record(schema)) == [{"first": {"x": 1}, "all": [plain, plain]}]
    (found,) = pq.read_table(path).column("all").to_pylist()
    for part in found:
        (name,) = [name for name, one in part.items() if one is not None]
        assert name == member
        assert stored is None or part[name] == stored


def test_big_files_are_shared_by_readers_at_row_groups(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": range(100), "text": [f"number {i}" for i in range(100)]}), tmp_path / "a", row_group_size=10)
    source = (
        FileSource.for_record_stream_format(AvroParquetReaders.for_generic_record(NUMBERS), str(tmp_path / "a"))
        .set_file_enumerator(FileEnumeratorProvider.default_splittable_file_enumerator(300))
        .build()
    )
    by_subtask = SourceRun(source, parallelism=3, credit=7, restart_readers=True).by_subtask()
    assert all(by_subtask.values())
    found = [record for records in by_subtask.values() for record in records]
    assert sorted(found, key=lambda record: record["n"]) == [number(i) for i in range(100)]


def test_columns_are_found_by_name_and_missing_ones_take_their_defaults(tmp_path: Path) -> None:
    pq.write_table(pa.table({"label": ["x"], "other": [1], "n": pa.array([1], pa.int32())}), tmp_path / "a.parquet")
    assert support.read(tmp_path, AvroParquetReaders.for_generic_record(LATER)) == [{"n": 1.0, "unit": None, "label": "x"}]
    with pytest.raises(SourceError, match=r"columns \['text'\] are missing, and have no default in the Avro schema"):
        support.read(tmp_path, AvroParquetReaders.for_generic_record(NUMBERS))


def test_rows_that_the_schema_does_not_allow_are_bad_records(tmp_path: Path) -> None:
    pq.write_table(pa.table({"n": [1, None, 3, 2], "text": ["1", "2", None, "4"]}), tmp_path / "a.parquet")
    format_ = AvroParquetReaders.for_generic_record(NUMBERS)
    with pytest.raises(SourceError, match=r"a\.parquet, row 2: column 'n'.*null, which the schema does not allow"):
        support.read(tmp_path, format_)
    for credit in (1, 10):
        found = support.read(tmp_path, format_, RecordErrorPolicy.skip(), credit=credit, restart_readers=True)
        assert [record["n"] for record in found] == [1, 2]
    pq.write_table(pa.table({"n": [{"x": 1}], "text": ["1"]}), tmp_path / "a.parquet")
    with pytest.raises(
        SourceError, match=r"a\.parquet: column 'n' is struct<x: int64> in the file, which cannot be read as int64"
    ):
        support.read(tmp_path, format_, RecordErrorPolicy.skip())


def test_what_parquet_files_cannot_hold_is_refused() -> None:
    recursive = '{"type":"record","name":"N","fields":[{"name":"next","type":["null","N"]}]}'
    for make in (AvroParquetReaders.for_generic_record, AvroParquetWriters.for_generic_record):
        with pytest.raises(InvalidProgramError, match='Parquet files hold records; the Avro schema is "string"'):
            make(AvroSchema.parse_string('"string"'))
        with pytest.raises(InvalidProgramError, match="field 'next': Parquet files cannot hold the record 'N' within itself"):
            make(AvroSchema.parse_string(recursive))
        with pytest.raises(InvalidArgumentError, match="must be an AvroSchema"):
            make("x")  # type: ignore[arg-type]


def test_files_of_records_are_merged(tmp_path: Path) -> None:
    factory: Any = AvroParquetWriters.for_generic_record(EVERYTHING)
    paths = [support.write(tmp_path / str(i), factory, [everything(2 * i), everything(2 * i + 1)]) for i in range(3)]
    factory.merge([str(path) for path in paths], str(tmp_path / "merged"))
    found = support.read(tmp_path / "merged", AvroParquetReaders.for_generic_record(EVERYTHING))
    assert found == [everything(i) for i in range(6)]


# ORC.


def test_orc_files_are_written(tmp_path: Path) -> None:
    fields = [field for field in ROW_TYPE.fields if field.name != "time"]
    properties = Configuration()
    properties.set_string("orc.compress", "ZSTD")
    properties.set_string("orc.stripe.size", "100000")
    factory: Any = OrcBulkWriters.for_row_type(DataTypes.ROW(fields), properties, Configuration())
    row = Row(**{field.name: ROW[field.name] for field in fields})
    paths = [support.write(tmp_path / str(i), factory, [row, Row(**dict.fromkeys(row.as_dict()))]) for i in range(2)]
    file = orc.ORCFile(paths[0])
    first, second = file.read().to_pylist()
    assert file.compression == "ZSTD"
    assert (first["decimal"], first["timestamp"], first["strings"], first["map"]) == (
        decimal.Decimal("2"), WHEN, ["x", None], [("k", 1), ("n", None)],
    )  # fmt: skip
    assert set(second.values()) == {None}
    factory.merge([str(path) for path in paths], str(tmp_path / "merged"))
    assert orc.read_table(tmp_path / "merged").num_rows == 4


def test_what_orc_files_cannot_hold_is_refused() -> None:
    row_type = DataTypes.ROW([DataTypes.FIELD("t", DataTypes.TIME())])
    with pytest.raises(InvalidProgramError, match=r"column 't'.*cannot be stored in a table"):
        OrcBulkWriters.for_row_type(row_type)
    for key, value, error in (
        ("orc.compress", "x", InvalidArgumentError), ("orc.stripe.size", "x", InvalidArgumentError),
        ("orc.bloom.filter.columns", "a", UnsupportedError),
    ):  # fmt: skip
        properties = Configuration()
        properties.set_string(key, value)
        with pytest.raises(error, match=key):
            OrcBulkWriters.for_row_type(Types.ROW([Types.INT()]), properties)
    with pytest.raises(InvalidArgumentError, match="must be a Configuration"):
        OrcBulkWriters.for_row_type(Types.ROW([Types.INT()]), {})  # type: ignore[arg-type]

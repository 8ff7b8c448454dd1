"""No format narrows a value in silence: it arrives as it was, or it is refused by name."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from flinkish.common.arrow_types import RowsToArrow
from flinkish.common.errors import (
    DeserializationError,
    FlinkishError,
    InvalidProgramError,
    SourceError,
    TypeMismatchError,
)
from flinkish.common.time import Instant
from flinkish.common.typeinfo import DecimalTypeInfo, LocalTimeTypeInfo, TypeInformation, Types
from flinkish.common.types import Row
from flinkish.datastream.connectors import DeltaSource
from flinkish.datastream.connectors.file_system import BulkFormat, StreamFormat
from flinkish.datastream.connectors.jdbc.values import rows_from
from flinkish.datastream.formats.avro import AvroRowSerializationSchema, AvroSchema
from flinkish.datastream.formats.csv import CsvRowDeserializationSchema
from flinkish.datastream.formats.json import JsonRowDeserializationSchema
from flinkish.datastream.formats.orc import OrcBulkWriters
from flinkish.datastream.formats.parquet import ParquetBulkWriters
from tests.unit.datastream.connectors.fakes import SourceRun
from tests.unit.datastream.formats import support

NANOS: Final = 1_700_000_000_123_456_789
#: Columns, each with values for which some type is too narrow.
COLUMNS: Final[dict[str, pa.Array]] = {
    "int8": pa.array([-128, 127], pa.int8()),
    "int32": pa.array([2**31 - 1, 300, -(2**24) - 1], pa.int32()),
    "int64": pa.array([2**63 - 1, 2**53 + 1, 2**31, 2**15, 2**7, 1]),
    "uint64": pa.array([2**64 - 1, 2**63, 1], pa.uint64()),
    "float16": pa.array([0.5, 65504.0, 1.0], pa.float16()),
    "float32": pa.array([0.1, 3e38, 1.0], pa.float32()),
    "float64": pa.array([0.1, 1e39, 1e300, 2.0**24 + 1, 1.0]),
    "decimal128(20, 2)": pa.array([Decimal("12345.67"), Decimal("12.50"), Decimal(12)], pa.decimal128(20, 2)),
    "decimal128(5, 1)": pa.array([Decimal("12.5"), Decimal("1234.5")], pa.decimal128(5, 1)),
    "decimal256(60, 1)": pa.array([Decimal("1" * 41 + ".5"), Decimal("1.5")], pa.decimal256(60, 1)),
    "decimal256(5, 1)": pa.array([Decimal("1.5")], pa.decimal256(5, 1)),
    "timestamp[ns]": pa.array([NANOS, -1], pa.timestamp("ns")),
    "timestamp[ns, UTC]": pa.array([NANOS, -1], pa.timestamp("ns", "UTC")),
    "timestamp[us, Berlin]": pa.array([NANOS // 1000], pa.timestamp("us", "Europe/Berlin")),
    "timestamp[ms]": pa.array([NANOS // 1_000_000], pa.timestamp("ms")),
    "date": pa.array([datetime.date(2024, 2, 29)]),
    "time[ns]": pa.array([1_234_567_000, 1_000], pa.time64("ns")),
    "time[ms]": pa.array([1_234], pa.time32("ms")),
    "string": pa.array(["abc", "x"]),
    "large_string": pa.array(["abc", "x"], pa.large_string()),
    "dictionary<string>": pa.array(["abc", "x"]).dictionary_encode(),
    "binary": pa.array([b"\xff", b"x"]),
    "list<int64>": pa.array([[2**40], [1]]),
    "list<decimal>": pa.array([[Decimal("12345.67")]], pa.list_(pa.decimal128(20, 2))),
    "list<timestamp[ns]>": pa.array([[NANOS], [-1]], pa.list_(pa.timestamp("ns"))),
}
SIMPLE: Final = [
    *(Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.BIG_INT(), Types.FLOAT(), Types.DOUBLE(), Types.BIG_DEC()),
    *(DecimalTypeInfo(5, 1), DecimalTypeInfo(10, 0), DecimalTypeInfo(38, 4)),
    *(Types.BOOLEAN(), Types.STRING(), Types.CHAR(), Types.PRIMITIVE_ARRAY(Types.BYTE())),
    *(Types.INSTANT(), Types.SQL_TIMESTAMP(), Types.SQL_DATE(), Types.SQL_TIME()),
]


def exact(value: Any, arrow: pa.DataType | None = None) -> Any:
    """Return a form in which values are equal if nothing was lost: numbers, and nanoseconds for times."""
    match value:
        case list():
            return [exact(item, None if arrow is None else arrow.value_type) for item in value]
        case float():
            return Decimal(value)
        case bytes():
            return value.decode("latin-1")
        case Instant():
            return value.seconds * 1_000_000_000 + value.nanos
        case datetime.datetime():
            zoned = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
            return (zoned - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1) * 1000
        case datetime.date():
            return exact(datetime.datetime(value.year, value.month, value.day))
        case datetime.time():
            return ((value.hour * 60 + value.minute) * 60 + value.second) * 10**9 + value.microsecond * 1000
        case int() if arrow is not None and (pa.types.is_timestamp(arrow) or pa.types.is_time(arrow)):
            return value * {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}[arrow.unit]
        case _:
            return value


def original(column: pa.Array, index: int) -> Any:
    """Return the exact form of a value without a cast by Arrow that could change it."""
    scalar, arrow = column[index], column.type
    if pa.types.is_list(arrow) and pa.types.is_timestamp(arrow.value_type):
        return [part.value for part in scalar]
    if pa.types.is_timestamp(arrow) or pa.types.is_time(arrow):
        return exact(scalar.value, arrow)
    value = scalar.as_py()
    return exact(float(value) if pa.types.is_floating(arrow) else value)


def documented(arrow: pa.DataType, type_info: TypeInformation) -> bool:
    """Return whether the documentation says that this type is coarser: a datetime has microseconds, a DOUBLE 53 bits."""
    if pa.types.is_list(arrow):
        return documented(arrow.value_type, type_info.element_type)  # type: ignore[attr-defined]
    if pa.types.is_decimal(arrow):
        return type_info == Types.DOUBLE()
    return pa.types.is_timestamp(arrow) and arrow.unit == "ns" and type_info == Types.SQL_TIMESTAMP()


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_of_a_file_is_read_exactly_or_refused(tmp_path: Path, name: str) -> None:
    column = COLUMNS[name]
    read: set[int] = set()
    types = [Types.LIST(each) for each in SIMPLE] if pa.types.is_list(column.type) else SIMPLE
    for type_info in types:
        if documented(column.type, type_info):
            continue
        format_ = BulkFormat.parquet_format(Types.ROW_NAMED(["v"], [type_info]))
        for index in range(len(column)):
            path = tmp_path / f"{index}.parquet"
            if not path.exists():
                pq.write_table(pa.table({"v": column.slice(index, 1)}), path)
            try:
                (row,) = support.read(path, format_)
            except SourceError:
                continue
            assert exact(row.v) == original(column, index), (type_info, index)
            read.add(index)
    assert read, "no type reads anything of the column"


@pytest.mark.parametrize(
    ("have", "declared"),
    [
        (pa.decimal128(20, 2), DecimalTypeInfo(5, 1)),
        (pa.decimal128(5, 1), DecimalTypeInfo(5, 2)),
        (pa.decimal256(5, 1), DecimalTypeInfo(4, 1)),
        (pa.int32(), DecimalTypeInfo(9, 0)),
    ],
)
def test_a_decimal_that_cannot_hold_all_of_a_column_is_refused_whatever_its_values(
    tmp_path: Path, have: pa.DataType, declared: DecimalTypeInfo
) -> None:
    one = 1 if have == pa.int32() else Decimal(1)
    pq.write_table(pa.table({"v": pa.array([one], have)}), tmp_path / "a.parquet")
    expected = rf"column 'v' is .* in the file, which cannot be read as DECIMAL\({declared.precision}, {declared.scale}\)"
    with pytest.raises(SourceError, match=expected):
        support.read(tmp_path / "a.parquet", BulkFormat.parquet_format(Types.ROW_NAMED(["v"], [declared])))


def test_a_delta_column_is_not_read_as_a_narrower_decimal_and_keeps_its_values_as_a_wider_one(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"v": pa.array([Decimal("12345.67")], pa.decimal128(20, 2))}))

    def source(declared: TypeInformation) -> Any:
        return DeltaSource.for_bounded_row_data(str(tmp_path)).row_type(Types.ROW_NAMED(["v"], [declared])).build()

    with pytest.raises(InvalidProgramError, match=r"decimal\(20,2\), which cannot be read as DECIMAL\(5, 1\)") as raised:
        SourceRun(source(DecimalTypeInfo(5, 1))).values()
    assert "declare DECIMAL(20, 2)" in str(raised.value)
    assert SourceRun(source(DecimalTypeInfo(30, 4))).values() == [Row(v=Decimal("12345.67"))]


TOO_LARGE: Final = [
    (Types.FLOAT(), "1e39"), (Types.FLOAT(), "-1e39"), (Types.FLOAT(), "1e400"), (Types.DOUBLE(), "1e400"),
    (Types.DOUBLE(), "-1E+400"), (Types.INT(), "2147483648"), (Types.SHORT(), "-32769"), (Types.BYTE(), "128"),
    (Types.LONG(), "9223372036854775808"), (DecimalTypeInfo(5, 1), "12345.6"),
]  # fmt: skip


@pytest.mark.parametrize(("type_info", "text"), TOO_LARGE)
def test_a_number_in_a_text_that_does_not_fit_is_a_bad_record(tmp_path: Path, type_info: TypeInformation, text: str) -> None:
    # The second row type has a decimal, for which JSON is decoded in another way.
    for others in ([], [Types.BIG_DEC()]):
        names = ["v", "d"][: 1 + len(others)]
        row_type = Types.ROW_NAMED(names, [type_info, *others])
        csv = text + ",1" * len(others)
        json = f'{{"v": {text}, "d": 1}}'
        (tmp_path / "a.csv").write_text(f"{','.join(names)}\n{csv}\n")
        (tmp_path / "a.json").write_text(json)
        with pytest.raises(SourceError, match="line 2"):
            support.read(tmp_path / "a.csv", StreamFormat.csv_format(row_type))
        with pytest.raises(SourceError, match="line 1"):
            support.read(tmp_path / "a.json", StreamFormat.json_lines_format(row_type))
        with pytest.raises(DeserializationError):
            CsvRowDeserializationSchema.Builder(row_type).build().deserialize(csv.encode())
        for message in (json, json.replace(text, f'"{text}"')):
            with pytest.raises(DeserializationError):
                JsonRowDeserializationSchema.builder().type_info(row_type).build().deserialize(message.encode())


def test_the_words_for_infinity_are_numbers_of_both_widths(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["f", "d"], [Types.FLOAT(), Types.DOUBLE()])
    (tmp_path / "a.csv").write_text("f,d\nInfinity,-inf\n")
    (tmp_path / "a.json").write_text('{"f": "Infinity", "d": "-Infinity"}')
    infinite = [Row(f=float("inf"), d=float("-inf"))]
    assert support.read(tmp_path / "a.csv", StreamFormat.csv_format(row_type)) == infinite
    assert support.read(tmp_path / "a.json", StreamFormat.json_lines_format(row_type)) == infinite


UNWRITABLE: Final = [
    (Types.FLOAT(), 1e39), (Types.LIST(Types.FLOAT()), [-1e39]), (Types.FLOAT(), 2**24 + 1), (Types.INT(), 2**31),
    (Types.SHORT(), 2**15), (Types.BYTE(), -129), (Types.LONG(), 2**63), (Types.DOUBLE(), 2**53 + 1), (Types.INT(), 1.5),
    (DecimalTypeInfo(5, 1), Decimal("12345.6")), (Types.BIG_DEC(), Decimal(10**21)), (Types.BIG_INT(), 10**38),
]  # fmt: skip


@pytest.mark.parametrize(("type_info", "value"), UNWRITABLE)
def test_a_value_that_a_column_of_a_sink_cannot_hold_is_refused(tmp_path: Path, type_info: TypeInformation, value: Any) -> None:
    row_type = Types.ROW_NAMED(["v"], [type_info])
    for factory in (ParquetBulkWriters, OrcBulkWriters):
        with pytest.raises(TypeMismatchError, match="column 'v'"):
            support.write(tmp_path, factory.for_row_type(row_type), [Row(v=value)], Types.PICKLED_BYTE_ARRAY())
    # As DeltaSink and DataFrameSink make them.
    for zoned in (True, False):
        with pytest.raises(TypeMismatchError, match="column 'v'"):
            RowsToArrow(["v"], [type_info], zoned=zoned).batch([(value,)])


@pytest.mark.parametrize("type_info", [Types.SQL_TIME(), LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME)])
def test_a_time_of_day_with_another_zone_than_utc_is_refused_by_sinks(type_info: TypeInformation) -> None:
    rows = RowsToArrow(["v"], [type_info], zoned=False)
    assert rows.batch([(datetime.time(5, tzinfo=datetime.UTC),), (None,)]).to_pylist() == [{"v": datetime.time(5)}, {"v": None}]
    with pytest.raises(TypeMismatchError, match=r"column 'v' .* cannot be converted to UTC"):
        rows.batch([(datetime.time(5, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),)])


@pytest.mark.parametrize(
    ("avro", "value"),
    [
        ("float", 1e39),
        (["null", "float"], -1e39),
        (["string", "float"], 1e39),
        ({"type": "array", "items": "float"}, [1e39]),
        ("int", 2**31),
    ],
)
def test_a_value_that_avro_cannot_hold_is_refused(avro: Any, value: Any) -> None:
    fields = [{"name": "v", "type": avro}]
    schema = AvroSchema({"type": "record", "name": "Holder", "fields": fields})
    with pytest.raises(FlinkishError, match=r"does not fit|would be stored as|expected int"):
        AvroRowSerializationSchema(avro_schema_string=str(schema)).serialize(Row(v=value))


@pytest.mark.parametrize("value", [Decimal("12345.6"), Decimal("1.25"), 12345, "1.25", 0.25])
def test_a_value_of_a_database_that_a_decimal_cannot_hold_is_refused(value: Any) -> None:
    convert = rows_from(("v",), (DecimalTypeInfo(5, 1),), "the table t")
    assert convert([(Decimal("1234.50"),), (12,), (None,)]) == [Row(v=Decimal("1234.5")), Row(v=Decimal(12)), Row(v=None)]
    with pytest.raises(SourceError, match=r"column 'v' .* a DECIMAL\(5, 1\) cannot hold it"):
        convert([(value,)])

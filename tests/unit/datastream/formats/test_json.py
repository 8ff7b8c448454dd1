"""JSON objects as messages, and as lines of files. What is compared to was seen in PyFlink 2.3."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from flinkish.common.column_layout import Layout
from flinkish.common.errors import (
    DeserializationError,
    InvalidArgumentError,
    InvalidProgramError,
    SourceError,
    TypeMismatchError,
    UnsupportedError,
)
from flinkish.common.pickling import dumps, loads
from flinkish.common.serialization import ByteArraySchema, DeserializationSchema, Encoder, SimpleStringSchema
from flinkish.common.time import Instant
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.common.types import Row
from flinkish.datastream.connectors.file_system import BucketAssigner, FileSink, StreamFormat
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy
from flinkish.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from flinkish.table import DataTypes
from flinkish.table.types import type_info_of
from tests.unit.datastream.connectors.fakes import SinkRun
from tests.unit.datastream.connectors.file_system.test_file_sink import lines
from tests.unit.datastream.formats import support


def one(type_info: TypeInformation) -> Any:
    return Types.ROW_NAMED(["a"], [type_info])


def reader(row_type: Any, **flags: bool) -> JsonRowDeserializationSchema:
    builder = JsonRowDeserializationSchema.builder().type_info(row_type)
    for flag in flags:
        getattr(builder, flag)()
    schema: JsonRowDeserializationSchema = loads(dumps(builder.build()))
    schema.open()
    return schema


D = decimal.Decimal
READ: list[tuple[TypeInformation, str, Any]] = [
    (Types.INT(), "1", 1), (Types.INT(), '"12"', 12), (Types.INT(), '" 12 "', 12), (Types.INT(), "null", None),
    (Types.INT(), "2.0", 2), (Types.BYTE(), '"5"', 5), (Types.SHORT(), "-5", -5), (Types.LONG(), str(2**62), 2**62),
    (Types.STRING(), '"x"', "x"), (Types.STRING(), "1", "1"), (Types.STRING(), "1.50", "1.5"), (Types.STRING(), "true", "true"),
    (Types.STRING(), '{"x": 1}', '{"x":1}'), (Types.STRING(), "[1, 2]", "[1,2]"), (Types.STRING(), "1e10", "1.0E10"),
    (Types.BOOLEAN(), "true", True), (Types.BOOLEAN(), '"true"', True), (Types.BOOLEAN(), '" TRUE "', True),
    (Types.BOOLEAN(), '"false"', False),
    (Types.FLOAT(), "1", 1.0), (Types.FLOAT(), '"1.1"', 1.100000023841858), (Types.FLOAT(), "1.1", 1.100000023841858),
    (Types.DOUBLE(), '"1.1"', 1.1), (Types.DOUBLE(), '"Infinity"', math.inf), (Types.DOUBLE(), "1", 1.0),
    (Types.BIG_DEC(), "1", D(1)), (Types.BIG_DEC(), '"1.10"', D("1.10")), (Types.BIG_DEC(), "1e3", D("1E+3")),
    (Types.BIG_DEC(), "123456789012345678901234567890.123456789", D("123456789012345678901234567890.123456789")),
    (Types.BIG_INT(), '"12"', 12), (Types.BIG_INT(), "123456789012345678901234567890", 123456789012345678901234567890),
    (Types.SQL_DATE(), '"2021-01-09"', datetime.date(2021, 1, 9)),
    (Types.SQL_TIME(), '"10:11:12Z"', datetime.time(10, 11, 12)), (Types.SQL_TIME(), '"10:11:12"', datetime.time(10, 11, 12)),
    (Types.SQL_TIMESTAMP(), '"2021-01-09T10:11:12Z"', datetime.datetime(2021, 1, 9, 10, 11, 12)),
    (Types.SQL_TIMESTAMP(), '"2021-01-09T10:11:12.123Z"', datetime.datetime(2021, 1, 9, 10, 11, 12, 123000)),
    (Types.SQL_TIMESTAMP(), '"2021-01-09T10:11:12+02:00"', datetime.datetime(2021, 1, 9, 8, 11, 12)),
    (Types.INSTANT(), '"1970-01-01T00:00:01.5Z"', Instant.of_epoch_milli(1500)), (Types.INSTANT(), "1500", Instant(1500, 0)),
    (Types.INSTANT(), "1.5", Instant(1, 500_000_000)), (Types.INSTANT(), "-1.5", Instant(-2, 500_000_000)),
    (Types.INSTANT(), "-0.000000001", Instant(-1, 999_999_999)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), '"aGk="', b"hi"), (Types.PRIMITIVE_ARRAY(Types.INT()), "[1, 2]", [1, 2]),
    (Types.BASIC_ARRAY(Types.INT()), "[1, null]", [1, None]),
    (Types.OBJECT_ARRAY(Types.STRING()), '["a", null, 1]', ["a", None, "1"]),
    (Types.LIST(Types.STRING()), '["a", null, 1]', ["a", None, "1"]),
    (Types.MAP(Types.STRING(), Types.INT()), '{"a": 1, "b": null}', {"a": 1, "b": None}),
    (Types.MAP(Types.INT(), Types.INT()), '{"1": 1}', {1: 1}),
    (Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()]), '{"x": 1}', Row(x=1, y=None)),
    (Types.ROW([Types.INT(), Types.STRING()]), '[1, "a"]', Row(f0=1, f1="a")),
    (Types.TUPLE([Types.INT(), Types.STRING()]), '[1, "a"]', (1, "a")), (Types.CHAR(), '"a"', "a"),
    (Types.PICKLED_BYTE_ARRAY(), '{"x": [1]}', {"x": [1]}),
]  # fmt: skip


@pytest.mark.parametrize(("type_info", "text", "value"), READ)
def test_a_field_is_read_as_its_type(type_info: TypeInformation, text: str, value: Any) -> None:
    row = reader(one(type_info)).deserialize(f'{{"a": {text}, "other": []}}'.encode())
    assert row == Row(a=value)
    assert row is not None
    assert row.a.__class__ is value.__class__


@pytest.mark.parametrize(
    ("type_info", "text"),
    [
        (Types.INT(), "true"), (Types.INT(), "99999999999"), (Types.INT(), '"x"'), (Types.INT(), "1.7"), (Types.INT(), "[1]"),
        (Types.INT(), '"1_0"'), (Types.BYTE(), "128"), (Types.BOOLEAN(), "1"), (Types.BOOLEAN(), '"yes"'),
        (Types.DOUBLE(), '"1_0"'), (Types.BIG_DEC(), '"x"'), (Types.BIG_INT(), "1.7"), (Types.SQL_DATE(), '"2021-1-9"'),
        (Types.SQL_DATE(), "18636"), (Types.SQL_TIME(), '"10:11:12+02:00"'), (Types.SQL_TIMESTAMP(), "1500"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), '"a"'), (Types.PRIMITIVE_ARRAY(Types.BYTE()), "[1]"),
        (Types.PRIMITIVE_ARRAY(Types.INT()), "[1, null]"), (Types.PRIMITIVE_ARRAY(Types.INT()), "1"),
        (Types.MAP(Types.STRING(), Types.INT()), "[1]"), (Types.ROW([Types.INT()]), "5"), (Types.CHAR(), '"ab"'),
        (Types.TUPLE([Types.INT()]), "[1, 2]"), (Types.BIG_DEC(), '"1_0"'), (Types.BIG_DEC(), '"NaN"'),
    ],
)  # fmt: skip
def test_a_field_of_another_type_is_an_error_or_null(type_info: TypeInformation, text: str) -> None:
    message = f'{{"a": {text}}}'.encode()
    with pytest.raises(DeserializationError, match=r"Failed to deserialize JSON .*: field 'a(\[\d\])?' must be"):
        reader(one(type_info)).deserialize(message)
    ignoring = reader(one(type_info), ignore_parse_errors=True).deserialize(message)
    assert ignoring == Row(a=None)


@pytest.mark.parametrize("message", [b"[1]", b"1", b"", b'{"a":1', b'{"a":1}{"a":2}', b"\xff", b"[" * 100_000])
def test_what_is_no_json_object_is_an_error_or_null(message: bytes) -> None:
    row_type = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()])
    with pytest.raises(DeserializationError, match="Failed to deserialize JSON"):
        reader(row_type).deserialize(message)
    assert reader(row_type, ignore_parse_errors=True).deserialize(message) is None


def test_null_is_null_and_missing_fields_are_null_or_an_error() -> None:
    row_type = Types.ROW_NAMED(["a", "r"], [Types.INT(), Types.ROW_NAMED(["x"], [Types.INT()])])
    assert reader(row_type).deserialize(b"null") is None
    assert reader(row_type).deserialize(b"{}") == Row(a=None, r=None)
    strict = reader(row_type, fail_on_missing_field=True)
    assert strict.deserialize(b'{"a": null, "r": {"x": null}}') == Row(a=None, r=Row(x=None))
    for message, name in ((b'{"r": {"x": 1}}', "a"), (b'{"a": 1, "r": {}}', "r.x")):
        with pytest.raises(DeserializationError, match=f"Could not find field with name '{name}'"):
            strict.deserialize(message)
    assert strict.get_produced_type() == row_type


@pytest.mark.parametrize(
    ("schema", "types"),
    [
        ({"type": "string"}, Types.STRING()), ({"type": "integer"}, Types.BIG_DEC()), ({"type": "number"}, Types.BIG_DEC()),
        ({"type": "boolean"}, Types.BOOLEAN()), ({"type": "string", "format": "date"}, Types.SQL_DATE()),
        ({"type": "string", "format": "time"}, Types.SQL_TIME()),
        ({"type": "string", "format": "date-time"}, Types.SQL_TIMESTAMP()),
        ({"type": "string", "format": "email"}, Types.STRING()),
        ({"type": "string", "contentEncoding": "base64"}, Types.PRIMITIVE_ARRAY(Types.BYTE())),
        ({"type": "array", "items": {"type": "string"}}, Types.OBJECT_ARRAY(Types.STRING())),
        ({"type": "array", "items": [{"type": "string"}, {"type": "number"}]}, Types.ROW([Types.STRING(), Types.BIG_DEC()])),
        ({"type": "array", "items": [{"type": "string"}], "additionalItems": False}, Types.ROW([Types.STRING()])),
        ({"type": "object", "properties": {"x": {"type": "string"}}}, Types.ROW_NAMED(["x"], [Types.STRING()])),
        ({"type": "object"}, Types.ROW([])), ({"type": ["null", "string"]}, Types.STRING()),
        ({"oneOf": [{"type": "null"}, {"type": "string"}]}, Types.STRING()), ({"$ref": "#/definitions/x"}, Types.BOOLEAN()),
    ],
)  # fmt: skip
def test_the_type_may_be_given_as_a_json_schema(schema: Any, types: TypeInformation) -> None:
    text = json.dumps({"type": "object", "properties": {"a": schema}, "definitions": {"x": {"type": "boolean"}}})
    built = JsonRowDeserializationSchema.builder().json_schema(text).build()
    assert repr(built.get_produced_type()) == repr(one(types))


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": ["string", "integer"]}, "a value must be of one type"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "oneOf"),
        ({"anyOf": []}, "unions such as 'anyOf'"), ({"allOf": []}, "'allOf'"), ({"not": {}}, "'not'"),
        ({"$ref": "http://x/y"}, "only references"), ({"$ref": "#/definitions/y"}, "only references"),
        ({"$ref": "#/definitions/twice"}, "only references"), ({"enum": ["a"]}, "there is no type"), ({}, "there is no type"),
        ({"type": "array"}, "must have 'items'"), ({"type": "foo"}, "'foo'"), ({"type": "null"}, "'null'"),
        (1, "expected an object"),
        ({"type": "array", "items": [], "additionalItems": True}, "must not allow additional"),
    ],
)  # fmt: skip
def test_a_json_schema_without_a_type_is_refused_with_the_place(schema: Any, text: str) -> None:
    definitions = {"twice": {"$ref": "#/definitions/twice"}}
    whole = json.dumps({"type": "object", "properties": {"a": schema}, "definitions": definitions})
    with pytest.raises(InvalidArgumentError, match=f"JSON schema, <root>/a.*{text}"):
        JsonRowDeserializationSchema.builder().json_schema(whole)


WRITTEN: list[tuple[TypeInformation, Any, str]] = [
    (Types.STRING(), 'a"bü\n', '"a\\"bü\\n"'), (Types.BOOLEAN(), True, "true"), (Types.INT(), None, "null"),
    (Types.DOUBLE(), 1.0, "1.0"), (Types.DOUBLE(), math.nan, '"NaN"'), (Types.DOUBLE(), math.inf, '"Infinity"'),
    (Types.FLOAT(), 1.100000023841858, "1.1"), (Types.BIG_DEC(), D("1.10"), "1.10"),
    (Types.BIG_DEC(), D("1E+30"), "1000000000000000000000000000000"), (Types.BIG_INT(), 10**30, str(10**30)),
    (Types.SQL_DATE(), datetime.date(2021, 1, 9), '"2021-01-09"'), (Types.SQL_TIME(), datetime.time(10, 11, 12), '"10:11:12Z"'),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 9, 10, 11, 12), '"2021-01-09T10:11:12Z"'),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 9, 10, 11, 12, 500000), '"2021-01-09T10:11:12.5Z"'),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 9, 10, 11, 12, 123456), '"2021-01-09T10:11:12.123456Z"'),
    (Types.INSTANT(), Instant.of_epoch_milli(1500), '"1970-01-01T00:00:01.500Z"'),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"hi", '"aGk="'),
    (Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()]), Row(y="a", x=1), '{"x":1,"y":"a"}'),
    (Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()]), Row(None, None), '{"x":null,"y":null}'),
    (Types.OBJECT_ARRAY(Types.STRING()), ["a", None], '["a",null]'), (Types.PRIMITIVE_ARRAY(Types.INT()), [1, 2], "[1,2]"),
    (Types.MAP(Types.STRING(), Types.INT()), {"a": 1, "b": None}, '{"a":1,"b":null}'),
    (Types.MAP(Types.INT(), Types.STRING()), {1: "x"}, '{"1":"x"}'),
    (Types.TUPLE([Types.INT(), Types.STRING()]), (1, "a"), '[1,"a"]'),
]  # fmt: skip


@pytest.mark.parametrize(("type_info", "value", "text"), WRITTEN)
def test_a_field_is_written_as_flink_writes_it(type_info: TypeInformation, value: Any, text: str) -> None:
    schema = loads(dumps(JsonRowSerializationSchema.builder().with_type_info(one(type_info)).build()))
    schema.open()
    written = schema.serialize(Row(a=value))
    assert written == f'{{"a":{text}}}'.encode()
    back = reader(one(type_info)).deserialize(written)
    assert back is not None
    if value == value:
        expected = Row(x=None, y=None) if isinstance(value, Row) and value[0] is None else value
        assert back.a == expected


def test_names_with_quotes_are_read_and_written() -> None:
    row_type = Types.ROW_NAMED(['a"b', "c\\d"], [Types.LONG(), Types.STRING()])
    schema = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    row = Row(**{'a"b': 1, "c\\d": "x"})
    text = schema.serialize(row)
    assert json.loads(text) == {'a"b': 1, "c\\d": "x"}
    assert JsonRowDeserializationSchema.builder().type_info(row_type).build().deserialize(text) == row
    assert schema.serialize_columns(Layout(row_type).columns_of([row], None)) == [text]


def test_decimals_have_the_digits_of_their_type(tmp_path: Path) -> None:
    row_type = one(type_info_of(DataTypes.DECIMAL(5, 2), "a"))
    schema = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    assert schema.serialize(Row(a=D("1.235"))) == b'{"a":1.24}'
    with pytest.raises(TypeMismatchError, match="has more than 3 digits before the point"):
        schema.serialize(Row(a=D("1234.5")))
    assert reader(row_type).deserialize(b'{"a":1.235}') == Row(a=D("1.24"))
    with pytest.raises(DeserializationError, match="field 'a' must be"):
        reader(row_type).deserialize(b'{"a":1234.5}')


ZONE = datetime.timezone(datetime.timedelta(hours=2))


@pytest.mark.parametrize(
    ("type_info", "value", "reason"),
    [
        (Types.LIST(Types.STRING()), "abc", "expected an array; got 'abc'"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), 5, "a value of type int is no bytes"),
        (Types.MAP(Types.STRING(), Types.INT()), {1: 1, "1": 2}, "two keys have the same text"),
        (Types.SQL_TIME(), datetime.time(1, tzinfo=ZONE), "a time of day has no zone"),
        (Types.CHAR(), "ab", "'ab' is not one character"),
    ],
)
def test_what_would_be_written_as_something_else_is_refused(type_info: TypeInformation, value: Any, reason: str) -> None:
    with pytest.raises(TypeMismatchError, match=f"field 'a': {reason}"):
        JsonRowSerializationSchema.builder().with_type_info(one(type_info)).build().serialize(Row(a=value))


def test_times_with_a_zone_are_written_in_utc_and_dates_without_a_time() -> None:
    row_type = Types.ROW_NAMED(["a", "d"], [Types.SQL_TIMESTAMP(), Types.SQL_DATE()])
    schema = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    row = Row(a=datetime.datetime(2024, 1, 1, tzinfo=ZONE), d=datetime.datetime(2024, 1, 1, 5))
    assert schema.serialize(row) == b'{"a":"2023-12-31T22:00:00Z","d":"2024-01-01"}'


def test_rows_of_another_type_are_not_written() -> None:
    row_type = Types.ROW_NAMED(["a", "r"], [Types.INT(), Types.ROW_NAMED(["s"], [Types.STRING()])])
    schema = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
    for row, text in (
        (Row(1), "expected 2 fields, got 1"), (Row(a="x", r=None), "field 'a'"), (Row(a=2**31, r=None), "field 'a'"),
        (Row(a=1, r=Row(s=5)), "field 'r': field 's': expected str; got 5"), (5, "expected a Row"),
        (Row(b=1, c=2), "do not exist"),
        (Row(a=1, c=3, r=None), r"unknown fields \['c'\]"),
    ):  # fmt: skip
        with pytest.raises(TypeMismatchError, match=f"Could not serialize row .*{text}"):
            schema.serialize(row)
    assert schema.serialize({"a": 1}) == schema.serialize((1, None)) == b'{"a":1,"r":null}'


def test_wrong_settings_are_refused() -> None:
    read, write = JsonRowDeserializationSchema.builder, JsonRowSerializationSchema.builder
    for call, text in (
        (lambda: read().build(), "must be called first"), (lambda: write().build(), "Typeinfo should be set"),
        (lambda: read().type_info(Types.STRING()), "Only RowTypeInfo is supported"),
        (lambda: write().with_type_info(Types.TUPLE([Types.INT()])), "Only RowTypeInfo is supported"),
        (lambda: read().json_schema(None), "must not be None"), (lambda: read().json_schema("x"), "Invalid JSON schema"),
        (lambda: read().json_schema('{"type":"string"}').build(), "Only RowTypeInfo"),
        (lambda: Encoder.of_schema("x"), "needs a SerializationSchema"),
        (lambda: Encoder.of_schema(SimpleStringSchema(), "\n"), "must be bytes"),
        (lambda: StreamFormat.line_format("x"), "needs a DeserializationSchema"),
    ):  # fmt: skip
        with pytest.raises(InvalidArgumentError, match=text):
            call()  # type: ignore[no-untyped-call]
    with pytest.raises(InvalidProgramError, match="both true"):
        read().type_info(one(Types.INT())).fail_on_missing_field().ignore_parse_errors().build()


# Lines of files.


@pytest.mark.usefixtures("both_ways")
def test_lines_are_written_and_read_by_schemas(tmp_path: Path) -> None:
    row_type = Types.ROW_NAMED(["id", "at"], [Types.LONG(), Types.INSTANT()])
    encoder = Encoder.of_schema(JsonRowSerializationSchema.builder().with_type_info(row_type).build())
    assigner = BucketAssigner.base_path_bucket_assigner()
    run = SinkRun(FileSink.for_row_format(str(tmp_path), encoder).with_bucket_assigner(assigner).build(), row_type)
    rows = [Row(id=i, at=Instant(i, 0)) for i in range(5)]
    run.epoch(rows[:2]).lose_writers().checkpoint(rows[2:], end_of_input=True)
    assert run.from_columns == (len(rows) if run.by_columns else 0)
    assert lines(tmp_path)[0] == '{"id":0,"at":"1970-01-01T00:00:00Z"}'
    format_ = StreamFormat.line_format(JsonRowDeserializationSchema.builder().type_info(row_type).build())
    assert format_.produced_type() == row_type
    for credit in (1, 2, 100):
        assert support.read(tmp_path, format_, credit=credit, restart_readers=True) == rows


@pytest.mark.usefixtures("both_ways")
def test_lines_that_a_schema_cannot_read_are_bad_records_and_null_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"a":1}\r\nnull\n{"a":\n{"a":2}')
    format_ = StreamFormat.line_format(JsonRowDeserializationSchema.builder().type_info(one(Types.INT())).build())
    with pytest.raises(SourceError, match=r"a\.jsonl, line 3: Failed to deserialize JSON"):
        support.read(tmp_path, format_)
    assert support.read(tmp_path, format_, RecordErrorPolicy.skip()) == [Row(a=1), Row(a=2)]


class Hex(DeserializationSchema):
    """One of the user's own."""

    def deserialize(self, message: bytes) -> int:
        return int(message, 16)


def test_a_schema_of_the_users_own_reads_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"ff\nzz\n10\n")
    assert support.read(tmp_path, StreamFormat.line_format(Hex()), RecordErrorPolicy.skip()) == [255, 16]


def test_a_schema_that_ends_its_stream_is_refused_for_files() -> None:
    class UntilZero(SimpleStringSchema):
        def is_end_of_stream(self, next_element: str) -> bool:
            return next_element == "0"

    with pytest.raises(UnsupportedError, match=r"UntilZero.is_end_of_stream\(\) would not be asked"):
        StreamFormat.line_format(UntilZero())


def test_rows_of_columns_are_written_as_they_are_one_by_one() -> None:
    pair = Types.ROW_NAMED(["x", "y"], [Types.DOUBLE(), Types.LIST(Types.STRING())])
    at = datetime.datetime(2024, 2, 29, 12, 0, 1, 500)
    fields: dict[str, tuple[TypeInformation, list[Any]]] = {
        "long": (Types.LONG(), [0, -(2**63), 2**63 - 1]),
        "byte": (Types.BYTE(), [-128, 127]),
        "text": (Types.STRING(), ["", "grün", 'a"b\n\u2028\x01', "\U0001f600"]),
        "yes": (Types.BOOLEAN(), [True, False]),
        "ä b": (Types.DOUBLE(), [0.0, -0.0, 0.1, 1e300, 5e-324, 1e16, 123456789.0]),
        "odd": (Types.DOUBLE(), [0.1, math.nan, math.inf, -math.inf]),
        "float": (Types.FLOAT(), [0.1, -0.0, 1e16, 3.4e38, math.nan, -math.inf]),
        "char": (Types.CHAR(), ["a", "ä", '"']),
        "decimal": (
            type_info_of(DataTypes.DECIMAL(20, 2), "decimal"),
            [decimal.Decimal(n) for n in ("0", "1.5", "-2E+3", "1e-2")],
        ),
        "date": (Types.SQL_DATE(), [datetime.date(1, 1, 1), datetime.date(9999, 12, 31)]),
        "time": (Types.SQL_TIME(), [datetime.time(), datetime.time(23, 59, 59, 120_000)]),
        "timestamp": (Types.SQL_TIMESTAMP(), [at, datetime.datetime(1, 1, 1), at.replace(microsecond=0)]),
        "instant": (Types.INSTANT(), [Instant(0, 0), Instant(-1, 999_999_000), Instant(1_700_000_000, 1000)]),
        "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"", b"\xff\n"]),
        "array": (Types.OBJECT_ARRAY(Types.INT()), [[], [1, None, -3]]),
        "map": (Types.MAP(Types.INT(), Types.SQL_DATE()), [{}, {1: None, 2: datetime.date(2024, 1, 1)}]),
        "row": (pair, [Row(x=math.nan, y=["a", None]), Row(x=None, y=None)]),
        "tuple": (Types.TUPLE([Types.LONG(), Types.SQL_TIME()]), [(1, datetime.time(1, 2))]),
    }
    rng = random.Random(1)
    rows = [Row(**{name: rng.choice([None, *values]) for name, (_, values) in fields.items()}) for _ in range(500)]
    columns = Layout(Types.ROW_NAMED(list(fields), [part for part, _ in fields.values()])).columns_of(rows, None)
    for names in (list(fields), list(reversed(fields))):
        row_type = Types.ROW_NAMED(names, [fields[name][0] for name in names])
        schema = JsonRowSerializationSchema.builder().with_type_info(row_type).build()
        assert schema.why_records is None
        assert loads(dumps(schema)).serialize_columns(columns) == list(map(schema.serialize, rows))


def test_rows_of_columns_of_another_type_are_written_as_the_type_of_the_schema() -> None:
    def schema(**fields: TypeInformation) -> JsonRowSerializationSchema:
        return JsonRowSerializationSchema.builder().with_type_info(Types.ROW_NAMED(list(fields), list(fields.values()))).build()

    rows = [Row(a=1, b=0.1), Row(a=300, b=1e16)]
    columns = Layout(Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.DOUBLE()])).columns_of(rows, None)
    wide = schema(a=Types.DOUBLE(), b=Types.FLOAT())
    assert wide.serialize_columns(columns) == list(map(wide.serialize, rows)) == [b'{"a":1.0,"b":0.1}', b'{"a":300.0,"b":1e16}']
    # A value that cannot be written is found in its record, and so are rows with other fields.
    assert schema(a=Types.BYTE(), b=Types.DOUBLE()).serialize_columns(columns) is None
    assert schema(a=Types.LONG(), b=Types.STRING()).serialize_columns(columns) is None
    assert schema(a=Types.LONG()).serialize_columns(columns) is None


@pytest.mark.parametrize(
    ("schema", "type_info", "values"),
    [
        (SimpleStringSchema(), Types.STRING(), ["", "a", "grün\n"]),
        (ByteArraySchema(), Types.PRIMITIVE_ARRAY(Types.BYTE()), [b"", b"\xff\n"]),
    ],
)
def test_texts_and_bytes_go_both_ways_by_columns(schema: Any, type_info: TypeInformation, values: list[Any]) -> None:
    columns = Layout(type_info).columns_of(values, None)
    messages = [schema.serialize(value) for value in values]
    assert schema.why_records is None
    assert schema.serialize_columns(columns) == messages
    assert schema.deserialize_batch(messages).equals(columns.batch)
    assert schema.serialize_columns(Layout(Types.LONG()).columns_of([1], None)) is None
    assert "one by one" in SimpleStringSchema("latin-1").why_records

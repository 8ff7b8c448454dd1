"""The writer of Avro files, block by block, with checks of values that fastavro would silently write as other values.

fastavro cuts off the decimals of floats, writes a float beyond 32 bits as infinite, writes integers of any size as int, writes
a text as an array of its letters, and drops the zone of a time whose type has none. Of a union it takes the first type that
accepts a value, even if that keeps only a part of it.
"""

from __future__ import annotations

import datetime
import decimal
import io
import math
import struct
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import fastavro
import msgspec
from fastavro.write import Writer

from flinkish.common.limits import INT_MAX, INT_MIN, to_float32
from flinkish.common.typeinfo import TypeInformation
from flinkish.common.types import Row
from flinkish.datastream.connectors.file_system.avro_schema import (
    LOGICAL,
    AvroPart,
    AvroSchema,
    avro_schema,
    holder,
    meaning,
    mismatch,
    record_error,
)
from flinkish.datastream.connectors.file_system.writer_factories import BulkPartWriter, BulkPartWriterFactory

#: Size in bytes from which a block is complete; Avro's default.
_BLOCK_SIZE: Final = 64_000

#: Types of numbers and times, between which values can be confused or shortened.
_ALIKE: Final = (LOGICAL.keys() - {"decimal", "uuid"}) | {"int", "long", "float", "double"}
#: Classes of values without parts.
_SCALARS: Final = (str, bytes, int, float, datetime.date, datetime.time, decimal.Decimal, uuid.UUID)

#: Function that raises ValueError for a value that does not fit a schema.
Check = Callable[[Any], None]


class _Checks:
    """Makes the checks of values that fastavro does not check; None where there is nothing to check."""

    def __init__(self, named: dict[str, Any]) -> None:
        self._named = named
        #: Checks of records, which may contain themselves.
        self._records: dict[str, list[tuple[str, Check]]] = {}

    def of(self, schema: Any) -> Check | None:
        if isinstance(schema, list):
            return self._union(schema)
        schema = self._resolved(schema)
        logical, kind = schema.get("logicalType"), schema["type"]
        match kind:
            case "int" | "long" if logical is not None:
                return _check_zone if logical.startswith(("local-timestamp", "time-")) else None
            case "int" | "long":
                return _check_int if kind == "int" else _check_long
            case "float":
                return _check_float
            case "array":
                return _items_check(self.of(schema["items"]))
            case "map":
                return _values_check(self.of(schema["values"]))
            case "record" | "error":
                return self._record(schema)
            case _:
                return None

    def _union(self, branches: list[Any]) -> Check | None:
        checks = [self.of(branch) for branch in branches]
        others = [check for branch, check in zip(branches, checks, strict=True) if branch != "null"]
        check = others[0] if len(others) == 1 else self._several(branches, checks)
        if check is None:
            return None

        def nullable(value: Any, check: Check = check) -> None:
            if value is not None:
                check(value)

        return nullable

    def _several(self, branches: list[Any], checks: list[Check | None]) -> Check:
        """Return the check of a union of several types, of which fastavro itself finds one for a value."""
        check_scalar = _branch_check(branches)
        held = holder(branches, self._named)
        kinds = [self._resolved(branch)["type"] for branch in branches]
        found = list(zip(kinds, checks, strict=True))
        dicts = [check for kind, check in found if kind in ("record", "error", "map")]
        lists = [check for kind, check in found if kind == "array"]

        def check_chosen(value: Any) -> None:
            if isinstance(value, _SCALARS):
                check = check_scalar
            elif value.__class__ is dict and len(dicts) == 1:
                check = dicts[0]
            elif value.__class__ is list and len(lists) == 1:
                check = lists[0]
            else:
                # Several types are possible, or a pair tells the name of the type. The number of the type is written first.
                buffer = io.BytesIO()
                fastavro.schemaless_writer(buffer, held, {"value": value}, strict_allow_default=True)
                buffer.seek(0)
                position: Any = fastavro.schemaless_reader(buffer, "long", None)
                check, value = checks[position], value[1] if isinstance(value, tuple) else value
            if check is not None:
                check(value)

        return check_chosen

    def _resolved(self, schema: Any) -> Any:
        return self._named.get(schema, {"type": schema}) if isinstance(schema, str) else schema

    def _record(self, schema: Any) -> Check:
        name = schema["name"]
        fields = self._records.get(name)
        if fields is None:
            fields = self._records[name] = []
            for field in schema["fields"]:
                check = self.of(field["type"])
                if check is not None:
                    fields.append((field["name"], check))

        def check_fields(value: Any, fields: list[tuple[str, Check]] = fields) -> None:
            for field, check in fields:
                # A missing field has a default, or fastavro refuses the record.
                if field in value:
                    check(value[field])

        return check_fields


def _check_int(value: Any) -> None:
    if value.__class__ is not int:
        _check_long(value)
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError(f"{value!r} does not fit into an int")


def _check_long(value: Any) -> None:
    if value.__class__ is not int and (isinstance(value, bool) or not hasattr(value, "__index__")):
        raise ValueError(f"{value!r} is no whole number")


def _check_float(value: Any) -> None:
    try:
        to_float32(value)
    except OverflowError:
        raise ValueError(f"{value!r} does not fit into a float of 32 bits") from None
    except struct.error:
        return  # no number, which fastavro refuses


def _check_zone(value: Any) -> None:
    if getattr(value, "tzinfo", None) is not None:
        raise ValueError(f"{value!r} has a zone, but the schema has none")


def _branch_check(branches: list[Any]) -> Check | None:
    """Return the check that a union keeps all of a number or time; None if there is nothing to check."""
    meanings = {meaning({"type": branch} if isinstance(branch, str) else branch): branch for branch in branches}
    alike = [branch for meaning, branch in meanings.items() if meaning in _ALIKE]
    # fastavro reads a text as a date.
    texts = "string" in meanings and "date" in list(meanings)[: list(meanings).index("string")]
    doubtful = ("local-timestamp", "time-", "float")
    if len(alike) < 2 and not texts and not any(meaning.startswith(doubtful) for meaning in meanings):
        return None
    timestamps = any("timestamp" in meaning for meaning in meanings)
    if texts:
        alike.append("string")
    union = fastavro.parse_schema(alike)
    classes = (int, float, datetime.datetime, datetime.time, *([str] if texts else []))

    def check_branch(value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, classes):
            return
        buffer = io.BytesIO()
        fastavro.schemaless_writer(buffer, union, value)
        buffer.seek(0)
        stored: Any = fastavro.schemaless_reader(buffer, union, None)
        match value:
            case int():
                kept = not isinstance(stored, float) or stored == value
            case float():
                kept = not math.isinf(stored) or math.isinf(value)
            case datetime.datetime():
                zone = stored.tzinfo if isinstance(stored, datetime.datetime) else value.tzinfo
                kept = isinstance(stored, datetime.datetime) == timestamps and (value.tzinfo is None or zone is not None)
            case _:
                kept = stored == value
        if not kept:
            raise ValueError(
                f"{value!r} would be stored as {stored!r}, because an earlier type of the union accepts it; put a type that "
                "keeps all of it first"
            )

    return check_branch


def _items_check(check: Check | None) -> Check:
    def check_items(value: Any) -> None:
        if isinstance(value, str | bytes):
            raise ValueError(f"{value!r} is no array")
        if check is not None:
            for item in value:
                check(item)

    return check_items


def _values_check(check: Check | None) -> Check | None:
    if check is None:
        return None

    def check_values(value: Any) -> None:
        for item in value.values():
            check(item)

    return check_values


class AvroWriterFactory(BulkPartWriterFactory):
    """Writer factory of Avro files; records are plain Python data of the schema, or Rows, even for nested records."""

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = avro_schema(schema, type(self).__name__)

    def create(self, input_type: TypeInformation) -> BulkPartWriter:
        return _AvroPartWriter(self.schema)

    def merge(self, paths: Sequence[str], target: str) -> None:
        with open(target, "xb") as output:
            writer = Writer(output, self.schema.parsed)
            for path in paths:
                with open(path, "rb") as source:
                    blocks = fastavro.block_reader(source)
                    written = AvroSchema(blocks.metadata["avro.schema"])
                    if written.parsed != self.schema.parsed:
                        raise ValueError(f"{path} has another schema than the sink: {written}")
                    for block in blocks:
                        writer.write_block(block)
            writer.flush()


class RecordEncoder:
    """Writes records in binary form."""

    def __init__(self, schema: AvroSchema) -> None:
        self.part = AvroPart(schema)
        self._schema = schema
        self._check = _Checks(schema.named).of(schema.parsed)

    def write(self, buffer: io.BytesIO, value: Any, *, is_row: bool) -> None:
        """Append a record, which is converted if it is a row; raise TypeMismatchError if it does not fit the schema."""
        try:
            record = self.part.from_row(value) if is_row else value
        except (ValueError, TypeError, AttributeError) as error:
            raise record_error(value, str(error)) from error
        try:
            if self._check is not None:
                self._check(record)
            # Strict, as a field that is not in the schema would be lost silently.
            fastavro.schemaless_writer(buffer, self._schema.parsed, record, strict_allow_default=True)
        except (ValueError, TypeError, ArithmeticError, AttributeError, LookupError) as error:
            raise record_error(record, mismatch(record, self._schema) or str(error)) from error


class RecordPartWriter(BulkPartWriter):
    """Base of the writers of records, which stay in Avro's binary form until a file is written: it is small, and checked."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._encoder = RecordEncoder(schema)
        self.check = lambda value: value

    def encode(self, values: Sequence[Any]) -> bytes:
        """Return records as blocks; raise TypeMismatchError for a record that does not fit the schema."""
        blocks: list[tuple[int, bytes]] = []
        buffer = io.BytesIO()
        count = 0
        for value in values:
            self._encoder.write(buffer, value, is_row=isinstance(value, Row))
            count += 1
            if buffer.tell() >= _BLOCK_SIZE:
                blocks.append((count, buffer.getvalue()))
                buffer, count = io.BytesIO(), 0
        if count:
            blocks.append((count, buffer.getvalue()))
        return msgspec.msgpack.encode(blocks)

    @staticmethod
    def blocks(chunks: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the blocks of some chunks: the number of records, and their bytes."""
        for chunk in chunks:
            yield from msgspec.msgpack.decode(chunk, type=list[tuple[int, bytes]])


class _AvroPartWriter(RecordPartWriter):
    def write_file(self, chunks: Sequence[bytes], path: str) -> None:
        with open(path, "xb") as file:
            writer = Writer(file, self._schema.parsed)
            for count, data in self.blocks(chunks):
                writer.write_block(_Block(count, io.BytesIO(data)))
            writer.flush()


class _Block(NamedTuple):
    """What fastavro's Writer takes from a block."""

    num_records: int
    bytes_: io.BytesIO

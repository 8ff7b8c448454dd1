"""Parquet files of records with an Avro schema: the Arrow types for a schema, and conversions of values in both directions.

Source of the mapping: parquet-avro's AvroSchemaConverter. A union of several types is a group of `member0`, `member1`, ..., and
only one of these is set.
"""

from __future__ import annotations

import copy
import datetime
import io
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from flinkish.common.arrow_types import is_widened
from flinkish.common.conversion import same
from flinkish.common.errors import InvalidProgramError, SourceError
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.file_system.avro_format import with_default_values
from flinkish.datastream.connectors.file_system.avro_schema import AvroSchema, GenericRecordAvroTypeInfo, avro_schema
from flinkish.datastream.connectors.file_system.avro_writer import RecordPartWriter
from flinkish.datastream.connectors.file_system.file_format import SplitReader
from flinkish.datastream.connectors.file_system.formats import StreamFormat
from flinkish.datastream.connectors.file_system.parquet_format import RowGroupFormat, RowGroupReader
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.file_system.writer_factories import BulkPartWriter, BulkPartWriterFactory, merge_parquet
from flinkish.datastream.connectors.record_errors import RecordErrors

_BATCH_SIZE: Final = 4096
#: Metadata key under which parquet-avro, and so Flink, stores the schema of the records.
_SCHEMA_KEY: Final = "parquet.avro.schema"
#: Default of parquet-avro.
_COMPRESSION: Final = "none"
Convert = Callable[[Any], Any]

_PRIMITIVES: Final[dict[str, pa.DataType]] = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
_TIMES: Final[dict[str, pa.DataType]] = {
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a schema: its Arrow type and the converters of values (None = no conversion), not called for None."""

    type: pa.DataType
    to_arrow: Convert | None = None
    from_arrow: Convert | None = None
    nullable: bool = False

    def field(self, name: str) -> pa.Field:
        return pa.field(name, self.type, nullable=self.nullable)


def _arrow_fields(schema: AvroSchema) -> dict[str, _Part]:
    """Return the fields of records of a schema; raise InvalidProgramError if Parquet files cannot store them."""
    parsed = schema.parsed
    if not isinstance(parsed, dict) or parsed.get("type") not in ("record", "error"):
        raise InvalidProgramError(f"Parquet files hold records; the Avro schema is {schema}")
    builder = _Builder(schema)
    return {field["name"]: builder.part(field["type"], field["name"]) for field in parsed["fields"]}


class _Builder:
    def __init__(self, schema: AvroSchema) -> None:
        self._named = schema.named
        #: The records whose parts are being converted.
        self._open = [schema.parsed["name"]]

    def part(self, schema: Any, path: str) -> _Part:
        if isinstance(schema, list):
            return self._union(schema, path)
        if isinstance(schema, str):
            if schema in self._named:
                return self.part(self._named[schema], path)
            return _Part(_PRIMITIVES[schema], nullable=schema == "null")
        logical, kind = schema.get("logicalType"), schema["type"]
        match kind:
            case "record" | "error":
                return self._record(schema, path)
            case "enum":
                return _Part(pa.string())
            case "array":
                return _array(self.part(schema["items"], f"{path}[]"))
            case "map":
                return _map(self.part(schema["values"], f"{path}{{}}"))
            case "fixed":
                plain = _Part(pa.binary(schema["size"]))
            case _:
                plain = self.part(kind, path)
        if logical == "decimal":
            return _Part(pa.decimal128(schema["precision"], schema.get("scale", 0)))
        if logical == "uuid":
            return _Part(pa.string(), str, UUID)
        if logical in _TIMES:
            return _Part(_TIMES[logical], None, _in_utc if logical.startswith("timestamp") else None)
        return plain

    def _record(self, schema: Any, path: str) -> _Part:
        if schema["name"] in self._open:
            raise InvalidProgramError(f"field {path!r}: Parquet files cannot hold the record {schema['name']!r} within itself")
        self._open.append(schema["name"])
        fields = {field["name"]: self.part(field["type"], f"{path}.{field['name']}") for field in schema["fields"]}
        self._open.pop()
        struct = pa.struct([part.field(name) for name, part in fields.items()])
        to_arrow = _of_fields({name: part.to_arrow for name, part in fields.items()})
        from_arrow = _of_fields({name: part.from_arrow for name, part in fields.items()})
        return _Part(struct, to_arrow, from_arrow)

    def _union(self, branches: list[Any], path: str) -> _Part:
        nullable = "null" in branches
        others = [branch for branch in branches if branch != "null"]
        if not others:
            return _Part(pa.null(), nullable=True)
        parts = [self.part(branch, path) for branch in others]
        if len(parts) == 1:
            return _Part(parts[0].type, parts[0].to_arrow, parts[0].from_arrow, nullable)
        struct = pa.struct([pa.field(f"member{index}", part.type) for index, part in enumerate(parts)])
        converters = {f"member{index}": part.to_arrow or same for index, part in enumerate(parts)}

        def to_arrow(value: Any) -> Any:
            return {name: converters[name](member) for name, member in value.items()}

        def from_arrow(value: Any) -> Any:
            for part, member in zip(parts, value.values(), strict=True):
                if member is not None:
                    return member if part.from_arrow is None else part.from_arrow(member)
            return None

        return _Part(struct, to_arrow, from_arrow, nullable)


def _with_members(schema: Any, numbers: Iterator[int]) -> Any:
    """Return a schema for the same bytes that reads a value of a union of several types as `{"member<n>": value}`.

    A record with one field has the bytes of that field, so a record around each branch shows which one was written. The names of
    these records need `numbers`.
    """
    match schema:
        case list() if sum(branch != "null" for branch in schema) > 1:
            index = itertools.count()
            return [
                branch
                if branch == "null"
                else {
                    "type": "record",
                    "name": f"flinkish_member_{next(numbers)}",
                    "fields": [{"name": f"member{next(index)}", "type": _with_members(branch, numbers)}],
                }
                for branch in schema
            ]
        case list():
            return [_with_members(branch, numbers) for branch in schema]
        case {"type": "record" | "error", "fields": fields}:
            parts = [{"name": field["name"], "type": _with_members(field["type"], numbers)} for field in fields]
            return schema | {"fields": parts}
        case {"type": "array", "items": items}:
            return schema | {"items": _with_members(items, numbers)}
        case {"type": "map", "values": values}:
            return schema | {"values": _with_members(values, numbers)}
        case _:
            return schema


def _array(item: _Part) -> _Part:
    return _Part(pa.list_(item.field("element")), _of_items(item.to_arrow), _of_items(item.from_arrow))


def _map(item: _Part) -> _Part:
    write, read = item.to_arrow or same, item.from_arrow or same
    return _Part(
        pa.map_(pa.string(), item.field("value")),
        lambda value: [(key, None if part is None else write(part)) for key, part in value.items()],
        lambda entries: {key: None if part is None else read(part) for key, part in entries},
    )


def _of_items(convert: Convert | None) -> Convert | None:
    """Return the function that converts a list of values, some of which may be None; None if there is nothing to convert."""
    if convert is None:
        return None
    return lambda values: [None if value is None else convert(value) for value in values]


def _of_fields(converters: dict[str, Convert | None]) -> Convert | None:
    given = {name: convert for name, convert in converters.items() if convert is not None}

    def convert_fields(value: Any) -> Any:
        return value | {name: convert(value[name]) for name, convert in given.items() if value[name] is not None}

    return convert_fields if given else None


def _in_utc(value: datetime.datetime) -> datetime.datetime:
    return value.astimezone(datetime.UTC)


class AvroParquetFormat(RowGroupFormat, StreamFormat):
    """Reads Parquet files as records of an Avro schema, as plain Python data.

    Columns are found by name; columns that are not in the schema are ignored, and missing columns have the default of their
    field. As in Flink, this is a StreamFormat.
    """

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = avro_schema(schema, "AvroParquetReaders.for_generic_record")
        _arrow_fields(self.schema)

    def produced_type(self) -> TypeInformation:
        return GenericRecordAvroTypeInfo(self.schema)

    def open(self, split: FileSourceSplit, errors: RecordErrors, *, by_columns: bool = False) -> SplitReader:
        return _RecordReader(self.schema, split, errors)


class _RecordReader(RowGroupReader):
    def __init__(self, schema: AvroSchema, split: FileSourceSplit, errors: RecordErrors) -> None:
        self._fields = _arrow_fields(schema)
        fields = with_default_values(schema)["fields"]
        self._defaults = {field["name"]: field["default"] for field in fields if "default" in field}
        super().__init__(split, errors, _BATCH_SIZE)

    def columns(self, schema: pa.Schema) -> list[str]:
        absent = [name for name in self._fields if name not in schema.names]
        missing = [name for name in absent if name not in self._defaults and self._fields[name].type != pa.null()]
        if missing:
            raise SourceError(
                f"{self.path}: columns {missing} are missing, and have no default in the Avro schema; the file has {schema.names}"
            )
        self._absent = {name: self._defaults.get(name) for name in absent}
        self._found = [(name, part) for name, part in self._fields.items() if name not in absent]
        return [name for name, _ in self._found]

    def column(self, index: int, column: pa.Array) -> pa.Array:
        part = self._found[index][1]
        if not part.nullable and column.null_count:
            raise ValueError("it is null, which the schema does not allow")
        if column.type == part.type:
            return column
        # Arrow would convert anything to text, and a large DOUBLE to infinity. Avro's times are numbers with a logical type.
        annotated = pa.types.is_integer(column.type) and pa.types.is_temporal(part.type)
        if not (pa.types.is_nested(part.type) or annotated or is_widened(column.type, part.type)):
            raise self._unreadable(self.describe(index, column))
        try:
            return column.cast(part.type)
        except pa.ArrowInvalid:
            raise
        except pa.ArrowException as error:
            raise self._unreadable(f"{self.describe(index, column)}: {error}") from error

    def _unreadable(self, reason: str) -> SourceError:
        return SourceError(f"{self.path}: {reason}", hint="declare the type that the file has.")

    def describe(self, index: int, column: pa.Array) -> str:
        name, part = self._found[index]
        return f"column {name!r} is {column.type} in the file, which cannot be read as {part.type}"

    def rows(self, columns: list[pa.Array], count: int) -> list[Any]:
        values: dict[str, Sequence[Any]] = {
            name: [copy.deepcopy(default) for _ in range(count)] if isinstance(default, list | dict) else [default] * count
            for name, default in self._absent.items()
        }
        for (name, part), column in zip(self._found, columns, strict=True):
            convert, read = _of_items(part.from_arrow), column.to_pylist()
            values[name] = read if convert is None else convert(read)
        ordered = [values[name] for name in self._fields]
        return [dict(zip(self._fields, row, strict=True)) for row in zip(*ordered, strict=True)] if ordered else [{}] * count


class AvroParquetWriterFactory(BulkPartWriterFactory):
    """Writer factory of Parquet files with records of an Avro schema: plain Python data, or Rows."""

    def __init__(self, schema: AvroSchema) -> None:
        self.schema = avro_schema(schema, "AvroParquetWriters.for_generic_record")
        _arrow_fields(self.schema)

    def create(self, input_type: TypeInformation) -> BulkPartWriter:
        return _RecordWriter(self.schema)

    def merge(self, paths: Sequence[str], target: str) -> None:
        merge_parquet(paths, target, _COMPRESSION)


class _RecordWriter(RecordPartWriter):
    def __init__(self, schema: AvroSchema) -> None:
        super().__init__(schema)
        self._fields = _arrow_fields(schema)
        fields = [part.field(name) for name, part in self._fields.items()]
        self._arrow = pa.schema(fields, {_SCHEMA_KEY: str(schema)})
        self._stored = fastavro.parse_schema(_with_members(schema.definition, itertools.count()))

    def write_file(self, chunks: Sequence[bytes], path: str) -> None:
        records: list[Any] = []
        for count, data in self.blocks(chunks):
            buffer = io.BytesIO(data)
            records += [fastavro.schemaless_reader(buffer, self._stored, None) for _ in range(count)]
        columns = []
        for name, part in self._fields.items():
            values, convert = [record[name] for record in records], _of_items(part.to_arrow)
            columns.append(pa.array(values if convert is None else convert(values), type=part.type))
        table = pa.Table.from_arrays(columns, schema=self._arrow)
        pq.write_table(table, path, compression=_COMPRESSION, write_page_checksum=True)

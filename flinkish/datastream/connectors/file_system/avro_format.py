"""The format of Avro files, which are read block by block, so that positions are exact and readers can share a file.

Defaults are JSON in a schema, and fastavro returns them unconverted in records: a text for bytes, a number for a time. It takes
the logical types from the schema of the file, whatever the declared schema says.
"""

from __future__ import annotations

import copy
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import fastavro
from fastavro.read import SchemaResolutionError

from flinkish.common.errors import SourceError
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.file_system.avro_schema import (
    AvroSchema,
    GenericRecordAvroTypeInfo,
    avro_schema,
    holder,
    meaning,
)
from flinkish.datastream.connectors.file_system.file_format import SplitReader, open_checked
from flinkish.datastream.connectors.file_system.formats import BulkFormat
from flinkish.datastream.connectors.file_system.paths import DamagedFileError
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors

#: Unit of a position in error messages.
_UNIT: Final = "block at byte"
_SYNC_SIZE: Final = 16
#: Number of bytes to read at once to find the next block.
_CHUNK: Final = 256 * 1024
#: Errors raised when a damaged block is decoded.
_BLOCK_ERRORS: Final = (ValueError, TypeError, EOFError, LookupError, ArithmeticError, MemoryError, zlib.error)


class AvroFormat(BulkFormat):
    """Reads records of Avro files as plain Python data, such as dicts for records.

    `schema`: the schema of the records; the schemas of files are resolved to it, as the Avro specification says. Without it,
    records have the schema of their file, and the program does not know their type.
    Large files are cut at blocks, so that several readers share them. Damage affects a whole block, as a record can only be found
    by decoding all records before it. With RecordErrorPolicy.skip(), reading continues at the next block.
    """

    splittable = True
    split_by_default = True

    def __init__(self, schema: AvroSchema | None = None) -> None:
        self.schema = None if schema is None else avro_schema(schema, "the Avro format")

    def produced_type(self) -> TypeInformation | None:
        return None if self.schema is None else GenericRecordAvroTypeInfo(self.schema)

    def open(self, split: FileSourceSplit, errors: RecordErrors, *, by_columns: bool = False) -> SplitReader:
        return _AvroReader(split, self.schema, errors)


class _AvroReader(SplitReader):
    """A region owns the blocks whose sync marker (the one before them) begins in it; source: Avro's DataFileReader."""

    def __init__(self, split: FileSourceSplit, schema: AvroSchema | None, errors: RecordErrors) -> None:
        self._split = split
        self._path = split.path
        self._schema = schema
        self._errors = errors
        self._end = None if split.length is None else split.offset + split.length
        self._shares = False
        self._file = open_checked(split)
        try:
            self._blocks = self._read_header()
            header_end = self._file.tell()
            self._file.seek(header_end - _SYNC_SIZE)
            self._marker = self._file.read(_SYNC_SIZE)
            #: Start of the current block and of the next one; None = there is no further block.
            self._begin: int | None
            self._next: int | None
            if split.position is not None:
                self._next = split.position
            elif split.offset <= header_end - _SYNC_SIZE:
                self._next = header_end
            else:
                self._next = self._find_block(split.offset)
            self._begin = self._next
            self._records: list[Any] = []
            self._index = 0
            if split.within:
                self._load()
                self._index = split.within
        except BaseException:
            self._file.close()
            raise

    def _read_header(self) -> Any:
        """Return an iterator over blocks, which reads from the current position of the file."""
        self._file.seek(0)
        try:
            # Compare the schemas once, so that fastavro does not compare them for each record.
            own = fastavro.block_reader(self._file)
            if self._schema is None or json.loads(own.metadata["avro.schema"]) == self._schema.definition:
                return own
            self._file.seek(0)
            difference = _meaning_differs(AvroSchema(own.metadata["avro.schema"]), self._schema)
            # Defaults that are lists or dicts are the same object in all records.
            fields = [field for named in self._schema.named.values() for field in named.get("fields", ())]
            self._shares = any(isinstance(field.get("default"), list | dict) for field in fields)
            blocks = fastavro.block_reader(self._file, with_default_values(self._schema))
        except DamagedFileError:
            raise
        except Exception as error:
            raise SourceError(f"FileSource: {self._path} is not an Avro file, or it is damaged: {error}") from error
        if difference is not None:
            raise SourceError(
                f"FileSource: the records of {self._path} cannot be read as the declared schema: {difference}",
                hint="declare the logical type that the file has, and convert it in a map().",
            )
        return blocks

    def _owns(self, block: int) -> bool:
        return self._end is None or block - _SYNC_SIZE < self._end

    def _find_block(self, start: int) -> int | None:
        """Return the start of the first block whose marker is at or after `start`; None if it belongs to another region."""
        self._file.seek(start)
        tail = b""
        position = start
        while chunk := self._file.read(_CHUNK):
            data = tail + chunk
            found = data.find(self._marker)
            if found >= 0:
                block = position - len(tail) + found + _SYNC_SIZE
                return block if self._owns(block) else None
            position += len(chunk)
            if self._end is not None and position - _SYNC_SIZE >= self._end:
                return None
            tail = data[-(_SYNC_SIZE - 1) :]
        return None

    def _load(self) -> bool:
        """Decode the next block; return whether there is one. A damaged block gives no records but those of the error policy."""
        self._begin = begin = self._next
        self._records, self._index = [], 0
        if begin is None or not self._owns(begin):
            return False
        self._file.seek(begin)
        try:
            block = next(self._blocks, None)
            if block is None:
                self._next = None
                return False
            self._records = list(map(copy.deepcopy, block)) if self._shares else list(block)
            self._next = begin + block.size
        except SchemaResolutionError as error:
            raise SourceError(
                f"{self._path}, {_UNIT} {begin}: the records of the file cannot be read as the declared schema: {error}; "
                f"the file has {json.dumps(self._blocks.writer_schema, default=str)}, declared is {self._schema}",
                hint="fields that the file lacks need a default in the declared schema; types must be equal or promotable.",
            ) from error
        except _BLOCK_ERRORS as error:
            self._skip_block(begin, error)
        return True

    def _skip_block(self, begin: int, error: Exception) -> None:
        self._file.seek(begin)
        head = self._file.read(64)
        result = self._errors.handle(
            path=self._path,
            line=begin,
            reason=f"the block is damaged and cannot be decoded: {str(error) or type(error).__name__}",
            record=head,
            unit=_UNIT,
        )
        self._records = [] if result is None else [result]
        self._next = self._find_block(begin)
        self._blocks = self._read_header()

    def read(self, limit: int) -> Sequence[Any]:
        while self._index >= len(self._records):
            if not self._load():
                return ()
        records = self._records[self._index : self._index + limit]
        self._index += len(records)
        return records

    def split(self) -> FileSourceSplit:
        if self._index < len(self._records):
            return replace(self._split, position=self._begin, within=self._index)
        return replace(self._split, position=self._next, within=0)

    @property
    def finished(self) -> bool:
        if self._index < len(self._records):
            return False
        if self._next is None or not self._owns(self._next):
            return True
        self._file.seek(self._next)
        return not self._file.read(1)

    def close(self) -> None:
        self._file.close()


def with_default_values(schema: AvroSchema) -> Any:
    """Return the parsed schema, for reading only, whose defaults are values as fastavro reads them."""
    copied = AvroSchema(schema.definition)
    for name, named in schema.named.items():
        for field, target in zip(named.get("fields", ()), copied.named[name].get("fields", ()), strict=True):
            if "default" in field:
                target["default"] = _default_value(field, schema.named)
    return copied.parsed


def _default_value(field: dict[str, Any], named: dict[str, Any]) -> Any:
    """Return the value of a default after it was written and read; the default of a union belongs to its first branch."""
    buffer = io.BytesIO()
    first = field["type"][0] if isinstance(field["type"], list) else field["type"]
    held = holder(first, named)
    fastavro.schemaless_writer(buffer, held, {"value": _encodable(first, field["default"], named)})
    buffer.seek(0)
    record: Any = fastavro.schemaless_reader(buffer, held, None)
    return record["value"]


def _encodable(schema: Any, default: Any, named: dict[str, Any]) -> Any:
    """Return a JSON default as a value that fastavro can write."""
    if isinstance(schema, list):
        return _encodable(schema[0], default, named)
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    match schema["type"]:
        case "bytes" | "fixed":
            return default.encode("latin-1")
        case "array":
            return [_encodable(schema["items"], item, named) for item in default]
        case "map":
            return {key: _encodable(schema["values"], item, named) for key, item in default.items()}
        case "record" | "error":
            return {
                field["name"]: _encodable(field["type"], default.get(field["name"], field.get("default")), named)
                for field in schema["fields"]
            }
        case _:
            return default


def _meaning_differs(written: AvroSchema, declared: AvroSchema) -> str | None:
    """Return where values of a file have another meaning than declared, such as a number and a time; None if nowhere.

    fastavro must be able to resolve one schema to the other.
    """
    found = dict(_meanings(written.parsed, written.named, "", frozenset()))
    for path, (kind, wanted) in _meanings(declared.parsed, declared.named, "", frozenset()):
        # A type that differs is promoted.
        if path in found and found[path][0] == kind and found[path][1] != wanted:
            return f"field {path!r} is {found[path][1]} in the file, declared is {wanted}"
    return None


def _meanings(schema: Any, named: dict[str, Any], path: str, outer: frozenset[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the path, the underlying type and the meaning of each value, except for those in unions of several types."""
    if isinstance(schema, list):
        others = [branch for branch in schema if branch != "null"]
        schema = others[0] if len(others) == 1 else None
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    match schema and schema["type"]:
        case "record" | "error" if schema["name"] not in outer:
            for field in schema["fields"]:
                inside = f"{path}.{field['name']}" if path else field["name"]
                yield from _meanings(field["type"], named, inside, outer | {schema["name"]})
        case "array":
            yield from _meanings(schema["items"], named, f"{path}[]", outer)
        case "map":
            yield from _meanings(schema["values"], named, f"{path}{{}}", outer)
        case None | "record" | "error":
            pass
        case kind:
            yield path, (kind, meaning(schema))

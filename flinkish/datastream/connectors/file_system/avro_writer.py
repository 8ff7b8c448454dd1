"""The writer of Avro files, block by block."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import fastavro
import msgspec
from fastavro.write import Writer

from flinkish.common.errors import InvalidArgumentError
from flinkish.common.typeinfo import TypeInformation
from flinkish.common.types import Row
from flinkish.datastream.connectors.file_system.avro_checks import Check, check_of
from flinkish.datastream.connectors.file_system.avro_rows import AvroPart
from flinkish.datastream.connectors.file_system.avro_schema import AvroSchema, avro_schema, mismatch, record_error
from flinkish.datastream.connectors.file_system.writer_factories import BulkPartWriter, BulkPartWriterFactory

#: Size in bytes from which a block is complete; Avro's default.
_BLOCK_SIZE: Final = 64_000

_CODECS: Final = ("null", "deflate")


class AvroWriterFactory(BulkPartWriterFactory):
    """Writer factory of Avro files; records are plain Python data of the schema, or Rows, even for nested records.

    `codec`: null or deflate.
    """

    def __init__(self, schema: AvroSchema, *, codec: str = "null") -> None:
        self.schema = avro_schema(schema, type(self).__name__)
        if codec not in _CODECS:
            raise InvalidArgumentError(f"codec must be one of {', '.join(_CODECS)}; got {codec!r}")
        self._codec = codec

    def create(self, input_type: TypeInformation) -> BulkPartWriter:
        return _AvroPartWriter(self.schema, self._codec)

    def merge(self, paths: Sequence[str], target: str) -> None:
        with open(target, "xb") as output:
            writer = Writer(output, self.schema.parsed, codec=self._codec)
            for path in paths:
                with open(path, "rb") as source:
                    blocks = fastavro.block_reader(source)
                    written = json.loads(blocks.metadata["avro.schema"])
                    if not same_schema(written, self.schema):
                        raise ValueError(f"{path} has another schema than the sink: {json.dumps(written)}")
                    for block in blocks:
                        writer.write_block(block)
            writer.flush()


def same_schema(written: Any, schema: AvroSchema) -> bool:
    """Return whether the schema of a file equals `schema` in its written form."""
    return bool(AvroSchema(written).parsed == schema.parsed)


def write_record(buffer: io.BytesIO, schema: AvroSchema, record: Any, check: Check | None) -> None:
    """Append a record in binary form; raise TypeMismatchError if it does not fit the schema. `check` is `check_of(schema)`."""
    try:
        if check is not None:
            check(record)
        # Strict, as a field that is not in the schema would be lost silently.
        fastavro.schemaless_writer(buffer, schema.parsed, record, strict_allow_default=True)
    except (ValueError, TypeError, ArithmeticError, AttributeError, LookupError) as error:
        raise record_error(record, mismatch(record, schema) or str(error)) from error


class AvroRecords:
    """Encodes records as blocks, which are stored in state, and decodes them."""

    def __init__(self, schema: AvroSchema) -> None:
        self._schema = schema
        self._check = check_of(schema)
        self._part = AvroPart(schema)

    def encode(self, values: Sequence[Any]) -> bytes:
        """Return records as blocks; raise TypeMismatchError for a record that does not fit the schema."""
        blocks: list[tuple[int, bytes]] = []
        buffer = io.BytesIO()
        count = 0
        for value in values:
            self._write(buffer, value)
            count += 1
            if buffer.tell() >= _BLOCK_SIZE:
                blocks.append((count, buffer.getvalue()))
                buffer, count = io.BytesIO(), 0
        if count:
            blocks.append((count, buffer.getvalue()))
        return msgspec.msgpack.encode(blocks)

    def _write(self, buffer: io.BytesIO, value: Any) -> None:
        try:
            record = self._part.from_row(value) if isinstance(value, Row) else value
        except (ValueError, TypeError, AttributeError) as error:
            raise record_error(value, str(error)) from error
        write_record(buffer, self._schema, record, self._check)

    @staticmethod
    def blocks(chunks: Sequence[bytes]) -> Iterator[tuple[int, bytes]]:
        """Yield the blocks of some chunks: the number of records, and their bytes."""
        for chunk in chunks:
            yield from msgspec.msgpack.decode(chunk, type=list[tuple[int, bytes]])

    def decode(self, chunks: Sequence[bytes]) -> Iterator[Any]:
        """Yield the records of some chunks."""
        for count, data in self.blocks(chunks):
            buffer = io.BytesIO(data)
            for _ in range(count):
                yield fastavro.schemaless_reader(buffer, self._schema.parsed, None)


class RecordPartWriter(BulkPartWriter):
    """Base of the writers of records, which stay in Avro's binary form until a file is written: it is small, and checked."""

    def __init__(self, schema: AvroSchema) -> None:
        self._records = AvroRecords(schema)
        self.check = lambda value: value

    def encode(self, values: Sequence[Any]) -> bytes:
        return self._records.encode(values)


class _AvroPartWriter(RecordPartWriter):
    def __init__(self, schema: AvroSchema, codec: str) -> None:
        super().__init__(schema)
        self._schema = schema
        self._codec = codec

    def write_file(self, chunks: Sequence[bytes], path: str) -> None:
        with open(path, "xb") as file:
            writer = Writer(file, self._schema.parsed, codec=self._codec)
            for count, data in self._records.blocks(chunks):
                writer.write_block(_Block(count, io.BytesIO(data)))
            writer.flush()


class _Block(NamedTuple):
    """What fastavro's Writer takes from a block."""

    num_records: int
    bytes_: io.BytesIO

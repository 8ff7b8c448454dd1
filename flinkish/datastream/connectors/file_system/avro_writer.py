"""The writer of Avro files, block by block."""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

import fastavro
import msgspec
from fastavro.write import Writer

from flinkish.common.errors import InvalidArgumentError
from flinkish.common.ids import random_id
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
        self._check = check_of(schema.parsed)
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


class _AvroPartWriter(BulkPartWriter):
    def __init__(self, schema: AvroSchema, codec: str) -> None:
        self._schema = schema
        self._codec = codec
        self._records = AvroRecords(schema)
        self.check = lambda value: value

    def encode(self, values: Sequence[Any]) -> bytes:
        return self._records.encode(values)

    def write_file(self, chunks: Sequence[bytes], path: str) -> None:
        marker = bytes.fromhex(random_id())
        with open(path, "xb") as file:
            fastavro.writer(file, self._schema.parsed, [], codec=self._codec, sync_marker=marker)
            for count, data in self._records.blocks(chunks):
                if self._codec == "deflate":
                    compressor = zlib.compressobj(wbits=-15)
                    data = compressor.compress(data) + compressor.flush()
                file.write(_long(count) + _long(len(data)) + data + marker)


def _long(number: int) -> bytes:
    """Return a number of at least 0 as Avro writes a long: zigzag, seven bits a byte."""
    number <<= 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)

"""Bulk formats to write: what FileSink.for_bulk_format takes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.serialization import BulkWriterFactory
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors._arrow import RowsToArrow, fields_of

COMPRESSIONS: Final = ("snappy", "zstd", "gzip", "lz4", "none")


class BulkPartWriter(ABC):
    """Writes part files of a bulk format. Records are kept as bytes until there are enough for a file."""

    #: Returns what `encode` is to get for a record; raises TypeMismatchError or SinkError for one that cannot be written.
    check: Callable[[Any], Any]

    @abstractmethod
    def encode(self, values: Sequence[Any]) -> bytes:
        """Return the records of an epoch as bytes, to be kept in state."""

    @abstractmethod
    def write_file(self, chunks: Sequence[bytes], path: str) -> None:
        """Write a file of all records in chunks that `encode` made."""


class BulkPartWriterFactory(BulkWriterFactory, ABC):
    """Makes the writers of a bulk format, in the tasks: immutable and picklable."""

    @abstractmethod
    def create(self, input_type: TypeInformation) -> BulkPartWriter:
        """Make a writer for records of a type; raises InvalidProgramError if the format cannot hold it."""


class ParquetWriterFactory(BulkPartWriterFactory):
    """Parquet files of rows or tuples.

    `row_type`: ROW_NAMED or TUPLE; None: the type of the records. `compression`: snappy, zstd, gzip, lz4 or none.
    """

    def __init__(self, row_type: TypeInformation | None = None, *, compression: str = "snappy") -> None:
        if row_type is not None and (not isinstance(row_type, TypeInformation) or fields_of(row_type) is None):
            raise InvalidArgumentError(f"row_type of ParquetWriterFactory must be ROW_NAMED, ROW or TUPLE; got {row_type!r}")
        if compression not in COMPRESSIONS:
            raise InvalidArgumentError(f"compression must be one of {', '.join(COMPRESSIONS)}; got {compression!r}")
        self._row_type = row_type
        self._compression = compression

    def create(self, input_type: TypeInformation) -> BulkPartWriter:
        row_type = input_type if self._row_type is None else self._row_type
        fields = fields_of(row_type)
        if fields is None:
            raise InvalidProgramError(
                f"Parquet files hold rows or tuples; the records are of type {row_type!r}",
                hint="give the operator before the sink an output_type such as Types.ROW_NAMED(...), or the factory a row_type.",
            )
        return _ParquetPartWriter(RowsToArrow(*fields, zoned=False), self._compression)


class _ParquetPartWriter(BulkPartWriter):
    def __init__(self, rows: RowsToArrow, compression: str) -> None:
        self._rows = rows
        self._compression = compression
        self.check = rows.values

    def encode(self, values: Sequence[Any]) -> bytes:
        return encode_batch(self._rows.batch(values))

    def write_file(self, chunks: Sequence[bytes], path: str) -> None:
        table = pa.Table.from_batches([decode_batch(chunk, self._rows.schema) for chunk in chunks], self._rows.schema)
        pq.write_table(table, path, compression=self._compression)


def encode_batch(batch: pa.RecordBatch) -> bytes:
    """Return a batch as bytes, without its schema."""
    data: bytes = batch.serialize().to_pybytes()
    return data


def decode_batch(data: bytes, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch that `encode_batch` made."""
    return pa.ipc.read_record_batch(pa.py_buffer(data), schema)

"""Writer factories of bulk formats, the arguments of FileSink.for_bulk_format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from enum import Enum
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from flinkish.common.arrow_types import RowsToArrow
from flinkish.common.column_layout import StoredColumns
from flinkish.common.columns import Columns
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, UnsupportedError
from flinkish.common.kinds import fields_of
from flinkish.common.serialization import BulkWriterFactory
from flinkish.common.typeinfo import TypeInformation

COMPRESSIONS: Final = ("snappy", "zstd", "gzip", "lz4", "none")


class BulkPartWriter(ABC):
    """Writes part files of a bulk format. Records are stored as bytes until there are enough for a file."""

    #: Function that converts a record for `encode`; it raises TypeMismatchError or SinkError if the record cannot be written.
    check: Callable[[Any], Any]

    @abstractmethod
    def encode(self, values: Sequence[Any]) -> bytes:
        """Return the records of an epoch as bytes, which are stored in state."""

    def encode_columns(self, columns: Columns) -> bytes | None:
        """Return what `encode` returns for columns; None if their records must be looked at. Only if `takes_columns`."""
        raise NotImplementedError

    @abstractmethod
    def write_file(self, chunks: Sequence[bytes], path: str) -> None:
        """Write a file of all records in chunks that `encode` returned."""


class BulkPartWriterFactory(BulkWriterFactory, ABC):
    """Makes the writers of a bulk format in the tasks; immutable and picklable."""

    #: Whether the concatenation of files is a valid file of the format.
    joinable: bool = False
    #: Whether its writers encode columns.
    takes_columns: bool = False

    @abstractmethod
    def create(self, input_type: TypeInformation) -> BulkPartWriter:
        """Make a writer for records of a type; raise InvalidProgramError if the format cannot store it."""

    def merge(self, paths: Sequence[str], target: str) -> None:
        """Write the records of several files to a new one, in their order; used by FileCompactor.record_wise_file_compactor."""
        raise UnsupportedError(f"{type(self).__name__} cannot merge files")


class Timestamps(Enum):
    """How SQL_TIMESTAMP, a time without zone, is stored."""

    WITHOUT_ZONE = "without zone"
    #: As a point in time: the value is taken as a time in UTC.
    UTC = "utc"
    #: As a point in time: the value is taken as a time in the zone of the machine that writes.
    LOCAL = "local"


class ArrowWriterFactory(BulkPartWriterFactory):
    """Base of formats that Arrow writes: files of rows or tuples.

    `row_type`: ROW_NAMED or TUPLE; None = the type of the records. `timestamps`: how times without zone are stored.
    """

    #: Name of the format in messages.
    format_name: str
    #: Whether files may contain SQL_TIME.
    time_of_day: bool = True
    takes_columns = True

    def __init__(self, row_type: TypeInformation | None, timestamps: Timestamps) -> None:
        if row_type is not None and (not isinstance(row_type, TypeInformation) or fields_of(row_type) is None):
            raise InvalidArgumentError(f"row_type of {type(self).__name__} must be ROW_NAMED, ROW or TUPLE; got {row_type!r}")
        self._row_type = row_type
        self._timestamps = timestamps
        if row_type is not None:
            self._rows(row_type)

    def create(self, input_type: TypeInformation) -> BulkPartWriter:
        row_type = input_type if self._row_type is None else self._row_type
        if fields_of(row_type) is None:
            raise InvalidProgramError(
                f"{self.format_name} files hold rows or tuples; the records are of type {row_type!r}",
                hint="give the operator before the sink an output_type such as Types.ROW_NAMED(...), or the factory a row_type.",
            )
        return _ArrowPartWriter(self._rows(row_type), self.write_table)

    def _rows(self, row_type: TypeInformation) -> RowsToArrow:
        fields = fields_of(row_type)
        assert fields is not None
        zoned, local = self._timestamps is not Timestamps.WITHOUT_ZONE, self._timestamps is Timestamps.LOCAL
        return RowsToArrow(*fields, zoned=zoned, local=local, time_of_day=self.time_of_day)

    @abstractmethod
    def write_table(self, table: pa.Table, path: str) -> None:
        """Write a file."""


class ParquetWriterFactory(ArrowWriterFactory):
    """Parquet files of rows or tuples.

    `row_type`: ROW_NAMED or TUPLE; None = the type of the records. `compression`: snappy, zstd, gzip, lz4 or none. `timestamps`:
    how SQL_TIMESTAMP is stored.
    """

    format_name = "Parquet"

    def __init__(
        self,
        row_type: TypeInformation | None = None,
        *,
        compression: str = "snappy",
        timestamps: Timestamps = Timestamps.WITHOUT_ZONE,
    ) -> None:
        super().__init__(row_type, timestamps)
        if compression not in COMPRESSIONS:
            raise InvalidArgumentError(f"compression must be one of {', '.join(COMPRESSIONS)}; got {compression!r}")
        self._compression = compression

    def write_table(self, table: pa.Table, path: str) -> None:
        pq.write_table(table, path, compression=self._compression, write_page_checksum=True)

    def merge(self, paths: Sequence[str], target: str) -> None:
        merge_parquet(paths, target, self._compression)


def merge_parquet(paths: Sequence[str], target: str, compression: str) -> None:
    """Write the rows of Parquet files with the same schema to a new file."""
    with ExitStack() as files:
        sources = [files.enter_context(pq.ParquetFile(path, page_checksum_verification=True)) for path in paths]
        schema = sources[0].schema_arrow
        writer = files.enter_context(pq.ParquetWriter(target, schema, compression=compression, write_page_checksum=True))
        for source in sources:
            # Small row groups are merged to larger ones; memory holds only one of the files at a time.
            writer.write_table(source.read())


class _ArrowPartWriter(BulkPartWriter):
    def __init__(self, rows: RowsToArrow, write_table: Callable[[pa.Table, str], None]) -> None:
        self._rows = rows
        self._write_table = write_table
        self._stored = StoredColumns(rows)
        self.check = rows.values

    def encode(self, values: Sequence[Any]) -> bytes:
        return encode_batch(self._rows.batch(values))

    def encode_columns(self, columns: Columns) -> bytes | None:
        batch = self._stored.batch(columns)
        return None if batch is None else encode_batch(batch)

    def write_file(self, chunks: Sequence[bytes], path: str) -> None:
        self._write_table(decoded_table(chunks, self._rows.schema), path)


def encode_batch(batch: pa.RecordBatch) -> bytes:
    """Return a batch as bytes, without its schema."""
    data: bytes = batch.serialize().to_pybytes()
    return data


def decoded_table(chunks: Sequence[bytes], schema: pa.Schema) -> pa.Table:
    """Return the rows of chunks that `encode_batch` returned."""
    return pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(chunk), schema) for chunk in chunks], schema)

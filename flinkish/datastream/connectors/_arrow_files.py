"""The files between Spark and a job in which the rows of a bounded DataFrame wait: Parquet with one column of Arrow batches.

Spark makes Arrow batches of rows, and Parquet of the batches, in a third of the time that Parquet of the rows takes. The decoder
is that of streaming DataFrames.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from flinkish.common.arrow_types import arrow_type
from flinkish.common.errors import SourceError
from flinkish.common.typeinfo import RowTypeInfo
from flinkish.datastream.connectors.file_system.file_format import COLUMNS_BATCH, SplitReader, check_size
from flinkish.datastream.connectors.file_system.formats import BulkFormat
from flinkish.datastream.connectors.file_system.parquet_format import RowGroupFormat, open_parquet
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors

#: Size in bytes of a row group, and of a split: small, so that several readers share also the rows of a single partition.
GROUP_BYTES: Final = 8 << 20
#: Options for Spark's writer of Parquet. A value is as large as many rows, so its size is looked at after each one.
WRITE_OPTIONS: Final = {
    "compression": "snappy",
    "parquet.block.size": str(GROUP_BYTES),
    "parquet.block.size.row.check.min": "1",
    "parquet.page.size.row.check.min": "1",
    "parquet.enable.dictionary": "false",
}
#: Rows of a batch, unless the session's limit for Arrow is lower: as many as a source reads before it looks at its output again.
BATCH_ROWS: Final = 1_024
#: Batches to read from a file at a time; if they stay columns, they become one.
_READ_BATCHES = 4
_READ_COLUMNS = COLUMNS_BATCH // BATCH_ROWS

#: Makes records of a batch, or a batch of another.
Decode = Callable[[pa.RecordBatch], Any]


class ArrowFiles(RowGroupFormat, BulkFormat):
    """Reads the files; `decoder` returns the function that makes records or columns of a batch."""

    makes_new_records = True
    why_records = None

    def __init__(self, rows: RowTypeInfo, decoder: Callable[..., Decode]) -> None:
        self._rows = rows
        self._decoder = decoder

    def open(self, split: FileSourceSplit, errors: RecordErrors, *, by_columns: bool = False) -> SplitReader:
        names, types = self._rows.field_names, self._rows.field_types
        # Spark has the same Arrow types for the types that a DataFrame may have.
        fields = [(name, arrow_type(part, name, zoned=False)) for name, part in zip(names, types, strict=True)]
        decode = self._decoder(errors=errors, by_columns=by_columns)
        return _BatchReader(split, pa.schema(fields), decode, by_columns=by_columns)


class _BatchReader(SplitReader):
    """Reads the row groups of a split; the position is the number of rows of the DataFrame that were read."""

    def __init__(self, split: FileSourceSplit, schema: pa.Schema, decode: Decode, *, by_columns: bool) -> None:
        self._split = split
        self._schema = schema
        self._decode = decode
        self._by_columns = by_columns
        check_size(split, may_grow=False)
        self._file = open_parquet(split.path)
        self._position = split.position or 0
        self._runs = self._read(skip=self._position)
        #: The records of one batch, the next of which is at the index; None at the end.
        self._records: Any = ()
        self._index = 0
        self._advance()

    def _read(self, skip: int) -> Iterator[Any]:
        split = self._split
        groups = range(self._file.num_row_groups)[split.offset : None if split.length is None else split.offset + split.length]
        size = _READ_COLUMNS if self._by_columns else _READ_BATCHES
        # By groups, because batches of large values would not fit into one.
        for part in (part for group in groups for part in self._file.iter_batches(size, row_groups=[group])):
            batches: Any = (pa.ipc.read_record_batch(value.as_buffer(), self._schema) for value in part.column(0))
            for batch in [pa.concat_batches(batches)] if self._by_columns else batches:
                if skip < batch.num_rows:
                    yield self._decode(batch.slice(skip))
                skip = max(0, skip - batch.num_rows)

    def _advance(self) -> None:
        try:
            self._records, self._index = next(self._runs, None), 0
        except (pa.ArrowException, OSError) as error:
            raise SourceError(
                f"The file {self._split.path} with rows of a DataFrame is damaged or was cut short: {error}"
            ) from error

    def read(self, limit: int) -> Sequence[Any]:
        if self._records is None:
            return ()
        found: Sequence[Any] = self._records[self._index : self._index + limit]
        self._index += len(found)
        self._position += len(found)
        if self._index == len(self._records):
            self._advance()
        return found

    def split(self) -> FileSourceSplit:
        return replace(self._split, position=self._position)

    @property
    def finished(self) -> bool:
        return self._records is None

    def close(self) -> None:
        self._file.close()

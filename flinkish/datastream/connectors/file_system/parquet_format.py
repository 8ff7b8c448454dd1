"""Parquet files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flinkish.common.arguments import int_of, names_of
from flinkish.common.arrow_types import arrow_type, read_converter, reading_type, row_type_of_schema, texts_of, widened
from flinkish.common.column_layout import Layout
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SourceError
from flinkish.common.kinds import Kind, fields_of, plain_type, shape_of
from flinkish.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from flinkish.common.types import RowColumns, make_row
from flinkish.datastream.connectors.file_system.file_format import COLUMNS_BATCH, FileFormat, SplitReader, check_size, reading
from flinkish.datastream.connectors.file_system.formats import BulkFormat
from flinkish.datastream.connectors.file_system.paths import is_object, open_object
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors


class RowGroupFormat(FileFormat):
    """Base of formats that read Parquet files; large files are cut at row groups, so that several readers share them."""

    splittable = True

    def cut(self, path: str, size: int, block_size: int) -> list[FileSourceSplit]:
        with open_parquet(path) as file:
            metadata = file.metadata
            groups = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
        splits: list[FileSourceSplit] = []
        start = collected = 0
        for end, group_size in enumerate(groups, 1):
            collected += group_size
            if collected >= block_size or end == len(groups):
                splits.append(
                    replace(self.whole(path, size), split_id=f"{path}@{start}", offset=start, length=end - start, line=None)
                )
                start, collected = end, 0
        return splits


class ParquetFormat(RowGroupFormat, BulkFormat):
    """Reads rows of Parquet files.

    `type_info`: a ROW_NAMED with the columns to read, which are found by name; or a TUPLE with the types of all columns, in their
    order. Without it, records are Rows of all columns (or of those in `columns`) with the types of the file, and the program does
    not know their type.
    Numbers are widened to the declared type, but never narrowed with loss: a row with a value that does not fit is a bad record.
    A DECIMAL must be able to hold all values of the file's type. Other types must equal the file's types. Times are read with
    microseconds, and as INSTANT with nanoseconds. A file with two columns of the same name is refused
    if that column is read.
    """

    split_by_default = True
    #: Whether times without zone are in the machine's zone; otherwise they are in UTC, or as in the file.
    local_timestamps = False
    case_sensitive = True

    def __init__(
        self,
        type_info: TypeInformation | None = None,
        *,
        columns: Sequence[str] | None = None,
        batch_size: int = 4096,
    ) -> None:
        if columns is not None:
            names_of("columns of the Parquet format", columns)
        int_of("batch_size of the Parquet format", batch_size, minimum=1)
        if type_info is not None:
            if not isinstance(plain_type(type_info), RowTypeInfo | TupleTypeInfo):
                raise InvalidArgumentError(f"type_info of the Parquet format must be ROW_NAMED, ROW or TUPLE; got {type_info!r}")
            if columns is not None:
                raise InvalidProgramError("give the Parquet format either a type_info or columns; got both")
            names, types = _fields(type_info)
            for name, part in zip(names, types, strict=True):
                arrow_type(part, f"column {name!r}", zoned=False)
        self.type_info = type_info
        self.columns = None if columns is None else tuple(columns)
        self.batch_size = batch_size

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        if self.type_info is None or not _fields(self.type_info)[1]:
            return "the Parquet format has no type_info with the columns"
        # That needs Python's knowledge of time zones.
        local = self.local_timestamps and _has_timestamps(self.type_info)
        return "times are read in the zone of the machine" if local else None

    @property
    def makes_new_records(self) -> bool:  # type: ignore[override]
        # A reader of a subclass may keep them.
        return type(self).open is ParquetFormat.open

    def produced_type(self) -> TypeInformation | None:
        return self.type_info

    def open(self, split: FileSourceSplit, errors: RecordErrors, *, by_columns: bool = False) -> SplitReader:
        return _RowReader(self, split, errors, by_columns=by_columns)


def _fields(type_info: TypeInformation) -> tuple[tuple[str, ...], tuple[TypeInformation, ...]]:
    fields = fields_of(type_info)
    assert fields is not None
    return fields


def _has_timestamps(type_info: TypeInformation) -> bool:
    kind, types = shape_of(type_info)
    return kind is Kind.TIMESTAMP or any(map(_has_timestamps, types))


def open_parquet(path: str) -> pq.ParquetFile:
    """Open a file; raise SourceError if it is gone or no Parquet file."""
    # Hive, Spark and Flink write times as INT96, which Arrow reads as nanoseconds by default; these overflow after 2262.
    # A flipped bit would be a wrong value. Files of Flink, Spark and FileSink have checksums, which Arrow only verifies on
    # request.
    options: dict[str, Any] = {"coerce_int96_timestamp_unit": "us", "page_checksum_verification": True}
    with reading(path):
        try:
            if is_object(path):
                # Columns that lie next to each other are read by one request.
                return pq.ParquetFile(pa.PythonFile(open_object(path, buffered=False)), pre_buffer=True, **options)
            return pq.ParquetFile(path, **options)
        except FileNotFoundError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"FileSource: {path} is not a Parquet file, or it is damaged: {error}") from error


class RowGroupReader(SplitReader):
    """Reads the row groups of a split; the position is the number of rows read."""

    def __init__(self, split: FileSourceSplit, errors: RecordErrors, batch_size: int) -> None:
        self.path = split.path
        self._split = split
        self._errors = errors
        self._batch_size = batch_size
        check_size(split, may_grow=False)
        self._file = open_parquet(split.path)
        metadata = self._file.metadata
        #: Number of rows of each row group of the file.
        self._rows_of: list[int] = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self._groups = range(len(self._rows_of))[split.offset : None if split.length is None else split.offset + split.length]
        self._total = sum(self._rows_of[group] for group in self._groups)
        self._position = split.position or 0
        self._read_columns = self.columns(self._file.schema_arrow)
        self._batches = self._read_batches()
        self._records: Any = ()
        self._index = 0
        #: Whether there are bad rows in `_records`.
        self._some_bad = False

    @abstractmethod
    def columns(self, schema: pa.Schema) -> list[str]:
        """Return the columns to read; raise SourceError if the file lacks declared columns or types. Called first, and once."""

    @abstractmethod
    def column(self, index: int, column: pa.Array) -> pa.Array:
        """Return a column cast to the declared type; raise ValueError if a value does not fit, SourceError if no value can."""

    @abstractmethod
    def describe(self, index: int, column: pa.Array) -> str:
        """Return the reason, for a message, why a value of a column cannot be read."""

    @abstractmethod
    def rows(self, columns: list[pa.Array], count: int) -> Sequence[Any]:
        """Return the records for columns with `count` values each."""

    def run(self, columns: list[pa.Array], count: int) -> Any:
        """Return what `read` returns for columns with `count` values each: records, or a RecordBatch."""
        return self.rows(columns, count)

    def _read_batches(self) -> Iterator[Any]:
        skip = self._position
        for group in self._groups:
            if skip >= self._rows_of[group]:
                skip -= self._rows_of[group]
                continue
            for batch in self._file.iter_batches(self._batch_size, row_groups=[group], columns=self._read_columns):
                if skip >= batch.num_rows:
                    skip -= batch.num_rows
                    continue
                yield self._records_of(batch.slice(skip))
                skip = 0

    def _records_of(self, batch: pa.RecordBatch) -> Any:
        raw = [batch.column(batch.schema.get_field_index(name)) for name in self._read_columns]
        self._some_bad = False
        try:
            return self.run([self.column(index, column) for index, column in enumerate(raw)], batch.num_rows)
        except (ValueError, OverflowError):  # ArrowInvalid is a ValueError; Python has no years after 9999
            # The batch begins at the reader's position.
            before = sum(self._rows_of[: self._split.offset]) + self._position
            return [self._record([column.slice(row, 1) for column in raw], before + row + 1) for row in range(batch.num_rows)]

    def _record(self, raw: list[pa.Array], number: int) -> Any:
        """Return the record of one row, from a batch in which some rows are bad; for a bad row, a call that handles it."""
        columns = []
        reason = ""
        try:
            for index, column in enumerate(raw):
                reason = f"{self.describe(index, column)}: "
                columns.append(self.column(index, column))
                columns[-1].to_pylist()
            reason = ""
            return self.rows(columns, 1)[0]
        except (ValueError, OverflowError) as error:
            self._some_bad = True
            handle = partial(self._errors.handle_row, self._read_columns, texts_of(raw))
            return partial(handle, path=self.path, line=number, reason=f"{reason}{error}")

    def read(self, limit: int) -> Sequence[Any]:
        while True:
            try:
                while self._index >= len(self._records):
                    records = next(self._batches, None)
                    if records is None:
                        return ()
                    self._records, self._index = records, 0
            except (pa.ArrowException, OSError) as error:
                raise SourceError(f"FileSource cannot read {self.path}; it is damaged or was cut short: {error}") from error
            found: Sequence[Any] = self._records[self._index : self._index + limit]
            self._index += len(found)
            self._position += len(found)
            if not self._some_bad:
                return found
            # A bad row is handled in its turn.
            kept = [record() if record.__class__ is partial else record for record in found]
            kept = [record for record in kept if record is not None]
            if kept:
                return kept

    def split(self) -> FileSourceSplit:
        return replace(self._split, position=self._position)

    @property
    def finished(self) -> bool:
        return self._position >= self._total

    def close(self) -> None:
        self._file.close()


class _RowReader(RowGroupReader):
    """With `by_columns`, reads records if a value does not fit, or if a column has other values than columns can hold."""

    def __init__(self, format_: ParquetFormat, split: FileSourceSplit, errors: RecordErrors, *, by_columns: bool) -> None:
        self._format = format_
        self._is_tuple = format_.type_info is not None and isinstance(plain_type(format_.type_info), TupleTypeInfo)
        self._layout = Layout(format_.type_info) if by_columns and format_.type_info is not None else None
        super().__init__(split, errors, max(format_.batch_size, COLUMNS_BATCH) if by_columns else format_.batch_size)

    def columns(self, schema: pa.Schema) -> list[str]:
        names, columns, types = self._find_columns(schema)
        local = self._format.local_timestamps
        self._names, self._types = names, types
        self._wanted = []
        for name, part, column in zip(names, types, columns, strict=True):
            have = schema.field(column).type
            wanted = reading_type(have, part)
            if wanted is None:
                raise SourceError(
                    f"{self.path}: column {name!r} is {have} in the file, which cannot be read as {part}",
                    hint="declare the type that the file has.",
                )
            self._wanted.append(wanted)
        self._converters = [read_converter(part, local=local) for part in types]
        if self._layout is not None and not self._layout.holds(self._wanted):
            self._layout = None
        return columns

    def _find_columns(self, schema: pa.Schema) -> tuple[tuple[str, ...], list[str], list[TypeInformation]]:
        format_ = self._format
        if format_.type_info is None:
            wanted = list(schema.names) if format_.columns is None else list(format_.columns)
            self._find(wanted, schema)
            try:
                row_type = row_type_of_schema(pa.schema([schema.field(name) for name in wanted]))
            except InvalidArgumentError as error:
                raise SourceError(f"{self.path}: {error}", hint="choose other columns with `columns` or a type_info.") from error
            return row_type.field_names, wanted, list(row_type.field_types)
        names, types = _fields(format_.type_info)
        if self._is_tuple and len(schema.names) != len(types):
            raise SourceError(f"{self.path}: the declared type has {len(types)} columns, the file has {schema.names}")
        return names, self._find(schema.names if self._is_tuple else names, schema), list(types)

    def _find(self, names: Sequence[str], schema: pa.Schema) -> list[str]:
        fold: Callable[[str], str] = str if self._is_tuple or self._format.case_sensitive else str.lower
        found: dict[str, list[str]] = {}
        for name in schema.names:
            found.setdefault(fold(name), []).append(name)
        wanted = list(map(fold, names))
        missing = [name for name, key in zip(names, wanted, strict=True) if key not in found]
        if missing:
            raise SourceError(f"{self.path}: columns {missing} are missing; the file has {schema.names}")
        for name, key in zip(names, wanted, strict=True):
            if len(found[key]) > 1:
                raise SourceError(f"{self.path}: column {name!r} could be any of {found[key]}; the file has {schema.names}")
        return [found[key][0] for key in wanted]

    def column(self, index: int, column: pa.Array) -> pa.Array:
        return widened(column, self._wanted[index])

    def describe(self, index: int, column: pa.Array) -> str:
        return f"column {self._names[index]!r} is {column.type} in the file, which cannot be read as {self._types[index]!r}"

    def run(self, columns: list[pa.Array], count: int) -> Any:
        return self.rows(columns, count) if self._layout is None else self._layout.batch_of(columns)

    def rows(self, columns: list[pa.Array], count: int) -> Sequence[Any]:
        if not columns:
            return [() if self._is_tuple else make_row((), [])] * count
        values = [
            column.to_pylist() if convert is None else list(map(convert, column.to_pylist()))
            for column, convert in zip(columns, self._converters, strict=True)
        ]
        if self._is_tuple:
            return list(zip(*values, strict=True))
        return RowColumns(self._names, values)

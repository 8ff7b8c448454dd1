"""Parquet files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SourceError
from flinkish.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from flinkish.common.types import make_row
from flinkish.datastream.connectors._arrow import arrow_type, fields_of, read_converter, row_type_of_schema, unwrap
from flinkish.datastream.connectors.file_system.formats import BulkFormat, SplitReader
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors


class ParquetFormat(BulkFormat):
    """Rows of Parquet files; big files are cut at their row groups, so that readers share them.

    `type_info`: ROW_NAMED, the columns to read and their types, found by name; or TUPLE, all columns by position. Without it
    records are Rows of all columns (or those in `columns`), typed as the file says, and the type is not declared to the program.
    Numbers are widened to the declared type, never narrowed with loss.
    """

    unit = "row"

    def __init__(
        self, type_info: TypeInformation | None = None, *, columns: Sequence[str] | None = None, batch_size: int = 4096
    ) -> None:
        if columns is not None and (isinstance(columns, str) or not all(isinstance(name, str) for name in columns)):
            raise InvalidArgumentError(f"columns of the Parquet format must be a list of names; got {columns!r}")
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size < 1:
            raise InvalidArgumentError(f"batch_size of the Parquet format must be an int of at least 1; got {batch_size!r}")
        if type_info is not None:
            if not isinstance(unwrap(type_info), RowTypeInfo | TupleTypeInfo):
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
    def splittable(self) -> bool:
        return True

    @property
    def split_by_default(self) -> bool:
        return True

    def produced_type(self) -> TypeInformation | None:
        return self.type_info

    def whole(self, path: str, size: int) -> FileSourceSplit:
        return FileSourceSplit(split_id=f"{path}@0", path=path, offset=0, length=None, file_size=size)

    def cut(self, path: str, size: int, block_size: int) -> list[FileSourceSplit]:
        with _open(path) as file:
            metadata = file.metadata
            groups = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
        splits: list[FileSourceSplit] = []
        start = collected = 0
        for index, group_size in enumerate(groups):
            collected += group_size
            if collected >= block_size or index == len(groups) - 1:
                splits.append(
                    FileSourceSplit(split_id=f"{path}@{start}", path=path, offset=start, length=index + 1 - start, file_size=size)
                )
                start, collected = index + 1, 0
        return splits

    def open(self, split: FileSourceSplit, errors: RecordErrors) -> SplitReader:
        return _ParquetReader(self, split)


def _fields(type_info: TypeInformation) -> tuple[tuple[str, ...], tuple[TypeInformation, ...]]:
    fields = fields_of(type_info)
    assert fields is not None
    return fields


def _open(path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path)
    except FileNotFoundError as error:
        raise SourceError(
            f"FileSource: {path} is gone; it was there when the source looked for files",
            hint="files must stay until the job has read them and a checkpoint after that is complete.",
        ) from error
    except (pa.ArrowException, OSError) as error:
        raise SourceError(f"FileSource: {path} is not a Parquet file, or it is damaged: {error}") from error


class _ParquetReader(SplitReader):
    def __init__(self, format_: ParquetFormat, split: FileSourceSplit) -> None:
        self._format = format_
        self._split = split
        if os.path.exists(split.path) and os.path.getsize(split.path) != split.file_size:
            raise SourceError(
                f"FileSource: {split.path} was {split.file_size} bytes long when it was found, and now has "
                f"{os.path.getsize(split.path)}",
                hint="files must not change once they are in the source's folder; move them there when they are complete.",
            )
        self._file = _open(split.path)
        groups = self._file.metadata.num_row_groups
        self._end = groups if split.length is None else min(groups, split.offset + split.length)
        self._total = sum(self._rows_of(i) for i in range(split.offset, self._end))
        self._position = split.position or 0
        self._names, self._columns, self._types = self._find_columns()
        self._converters = [read_converter(part) for part in self._types]
        self._is_tuple = format_.type_info is not None and isinstance(unwrap(format_.type_info), TupleTypeInfo)
        self._batches = self._read_batches()
        self._records: list[Any] = []
        self._index = 0

    def _rows_of(self, group: int) -> int:
        rows: int = self._file.metadata.row_group(group).num_rows
        return rows

    def _find_columns(self) -> tuple[tuple[str, ...], list[str], list[TypeInformation]]:
        schema = self._file.schema_arrow
        path = self._split.path
        format_ = self._format
        if format_.type_info is None:
            wanted = list(schema.names) if format_.columns is None else list(format_.columns)
            self._check_present(wanted, schema)
            try:
                row_type = row_type_of_schema(pa.schema([schema.field(name) for name in wanted]))
            except InvalidArgumentError as error:
                raise SourceError(f"{path}: {error}", hint="choose other columns with `columns` or a type_info.") from error
            return row_type.field_names, wanted, list(row_type.field_types)
        names, types = _fields(format_.type_info)
        if isinstance(unwrap(format_.type_info), TupleTypeInfo):
            if len(schema.names) != len(types):
                raise SourceError(f"{path}: the declared type has {len(types)} columns, the file has {schema.names}")
            return names, list(schema.names), list(types)
        self._check_present(names, schema)
        return names, list(names), list(types)

    def _check_present(self, names: Sequence[str], schema: pa.Schema) -> None:
        missing = [name for name in names if name not in schema.names]
        if missing:
            raise SourceError(f"{self._split.path}: columns {missing} are missing; the file has {schema.names}")

    def _read_batches(self) -> Iterator[list[Any]]:
        skip = self._position
        for group in range(self._split.offset, self._end):
            rows = self._rows_of(group)
            if skip >= rows:
                skip -= rows
                continue
            for batch in self._file.iter_batches(self._format.batch_size, row_groups=[group], columns=self._columns):
                if skip >= batch.num_rows:
                    skip -= batch.num_rows
                    continue
                yield self._rows(batch.slice(skip))
                skip = 0

    def _rows(self, batch: pa.RecordBatch) -> list[Any]:
        columns = []
        for name, column, part, convert in zip(self._names, self._columns, self._types, self._converters, strict=True):
            values = self._cast(batch.column(batch.schema.get_field_index(column)), name, part).to_pylist()
            columns.append(values if convert is None else list(map(convert, values)))
        if not columns:
            return [() if self._is_tuple else make_row((), [])] * batch.num_rows
        if self._is_tuple:
            return list(zip(*columns, strict=True))
        names = self._names
        return [make_row(names, list(values)) for values in zip(*columns, strict=True)]

    def _cast(self, column: pa.Array, name: str, part: TypeInformation) -> pa.Array:
        wanted = arrow_type(part, f"column {name!r}", zoned=False)
        have = column.type
        if pa.types.is_timestamp(have) and pa.types.is_timestamp(wanted):
            # Finer than microseconds is cut off: Python has no more. Points in time become UTC where the type has no zone.
            return column if have == wanted else column.cast(wanted, safe=False)
        if have == wanted or (pa.types.is_decimal(have) and pa.types.is_decimal(wanted)):
            return column
        try:
            return column.cast(wanted)
        except pa.ArrowException as error:
            raise SourceError(
                f"{self._split.path}: column {name!r} is {have} in the file, which cannot be read as {part!r}: {error}",
                hint="declare the type that the file has.",
            ) from error

    def read(self, limit: int) -> Sequence[Any]:
        try:
            while self._index >= len(self._records):
                records = next(self._batches, None)
                if records is None:
                    return ()
                self._records, self._index = records, 0
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"FileSource cannot read {self._split.path}; it is damaged or was cut short: {error}") from error
        records = self._records[self._index : self._index + limit]
        self._index += len(records)
        self._position += len(records)
        return records

    def split(self) -> FileSourceSplit:
        return replace(self._split, position=self._position)

    @property
    def finished(self) -> bool:
        return self._position >= self._total

    def close(self) -> None:
        self._file.close()

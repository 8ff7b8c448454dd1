"""The task side of DeltaSource: splits, and the reader that turns them into rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flinkish.common.arrow_types import Convert, read_converter, reading_type, texts_of, widened
from flinkish.common.column_layout import Layout
from flinkish.common.errors import SourceChangedError, SourceError
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.common.types import RowKind, make_row
from flinkish.datastream.connectors._sequences import BATCH_RECORDS, BatchedReader
from flinkish.datastream.connectors.delta.columns import (
    DeltaColumn,
    arrow_of,
    as_column,
    find_field,
    partition_value,
    physical_name,
    position_of,
    readable,
    shown,
)
from flinkish.datastream.connectors.delta.files import files_of
from flinkish.datastream.connectors.delta.vectors import DeletionVector, Rows
from flinkish.datastream.connectors.file_system.file_format import COLUMNS_BATCH
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy, RecordErrors
from flinkish.program.sources import SourceReaderContext, SourceSplit

_CHANGE_TYPE: Final = "_change_type"
_KINDS: Final = {
    "insert": RowKind.INSERT,
    "update_preimage": RowKind.UPDATE_BEFORE,
    "update_postimage": RowKind.UPDATE_AFTER,
    "delete": RowKind.DELETE,
}
#: Kinds of splits: all rows are inserted or deleted; or, in a change file, only rows that remove or only rows that add are read.
INSERTED: Final = "insert"
DELETED: Final = "delete"
TAKEN_BACK: Final = "taken-back"
ADDED: Final = "added"
_CHANGE_TYPES: Final = {TAKEN_BACK: ("delete", "update_preimage"), ADDED: ("insert", "update_postimage")}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaSplit(SourceSplit):
    """Row groups of a file that belongs to a version, and the number of their rows read so far."""

    version: int
    #: Whether the file is read as part of the table as of the version; else as part of the changes of the version.
    snapshot: bool
    #: Relative to the table.
    path: str
    #: Bytes of the file, if known.
    size: int | None
    #: The split consists of the row groups that begin in this range of bytes; `end` None = to the end of the file.
    start: int = 0
    end: int | None = None
    partition: dict[str, str | None]
    kind: str
    #: Rows to skip.
    deleted: DeletionVector | None = None
    #: The only rows to read; None = all rows.
    only: DeletionVector | None = None
    #: Rows of the file, if known.
    rows: int | None = None
    position: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The options of a DeltaSource, as given to its builder."""

    path: str
    bounded: bool
    columns: tuple[str, ...] | None = None
    row_type: TypeInformation | None = None
    #: Conditions of `filter_partitions`.
    partitions: tuple[tuple[str, str, Any], ...] = ()
    version_as_of: int | None = None
    #: Milliseconds since the epoch.
    timestamp_as_of: int | None = None
    starting_version: int | Literal["latest"] | None = None
    starting_timestamp: int | None = None
    #: The last version of a bounded source; None = the newest version.
    ending_version: int | None = None
    change_feed: bool = False
    in_order: bool = False
    ignore_deletes: bool = False
    ignore_changes: bool = False
    skip_change_commits: bool = False
    #: Milliseconds between two searches for new versions.
    interval: int = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanSettings:
    """The options of a DeltaSource, with the versions and columns that the table had for them when the source was built."""

    options: ReadOptions
    columns: tuple[DeltaColumn, ...]
    #: Whether columns are found in files by their ids (column mapping by id).
    by_id: bool
    #: Id of the table in its log, and the version whose schema the source has.
    table_id: str
    schema_version: int
    #: Begin with the table as of this version; -1 = the newest version, None = no snapshot.
    snapshot_version: int | None
    #: Without a snapshot, begin with the changes of this version; -1 = the next version to appear.
    first_version: int | None
    #: Returns for the partition values of a file whether to read it; None = read all files.
    wanted: Callable[[dict[str, str | None]], bool] | None

    @property
    def row_type(self) -> TypeInformation:
        return Types.ROW_NAMED([column.name for column in self.columns], [column.type_info for column in self.columns])


class DeltaReader(BatchedReader[Any, DeltaSplit]):
    """Reads files one after the other."""

    def __init__(self, settings: ScanSettings, context: SourceReaderContext) -> None:
        super().__init__()
        self._settings = settings
        self._errors = RecordErrors(RecordErrorPolicy.fail(), context)
        context.metric_group.gauge("pendingRecords", self._pending)

    def _pending(self) -> int:
        """Return the number of unread rows in the splits of this reader, without files whose number of rows is unknown."""
        return sum(max(0, split.rows - split.position) for split in self._splits.values() if split.rows is not None)

    def _open(self, split: DeltaSplit, *, by_columns: bool) -> _FileReader:
        return _FileReader(self._settings, split, self._errors, by_columns=by_columns)


class _FileReader:
    """Reads the rows of one split, `by_columns` if they are inserted and their values are those of columns."""

    def __init__(self, settings: ScanSettings, split: DeltaSplit, errors: RecordErrors, *, by_columns: bool) -> None:
        self._settings = settings
        self._errors = errors
        self._split = split
        self._files = files_of(settings.options.path)
        self._path = self._files.path(split.path)
        self._file = self._open()
        self._deleted = None if split.deleted is None else split.deleted.rows(self._files)
        self._only = None if split.only is None else split.only.rows(self._files)
        self._kind = {INSERTED: RowKind.INSERT, DELETED: RowKind.DELETE}.get(split.kind)
        self._names = tuple(column.name for column in settings.columns)
        self._targets = [reading_type(arrow_of(column.field["type"]), column.type_info) for column in settings.columns]
        #: The layout of what `read` returns; None if that is records.
        self._layout: Layout | None = None
        if by_columns and self._kind is RowKind.INSERT:
            layout = Layout(settings.row_type)
            self._layout = layout if layout.holds(self._targets) else None
        self._find_columns()
        self._groups = list(self._own_groups())
        #: Position in the split behind the last row of `_records`.
        self._read = split.position
        self._total = sum(rows for _, _, rows in self._groups)
        self._batches = self._records_by_batch()
        self._records: Any = []
        #: Position of each record in the split; None = consecutive, up to `_read`.
        self._positions: Rows | None = None
        self._index = 0

    def _open(self) -> pq.ParquetFile:
        split = self._split
        try:
            source, size = self._files.source(split.path)
            if split.size is not None and size != split.size:
                raise SourceError(f"DeltaSource: {self._path} has {size} bytes; the log of the table says {split.size}")
            return pq.ParquetFile(
                source,
                coerce_int96_timestamp_unit="us",
                page_checksum_verification=True,
                pre_buffer=self._files.is_remote,
            )
        except FileNotFoundError as error:
            raise self._is_gone() from error
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"DeltaSource: {self._path} is no Parquet file, or it is damaged: {error}") from error

    def _is_gone(self) -> SourceChangedError:
        return SourceChangedError(
            f"DeltaSource: {self._path} is gone, which version {self._split.version} of the table has",
            hint="VACUUM removed it before the job had read it: keep removed files for longer "
            "(delta.deletedFileRetentionDuration), and start the job without a checkpoint, from the table as it is now.",
        )

    def _find_columns(self) -> None:
        """Determine the origin of each column: the file, or a constant (a partition value; null if the file lacks it)."""
        schema = self._file.schema_arrow
        have = list(schema)
        partitioned_by = list(self._split.partition)
        #: For each column: the function that returns its part of a batch, or None and a constant; how to convert its values.
        self._columns: list[tuple[Callable[[pa.RecordBatch], pa.Array] | None, Any, Convert | None]] = []
        self._wanted: list[str] = []
        for column, target in zip(self._settings.columns, self._targets, strict=True):
            part, convert = column.field["type"], read_converter(column.type_info)
            what = f"column {column.name!r} of {self._path}"
            partition = position_of(physical_name(column.field), partitioned_by)
            if partition is not None:
                value = partition_value(self._split.partition[partitioned_by[partition]], part, what)
                self._add_constant(widened(pa.array([value], arrow_of(part)), target)[0], convert)
                continue
            found = find_field(have, column.field, by_id=self._settings.by_id)
            if found is None:
                self._add_constant(pa.scalar(None, target), convert)
                continue
            if not readable(have[found].type, part, by_id=self._settings.by_id):
                raise SourceChangedError(
                    f"DeltaSource: {what} is {have[found].type}, which cannot be read as {shown(part)}",
                    hint="the table was overwritten with another schema; start from a version after that.",
                )
            # A column of another type must be rebuilt first.
            rebuilt = None if have[found].type == arrow_of(part) else part
            self._columns.append((partial(self._array, have[found].name, rebuilt, target), None, convert))
            self._wanted.append(have[found].name)
        if self._kind is None:
            if _CHANGE_TYPE not in schema.names:
                raise SourceError(f"DeltaSource: {self._path} is no file of a change data feed: it has no column {_CHANGE_TYPE}")
            self._wanted.append(_CHANGE_TYPE)

    def _add_constant(self, value: pa.Scalar, convert: Convert | None) -> None:
        if self._layout is not None:
            self._columns.append((lambda batch: pa.repeat(value, batch.num_rows), None, convert))
        else:
            plain = value.as_py()
            self._columns.append((None, plain if convert is None else convert(plain), None))

    def _array(self, name: str, rebuilt: Any, target: pa.DataType, batch: pa.RecordBatch) -> pa.Array:
        array = batch.column(name)
        return widened(array if rebuilt is None else as_column(array, rebuilt, by_id=self._settings.by_id), target)

    def _own_groups(self) -> Iterator[tuple[int, int, int]]:
        """Yield the row groups of the split: number of the group, number of its first row in the file, number of rows."""
        metadata, first = self._file.metadata, 0
        end = self._split.end
        for index in range(metadata.num_row_groups):
            group = metadata.row_group(index)
            begin = 0
            if group.num_columns:
                column = group.column(0)
                begin = column.dictionary_page_offset or column.data_page_offset
            if begin >= self._split.start and (end is None or begin < end):
                yield index, first, group.num_rows
            first += group.num_rows

    def split(self) -> DeltaSplit:
        """Return the split with the number of its rows that were read or skipped."""
        left = len(self._records) - self._index
        position = self._read - left if self._positions is None or not left else int(self._positions[self._index])
        return replace(self._split, position=position)

    @property
    def finished(self) -> bool:
        return self.split().position >= self._total

    def read(self, limit: int) -> Any:
        """Return at most `limit` rows as records, or as a RecordBatch; an empty list only at the end."""
        try:
            while self._index >= len(self._records):
                records = next(self._batches, None)
                if records is None:
                    return []
                self._records, self._index = records, 0
        except FileNotFoundError as error:  # an object in a store can be removed while it is read
            raise self._is_gone() from error
        except (ValueError, OverflowError) as error:  # ArrowInvalid is a ValueError
            raise SourceError(f"DeltaSource: a value in {self._path} does not fit its type: {error}") from error
        except (pa.ArrowException, OSError) as error:
            raise SourceError(f"DeltaSource cannot read {self._path}: {error}") from error
        found = self._records[self._index : self._index + limit]
        self._index += len(found)
        return found

    def _records_by_batch(self) -> Iterator[Any]:
        before, size = 0, BATCH_RECORDS if self._layout is None else COLUMNS_BATCH
        for group, first, rows in self._groups:
            if self._split.position >= before + rows:
                before += rows
                continue
            start = before
            for batch in self._file.iter_batches(size, row_groups=[group], columns=self._wanted):
                skip = max(0, self._split.position - before)
                if skip < batch.num_rows:
                    number = first + before - start
                    try:
                        records = self._run_of(batch, skip, number, before)
                    except (ValueError, OverflowError):
                        if not self._errors.keeps and self._deleted is None and self._only is None:
                            raise
                        records = self._records_one_by_one(batch, skip, number, before)
                    yield records
                before += batch.num_rows

    def _run_of(self, batch: pa.RecordBatch, skip: int, first: int, before: int) -> Any:
        """Return the rows of a batch, whose first row has the number `first` in the file and `before` in the split."""
        if self._layout is None:
            return self._records_of(batch, skip, first, before)
        _, rows = self._chosen(batch, skip, first, before)
        arrays = [rows(array_of(batch)) for array_of, _, _ in self._columns if array_of is not None]
        try:
            return self._layout.batch_of(arrays)
        except (ValueError, OverflowError):  # of a value; records tell which
            return self._records_of(batch, skip, first, before)

    def _chosen(self, batch: pa.RecordBatch, skip: int, first: int, before: int) -> tuple[int, Callable[[pa.Array], pa.Array]]:
        """Return how many rows of a batch are emitted, and a function that chooses theirs of a column's values."""
        kept = self._kept(batch, skip, first)
        self._read = before + batch.num_rows
        self._positions = None if kept is None else kept + before
        if kept is None:
            return batch.num_rows - skip, lambda array: array.slice(skip)
        indexes = pa.array(kept)
        # After a cast, as Arrow cannot take values of all types.
        return len(kept), lambda array: array.take(indexes)

    def _records_of(self, batch: pa.RecordBatch, skip: int, first: int, before: int) -> list[Any]:
        """Return the records of a batch; the arguments are those of `_run_of`."""
        count, rows = self._chosen(batch, skip, first, before)

        def values(array: pa.Array) -> list[Any]:
            found: list[Any] = rows(array).to_pylist()
            return found

        columns: list[list[Any]] = []
        for array_of, constant, convert in self._columns:
            plain = [constant] * count if array_of is None else values(array_of(batch))
            columns.append(plain if convert is None else list(map(convert, plain)))
        names, kind = self._names, self._kind
        if kind is not None:
            return [make_row(names, list(row), kind) for row in zip(*columns, strict=True)]
        kinds = [_KINDS[text] for text in values(batch.column(_CHANGE_TYPE).cast(pa.string()))]
        return [make_row(names, list(row), kind) for row, kind in zip(zip(*columns, strict=True), kinds, strict=True)]

    def _records_one_by_one(self, batch: pa.RecordBatch, skip: int, first: int, before: int) -> list[Any]:
        """Return the records of a batch in which some values do not fit their types; for a bad row, what to emit in its place."""
        records: list[Any] = []
        positions: list[int] = []
        for index in range(skip, batch.num_rows):
            row = batch.slice(index, 1)
            kept = self._kept(row, 0, first + index)
            if kept is not None and not len(kept):
                continue  # such as a deleted row
            try:
                found = self._records_of(row, 0, first + index, before + index)
            except (ValueError, OverflowError) as error:
                if not self._errors.keeps:
                    raise
                reason, texts = f"a value does not fit its type: {error}", texts_of(row.columns)
                line = first + index + 1
                found = [self._errors.handle_row(batch.schema.names, texts, path=self._path, line=line, reason=reason)]
            records += found
            positions += [before + index] * len(found)
        self._read = before + batch.num_rows
        self._positions = np.array(positions, np.int64)
        return records

    def _kept(self, batch: pa.RecordBatch, skip: int, first: int) -> Rows | None:
        """Return the indexes of the rows of a batch to emit; None = all but the first `skip` rows."""
        mask = None
        for rows, keep in ((self._deleted, False), (self._only, True)):
            if rows is not None:
                low, high = np.searchsorted(rows, [first, first + batch.num_rows])
                inside = np.zeros(batch.num_rows, bool)
                inside[rows[low:high] - first] = True
                mask = (inside == keep) if mask is None else mask & (inside == keep)
        if self._kind is None:
            wanted = pc.is_in(batch.column(_CHANGE_TYPE), pa.array(_CHANGE_TYPES[self._split.kind])).to_numpy(
                zero_copy_only=False
            )
            mask = wanted if mask is None else mask & wanted
        if mask is None:
            return None
        mask[:skip] = False
        return np.flatnonzero(mask)

    def close(self) -> None:
        self._file.close()

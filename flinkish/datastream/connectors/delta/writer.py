"""The task side of DeltaSink: rows are put into files that a commit makes visible."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from flinkish.common.column_layout import StoredColumns
from flinkish.common.columns import Columns
from flinkish.common.errors import RecordRefusedError, SinkError
from flinkish.common.ids import random_id
from flinkish.common.types import Row, RowKind, make_row
from flinkish.datastream.connectors._row_buffer import BufferedWriter
from flinkish.datastream.connectors.delta.committer import DeltaCommittable, DeltaFile
from flinkish.datastream.connectors.delta.files import files_of
from flinkish.datastream.connectors.delta.staging import DELETED
from flinkish.datastream.connectors.delta.table import Partition, TableLayout, partition_folder, statistics
from flinkish.datastream.connectors.file_system.writer_factories import decoded_table, encode_batch
from flinkish.program.refused_records import REFUSED_HINT
from flinkish.program.sinks import SinkWriterContext, WriteContext

#: Fewest rows of a partition in a run of columns for which a chunk costs less (20 us) than as many records (2 us each).
_LEAST_ROWS: Final = 16


class NewFiles:
    """Makes files that a commit adds to the table as they are."""

    def __init__(self, path: str, layout: TableLayout, compression: str, subtask_index: int) -> None:
        self.path = path
        self.layout = layout
        self._schema = layout.rows.schema
        self._compression = compression
        self._subtask = subtask_index
        self._table_files = files_of(path)

    def encode(self, rows: Sequence[Any]) -> bytes:
        """Return a chunk of rows of one partition."""
        return encode_batch(self.layout.rows.batch(rows))

    def write(self, groups: Mapping[Partition, Sequence[bytes]]) -> list[DeltaFile]:
        """Write the chunks of each partition into a file; a crash of the machine loses none of the files."""
        files = [self._write(partition, chunks) for partition, chunks in groups.items()]
        folders = {""}
        for file in files:
            folder = os.path.dirname(file.path)
            while folder not in folders:
                folders.add(folder)
                folder = os.path.dirname(folder)
        try:
            self._table_files.sync_folders(folders)
        except OSError as error:
            raise SinkError(f"DeltaSink cannot write to {self.path}: {error.strerror or error}") from error
        return files

    def _write(self, partition: Partition, chunks: Sequence[bytes]) -> DeltaFile:
        table = decoded_table(chunks, self._schema)
        path, files = self._new_path(partition), self._table_files
        try:
            size, written = files.write_parquet(path, table, self._compression)
        except OSError as error:
            raise SinkError(f"DeltaSink cannot write {files.path(path)}: {error.strerror or error}") from error
        return DeltaFile(
            path=path,
            size=size,
            rows=table.num_rows,
            partition=partition,
            modification_time=written,
            stats=self._statistics(table),
        )

    def _new_path(self, partition: Partition) -> str:
        codec = "" if self._compression == "none" else f".{self._compression}"
        name = f"part-{self._subtask:05}-{random_id()}-c000{codec}.parquet"
        return os.path.join(partition_folder(self.layout.partition_by, partition), name)

    def _statistics(self, table: pa.Table) -> str:
        return statistics(table)

    def committable(self, files: Sequence[DeltaFile]) -> DeltaCommittable:
        return DeltaCommittable(table=self.path, schema=self.layout.schema_json, files=tuple(files))


class StagedFiles(NewFiles):
    """Makes files that readers do not see: the committer merges or appends their rows.

    With `keyed`, a row is a pair of its values and whether it deletes the row with its key.
    """

    def __init__(self, path: str, layout: TableLayout, folder: str, subtask_index: int, *, keyed: bool) -> None:
        super().__init__(path, layout, "zstd", subtask_index)
        self._schema = layout.all_rows.schema.append(pa.field(DELETED, pa.bool_()))
        self._folder = folder
        self._keyed = keyed
        self._prepared = 0

    def encode(self, rows: Sequence[Any]) -> bytes:
        deleted = [deleted for _, deleted in rows] if self._keyed else [False] * len(rows)
        batch = self.layout.all_rows.batch([values for values, _ in rows] if self._keyed else rows)
        return encode_batch(pa.RecordBatch.from_arrays([*batch.columns, pa.array(deleted, pa.bool_())], schema=self._schema))

    def _new_path(self, partition: Partition) -> str:
        return f"{self._folder}/rows-{self._subtask:05}-{random_id()}.parquet"

    def _statistics(self, table: pa.Table) -> str:
        return ""

    def committable(self, files: Sequence[DeltaFile]) -> DeltaCommittable:
        self._prepared += 1
        table, schema = self.path, self.layout.schema_json
        return DeltaCommittable(table=table, schema=schema, files=tuple(files), staged=True, order=self._prepared)


class DeltaWriter(BufferedWriter[DeltaCommittable, Partition, DeltaFile]):
    """Buffers rows in state, and writes them to files at checkpoints or when the buffer is full."""

    def __init__(self, files: NewFiles, context: SinkWriterContext) -> None:
        super().__init__(context, "flinkish.delta-sink", Partition, DeltaFile, files.encode, files.write)
        self._new_files = files
        self._layout = files.layout
        self._values = files.layout.all_rows.values
        self._stored = StoredColumns(files.layout.all_rows)
        self._partitions: dict[tuple[Any, ...], list[Any]] = {}
        # The first writer sends the schema once, so that the table is created even if there are no rows.
        self._announced = context.subtask_index != 0

    def write(self, value: Any, context: WriteContext) -> None:
        values = self._values(value)
        indexes = self._layout.partition_indexes
        key = tuple([values[i] for i in indexes]) if indexes else ()
        rows = self._partitions.get(key)
        if rows is None:
            rows = self._partitions[key] = self._buffer.group(self._layout.partition(key))
        rows.append(values)

    def write_columns(self, columns: Columns) -> bool:
        batch = self._stored.batch(columns)
        if batch is None:
            return False
        try:
            parts = self._by_partition(columns, batch)
        except RecordRefusedError:
            return False
        for partition, part in parts:
            self._buffer.add_chunk(partition, len(part), encode_batch(part))
        self._partitions.clear()
        return bool(parts)

    def _by_partition(self, columns: Columns, batch: pa.RecordBatch) -> list[tuple[Partition, pa.RecordBatch]]:
        """Return the rows of each partition, nothing if they are too few for chunks; raise the errors of `partition`."""
        if not self._layout.partition_by:
            return [((), batch)]
        layout, positions = columns.layout, self._stored.positions(columns.layout)
        assert positions is not None
        numbers: Any = np.zeros(len(batch), np.int64)
        for index in self._layout.partition_indexes:
            values = columns.column(positions[index]).dictionary_encode(null_encoding="encode")
            numbers = numbers * len(values.dictionary) + values.indices.to_numpy()
            _, firsts, numbers = np.unique(numbers, return_index=True, return_inverse=True)
        if len(batch) < len(firsts) * _LEAST_ROWS:
            return []
        places = [positions[index] for index in self._layout.partition_indexes]
        keys = zip(*(layout.values_of(place, columns.column(place).take(pa.array(firsts))) for place in places), strict=True)
        numbers_of: dict[Partition, int] = {}  # two keys may have the same partition: "" and null
        numbers = np.array([numbers_of.setdefault(self._layout.partition(key), len(numbers_of)) for key in keys])[numbers]
        rows = batch.select(self._layout.rows.names).take(pa.array(np.argsort(numbers, kind="stable")))
        counts = np.bincount(numbers)
        starts = np.cumsum(counts) - counts
        return [(partition, rows.slice(int(starts[number]), int(counts[number]))) for partition, number in numbers_of.items()]

    def _seal(self) -> None:
        super()._seal()
        self._partitions.clear()

    def prepare_commit(self) -> Sequence[DeltaCommittable]:
        files = self._take_files()
        if not files and self._announced:
            return ()
        self._announced = True
        return (self._new_files.committable(files),)


class StagingWriter(DeltaWriter):
    """Stages rows. With `keys` only the last row of each key counts, and rows that take one back delete it."""

    def __init__(self, files: StagedFiles, keys: tuple[str, ...], context: SinkWriterContext) -> None:
        super().__init__(files, context)
        self._keys = keys
        self._key_indexes = [files.layout.names.index(key) for key in keys]
        #: The last row of each key in this epoch.
        self._latest: dict[tuple[Any, ...], tuple[Sequence[Any], bool]] = {}

    def write(self, value: Any, context: WriteContext) -> None:
        if not self._keys:
            values = self._values(value)
            self._layout.check_folders(values)
            self._buffer.group(()).append(values)
            return
        deleted = False
        if isinstance(value, Row) and value.get_row_kind() is not RowKind.INSERT:
            deleted = value.get_row_kind() is not RowKind.UPDATE_AFTER
            value = make_row(value._fields, list(value))
        values = self._values(value)
        key = tuple([values[index] for index in self._key_indexes])
        if None in key:
            raise RecordRefusedError(
                f"DeltaSink into {self._new_files.path}: a row has no key ({', '.join(self._keys)}): {value!r}",
                hint=f"null is equal to nothing. Filter such rows out before the sink, or {REFUSED_HINT}",
            )
        self._layout.check_folders(values)
        # A row that comes again goes to the end.
        self._latest.pop(key, None)
        self._latest[key] = values, deleted

    def write_columns(self, columns: Columns) -> bool:
        return False

    def _seal(self) -> None:
        if self._latest:
            self._buffer.group(()).extend(self._latest.values())
            self._latest.clear()
        super()._seal()

"""The task side of DeltaSink: writers, which put rows into files that a commit makes visible."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa

from flinkish.common.errors import RecordRefusedError, SinkError
from flinkish.common.ids import IdSource
from flinkish.common.types import Row, RowKind, make_row
from flinkish.datastream.connectors._row_buffer import RowBuffer, bytes_state
from flinkish.datastream.connectors.delta.committer import DeltaCommittable, DeltaFile
from flinkish.datastream.connectors.delta.files import files_of
from flinkish.datastream.connectors.delta.staging import DELETED, staging_folder
from flinkish.datastream.connectors.delta.table import Partition, TableLayout, partition_folder, statistics
from flinkish.datastream.connectors.file_system.writer_factories import decode_batch, encode_batch
from flinkish.program.refused_records import REFUSED_HINT
from flinkish.program.sinks import SinkWriter, SinkWriterContext, WriteContext


class DeltaWriter(SinkWriter[Any, DeltaCommittable]):
    """Buffers rows in state, and writes them to Parquet files at checkpoints or when the buffer is full."""

    def __init__(self, path: str, layout: TableLayout, compression: str, context: SinkWriterContext, ids: IdSource) -> None:
        self._path = path
        self._table_files = files_of(path)
        self._layout = layout
        self._compression = compression
        self._context = context
        self._ids = ids
        self._values = layout.all_rows.values
        self._buffer: RowBuffer[Partition] = RowBuffer(context, "flinkish.delta-sink.rows", Partition, self._encode)
        self._partitions: dict[tuple[Any, ...], list[Any]] = {}
        self._everything: list[Any] | None = None
        self._file_state = context.get_list_state(bytes_state("flinkish.delta-sink.files"))
        decoder = msgspec.msgpack.Decoder(DeltaFile)
        self._files = [decoder.decode(item) for item in self._file_state.get()]
        # The first writer sends the schema once, so that the table is created even if there are no rows.
        self._announced = context.subtask_index != 0

    def write(self, value: Any, context: WriteContext) -> None:
        values = self._values(value)
        if not self._layout.partition_by:
            if self._everything is None:
                self._everything = self._buffer.group(())
            self._everything.append(values)
            return
        key = tuple([values[i] for i in self._layout.partition_indexes])
        rows = self._partitions.get(key)
        if rows is None:
            self._layout.check_folders(values)
            partition = tuple([convert(part) for convert, part in zip(self._layout.partition_converters, key, strict=True)])
            rows = self._partitions[key] = self._buffer.group(partition)
        rows.append(values)

    def _encode(self, rows: Sequence[Sequence[Any]]) -> bytes:
        return encode_batch(self._layout.rows.batch(rows))

    def end_epoch(self) -> None:
        self._seal()
        if self._buffer.is_full:
            self._write_files()

    def flush(self, end_of_input: bool) -> None:
        self._seal()
        self._write_files()

    def _seal(self) -> None:
        self._buffer.seal()
        self._partitions.clear()
        self._everything = None

    def _write_files(self) -> None:
        written = [self._write_file(partition, chunks) for partition, chunks in self._buffer.take().items()]
        if written:
            self._sync_folders(written)
            self._files.extend(written)
            self._file_state.update([msgspec.msgpack.encode(file) for file in self._files])

    def _write_file(self, partition: Partition, chunks: Sequence[bytes]) -> DeltaFile:
        schema = self._layout.rows.schema
        table = pa.Table.from_batches([decode_batch(chunk, schema) for chunk in chunks], schema)
        codec = "" if self._compression == "none" else f".{self._compression}"
        name = f"part-{self._context.subtask_index:05}-{self._ids()}-c000{codec}.parquet"
        return self._store(table, partition_folder(self._layout.partition_by, partition), name, partition, statistics(table))

    def _store(self, table: pa.Table, folder: str, name: str, partition: Partition, stats: str) -> DeltaFile:
        path = os.path.join(folder, name)
        files = self._table_files
        try:
            size, written = files.write_parquet(path, table, self._compression)
        except OSError as error:
            raise SinkError(f"DeltaSink cannot write {files.path(path)}: {error.strerror or error}") from error
        return DeltaFile(path=path, size=size, rows=table.num_rows, partition=partition, modification_time=written, stats=stats)

    def _sync_folders(self, files: Sequence[DeltaFile]) -> None:
        """Sync the names of files to disk before a checkpoint lists them, so that they survive a crash of the machine."""
        folders = {""}
        for file in files:
            folder = os.path.dirname(file.path)
            while folder not in folders:
                folders.add(folder)
                folder = os.path.dirname(folder)
        try:
            self._table_files.sync_folders(folders)
        except OSError as error:
            raise SinkError(f"DeltaSink cannot write to {self._path}: {error.strerror or error}") from error

    def prepare_commit(self) -> Sequence[DeltaCommittable]:
        if not self._files and self._announced:
            return ()
        committable = self._committable(tuple(self._files))
        if self._files:
            self._files = []
            self._file_state.clear()
        self._announced = True
        return (committable,)

    def _committable(self, files: tuple[DeltaFile, ...]) -> DeltaCommittable:
        return DeltaCommittable(table=self._path, schema=self._layout.schema_json, files=files)


class StagingWriter(DeltaWriter):
    """Writes rows to files of its own, hidden from readers, for the committer to merge or append.

    With `keys` only the last row of each key counts, and rows that take one back delete it.
    """

    def __init__(self, path: str, layout: TableLayout, keys: tuple[str, ...], context: SinkWriterContext, ids: IdSource) -> None:
        super().__init__(path, layout, "zstd", context, ids)
        self._staged_schema = layout.all_rows.schema.append(pa.field(DELETED, pa.bool_()))
        self._keys = keys
        self._key_indexes = [layout.names.index(key) for key in keys]
        #: The last row of each key in this epoch.
        self._latest: dict[tuple[Any, ...], tuple[Sequence[Any], bool]] = {}
        self._folder = staging_folder(context.lineage, context.sink_uid)
        self._prepared = 0

    def write(self, value: Any, context: WriteContext) -> None:
        if not self._keys:
            values = self._values(value)
            self._layout.check_folders(values)
            self._buffer.group(()).append((values, False))
            return
        deleted = False
        if isinstance(value, Row) and value.get_row_kind() is not RowKind.INSERT:
            deleted = value.get_row_kind() is not RowKind.UPDATE_AFTER
            value = make_row(value._fields, list(value))
        values = self._values(value)
        key = tuple([values[index] for index in self._key_indexes])
        if None in key:
            raise RecordRefusedError(
                f"DeltaSink into {self._path}: a row has no key ({', '.join(self._keys)}): {value!r}",
                hint=f"null is equal to nothing. Filter such rows out before the sink, or {REFUSED_HINT}",
            )
        self._layout.check_folders(values)
        # A row that comes again goes to the end.
        self._latest.pop(key, None)
        self._latest[key] = values, deleted

    def _encode(self, rows: Sequence[Any]) -> bytes:
        batch = self._layout.all_rows.batch([values for values, _ in rows])
        deleted = pa.array([deleted for _, deleted in rows], pa.bool_())
        return encode_batch(pa.RecordBatch.from_arrays([*batch.columns, deleted], schema=self._staged_schema))

    def _seal(self) -> None:
        if self._latest:
            self._buffer.group(()).extend(self._latest.values())
            self._latest.clear()
        super()._seal()

    def _write_file(self, partition: Partition, chunks: Sequence[bytes]) -> DeltaFile:
        table = pa.Table.from_batches([decode_batch(chunk, self._staged_schema) for chunk in chunks], self._staged_schema)
        name = f"rows-{self._context.subtask_index:05}-{self._ids()}.parquet"
        return self._store(table, self._folder, name, (), "")

    def _committable(self, files: tuple[DeltaFile, ...]) -> DeltaCommittable:
        self._prepared += 1
        return DeltaCommittable(table=self._path, schema=self._layout.schema_json, files=files, staged=True, order=self._prepared)

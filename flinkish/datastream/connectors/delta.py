"""DeltaSource (in delta_source.py) and DeltaSink.

DeltaSink: appends rows to a Delta table, one commit for each checkpoint, each row exactly once.

Writers create Parquet files in the table's folder, which readers ignore until a commit names them. The committer makes one Delta
commit for each checkpoint, with an app transaction (this job and sink, and the checkpoint's id). So after a crash a repeated
commit is recognized and skipped, and a commit by an old driver that still runs is refused. Files of failed attempts remain
without a commit; Delta's VACUUM removes them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from flinkish.common import safe_files
from flinkish.common.configuration import Configuration
from flinkish.common.delta_calls import panics_as_errors, unusable_name
from flinkish.common.disk import make_folders, sync
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SinkError
from flinkish.common.ids import IdSource, random_id
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors._arrow import fields_of
from flinkish.datastream.connectors._delta_committer import DeltaCommittable, DeltaCommitter, DeltaFile
from flinkish.datastream.connectors._delta_table import (
    Partition,
    TableLayout,
    check_table,
    open_table,
    partition_folder,
    statistics,
)
from flinkish.datastream.connectors._row_buffer import RowBuffer, bytes_state
from flinkish.datastream.connectors.delta_source import DeltaSource, DeltaSourceBuilder
from flinkish.datastream.connectors.file_system.paths import delta_table_around, local_path
from flinkish.datastream.connectors.file_system.writer_factories import COMPRESSIONS, decode_batch, encode_batch
from flinkish.program.sinks import Committer, Sink, SinkWriter, SinkWriterContext, WriteContext

__all__ = ["DeltaSink", "DeltaSinkBuilder", "DeltaSource", "DeltaSourceBuilder"]


class DeltaSink(Sink[Any, DeltaCommittable]):
    """Appends rows to a Delta table of protocol (1, 2), which Spark and others read.

    `path`: the table's folder; the table is created if it does not exist. `partition_by`: the partition columns.
    `row_type`: ROW_NAMED or TUPLE; needed if the type of the records is not declared. `field_names`: the columns of a TUPLE, by
    default f0, f1 and so on.
    `table_properties`: properties of a table that the sink creates, such as {"delta.appendOnly": "true"}.
    `overwrite`: the first commit of a job replaces all rows of the table; until then readers see the old rows. A job that resumes
    from a checkpoint, by high-availability.cluster-id or execution.state-recovery.path, appends.

    Rows must be of kind INSERT; others fail the job. Columns are matched by name, and their types must equal the table's.
    SQL_TIMESTAMP is stored as a point in time in UTC. Without checkpoints a bounded job commits once, at its end; an unbounded
    job must enable checkpoints, or no rows ever become visible.

    >>> sink = DeltaSink("/tmp/flights", partition_by=["origin"])
    """

    def __init__(
        self,
        path: str,
        *,
        partition_by: Sequence[str] = (),
        row_type: TypeInformation | None = None,
        field_names: Sequence[str] | None = None,
        table_properties: dict[str, str] | None = None,
        compression: str = "snappy",
        overwrite: bool = False,
    ) -> None:
        if isinstance(partition_by, str) or not all(isinstance(name, str) for name in partition_by):
            raise InvalidArgumentError(f"partition_by of DeltaSink must be a list of column names; got {partition_by!r}")
        if field_names is not None and (isinstance(field_names, str) or not all(isinstance(name, str) for name in field_names)):
            raise InvalidArgumentError(f"field_names of DeltaSink must be a list of names; got {field_names!r}")
        if row_type is not None and not isinstance(row_type, TypeInformation):
            raise InvalidArgumentError(f"row_type of DeltaSink must be a TypeInformation; got {row_type!r}")
        if compression not in COMPRESSIONS:
            raise InvalidArgumentError(f"compression must be one of {', '.join(COMPRESSIONS)}; got {compression!r}")
        self._path = local_path(path, "path of DeltaSink")
        unusable = unusable_name(self._path)
        if unusable is not None:
            name, characters = unusable
            raise InvalidArgumentError(
                f"path of DeltaSink {path!r}: no Delta table can be kept in the folder {name!r}, because of the {characters!r} "
                "in its name",
                hint=f"choose a folder without {characters!r} in its path.",
            )
        self._partition_by = tuple(partition_by)
        self._row_type = row_type
        self._field_names = None if field_names is None else tuple(field_names)
        self._table_properties = dict(table_properties or {})
        self._compression = compression
        self._overwrite = bool(overwrite)

    @staticmethod
    def for_table(path: str) -> DeltaSinkBuilder:
        """Return a builder of a sink for the table at a path."""
        return DeltaSinkBuilder(path)

    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, DeltaCommittable]:
        layout = self._layout(context.input_type)
        return DeltaWriter(self._path, layout, self._compression, context, random_id)

    def create_committer(self, configuration: Configuration) -> Committer[DeltaCommittable]:
        return DeltaCommitter(self._path, self._partition_by, self._table_properties, overwrite=self._overwrite)

    @property
    def committable_type(self) -> Any:
        return DeltaCommittable

    @panics_as_errors()
    def validate(self, input_type: TypeInformation) -> None:
        """Raise an error if the records cannot be rows of a table, or do not fit the existing table."""
        layout = self._layout(input_type)
        if os.path.exists(self._path) and not os.path.isdir(self._path):
            raise SinkError(f"DeltaSink: {self._path} is a file; a table is a folder")
        outer = delta_table_around(os.path.dirname(self._path))
        if outer is not None:
            raise SinkError(
                f"DeltaSink: {self._path} is in the folder of the Delta table {outer}, whose VACUUM would delete its files",
                hint="give the sink a folder of its own.",
            )
        table = open_table(self._path)
        if table is not None:
            check_table(table, layout.schema_json, layout.partition_by, self._path)
            if self._overwrite and table.metadata().configuration.get("delta.appendOnly", "").lower() == "true":
                raise SinkError(f"DeltaSink cannot replace the rows of {self._path}: the table is append-only (delta.appendOnly)")

    def _layout(self, input_type: TypeInformation) -> TableLayout:
        row_type = input_type if self._row_type is None else self._row_type
        fields = fields_of(row_type)
        if fields is None:
            raise InvalidProgramError(
                f"DeltaSink into {self._path} writes rows or tuples; the records are of type {row_type!r}",
                hint="give the operator before the sink an output_type such as Types.ROW_NAMED(...), or DeltaSink a row_type.",
            )
        names, types = fields
        if self._field_names is not None:
            if len(self._field_names) != len(names):
                raise InvalidProgramError(
                    f"DeltaSink into {self._path} has {len(self._field_names)} field_names {list(self._field_names)} for records "
                    f"of {len(names)} fields: {row_type!r}"
                )
            names = self._field_names
        return TableLayout(names, types, self._partition_by, self._path, by_position=self._field_names is not None)


class DeltaSinkBuilder:
    """Builder of a DeltaSink."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._options: dict[str, Any] = {}

    def with_partition_columns(self, *columns: str) -> DeltaSinkBuilder:
        """Set the partition columns."""
        self._options["partition_by"] = columns
        return self

    def with_row_type(self, row_type: TypeInformation) -> DeltaSinkBuilder:
        """Set the type of the rows; needed if the stream does not declare it."""
        self._options["row_type"] = row_type
        return self

    def with_field_names(self, *names: str) -> DeltaSinkBuilder:
        """Set the columns for the fields of tuples, in their order."""
        self._options["field_names"] = names
        return self

    def with_table_properties(self, properties: dict[str, str]) -> DeltaSinkBuilder:
        """Set the properties of the table if the sink creates it."""
        self._options["table_properties"] = properties
        return self

    def with_compression(self, compression: str) -> DeltaSinkBuilder:
        """Set the compression of the files: snappy (default), zstd, gzip, lz4 or none."""
        self._options["compression"] = compression
        return self

    def with_overwrite(self) -> DeltaSinkBuilder:
        """Make the first commit of a job replace all rows of the table, unless the job resumes from a checkpoint."""
        self._options["overwrite"] = True
        return self

    def build(self) -> DeltaSink:
        """Return the sink."""
        return DeltaSink(self._path, **self._options)


class DeltaWriter(SinkWriter[Any, DeltaCommittable]):
    """Buffers rows in state, and writes them to Parquet files at checkpoints or when the buffer is full."""

    def __init__(self, path: str, layout: TableLayout, compression: str, context: SinkWriterContext, ids: IdSource) -> None:
        self._path = path
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
        folder = partition_folder(self._layout.partition_by, partition)
        codec = "" if self._compression == "none" else f".{self._compression}"
        path = os.path.join(folder, f"part-{self._context.subtask_index:05}-{self._ids()}-c000{codec}.parquet")
        target = os.path.join(self._path, path)
        try:
            make_folders(self._path)
            safe_files.make_folders(self._path, folder)
            with safe_files.create_file(self._path, path) as file:
                pq.write_table(table, file, compression=self._compression, write_page_checksum=True)
                file.flush()
                os.fsync(file.fileno())
            status = os.stat(target)
        except OSError as error:
            raise SinkError(f"DeltaSink cannot write {target}: {error.strerror or error}") from error
        return DeltaFile(
            path=path,
            size=status.st_size,
            rows=table.num_rows,
            partition=partition,
            modification_time=status.st_mtime_ns // 1_000_000,
            stats=statistics(table),
        )

    def _sync_folders(self, files: Sequence[DeltaFile]) -> None:
        """Sync the names of files to disk before a checkpoint lists them, so that they survive a crash of the machine."""
        folders = {""}
        for file in files:
            folder = os.path.dirname(file.path)
            while folder not in folders:
                folders.add(folder)
                folder = os.path.dirname(folder)
        try:
            for folder in folders:
                sync(os.path.join(self._path, folder))
        except OSError as error:
            raise SinkError(f"DeltaSink cannot write to {self._path}: {error.strerror or error}") from error

    def prepare_commit(self) -> Sequence[DeltaCommittable]:
        if not self._files and self._announced:
            return ()
        committable = DeltaCommittable(table=self._path, schema=self._layout.schema_json, files=tuple(self._files))
        if self._files:
            self._files = []
            self._file_state.clear()
        self._announced = True
        return (committable,)

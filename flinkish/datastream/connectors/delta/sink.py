"""DeltaSink: writes rows into a Delta table, one commit for each checkpoint, each row exactly once.

Writers create Parquet files in the table's folder, which readers ignore until a commit names them. The committer makes one Delta
commit for each checkpoint, with an app transaction (this job and sink, and the checkpoint's id). So after a crash a repeated
commit is recognized and skipped, and a commit by an old driver that still runs is refused. Files of failed attempts remain
without a commit; Delta's VACUUM removes them.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from flinkish.common.arguments import check, instance_of, int_of, names_of
from flinkish.common.arrow_types import stored_key, values_of
from flinkish.common.builder import FieldsBuilder
from flinkish.common.configuration import Configuration
from flinkish.common.delta_calls import panics_as_errors, unusable_name
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SinkError
from flinkish.common.files.schemes import is_reference
from flinkish.common.kinds import fields_of
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.delta.committer import DeltaCommittable, DeltaCommitter
from flinkish.datastream.connectors.delta.files import files_of, table_location
from flinkish.datastream.connectors.delta.staging import DELETED, staging_folder
from flinkish.datastream.connectors.delta.table import (
    DeltaWrites,
    TableLayout,
    check_table,
    has_mapping,
    open_table,
    written_by_deltalake,
)
from flinkish.datastream.connectors.delta.writer import DeltaWriter, NewFiles, StagedFiles, StagingWriter
from flinkish.datastream.connectors.file_system.writer_factories import COMPRESSIONS
from flinkish.program.sinks import Sink, SinkWriterContext

#: Bytes; the default of deltalake's OPTIMIZE.
_TARGET_FILE_SIZE: Final = 100 * 1024 * 1024

__all__ = ["DeltaSink", "DeltaSinkBuilder"]


class DeltaSink(Sink[Any, DeltaCommittable]):
    """Writes rows into a Delta table, which Spark and others read: appends them, or merges them by key.

    `path`: the table's folder; the table is created if it does not exist. `partition_by`: the partition columns.
    `row_type`: ROW_NAMED or TUPLE; needed if the type of the records is not declared. `field_names`: the columns of a TUPLE, by
    default f0, f1 and so on.
    `table_properties`: properties of a table that the sink creates, such as {"delta.appendOnly": "true"}.
    `overwrite`: the first commit of a job replaces all rows of the table; until then readers see the old rows. A job that resumes
    from a checkpoint, by high-availability.cluster-id or execution.state-recovery.path, appends.

    `upsert_keys`: rows are merged by these columns, with one MERGE for each checkpoint. A row of kind INSERT or UPDATE_AFTER
    replaces the row with its key or is inserted; a row of kind DELETE or UPDATE_BEFORE removes it. The last row of a key counts.
    Key columns hold text, whole numbers, booleans, decimals, dates or timestamps, and no nulls.
    `add_columns`: columns that the table lacks are added to it; columns that the rows lack become null.
    `compact_every`: after this many commits small files are merged into files of about `target_file_size` bytes, in a commit
    that changes no rows.

    Without `upsert_keys` rows must be of kind INSERT; others fail the job. Columns are matched by name, and their types must
    equal the table's. SQL_TIMESTAMP is stored as a point in time in UTC. Without checkpoints a bounded job commits once, at its
    end; an unbounded job must enable checkpoints, or no rows ever become visible.

    Tables with deletion vectors or a change data feed are written as any other. Rows that are merged, and rows for tables with
    column mapping or generated columns, go through the driver, where deltalake writes them. Tables with other
    features of writers are refused.

    >>> sink = DeltaSink("/tmp/flights", partition_by=["origin"])
    """

    committable_type = DeltaCommittable

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
        upsert_keys: Sequence[str] = (),
        add_columns: bool = False,
        compact_every: int | None = None,
        target_file_size: int = _TARGET_FILE_SIZE,
    ) -> None:
        partitions = names_of("partition_by of DeltaSink", partition_by)
        self._field_names = None if field_names is None else names_of("field_names of DeltaSink", field_names)
        keys = tuple(dict.fromkeys(names_of("upsert_keys of DeltaSink", upsert_keys)))
        if keys and overwrite:
            raise InvalidArgumentError("DeltaSink takes either upsert_keys, which merges rows, or overwrite; got both")
        for name, number in (("compact_every", compact_every), ("target_file_size", target_file_size)):
            if number is not None:
                int_of(f"{name} of DeltaSink", number, minimum=1)
        if row_type is not None:
            instance_of("row_type of DeltaSink", row_type, TypeInformation)
        if compression not in COMPRESSIONS:
            raise InvalidArgumentError(f"compression must be one of {', '.join(COMPRESSIONS)}; got {compression!r}")
        #: The table's folder, absolute, or its URI in an object store.
        self.path = _location(path)
        self._row_type = row_type
        self._writes = DeltaWrites(
            partition_by=partitions,
            table_properties=_properties(table_properties),
            overwrite=bool(overwrite),
            keys=keys,
            add_columns=bool(add_columns),
            compaction=None if compact_every is None else (compact_every, target_file_size),
            compression=compression,
        )

    @staticmethod
    def for_table(path: str) -> DeltaSinkBuilder:
        """Return a builder of a sink for the table at a path."""
        return DeltaSinkBuilder(path)

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        return "rows are merged one by one" if self._writes.keys else None

    def create_writer(self, context: SinkWriterContext) -> DeltaWriter:
        files = self.new_files(context.input_type, context.lineage, context.sink_uid, context.subtask_index)
        return StagingWriter(files, self._writes.keys, context) if isinstance(files, StagedFiles) else DeltaWriter(files, context)

    def new_files(self, input_type: TypeInformation, lineage: str, sink_uid: str, subtask_index: int) -> NewFiles:
        """Return the object that makes the files of one writer."""
        staged, writes = self._is_staged(), self._writes
        layout = self._layout(input_type, by_deltalake=staged or writes.compaction is not None)
        if staged:
            folder = staging_folder(lineage, sink_uid)
            return StagedFiles(self.path, layout, folder, subtask_index, keyed=bool(writes.keys))
        return NewFiles(self.path, layout, writes.compression, subtask_index)

    def create_committer(self, configuration: Configuration) -> DeltaCommitter:
        return DeltaCommitter(self.path, self._writes)

    def get_transformer(self) -> _ByKey | None:
        """Return the transformation that sends all rows of a key to one writer, in their order; None if rows are appended."""
        return _ByKey(self) if self._writes.keys else None

    def _is_staged(self) -> bool:
        """Return whether deltalake writes the rows into the table."""
        if self._writes.keys:
            return True
        table = open_table(self.path)
        if table is None:
            return has_mapping(self._writes.table_properties)
        return bool(written_by_deltalake(table))

    @panics_as_errors()
    def validate(self, input_type: TypeInformation) -> None:
        """Raise an error if the records cannot be rows of a table, or do not fit the existing table."""
        layout = self._layout(input_type)
        if not is_reference(self.path) and os.path.exists(self.path) and not os.path.isdir(self.path):
            raise SinkError(f"DeltaSink: {self.path} is a file; a table is a folder")
        try:
            outer = files_of(self.path).outer_table()
        except OSError as error:
            raise SinkError(f"DeltaSink cannot open the table {self.path}: {error.strerror or error}") from error
        if outer is not None:
            raise SinkError(
                f"DeltaSink: {self.path} is in the folder of the Delta table {outer}, whose VACUUM would delete its files",
                hint="give the sink a folder of its own.",
            )
        check_table(open_table(self.path), layout.schema_json, self._writes, self.path, staged=self._is_staged())

    def _layout(self, input_type: TypeInformation, *, by_deltalake: bool = False) -> TableLayout:
        row_type = input_type if self._row_type is None else self._row_type
        fields = fields_of(row_type)
        if fields is None:
            raise InvalidProgramError(
                f"DeltaSink into {self.path} writes rows or tuples; the records are of type {row_type!r}",
                hint="give the operator before the sink an output_type such as Types.ROW_NAMED(...), or DeltaSink a row_type.",
            )
        names, types = fields
        if self._field_names is not None:
            if len(self._field_names) != len(names):
                raise InvalidProgramError(
                    f"DeltaSink into {self.path} has {len(self._field_names)} field_names {list(self._field_names)} for records "
                    f"of {len(names)} fields: {row_type!r}"
                )
            names = self._field_names
        by_position = self._field_names is not None
        layout = TableLayout(
            names, types, self._writes.partition_by, self.path, by_position=by_position, by_deltalake=by_deltalake
        )
        what = f"DeltaSink into {self.path}"
        for name in self._writes.keys:
            check(name in layout.names, f"{what}: {name!r} of upsert_keys is none of the columns {list(layout.names)}")
            arrow = layout.all_rows.schema.field(name).type
            check(
                not (pa.types.is_nested(arrow) or pa.types.is_floating(arrow) or pa.types.is_binary(arrow)),
                f"{what}: column {name!r} of type {arrow} cannot be one of upsert_keys",
                hint="merge by text, whole numbers, booleans, decimals, dates or timestamps.",
            )
        check(DELETED not in layout.names, f"{what}: the column name {DELETED!r} is taken by DeltaSink")
        return layout


@dataclass(frozen=True, slots=True)
class _ByKey:
    """Changes the stream before a sink that merges by key."""

    sink: DeltaSink

    def apply(self, ds: Any) -> Any:
        """Take a DataStream and return it partitioned by the sink's keys."""
        layout = self.sink._layout(ds._record_type)
        by_position, names = layout.all_rows.by_position, layout.names
        indexes = [names.index(key) for key in self.sink._writes.keys]
        converts = [(index, stored_key(layout.types[index])) for index in indexes]

        def key_of(value: Any) -> Any:
            """Return the key of a row, as it is stored: rows whose keys the table does not distinguish come to one writer."""
            values = tuple(value) if by_position else values_of(value, names)
            return tuple([values[index] if convert is None else convert(values[index]) for index, convert in converts])

        return ds.key_by(key_of)


def _properties(given: Any) -> dict[str, str]:
    properties = {} if given is None else given
    if not isinstance(properties, dict) or not all(isinstance(part, str) for pair in properties.items() for part in pair):
        raise InvalidArgumentError(
            f"table_properties of DeltaSink must be a dict of texts; got {given!r}", hint='{"delta.appendOnly": "true"}.'
        )
    return dict(properties)


def _location(path: str) -> str:
    """Return the location of a table; raise InvalidArgumentError for a folder in which Delta cannot keep one."""
    location = table_location(path, "path of DeltaSink")
    unusable = None if is_reference(location) else unusable_name(location)
    if unusable is not None:
        name, characters = unusable
        raise InvalidArgumentError(
            f"path of DeltaSink {path!r}: no Delta table can be kept in the folder {name!r}, because of the {characters!r} "
            "in its name",
            hint=f"choose a folder without {characters!r} in its path.",
        )
    return location


class DeltaSinkBuilder(FieldsBuilder):
    """Builder of a DeltaSink."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._set(path=path)

    def with_partition_columns(self, *columns: str) -> DeltaSinkBuilder:
        """Set the partition columns."""
        return self._set(partition_by=columns)

    def with_row_type(self, row_type: TypeInformation) -> DeltaSinkBuilder:
        """Set the type of the rows; needed if the stream does not declare it."""
        return self._set(row_type=row_type)

    def with_field_names(self, *names: str) -> DeltaSinkBuilder:
        """Set the columns for the fields of tuples, in their order."""
        return self._set(field_names=names)

    def with_table_properties(self, properties: dict[str, str]) -> DeltaSinkBuilder:
        """Set the properties of the table if the sink creates it."""
        return self._set(table_properties=properties)

    def with_compression(self, compression: str) -> DeltaSinkBuilder:
        """Set the compression of the files: snappy (default), zstd, gzip, lz4 or none."""
        return self._set(compression=compression)

    def with_overwrite(self) -> DeltaSinkBuilder:
        """Make the first commit of a job replace all rows of the table, unless the job resumes from a checkpoint."""
        return self._set(overwrite=True)

    def with_upsert_keys(self, *columns: str) -> DeltaSinkBuilder:
        """Merge rows by these columns instead of appending them: insert, update, or delete by the rows' kind."""
        if not columns:
            raise InvalidArgumentError("with_upsert_keys takes at least one column", hint='with_upsert_keys("id").')
        return self._set(upsert_keys=columns)

    def with_add_columns(self) -> DeltaSinkBuilder:
        """Add columns that the table lacks to it; columns that the rows lack become null."""
        return self._set(add_columns=True)

    def with_compaction(self, every_commits: int, target_file_size: int = _TARGET_FILE_SIZE) -> DeltaSinkBuilder:
        """Merge small files after this many commits, into files of about `target_file_size` bytes."""
        return self._set(compact_every=every_commits, target_file_size=target_file_size)

    def build(self) -> DeltaSink:
        """Return the sink."""
        return DeltaSink(**self._fields)

"""DeltaSink: writes rows into a Delta table, one commit for each checkpoint, each row exactly once.

Writers create Parquet files in the table's folder, which readers ignore until a commit names them. The committer makes one Delta
commit for each checkpoint, with an app transaction (this job and sink, and the checkpoint's id). So after a crash a repeated
commit is recognized and skipped, and a commit by an old driver that still runs is refused. Files of failed attempts remain
without a commit; Delta's VACUUM removes them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from flinkish.common.arguments import instance_of, int_of, names_of
from flinkish.common.configuration import Configuration
from flinkish.common.delta_calls import panics_as_errors, unusable_name
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SinkError
from flinkish.common.files.schemes import is_reference
from flinkish.common.ids import random_id
from flinkish.common.kinds import fields_of
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors._arrow import stored_key, values_of
from flinkish.datastream.connectors.delta.committer import DeltaCommittable, DeltaCommitter
from flinkish.datastream.connectors.delta.files import files_of, table_location
from flinkish.datastream.connectors.delta.staging import DELETED
from flinkish.datastream.connectors.delta.table import (
    DeltaWrites,
    TableLayout,
    check_mapped,
    check_partitions,
    check_table,
    has_mapping,
    open_table,
    written_by_deltalake,
)
from flinkish.datastream.connectors.delta.writer import DeltaWriter, StagingWriter
from flinkish.datastream.connectors.file_system.writer_factories import COMPRESSIONS
from flinkish.program.sinks import Sink, SinkWriter, SinkWriterContext

#: Bytes; that of Delta's OPTIMIZE in deltalake.
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
        names_of("partition_by of DeltaSink", partition_by)
        if field_names is not None:
            names_of("field_names of DeltaSink", field_names)
        names_of("upsert_keys of DeltaSink", upsert_keys)
        if upsert_keys and overwrite:
            raise InvalidArgumentError("DeltaSink takes either upsert_keys, which merges rows, or overwrite; got both")
        for name, number in (("compact_every", compact_every), ("target_file_size", target_file_size)):
            if number is not None:
                int_of(f"{name} of DeltaSink", number, minimum=1)
        if row_type is not None:
            instance_of("row_type of DeltaSink", row_type, TypeInformation)
        if compression not in COMPRESSIONS:
            raise InvalidArgumentError(f"compression must be one of {', '.join(COMPRESSIONS)}; got {compression!r}")
        properties = {} if table_properties is None else table_properties
        if not isinstance(properties, dict) or not all(isinstance(part, str) for pair in properties.items() for part in pair):
            raise InvalidArgumentError(
                f"table_properties of DeltaSink must be a dict of texts; got {table_properties!r}",
                hint='{"delta.appendOnly": "true"}.',
            )
        self._path = table_location(path, "path of DeltaSink")
        unusable = None if is_reference(self._path) else unusable_name(self._path)
        if unusable is not None:
            name, characters = unusable
            raise InvalidArgumentError(
                f"path of DeltaSink {path!r}: no Delta table can be kept in the folder {name!r}, because of the {characters!r} "
                "in its name",
                hint=f"choose a folder without {characters!r} in its path.",
            )
        self._row_type = row_type
        self._field_names = None if field_names is None else tuple(field_names)
        self._writes = DeltaWrites(
            partition_by=tuple(partition_by),
            table_properties=dict(properties),
            overwrite=bool(overwrite),
            keys=tuple(dict.fromkeys(upsert_keys)),
            add_columns=bool(add_columns),
            compaction=None if compact_every is None else (compact_every, target_file_size),
            compression=compression,
        )

    @property
    def path(self) -> str:
        """The table's folder, absolute, or its URI in an object store."""
        return self._path

    @staticmethod
    def for_table(path: str) -> DeltaSinkBuilder:
        """Return a builder of a sink for the table at a path."""
        return DeltaSinkBuilder(path)

    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, DeltaCommittable]:
        staged = self._is_staged()
        layout = self._layout(context.input_type, by_deltalake=staged or self._writes.compaction is not None)
        if staged:
            return StagingWriter(self._path, layout, self._writes.keys, context, random_id)
        return DeltaWriter(self._path, layout, self._writes.compression, context, random_id)

    def create_committer(self, configuration: Configuration) -> DeltaCommitter:
        return DeltaCommitter(self._path, self._writes)

    def get_transformer(self) -> _ByKey | None:
        """Return the transformation that sends all rows of a key to one writer, in their order; None if rows are appended."""
        return _ByKey(self) if self._writes.keys else None

    def _is_staged(self) -> bool:
        """Return whether deltalake writes the rows into the table."""
        if self._writes.keys:
            return True
        table = open_table(self._path)
        if table is None:
            return has_mapping(self._writes.table_properties)
        return bool(written_by_deltalake(table))

    @property
    def committable_type(self) -> Any:
        return DeltaCommittable

    @panics_as_errors()
    def validate(self, input_type: TypeInformation) -> None:
        """Raise an error if the records cannot be rows of a table, or do not fit the existing table."""
        layout = self._layout(input_type)
        if not is_reference(self._path) and os.path.exists(self._path) and not os.path.isdir(self._path):
            raise SinkError(f"DeltaSink: {self._path} is a file; a table is a folder")
        try:
            outer = files_of(self._path).outer_table()
        except OSError as error:
            raise SinkError(f"DeltaSink cannot open the table {self._path}: {error.strerror or error}") from error
        if outer is not None:
            raise SinkError(
                f"DeltaSink: {self._path} is in the folder of the Delta table {outer}, whose VACUUM would delete its files",
                hint="give the sink a folder of its own.",
            )
        table = open_table(self._path)
        if table is None:
            if has_mapping(self._writes.table_properties):
                check_mapped(self._writes, self._path)
            fields = json.loads(layout.schema_json)["fields"]
            check_partitions(fields, self._writes, self._path, staged=self._is_staged())
        else:
            check_table(table, layout.schema_json, self._writes, self._path, staged=self._is_staged())

    def _layout(self, input_type: TypeInformation, *, by_deltalake: bool = False) -> TableLayout:
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
        layout = TableLayout(
            names,
            types,
            self._writes.partition_by,
            self._path,
            by_position=self._field_names is not None,
            by_deltalake=by_deltalake,
        )
        self._check_keys(layout)
        return layout

    def _check_keys(self, layout: TableLayout) -> None:
        for name in self._writes.keys:
            if name not in layout.names:
                raise InvalidProgramError(
                    f"DeltaSink into {self._path}: {name!r} of upsert_keys is none of the columns {list(layout.names)}"
                )
            arrow = layout.all_rows.schema.field(name).type
            if pa.types.is_nested(arrow) or pa.types.is_floating(arrow) or pa.types.is_binary(arrow):
                raise InvalidProgramError(
                    f"DeltaSink into {self._path}: column {name!r} of type {arrow} cannot be one of upsert_keys",
                    hint="merge by text, whole numbers, booleans, decimals, dates or timestamps.",
                )
        if DELETED in layout.names:
            raise InvalidProgramError(f"DeltaSink into {self._path}: the column name {DELETED!r} is taken by DeltaSink")


@dataclass(frozen=True, slots=True)
class _ByKey:
    """Changes the stream before a sink that merges by key."""

    sink: DeltaSink

    def apply(self, ds: Any) -> Any:
        """Take a DataStream and return it partitioned by the sink's keys."""
        layout = self.sink._layout(ds._record_type)
        indexes = [layout.names.index(key) for key in self.sink._writes.keys]
        return ds.key_by(_KeyOf(layout, tuple(indexes)))


class _KeyOf:
    """Selects the key of a row, as it is stored: rows whose keys the table does not distinguish must come to one writer."""

    def __init__(self, layout: TableLayout, indexes: tuple[int, ...]) -> None:
        self._names = layout.names
        self._by_position = layout.all_rows.by_position
        self._types = [layout.types[index] for index in indexes]
        self._indexes = indexes
        self._make()

    def _make(self) -> None:
        self._converts = [(index, stored_key(part)) for index, part in zip(self._indexes, self._types, strict=True)]

    def __call__(self, value: Any) -> Any:
        values = tuple(value) if self._by_position else values_of(value, self._names)
        return tuple([values[index] if convert is None else convert(values[index]) for index, convert in self._converts])

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in self.__dict__.items() if name != "_converts"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._make()


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

    def with_upsert_keys(self, *columns: str) -> DeltaSinkBuilder:
        """Merge rows by these columns instead of appending them: insert, update, or delete by the rows' kind."""
        if not columns:
            raise InvalidArgumentError("with_upsert_keys takes at least one column", hint='with_upsert_keys("id").')
        self._options["upsert_keys"] = columns
        return self

    def with_add_columns(self) -> DeltaSinkBuilder:
        """Add columns that the table lacks to it; columns that the rows lack become null."""
        self._options["add_columns"] = True
        return self

    def with_compaction(self, every_commits: int, target_file_size: int = _TARGET_FILE_SIZE) -> DeltaSinkBuilder:
        """Merge small files after this many commits, into files of about `target_file_size` bytes."""
        self._options["compact_every"], self._options["target_file_size"] = every_commits, target_file_size
        return self

    def build(self) -> DeltaSink:
        """Return the sink."""
        return DeltaSink(self._path, **self._options)

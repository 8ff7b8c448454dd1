"""The structure of a Delta table: columns, partitions, statistics, and the check whether rows can be written into it."""

from __future__ import annotations

import datetime
import decimal
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError, TableNotFoundError

from flinkish.common.arguments import check
from flinkish.common.arrow_types import RowsToArrow
from flinkish.common.delta_calls import one_line, panics_as_errors
from flinkish.common.errors import InvalidProgramError, RecordRefusedError, SinkError, TypeMismatchError
from flinkish.common.files.schemes import is_reference
from flinkish.common.files.store_settings import storage_options
from flinkish.common.text import shortened
from flinkish.common.time import Instant
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.delta.columns import columns_shown, shown
from flinkish.datastream.connectors.delta.files import LOG
from flinkish.datastream.connectors.delta.log import DeltaLog, has_variants
from flinkish.program.refused_records import REFUSED_HINT

_NULL_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
#: Maximum number of bytes in the name of a folder. deltalake puts the whole value there, unlike `partition_folder`.
_LONGEST_NAME: Final = 255
#: Features of newer protocols that allow appending plain files.
_HARMLESS_FEATURES: Final = frozenset(
    {"appendOnly", "invariants", "changeDataFeed", "deletionVectors", "v2Checkpoint", "vacuumProtocolCheck"}
)
#: Features that deltalake must handle: if a table uses one, deltalake writes the rows.
_FEATURES_OF_DELTALAKE: Final = frozenset({"columnMapping", "generatedColumns"})
_GENERATED: Final = "delta.generationExpression"
_TRANSACTIONS_EXPIRE: Final = "delta.setTransactionRetentionDuration"

#: Seconds to wait before each try to open the newest version of a table.
_WAITS: Final = (0.0, 0.0, 0.1, 0.2, 0.5, 1.0, 2.0, 4.0)

#: The values of the partition columns of a file, as Delta writes them.
Partition = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaWrites:
    """Settings of the rows' way into a table."""

    partition_by: tuple[str, ...]
    #: Properties of a table that the sink creates.
    table_properties: dict[str, str]
    overwrite: bool
    #: Columns by which rows are merged; empty = rows are appended.
    keys: tuple[str, ...]
    #: Whether to add columns that the table lacks.
    add_columns: bool
    #: Number of commits after which to merge small files, and the approximate size in bytes of merged files; None = never.
    compaction: tuple[int, int] | None
    #: One of writer.COMPRESSIONS.
    compression: str


class TableLayout:
    """The columns of a table: those in the files, and the partition columns in the paths."""

    def __init__(
        self,
        names: tuple[str, ...],
        types: tuple[TypeInformation, ...],
        partition_by: tuple[str, ...],
        path: str,
        *,
        by_position: bool,
        by_deltalake: bool,
    ) -> None:
        """Raise InvalidProgramError if a table cannot have these columns.

        `by_deltalake`: whether deltalake writes files of the table, in folders that it names.
        """
        what = f"DeltaSink into {path}"
        # Delta ignores case when it compares column names.
        folded = [name.lower() for name in names]
        repeated = sorted({name for name in names if folded.count(name.lower()) > 1})
        check(not repeated, f"{what}: columns {repeated} are the same name for Delta, which ignores upper and lower case")
        bad = [name for name in names if not name or set(name) & set(" ,;{}()\n\t=")]
        check(not bad, f"{what}: columns {bad} have no name that a Delta table takes", hint="use letters, digits and _.")
        missing = [name for name in partition_by if name not in names]
        check(not missing, f"{what}: partition columns {missing} are not among the columns {list(names)}")
        check(
            len(set(partition_by)) == len(partition_by) and (not names or len(partition_by) < len(names)),
            f"{what}: partition columns must be different, and not all columns; got {list(partition_by)} of {list(names)}",
        )
        self.names = names
        self.types = types
        self.partition_by = partition_by
        full = RowsToArrow(names, types, zoned=True, time_of_day=False, by_position=by_position)
        self.schema_json = Schema.from_arrow(full.schema).to_json()
        inside = [i for i, name in enumerate(names) if name not in partition_by]
        self.rows = RowsToArrow(
            [names[i] for i in inside], [types[i] for i in inside], zoned=True, time_of_day=False, positions=inside
        )
        self.all_rows = full
        self.partition_indexes = [names.index(name) for name in partition_by]
        self.partition_converters = [_partition_converter(names[i], types[i], what) for i in self.partition_indexes]
        texts = [i for i in self.partition_indexes if pa.types.is_string(full.schema.field(i).type)]
        self._folders_of_texts = [(i, names[i]) for i in texts] if by_deltalake else []
        self._what = what

    def partition(self, key: Sequence[Any]) -> Partition:
        """Return the partition of rows with these values in the partition columns; raise the errors of `check_folders`.

        Raises SinkError for a value that its column cannot hold.
        """
        if self._folders_of_texts:
            self.check_folders(dict(zip(self.partition_indexes, key, strict=True)))
        return tuple([convert(part) for convert, part in zip(self.partition_converters, key, strict=True)])

    def check_folders(self, values: Sequence[Any] | Mapping[int, Any]) -> None:
        """Raise RecordRefusedError for values of a row for whose partition deltalake could not name a folder at the commit."""
        for index, name in self._folders_of_texts:
            value = values[index]
            if value.__class__ is not str:
                continue
            too_long = len(f"{name}={quote(value, safe='', errors='replace')}") > _LONGEST_NAME
            if too_long or value == _NULL_PARTITION:
                why = "is too long for the name of a folder" if too_long else "deltalake reads as null"
                raise RecordRefusedError(
                    f"{self._what}: partition column {name!r} is {shortened(value)!r}, which {why}",
                    hint=f"change such rows before the sink, or {REFUSED_HINT}",
                )


#: How partition values are written: a test of their Arrow type, their Python types, and their text.
_PARTITION_TEXTS: Final[tuple[tuple[Callable[[pa.DataType], bool], tuple[type, ...], Callable[[Any], str]], ...]] = (
    (pa.types.is_string, (str,), str),
    (pa.types.is_boolean, (bool,), lambda value: "true" if value else "false"),
    (pa.types.is_integer, (int,), str),
    (pa.types.is_decimal, (decimal.Decimal, int), "{:f}".format),
    (pa.types.is_date, (datetime.date,), datetime.date.isoformat),
    # With the Z: Spark reads a time without a zone in the zone of its session.
    (
        pa.types.is_timestamp,
        (datetime.datetime, Instant),
        lambda value: f"{value.replace(tzinfo=None).isoformat(timespec='microseconds')}Z",
    ),
)


def _partition_converter(name: str, type_info: TypeInformation, what: str) -> Callable[[Any], str | None]:
    """Return the function that formats partition values as Delta does; raise InvalidProgramError for unsupported types.

    No reader checks the texts when they are written. So Arrow converts a value first, as it does for a column in files: a number
    must fit, a decimal is rounded to the scale, and an instance of a subclass becomes a plain value.
    """
    column = RowsToArrow([name], [type_info], zoned=True, time_of_day=False)
    field = column.schema.field(0)
    found = next((row for row in _PARTITION_TEXTS if row[0](field.type)), None)
    if found is None:
        raise InvalidProgramError(
            f"{what}: column {field.name!r} of type {field.type} cannot be a partition column",
            hint="partition by text, whole numbers, booleans, decimals, dates or timestamps.",
        )
    _, expected, convert = found

    def checked(value: Any) -> str | None:
        if value is None:
            return None
        if not isinstance(value, expected):
            raise SinkError(
                f"{what}: partition column {field.name!r} is {field.type}; got {value!r} of type {type(value).__name__}"
            )
        try:
            text = convert(column.batch([(value,)]).column(0)[0].as_py())
        except TypeMismatchError as error:
            raise SinkError(f"{what}: partition {error}") from error
        except (ValueError, OverflowError) as error:  # a time that Python does not have
            raise SinkError(f"{what}: partition column {field.name!r} is {field.type}; got {value!r}: {error}") from error
        # Delta reads an empty text as a partition value of null.
        return text or None

    return checked


def partition_folder(names: Sequence[str], partition: Partition) -> str:
    """Return the folder of a partition, named as Hive and Spark do.

    >>> partition_folder(["origin", "note"], ("JFK", "a/b"))
    'origin=JFK/note=a%2Fb'
    """
    return "/".join(
        f"{_escape(name)}={_NULL_PARTITION if value is None else _escape(value)}"
        for name, value in zip(names, partition, strict=True)
    )


def _escape(text: str) -> str:
    escaped = quote(text, safe="").replace("~", "%7E")
    # File names are limited to 255 bytes; the value is read from the log, not from the path.
    return escaped if len(escaped) <= 100 else escaped[:100].rstrip("%")


def statistics(table: pa.Table) -> str:
    """Return Delta's statistics of a file: the numbers of rows and of nulls, and the ranges of integers and dates.

    Ranges of other types, which have special rules (NaN, truncation), are left out: readers then read the file itself.
    """
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for name, column in zip(table.schema.names, table.columns, strict=True):
        if pa.types.is_nested(column.type):
            continue
        nulls[name] = column.null_count
        if column.null_count < len(column) and (pa.types.is_integer(column.type) or pa.types.is_date(column.type)):
            ends = pc.min_max(column)
            low[name], high[name] = ends["min"].as_py(), ends["max"].as_py()
    found = {"numRecords": table.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    return json.dumps(found, default=datetime.date.isoformat)


def open_table(path: str) -> DeltaTable | None:
    """Open a table, None if there is none at the path. Raises SinkError, including if its log is outside of its folder."""
    if is_reference(path):
        return _open_in_store(path)
    log = os.path.join(path, LOG)
    if os.path.islink(log):
        raise SinkError(
            f"DeltaSink cannot open the table {path}: {log} is a link, so the log would be written to another folder",
            hint="give the sink the path of the table itself; if nobody put the link there, the storage was tampered with.",
        )
    try:
        with panics_as_errors():
            return DeltaTable(path) if DeltaTable.is_deltatable(path) else None
    except (DeltaError, OSError) as error:
        raise SinkError(f"DeltaSink cannot open the table {path}: {error}") from error


def _open_in_store(path: str) -> DeltaTable | None:
    """Open the newest version of a table in an object store, None if there is no table.

    deltalake finds the newest version by a list. An old list would hide commits, such as our own, so the next version is asked
    for by its name.
    """
    log = DeltaLog(path, who="DeltaSink")
    for wait in _WAITS:
        time.sleep(wait)
        try:
            with panics_as_errors():
                table = DeltaTable(path, storage_options=storage_options(path))
            version = table.version()
        except TableNotFoundError:
            version = -1
        except (DeltaError, OSError) as error:
            raise sink_error(f"DeltaSink cannot open the table {path}", error) from None
        if version < 0 and log.newest_or_none() is None:
            return None
        if version >= 0 and not log.has(version + 1):
            return table
    raise SinkError(
        f"DeltaSink cannot open the table {path}: a list of its log ends with version {version}, and later versions exist",
        hint="the store's lists lag behind, or other writers commit very often; a restart continues from the last checkpoint.",
    )


def sink_error(what: str, error: Exception) -> SinkError:
    """Return the error to raise for one of deltalake, without credentials that it may contain."""
    said = one_line(error)
    failure = SinkError(f"{what}: {said}")
    if said == str(error):
        failure.__cause__ = error
    return failure


def written_by_deltalake(table: DeltaTable) -> list[str]:
    """Return the features of a table for which deltalake must write the rows."""
    configuration = table.metadata().configuration
    fields = json.loads(table.schema().to_json())["fields"]
    found = {
        "column mapping": has_mapping(configuration),
        "generated columns": any(_GENERATED in field["metadata"] for field in fields),
    }
    return [name for name, there in found.items() if there]


def check_table(table: DeltaTable | None, schema_json: str, writes: DeltaWrites, path: str, *, staged: bool) -> None:
    """Raise SinkError unless rows with this schema can be written to the table, or to a new one if there is none.

    `staged`: whether deltalake writes the rows.
    """
    ours = json.loads(schema_json)["fields"]
    if table is None:
        if has_mapping(writes.table_properties):
            _check_mapped(writes, path)
        _check_partitions(ours, writes, path, staged=staged)
        return
    _check_protocol(table, path)
    _check_features(table, writes, path, staged=staged)
    fields = json.loads(table.schema().to_json())["fields"]
    _check_columns(fields, ours, path, add_columns=writes.add_columns)
    partitioned_by = list(table.metadata().partition_columns)
    if partitioned_by != list(writes.partition_by):
        wanted = list(writes.partition_by)
        raise SinkError(f"DeltaSink: the table {path} is partitioned by {partitioned_by}, the sink by {wanted}")
    _check_partitions(fields, writes, path, staged=staged)


def _check_protocol(table: DeltaTable, path: str) -> None:
    """Raise SinkError if the table asks more of its writers than the sink and deltalake can do."""
    protocol = table.protocol()
    features = set(protocol.writer_features or ()) | set(protocol.reader_features or ())
    schema = json.loads(table.schema().to_json())
    # deltalake lists variantType in tables with deletion vectors, too.
    unused = frozenset() if has_variants(schema) else frozenset({"variantType"})
    foreign = sorted(features - _HARMLESS_FEATURES - _FEATURES_OF_DELTALAKE - unused)
    if any(name.startswith("delta.constraints.") for name in table.metadata().configuration):
        foreign.append("constraints")
    if any(name.startswith("delta.identity.") for field in schema["fields"] for name in field["metadata"]):
        foreign.append("identity columns")
    if foreign or protocol.min_writer_version > 7:
        raise SinkError(
            f"DeltaSink cannot write to {path}: its protocol ({protocol.min_reader_version}, {protocol.min_writer_version}) "
            f"{'with ' + ', '.join(foreign) + ' ' if foreign else ''}asks more of writers than DeltaSink supports",
            hint="write to a table without these features, and let Spark copy the rows.",
        )


def _check_features(table: DeltaTable, writes: DeltaWrites, path: str, *, staged: bool) -> None:
    """Raise SinkError if the table has a feature or a property with which the sink cannot write as it is configured."""
    special, configuration = written_by_deltalake(table), table.metadata().configuration
    if special and not staged:
        raise SinkError(
            f"DeltaSink cannot commit to {path}: the table got {' and '.join(special)} after rows were written for it",
            hint="start the job from a checkpoint that is older than these rows, or undo the change of the table until they are "
            "committed.",
        )
    if writes.keys and "generated columns" in special:
        raise SinkError(
            f"DeltaSink cannot merge rows into {path}: the table has generated columns, which an update does not compute again",
            hint="compute them in the stream, and give the table plain columns.",
        )
    if "column mapping" in special:
        _check_mapped(writes, path)
    if (writes.overwrite or writes.keys) and configuration.get("delta.appendOnly", "").lower() == "true":
        raise SinkError(
            f"DeltaSink cannot {'replace' if writes.overwrite else 'merge'} the rows of {path}: the table is append-only "
            "(delta.appendOnly)"
        )
    if configuration.get(_TRANSACTIONS_EXPIRE):
        raise SinkError(
            f"DeltaSink cannot write to {path}: the table forgets transactions ({_TRANSACTIONS_EXPIRE}), by which "
            "repeated commits are recognized",
            hint=f"ALTER TABLE ... UNSET TBLPROPERTIES ('{_TRANSACTIONS_EXPIRE}').",
        )


def has_mapping(configuration: Mapping[str, str]) -> bool:
    """Return whether a table with these properties has column mapping."""
    return configuration.get("delta.columnMapping.mode", "none") != "none"


def _check_mapped(writes: DeltaWrites, path: str) -> None:
    """Raise SinkError if rows cannot be written to a table because it has column mapping."""
    if writes.partition_by and writes.keys:
        raise SinkError(
            f"DeltaSink cannot merge rows into {path}: the table is partitioned and has column mapping",
            hint="merge into a table without partitions, or without column mapping.",
        )
    if writes.compaction is not None:
        raise SinkError(
            f"DeltaSink cannot merge the files of {path}: the table has column mapping, which deltalake's OPTIMIZE cannot handle",
            hint="leave out with_compaction(), and run OPTIMIZE with Spark.",
        )


def _check_partitions(fields: Sequence[Mapping[str, Any]], writes: DeltaWrites, path: str, *, staged: bool) -> None:
    """Raise SinkError if deltalake would write partition values of a timestamp, or of a decimal with digits after the point.

    `fields` are those of the schema's JSON. deltalake leaves out the zone of a timestamp, so Spark reads it in the zone of its
    session; and it writes -1.5 as `-1.-5`, after which nobody can read the table.
    """
    if not (staged or writes.compaction):
        return
    types = {field["name"]: field["type"] for field in fields if field["name"] in writes.partition_by}
    moments = [name for name, part in types.items() if part == "timestamp"]
    decimals = [name for name, part in types.items() if re.fullmatch(r"decimal\(\d+, *[1-9]\d*\)", str(part))]
    if not moments and not decimals:
        return
    what, instead = "write rows into", ""
    if writes.keys:
        what, instead = "merge rows into", "; or append rows, without upsert keys"
    elif not staged:
        what, instead = "merge the files of", "; or leave out with_compaction(), and run OPTIMIZE with Spark"
    if decimals:
        raise SinkError(
            f"DeltaSink cannot {what} {path}: the table is partitioned by the decimal {', '.join(decimals)}, and deltalake, "
            "which does this, damages the log of a table with such partitions of negative numbers, so that nobody can read it",
            hint=f"partition by a decimal without digits after the point, a whole number or text{instead}.",
        )
    raise SinkError(
        f"DeltaSink cannot {what} {path}: the table is partitioned by the timestamp {', '.join(moments)}, and deltalake, which "
        "does this, writes such partitions without a zone, so that Spark reads another time in a session whose zone is not UTC",
        hint=f"partition by a date, or by the time as text{instead}.",
    )


def _check_columns(table: list[dict[str, Any]], rows: list[dict[str, Any]], path: str, *, add_columns: bool) -> None:
    theirs, ours = ({field["name"]: shown(field["type"]) for field in fields} for fields in (table, rows))
    computed = {field["name"] for field in table if _GENERATED in field["metadata"]} - ours.keys()
    strict = [field["name"] for field in table if not field["nullable"] or "delta.invariants" in field["metadata"]]
    differences = [
        f"{name}: {theirs.get(name, 'missing')} in the table, {ours.get(name, 'missing')} in the rows"
        for name in sorted((ours.keys() | theirs.keys()) - computed)
        if ours.get(name) != theirs.get(name) and not (add_columns and (name not in ours or name not in theirs))
    ]
    differences += [f"{name}: NOT NULL or constrained in the table" for name in strict]
    if add_columns:
        folded = {name.lower(): name for name in theirs}
        differences += [
            f"{name}: {folded[name.lower()]} in the table, which is the same for Delta"
            for name in sorted(ours.keys() - theirs.keys())
            if name.lower() in folded
        ]
    if differences:
        raise SinkError(
            f"DeltaSink: the rows do not fit the table {path}.\nTable: {columns_shown(table)}\nRows:  {columns_shown(rows)}\n"
            f"Differences: {'; '.join(differences)}",
            hint="change the output_type of the operator before the sink, or write to another table.",
        )


def add_columns(table: DeltaTable, schema_json: str, path: str) -> bool:
    """Add the columns of a schema that a table lacks to it, in a separate commit; return whether there were any."""
    rows = json.loads(schema_json)["fields"]
    fields = json.loads(table.schema().to_json())["fields"]
    _check_columns(fields, rows, path, add_columns=True)
    known = {field["name"] for field in fields}
    missing = [field for field in Schema.from_json(schema_json).fields if field.name not in known]
    if not missing:
        return False
    table.alter.add_columns(missing)
    return True

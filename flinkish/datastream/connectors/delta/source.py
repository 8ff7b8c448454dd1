"""DeltaSource: reads a version of a Delta table, and optionally the additions or changes of later versions."""

from __future__ import annotations

import datetime
import decimal
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from flinkish.common.arguments import bool_of, check, int_of
from flinkish.common.builder import SettingsBuilder
from flinkish.common.errors import (
    ForeignCheckpointError,
    InvalidArgumentError,
    InvalidProgramError,
    SourceChangedError,
    SourceError,
)
from flinkish.common.kinds import plain_type
from flinkish.common.time import AmountOfTime, Instant, datetime_of, instant_of, milliseconds_of
from flinkish.common.typeinfo import RowTypeInfo, TypeInformation
from flinkish.datastream.connectors.delta.columns import columns_of, partition_value, physical_name
from flinkish.datastream.connectors.delta.enumerator import DeltaEnumerator, DeltaEnumeratorState, no_change_feed
from flinkish.datastream.connectors.delta.files import files_of, is_plain, table_location
from flinkish.datastream.connectors.delta.log import DeltaLog, Metadata
from flinkish.datastream.connectors.delta.reader import DeltaReader, DeltaSplit, ReadOptions, ScanSettings
from flinkish.program.sources import Boundedness, Source, SourceReaderContext, SplitEnumeratorContext

_OPERATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "in": lambda value, wanted: value in wanted,
    "not in": lambda value, wanted: value not in wanted,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
#: Python types of values by type of Delta; decimals are not listed.
_CLASSES: Final[dict[str, type]] = {
    "string": str,
    **dict.fromkeys(("long", "integer", "short", "byte"), int),
    **dict.fromkeys(("float", "double"), float),
    "boolean": bool,
    "binary": bytes,
    "date": datetime.date,
    **dict.fromkeys(("timestamp", "timestamp_ntz"), datetime.datetime),
}


class DeltaSource(Source[Any, DeltaSplit, DeltaEnumeratorState]):
    """Reads the rows of one version of a Delta table; or runs forever, and reads the additions or changes of later versions.

    Records are Rows of the table's columns: STRING, LONG, INT, SHORT, BYTE, FLOAT, DOUBLE, BOOLEAN, decimals of the table's
    precision and scale, PRIMITIVE_ARRAY(BYTE) for binary, SQL_DATE, INSTANT for timestamp, SQL_TIMESTAMP for timestamp_ntz, LIST,
    MAP and ROW_NAMED for nested values. Deletion vectors, column mapping, widened types and both kinds of log checkpoints are
    supported; a table with any other reader feature is refused with an error that names the feature.

    >>> from flinkish.datastream.connectors.delta import DeltaSource
    >>> DeltaSource.for_bounded_row_data("/data/flights")  # doctest: +ELLIPSIS
    <flinkish.datastream.connectors.delta.source.DeltaSourceBuilder object at ...>

    The schema and types are those of the table when the source is built.
    The names are those of Delta's connector for Flink. That connector lacks `read_change_feed`, `keep_order`,
    `filter_partitions`, `skip_change_commits`, `ending_version` and `row_type`, and `version_as_of` of a continuous source.
    """

    split_type = DeltaSplit
    enumerator_checkpoint_type = DeltaEnumeratorState
    makes_new_records = True

    def __init__(self, settings: ScanSettings) -> None:
        self._settings = settings

    @staticmethod
    def for_bounded_row_data(table_path: str) -> DeltaSourceBuilder:
        """Return a builder of a source that reads one version of the table (the newest one by default) and ends."""
        return DeltaSourceBuilder(ReadOptions(path=table_location(table_path, "the path of DeltaSource"), bounded=True))

    @staticmethod
    def for_continuous_row_data(table_path: str) -> DeltaSourceBuilder:
        """Return a builder of a source that reads a version (the newest one by default), and then all later additions."""
        return DeltaSourceBuilder(ReadOptions(path=table_location(table_path, "the path of DeltaSource"), bounded=False))

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._settings.options.bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def restore_enumerator(
        self, context: SplitEnumeratorContext[DeltaSplit], checkpoint: DeltaEnumeratorState | None = None
    ) -> DeltaEnumerator:
        return DeltaEnumerator(context, self._settings, checkpoint)

    create_enumerator = restore_enumerator

    def check_restored(self, splits: Sequence[DeltaSplit], checkpoint: DeltaEnumeratorState | None, *, trusted: bool) -> None:
        """Raise ForeignCheckpointError for a split of a file that is not in the table's folder."""
        table = self._settings.options.path
        files = files_of(table)
        for split in (*splits, *(() if checkpoint is None else checkpoint.returned)):
            if not is_plain(split.path) or (not trusted and files.leads_outside(split.path)):
                raise ForeignCheckpointError(
                    f"a split in the checkpoint is of the file {split.path!r}, which is no file of the Delta table {table}",
                    hint="the checkpoint was tampered with.",
                )

    def create_reader(self, context: SourceReaderContext) -> DeltaReader:
        return DeltaReader(self._settings, context)

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        return "rows of the change feed have kinds" if self._settings.options.change_feed else None

    def produced_type(self) -> TypeInformation:
        return self._settings.row_type


class DeltaSourceBuilder(SettingsBuilder[ReadOptions]):
    """Builder of a DeltaSource."""

    def column_names(self, *columns: str) -> DeltaSourceBuilder:
        """Read these columns only, in this order; other columns may be added or dropped while the job runs."""
        names = tuple(columns[0]) if len(columns) == 1 and isinstance(columns[0], list | tuple) else columns
        if not names or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
            raise InvalidArgumentError(f"column_names takes names of columns, each of them once; got {columns!r}")
        return self._set(columns=names)

    def row_type(self, row_type: TypeInformation) -> DeltaSourceBuilder:
        """Read the columns of a ROW_NAMED as its types, such as wider ones, or SQL_TIMESTAMP for a timestamp (in UTC)."""
        if not isinstance(plain_type(row_type), RowTypeInfo):
            raise InvalidArgumentError(f"row_type takes a Types.ROW_NAMED; got {row_type!r}")
        return self._set(row_type=row_type)

    def filter_partitions(self, *conditions: tuple[str, str, Any]) -> DeltaSourceBuilder:
        """Read only partitions that meet all conditions (column, operator, value).

        Operators: =, !=, <, <=, >, >=, in, not in. Values are of the column's type (for a timestamp, an Instant or a datetime);
        None stands for null, with = and != only.
        Changes in other partitions are ignored.
        """
        for condition in conditions:
            if not isinstance(condition, tuple | list) or len(condition) != 3 or condition[1] not in tuple(_OPERATORS):
                raise InvalidArgumentError(
                    f"filter_partitions takes conditions (column, operator, value); got {condition!r}",
                    hint=f'("day", ">=", datetime.date(2024, 1, 1)); operators are {", ".join(_OPERATORS)}.',
                )
        return self._set(partitions=(*self._settings.partitions, *(tuple(condition) for condition in conditions)))

    def version_as_of(self, snapshot_version: int) -> DeltaSourceBuilder:
        """Read the table as of a version; a continuous source continues with the version after it."""
        return self._set(version_as_of=int_of("version_as_of", snapshot_version, minimum=0))

    def timestamp_as_of(self, snapshot_timestamp: str | int | datetime.datetime) -> DeltaSourceBuilder:
        """Read the table as of a time: ISO text or datetime (UTC if it has no zone), or milliseconds since 1970-01-01 UTC."""
        return self._set(timestamp_as_of=_milliseconds(snapshot_timestamp, "timestamp_as_of"))

    def starting_version(self, starting_version: int | str) -> DeltaSourceBuilder:
        """Read the changes from a version on (inclusive), and not the rows that the table contained before.

        With "latest", a continuous source begins with the next version.
        """
        if starting_version == "latest":
            return self._set(starting_version="latest")
        return self._set(starting_version=int_of('starting_version (if it is not "latest")', starting_version, minimum=0))

    def starting_timestamp(self, starting_timestamp: str | int | datetime.datetime) -> DeltaSourceBuilder:
        """Read the changes from the first version at or after a time; see `timestamp_as_of` and `starting_version`."""
        return self._set(starting_timestamp=_milliseconds(starting_timestamp, "starting_timestamp"))

    def ending_version(self, ending_version: int) -> DeltaSourceBuilder:
        """Set the last version that a bounded source with `starting_version` reads; the newest one by default."""
        return self._set(ending_version=int_of("ending_version", ending_version, minimum=0))

    def update_check_interval_millis(self, update_check_interval: int | AmountOfTime) -> DeltaSourceBuilder:
        """Set the time between two searches for new versions (int: ms); 5,000 by default."""
        millis = milliseconds_of(
            update_check_interval, "update_check_interval_millis", rule="takes milliseconds as int", or_number=True
        )
        check(millis > 0, f"update_check_interval_millis must be more than 0 ms; got {millis}")
        return self._set(interval=millis)

    def read_change_feed(self) -> DeltaSourceBuilder:
        """Read changes as Rows of their kinds: INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE.

        This is for tables with delta.enableChangeDataFeed. One reader reads the changes in the order of the versions, and in each
        version first the rows removed, then the rows added, so that the changes of a key are in order.
        """
        return self._set(change_feed=True)

    def keep_order(self) -> DeltaSourceBuilder:
        """Read the versions after the first snapshot with one reader, so that their rows are emitted in order."""
        return self._set(in_order=True)

    def ignore_deletes(self, ignore_deletes: bool = True) -> DeltaSourceBuilder:
        """Ignore versions that only deleted rows; emitted rows are not retracted. Without this, such a version fails the job."""
        return self._set(ignore_deletes=bool_of("ignore_deletes", ignore_deletes))

    def ignore_changes(self, ignore_changes: bool = True) -> DeltaSourceBuilder:
        """Continue when a version changed or deleted rows, and read the files rewritten by it.

        Unchanged rows of these files are emitted again, so the operators after the source must tolerate repeated rows.
        """
        return self._set(ignore_changes=bool_of("ignore_changes", ignore_changes))

    def skip_change_commits(self, skip_change_commits: bool = True) -> DeltaSourceBuilder:
        """Skip versions that changed or deleted rows, including the rows that they added."""
        return self._set(skip_change_commits=bool_of("skip_change_commits", skip_change_commits))

    def build(self) -> DeltaSource:
        """Read the table's log and return the source.

        Raises InvalidProgramError or SourceError if the table cannot be read with these settings.
        """
        options = self._settings
        self._check(options)
        log = DeltaLog(options.path)
        newest = log.newest()
        snapshot, first = self._beginning(options, log)
        last = options.ending_version
        if max(snapshot or 0, (first or 1) - 1, last or 0) > newest:
            wanted = max(snapshot or 0, first or 0, last or 0)
            raise SourceError(
                f"DeltaSource should read version {wanted}, but {options.path} has no such version yet; the newest is {newest}"
            )
        check(
            first is None or last is None or first <= last,
            f"DeltaSource would read nothing: it starts with version {first} of {options.path} and ends with version {last}",
        )
        if options.change_feed:
            begin = first if snapshot is None else snapshot + 1 if snapshot >= 0 else None
            self._check_feed(log, newest if begin is None or begin < 0 else min(begin, newest))
        # Rows of one version have its schema; a source that continues has the newest schema.
        schema_version = snapshot if options.bounded and snapshot is not None and snapshot >= 0 else newest
        metadata = log.metadata(schema_version)
        columns = columns_of(metadata, options.columns, options.row_type, options.path)
        by_id = metadata.configuration.get("delta.columnMapping.mode") == "id"
        return DeltaSource(
            ScanSettings(
                options=options,
                columns=columns,
                by_id=by_id,
                table_id=metadata.id,
                schema_version=schema_version,
                snapshot_version=snapshot,
                first_version=first,
                wanted=_filter(options.partitions, metadata, options.path) if options.partitions else None,
            )
        )

    @staticmethod
    def _check_feed(log: DeltaLog, version: int) -> None:
        """Raise SourceChangedError if a version has no change data feed. Later versions are checked when they are read.

        The files of such a version do not show which rows it changed: all rows of a rewritten file would be deleted and inserted.
        """
        try:
            metadata = log.metadata(version)
        except SourceError:
            return  # the log has the version, but not its schema any more; a restarted job may have read the version already
        if not metadata.has_change_feed:
            raise no_change_feed(log.table, version)

    @staticmethod
    def _check(options: ReadOptions) -> None:
        names = ("version_as_of", "timestamp_as_of", "starting_version", "starting_timestamp")
        beginnings = [name for name in names if getattr(options, name) is not None]
        check(len(beginnings) <= 1, f"DeltaSource begins in one way; got {' and '.join(beginnings)}")
        from_changes = "starting_version" in beginnings or "starting_timestamp" in beginnings
        check(
            not options.bounded or options.starting_version != "latest",
            'a bounded DeltaSource with starting_version("latest") would read nothing',
        )
        check(
            options.ending_version is None or (options.bounded and from_changes),
            "ending_version is for a bounded DeltaSource with starting_version or starting_timestamp",
        )
        check(
            not options.change_feed or not options.bounded or from_changes,
            "a bounded DeltaSource that reads the change feed needs starting_version or starting_timestamp",
            hint="to read the rows of a version leave read_change_feed() out.",
        )
        both = options.columns is not None and options.row_type is not None
        check(not both, "give DeltaSource either column_names or a row_type; got both")
        lenient = [name for name in ("ignore_deletes", "ignore_changes", "skip_change_commits") if getattr(options, name)]
        what = "the change feed" if options.change_feed else "one version"
        check(
            not lenient or (not options.change_feed and (not options.bounded or from_changes)),
            f"{', '.join(lenient)} has no effect on a DeltaSource that reads {what}",
        )

    @staticmethod
    def _beginning(options: ReadOptions, log: DeltaLog) -> tuple[int | None, int | None]:
        """Return the version of the snapshot and the first version of changes; -1 = the newest version, or the next one."""
        if options.version_as_of is not None:
            return options.version_as_of, None
        if options.timestamp_as_of is not None:
            return log.version_as_of(options.timestamp_as_of), None
        if options.starting_timestamp is not None:
            return None, log.version_from(options.starting_timestamp)
        if options.starting_version is not None:
            return None, -1 if options.starting_version == "latest" else options.starting_version
        return -1, None


def _milliseconds(value: Any, what: str) -> int:
    if isinstance(value, str):
        try:
            value = datetime.datetime.fromisoformat(value)
        except ValueError as error:
            raise InvalidArgumentError(f"{what} takes a time such as '2024-02-29T12:00:00Z'; got {value!r}") from error
    if isinstance(value, datetime.datetime):
        return instant_of(value).to_epoch_milli()
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise InvalidArgumentError(f"{what} takes ISO text, a datetime, or milliseconds since the epoch; got {value!r}")


@dataclass(frozen=True, slots=True)
class _PartitionFilter:
    """Returns whether the partition values of a file meet all conditions."""

    #: Physical name and type of the column, operator, value.
    conditions: tuple[tuple[str, str, str, Any], ...]
    table: str

    def __call__(self, partition: dict[str, str | None]) -> bool:
        for name, part, sign, wanted in self.conditions:
            if name not in partition:
                raise SourceChangedError(
                    f"DeltaSource: filter_partitions cannot select files of {self.table}: a version that is to be read is not "
                    f"partitioned by {name!r}",
                    hint="start from a later version, or filter the stream instead.",
                )
            value = partition_value(partition[name], part, f"a file of {self.table}")
            if not _meets(value, sign, wanted):
                return False
        return True


def _meets(value: Any, sign: str, wanted: Any) -> bool:
    if wanted is None:
        return (value is None) == (sign == "=")
    return value is not None and _OPERATORS[sign](value, wanted)  # as in SQL, null meets no comparison


def _filter(conditions: Iterable[tuple[str, str, Any]], metadata: Metadata, table: str) -> _PartitionFilter:
    fields = {field["name"]: field for field in metadata.schema["fields"]}
    found = []
    for name, sign, wanted in conditions:
        if name not in metadata.partition_columns:
            raise InvalidProgramError(
                f"filter_partitions: {name!r} is no partition column of {table}, which is partitioned by "
                f"{list(metadata.partition_columns)}",
                hint="filter the stream by other columns.",
            )
        part = fields[name]["type"]
        if sign in ("in", "not in"):
            if isinstance(wanted, str | bytes) or not isinstance(wanted, Iterable):
                raise InvalidArgumentError(f"filter_partitions: {sign!r} takes a list of values for {name!r}; got {wanted!r}")
            value: Any = tuple(_typed(one, part, name) for one in wanted)
        elif wanted is None and sign not in ("=", "!="):
            raise InvalidArgumentError(f"filter_partitions: {name!r} {sign} None has no meaning; nulls are found with = and !=")
        else:
            value = None if wanted is None else _typed(wanted, part, name)
        found.append((physical_name(fields[name]), part, sign, value))
    return _PartitionFilter(tuple(found), table)


def _typed(value: Any, part: str, name: str) -> Any:
    """Convert a value of a condition to the type of the column."""
    accepted = _CLASSES.get(part, decimal.Decimal)
    if part == "timestamp" and isinstance(value, Instant):  # the type of the column's values in records
        return datetime_of(value)
    if type(value) is not accepted and not (accepted is float and type(value) is int):
        raise InvalidArgumentError(
            f"filter_partitions: {name!r} is {part}; got {value!r} of type {type(value).__name__}",
            hint=f"give a value of type {accepted.__name__}.",
        )
    if part == "timestamp" and isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)
    return value

"""JdbcSource: the rows of a table or query, read once, in parallel ranges of a column."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SourceChangedError, SourceError
from flinkish.common.kinds import INTEGER_BITS, Kind, kind_of, plain_type
from flinkish.common.time import Instant
from flinkish.common.typeinfo import BasicType, RowTypeInfo, TypeInformation
from flinkish.common.types import Row
from flinkish.datastream.connectors._sequences import FixedSplitsEnumerator, SequentialReader, cut_range
from flinkish.datastream.connectors.jdbc.database import Database, from_anywhere
from flinkish.datastream.connectors.jdbc.options import JdbcConnectionOptions
from flinkish.datastream.connectors.jdbc.reading import rows_from
from flinkish.datastream.connectors.jdbc.values import row_fields
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy, RecordErrors, json_of_row
from flinkish.program.sources import (
    Boundedness,
    ReaderOutput,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)

if TYPE_CHECKING:
    import sqlalchemy

_EPOCH: Final = datetime.datetime(1970, 1, 1)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcSplit(SourceSplit):
    """The rows whose partition column is in a range, and the position in them.

    Values of the column are numbers: days for a date, microseconds for a timestamp.
    """

    #: Inclusive; None = no bound.
    lower: int | None = None
    #: Exclusive; None = no bound.
    upper: int | None = None
    #: Whether the split has the rows without a value in the column, instead of a range.
    nulls: bool = False
    #: The column's value in the last row that was read; None = no row was read, or there is no column.
    last: int | None = None
    #: Number of rows with that value that were read; without a column, or with `nulls`, number of all rows that were read.
    rows: int = 0


@dataclass(frozen=True, slots=True)
class _Settings:
    database: Database
    table: str | None
    query: str | None
    type_info: RowTypeInfo
    partition_column: str | None
    lower_bound: int | None
    upper_bound: int | None
    num_partitions: int | None
    fetch_size: int

    @property
    def name(self) -> str:
        return f"the table {self.table}" if self.table is not None else "the query"


class JdbcSource(Source[Row, JdbcSplit, tuple[JdbcSplit, ...]]):
    """Reads the rows of a table or query of a database, once; bounded.

    `connection_options`: the database, as for JdbcSink.
    `type_info`: Types.ROW_NAMED; the names are those of the columns to read.
    `table` ("name" or "schema.name") or `query` (a SELECT): what to read.
    `partition_column`: a column of whole numbers, dates or timestamps (on SQLite: whole numbers) by whose ranges the rows are
    divided among `num_partitions` splits, by default one for each reader. An index on it makes this fast. Without a partition
    column there is one split. `lower_bound`, `upper_bound` (int, date or datetime): where the first and the last range begin and
    end, by default at the least and the greatest value. They filter no rows: rows beyond them belong to the first and last split,
    and rows without a value to an additional split.
    `fetch_size`: number of rows to fetch at once.

    The rows of a split are sorted by the column, then by all others. A checkpoint holds the column's value in the last row and
    the number of rows with that value that were read, so a restarted job continues after that row. Results are exact if the rows
    of the table do not change while the job runs; rows that are added in the meantime may be read or not.

    Differs from Flink: PyFlink has no such class; the bounds have the names and the meaning of Spark's JDBC source.

    >>> from flinkish.common.typeinfo import Types
    >>> source = JdbcSource(
    ...     JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:sqlite:/tmp/flights.db").build(),
    ...     Types.ROW_NAMED(["id", "origin"], [Types.LONG(), Types.STRING()]),
    ...     table="flights",
    ...     partition_column="id",
    ... )
    """

    def __init__(
        self,
        connection_options: JdbcConnectionOptions,
        type_info: TypeInformation,
        *,
        table: str | None = None,
        query: str | None = None,
        partition_column: str | None = None,
        lower_bound: int | datetime.date | datetime.datetime | None = None,
        upper_bound: int | datetime.date | datetime.datetime | None = None,
        num_partitions: int | None = None,
        fetch_size: int = 1000,
    ) -> None:
        if not isinstance(connection_options, JdbcConnectionOptions):
            raise InvalidArgumentError(
                f"JdbcSource needs JdbcConnectionOptions; got {type(connection_options).__name__}",
                hint="JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(...).build().",
            )
        database = Database(from_anywhere(connection_options, "JdbcSource"), "JdbcSource")
        dialect = database.dialect
        if not isinstance(type_info, RowTypeInfo):
            raise InvalidProgramError(
                f"JdbcSource needs a row type with the names of the columns; got {type_info!r}",
                hint='Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()]), for example.',
            )
        names, types = row_fields(type_info, "JdbcSource")
        if (table is None) == (query is None) or not all(isinstance(each, str | None) for each in (table, query)):
            raise InvalidArgumentError("JdbcSource takes either a table or a query, as text")
        for name, number in (("num_partitions", num_partitions), ("fetch_size", fetch_size)):
            if number is not None and (not isinstance(number, int) or isinstance(number, bool) or number < 1):
                raise InvalidArgumentError(f"{name} of JdbcSource must be an int from 1; got {number!r}")
        bounds = (lower_bound, upper_bound)
        if partition_column is None:
            if bounds != (None, None) or num_partitions not in (None, 1):
                raise InvalidArgumentError("JdbcSource: bounds and num_partitions need a partition_column")
            numbers: list[int | None] = [None, None]
        else:
            if partition_column not in names:
                raise InvalidArgumentError(
                    f"partition_column {partition_column!r} of JdbcSource is not in type_info, which has {', '.join(names)}"
                )
            kind = _Column(partition_column, types[names.index(partition_column)], dialect)
            numbers = [None if bound is None else kind.number(bound) for bound in bounds]
            lower, upper = numbers
            if lower is not None and upper is not None and lower > upper:
                raise InvalidArgumentError(f"JdbcSource: lower_bound {lower_bound} is above upper_bound {upper_bound}")
        self._settings = _Settings(
            database, table, query, type_info, partition_column, numbers[0], numbers[1], num_partitions, fetch_size
        )

    def __repr__(self) -> str:
        return f"JdbcSource({self._settings.table or self._settings.query!r})"

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def split_type(self) -> type[JdbcSplit]:
        return JdbcSplit

    @property
    def enumerator_checkpoint_type(self) -> Any:
        return tuple[JdbcSplit, ...]

    def create_enumerator(self, context: SplitEnumeratorContext[JdbcSplit]) -> SplitEnumerator[JdbcSplit, tuple[JdbcSplit, ...]]:
        return FixedSplitsEnumerator(context, self._splits(context.parallelism))

    def restore_enumerator(
        self, context: SplitEnumeratorContext[JdbcSplit], checkpoint: tuple[JdbcSplit, ...]
    ) -> SplitEnumerator[JdbcSplit, tuple[JdbcSplit, ...]]:
        return FixedSplitsEnumerator(context, checkpoint)

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Row, JdbcSplit]:
        return _JdbcReader(self._settings, RecordErrors(RecordErrorPolicy.fail(), context))

    def produced_type(self) -> TypeInformation:
        return self._settings.type_info

    def _splits(self, parallelism: int) -> list[JdbcSplit]:
        settings = self._settings
        if settings.partition_column is None:
            return [JdbcSplit(split_id="0")]
        lower, upper = settings.lower_bound, settings.upper_bound
        if lower is None or upper is None:
            least, greatest = _Query(settings).extremes()
            lower = least if lower is None else lower
            upper = greatest if upper is None else upper
        ranges = [(0, 0)]
        if lower is not None and upper is not None and lower <= upper:
            ranges = cut_range(lower, upper, settings.num_partitions or parallelism)
        last = len(ranges) - 1
        splits = [
            JdbcSplit(split_id=str(i), lower=first if i > 0 else None, upper=end + 1 if i < last else None)
            for i, (first, end) in enumerate(ranges)
        ]
        return [*splits, JdbcSplit(split_id="null", nulls=True)]


class _Column:
    """The partition column: converts its values to whole numbers, and back."""

    def __init__(self, name: str, type_info: TypeInformation, dialect: str) -> None:
        kind = kind_of(type_info)
        self._name = name
        self._is_date = kind is Kind.DATE
        self._zoned = kind is BasicType.INSTANT
        self._is_time = kind is Kind.TIMESTAMP or self._zoned
        whole = kind in INTEGER_BITS
        if not (whole or ((self._is_date or self._is_time) and dialect != "sqlite")):
            allowed = "BYTE, SHORT, INT or LONG" if dialect == "sqlite" else "whole numbers, dates or timestamps"
            raise InvalidProgramError(
                f"JdbcSource: the partition column {name!r} is of type {plain_type(type_info)!r}; here it must be of {allowed}"
            )

    def number(self, value: Any) -> int:
        """Return the number for a value of the column, which a driver returned or which is a bound."""
        if self._is_time:
            if isinstance(value, Instant):
                value = datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(milliseconds=value.to_epoch_milli())
            if isinstance(value, datetime.datetime) and (value.tzinfo is not None) == self._zoned:
                naive = value.astimezone(datetime.UTC).replace(tzinfo=None) if self._zoned else value
                return (naive - _EPOCH) // _MICROSECOND
        elif self._is_date:
            if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
                return value.toordinal()
        elif not isinstance(value, bool | str) and hasattr(value, "__int__") and int(value) == value:
            return int(value)
        wanted = "a timestamp with time zone" if self._zoned else "a timestamp without time zone"
        wanted = wanted if self._is_time else "a date" if self._is_date else "a whole number"
        raise SourceError(
            f"JdbcSource: the partition column {self._name!r} or one of its bounds holds {value!r}; its type wants {wanted}",
            hint="in type_info, INSTANT is a timestamp with time zone, SQL_TIMESTAMP one without.",
        )

    def literal(self, number: int) -> sqlalchemy.ColumnElement[Any]:
        """Return the value for a number as a literal of a statement, with its type, which some drivers send to the database."""
        import sqlalchemy

        if self._is_date:
            return sqlalchemy.literal(datetime.date.fromordinal(number), sqlalchemy.Date())
        if self._is_time:
            value = _EPOCH + number * _MICROSECOND
            value = value.replace(tzinfo=datetime.UTC) if self._zoned else value
            return sqlalchemy.literal(value, sqlalchemy.DateTime(timezone=self._zoned))
        return sqlalchemy.literal(number, sqlalchemy.BigInteger())


class _Query:
    """The statements that read a table or query."""

    def __init__(self, settings: _Settings) -> None:
        import sqlalchemy

        self._settings = settings
        self._dialect = settings.database.dialect
        self.names, self.types = row_fields(settings.type_info, "JdbcSource")
        columns: list[Any] = [sqlalchemy.column(name) for name in self.names]
        source: sqlalchemy.FromClause
        if settings.table is not None:
            schema, _, table = settings.table.rpartition(".")
            source = sqlalchemy.table(table, *columns, schema=schema or None)
        else:
            assert settings.query is not None
            # A name after a colon would be a parameter. The query may end with a comment, which the line feed ends.
            text = sqlalchemy.text(settings.query.rstrip().rstrip(";").replace(":", "\\:") + "\n")
            source = text.columns(*columns).subquery("records")
        self._columns = list(source.columns)
        self._index = None if settings.partition_column is None else self.names.index(settings.partition_column)
        self._partition = (
            None if self._index is None else _Column(self.names[self._index], self.types[self._index], self._dialect)
        )

    def extremes(self) -> tuple[int | None, int | None]:
        """Return the least and the greatest value of the partition column; None if it has no values."""
        import sqlalchemy

        assert self._index is not None
        assert self._partition is not None
        column = self._columns[self._index]
        database = self._settings.database
        try:
            with database.connect() as connection:
                least, greatest = connection.execute(
                    sqlalchemy.select(sqlalchemy.func.min(column), sqlalchemy.func.max(column))
                ).one()
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise self.failed(error) from None
        if least is None:
            return None, None
        return self._partition.number(least), self._partition.number(greatest)

    def number_in(self, row: Sequence[Any]) -> int | None:
        """Return the partition column's value in a row as a number; None without such a column."""
        if self._index is None or self._partition is None or row[self._index] is None:
            return None
        return self._partition.number(row[self._index])

    def rest_of(self, split: JdbcSplit) -> sqlalchemy.Select[Any]:
        """Return the statement for the rows of a split, starting at its position.

        They include all rows with the value `last`, also those that were read.
        """
        import sqlalchemy

        query = sqlalchemy.select(*self._columns).order_by(*self._order())
        if self._index is None or self._partition is None:
            return query.offset(split.rows) if split.rows else query
        column = self._columns[self._index]
        if split.nulls:
            query = query.where(column.is_(None))
            return query.offset(split.rows) if split.rows else query
        begin = split.lower if split.last is None else split.last
        query = query.where(column.is_not(None) if begin is None else column >= self._partition.literal(begin))
        if split.upper is not None:
            query = query.where(column < self._partition.literal(split.upper))
        return query

    def _order(self) -> list[Any]:
        """Return all columns, the partition column first, so that the order of the same rows is always the same."""
        import sqlalchemy

        order = [column for i, column in enumerate(self._columns) if i == self._index]
        for i, column in enumerate(self._columns):
            if i == self._index:
                continue
            text = kind_of(self.types[i]) in (BasicType.STRING, BasicType.CHAR)
            # In these databases, texts that differ only in case may be equal.
            if text and self._dialect in ("mysql", "mariadb", "sqlite"):
                order.append(sqlalchemy.cast(column, sqlalchemy.LargeBinary))  # type: ignore[arg-type]
            else:
                order.append(column)
        return order

    def failed(self, error: BaseException) -> SourceError:
        """Return the error for a failed read; SourceChangedError if the tables have no such columns (any more)."""
        database = self._settings.database
        text = database.described(error)
        hint = None
        if "ordering operator" in text:
            hint = "the source sorts by all columns; cast those that the database cannot sort, such as json, in a query."
        elif self._settings.table is not None and any(name != name.lower() for name in (*self.names, self._settings.table)):
            hint = "names with capital letters are quoted, so they must be spelled as they are in the database."
        kind = SourceChangedError if database.misses(error) else SourceError
        return kind(f"JdbcSource could not read {self._settings.name} of {database.label}: {text}", hint=hint)


class _JdbcReader(SequentialReader[Row, JdbcSplit]):
    """Reads one split after the other, by a cursor on the server."""

    def __init__(self, settings: _Settings, errors: RecordErrors) -> None:
        super().__init__()
        self._settings = settings
        self._errors = errors
        self._query = _Query(settings)
        dialect = settings.database.dialect
        self._rows: Callable[[Sequence[Any]], list[Row]] = rows_from(self._query.names, self._query.types, settings.name)
        #: An open cursor of SQLite blocks all writers, such as a sink of the same job, so it is closed after each epoch.
        self._keeps_cursor = dialect != "sqlite"
        self._connection: sqlalchemy.Connection | None = None
        self._result: sqlalchemy.CursorResult[Any] | None = None

    def _read(self, split: JdbcSplit, output: ReaderOutput[Row]) -> None:
        import sqlalchemy

        try:
            fetched, ended = self._fetch(split, max(1, min(output.credit, self._settings.fetch_size)))
        except sqlalchemy.exc.SQLAlchemyError as error:
            self._close_cursor()
            raise self._query.failed(error) from None
        output.select_split(split.split_id)
        output.collect_all(self._records(fetched))
        if ended:
            self._close_cursor()
            self._finish(split, output)
        else:
            self._update(self._advanced(split, fetched))

    def _records(self, fetched: Sequence[Sequence[Any]]) -> list[Any]:
        """Return the records of rows; for a row that does not fit the declared types, what to emit in its place."""
        try:
            return list(self._rows(fetched))
        except SourceError:
            if not self._errors.keeps:
                raise
        records: list[Any] = []
        for row in fetched:
            try:
                records += self._rows([row])
            except SourceError as error:
                as_json = json_of_row(self._query.names, row)
                records.append(
                    self._errors.handle(
                        path=f"{self._settings.name} of {self._settings.database.label}",
                        line=None,
                        reason=str(error).partition("\nHint: ")[0],
                        record=as_json,
                        as_json=as_json,
                    )
                )
        return records

    def _fetch(self, split: JdbcSplit, limit: int) -> tuple[Sequence[Any], bool]:
        """Return the next rows of a split, and whether it has ended."""
        if self._result is not None:
            rows = self._result.fetchmany(limit)
            return rows, len(rows) < limit
        self._result = self._open(split)
        if split.last is None:
            rows = self._result.fetchmany(limit)
            return rows, len(rows) < limit
        # The first rows were read before; some of them may have been deleted since.
        limit += split.rows
        rows = self._result.fetchmany(limit)
        read = 0
        while read < min(split.rows, len(rows)) and self._query.number_in(rows[read]) == split.last:
            read += 1
        return rows[read:], len(rows) < limit

    def _open(self, split: JdbcSplit) -> sqlalchemy.CursorResult[Any]:
        if self._connection is None:
            connection = self._settings.database.connect()
            self._connection = connection.execution_options(stream_results=True, max_row_buffer=self._settings.fetch_size)
        return self._connection.execute(self._query.rest_of(split))

    def _advanced(self, split: JdbcSplit, fetched: Sequence[Any]) -> JdbcSplit:
        """Return the split with its position after the fetched rows."""
        number = self._query.number_in(fetched[-1]) if fetched else None
        if number is None:
            return replace(split, rows=split.rows + len(fetched))
        same = 0
        for row in reversed(fetched):
            if self._query.number_in(row) != number:
                break
            same += 1
        if same == len(fetched) and split.last == number:
            same += split.rows
        return replace(split, last=number, rows=same)

    def snapshot_state(self) -> Sequence[JdbcSplit]:
        # The end of an epoch.
        if not self._keeps_cursor:
            self._close_cursor()
        return super().snapshot_state()

    def _close_cursor(self) -> None:
        """Close the cursor and its transaction; the next call begins at the split's position."""
        result, self._result = self._result, None
        connection = self._connection
        if result is None or connection is None:
            return
        try:
            result.close()
            connection.rollback()
        except Exception:
            self._connection = None
            connection.invalidate()
            connection.close()

    def close(self) -> None:
        self._close_cursor()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

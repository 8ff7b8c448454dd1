"""JdbcSource: the rows of a table or query, read once, in parallel ranges of a column."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from flinkish.common.arguments import int_of
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SourceChangedError, SourceError, without_hint
from flinkish.common.kinds import INTEGER_BITS, Kind, kind_of, plain_type
from flinkish.common.time import Instant
from flinkish.common.typeinfo import BasicType, RowTypeInfo, TypeInformation
from flinkish.common.types import Row
from flinkish.datastream.connectors._sequences import FixedSplitsSource, SequentialReader, cut_range
from flinkish.datastream.connectors.jdbc.database import Database, database_of
from flinkish.datastream.connectors.jdbc.options import JdbcConnectionOptions
from flinkish.datastream.connectors.jdbc.values import row_fields, rows_from
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy, RecordErrors, json_of_row
from flinkish.program.sources import (
    Boundedness,
    ReaderOutput,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
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
    #: The partition column, and the bounds of its ranges.
    column: _Column | None
    lower_bound: int | None
    upper_bound: int | None
    num_partitions: int | None
    fetch_size: int

    @property
    def name(self) -> str:
        return f"the table {self.table}" if self.table is not None else "the query"


class JdbcSource(FixedSplitsSource[Row, JdbcSplit]):
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

    boundedness = Boundedness.BOUNDED
    split_type = JdbcSplit

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
        database = database_of(connection_options, "JdbcSource")
        if not isinstance(type_info, RowTypeInfo):
            raise InvalidProgramError(
                f"JdbcSource needs a row type with the names of the columns; got {type_info!r}",
                hint='Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()]), for example.',
            )
        names, types = row_fields(type_info, "JdbcSource")
        if (table is None) == (query is None) or not all(isinstance(each, str | None) for each in (table, query)):
            raise InvalidArgumentError("JdbcSource takes either a table or a query, as text")
        int_of("num_partitions of JdbcSource", 1 if num_partitions is None else num_partitions, minimum=1)
        int_of("fetch_size of JdbcSource", fetch_size, minimum=1)
        column, lower, upper = None, None, None
        if partition_column is not None:
            if partition_column not in names:
                raise InvalidArgumentError(
                    f"partition_column {partition_column!r} of JdbcSource is not in type_info, which has {', '.join(names)}"
                )
            index = names.index(partition_column)
            column = _Column(partition_column, index, types[index], database.dialect)
            lower, upper = (None if bound is None else column.number(bound) for bound in (lower_bound, upper_bound))
            if lower is not None and upper is not None and lower > upper:
                raise InvalidArgumentError(f"JdbcSource: lower_bound {lower_bound} is above upper_bound {upper_bound}")
        elif (lower_bound, upper_bound) != (None, None) or num_partitions not in (None, 1):
            raise InvalidArgumentError("JdbcSource: bounds and num_partitions need a partition_column")
        self._settings = _Settings(database, table, query, type_info, column, lower, upper, num_partitions, fetch_size)

    def __repr__(self) -> str:
        return f"JdbcSource({self._settings.table or self._settings.query!r})"

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Row, JdbcSplit]:
        return _JdbcReader(self._settings, RecordErrors(RecordErrorPolicy.fail(), context))

    def produced_type(self) -> TypeInformation:
        return self._settings.type_info

    def splits(self, parallelism: int) -> list[JdbcSplit]:
        settings = self._settings
        if settings.column is None:
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

    def __init__(self, name: str, index: int, type_info: TypeInformation, dialect: str) -> None:
        kind = kind_of(type_info)
        self._name = name
        #: Its place in a row.
        self.index = index
        self._is_date = kind is Kind.DATE
        self._zoned = kind is BasicType.INSTANT
        self._is_time = kind is Kind.TIMESTAMP or self._zoned
        if not (kind in INTEGER_BITS or ((self._is_date or self._is_time) and dialect != "sqlite")):
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
        self._partition = settings.column

    def extremes(self) -> tuple[int | None, int | None]:
        """Return the least and the greatest value of the partition column; None if it has no values."""
        import sqlalchemy

        assert self._partition is not None
        column = self._columns[self._partition.index]
        query = sqlalchemy.select(sqlalchemy.func.min(column), sqlalchemy.func.max(column))
        try:
            with self._settings.database.connect() as connection:
                least, greatest = connection.execute(query).one()
        except sqlalchemy.exc.SQLAlchemyError as error:
            raise self.failed(error) from None
        if least is None:
            return None, None
        return self._partition.number(least), self._partition.number(greatest)

    def number_in(self, row: Sequence[Any]) -> int | None:
        """Return the partition column's value in a row as a number; None without such a column."""
        if self._partition is None or row[self._partition.index] is None:
            return None
        return self._partition.number(row[self._partition.index])

    def rest_of(self, split: JdbcSplit) -> sqlalchemy.Select[Any]:
        """Return the statement for the rows of a split, starting at its position.

        They include all rows with the value `last`, also those that were read.
        """
        import sqlalchemy

        query = sqlalchemy.select(*self._columns).order_by(*self._order())
        if self._partition is None or split.nulls:
            if self._partition is not None:
                query = query.where(self._columns[self._partition.index].is_(None))
            return query.offset(split.rows) if split.rows else query
        column = self._columns[self._partition.index]
        begin = split.lower if split.last is None else split.last
        query = query.where(column.is_not(None) if begin is None else column >= self._partition.literal(begin))
        if split.upper is not None:
            query = query.where(column < self._partition.literal(split.upper))
        return query

    def _order(self) -> list[Any]:
        """Return all columns, the partition column first, so that the order of the same rows is always the same."""
        import sqlalchemy

        first = None if self._partition is None else self._partition.index
        # In these databases, texts that differ only in case may be equal.
        texts = (BasicType.STRING, BasicType.CHAR) if self._dialect in ("mysql", "mariadb", "sqlite") else ()
        order = [
            sqlalchemy.cast(column, sqlalchemy.LargeBinary) if kind_of(type_info) in texts else column
            for column, type_info in zip(self._columns, self.types, strict=True)
        ]
        return order if first is None else [order.pop(first), *order]

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
        self._rows: Callable[[Sequence[Any]], list[Row]] = rows_from(self._query.names, self._query.types, settings.name)
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
        """Return the records of rows; a row of other types than declared becomes a dead letter, or raises SourceError."""
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
                        reason=without_hint(error),
                        record=as_json,
                        as_json=as_json,
                    )
                )
        return records

    def _fetch(self, split: JdbcSplit, limit: int) -> tuple[Sequence[Any], bool]:
        """Return the next rows of a split, and whether it has ended."""
        read_before = 0
        if self._result is None:
            self._result = self._open(split)
            read_before = 0 if split.last is None else split.rows
        rows = self._result.fetchmany(limit + read_before)
        # Some of the rows that were read before may have been deleted since.
        again = sum(1 for _ in takewhile(lambda row: self._query.number_in(row) == split.last, rows[:read_before]))
        return rows[again:], len(rows) < limit + read_before

    def _open(self, split: JdbcSplit) -> sqlalchemy.CursorResult[Any]:
        if self._connection is None:
            connection = self._settings.database.connect()
            self._connection = connection.execution_options(stream_results=True, max_row_buffer=self._settings.fetch_size)
        return self._connection.execute(self._query.rest_of(split))

    def _advanced(self, split: JdbcSplit, fetched: Sequence[Any]) -> JdbcSplit:
        number = self._query.number_in(fetched[-1]) if fetched else None
        if number is None:
            return replace(split, rows=split.rows + len(fetched))
        same = sum(1 for _ in takewhile(lambda row: self._query.number_in(row) == number, reversed(fetched)))
        if same == len(fetched) and split.last == number:
            same += split.rows
        return replace(split, last=number, rows=same)

    def snapshot_state(self) -> Sequence[JdbcSplit]:
        # An open cursor of SQLite blocks all writers, such as a sink of the same job, so it is closed after each epoch.
        if self._settings.database.dialect == "sqlite":
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

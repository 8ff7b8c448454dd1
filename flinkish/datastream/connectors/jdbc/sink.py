"""JdbcSink: writes rows by an SQL statement."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from flinkish.common import options
from flinkish.common.arguments import instance_of
from flinkish.common.configuration import Configuration
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SinkError, TargetRefusedError
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors._row_buffer import bytes_state
from flinkish.datastream.connectors.jdbc.committer import CHECKPOINT_TABLE, JdbcCommittable, JdbcCommitter
from flinkish.datastream.connectors.jdbc.database import database_of
from flinkish.datastream.connectors.jdbc.options import JdbcConnectionOptions, JdbcExecutionOptions
from flinkish.datastream.connectors.jdbc.statements import JdbcSinkSettings, Target
from flinkish.datastream.connectors.jdbc.values import Rows
from flinkish.program.sinks import Committer, Sink, SinkWriter, SinkWriterContext, WriteContext

if TYPE_CHECKING:
    import sqlalchemy

#: Maximum number of bytes of rows that wait for a checkpoint in one writer: the driver holds them in the manifest.
_MOST_WAITING_BYTES: Final = 64 << 20


class JdbcSink(Sink[Any, JdbcCommittable]):
    """Writes rows into a database by an SQL statement; made by `sink` and `exactly_once_sink`, for add_sink() or sink_to().

    The values of a row take the places of the statement's `?`, in their order. Fields can be numbers, decimals, text, booleans,
    dates, times, timestamps, points in time and bytes. Sessions with PostgreSQL have the time zone UTC, unless the URL sets one.
    """

    committable_type = JdbcCommittable

    def __init__(self, settings: JdbcSinkSettings) -> None:
        self._settings = settings

    def __repr__(self) -> str:
        return f"JdbcSink({self._settings.sql!r})"

    @staticmethod
    def sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
    ) -> JdbcSink:
        """Return a sink that writes at least once: rows since the last checkpoint are written again after a failure.

        `sql`: INSERT, UPDATE, DELETE or upsert, with a `?` for each field; `??` is PostgreSQL's operator `?`. A statement that
        gives the same result when it runs twice, such as an upsert by a key, makes the result exact.
        `type_info`: Types.ROW, Types.ROW_NAMED or Types.TUPLE; fields are bound by position.

        A batch is one transaction. It is sent when it is full, after the interval, at checkpoints and at the end of the input. If
        the database raises an error, the sink connects again and repeats the batch, at once and then after 1, 2, ... seconds. The
        job fails when the retries of the options are used up.

        Raises InvalidProgramError if the placeholders do not match the fields or no column can hold a field, and
        MissingPackageError without SQLAlchemy (`pip install 'flinkish[jdbc]'`) or a driver for the database.

        Differs from Flink: a batch that was not sent is kept in the state between epochs; the interval is checked at the end of
        an epoch. Rows of the kinds DELETE and UPDATE_BEFORE fail the job, unless the statement begins with DELETE: Flink's sink
        writes them as it writes new rows.

        >>> from flinkish.common.typeinfo import Types
        >>> sink = JdbcSink.sink(
        ...     "INSERT INTO delays VALUES (?, ?) ON CONFLICT (airport) DO UPDATE SET minutes = excluded.minutes",
        ...     Types.ROW_NAMED(["airport", "minutes"], [Types.STRING(), Types.INT()]),
        ...     JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:sqlite:/tmp/flights.db").build(),
        ...     JdbcExecutionOptions.builder().with_batch_size(1000).with_batch_interval_ms(200).build(),
        ... )
        """
        return JdbcSink(_settings(sql, type_info, jdbc_connection_options, jdbc_execution_options))

    @staticmethod
    def exactly_once_sink(
        sql: str,
        type_info: TypeInformation,
        jdbc_connection_options: JdbcConnectionOptions,
        jdbc_execution_options: JdbcExecutionOptions | None = None,
        *,
        checkpoint_table: str = CHECKPOINT_TABLE,
    ) -> JdbcSink:
        """Return a sink that writes each row exactly once, when the checkpoint that covers it is complete.

        The first arguments are those of `sink`. Rows wait in the checkpoint. When it is complete, the driver writes them in one
        transaction, which also writes the checkpoint's id into the table `checkpoint_table` (`name` or `schema.name`) of the
        same database. The sink creates that table if it is missing. After a failure, a checkpoint whose id is in the table is
        not written again. Without checkpointing, a bounded job writes once, at its end.

        The database's tables must support transactions (MySQL: InnoDB). The rows of one checkpoint may take at most 64 MB
        (compressed) in each subtask of the sink; otherwise the job fails. `with_batch_interval_ms` is refused.

        Differs from Flink: PyFlink has no such method. Java's `exactlyOnceSink` keeps an XA transaction open from one checkpoint
        to the next, so it needs a driver with XA and prepared transactions on the server; this one needs neither.
        """
        settings = _settings(sql, type_info, jdbc_connection_options, jdbc_execution_options, checkpoint_table)
        if settings.execution.get_batch_interval_ms():
            raise InvalidProgramError(
                "exactly_once_sink has no batch interval: rows are written when their checkpoint is complete",
                hint="leave with_batch_interval_ms() out, and set execution.checkpointing.interval.",
            )
        if not isinstance(checkpoint_table, str) or not all(checkpoint_table.split(".")) or checkpoint_table.count(".") > 1:
            raise InvalidArgumentError(f"checkpoint_table must be 'name' or 'schema.name'; got {checkpoint_table!r}")
        return JdbcSink(settings)

    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, JdbcCommittable]:
        writer = _BatchWriter if self._settings.checkpoint_table is None else _StagingWriter
        return writer(self._settings, context)

    def create_committer(self, configuration: Configuration) -> Committer[JdbcCommittable] | None:
        return None if self._settings.checkpoint_table is None else JdbcCommitter(self._settings)


def _settings(
    sql: str,
    type_info: TypeInformation,
    connection: JdbcConnectionOptions,
    execution: JdbcExecutionOptions | None,
    checkpoint_table: str | None = None,
) -> JdbcSinkSettings:
    execution = JdbcExecutionOptions.defaults() if execution is None else execution
    hint = "JdbcExecutionOptions.builder().with_batch_size(1000).build()."
    instance_of("jdbc_execution_options", execution, JdbcExecutionOptions, hint=hint)
    settings = JdbcSinkSettings(sql, type_info, database_of(connection, "JdbcSink"), execution, checkpoint_table)
    statement = settings.statement()
    statement.text_for(settings.database.paramstyle)
    fields = settings.shape.names
    if statement.placeholders != len(fields):
        raise InvalidProgramError(
            f"JdbcSink: the statement has {statement.placeholders} placeholders (?) for {len(fields)} fields "
            f"({', '.join(fields)}): {sql}",
            hint="write one ? for each field, not %s, :name or $1; write ?? for the question mark of an operator of PostgreSQL.",
        )
    return settings


class _RowWriter(SinkWriter[Any, JdbcCommittable]):
    """Converts records to plain rows (see values.py) and collects them."""

    def __init__(self, settings: JdbcSinkSettings, context: SinkWriterContext) -> None:
        self._context = context
        self._shape = settings.shape
        deletes = settings.sql.lstrip().upper().startswith("DELETE")
        self._values = self._shape.reader(context.input_type, settings.database.dialect, deletions=deletes)
        self._rows: list[Sequence[Any]] = []


class _BatchWriter(_RowWriter):
    """Sends full batches; keeps an incomplete one in state from epoch to epoch."""

    def __init__(self, settings: JdbcSinkSettings, context: SinkWriterContext) -> None:
        super().__init__(settings, context)
        self._target = Target(settings)
        self._size = self._target.batch_size
        self._interval = settings.execution.get_batch_interval_ms()
        # Without checkpoints and an interval, the last rows of a stream that never ends would wait for ever.
        self._each_epoch = not self._interval and not context.configuration.contains(options.CHECKPOINTING_INTERVAL)
        self._state = context.get_list_state(bytes_state("flinkish.jdbc-sink.rows"))
        for chunk in self._state.get():
            self._rows.extend(self._shape.decode(chunk))
        #: Number of rows that are in the state.
        self._kept = len(self._rows)
        #: Processing time at which the oldest waiting row arrived.
        self._since = context.processing_time()

    def write(self, value: Any, context: WriteContext) -> None:
        self._rows.append(self._values(value))
        if len(self._rows) >= self._size:
            self._send()

    def end_epoch(self) -> None:
        now = self._context.processing_time()
        if not self._rows:
            self._since = now
            return
        if not self._kept:
            self._since = now  # it arrived in this epoch, which has a single processing time
        if self._each_epoch or (self._interval and now - self._since >= self._interval):
            self._send()
        elif len(self._rows) > self._kept:
            self._state.add(self._shape.encode(self._rows[self._kept :]))
            self._kept = len(self._rows)

    def next_timer(self) -> int | None:
        return self._since + self._interval if self._rows and self._interval else None

    def flush(self, end_of_input: bool) -> None:
        self._send()

    def _send(self) -> None:
        for batch in self._target.batches(self._rows):
            self._send_batch(batch)
        self._rows = []
        if self._kept:
            self._state.clear()
            self._kept = 0

    def _send_batch(self, rows: Rows) -> None:
        put_aside = 0

        def sift(connection: sqlalchemy.Connection) -> None:
            """Within the transaction: without dead letters, none of the rows is written."""
            nonlocal put_aside
            for row, reason in self._target.sift(connection, rows)[put_aside:]:
                self._context.put_aside(row, reason)
                put_aside += 1  # a transaction that is tried again refuses the same rows

        session, what = self._target.session, f"write {len(rows)} rows to {self._target.label}"
        try:
            session.run(lambda connection: self._target.write(connection, rows), what)
        except TargetRefusedError:
            session.run(sift, what)

    def close(self) -> None:
        self._target.session.close()


class _StagingWriter(_RowWriter):
    """Keeps rows in state until a checkpoint takes them, compressed."""

    def __init__(self, settings: JdbcSinkSettings, context: SinkWriterContext) -> None:
        super().__init__(settings, context)
        self._state = context.get_list_state(bytes_state("flinkish.jdbc-sink.staged"))
        self._bytes = sum(map(len, self._state.get()))

    def write(self, value: Any, context: WriteContext) -> None:
        self._rows.append(self._values(value))

    def end_epoch(self) -> None:
        if not self._rows:
            return
        # Level 1 is about three times as fast as the default, for a tenth more bytes.
        chunk = zlib.compress(self._shape.encode(self._rows), 1)
        self._rows = []
        self._state.add(chunk)
        self._bytes += len(chunk)
        if self._bytes > _MOST_WAITING_BYTES:
            raise SinkError(
                f"exactly_once_sink: more than {_MOST_WAITING_BYTES >> 20} MB of rows wait for a checkpoint, in one subtask",
                hint="set a shorter execution.checkpointing.interval, more parallelism, or use JdbcSink.sink() with an upsert.",
            )

    def flush(self, end_of_input: bool) -> None:
        self.end_epoch()

    def prepare_commit(self) -> Sequence[JdbcCommittable]:
        chunks, self._bytes = list(self._state.get()), 0
        if chunks:
            self._state.clear()
        return [JdbcCommittable(fields=self._shape.described, rows=chunk) for chunk in chunks]

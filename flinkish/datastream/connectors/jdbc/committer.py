"""The driver side of JdbcSink.exactly_once_sink: the rows of a checkpoint and its id in one transaction."""

from __future__ import annotations

import datetime
import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from flinkish.common.errors import ForeignCheckpointError, SinkError
from flinkish.datastream.connectors.jdbc.database import Database, Session
from flinkish.datastream.connectors.jdbc.options import JdbcExecutionOptions
from flinkish.datastream.connectors.jdbc.statements import Statement
from flinkish.datastream.connectors.jdbc.values import RowShape
from flinkish.program.sinks import END_OF_INPUT_CHECKPOINT, CommitRequest, Committer, RestoredCheckpoint, checkpoint_name

if TYPE_CHECKING:
    import sqlalchemy

#: The table of checkpoint ids, unless the program names another one.
CHECKPOINT_TABLE: Final = "flinkish_checkpoints"
#: Longest name of an application, which is a key of the table: indexes of MySQL take no longer ones.
_LONGEST_NAME: Final = 255


@dataclass(frozen=True, slots=True, kw_only=True)
class JdbcCommittable:
    """Rows of one writer for one checkpoint."""

    #: The printed form of the rows' type.
    fields: str
    #: Plain rows (see values.py): MessagePack, compressed by zlib.
    rows: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommitterState:
    """The state of a committer, for the next attempt."""

    database: str
    #: The last id written, and the application it was written for; None before the first one.
    last: tuple[str, int] | None
    #: Applications of the lineages that the job was started from, whose ids have not been raised yet; see `commit`.
    origins: tuple[str, ...]


class JdbcCommitter(Committer[JdbcCommittable]):
    """Writes the rows of each checkpoint in one transaction, together with the checkpoint's id.

    The id table has one row for each application, that is for each sink in a lineage of checkpoints. The transaction first raises
    the id in that row, if it is lower, and thereby locks the row until the transaction ends. So if two drivers commit at the same
    time, one waits for the other, and then finds the id.
    """

    def __init__(
        self, database: Database, statement: Statement, shape: RowShape, execution: JdbcExecutionOptions, checkpoint_table: str
    ) -> None:
        self._database = database
        self._label = database.label
        self._text = statement.text_for(database.paramstyle)
        self._shape = shape
        self._fields = shape.described
        self._bind = shape.binder(database.dialect)
        self._batch_size = execution.get_batch_size()
        self._session = Session(database, execution.get_max_retries(), SinkError)
        self._name = checkpoint_table
        self._table = _checkpoint_table(checkpoint_table)
        self._exists = False
        self._last: tuple[str, int] | None = None
        self._origins: tuple[str, ...] = ()

    def snapshot_state(self) -> bytes:
        return msgspec.msgpack.encode(_CommitterState(database=self._label, last=self._last, origins=self._origins))

    def restore(self, checkpoint: RestoredCheckpoint) -> None:
        application = _application(checkpoint.lineage, checkpoint.sink_uid)
        state = None if checkpoint.state is None else msgspec.msgpack.decode(checkpoint.state, type=_CommitterState)
        if state is not None:
            self._last, self._origins = state.last, state.origins
        if not checkpoint.own:
            self._origins = (*self._origins, application)
        committed = self._look_up(application)
        ours = self._look_up(_application(checkpoint.job_lineage, checkpoint.sink_uid))
        if committed is not None and committed > checkpoint.checkpoint_id and (checkpoint.own or ours is None):
            raise ForeignCheckpointError(
                f"JdbcSink: {self._label} is ahead of checkpoint {checkpoint.checkpoint_id}, which the job starts from: it holds "
                f"the rows of {checkpoint_name(committed)} already, so those in between would be written a second time",
                hint="start from the newest checkpoint. To go back on purpose, remove those rows and give the sink another uid, "
                "with execution.state-recovery.ignore-unclaimed-state.",
            )
        if state is not None and state.database == self._label and state.last is not None:
            self._check_kept(*state.last)

    def _check_kept(self, application: str, checkpoint_id: int) -> None:
        """Raise ForeignCheckpointError unless the database holds what was committed before the checkpoint."""
        found = self._look_up(application)
        if found is None or found < checkpoint_id:
            raise ForeignCheckpointError(
                f"JdbcSink: the job had committed {checkpoint_name(checkpoint_id)} to {self._label}, whose table {self._name} "
                f"knows of {'none' if found is None else checkpoint_name(found)}: rows that it wrote are lost, and would not be "
                "written again",
                hint="was the database restored from a backup, or the table removed? Bring it back, or start from a checkpoint "
                "that is as old.",
            )

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[JdbcCommittable]]) -> None:
        if not requests:
            return
        application = _application(requests[0].lineage, requests[0].sink_uid)
        # A job that was started from another job's savepoint also raises that job's id. A second start from the same savepoint is
        # then refused, because the database is ahead of it.
        origins = () if application in self._origins else self._origins
        digest = _digest(requests)
        self._create_table()

        def write(connection: sqlalchemy.Connection) -> bool:
            if not self._raise_id(connection, application, checkpoint_id, digest):
                return False
            for origin in origins:
                self._raise_id(connection, origin, checkpoint_id, digest)
            for request in requests:
                self._write_rows(connection, request.committable)
            return True

        what = f"commit {checkpoint_name(checkpoint_id)} to {self._label}"
        if not self._session.run(write, what):
            self._check_same(application, checkpoint_id, digest)
        self._last = (application, checkpoint_id)
        if application not in self._origins:
            self._origins = ()

    def _raise_id(self, connection: sqlalchemy.Connection, application: str, checkpoint_id: int, digest: int) -> bool:
        """Raise the id of an application if it is lower, and lock it; return whether it was lower."""
        table = self._table
        values = {"checkpoint_id": checkpoint_id, "digest": digest}
        lower = (table.c.application == application) & (table.c.checkpoint_id < checkpoint_id)
        if connection.execute(table.update().where(lower).values(updated_at=_now(), **values)).rowcount:
            return True
        if connection.execute(table.select().where(table.c.application == application)).first() is not None:
            return False
        # This fails if another driver has just written the first id; the session then tries again.
        connection.execute(table.insert().values(application=application, updated_at=_now(), **values))
        return True

    def _write_rows(self, connection: sqlalchemy.Connection, committable: JdbcCommittable) -> None:
        if committable.fields != self._fields:
            raise SinkError(
                f"JdbcSink: the checkpoint holds rows of type {committable.fields}, which were not written yet; the sink now "
                f"writes {self._fields}",
                hint="start once with the former type_info and statement, or from a savepoint that stopped the job.",
            )
        rows = self._shape.decode(zlib.decompress(committable.rows))
        for begin in range(0, len(rows), self._batch_size):
            connection.exec_driver_sql(self._text, self._bind(rows[begin : begin + self._batch_size]))

    def _check_same(self, application: str, checkpoint_id: int, digest: int) -> None:
        """Raise SinkError unless the database holds the rows of exactly this checkpoint."""
        found = self._entry(application)
        if found is None:
            raise SinkError(f"JdbcSink: the table {self._name} of {self._label} was emptied while the job was committing")
        committed, committed_digest = found
        if committed > checkpoint_id and application not in self._origins:
            raise SinkError(
                f"JdbcSink cannot commit {checkpoint_name(checkpoint_id)} to {self._label}: it holds those of "
                f"{checkpoint_name(committed)} already",
                hint="another driver process runs the same job, or a copy of its checkpoint folder; stop all but one.",
            )
        # At the end of the input of a job without checkpoints, an earlier attempt of this job may have written the same rows.
        if committed == checkpoint_id != END_OF_INPUT_CHECKPOINT and committed_digest != digest:
            raise SinkError(
                f"JdbcSink cannot commit {checkpoint_name(checkpoint_id)} to {self._label}: another job has committed other "
                "rows under the same id",
                hint="that job was started from a copy of this job's checkpoint folder; start one of them from a savepoint.",
            )

    def _look_up(self, application: str) -> int | None:
        entry = self._entry(application)
        return None if entry is None else entry[0]

    def _entry(self, application: str) -> tuple[int, int] | None:
        """Return the id and digest of an application; None if the table does not have it or does not exist."""
        table = self._table

        def select(connection: sqlalchemy.Connection) -> tuple[int, int] | None:
            if not self._has_table(connection):
                return None
            query = table.select().with_only_columns(table.c.checkpoint_id, table.c.digest)
            found = connection.execute(query.where(table.c.application == application)).first()
            return None if found is None else (int(found[0]), int(found[1]))

        return self._session.run(select, f"read the table {self._name} of {self._label}")

    def _has_table(self, connection: sqlalchemy.Connection) -> bool:
        import sqlalchemy

        if not self._exists:
            self._exists = sqlalchemy.inspect(connection).has_table(self._table.name, schema=self._table.schema)
        return self._exists

    def _create_table(self) -> None:
        """Create the table of ids in its own transaction, because in some databases CREATE TABLE ends a transaction."""
        import sqlalchemy

        def create(connection: sqlalchemy.Connection) -> None:
            if not self._has_table(connection):
                connection.execute(sqlalchemy.schema.CreateTable(self._table))

        if not self._exists:
            # This fails if another driver creates it at the same moment; the second try then finds it.
            self._session.run(create, f"create the table {self._name} in {self._label}")
            self._exists = True

    def close(self) -> None:
        self._session.close()


def _checkpoint_table(name: str) -> sqlalchemy.Table:
    import sqlalchemy

    schema, _, table = name.rpartition(".")
    return sqlalchemy.Table(
        table,
        sqlalchemy.MetaData(),
        sqlalchemy.Column("application", sqlalchemy.String(_LONGEST_NAME), primary_key=True),
        sqlalchemy.Column("checkpoint_id", sqlalchemy.BigInteger, nullable=False),
        sqlalchemy.Column("digest", sqlalchemy.BigInteger, nullable=False),
        sqlalchemy.Column("updated_at", sqlalchemy.DateTime, nullable=False),
        schema=schema or None,
    )


def _now() -> sqlalchemy.ColumnElement[datetime.datetime]:
    import sqlalchemy

    return sqlalchemy.func.current_timestamp()


def _application(lineage: str, sink_uid: str) -> str:
    """Return the key of a sink's ids in the table: within a lineage, ids rise and are unique."""
    name = f"{lineage}/{sink_uid}"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{lineage}/{hashlib.sha256(sink_uid.encode()).hexdigest()}"


def _digest(requests: Sequence[CommitRequest[JdbcCommittable]]) -> int:
    """Return a hash of the rows of a checkpoint."""
    digest = hashlib.sha256()
    for request in requests:
        digest.update(hashlib.sha256(request.committable.rows).digest())
    return int.from_bytes(digest.digest()[:8]) >> 1

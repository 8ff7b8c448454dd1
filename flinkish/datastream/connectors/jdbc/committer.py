"""The driver side of JdbcSink.exactly_once_sink: the rows of a checkpoint and its id in one transaction."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from flinkish.common.errors import ForeignCheckpointError, SinkChangedError, TargetRefusedError
from flinkish.datastream.connectors._commits import check_repeated, lost_commits, overtaken
from flinkish.datastream.connectors.jdbc.statements import JdbcSinkSettings, Target
from flinkish.datastream.connectors.jdbc.values import Rows
from flinkish.program.refused_records import RefusedRecord
from flinkish.program.sinks import CommitRequest, Committer, RestoredCheckpoint, checkpoint_name

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
    the id in that row, if it is still the one that the last commit wrote, and thereby locks the row until the transaction ends.
    So if two drivers commit at the same time, one waits for the other, and then finds the id; and nothing is written once rows of
    an earlier commit are lost.
    """

    def __init__(self, settings: JdbcSinkSettings) -> None:
        self._target = Target(settings)
        self._label, self._session, self._shape = self._target.label, self._target.session, self._target.shape
        self._name = settings.checkpoint_table or CHECKPOINT_TABLE
        self._table = _checkpoint_table(self._name)
        self._exists = False
        self._last: tuple[str, int] | None = None
        self._origins: tuple[str, ...] = ()
        #: The id in the table after the last commit, by application; None or absent = none.
        self._stands: dict[str, int | None] = {}

    def snapshot_state(self) -> bytes:
        return msgspec.msgpack.encode(_CommitterState(database=self._label, last=self._last, origins=self._origins))

    def restore(self, checkpoint: RestoredCheckpoint) -> None:
        application = _application(checkpoint.lineage, checkpoint.sink_uid)
        job_application = _application(checkpoint.job_lineage, checkpoint.sink_uid)
        state = None if checkpoint.state is None else msgspec.msgpack.decode(checkpoint.state, type=_CommitterState)
        if state is not None:
            self._origins = state.origins
            self._last = state.last if state.database == self._label else None
        if not checkpoint.own:
            self._origins = (*self._origins, application)
        # The checkpoint itself may be committed or not, and so may others that were in progress when it began.
        self._stands = {name: self._look_up(name) for name in (application, job_application, *self._origins)}
        committed, ours = self._stands[application], self._stands[job_application]
        if committed is not None and committed > checkpoint.checkpoint_id and (checkpoint.own or ours is None):
            raise ForeignCheckpointError(
                f"JdbcSink: {self._label} is ahead of checkpoint {checkpoint.checkpoint_id}, which the job starts from: it holds "
                f"the rows of {checkpoint_name(committed)} already, so those in between would be written a second time",
                hint="start from the newest checkpoint. To go back on purpose, remove those rows and give the sink another uid, "
                "with execution.state-recovery.ignore-unclaimed-state.",
            )
        if self._last is not None:
            found, last = self._look_up(self._last[0]), self._last[1]
            if found is None or found < last:
                raise self._lost(found, last)

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[JdbcCommittable]]) -> None:
        if not requests:
            return
        application = _application(requests[0].lineage, requests[0].sink_uid)
        # A job that was started from another job's savepoint also raises that job's id. A second start from the same savepoint is
        # then refused, because the database is ahead of it.
        origins = () if application in self._origins else self._origins
        digest = _digest(requests)
        self._create_table()

        def write(connection: sqlalchemy.Connection, *, sift: bool = False) -> int:
            """Return the id at which the database stands then. With `sift`, rows that the database refuses are put aside."""
            found = self._raise_id(connection, application, checkpoint_id, digest)
            if found is not None:
                same, advanced = found[1] == digest, application in self._origins
                check_repeated("JdbcSink", self._label, checkpoint_id, found[0], same=same, advanced=advanced)
                return found[0]
            for origin in origins:
                found = self._raise_id(connection, origin, checkpoint_id, digest)
                if found is not None:
                    raise overtaken("JdbcSink", self._label, checkpoint_id, found[0])
            refused: list[RefusedRecord] = []
            for request in requests:
                for batch in self._batches(request.committable):
                    if not sift:
                        self._target.write(connection, batch)
                        continue
                    for value, reason in self._target.sift(connection, batch):
                        refused.append(RefusedRecord(reason=reason, subtask=request.subtask_index, value=value))
            if refused:
                self.refused_records.put_aside(checkpoint_id, requests, refused)
            return checkpoint_id

        what = f"commit {checkpoint_name(checkpoint_id)} to {self._label}"
        try:
            stands = self._session.run(write, what)
        except TargetRefusedError:
            stands = self._session.run(partial(write, sift=True), what)
        except SinkChangedError:
            # What the transaction misses may be the table of ids itself, of a database that was put back.
            self._exists, last = False, self._stands.get(application)
            if last is not None and self._look_up(application) is None:
                raise self._lost(None, last) from None
            raise
        self._stands |= dict.fromkeys((application, *origins), stands)
        self._last = (application, checkpoint_id)
        if application not in self._origins:
            self._origins = ()

    def _raise_id(
        self, connection: sqlalchemy.Connection, application: str, checkpoint_id: int, digest: int
    ) -> tuple[int, int] | None:
        """Raise the id of an application from where the last commit left it, and lock it; else return the id and digest found.

        Raises SinkChangedError if the id has gone back.
        """
        import sqlalchemy

        table, stands = self._table, self._stands.get(application)
        values = {"checkpoint_id": checkpoint_id, "digest": digest, "updated_at": sqlalchemy.func.current_timestamp()}
        if stands is not None and stands < checkpoint_id:
            unchanged = (table.c.application == application) & (table.c.checkpoint_id == stands)
            if connection.execute(table.update().where(unchanged).values(**values)).rowcount:
                return None
        found = self._select(connection, application)
        if stands is not None and (found is None or found[0] < stands):
            raise self._lost(None if found is None else found[0], stands)
        if found is None:
            # This fails if another driver has just written the first id; the session then tries again.
            connection.execute(table.insert().values(application=application, **values))
        return found

    def _lost(self, found: int | None, last: int) -> SinkChangedError:
        return lost_commits("JdbcSink", f"{self._label} (table {self._name})", last=last, found=found)

    def _batches(self, committable: JdbcCommittable) -> list[Rows]:
        if committable.fields != self._shape.described:
            raise ForeignCheckpointError(
                f"JdbcSink: the checkpoint holds rows of type {committable.fields}, which were not written yet; the sink now "
                f"writes {self._shape.described}",
                hint="start once with the former type_info and statement, or from a savepoint that stopped the job.",
            )
        return self._target.batches(self._shape.decode(zlib.decompress(committable.rows)))

    def _look_up(self, application: str) -> int | None:
        """Return the id of an application; None if the table does not have it or does not exist."""
        import sqlalchemy

        def select(connection: sqlalchemy.Connection) -> tuple[int, int] | None:
            if not self._exists:
                self._exists = sqlalchemy.inspect(connection).has_table(self._table.name, schema=self._table.schema)
            return self._select(connection, application) if self._exists else None

        found = self._session.run(select, f"read the table {self._name} of {self._label}")
        return None if found is None else found[0]

    def _select(self, connection: sqlalchemy.Connection, application: str) -> tuple[int, int] | None:
        table = self._table
        query = table.select().with_only_columns(table.c.checkpoint_id, table.c.digest)
        found = connection.execute(query.where(table.c.application == application)).first()
        return None if found is None else (int(found[0]), int(found[1]))

    def _create_table(self) -> None:
        """Create the table of ids in its own transaction, because in some databases CREATE TABLE ends a transaction."""
        if not self._exists:
            # This fails if another driver creates it at the same moment; the second try then finds it.
            create = partial(self._table.create, checkfirst=True)
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


def _application(lineage: str, sink_uid: str) -> str:
    """Return the key of a sink's ids in the table: within a lineage, ids rise and are unique."""
    name = f"{lineage}/{sink_uid}"
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{lineage}/{hashlib.sha256(sink_uid.encode()).hexdigest()}"


def _digest(requests: Sequence[CommitRequest[JdbcCommittable]]) -> int:
    digest = hashlib.sha256()
    for request in requests:
        digest.update(hashlib.sha256(request.committable.rows).digest())
    return int.from_bytes(digest.digest()[:8]) >> 1

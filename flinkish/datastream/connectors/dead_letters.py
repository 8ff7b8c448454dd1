"""The table of dead letters (`pipeline.dead-letters.dir`), written by DeltaSink; see program/dead_letters.py for its columns."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ForeignCheckpointError, SinkChangedError, SinkError, without_hint
from flinkish.common.typeinfo import TypeInformation
from flinkish.program.dead_letters import ROW_TYPE, DeadLetterTable
from flinkish.program.sinks import CommitRequest, Committer, RestoredCheckpoint, SinkWriter, SinkWriterContext

if TYPE_CHECKING:
    from flinkish.datastream.connectors.delta.committer import DeltaCommittable
    from flinkish.datastream.connectors.delta.sink import DeltaSink

_log = logging.getLogger("flinkish.connectors.dead_letters")

#: After this many commits small files are merged: a checkpoint with a single dead letter writes a file of 8 KB.
_COMPACT_EVERY: Final = 100


class DeadLetterSink(DeadLetterTable):
    """Writes rows of dead letters into the table at a path; with None it only commits the rows that a checkpoint still holds.

    A table that lacks columns of this version gets them; columns that it has in addition become null.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path

    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, DeltaCommittable]:
        assert self._path is not None, "without a table there are no rows"
        return _table(self._path).create_writer(context)

    def create_committer(self, configuration: Configuration) -> Committer[DeltaCommittable]:
        return _DeadLetterCommitter(self._path, configuration)

    def put_aside(
        self,
        rows: Sequence[tuple[Any, ...]],
        *,
        name: str,
        checkpoint_id: int,
        job_id: str,
        lineage: str,
        configuration: Configuration,
    ) -> None:
        assert self._path is not None, "without a table there are no rows"
        table = _table(self._path)
        committer = table.create_committer(configuration)
        if committer.holds(lineage, name, checkpoint_id):
            return
        new = table.new_files(ROW_TYPE, lineage, name, 0)
        committable = new.committable(new.write({(): [new.encode(rows)]}))
        request = CommitRequest(committable=committable, job_id=job_id, lineage=lineage, sink_uid=name, subtask_index=0)
        committer.commit(checkpoint_id, [request])

    @property
    def committable_type(self) -> Any:
        from flinkish.datastream.connectors.delta.committer import DeltaCommittable

        return DeltaCommittable

    def validate(self, input_type: TypeInformation) -> None:
        """Raise an error that names the option if the table cannot take the rows."""
        if self._path is None:
            return
        try:
            _table(self._path).validate(input_type)
        except SinkError as error:
            raise SinkError(
                f"{options.DEAD_LETTERS_DIR.key} = {self._path!r}: {without_hint(error)}",
                hint="give the dead letters a folder of their own, which need not exist.",
            ) from error


def _table(path: str) -> DeltaSink:
    # Delta and Arrow take 0.2 s to import, which jobs without dead letters do not need.
    from flinkish.datastream.connectors.delta.sink import DeltaSink

    return DeltaSink(path, row_type=ROW_TYPE, add_columns=True, compact_every=_COMPACT_EVERY)


@contextmanager
def _errors() -> Iterator[None]:
    """Have errors that end the job say how it can go on without the table."""
    try:
        yield
    except (ForeignCheckpointError, SinkChangedError) as error:
        raise type(error)(
            f"the table of dead letters does not fit the checkpoint: {without_hint(error)}",
            hint=f"set {options.DEAD_LETTERS_DIR.key} to another folder to start from this checkpoint.",
        ) from error


class _DeadLetterCommitter(Committer["DeltaCommittable"]):
    """Commits into the table that the committables name: the table of the option, or the one of a former run."""

    def __init__(self, path: str | None, configuration: Configuration) -> None:
        self._configuration = configuration
        self._own = None if path is None else _table(path).create_committer(configuration)
        self._restored: RestoredCheckpoint | None = None

    def restore(self, checkpoint: RestoredCheckpoint) -> None:
        self._restored = checkpoint
        if self._own is not None:
            with _errors():
                self._own.restore(checkpoint)

    def snapshot_state(self) -> bytes | None:
        return None if self._own is None else self._own.snapshot_state()

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[DeltaCommittable]]) -> None:
        tables: dict[str, list[CommitRequest[DeltaCommittable]]] = {}
        for request in requests:
            tables.setdefault(request.committable.table, []).append(request)
        if self._own is not None:
            with _errors():
                self._own.commit(checkpoint_id, tables.pop(self._own.path, []))
        for path, of_table in tables.items():
            self._commit_to_former(path, checkpoint_id, of_table)

    def _commit_to_former(self, path: str, checkpoint_id: int, requests: Sequence[CommitRequest[DeltaCommittable]]) -> None:
        """Commit the rows that a checkpoint holds for a table to which the job no longer writes."""
        from flinkish.datastream.connectors.delta.files import files_of
        from flinkish.datastream.connectors.delta.table import open_table

        files = [file for request in requests for file in request.committable.files]
        rows = sum(file.rows for file in files)
        if not rows:
            return
        if open_table(path) is None and not any(files_of(path).exists(file.path) for file in files):
            _log.warning(
                "%s, where the job kept dead letters before, is gone: the %d of checkpoint %d are lost.",
                path, rows, checkpoint_id,
            )  # fmt: skip
            return
        committer = _table(path).create_committer(self._configuration)
        with _errors():
            if self._restored is not None:
                committer.restore(replace(self._restored, state=None))
            committer.commit(checkpoint_id, requests)
        _log.info("%d dead letters of checkpoint %d are in %s, to which the job wrote before.", rows, checkpoint_id, path)

"""The sinks of one attempt, on the driver: the second phase of two-phase commit.

Sinks make visible what a completed checkpoint covers, and what they prepared at the end of the input without checkpoints.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from flinkish.checkpoint.manifest import Committable
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common import options
from flinkish.common.clock import Clock
from flinkish.common.closing import Unwinding, close_all
from flinkish.common.configuration import Configuration
from flinkish.common.errors import FlinkishError, ForeignCheckpointError, SinkChangedError, SinkError, TargetRefusedError
from flinkish.common.ids import LineageId, OperatorUid
from flinkish.common.time import Instant
from flinkish.common.types import Row
from flinkish.jobmaster import program_parts
from flinkish.jobmaster.program_parts import SinkNode
from flinkish.jobmaster.setup import JobSetup
from flinkish.program.dead_letters import DEAD_LETTERS_UID, RAW_FOR_TARGET, REFUSED, DeadLetterTable
from flinkish.program.refused_records import RefusedRecord, RefusedRecords
from flinkish.program.sinks import END_OF_INPUT_CHECKPOINT, CommitRequest, Committer, RestoredCheckpoint, checkpoint_name
from flinkish.runtime import faults
from flinkish.runtime.dead_letters import forms_of, storable
from flinkish.runtime.protocol import EpochReport

_log = logging.getLogger(__name__)

#: Key in CoordinatorState.extra of the committables that sinks of a job without checkpoints prepared at the end of their input.
_PREPARED = "prepared_at_end_of_input"

#: Key in CoordinatorState.extra of the committers' states, by operator.
_STATES = "committers"


@dataclass(slots=True)
class _SinkCommitter:
    node: SinkNode
    committer: Committer[Any]

    def requests(self, committables: Iterable[Committable], job_id: str, lineage: LineageId) -> list[CommitRequest[Any]]:
        return [
            CommitRequest(
                committable=self._decode(committable.data),
                job_id=job_id,
                lineage=lineage,
                sink_uid=self.node.uid,
                subtask_index=committable.subtask,
            )
            for committable in committables
            if committable.operator_uid == self.node.uid
        ]

    def close(self) -> None:
        try:
            self.committer.close()
        except Exception as error:
            raise SinkError(f"{self.node.label}: closing its committer failed: {type(error).__name__}: {error}") from error

    def _decode(self, data: bytes) -> Any:
        try:
            return msgspec.msgpack.decode(data, type=self.node.sink.committable_type)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise SinkError(
                f"{self.node.label}: what a writer prepared does not fit its committable_type "
                f"{self.node.sink.committable_type!r}: {error}",
                hint="committables are plain data or dataclasses of it, of the type that the sink declares.",
            ) from error


class JobSinks:
    """The committers of all sinks of a job in one attempt, from `start` to `close`."""

    def __init__(
        self,
        nodes: Iterable[SinkNode],
        configuration: Configuration,
        job_id: str,
        lineage: LineageId,
        refused_records: Callable[[SinkNode], RefusedRecords] | None = None,
    ) -> None:
        """`refused_records`: makes what takes the records that a sink's target refuses; None = such a record fails the job."""
        self._job_id = job_id
        self._lineage = lineage
        #: Committables that sinks of a job without checkpoints have prepared.
        self._prepared: list[Committable] = []
        self._nodes = nodes
        self._configuration = configuration
        self._refused_records = refused_records
        self._committers: dict[OperatorUid, _SinkCommitter] = {}
        #: A clause about the commit that runs, for progress; None = there is none.
        self.committing: str | None = None

    @staticmethod
    def of(setup: JobSetup, clock: Clock) -> JobSinks:
        """Return the committers of a job's sinks and of its table of dead letters, which `start` creates."""
        nodes, table, configuration = program_parts.sinks(setup.plan.job_graph), setup.dead_letters, setup.configuration
        keep: Callable[[SinkNode], RefusedRecords] | None = None
        if table is not None:
            nodes += (SinkNode(uid=DEAD_LETTERS_UID, name="dead letters", sink=table),)
            if setup.keeps_dead_letters:
                keep = partial(KeptRefusedRecords, table=table, job_name=setup.job_name, configuration=configuration, clock=clock)
        return JobSinks(nodes, configuration, setup.job_id, setup.lineage, keep)

    def start(self) -> None:
        """Create the committers; raises their errors."""
        for node in self._nodes:
            committer = node.sink.create_committer(self._configuration)
            if committer is not None:
                if self._refused_records is not None:
                    committer.refused_records = self._refused_records(node)
                self._committers[node.uid] = _SinkCommitter(node, committer)

    def restore(self, checkpoint: StoredCheckpoint) -> None:
        """Tell all sinks which checkpoint the attempt starts from, and commit its committables again.

        Committers get their state back, and committables are committed, only if our key signed the checkpoint.
        Raises ForeignCheckpointError if the checkpoint does not fit a sink, or (unless state may be left behind) has committables
        that no sink commits; SinkChangedError if what a sink had committed is lost; and the errors of `commit`.
        """
        manifest, extra = checkpoint.manifest, checkpoint.manifest.coordinator.extra
        committables = manifest.committables
        if _PREPARED in extra:
            self._prepared = msgspec.msgpack.decode(extra[_PREPARED], type=list[Committable])
        if not checkpoint.trusted:
            _tell_untrusted(checkpoint, [*committables, *self._prepared])
            self._prepared, committables = [], ()
        lost = self._without_committer(committables)
        if lost and not self._configuration.get(options.SAVEPOINT_IGNORE_UNCLAIMED_STATE):
            raise ForeignCheckpointError(
                f"checkpoint {manifest.checkpoint_id} has data that the sinks {', '.join(lost)} prepared and that this program "
                "does not commit: it has other sinks with these uids, which commit nothing",
                hint="go on with the same sinks, and give new ones other uids; or set "
                f"{options.SAVEPOINT_IGNORE_UNCLAIMED_STATE.key} to leave that data behind.",
            )
        kept = extra.get(_STATES) if checkpoint.trusted else None
        states = {} if kept is None else msgspec.msgpack.decode(kept, type=dict[OperatorUid, bytes])
        for uid, sink in self._committers.items():
            restored = RestoredCheckpoint(
                checkpoint_id=manifest.checkpoint_id,
                lineage=manifest.lineage,
                job_lineage=self._lineage,
                job_id=self._job_id,
                sink_uid=uid,
                state=states.get(uid),
            )
            try:
                sink.committer.restore(restored)
            except (ForeignCheckpointError, SinkChangedError) as error:
                raise type(error)(f"{sink.node.label}: {error}") from error
            except Exception as error:
                raise SinkError(
                    f"{sink.node.label}: going on from checkpoint {manifest.checkpoint_id} failed: "
                    f"{type(error).__name__}: {error}"
                ) from error
        self.commit(manifest.checkpoint_id, committables, manifest.job_id, manifest.lineage)

    def take_prepared(self, reports: Iterable[EpochReport]) -> None:
        """Keep what sinks of a job without checkpoints prepared at the end of their input."""
        for report in reports:
            for uid, subtask, committables in report.final_committables:
                self._prepared.extend(Committable(operator_uid=uid, subtask=subtask, data=data) for data in committables)

    def snapshot(self) -> dict[str, bytes]:
        """Return the sinks' part of CoordinatorState.extra, which `restore` takes."""
        states = {uid: state for uid, sink in self._committers.items() if (state := sink.committer.snapshot_state()) is not None}
        parts = {_PREPARED: self._prepared, _STATES: states}
        return {key: msgspec.msgpack.encode(part) for key, part in parts.items() if part}

    def commit_prepared(self, uncommitted: Iterable[Committable]) -> None:
        """Commit everything at the end of the input of a job without checkpoints.

        `uncommitted`: what writers prepared for a savepoint during the run, and no checkpoint has committed.
        """
        faults.reach(faults.Point.SINKS_TO_COMMIT)
        self.commit(END_OF_INPUT_CHECKPOINT, [*uncommitted, *self._prepared], self._job_id, self._lineage)
        faults.reach(faults.Point.SINKS_COMMITTED)

    def commit(self, checkpoint_id: int, committables: Sequence[Committable], job_id: str, lineage: LineageId) -> None:
        """Commit the committables of a checkpoint; the job with `job_id` and `lineage` has prepared them.

        Every sink is called, even if it has nothing to commit. Raises SinkError from the sink's own error; commits of other sinks
        stay, and are repeated without effect after the job's restart.
        Raises ForeignCheckpointError if a committable does not belong to the sink; SinkChangedError if what it had committed is
        lost; TargetRefusedError if its target refuses records and the job keeps no dead letters.
        """
        lost = self._without_committer(committables)
        if lost:
            text = "Output in %s that was to be committed is dropped: it is of the operators %s, which commit nothing."
            _log.warning(text, checkpoint_name(checkpoint_id), lost)
        for sink in self._committers.values():
            requests = sink.requests(committables, job_id, lineage)
            self.committing = f"committing {checkpoint_name(checkpoint_id)} to {sink.node.label}"
            try:
                sink.committer.commit(checkpoint_id, requests)
            except Unwinding:
                raise
            except (ForeignCheckpointError, SinkChangedError) as error:
                raise type(error)(f"{sink.node.label}: {error}") from error
            except TargetRefusedError as error:
                raise TargetRefusedError(f"{sink.node.label}: {checkpoint_name(checkpoint_id)}: {error}") from error
            except BaseException as error:
                raise SinkError(
                    f"{sink.node.label}: committing {len(requests)} committables of {checkpoint_name(checkpoint_id)} failed: "
                    f"{type(error).__name__}: {error}"
                ) from error
            finally:
                self.committing = None

    def _without_committer(self, committables: Iterable[Committable]) -> list[OperatorUid]:
        return sorted({committable.operator_uid for committable in committables} - self._committers.keys())

    def close(self) -> None:
        """Close all committers, once; raises the first error after all were closed."""
        sinks, self._committers = self._committers, {}
        close_all(sinks.values())


def _tell_untrusted(checkpoint: StoredCheckpoint, left: Sequence[Committable]) -> None:
    if left:
        uids = ", ".join(sorted({each.operator_uid for each in left}))
        _log.warning(
            "Checkpoint %d in %s was signed by another key than ours: %d committables of %s are left alone, neither "
            "committed nor removed.",
            checkpoint.checkpoint_id, checkpoint.root, len(left), uids,
        )  # fmt: skip


class KeptRefusedRecords(RefusedRecords):
    """Commits the refused records of a sink to the table, in a transaction that is named after the sink and these records.

    So a commit that is repeated finds its transaction. If the target has changed in the meantime and refuses other records, these
    get a transaction of their own.
    """

    def __init__(self, node: SinkNode, table: DeadLetterTable, job_name: str, configuration: Configuration, clock: Clock) -> None:
        self._node = node
        self._table = table
        self._job_name = job_name
        self._configuration = configuration
        self._clock = clock

    def put_aside(self, checkpoint_id: int, requests: Sequence[CommitRequest[Any]], records: Sequence[RefusedRecord]) -> None:
        request, now = requests[0], Instant.of_epoch_milli(self._clock.wall_time())
        digest = hashlib.sha256()
        rows = []
        for record in records:
            forms = forms_of(record.value) if record.topic is None else (record.raw, RAW_FOR_TARGET, None)
            headers = None if record.headers is None else [Row(key=key, value=value) for key, value in record.headers]
            what = (record.topic, record.timestamp, record.key, record.headers, forms[0], forms[2])
            digest.update(repr(what).encode())
            operator = self._job_name, request.job_id, str(self._node.uid), self._node.name, record.subtask
            where, times = (record.topic, None, None), (record.timestamp, None, now)
            # In the order of COLUMNS.
            rows.append((REFUSED, storable(record.reason), *operator, *where, *times, record.key, headers, *forms, checkpoint_id))
        try:
            self._table.put_aside(
                rows,
                name=f"{DEAD_LETTERS_UID}/{self._node.uid}/{digest.hexdigest()[:32]}",
                checkpoint_id=checkpoint_id,
                job_id=request.job_id,
                lineage=request.lineage,
                configuration=self._configuration,
            )
        except FlinkishError as error:
            kind = SinkChangedError if isinstance(error, SinkChangedError) else SinkError
            raise kind(f"the dead letters ({options.DEAD_LETTERS_DIR.key}) cannot be written: {error}") from error
        _log.warning(
            "%s: the target refused %d records of %s, which are dead letters now; the first: %s",
            self._node.label, len(rows), checkpoint_name(checkpoint_id), records[0].reason,
        )  # fmt: skip

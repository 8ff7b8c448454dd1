"""The second phase of two-phase commit: sinks make the committables of a completed checkpoint visible."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from flinkish.checkpoint.manifest import Committable, Manifest
from flinkish.common import options
from flinkish.common.closing import Unwinding, close_all
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ForeignCheckpointError, SinkChangedError, SinkError, TargetRefusedError
from flinkish.common.ids import LineageId, OperatorUid
from flinkish.jobmaster.program_parts import SinkNode
from flinkish.program.refused_records import RefusedRecords
from flinkish.program.sinks import CommitRequest, Committer, RestoredCheckpoint, checkpoint_name

_log = logging.getLogger("flinkish.jobmaster.committers")

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


class Committers:
    """The committers of all sinks of a job, created again for each attempt."""

    def __init__(
        self,
        nodes: Iterable[SinkNode],
        configuration: Configuration,
        refused_records: Callable[[SinkNode], RefusedRecords] | None = None,
    ) -> None:
        """`refused_records`: makes what takes the records that a sink's target refuses; None = such a record fails the job."""
        self._may_leave: bool = configuration.get(options.SAVEPOINT_IGNORE_UNCLAIMED_STATE)
        self._committers: dict[OperatorUid, _SinkCommitter] = {}
        #: A clause about the commit that runs, for progress; None = there is none.
        self.committing: str | None = None
        for node in nodes:
            committer = node.sink.create_committer(configuration)
            if committer is not None:
                if refused_records is not None:
                    committer.refused_records = refused_records(node)
                self._committers[node.uid] = _SinkCommitter(node, committer)

    def restore(self, manifest: Manifest, lineage: LineageId, job_id: str, *, trusted: bool) -> None:
        """Tell all sinks which checkpoint the attempt of a job in `lineage` starts from, and commit its committables again.

        Committers get their state back only if our key signed the checkpoint (`trusted`).
        Raises ForeignCheckpointError if the checkpoint does not fit a sink, or (unless state may be left behind) has committables
        that no sink commits; SinkChangedError if what a sink had committed is lost; and the errors of `commit`.
        """
        lost = self._without_committer(manifest.committables)
        if lost and not self._may_leave:
            raise ForeignCheckpointError(
                f"checkpoint {manifest.checkpoint_id} has data that the sinks {', '.join(lost)} prepared and that this program "
                "does not commit: it has other sinks with these uids, which commit nothing",
                hint="go on with the same sinks, and give new ones other uids; or set "
                f"{options.SAVEPOINT_IGNORE_UNCLAIMED_STATE.key} to leave that data behind.",
            )
        kept = manifest.coordinator.extra.get(_STATES) if trusted else None
        states = {} if kept is None else msgspec.msgpack.decode(kept, type=dict[OperatorUid, bytes])
        for uid, sink in self._committers.items():
            restored = RestoredCheckpoint(
                checkpoint_id=manifest.checkpoint_id,
                lineage=manifest.lineage,
                job_lineage=lineage,
                job_id=job_id,
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
        self.commit(manifest.checkpoint_id, manifest.committables, manifest.job_id, manifest.lineage)

    def snapshot(self) -> dict[str, bytes]:
        """Return the state of the sinks' committers, to be stored in CoordinatorState.extra for `restore`."""
        states = {uid: state for uid, sink in self._committers.items() if (state := sink.committer.snapshot_state()) is not None}
        return {_STATES: msgspec.msgpack.encode(states)} if states else {}

    def commit(self, checkpoint_id: int, committables: Sequence[Committable], job_id: str, lineage: LineageId) -> None:
        """Commit the committables of a checkpoint; `job_id` and `lineage` are those of the job that prepared them.

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

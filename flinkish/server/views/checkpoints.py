"""Answers about the checkpoints of a job.

All barriers are aligned, so nothing is buffered or persisted in flight; the amounts of data processed during alignment are not
counted and shown as 0, as Flink does where it has no figure.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from flinkish.checkpoint.checkpoint_settings import JobEnd, Retention, deletes_checkpoints
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.statistics import CheckpointRecord, CheckpointStatus, SubtaskRecord
from flinkish.common import options
from flinkish.graph.job_graph import JobVertex
from flinkish.server.answers import checkpoints as answers
from flinkish.server.views.job_view import JobView, rest_id

#: Flink's Long.MAX_VALUE, its interval of a job without periodic checkpoints.
_NEVER = 2**63 - 1
_CLASS_NAMES = {
    CheckpointStatus.IN_PROGRESS: "in_progress",
    CheckpointStatus.COMPLETED: "completed",
    CheckpointStatus.FAILED: "failed",
}


def checkpoints(view: JobView) -> answers.Checkpoints:
    """Return /jobs/:jobid/checkpoints."""
    figures = view.checkpoints
    completed = [record for record in figures.history if record.status is CheckpointStatus.COMPLETED]
    sizes = statistics([record.state_size for record in completed])
    nothing = statistics([0 for _ in completed])
    latest_checkpoint = next((record for record in completed if not record.kind.is_savepoint), None)
    if latest_checkpoint is None and figures.latest_completed is not None and not figures.latest_completed.kind.is_savepoint:
        latest_checkpoint = figures.latest_completed
    return answers.Checkpoints(
        counts=answers.Counts(
            restored=figures.counts.restored,
            total=figures.counts.triggered,
            in_progress=figures.counts.in_progress,
            completed=figures.counts.completed,
            failed=figures.counts.failed,
        ),
        summary=answers.Summary(
            checkpointed_size=sizes,
            state_size=sizes,
            end_to_end_duration=statistics([record.duration or 0 for record in completed]),
            alignment_buffered=nothing,
            processed_data=nothing,
            persisted_data=nothing,
        ),
        latest=answers.Latest(
            completed=None if latest_checkpoint is None else checkpoint(view, latest_checkpoint),
            savepoint=None if figures.latest_savepoint is None else checkpoint(view, figures.latest_savepoint),
            failed=None if figures.latest_failed is None else checkpoint(view, figures.latest_failed),
            restored=_restored(view),
        ),
        history=tuple(checkpoint(view, record) for record in figures.history),
    )


def find(view: JobView, checkpoint_id: int) -> CheckpointRecord | None:
    """Return a checkpoint from the history or from the latest ones; None if it is not known any more."""
    figures = view.checkpoints
    known = (*figures.history, figures.latest_completed, figures.latest_failed, figures.latest_savepoint)
    return next((record for record in known if record is not None and record.checkpoint_id == checkpoint_id), None)


def checkpoint(view: JobView, record: CheckpointRecord, *, details: bool = False) -> answers.Checkpoint:
    """Return one checkpoint; with `details`, also its part of each vertex."""
    completed, failed = record.status is CheckpointStatus.COMPLETED, record.status is CheckpointStatus.FAILED
    acknowledged = _last(record.acknowledgements)
    return answers.Checkpoint(
        className=_CLASS_NAMES[record.status],  # type: ignore[arg-type]
        id=record.checkpoint_id,
        status=record.status.value,
        is_savepoint=record.kind.is_savepoint,
        savepointFormat="CANONICAL" if record.kind.is_savepoint else None,
        trigger_timestamp=record.trigger_time,
        latest_ack_timestamp=acknowledged,
        checkpointed_size=_size(record.acknowledgements),
        state_size=_size(record.acknowledgements),
        end_to_end_duration=_duration(record, view.now),
        alignment_buffered=0,
        processed_data=0,
        persisted_data=0,
        num_subtasks=record.subtasks,
        num_acknowledged_subtasks=len(record.acknowledgements),
        checkpoint_type=_type(record.kind),
        tasks={rest_id(vertex): part(record, vertex) for vertex in view.vertices.values()} if details else {},
        external_path=(record.external_path or "<checkpoint-not-externally-addressable>") if completed else None,
        discarded=_discarded(view, record) if completed else None,
        failure_timestamp=(record.failed_at or -1) if failed else None,
        failure_message=record.failure if failed else None,
    )


def part(record: CheckpointRecord, vertex: JobVertex) -> answers.VertexCheckpoint:
    """Return a vertex's part of a checkpoint."""
    mine = [each for each in record.acknowledgements if each.vertex == vertex.id]
    last = _last(mine)
    return answers.VertexCheckpoint(
        id=record.checkpoint_id,
        status=_part_status(record, vertex, mine),
        latest_ack_timestamp=last,
        checkpointed_size=_size(mine),
        state_size=_size(mine),
        end_to_end_duration=-1 if last < 0 else max(0, last - record.trigger_time),
        alignment_buffered=0,
        processed_data=0,
        persisted_data=0,
        num_subtasks=vertex.parallelism,
        num_acknowledged_subtasks=len(mine),
    )


def vertex_details(record: CheckpointRecord, vertex: JobVertex) -> answers.VertexCheckpointDetails:
    """Return a vertex's part of a checkpoint with that of each subtask."""
    mine = {each.subtask: each for each in record.acknowledgements if each.vertex == vertex.id}
    sizes = statistics([each.state_size for each in mine.values()])
    nothing = statistics([0 for _ in mine])
    return answers.VertexCheckpointDetails(
        **msgspec.structs.asdict(part(record, vertex)),
        summary=answers.SubtaskSummary(
            checkpointed_size=sizes,
            state_size=sizes,
            end_to_end_duration=statistics([_took(record, each) for each in mine.values()]),
            checkpoint_duration=answers.SnapshotDuration(
                sync=statistics([round(each.snapshot_ms) for each in mine.values()]), asynchronous=nothing
            ),
            alignment=answers.Alignment(
                buffered=nothing,
                processed=nothing,
                persisted=nothing,
                duration=statistics([round(each.alignment_ms) for each in mine.values()]),
            ),
            start_delay=statistics([_start_delay(record, each) for each in mine.values()]),
        ),
        subtasks=tuple(_subtask(record, index, mine.get(index)) for index in range(vertex.parallelism)),
    )


def config(view: JobView) -> answers.CheckpointConfig:
    """Return /jobs/:jobid/checkpoints/config."""
    configuration, settings = view.setup.configuration, view.setup.checkpoints
    kept = configuration.contains(options.CHECKPOINTS_DIRECTORY)
    return answers.CheckpointConfig(
        mode=settings.mode.value.lower(),
        interval=_NEVER if settings.interval is None else settings.interval,
        timeout=settings.timeout,
        min_pause=settings.min_pause,
        max_concurrent=settings.max_concurrent,
        externalization=answers.Externalization(
            enabled=settings.retention is not Retention.NO_EXTERNALIZED_CHECKPOINTS,
            delete_on_cancellation=deletes_checkpoints(settings.retention, JobEnd.CANCELED),
        ),
        state_backend="HashMapStateBackend",
        checkpoint_storage="FileSystemCheckpointStorage" if kept else "JobManagerCheckpointStorage",
        unaligned_checkpoints=False,
        tolerable_failed_checkpoints=settings.tolerable_failures,
        aligned_checkpoint_timeout=0,
        checkpoints_after_tasks_finish=True,
        state_changelog_enabled=False,
        changelog_periodic_materialization_interval=0,
        changelog_storage="memory",
    )


def statistics(values: Sequence[int]) -> answers.Statistics:
    """Return the distribution of some values; percentiles between two values are interpolated, as in Flink."""
    if not values:
        return answers.Statistics(min=0, max=0, avg=0, p50="NaN", p90="NaN", p95="NaN", p99="NaN", p999="NaN")
    # The position quantile * (n + 1) of Commons Math, which Flink uses, is called "weibull" here.
    p50, p90, p95, p99, p999 = map(float, np.percentile(values, [50, 90, 95, 99, 99.9], method="weibull"))
    return answers.Statistics(
        min=min(values), max=max(values), avg=sum(values) // len(values), p50=p50, p90=p90, p95=p95, p99=p99, p999=p999
    )


def _subtask(record: CheckpointRecord, index: int, done: SubtaskRecord | None) -> answers.SubtaskCheckpoint:
    if done is None:
        return answers.SubtaskCheckpoint(className="pending", index=index, status="pending_or_failed")
    return answers.SubtaskCheckpoint(
        className="completed",
        index=index,
        status="completed",
        ack_timestamp=done.acknowledged_at,
        end_to_end_duration=_took(record, done),
        checkpointed_size=done.state_size,
        state_size=done.state_size,
        checkpoint=answers.SnapshotDuration(sync=round(done.snapshot_ms), asynchronous=0),
        alignment=answers.Alignment(buffered=0, processed=0, persisted=0, duration=round(done.alignment_ms)),
        start_delay=_start_delay(record, done),
        unaligned_checkpoint=False,
        aborted=False,
    )


def _part_status(record: CheckpointRecord, vertex: JobVertex, mine: Sequence[SubtaskRecord]) -> str:
    if record.status is CheckpointStatus.IN_PROGRESS and len(mine) == vertex.parallelism:
        return CheckpointStatus.COMPLETED.value
    return record.status.value


def _type(kind: CheckpointKind) -> str:
    if kind is CheckpointKind.STOP_SAVEPOINT:
        return "SYNC_SAVEPOINT"
    return "SAVEPOINT" if kind.is_savepoint else "CHECKPOINT"


def _last(records: Sequence[SubtaskRecord]) -> int:
    return max((each.acknowledged_at for each in records), default=-1)


def _size(records: Sequence[SubtaskRecord]) -> int:
    return sum(each.state_size for each in records)


def _took(record: CheckpointRecord, done: SubtaskRecord) -> int:
    return max(0, done.acknowledged_at - record.trigger_time)


def _start_delay(record: CheckpointRecord, done: SubtaskRecord) -> int:
    """Return how long the first barrier took to arrive: all time except that of alignment and snapshot; in milliseconds."""
    return max(0, _took(record, done) - round(done.alignment_ms) - round(done.snapshot_ms))


def _duration(record: CheckpointRecord, now: int) -> int:
    return max(0, now - record.trigger_time) if record.duration is None else record.duration


def _discarded(view: JobView, record: CheckpointRecord) -> bool:
    """Return whether a completed checkpoint has been removed, because newer ones have replaced it."""
    if record.kind.is_savepoint:
        return False
    newer = [
        other
        for other in view.checkpoints.history
        if other.status is CheckpointStatus.COMPLETED
        and not other.kind.is_savepoint
        and other.checkpoint_id > record.checkpoint_id
    ]
    return len(newer) >= view.setup.checkpoints.num_retained


def _restored(view: JobView) -> answers.Restored | None:
    restored = view.checkpoints.restored
    if restored is None:
        return None
    return answers.Restored(
        id=restored.checkpoint_id,
        restore_timestamp=restored.restored_at,
        is_savepoint=restored.is_savepoint,
        external_path=restored.external_path,
    )

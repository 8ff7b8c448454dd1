"""Answers about the checkpoints of a job.

All barriers are aligned, so nothing is buffered or persisted in flight; the amounts of data processed during alignment are not
counted and shown as 0, as Flink does where it has no figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET

from flinkish.checkpoint.checkpoint_settings import JobEnd, Retention, deletes_checkpoints
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.statistics import CheckpointRecord, CheckpointStatus, SubtaskRecord
from flinkish.common import options
from flinkish.graph.job_graph import JobVertex
from flinkish.server.answers import checkpoints as answers
from flinkish.server.views.job_view import JobView, rest_id

#: Flink's Long.MAX_VALUE, its interval of a job without periodic checkpoints.
_NEVER = 2**63 - 1


def checkpoints(view: JobView) -> answers.Checkpoints:
    """Return /jobs/:jobid/checkpoints."""
    figures = view.checkpoints
    completed = [record for record in figures.history if record.status is CheckpointStatus.COMPLETED]
    nothing = statistics([0 for _ in completed])
    latest = [record for record in (*completed, figures.latest_completed) if record is not None and not record.kind.is_savepoint]
    return answers.Checkpoints(
        counts=answers.Counts(
            restored=figures.counts.restored,
            total=figures.counts.triggered,
            in_progress=figures.counts.in_progress,
            completed=figures.counts.completed,
            failed=figures.counts.failed,
        ),
        summary=answers.Summary(
            checkpointed_size=statistics([record.checkpointed_size for record in completed]),
            state_size=statistics([record.state_size for record in completed]),
            end_to_end_duration=statistics([record.duration or 0 for record in completed]),
            alignment_buffered=nothing,
            processed_data=nothing,
            persisted_data=nothing,
        ),
        latest=answers.Latest(
            completed=checkpoint(view, latest[0]) if latest else None,
            savepoint=None if figures.latest_savepoint is None else checkpoint(view, figures.latest_savepoint),
            failed=None if figures.latest_failed is None else checkpoint(view, figures.latest_failed),
            restored=_restored(view),
        ),
        history=tuple(checkpoint(view, record) for record in figures.history),
    )


def checkpoint(view: JobView, record: CheckpointRecord, *, details: bool = False) -> answers.Checkpoint:
    """Return one checkpoint; with `details`, also its part of each vertex."""
    completed, failed = record.status is CheckpointStatus.COMPLETED, record.status is CheckpointStatus.FAILED
    lasted = max(0, view.now - record.trigger_time) if record.duration is None else record.duration
    return answers.Checkpoint(
        **_progress(record, record.acknowledgements, record.subtasks) | {"end_to_end_duration": lasted},
        className=record.status.value.lower(),  # type: ignore[arg-type]
        is_savepoint=record.kind.is_savepoint,
        savepointFormat="CANONICAL" if record.kind.is_savepoint else None,
        trigger_timestamp=record.trigger_time,
        checkpoint_type=_type(record.kind),
        tasks={rest_id(vertex): part(record, vertex) for vertex in view.vertices.values()} if details else {},
        external_path=(record.external_path or "<checkpoint-not-externally-addressable>") if completed else UNSET,
        discarded=_discarded(view, record) if completed else UNSET,
        failure_timestamp=(record.failed_at or -1) if failed else UNSET,
        failure_message=record.failure if failed else UNSET,
    )


def part(record: CheckpointRecord, vertex: JobVertex) -> answers.VertexCheckpoint:
    mine = [each for each in record.acknowledgements if each.vertex == vertex.id]
    progress = _progress(record, mine, vertex.parallelism)
    if record.status is CheckpointStatus.IN_PROGRESS and len(mine) == vertex.parallelism:
        progress["status"] = CheckpointStatus.COMPLETED.value
    return answers.VertexCheckpoint(**progress)


def _progress(record: CheckpointRecord, done: Sequence[SubtaskRecord], subtasks: int) -> dict[str, Any]:
    """Return the figures of a checkpoint or of its part of a vertex, of whose subtasks some have acknowledged it."""
    return {
        "id": record.checkpoint_id,
        "status": record.status.value,
        "latest_ack_timestamp": max((each.acknowledged_at for each in done), default=-1),
        "checkpointed_size": sum(each.checkpointed_size for each in done),
        "state_size": sum(each.state_size for each in done),
        "end_to_end_duration": max((_took(record, each) for each in done), default=-1),
        "num_subtasks": subtasks,
        "num_acknowledged_subtasks": len(done),
    }


def vertex_details(record: CheckpointRecord, vertex: JobVertex) -> answers.VertexCheckpointDetails:
    """Return a vertex's part of a checkpoint, and the parts of its subtasks."""
    mine = {each.subtask: each for each in record.acknowledgements if each.vertex == vertex.id}
    nothing = statistics([0 for _ in mine])
    return answers.VertexCheckpointDetails(
        **msgspec.structs.asdict(part(record, vertex)),
        summary=answers.SubtaskSummary(
            checkpointed_size=statistics([each.checkpointed_size for each in mine.values()]),
            state_size=statistics([each.state_size for each in mine.values()]),
            end_to_end_duration=statistics([_took(record, each) for each in mine.values()]),
            checkpoint_duration=answers.SnapshotDuration(
                sync=statistics([round(each.snapshot_ms) for each in mine.values()]),
                asynchronous=statistics([round(each.upload_ms) for each in mine.values()]),
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
        checkpoint_storage="FileSystemCheckpointStorage" if kept else "JobManagerCheckpointStorage",
        tolerable_failed_checkpoints=settings.tolerable_failures,
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
        checkpointed_size=done.checkpointed_size,
        state_size=done.state_size,
        checkpoint=answers.SnapshotDuration(sync=round(done.snapshot_ms), asynchronous=round(done.upload_ms)),
        alignment=answers.Alignment(buffered=0, processed=0, persisted=0, duration=round(done.alignment_ms)),
        start_delay=_start_delay(record, done),
        unaligned_checkpoint=False,
        aborted=False,
    )


def _type(kind: CheckpointKind) -> str:
    if kind is CheckpointKind.STOP_SAVEPOINT:
        return "SYNC_SAVEPOINT"
    return "SAVEPOINT" if kind.is_savepoint else "CHECKPOINT"


def _took(record: CheckpointRecord, done: SubtaskRecord) -> int:
    return max(0, done.acknowledged_at - record.trigger_time)


def _start_delay(record: CheckpointRecord, done: SubtaskRecord) -> int:
    """Return how long the first barrier took to arrive: all time except alignment, snapshot and upload; in milliseconds."""
    return max(0, _took(record, done) - round(done.alignment_ms + done.snapshot_ms + done.upload_ms))


def _discarded(view: JobView, record: CheckpointRecord) -> bool:
    """Return whether a completed checkpoint has been removed, because newer ones have replaced it."""
    if record.kind.is_savepoint:
        return False
    completed = [other for other in view.checkpoints.history if other.status is CheckpointStatus.COMPLETED]
    newer = sum(not other.kind.is_savepoint and other.checkpoint_id > record.checkpoint_id for other in completed)
    return newer >= view.setup.checkpoints.num_retained


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

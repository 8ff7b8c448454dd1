"""Writes sentences about a job for the user: pure functions."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from flinkish.checkpoint.statistics import CheckpointFigures
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common import options
from flinkish.common.job_status import JobStatus
from flinkish.graph.stream_graph_generator import is_endless
from flinkish.jobmaster.event_time import EventTime
from flinkish.jobmaster.exception_history import FailureRecord
from flinkish.jobmaster.job_metrics import JobFigures
from flinkish.jobmaster.setup import JobSetup
from flinkish.runtime.protocol import MAX_WATERMARK, MIN_WATERMARK

#: The progress line mentions an epoch that has taken longer than this.
_LONG_EPOCH_MS = 10_000
#: If event time is further from the clock than this, the input is an old recording, and its lag has no meaning.
_NEAR_MS = 24 * 3_600_000
#: Maximum number of subtasks that are named.
_NAMED = 3


def starts(setup: JobSetup, restored: StoredCheckpoint | None) -> str:
    """Return the sentence for a starting job: its id, what it starts from (and not from), and where its checkpoints are."""
    text = f"Job {setup.job_name!r} ({setup.job_id}) starts"
    if restored is not None:
        text += f" from {_checkpoint(restored)}"
        path = setup.configuration.get(options.SAVEPOINT_PATH)
        if path is not None and restored.manifest.job_id == setup.job_id:
            text += f"; {options.SAVEPOINT_PATH.key} = {path} has no effect, as the job goes on from its own last checkpoint"
    directory = setup.configuration.get(options.CHECKPOINTS_DIRECTORY)
    if setup.checkpointing and directory is not None:
        text += f"; its checkpoints: {directory.rstrip('/')}/{setup.job_id}"
    elif setup.checkpointing:
        text += f"; its checkpoints end with it, as {options.CHECKPOINTS_DIRECTORY.key} is not set"
    return text + "."


def suspended(setup: JobSetup, why: str, latest: StoredCheckpoint | None) -> str:
    """Return the sentence for a job that was stopped from outside: from where it will resume.

    `why` is a clause. `latest` is the checkpoint that an attempt would start from now: one of this job, or the one that the job
    was started from.
    """
    job = f"Job {setup.job_name!r} ({setup.job_id})"
    own = latest is not None and latest.manifest.job_id == setup.job_id
    outlives = setup.configuration.contains(options.CHECKPOINTS_DIRECTORY)
    if setup.checkpointing and outlives and latest is not None and own:
        if setup.configuration.contains(options.HA_CLUSTER_ID):
            return f"{job} is suspended at checkpoint {latest.checkpoint_id}, as {why}; start it again to go on."
        return (
            f"{job} is suspended at checkpoint {latest.checkpoint_id}, as {why}; to go on, start it again with "
            f"{options.SAVEPOINT_PATH.key} = {latest.external_path} (flinkish run -s PATH)."
        )
    if not setup.checkpointing:
        lost = "it takes no checkpoints"
    elif not outlives:
        lost = f"its checkpoints ended with it, as {options.CHECKPOINTS_DIRECTORY.key} is not set"
    else:
        lost = "it had not completed a checkpoint"
    began = setup.configuration.get(options.SAVEPOINT_PATH)
    origin = "the start" if began is None else began
    return f"{job} has ended, as {why}; {lost}: started again, it begins from {origin}."


def suspended_unread(setup: JobSetup, why: str, error: BaseException) -> str:
    """Return the sentence for a job that was stopped from outside and whose last checkpoint could not be read."""
    return f"Job {setup.job_name!r} ({setup.job_id}) is suspended, as {why}; its last checkpoint could not be read: {error}"


def progress(
    setup: JobSetup,
    status: JobStatus,
    figures: JobFigures,
    event_time: EventTime | None,
    checkpoints: CheckpointFigures,
    *,
    busy: Sequence[str] = (),
    committing: str | None = None,
    last_failure: FailureRecord | None = None,
    before: JobFigures | None,
    elapsed: int,
    wall: int,
    now: int,
) -> str:
    """Return the progress line of a job.

    `busy` are the operators that the running epoch is in, and `committing` is a clause about the commit that runs; both explain
    better than event time why nothing moves. `before` has the figures of `elapsed` milliseconds ago; `wall` and `now` are the
    times of the wall clock and the monotonic clock.
    """
    read = figures.records_read - (0 if before is None else before.records_read)
    rate = f"{round(read * 1000 / elapsed):,}/s" if elapsed > 0 else "0/s"
    parts = [f"{figures.records_read:,} records in ({rate}), {figures.records_written:,} out"]
    epoch_ms = 0 if figures.epoch_began is None else now - figures.epoch_began
    stuck = committing is not None or (busy and epoch_ms > _LONG_EPOCH_MS)
    if event_time is not None:
        parts.append(_event_time(event_time, wall, with_holder=not stuck))
    if setup.checkpointing:
        parts.append(_last_checkpoint(checkpoints, wall))
    if committing is not None:
        parts.append(committing)
    elif status is not JobStatus.RUNNING:
        parts.append(f"status {status.name}")
    elif figures.epochs == 0 and not stuck:
        parts.append("its tasks are starting")
    elif epoch_ms > _LONG_EPOCH_MS:
        where = f", in {', '.join(map(repr, busy))}" if busy else ""
        parts.append(f"this epoch has taken {duration(epoch_ms)} so far{where}")
    if figures.restarts:
        parts.append(f"{figures.restarts} restart{'' if figures.restarts == 1 else 's'}")
        since = restarting(last_failure, wall)
        if last_failure is not None and since is not None:
            parts.append(f"{since}, after {last_failure.line}")
    return f"Job {setup.job_name!r}: {'; '.join(parts)}."


def late(setup: JobSetup, figures: JobFigures) -> str | None:
    """Return the sentence about records that were dropped as too late, with what to do; None if there are none.

    Records in a late side output or in dead letters are not dropped.
    """
    dropping = [vertex for vertex in figures.vertices if vertex.late_records]
    if not dropping or setup.keeps_dead_letters:
        return None
    vertices = setup.plan.job_graph.vertices
    heads = [(vertices[vertex.vertex].head, vertex) for vertex in dropping]
    where = "; ".join(
        f"{vertex.late_records:,} of {vertex.late_of:,} at {head.name!r} (uid {head.uid})" for head, vertex in heads
    )
    nodes = [node for vertex in vertices.values() for node in vertex.operators]
    batch = "" if any(map(is_endless, nodes)) else ", or, as all input ends, run the job with execution.runtime-mode BATCH"
    return (
        f"Job {setup.job_name!r} dropped records because they were too late: {where}.\n"
        "Hint: allow more out-of-orderness in the WatermarkStrategy, allow lateness, take late records by "
        f"side_output_late_data() or {options.DEAD_LETTERS_DIR.key}{batch}."
    )


def restarting(last: FailureRecord | None, wall: int) -> str | None:
    """Return since when a job fails again and again; None if it does not. `wall` is the time of the wall clock."""
    since = None if last is None else last.restarting_since(wall)
    return None if since is None else f"restarting since {_moment(since)}"


def duration(milliseconds: int) -> str:
    """Return a readable duration in the largest unit that fits at least twice: "90 s", "2 min", "3 h", "4 d"."""
    seconds = max(0, milliseconds) // 1000
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _event_time(event_time: EventTime, wall: int, *, with_holder: bool) -> str:
    holder = repr(event_time.operator)
    if len(event_time.subtasks) < event_time.parallelism:
        named = ", ".join(str(subtask + 1) for subtask in event_time.subtasks[:_NAMED])
        more = ", ..." if len(event_time.subtasks) > _NAMED else ""
        holder += f" (subtask {named}{more} of {event_time.parallelism})"
    if event_time.watermark == MAX_WATERMARK:
        return "all input has ended"
    if event_time.watermark == MIN_WATERMARK:
        return f"no watermark yet, waiting for {holder}" if with_holder else "no watermark yet"
    watermark = f"watermark {_time(event_time.watermark, wall)}"
    return f"{watermark}, held back by {holder}" if with_holder else watermark


def _time(timestamp: int, wall: int) -> str:
    behind = wall - timestamp
    text = _moment(timestamp)
    return f"{text} ({duration(behind)} behind)" if 0 <= behind < _NEAR_MS else text


def _moment(timestamp: int) -> str:
    try:
        moment = datetime.datetime.fromtimestamp(timestamp / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{timestamp % 1000:03d} UTC"


def _last_checkpoint(checkpoints: CheckpointFigures, wall: int) -> str:
    latest, failed = checkpoints.latest_completed, checkpoints.latest_failed
    text = "no checkpoint yet"
    if latest is not None:
        kind = "savepoint" if latest.kind.is_savepoint else "checkpoint"
        ago = duration(wall - latest.trigger_time - (latest.duration or 0))
        text = f"last {kind} {latest.checkpoint_id} ({ago} ago)"
    if failed is not None and (latest is None or failed.checkpoint_id > latest.checkpoint_id):
        text += f", checkpoint {failed.checkpoint_id} failed: {failed.failure}"
    return text


def _checkpoint(checkpoint: StoredCheckpoint) -> str:
    if checkpoint.manifest.kind.is_savepoint:
        return f"savepoint {checkpoint.external_path}"
    return f"checkpoint {checkpoint.checkpoint_id} ({checkpoint.external_path})"

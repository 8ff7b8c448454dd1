"""The checkpoint coordinator: carries out the decisions about checkpoints.

request_decider.py decides what may start, pending.py records who has acknowledged, and failure_manager.py decides what a failure
means. This module connects them with the clock, the storage and the JobMaster.

The JobMaster calls `begin_attempt` once the tasks of an attempt run. Before an epoch it calls `expire_overdue`, waits at most
until `next_trigger_time`, and puts the barrier of `trigger_if_due` and the notices of `take_notifications` into the command.
After each epoch it passes on acknowledgements, declines and which subtasks still write; these may be about barriers of earlier
epochs. It passes its own part of a checkpoint when only that is missing. The call that brings the last missing part commits, and
calls `listener.checkpoint_completed`.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future
from dataclasses import InitVar, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, assert_never

from flinkish.checkpoint import request_decider
from flinkish.checkpoint.checkpoint_settings import CheckpointSettings, JobEnd, deletes_checkpoints
from flinkish.checkpoint.failure_manager import CheckpointFailureManager, FailJob, Failure, FailureReason, Ignore, Tolerate
from flinkish.checkpoint.manifest import CheckpointKind, Committable, CoordinatorState
from flinkish.checkpoint.pending import AckResult, PendingCheckpoint, Subtask, Uncommitted
from flinkish.checkpoint.request_decider import Request, Start, Wait
from flinkish.checkpoint.statistics import CheckpointFigures, CheckpointRecord, CheckpointStatistics, CheckpointStatus
from flinkish.checkpoint.storage import CheckpointDraft, CheckpointLocation, StoredCheckpoint
from flinkish.common.clock import Clock
from flinkish.common.closing import raised_by
from flinkish.common.errors import (
    CheckpointError,
    CommitOutcomeUnknownError,
    ConfigurationError,
    InvalidArgumentError,
    StaleGenerationError,
)
from flinkish.common.ids import CheckpointId
from flinkish.runtime import faults
from flinkish.runtime.protocol import Acknowledgement, Barrier, CheckpointPart, Decline

if TYPE_CHECKING:
    from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage
    from flinkish.checkpoint.history import JobHistory

_log = logging.getLogger(__name__)

#: Maximum number of missing acknowledgements that a message names.
_NAMED = 5
#: Number of aborted checkpoints whose late acknowledgements are recognized; the clean-up removes the files of even later ones.
_REMEMBERED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """A checkpoint that starts with the next epoch."""

    barrier: Barrier
    kind: CheckpointKind
    #: The value for EpochCommand.drain: whether all sources end before the barrier.
    drain: bool


class Notifications(NamedTuple):
    """The notifications for tasks in the next command; EpochCommand has fields of the same names."""

    completed_checkpoints: tuple[CheckpointId, ...]
    aborted_checkpoints: tuple[CheckpointId, ...]


class CoordinatorListener(Protocol):
    """The job, as the coordinator sees it (jobmaster/checkpointing.py). No call is made while the coordinator's lock is held."""

    def checkpoint_completed(self, checkpoint: StoredCheckpoint) -> None:
        """Commit `checkpoint.manifest.committables` and notify the enumerators; the id is in `take_notifications()` by itself.

        Called once for each recovery point (not for a savepoint of a job that continues), in the order of ids, in the thread that
        delivered the last part. That thread's `receive_...` call raises the errors; the checkpoint stays completed.
        """

    def stop_failed(self, checkpoint: StoredCheckpoint) -> str:
        """Learn, after `checkpoint_completed`, that the job does not stop with this checkpoint after all.

        The reason is that its savepoint could not be written. Returns a clause for the requester that says how the job continues.
        """

    def fail_job(self, error: CheckpointError) -> None:
        """Fail the attempt. A StaleGenerationError must end this driver process's work for good, without any restart."""

    def wake_up(self) -> None:
        """Check `next_trigger_time()` again, because a request has arrived from another thread."""


class _Outbox(threading.local):
    """Calls that a thread has caused and makes itself after releasing the lock."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []


@dataclass(kw_only=True, eq=False)
class CheckpointCoordinator:
    """Takes the checkpoints of one job, over all its attempts in this process.

    Thread-safe. The JobMaster's thread delivers the messages of tasks; any thread may request savepoints.
    """

    job_id: str
    settings: CheckpointSettings
    #: Claimed; None = the job may get one later (`open`).
    storage: InitVar[DeltaCheckpointStorage | None]
    clock: Clock
    listener: CoordinatorListener
    history: JobHistory | None = None

    def __post_init__(self, storage: DeltaCheckpointStorage | None) -> None:
        self._lock = threading.RLock()
        self._failures = CheckpointFailureManager(self.settings.tolerable_failures)
        self._statistics = CheckpointStatistics(self.settings.history)
        self._pending: dict[CheckpointId, PendingCheckpoint] = {}
        self._queue: tuple[Request, ...] = ()
        self._futures: dict[int, Future[StoredCheckpoint]] = {}
        self._sequence = 0
        self._last_id = CheckpointId(0)
        self._subtasks: frozenset[Subtask] | None = None
        self._next_due: int | None = None
        self._last_completion: int | None = None
        self._stopping = False
        self._shut_down = False
        self._uncommitted = Uncommitted()
        # Locations of the latest aborted checkpoints, for acknowledgements that arrive too late.
        self._aborted_locations: dict[CheckpointId, CheckpointLocation] = {}
        self._completed_notices: list[CheckpointId] = []
        self._aborted_notices: list[CheckpointId] = []
        self._outbox = _Outbox()
        self._opened: DeltaCheckpointStorage | None = None
        if storage is not None:
            self.open(storage)

    def open(self, storage: DeltaCheckpointStorage) -> None:
        """Use a storage, which must have been claimed, from now on. Checkpoint ids continue after the highest in it."""
        with self._lock:
            self._opened = storage
            self._last_id = max(self._last_id, storage.last_id)

    @property
    def _storage(self) -> DeltaCheckpointStorage:
        assert self._opened is not None, "only a job with a storage triggers checkpoints"
        return self._opened

    @property
    def last_id(self) -> CheckpointId | None:
        """The id of the last checkpoint that was begun; the next one has the id after it. None = there is no storage."""
        return None if self._opened is None else self._last_id

    @contextlib.contextmanager
    def _section(self) -> Iterator[None]:
        """Hold the lock, then make the calls that are due, oldest first; an error is raised after all calls were made."""
        with self._lock:
            yield
        first: BaseException | None = None
        while self._outbox.calls:
            error = raised_by(self._outbox.calls.pop(0))
            first = first or error
        if first is not None:
            raise first

    # -- attempts ----------------------------------------------------------------------------------------------------------

    def begin_attempt(self, subtasks: Collection[Subtask], *, restored: CheckpointId | None = None) -> None:
        """Start triggering: the given subtasks run now, and each must acknowledge every checkpoint.

        `restored` is the checkpoint that the attempt started from. The first periodic checkpoint is due one interval from now.
        """
        if not subtasks:
            raise InvalidArgumentError("begin_attempt needs the subtasks of the job, got none")
        with self._section():
            self._require_running_coordinator()
            self._abandon(FailureReason.JOB_FAILED)
            self._last_id = max(self._last_id, restored or self._last_id)
            self._subtasks = frozenset(subtasks)
            self._uncommitted.clear()
            self._forget_notices()
            self._failures.restarted()
            self._stopping = False
            if restored is not None:
                self._statistics.restored()
            interval = self.settings.effective_interval
            self._next_due = None if interval is None else self.clock.monotonic() + interval

    def end_attempt(self, reason: FailureReason = FailureReason.JOB_FAILED) -> None:
        """Stop triggering and abort everything in progress, because the tasks no longer run."""
        with self._section():
            self._abandon(reason)
            self._subtasks = self._next_due = None
            self._forget_notices()

    def shutdown(self, end: JobEnd, *, keep: bool = False) -> None:
        """End for good; deletes the job's checkpoints if the retention demands it, unless `keep`. A second call does nothing."""
        with self._section():
            if self._shut_down:
                return
            self._abandon(FailureReason.JOB_ENDED)
            self._shut_down = True
            self._subtasks = self._next_due = None
            if not keep and self._opened is not None and deletes_checkpoints(self.settings.retention, end):
                self._storage.delete_all()

    # -- triggering --------------------------------------------------------------------------------------------------------

    def next_trigger_time(self) -> int | None:
        """Return when to call `trigger_if_due` or `expire_overdue` next, in monotonic ms; at once if past; None = no need."""
        with self._lock:
            now = self.clock.monotonic()
            times = [pending.deadline for pending in self._pending.values()]
            if self._subtasks is not None and not self._stopping:
                match self._choose(now):
                    case Start():
                        times.append(now)
                    case Wait(until=until):
                        if until is not None:
                            times.append(until)
                if self._next_due is not None and not self._periodic_waits():
                    times.append(self._next_due)
            return min(times, default=None)

    def trigger_if_due(self) -> Trigger | None:
        """Start a checkpoint if one is due and allowed; its barrier must go into the very next command.

        For more checkpoints, call it again in the next epoch: a command has at most one barrier.
        """
        with self._section():
            if self._subtasks is not None and not self._stopping and not self._shut_down:
                now = self.clock.monotonic()
                self._enqueue_periodic(now)
                match self._choose(now):
                    case Start(request=request):
                        self._queue = tuple(waiting for waiting in self._queue if waiting != request)
                        return self._start(request)
                    case Wait():
                        pass
                    case unexpected:
                        assert_never(unexpected)
        return None

    def bring_forward(self) -> None:
        """Make the next periodic checkpoint due now; `trigger_if_due` starts it, if the limits allow that."""
        with self._lock:
            if self._next_due is not None:
                self._next_due = min(self._next_due, self.clock.monotonic())

    def trigger_final(self) -> Trigger | None:
        """Start the final checkpoint of a bounded job whose input has ended; None if it could not start (counts as a failure)."""
        with self._section():
            self._require_running_coordinator()
            if self._subtasks is None:
                raise CheckpointError("the last checkpoint cannot be triggered: no attempt is running")
            return self._start(self._new_request(CheckpointKind.FINAL))

    def trigger_checkpoint(self, *, full: bool = False) -> Future[StoredCheckpoint]:
        """Request a checkpoint independently of the interval and the pause; may be called from any thread.

        With `full`, it contains no files of earlier ones, also if checkpoints are incremental; later ones may be based on it.
        If the checkpoint does not complete, the future fails with a CheckpointError that has the FailureReason's sentence.
        """
        return self._ask(CheckpointKind.REQUESTED, full=full)

    def trigger_savepoint(
        self, directory: str | None = None, *, stop: bool = False, drain: bool = False
    ) -> Future[StoredCheckpoint]:
        """Request a savepoint below `directory` (default: execution.checkpointing.savepoint-dir); callable from any thread.

        With `stop`, the job ends when the future has a result; with `drain`, its sources end before, so that timers and windows
        fire. If the stop fails, the future fails and the job continues. But a job with `drain` whose barrier has been sent is
        restarted from its last checkpoint (`listener.fail_job`), or ends if only the copy failed (`listener.stop_failed`).
        `result().root` is the path of the savepoint.
        """
        if drain and not stop:
            raise InvalidArgumentError("drain=True is only possible with stop=True: input that was ended cannot go on")
        target = directory or self.settings.savepoint_directory
        if not target:
            raise ConfigurationError(
                "a savepoint needs a folder to be written to",
                hint="pass a directory or set execution.checkpointing.savepoint-dir.",
            )
        return self._ask(CheckpointKind.STOP_SAVEPOINT if stop else CheckpointKind.SAVEPOINT, target=target, drain=drain)

    # -- messages of the tasks ---------------------------------------------------------------------------------------------

    def receive_acknowledgement(self, ack: Acknowledgement) -> None:
        """Take a subtask's part of a checkpoint. Never raises for an unknown checkpoint or subtask.

        If this was the last missing part, it raises the errors of `listener.checkpoint_completed`.
        """
        with self._section():
            self._take_committables(ack)
            pending = self._pending.get(ack.checkpoint_id)
            if pending is None:
                self._discard_late(ack)
                return
            result = pending.acknowledge(ack, self.clock.wall_time())
            if result is AckResult.SUCCESS:
                self._statistics.progressed(pending.checkpoint_id, pending.records)
                self._complete_if_ready(pending)
            elif result is AckResult.UNKNOWN:
                self._storage.discard_files(pending.location, ack.files)

    def receive_decline(self, decline: Decline) -> None:
        """Abort a checkpoint that a subtask could not take, if it is in progress."""
        with self._section():
            self._take_committables(decline)
            pending = self._pending.get(decline.checkpoint_id)
            if pending is not None:
                detail = f"subtask {decline.subtask} of vertex {decline.vertex}: {decline.reason}"
                self._abort(pending, FailureReason.DECLINED, detail)

    def receive_uploading(self, parts: Collection[CheckpointPart]) -> None:
        """Learn which subtasks still write their parts of checkpoints, after the acknowledgements and declines of an epoch.

        A checkpoint is aborted if a part is missing that no subtask writes: the process that wrote it has ended.
        """
        with self._section():
            for part in parts:
                self._take_committables(part)
            written = {(part.checkpoint_id, Subtask(part.vertex, part.subtask)) for part in parts}
            for pending in list(self._pending.values()):
                lost = sorted(subtask for subtask in pending.missing if (pending.checkpoint_id, subtask) not in written)
                if lost:
                    detail = f"subtask {lost[0].subtask} of vertex {lost[0].vertex}"
                    self._abort(pending, FailureReason.SNAPSHOT_LOST, detail)

    def acknowledged(self) -> tuple[CheckpointId, ...]:
        """Return the checkpoints in progress that all subtasks have acknowledged, so that only the driver's part is missing."""
        with self._lock:
            return tuple(sorted(pending.checkpoint_id for pending in self._pending.values() if not pending.missing))

    def receive_coordinator_state(self, checkpoint_id: CheckpointId, state: CoordinatorState) -> None:
        """Take the driver's part of a checkpoint, if it is in progress. Raises like `receive_acknowledgement`."""
        with self._section():
            pending = self._pending.get(checkpoint_id)
            if pending is not None and pending.set_coordinator_state(state):
                self._complete_if_ready(pending)

    def coordinator_state_failed(self, checkpoint_id: CheckpointId, error: BaseException) -> None:
        """Abort a checkpoint because the driver's part of it, such as an enumerator's snapshot, raised an error."""
        with self._section():
            pending = self._pending.get(checkpoint_id)
            if pending is not None:
                self._abort(pending, FailureReason.SNAPSHOT_FAILED, f"on the driver: {_text(error)}")

    def expire_overdue(self) -> None:
        """Abort the checkpoints whose timeout has passed; may be called from any thread."""
        with self._section():
            now = self.clock.monotonic()
            for pending in [each for each in self._pending.values() if each.deadline <= now]:
                missing = sorted(pending.missing)
                names = ", ".join(f"vertex {task.vertex} subtask {task.subtask}" for task in missing[:_NAMED])
                more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
                detail = f"after {self.settings.timeout} ms; not acknowledged by: {names or 'the driver itself'}{more}"
                self._abort(pending, FailureReason.EXPIRED, detail)

    def check_generation(self) -> None:
        """Check now whether another driver has taken over the job, instead of when the next checkpoint is refused."""
        with self._section():
            if self._opened is not None and not self._shut_down:
                self._find_superseded()

    def take_notifications(self) -> Notifications:
        """Return the ids that tasks have not been notified of, and forget them."""
        with self._lock:
            notices = Notifications(tuple(self._completed_notices), tuple(self._aborted_notices))
            self._forget_notices()
            return notices

    def uncommitted(self) -> tuple[Committable, ...]:
        """Return the committables of savepoints and aborted checkpoints that no completed recovery point contains."""
        with self._lock:
            return self._uncommitted.up_to()

    # -- figures -----------------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> tuple[CheckpointId, ...]:
        """The ids of the checkpoints in progress."""
        with self._lock:
            return tuple(self._pending)

    def figures(self) -> CheckpointFigures:
        """Return the current figures, for people; may be called from any thread."""
        with self._lock:
            return self._statistics.figures()

    def latest(self) -> StoredCheckpoint | None:
        """Return the checkpoint from which a new attempt of this job must start; None if none has completed."""
        with self._lock:
            return None if self._opened is None else self._opened.latest()

    # -- inside, with the lock held ----------------------------------------------------------------------------------------

    def _forget_notices(self) -> None:
        self._completed_notices.clear()
        self._aborted_notices.clear()

    def _take_committables(self, part: CheckpointPart) -> None:
        """Keep what the writers of a subtask have prepared, unless the job has no such subtask."""
        subtask = Subtask(part.vertex, part.subtask)
        if self._subtasks is not None and subtask in self._subtasks:
            self._uncommitted.take(part, subtask)

    def _require_running_coordinator(self) -> None:
        if self._shut_down:
            raise CheckpointError("the checkpoint coordinator was shut down: the job has ended")

    def _new_request(self, kind: CheckpointKind, **more: Any) -> Request:
        self._sequence += 1
        return Request(sequence=self._sequence, kind=kind, requested_at=self.clock.monotonic(), **more)

    def _ask(self, kind: CheckpointKind, **more: Any) -> Future[StoredCheckpoint]:
        future: Future[StoredCheckpoint] = Future()
        future.set_running_or_notify_cancel()  # not cancellable, because a barrier that was sent cannot be taken back
        with self._section():
            request = self._new_request(kind, **more)
            self._futures[request.sequence] = future
            if self._shut_down or self._stopping:
                self._refuse(request, FailureReason.TRIGGERING_STOPPED)
            elif self._subtasks is None:
                self._refuse(request, FailureReason.TASKS_NOT_RUNNING)
            else:
                self._admit(request)
                self._outbox.calls.append(self.listener.wake_up)
        return future

    def _admit(self, request: Request) -> None:
        admission = request_decider.admit(self._queue, request, self.settings)
        self._queue = admission.queue
        if admission.dropped is not None:
            self._refuse(admission.dropped, FailureReason.TOO_MANY_REQUESTS)

    def _periodic_waits(self) -> bool:
        return any(request.kind is CheckpointKind.PERIODIC for request in self._queue)

    def _enqueue_periodic(self, now: int) -> None:
        interval = self.settings.effective_interval
        if self._next_due is None or interval is None or now < self._next_due:
            return
        if not self._periodic_waits():
            self._admit(self._new_request(CheckpointKind.PERIODIC))
        # at a fixed rate; missed checkpoints are skipped
        self._next_due += interval
        if self._next_due <= now:
            self._next_due = now + interval

    def _choose(self, now: int) -> request_decider.Decision:
        return request_decider.choose(
            self._queue, pending=len(self._pending), now=now, last_completion=self._last_completion, settings=self.settings
        )

    def _start(self, request: Request) -> Trigger | None:
        assert self._subtasks is not None
        checkpoint_id = CheckpointId(self._last_id + 1)
        target = request.target if request.kind is CheckpointKind.SAVEPOINT else None
        # The id counts as used even if the location cannot be prepared, because parts of it may exist under this id.
        self._last_id = checkpoint_id
        export: str | None = None
        try:
            if request.kind is CheckpointKind.STOP_SAVEPOINT:
                # Done before the barrier is sent, so that a folder that cannot be written does not affect the job.
                assert request.target is not None
                export = self._storage.prepare_export(request.target)
            location = self._storage.prepare(checkpoint_id, target)
        except StaleGenerationError as error:
            self._discard_export(export)
            self._refuse(request, FailureReason.SUPERSEDED_DRIVER, _text(error))
            self._superseded(error)
            return None
        except Exception as error:  # includes ConfigurationError for the folder of a savepoint
            self._discard_export(export)
            self._refuse(request, FailureReason.IO_ERROR, _text(error))
            return None
        now = self.clock.monotonic()
        pending = PendingCheckpoint(
            checkpoint_id=checkpoint_id,
            request=request.sequence,
            kind=request.kind,
            location=location,
            trigger_time=self.clock.wall_time(),
            started=now,
            deadline=now + self.settings.timeout,
            expected=self._subtasks,
            export=export,
            drain=request.drain,
        )
        self._pending[checkpoint_id] = pending
        self._stopping = self._stopping or request.kind in (CheckpointKind.STOP_SAVEPOINT, CheckpointKind.FINAL)
        self._statistics.triggered(self._record(pending, CheckpointStatus.IN_PROGRESS))
        _log.debug("Triggered %s checkpoint %d of job %s.", request.kind.value, checkpoint_id, self.job_id)
        barrier = Barrier(
            checkpoint_id=checkpoint_id,
            timestamp=pending.trigger_time,
            directory=location.directory,
            root=location.root,
            # Nothing may be processed between the barrier and the end of a job. A job without periodic checkpoints may end at any
            # time, without another one that would be written after this one.
            waits=self._stopping or self.settings.interval is None or not self.settings.asynchronous,
            # Savepoints can be moved, so they have files of their own.
            incremental=self.settings.incremental and not request.kind.is_savepoint,
            base=None if request.full else location.base,
        )
        return Trigger(barrier=barrier, kind=request.kind, drain=request.drain)

    def _discard_late(self, ack: Acknowledgement) -> None:
        location = self._aborted_locations.get(ack.checkpoint_id)
        if location is not None:
            self._storage.discard_files(location, ack.files)
        _log.info(
            "Ignored the acknowledgement of checkpoint %d by vertex %d subtask %d of job %s: it is not in progress.",
            ack.checkpoint_id, ack.vertex, ack.subtask, self.job_id,
        )  # fmt: skip

    def _complete_if_ready(self, pending: PendingCheckpoint) -> None:
        if not pending.is_complete:
            return
        assert pending.coordinator_state is not None
        faults.reach(faults.Point.ALL_ACKNOWLEDGED)
        draft = CheckpointDraft(
            checkpoint_id=pending.checkpoint_id,
            kind=pending.kind,
            trigger_time=pending.trigger_time,
            location=pending.location,
            coordinator=pending.coordinator_state,
            files=pending.files,
            committables=self._uncommitted.up_to(pending.checkpoint_id),
        )
        commit = self._storage.commit if pending.kind.is_recovery_point else self._storage.commit_savepoint
        try:
            stored = commit(draft)
        except StaleGenerationError as error:
            self._abort(pending, FailureReason.SUPERSEDED_DRIVER, _text(error), keep_files=True)
            self._superseded(error)
        except CommitOutcomeUnknownError as error:
            self._abort(pending, FailureReason.FINALIZE_FAILED, _text(error), keep_files=True)
            # If it has completed, an older one would replace it.
            self._subsume(pending)
        except Exception as error:  # any error of the storage: failure_manager decides what the failed checkpoint means
            _log.warning("Checkpoint %d of job %s could not be committed.", pending.checkpoint_id, self.job_id, exc_info=True)
            self._abort(pending, FailureReason.FINALIZE_FAILED, _text(error))
        else:
            if pending.kind.is_recovery_point:
                self._uncommitted.completed(pending.checkpoint_id)
            self._completed(pending, stored)

    def _completed(self, pending: PendingCheckpoint, stored: StoredCheckpoint) -> None:
        checkpoint_id = pending.checkpoint_id
        del self._pending[checkpoint_id]
        self._last_completion = self.clock.monotonic()
        self._failures.succeeded(checkpoint_id)
        record = self._record(pending, CheckpointStatus.COMPLETED, external_path=stored.external_path)
        self._statistics.ended(record)
        self._subsume(pending)
        if pending.kind.is_recovery_point:
            self._completed_notices.append(checkpoint_id)
        self._outbox.calls.append(lambda: self._after_completion(pending, stored, record))
        _log.info(
            "Completed %s checkpoint %d of job %s (%d bytes, of which %d are new; %d ms).",
            pending.kind.value, checkpoint_id, self.job_id, record.state_size, record.checkpointed_size, record.duration,
        )  # fmt: skip

    def _subsume(self, by: PendingCheckpoint) -> None:
        """Abort the checkpoints before a recovery point that has completed, or may have."""
        if by.kind.is_recovery_point:
            for older in [other for other in self._pending.values() if other.checkpoint_id < by.checkpoint_id]:
                if not older.kind.is_savepoint:
                    self._abort(older, FailureReason.SUBSUMED, f"by checkpoint {by.checkpoint_id}")

    def _abort(self, pending: PendingCheckpoint, reason: FailureReason, detail: str, *, keep_files: bool = False) -> None:
        checkpoint_id = pending.checkpoint_id
        if self._pending.pop(checkpoint_id, None) is None:
            return  # it was aborted before: the failure of another one ended the job
        self._discard_export(pending.export)
        if not keep_files:
            self._storage.discard(pending.location)
            self._aborted_locations[checkpoint_id] = pending.location
            while len(self._aborted_locations) > _REMEMBERED:
                del self._aborted_locations[next(iter(self._aborted_locations))]
        self._aborted_notices.append(checkpoint_id)
        failure = Failure(checkpoint_id=checkpoint_id, kind=pending.kind, reason=reason, drained=pending.drain, detail=detail)
        record = self._record(pending, CheckpointStatus.FAILED, failure=failure.text)
        self._statistics.ended(record)
        log = _log.warning if reason.counts else _log.info
        log("Aborted %s checkpoint %d of job %s: %s.", pending.kind.value, checkpoint_id, self.job_id, failure.text)
        if self.history is not None:
            self._outbox.calls.append(partial(self.history.checkpoint_ended, record))
        if pending.kind in (CheckpointKind.FINAL, CheckpointKind.STOP_SAVEPOINT):
            self._stopping = False
        self._settle(pending.request, failure)

    def _discard_export(self, folder: str | None) -> None:
        if folder is not None:
            self._storage.discard(CheckpointLocation(directory=folder, root=folder))

    def _refuse(self, request: Request, reason: FailureReason, detail: str = "") -> None:
        """Reject a request that no task knows of yet."""
        failure = Failure(checkpoint_id=None, kind=request.kind, reason=reason, detail=detail)
        _log.info("No %s checkpoint of job %s: %s %s", request.kind.value, self.job_id, reason.sentence, detail)
        self._settle(request.sequence, failure)

    def _settle(self, sequence: int, failure: Failure) -> None:
        """Decide what a failure means, and fail the future of the request."""
        which = "" if failure.checkpoint_id is None else f" {failure.checkpoint_id}"
        error = CheckpointError(f"checkpoint{which} of job {self.job_id}: {failure.text}")
        future = self._futures.pop(sequence, None)
        if future is not None:
            self._outbox.calls.append(lambda: future.set_exception(error))
        match self._failures.failed(failure):
            case FailJob(message=message):
                # The failure may be due to another driver that has taken over and removed the files of this one's tasks.
                if not self._find_superseded():
                    self._outbox.calls.append(lambda: self.listener.fail_job(CheckpointError(message)))
            case Tolerate(failures=failures):
                _log.warning(
                    "%d of at most %d tolerated checkpoint failures in a row of job %s.",
                    failures, self.settings.tolerable_failures, self.job_id,
                )  # fmt: skip
            case Ignore():
                pass
            case unexpected:
                assert_never(unexpected)

    def _find_superseded(self) -> bool:
        """Return whether another driver has taken over the job; if so, this one ends."""
        try:
            self._storage.check_generation()
        except StaleGenerationError as error:
            self._superseded(error)
            return True
        except Exception as error:  # the storage cannot be reached: the next checkpoint will show it
            _log.info("It could not be determined whether job %s still belongs to this driver: %s", self.job_id, _text(error))
        return False

    def _superseded(self, error: StaleGenerationError) -> None:
        self._subtasks = self._next_due = None
        self._abandon(FailureReason.SUPERSEDED_DRIVER)
        self._shut_down = True
        self._outbox.calls.append(lambda: self.listener.fail_job(error))

    def _abandon(self, reason: FailureReason) -> None:
        for pending in list(self._pending.values()):
            # A superseded driver must not delete any files.
            self._abort(pending, reason, "", keep_files=reason is FailureReason.SUPERSEDED_DRIVER)
        waiting, self._queue = self._queue, ()
        for request in waiting:
            self._refuse(request, reason)

    def _record(
        self,
        pending: PendingCheckpoint,
        status: CheckpointStatus,
        *,
        failure: str | None = None,
        external_path: str | None = None,
    ) -> CheckpointRecord:
        subtasks, files = pending.records, pending.files
        return CheckpointRecord(
            checkpoint_id=pending.checkpoint_id,
            kind=pending.kind,
            status=status,
            trigger_time=pending.trigger_time,
            duration=None if status is CheckpointStatus.IN_PROGRESS else self.clock.monotonic() - pending.started,
            state_size=sum(file.size for file in files),
            checkpointed_size=sum(record.checkpointed_size for record in subtasks),
            state_rows=sum(file.rows for file in files),
            files=len(files),
            acknowledged=len(subtasks),
            subtasks=len(pending.expected),
            alignment_ms=max((record.alignment_ms for record in subtasks), default=0.0),
            snapshot_ms=max((record.snapshot_ms + record.upload_ms for record in subtasks), default=0.0),
            failure=failure,
            external_path=external_path,
            failed_at=self.clock.wall_time() if status is CheckpointStatus.FAILED else None,
            acknowledgements=subtasks,
            parallelism=Counter(subtask.vertex for subtask in pending.expected),
        )

    # -- what is done without the lock -------------------------------------------------------------------------------------

    def _after_completion(self, pending: PendingCheckpoint, stored: StoredCheckpoint, record: CheckpointRecord) -> None:
        future = self._futures.pop(pending.request, None)
        failure: CheckpointError | None = None
        if self.history is not None and pending.export is None:
            # Before the sinks commit: the checkpoint is complete even if that fails.
            self.history.checkpoint_ended(record)
        try:
            if pending.kind.is_recovery_point:
                faults.reach(faults.Point.SINKS_TO_COMMIT)
                self.listener.checkpoint_completed(stored)
                faults.reach(faults.Point.SINKS_COMMITTED)
            if pending.export is not None:
                try:
                    with self._lock:
                        stored = self._storage.export_savepoint(stored, pending.export)
                        record = replace(record, external_path=stored.external_path)
                        self._statistics.exported(record)
                except Exception as error:
                    failure = self._stop_failed(stored, pending.export, error)
        except Exception as error:
            # If this driver was suspended for a while, a successor may have taken over, which then explains the error.
            self.check_generation()
            if future is not None:
                future.set_exception(CheckpointError(f"checkpoint {pending.checkpoint_id} of job {self.job_id}: {_text(error)}"))
            raise
        finally:
            if self.history is not None and pending.export is not None:
                self.history.checkpoint_ended(record)
        faults.reach(faults.Point.CHECKPOINT_ENDED)
        with self._lock:
            self._storage.clean_up(tuple(self._pending))
        if future is not None and failure is not None:
            future.set_exception(failure)
        elif future is not None:
            future.set_result(stored)

    def _stop_failed(self, stored: StoredCheckpoint, folder: str, error: Exception) -> CheckpointError:
        """Return the error of a stop whose savepoint could not be written although its folder was writable before (full disk).

        The checkpoint is complete, so nothing is lost: the job continues or, if its input was ended, ends.
        """
        with self._lock:
            self._stopping = False
        outcome = self.listener.stop_failed(stored)
        message = (
            f"The savepoint with which job {self.job_id} was to stop could not be written to {folder}: {_text(error)}; {outcome}"
        )
        _log.warning("%s", message, exc_info=error)
        failure = CheckpointError(message)
        failure.__cause__ = error
        return failure


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"

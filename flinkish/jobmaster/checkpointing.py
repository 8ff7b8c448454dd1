"""The checkpoints of one job over all its attempts: storage, coordinator, clients' requests, and clean-up at the end.

A job that takes checkpoints has a storage from the start; other jobs get one when the first savepoint is requested.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from flinkish.checkpoint.checkpoint_settings import JobEnd, deletes_checkpoints
from flinkish.checkpoint.coordinator import CheckpointCoordinator
from flinkish.checkpoint.failure_manager import FailureReason
from flinkish.checkpoint.pending import Subtask
from flinkish.checkpoint.statistics import CheckpointFigures, RestoredRecord
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common import options
from flinkish.common.closing import raised_by
from flinkish.common.completable_future import CompletableFuture
from flinkish.common.errors import CheckpointError, StaleGenerationError
from flinkish.common.ids import CheckpointId
from flinkish.jobmaster import failures
from flinkish.jobmaster.program_parts import sinks, sources
from flinkish.jobmaster.setup import JobSetup
from flinkish.jobmaster.wakeup import Wakeup
from flinkish.program.driver_objects import NeedsDataFrames
from flinkish.program.row_folders import hold_rows, keep_rows, remove_rows

if TYPE_CHECKING:
    from flinkish.jobmaster.attempt import Attempt
    from flinkish.jobmaster.job_master import Environment

_log = logging.getLogger("flinkish.jobmaster")

#: How often a job checks whether another driver process has taken it over; if so, it must be gone within 10 s.
_GENERATION_CHECK_MS = 3_000


@dataclass(frozen=True, slots=True)
class _Request:
    """A client's request; `what` is "checkpoint" or "savepoint"."""

    what: str
    #: Passes the request to the coordinator.
    trigger: Callable[[CheckpointCoordinator], Future[StoredCheckpoint]]
    #: Gives the client its answer.
    answer: Callable[[StoredCheckpoint], object]
    #: Gives the client an error instead.
    refuse: Callable[[BaseException], object]


@dataclass(kw_only=True, eq=False)
class JobCheckpoints:
    """Owns a job's checkpoints. Any thread may make requests and ask for figures; all else is for the JobMaster's thread."""

    setup: JobSetup
    environment: Environment
    wakeup: Wakeup
    #: The checkpoint that the job was started from.
    initial: StoredCheckpoint | None

    def __post_init__(self) -> None:
        setup = self.setup
        self._clock = self.environment.clock
        #: The environment's, or the one that was opened for a savepoint.
        self.storage = self.environment.storage
        #: May be read from any thread.
        self.coordinator = CheckpointCoordinator(
            job_id=setup.job_id,
            settings=setup.checkpoints,
            storage=self.storage,
            clock=self._clock,
            listener=self,
            history=self.environment.notes,
        )
        #: The attempt whose tasks run.
        self._attempt: Attempt | None = None
        self._restored: RestoredRecord | None = None
        self._watches_generation = setup.configuration.contains(options.HA_CLUSTER_ID)
        self.next_look: int | None = None
        self._lock = threading.Lock()
        self._requests: deque[_Request] = deque()
        #: Why requests are refused.
        self._closed: str | None = None
        #: Stop requests that wait for the end of the job, with the paths of their savepoints.
        self._stops: list[tuple[CompletableFuture[str], str]] = []
        graph = setup.plan.job_graph
        parts = [*(node.source for node in sources(graph)), *(node.sink for node in sinks(graph))]
        self._has_rows = any(isinstance(part, NeedsDataFrames) for part in parts)
        self._rows = hold_rows(setup.configuration, setup.job_id) if self._has_rows else None
        #: Whether to keep the last checkpoint because it could not be copied to its savepoint.
        self._keep = False

    def figures(self) -> CheckpointFigures:
        """Return figures of all checkpoints since this process took over the job; may be called from any thread."""
        return replace(self.coordinator.figures(), restored=self._restored)

    # -- called by any thread ------------------------------------------------------------------------------------------------

    def trigger_savepoint(
        self, directory: str | None = None, *, stop: bool = False, drain: bool = False
    ) -> CompletableFuture[str]:
        """Request a savepoint; it is taken when the tasks run.

        The future gets its path; with `stop`, only after the job has ended. It fails with CheckpointError if the savepoint or the
        job fails before.
        """
        future: CompletableFuture[str] = CompletableFuture()

        def answer(checkpoint: StoredCheckpoint) -> None:
            self._keep_rows()
            if stop:
                self._stops.append((future, str(checkpoint.root)))
            else:
                future.set_result(str(checkpoint.root))

        def trigger(coordinator: CheckpointCoordinator) -> Future[StoredCheckpoint]:
            return coordinator.trigger_savepoint(directory, stop=stop, drain=drain)

        self._ask(_Request("savepoint", trigger, answer, future.set_exception))
        return future

    def trigger_checkpoint(self, *, full: bool = False) -> CompletableFuture[CheckpointId]:
        """Request a checkpoint independently of the interval; it is taken when the tasks run; `full` as for the coordinator.

        The future gets its id. It fails with CheckpointError if the checkpoint or the job fails before, and for a job that takes
        no checkpoints, because the sinks of such a job commit nothing before the end.
        """
        if not self.setup.checkpointing:
            error = CheckpointError(
                f"{self._job()}: no checkpoint was taken, the job takes none",
                hint=f"set {options.CHECKPOINTING_INTERVAL.key}; a savepoint can be taken of any streaming job.",
            )
            return CompletableFuture.failed(error)
        future: CompletableFuture[CheckpointId] = CompletableFuture()
        self._ask(
            _Request(
                "checkpoint",
                lambda coordinator: coordinator.trigger_checkpoint(full=full),
                lambda checkpoint: future.set_result(checkpoint.checkpoint_id),
                future.set_exception,
            )
        )
        return future

    def _ask(self, request: _Request) -> None:
        with self._lock:
            closed = self._closed is not None
            if not closed:
                self._requests.append(request)
        if closed:
            self._refuse(request)
        self.wakeup.signal()

    def _refuse(self, request: _Request) -> None:
        request.refuse(CheckpointError(f"{self._job()}: no {request.what} was taken, {self._closed}"))

    def close_requests(self) -> None:
        """Refuse requests from now on: the job is about to end."""
        with self._lock:
            self._closed = self._closed or "the job has ended or is about to"

    # -- for the attempt -----------------------------------------------------------------------------------------------------

    def begin_attempt(self, attempt: Attempt, subtasks: tuple[Subtask, ...], *, restored: StoredCheckpoint | None) -> None:
        """Begin to take checkpoints of an attempt whose tasks run."""
        if restored is not None:
            self._restored = RestoredRecord(
                checkpoint_id=restored.checkpoint_id,
                restored_at=self._clock.wall_time(),
                is_savepoint=restored.manifest.kind.is_savepoint,
                external_path=restored.external_path,
            )
        self._attempt = attempt
        self.coordinator.begin_attempt(subtasks, restored=None if restored is None else restored.checkpoint_id)
        self._watch_generation()

    def serve_requests(self) -> None:
        """Pass requests to the coordinator; to be called between epochs, while the tasks run."""
        while True:
            with self._lock:
                if not self._requests:
                    return
                request = self._requests.popleft()
            try:
                request.trigger(self._opened()).add_done_callback(partial(_pass_on, request))
            except Exception as error:
                request.refuse(error)

    def look(self) -> None:
        """Abort overdue checkpoints, and check whether another driver has taken over the job; if so, call `fail_job`."""
        self.coordinator.expire_overdue()
        now = self._clock.monotonic()
        if self.next_look is not None and self.next_look <= now:
            self.next_look = now + _GENERATION_CHECK_MS
            self.coordinator.check_generation()

    # -- for the JobMaster ---------------------------------------------------------------------------------------------------

    def restore_point(self) -> StoredCheckpoint | None:
        """Return the checkpoint that an attempt starts from: the job's last completed one, else the one the job was started from.

        Raises the errors of the storage.
        """
        return self.coordinator.latest() or self.initial

    def end_attempt(self, reason: FailureReason) -> None:
        """Abort checkpoints in progress, because the tasks no longer run."""
        self._attempt = self.next_look = None
        self.coordinator.end_attempt(reason)

    @property
    def stopped_with(self) -> str | None:
        """The path of the savepoint with which the job was stopped; None if it was not stopped."""
        return self._stops[0][1] if self._stops else None

    def end(self, end: JobEnd | None) -> None:
        """End for good; deletes the job's checkpoints if the configured retention says so. None keeps them. Never raises."""
        if end is None:
            return
        retained = self.setup.configuration.contains(options.CHECKPOINTS_DIRECTORY)
        if not retained or deletes_checkpoints(self.setup.checkpoints.retention, end):
            remove_rows(self.setup.configuration, self.setup.job_id)
        if self._rows is not None:
            self._rows.release()
        if self.storage is None:
            return
        try:
            retire = self.environment.retire
            if retire is not None and deletes_checkpoints(self.setup.checkpoints.retention, end):
                retire()
            self.coordinator.shutdown(end, keep=self._keep and end is JobEnd.FINISHED)
        except BaseException:
            _log.warning("The checkpoints of job %s could not be deleted.", self.setup.job_id, exc_info=True)

    def refuse_waiting(self) -> None:
        """Refuse all requests, including waiting ones, because the job has ended."""
        with self._lock:
            self._closed = "the job has ended"
            waiting = list(self._requests)
            self._requests.clear()
        for request in waiting:
            self._refuse(request)

    def answer_stops(self, error: BaseException | None) -> None:
        """Complete the stop requests after the job has ended; with an error if the job did not end by its savepoint."""
        for future, path in self._stops:
            if error is None:
                future.set_result(path)
                continue
            failure = CheckpointError(
                f"{self._job()}: the savepoint {path} is complete, but the job ended otherwise: {error}",
                hint="a job can be started from the savepoint; see the error for what was not done.",
            )
            future.set_exception(failure)

    # -- CoordinatorListener -------------------------------------------------------------------------------------------------

    def checkpoint_completed(self, checkpoint: StoredCheckpoint) -> None:
        """Have the running attempt make results visible that the checkpoint covers."""
        if self._attempt is not None:
            self._attempt.checkpoint_completed(checkpoint)

    def stop_failed(self, checkpoint: StoredCheckpoint) -> str:
        """Let the job continue; if its input was ended for the savepoint, let it end anyway, and keep its last checkpoint."""
        if self._attempt is None or not self._attempt.stop_failed():
            return "the job goes on"
        self._keep = True
        if self.setup.configuration.contains(options.CHECKPOINTS_DIRECTORY):
            rest = f"its last checkpoint, {checkpoint.external_path}, holds the same and stays"
        else:
            rest = f"as {options.CHECKPOINTS_DIRECTORY.key} is not set, its state ends with it"
        return f"its input was ended, so the job ends, with all its results; {rest}"

    def fail_job(self, error: CheckpointError) -> None:
        """Fail the running attempt; if another driver has taken over, the job ends for good in this process."""
        where = "another driver process" if isinstance(error, StaleGenerationError) else "checkpointing"
        attempt = self._attempt
        if attempt is not None:
            attempt.fail(failures.from_error(error, where))

    def wake_up(self) -> None:
        """Make the JobMaster check the coordinator again."""
        self.wakeup.signal()

    # -- inside --------------------------------------------------------------------------------------------------------------

    def _watch_generation(self) -> None:
        if self._watches_generation and self.storage is not None:
            self.next_look = self._clock.monotonic() + _GENERATION_CHECK_MS

    def _opened(self) -> CheckpointCoordinator:
        """Return the coordinator, with a storage. Raises CheckpointError if the job cannot have one."""
        if self.storage is None:
            if self.environment.open_storage is None:
                raise CheckpointError(
                    f"{self._job()}: no savepoint was taken: the job has no storage for checkpoints, or runs in batch mode"
                )
            self.storage = self.environment.open_storage()
            self.coordinator.open(self.storage)
            self._watch_generation()
        return self.coordinator

    def _keep_rows(self) -> None:
        """Leave the rows of DataFrames that a savepoint may name to its owner."""
        if self._has_rows:
            keep_rows(self.setup.configuration, self.setup.job_id)
        if self._rows is not None:
            self._rows.release()

    def _job(self) -> str:
        return f"job {self.setup.job_name!r} ({self.setup.job_id})"


def _pass_on(request: _Request, asked: Future[StoredCheckpoint]) -> None:
    """Pass the coordinator's answer on to the client."""
    error = asked.exception() or raised_by(request.answer, asked.result())
    if error is not None:
        request.refuse(error)

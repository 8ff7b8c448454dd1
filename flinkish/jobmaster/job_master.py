"""The JobMaster: runs one job to its end, attempt after attempt.

One thread runs `run`; the engine calls the attempt's epoch loop from one thread of its choice. Requests of other threads (cancel,
savepoints) are recorded, its thread is woken up, and they are carried out between two epochs.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, assert_never

from flinkish.checkpoint.checkpoint_settings import JobEnd
from flinkish.checkpoint.failure_manager import FailureReason
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common import options, pickling
from flinkish.common.clock import Clock
from flinkish.common.completable_future import CompletableFuture
from flinkish.common.errors import EngineError, JobCancelledError, JobExecutionError
from flinkish.common.ids import AttemptId, IdSource
from flinkish.common.job_execution_result import JobExecutionResult
from flinkish.common.job_id import JobID
from flinkish.common.job_status import JobStatus
from flinkish.graph.columns import working_on_columns
from flinkish.graph.runtime_mode import is_batch
from flinkish.jobmaster import failures, user_messages
from flinkish.jobmaster.attempt import Attempt, Cancelled, Failed, Finished, Outcome
from flinkish.jobmaster.checkpointing import JobCheckpoints
from flinkish.jobmaster.delivery import Delivery, Results, Taker
from flinkish.jobmaster.epochs import Engine
from flinkish.jobmaster.event_time import EventTimeGraph
from flinkish.jobmaster.exception_history import EarlierRestarts, ExceptionHistory
from flinkish.jobmaster.execution_graph import ExecutionGraph, ExecutionState, JobDetails
from flinkish.jobmaster.failures import JobFailure
from flinkish.jobmaster.job_metrics import JobFigures, JobMetrics
from flinkish.jobmaster.restart_strategies import GiveUp, RestartAfter, RestartStrategy
from flinkish.jobmaster.setup import JobSetup
from flinkish.jobmaster.wakeup import AsyncCalls, Wakeup
from flinkish.runtime.protocol import TaskProgram

if TYPE_CHECKING:
    from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage
    from flinkish.checkpoint.history import JobHistory

_log = logging.getLogger("flinkish.jobmaster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The services that a JobMaster gets from outside.

    `storage` is the claimed storage of a job that takes checkpoints; for other jobs, `open_storage` opens one, in the JobMaster's
    thread, when a savepoint is requested; None = no savepoints.
    """

    engine: Engine
    clock: Clock
    ids: IdSource
    rng: random.Random
    print_lines: Callable[[tuple[str, ...]], None]
    storage: DeltaCheckpointStorage | None = None
    open_storage: Callable[[], DeltaCheckpointStorage] | None = None
    notes: JobHistory | None = None
    #: Takes values that sinks send to destinations on the driver other than those of print() and execute_and_collect().
    takers: Mapping[str, Taker] = field(default_factory=dict)
    #: Takes sentences for the person who runs the job.
    tell: Callable[[str], None] = lambda text: None
    #: Called before the checkpoints of a job that has ended for good are deleted, so that the next run is another job.
    retire: Callable[[], None] | None = None
    #: The restarts before this process, as far as they are known.
    earlier: EarlierRestarts | None = None
    #: Called when everything is released, before the threads that wait for the job learn that it has ended.
    on_released: Callable[[], None] | None = None


class JobMaster:
    """Runs one job; its public methods may be called from any thread."""

    def __init__(self, setup: JobSetup, environment: Environment, *, restored: StoredCheckpoint | None = None) -> None:
        self.setup = setup
        self.results = Results(checkpointed=setup.checkpointing or setup.results_at_end)
        self._environment = environment
        self._clock = environment.clock
        self._engine = environment.engine
        # A copy, so that attributes that enumerators and committers set on their sources and sinks, such as a client, are not
        # sent to the tasks.
        self._task_plan = pickling.own_copy(setup.plan, "the program")
        self._wakeup = Wakeup(environment.clock)
        self.results.on_space = self._wakeup.signal
        self._event_time = EventTimeGraph(setup.plan.job_graph)
        self._graph = ExecutionGraph(setup.plan, setup.job_id, environment.clock)
        earlier = environment.earlier
        self._metrics = JobMetrics(setup.plan, environment.clock, setup.latency, restarts=0 if earlier is None else earlier.count)
        #: The failures that the job has had.
        self.exceptions = ExceptionHistory(environment.clock, setup.exception_history, earlier)
        self._delivery = Delivery(self.results, environment.print_lines, environment.takers)
        #: The job's checkpoints; clients may call the methods that are for any thread.
        self.checkpoints = JobCheckpoints(setup=setup, environment=environment, wakeup=self._wakeup, initial=restored)
        self._lock = threading.Lock()
        self._attempt: Attempt | None = None
        self._cancelled: str | None = None
        self._suspended = False
        self._ended = False
        self._told_of_no_history = False
        self._started_at = environment.clock.monotonic()
        #: Completes with the result, the job's JobExecutionError, or JobCancelledError.
        self.result: CompletableFuture[JobExecutionResult] = CompletableFuture()

    # -- called by clients ---------------------------------------------------------------------------------------------------

    @property
    def status(self) -> JobStatus:
        return self._graph.status

    def details(self) -> JobDetails:
        """Return the states of the job and of all its subtasks."""
        return self._graph.details()

    def figures(self) -> JobFigures:
        return self._metrics.figures()

    def note_metrics(self, values: Mapping[str, object]) -> None:
        """Write figures into the job's history table; the first call for a job that has none logs a warning."""
        notes = self._environment.notes
        if notes is not None:
            notes.note("metrics", f"{len(values)} metrics", details=values)
            if self._ended:
                # Notes are written together with later notes; at the end there are none.
                notes.flush()
        elif not self._told_of_no_history:
            self._told_of_no_history = True
            _log.warning("Job %s has no execution.checkpointing.dir, so its metrics go to no history table.", self.setup.job_id)

    def cancel(self, *, suspend: bool = False, why: str = "it was cancelled") -> None:
        """End the job soon, without waiting; does nothing if it has ended.

        With `suspend` its checkpoints are kept, so that it can resume in another process (Flink's SUSPENDED). Otherwise the
        configured retention decides whether they are deleted.
        """
        with self._lock:
            if self._ended or self._cancelled is not None:
                return
            self._cancelled, self._suspended = why, suspend
            attempt = self._attempt
        self.checkpoints.close_requests()
        if attempt is not None:
            attempt.cancel()
        self._wakeup.signal()
        try:
            self._engine.interrupt()
        except Exception:
            _log.warning("The engine could not be interrupted; the running epoch goes on to its end.", exc_info=True)

    # -- the job's thread ----------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run the job to its end; never raises, the outcome is in `result`."""
        self._started_at = self._clock.monotonic()
        end: JobExecutionError | JobCancelledError | None = JobExecutionError(
            f"Job {self.setup.job_name!r} ({self.setup.job_id}) ended without an outcome: this is a bug in flinkish."
        )
        reporter = self._start_reporter()
        # Catch everything, even a BaseException, because a client waits for the result.
        try:
            try:
                self._environment.tell(user_messages.starts(self.setup, self.checkpoints.initial))
                end = self._run_attempts()
            except BaseException as error:
                _log.exception("The JobMaster of job %s failed.", self.setup.job_id)
                end = self._give_up(failures.from_error(error, "the driver", recoverable=False), "this is a bug in flinkish")
            self._end(end)
        except BaseException:
            _log.exception("Ending job %s failed.", self.setup.job_id)
        finally:
            if reporter is not None:
                reporter.close()
            self._answer(end)

    def _run_attempts(self) -> JobExecutionError | JobCancelledError | None:
        strategy = RestartStrategy(self.setup.restart, self._clock, self._environment.rng)
        number = 0
        while True:
            outcome = self._run_attempt(number)
            if self._cancelled is not None and not isinstance(outcome, Finished):
                outcome = Cancelled()
            match outcome:
                case Finished():
                    self._graph.transition_job(JobStatus.FINISHED)
                    return None
                case Cancelled():
                    return self._cancel_job()
                case Failed(failure=failure):
                    self._graph.transition_job(JobStatus.FAILING)
                    self._note("attempt failed", f"attempt {number} in {failure.message}")
                    savepoint = self.checkpoints.stopped_with
                    if savepoint is not None:
                        # The client that requested the savepoint may already start the next job from it: only one may run.
                        return self._give_up(failure, f"it was stopped with the savepoint {savepoint}, which is complete")
                    if not failure.recoverable:
                        return self._give_up(failure, failure.why_final)
                    match strategy.on_failure():
                        case GiveUp(reason=reason):
                            return self._give_up(failure, reason)
                        case RestartAfter(delay=delay):
                            error = self._prepare_restart(failure, delay)
                            if error is not None:
                                return error
                        case unexpected:
                            assert_never(unexpected)
                case unexpected_outcome:
                    assert_never(unexpected_outcome)
            if self._cancelled is not None:
                return self._cancel_job()
            number += 1

    def _run_attempt(self, number: int) -> Outcome:
        """Run one attempt; all of its resources are released on return."""
        try:
            restored = self.checkpoints.restore_point()
        except Exception as error:
            return Failed(failure=failures.from_error(error, "reading the last checkpoint"))
        own = restored if restored is not None and restored.manifest.job_id == self.setup.job_id else None
        self._metrics.restore({} if own is None else own.manifest.coordinator.extra)
        if number > 0:
            self.results.restart(None if own is None else own.checkpoint_id)
        attempt_id = AttemptId(self._environment.ids())
        attempt = Attempt(
            setup=self.setup,
            number=number,
            attempt_id=attempt_id,
            restored=restored,
            clock=self._clock,
            wakeup=self._wakeup,
            graph=self._graph,
            metrics=self._metrics,
            delivery=self._delivery,
            checkpoints=self.checkpoints,
        )
        with self._lock:
            self._attempt = attempt
            if self._cancelled is not None:
                attempt.cancel()
        self._begin_states(number, restored)
        try:
            attempt.start()
            if attempt.outcome is None:
                program = self._task_program(attempt_id)
                self._graph.transition_all(ExecutionState.DEPLOYING)
                self._engine.run_attempt(program, attempt)
        except BaseException as error:  # user code may call sys.exit(), and the waiting client must learn of it
            self._engine_failed(error, attempt)
        finally:
            with self._lock:
                self._attempt = None
            finished = isinstance(attempt.outcome, Finished)
            self.checkpoints.end_attempt(FailureReason.JOB_ENDED if finished else FailureReason.JOB_FAILED)
            attempt.close()
            self._graph.end_executions()
        lost = EngineError("the engine ended the attempt without being told to")
        return attempt.outcome or Failed(failure=failures.from_error(lost, "the engine"))

    def _task_program(self, attempt_id: AttemptId) -> TaskProgram:
        setup = self.setup
        return TaskProgram(
            plan=self._task_plan,
            configuration=setup.configuration,
            job_id=setup.job_id,
            lineage=setup.lineage,
            job_name=setup.job_name,
            attempt_id=attempt_id,
            scratch=self._engine.scratch_root() / attempt_id,
            disk=None if setup.disk is None else setup.disk / attempt_id,
            dead_letters=setup.dead_letters if setup.keeps_dead_letters else None,
            dependencies=setup.dependencies,
            python_executable=setup.python_executable,
            uses_arrow=self._uses_arrow(),
        )

    def _uses_arrow(self) -> bool:
        configuration = self.setup.configuration
        if configuration.get(options.CHECKPOINTING_INTERVAL):
            return True
        return None in working_on_columns(self._task_plan.job_graph, batch=is_batch(configuration)).values()

    def _begin_states(self, number: int, restored: StoredCheckpoint | None) -> None:
        if number > 0:
            self._graph.new_attempt(number)
            self._metrics.restarted()
        origin = "the beginning" if restored is None else f"checkpoint {restored.checkpoint_id} ({restored.external_path})"
        self._graph.transition_job(JobStatus.RUNNING)
        self._graph.transition_all(ExecutionState.SCHEDULED)
        _log.info("Attempt %d of job %s starts from %s.", number, self.setup.job_id, origin)
        self._note("attempt started", f"attempt {number} from {origin}")

    def _engine_failed(self, error: BaseException, attempt: Attempt) -> None:
        if attempt.outcome is not None:
            # The attempt was over, so the error comes from closing user functions or from the interruption.
            level = logging.DEBUG if isinstance(attempt.outcome, Cancelled) else logging.WARNING
            _log.log(level, "Ending attempt %d of job %s raised an error.", attempt.number, self.setup.job_id, exc_info=error)
            return
        # An engine that cannot start at all (no Java, no Spark session) will not be able to a second later.
        never_started = isinstance(error, EngineError) and attempt.number == 0 and attempt.epochs_begun == 0
        attempt.fail(failures.from_error(error, "the engine", recoverable=not never_started))

    def _prepare_restart(self, failure: JobFailure, delay: int) -> JobExecutionError | None:
        """Wait until the next attempt may start; return an error if there can be none."""
        try:
            self.results.check_restart()
        except JobExecutionError as error:
            return self._give_up(failure, str(error))
        self._record_failure(failure)
        self._graph.transition_job(JobStatus.RESTARTING)
        _log.warning(
            "Job %s (%s) failed in %s\n%s\nIt starts again in %d ms%s.",
            self.setup.job_name, self.setup.job_id, failure.message,
            failure.text(full_traceback=self.setup.full_traceback), delay, self._restarting(),
        )  # fmt: skip
        due = self._clock.monotonic() + delay
        while True:
            since = self._wakeup.signals
            left = due - self._clock.monotonic()
            if left <= 0 or self._cancelled is not None:
                return None
            self._wakeup.wait(since, left)

    def _restarting(self) -> str:
        text = user_messages.restarting(self.exceptions.last(), self._clock.wall_time())
        return "" if text is None else f" ({text})"

    # -- ends ----------------------------------------------------------------------------------------------------------------

    def _give_up(self, failure: JobFailure, why_final: str) -> JobExecutionError:
        status = self._graph.status
        if status in (JobStatus.CREATED, JobStatus.RUNNING, JobStatus.RESTARTING):
            self._graph.transition_job(JobStatus.FAILING)
        self._record_failure(failure, why_final)
        error = failures.to_error(
            failure, self.setup.job_name, self.setup.job_id, why_final, full_traceback=self.setup.full_traceback
        )
        _log.info("Job %s (%s) has failed in %s: %s.", self.setup.job_name, self.setup.job_id, failure.message, why_final)
        # After an unrecoverable failure, keep the checkpoints for people to examine: they may be damaged, or another process
        # may have taken over the job.
        self.checkpoints.end(JobEnd.FAILED if failure.recoverable else None)
        if not self._graph.status.is_terminal_state():
            self._graph.transition_job(JobStatus.FAILED)
        return error

    def _record_failure(self, failure: JobFailure, why_final: str | None = None) -> None:
        execution = self._graph.execution(failure.vertex, failure.subtask)
        process = None if execution is None else self._metrics.process(execution.slot)
        self.exceptions.add(failure, execution, full_traceback=self.setup.full_traceback, process=process, why_final=why_final)

    def _cancel_job(self) -> JobCancelledError:
        to = JobStatus.SUSPENDED if self._suspended else JobStatus.CANCELED
        if self._suspended:
            self._tell_suspended(self._cancelled or "it was cancelled")
        else:
            self._graph.transition_job(JobStatus.CANCELLING)
            self.checkpoints.end(JobEnd.CANCELED)
        self._graph.transition_job(to)
        return JobCancelledError(f"Job {self.setup.job_name!r} ({self.setup.job_id}) did not run to its end: {self._cancelled}")

    def _end(self, error: JobExecutionError | JobCancelledError | None) -> None:
        """Release everything; an error in one part does not keep others from being released."""
        if error is None:
            self.checkpoints.end(JobEnd.FINISHED)
        with self._lock:
            self._ended = True
        self.checkpoints.refuse_waiting()
        self._try("noting its end", self._note_end)
        self._try("closing its engine", self._engine.close)
        if self._environment.on_released is not None:
            self._try("releasing what it held", self._environment.on_released)
        self._try("telling of late records", self._tell_late)

    def _tell_late(self) -> None:
        text = user_messages.late(self.setup, self._metrics.figures())
        if text is not None:
            # Results lack these records, so this is a warning, which is shown even if no logging is set up.
            _log.warning("%s", text)

    def _tell_suspended(self, why: str) -> None:
        try:
            text = user_messages.suspended(self.setup, why, self.checkpoints.restore_point())
        except Exception as error:
            text = user_messages.suspended_unread(self.setup, why, error)
        self._environment.tell(text)

    def _try(self, what: str, call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException:
            _log.warning("The end of job %s: %s failed.", self.setup.job_id, what, exc_info=True)

    def _note_end(self) -> None:
        self._note("job ended", self._graph.status.name)
        if self._environment.notes is not None:
            self._environment.notes.flush()

    def _answer(self, error: JobExecutionError | JobCancelledError | None) -> None:
        """Complete the result for waiting clients; this is the job's last action."""
        try:
            self.checkpoints.answer_stops(error)
            # The iteration of a cancelled job ends as if there were no more results, because the client itself has cancelled it.
            self.results.end(None if isinstance(error, JobCancelledError) else error)
        finally:
            self._complete(error)

    def _complete(self, error: JobExecutionError | JobCancelledError | None) -> None:
        if error is not None:
            self.result.set_exception(error)
            return
        try:
            runtime = self._clock.monotonic() - self._started_at
            self.result.set_result(JobExecutionResult(JobID(self.setup.job_id), runtime, self.figures().user))
        except BaseException as failure:
            self.result.set_exception(failure)
            raise

    def _note(self, event: str, message: str) -> None:
        if self._environment.notes is not None:
            self._environment.notes.note(event, message)

    # -- for people ----------------------------------------------------------------------------------------------------------

    def progress(self, before: JobFigures | None, elapsed: int) -> tuple[str, JobFigures]:
        """Return a line about the job's progress and the figures it is based on; may be called from any thread.

        `before` has the figures of `elapsed` milliseconds ago.
        """
        figures = self._metrics.figures()
        # A batch has one watermark, at its end.
        batch = is_batch(self.setup.configuration)
        with self._lock:
            attempt = self._attempt
        watermarks = {vertex.vertex: vertex.watermarks for vertex in figures.vertices}
        text = user_messages.progress(
            self.setup,
            self.status,
            figures,
            None if batch else self._event_time.event_time(watermarks),
            self.checkpoints.figures(),
            busy=self._engine.busy_operators(),
            committing=None if attempt is None else attempt.committing,
            last_failure=self.exceptions.last(),
            before=before,
            elapsed=elapsed,
            wall=self._clock.wall_time(),
            now=self._clock.monotonic(),
        )
        return text, figures

    def _start_reporter(self) -> AsyncCalls | None:
        interval = self.setup.progress_interval
        if interval is None:
            return None
        before: JobFigures | None = None
        last = self._started_at
        # In a thread of its own, so that long epochs do not delay the lines.
        reporter = AsyncCalls(f"flinkish-progress-{self.setup.job_id[:8]}", self._clock, post=lambda call: call())

        def report() -> None:
            nonlocal before, last
            now = self._clock.monotonic()
            text, before = self.progress(before, now - last)
            last = now
            if not self.result.done():
                self._environment.tell(text)

        def reported(_: None, error: BaseException | None) -> None:
            if error is not None:
                _log.warning("The progress of a job cannot be reported; no more lines come.", exc_info=error)
                reporter.close()

        try:
            reporter.call(report, reported, interval, interval)
        except RuntimeError:  # no more threads can be started, but the job itself may not need one
            _log.warning("The progress of job %s cannot be reported.", self.setup.job_id, exc_info=True)
        return reporter

"""One attempt to run a job, as the engine sees it: commands each epoch and processes its reports.

The decisions are made elsewhere (pacing, admission, the coordinator's request_decider); this module collects the facts for
them and carries them out. It never raises into the engine: every error becomes the attempt's outcome, even one that would end a
program, such as sys.exit() in a source's enumerator.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from flinkish.checkpoint.coordinator import Trigger
from flinkish.checkpoint.manifest import CoordinatorState
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.clock import Clock
from flinkish.common.closing import Unwinding, raised_by
from flinkish.common.ids import AttemptId, CheckpointId, Epoch, OperatorUid
from flinkish.jobmaster import failures, program_parts
from flinkish.jobmaster.checkpointing import JobCheckpoints
from flinkish.jobmaster.delivery import Delivery
from flinkish.jobmaster.end_of_job import EndOfJob
from flinkish.jobmaster.epochs import NativePosition, check_complete
from flinkish.jobmaster.execution_graph import ExecutionGraph, ExecutionState
from flinkish.jobmaster.failures import JobFailure
from flinkish.jobmaster.job_metrics import JobMetrics
from flinkish.jobmaster.job_sinks import JobSinks
from flinkish.jobmaster.job_sources import JobSources
from flinkish.jobmaster.pacing import EpochReason, Pacing, WaitFor, decide
from flinkish.jobmaster.setup import JobSetup
from flinkish.jobmaster.wakeup import Wakeup
from flinkish.runtime import faults
from flinkish.runtime.protocol import EpochCommand, EpochReport, TaskFailure

_log = logging.getLogger("flinkish.jobmaster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The input has ended, or the job was stopped with a savepoint; everything is committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    failure: JobFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancelled:
    """The job was cancelled or suspended on request."""


Outcome = Finished | Failed | Cancelled


@dataclass(kw_only=True, eq=False)
class Attempt:
    """The EpochLoop of one attempt. The fields after `restored` live as long as the job."""

    setup: JobSetup
    number: int
    attempt_id: AttemptId
    restored: StoredCheckpoint | None
    clock: Clock
    wakeup: Wakeup
    graph: ExecutionGraph
    metrics: JobMetrics
    delivery: Delivery
    checkpoints: JobCheckpoints
    outcome: Outcome | None = field(default=None, init=False)
    epochs_begun: int = field(default=0, init=False)
    #: Whether the tasks run: the first epoch has been completed.
    running: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._sources = JobSources(self.setup, self.clock, self.wakeup)
        self._sinks = JobSinks.of(self.setup, self.clock)
        self._end = EndOfJob(self.setup, self.clock)
        self._pacing = Pacing(self.setup, self.clock, self.metrics)
        #: The command of the epoch that runs, with its checkpoint.
        self._epoch: tuple[EpochCommand, Trigger | None] | None = None
        #: The driver's parts of the checkpoints in progress, without those of the sinks.
        self._parts: dict[CheckpointId, CoordinatorState] = {}
        #: Whether the end of the input was expected in an epoch that has begun.
        self._end_foreseen = False
        #: Records on their way between epochs, by slot.
        self._carry_over: dict[int, bytes] = {}

    # -- life ----------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Commit the restored checkpoint's committables again, and start the sources; errors become the outcome."""
        if (error := raised_by(self._start_sinks)) is not None:
            self.fail(failures.from_error(error, "committing what the last checkpoint holds"))
        else:
            self._fail_if(self._sources.start(self.restored))

    def _start_sinks(self) -> None:
        if self.restored is not None:
            faults.reach(faults.Point.RESTORING)
        self._sinks.start()
        if self.restored is not None:
            self._sinks.restore(self.restored)

    def close(self) -> None:
        """Release the attempt's resources on the driver; errors are logged."""
        self._sources.close()
        if (error := raised_by(self._sinks.close)) is not None:
            _log.warning("Closing a committer failed.", exc_info=error)

    def _fail_if(self, failure: JobFailure | None) -> None:
        if failure is not None:
            self.fail(failure)

    def fail(self, failure: JobFailure) -> None:
        """End the attempt with a failure, unless it already has an outcome."""
        if self.outcome is None:
            self.outcome = Failed(failure=failure)
            if failure.vertex is not None and failure.subtask is not None:
                self.graph.move(failure.vertex, failure.subtask, ExecutionState.FAILED)
        self.wakeup.signal()

    def cancel(self) -> None:
        """End the attempt because the job is to end; may be called from any thread."""
        if self.outcome is None:
            self.outcome = Cancelled()
        self.wakeup.signal()

    @property
    def committing(self) -> str | None:
        """A clause about the commit that runs; None = there is none."""
        return self._sinks.committing

    # -- EpochLoop, see epochs.py --------------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        return self.outcome is not None

    def begin_epoch(self) -> EpochCommand | None:
        try:
            return self._begin()
        except Unwinding:
            raise
        except BaseException as error:
            self.fail(failures.from_error(error, "the driver"))
            return None

    def finish_epoch(self, reports: Sequence[EpochReport]) -> None:
        if self.outcome is not None:
            return  # results of a cancelled epoch must not become visible
        if (error := raised_by(self._finish, reports)) is not None:
            self.fail(failures.from_error(error, "the driver"))

    def native_starts(self) -> Mapping[OperatorUid, NativePosition]:
        return self._sources.native_starts()

    def native_reads(self, positions: Mapping[OperatorUid, NativePosition]) -> None:
        self._sources.native_reads(positions)

    def native_arrived(self) -> None:
        self._pacing.native_arrived = True
        self.wakeup.signal()

    # -- beginning -----------------------------------------------------------------------------------------------------------

    def _begin(self) -> EpochCommand | None:
        wakeup = self.wakeup
        while True:
            since = wakeup.signals
            self._fail_if(self._sources.run_posted())
            takes_checkpoints = self.running and not self._end.farewell
            if takes_checkpoints and self.outcome is None:
                self.checkpoints.serve_requests()
            if self.outcome is None:
                self._fail_if(self._sources.refresh())
            trigger = self._next_trigger() if takes_checkpoints and self.outcome is None else None
            if self.outcome is not None:
                return None
            back_pressured = self.delivery.results.full
            facts = replace(
                self._pacing.facts(self._sources, back_pressured=back_pressured),
                first=self.epochs_begun == 0,
                farewell=self._end.farewell,
                barrier_due=trigger is not None,
                next_checkpoint=self._next_checkpoint_look(),
            )
            match decide(facts):
                case EpochReason() as reason:
                    credit = self._pacing.credit
                    command = self._make_command(trigger, 0 if back_pressured else credit)
                    _log.debug("Epoch %d of attempt %d: %s, credit %d.", command.epoch, self.number, reason.value, credit)
                    return command
                case WaitFor(timeout=timeout):
                    self._pacing.waited = True
                    wakeup.wait(since, timeout)
                case unexpected:
                    assert_never(unexpected)

    def _next_trigger(self) -> Trigger | None:
        self.checkpoints.look()
        if self.outcome is not None:
            return None
        coordinator = self.checkpoints.coordinator
        if self._end.final_due is None:
            if not self._end_foreseen and self._sources.end_within(self._pacing.credit):
                # The checkpoint with which the job ends can then be that of the epoch in which the input ends. Only once, because
                # readers may read less than they may.
                self._end_foreseen = True
                coordinator.bring_forward()
            return coordinator.trigger_if_due()
        return coordinator.trigger_final() if self._end.final_checkpoint_due() else None

    def _next_checkpoint_look(self) -> int | None:
        due = self._end.final_due
        if due is None and self.running:
            due = self.checkpoints.coordinator.next_trigger_time()
        return min((each for each in (due, self.checkpoints.next_look) if each is not None), default=None)

    def _make_command(self, trigger: Trigger | None, credit: int) -> EpochCommand:
        farewell = self._end.farewell
        readers = {} if farewell else self._sources.commands(credit)
        notices = self.checkpoints.coordinator.take_notifications()
        self._pacing.native_arrived = False  # what has arrived so far comes with this command
        if trigger is not None:
            self._sources.prepare_snapshot()
        first = self.epochs_begun == 0
        command = EpochCommand(
            attempt_id=self.attempt_id,
            attempt_number=self.number,
            epoch=Epoch(self.epochs_begun),
            processing_time=self.clock.wall_time(),
            steady_time=self.clock.monotonic(),
            readers=readers,
            carry_over=dict(self._carry_over),
            barrier=None if trigger is None else trigger.barrier,
            next_checkpoint=self._next_checkpoint(trigger),
            **notices._asdict(),
            restore=self.restored.to_restore() if first and self.restored is not None else None,
            release=credit,
            drain=trigger is not None and trigger.drain,
            farewell=farewell,
        )
        self._epoch = command, trigger
        self.epochs_begun += 1
        if trigger is not None:
            faults.reach(faults.Point.CHECKPOINT_BEGUN)
        self._pacing.epoch_begins(credit)
        if first:
            self.graph.transition_all(ExecutionState.INITIALIZING)
        return command

    def _next_checkpoint(self, trigger: Trigger | None) -> CheckpointId | None:
        if trigger is not None:
            return trigger.barrier.checkpoint_id
        last = self.checkpoints.coordinator.last_id
        if last is None:
            return None
        # Before the first epoch the coordinator does not know the checkpoint that the attempt starts from.
        return CheckpointId(max(last, 0 if self.restored is None else self.restored.checkpoint_id) + 1)

    # -- finishing -----------------------------------------------------------------------------------------------------------

    def _finish(self, reports: Sequence[EpochReport]) -> None:
        assert self._epoch is not None, "finish_epoch without begin_epoch"
        command, trigger = self._epoch
        self.metrics.introduce(reports)
        failed = min((report for report in reports if report.failure is not None), key=lambda r: (r.level, r.slot), default=None)
        if failed is not None and failed.failure is not None:
            self._fail_by(failed, failed.failure, reports)
            return
        check_complete(self.setup.plan, command, reports)
        self._pacing.epoch_ends(command, reports)
        self._take_reports(reports)
        if not self.running:
            self._start_running()
        for subtask in self._end.finished:
            self.graph.move(subtask.vertex, subtask.subtask, ExecutionState.FINISHED)
        self.delivery.deliver(reports)
        if not command.farewell:
            self._take_checkpoint_parts(trigger, reports)
            if self.outcome is None:
                self._fail_if(self._sources.after_epoch())
        if self.outcome is None and self._end.after_epoch():
            self._finish_job()

    def _fail_by(self, failed: EpochReport, task_failure: TaskFailure, reports: Sequence[EpochReport]) -> None:
        for report in reports:
            # Later levels had only a part of their input: what they say comes from that.
            if report.failure is not None and report.level == failed.level and report is not failed:
                other = self._describe(report.failure)
                text = other.text(full_traceback=self.setup.full_traceback)
                _log.warning("Operator %r failed as well:\n%s", report.failure.operator_name, text)
        failure = self._describe(task_failure)
        if task_failure.in_close and self._end.last_checkpoint_complete:
            # The next attempt would start from the complete checkpoint, close functions that did nothing, and so hide the error.
            failure = replace(failure, recoverable=False, why_final="its last checkpoint is complete, only close() failed")
        self.fail(failure)

    def _describe(self, failure: TaskFailure) -> JobFailure:
        return failures.from_task(failure, self.setup.plan.job_graph.vertices[failure.vertex].parallelism)

    def _take_reports(self, reports: Sequence[EpochReport]) -> None:
        """Record everything that the reports say about positions, carry-over, prepared committables and finished subtasks."""
        self._carry_over.update({report.slot: report.carry_over for report in reports if report.carry_over is not None})
        self._sources.apply(reports)
        self._sinks.take_prepared(reports)
        self._end.take(reports)

    def _start_running(self) -> None:
        self.running = True
        self.graph.transition_all(ExecutionState.RUNNING)
        self.checkpoints.begin_attempt(self, self._end.subtasks, restored=self.restored)

    def _take_checkpoint_parts(self, trigger: Trigger | None, reports: Sequence[EpochReport]) -> None:
        coordinator = self.checkpoints.coordinator
        # A checkpoint that took longer than its timeout is aborted, even if all of its parts have arrived.
        coordinator.expire_overdue()
        for report in reports:
            for decline in report.declines:
                coordinator.receive_decline(decline)
        if trigger is not None:
            checkpoint_id = trigger.barrier.checkpoint_id
            self.delivery.results.mark(checkpoint_id)
            self._end.barrier_passed(checkpoint_id)
            if (error := raised_by(self._add_part, checkpoint_id)) is not None:
                coordinator.coordinator_state_failed(checkpoint_id, error)
        for report in reports:
            for acknowledgement in report.acknowledgements:
                coordinator.receive_acknowledgement(acknowledgement)
        coordinator.receive_uploading([part for report in reports for part in report.uploading])
        for checkpoint_id in coordinator.acknowledged():
            # The completion of the one before may have aborted it, or failed the attempt.
            if self.outcome is None and checkpoint_id in coordinator.pending:
                self._complete(checkpoint_id, self._parts[checkpoint_id])
        self._parts = {each: self._parts[each] for each in coordinator.pending if each in self._parts}

    def _complete(self, checkpoint_id: CheckpointId, part: CoordinatorState) -> None:
        """Complete a checkpoint that all tasks have acknowledged."""
        coordinator = self.checkpoints.coordinator
        try:
            # Not at the barrier, because an earlier checkpoint may have been committed to the sinks in the meantime.
            state = replace(part, extra={**self._sinks.snapshot(), **part.extra})
        except Unwinding:
            raise
        except BaseException as error:
            coordinator.coordinator_state_failed(checkpoint_id, error)
        else:
            coordinator.receive_coordinator_state(checkpoint_id, state)

    def _add_part(self, checkpoint_id: CheckpointId) -> None:
        """Add the driver's part of a checkpoint as it is at the barrier, without that of the sinks."""
        graph = self.setup.plan.job_graph
        self._parts[checkpoint_id] = CoordinatorState(
            job_name=self.setup.job_name,
            sources=self._sources.snapshot(checkpoint_id),
            operators=tuple(program_parts.operator_shape(vertex, node) for vertex, node in program_parts.operators(graph)),
            attempt_id=self.attempt_id,
            extra=self.metrics.snapshot(),
        )

    def checkpoint_completed(self, checkpoint: StoredCheckpoint) -> None:
        """Make results visible that the checkpoint covers; the coordinator calls this with the last acknowledgement."""
        manifest = checkpoint.manifest
        # First the results: whatever fails below, the job resumes from this checkpoint and does not compute them again.
        self.delivery.results.commit(manifest.checkpoint_id)
        self._sinks.commit(manifest.checkpoint_id, manifest.committables, manifest.job_id, manifest.lineage)
        self._sources.checkpoint_completed(manifest.checkpoint_id)
        self._end.checkpoint_completed(manifest.checkpoint_id, manifest.kind)

    def stop_failed(self) -> bool:
        """Continue after the checkpoint that was just completed, unless the input has ended; return whether it has ended."""
        self._end.stop_failed()
        assert self._epoch is not None
        return self._epoch[0].drain or self._end.input_ended

    def _finish_job(self) -> None:
        if not self.setup.checkpointing:
            self._sinks.commit_prepared(self.checkpoints.coordinator.uncommitted())
        self.delivery.results.commit_all()
        if (error := raised_by(self._sinks.close)) is not None:
            failure = failures.from_error(error, "the driver", recoverable=False)
            self.fail(replace(failure, why_final="all is committed, only close() failed"))
            return
        self.graph.transition_all(ExecutionState.FINISHED)
        if self.outcome is None:
            self.outcome = Finished()

"""One attempt to run a job, as the engine sees it: commands each epoch and processes its reports.

The decisions are made elsewhere (epoch_decider, admission, the coordinator's request_decider); this module collects the facts for
them and carries them out. It never raises into the engine: every error becomes the attempt's outcome, even one that would end a
program, such as sys.exit() in a source's enumerator.
"""

from __future__ import annotations

import logging
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

import msgspec

import flinkish
from flinkish.checkpoint.coordinator import Notifications, Trigger
from flinkish.checkpoint.manifest import (
    CheckpointKind,
    Committable,
    CoordinatorState,
    Manifest,
)
from flinkish.checkpoint.pending import Subtask
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common import pickling
from flinkish.common.clock import Clock
from flinkish.common.closing import Unwinding, raised_by
from flinkish.common.errors import EngineError, SourceError
from flinkish.common.ids import AttemptId, CheckpointId, Epoch, OperatorUid
from flinkish.jobmaster import failures, program_parts
from flinkish.jobmaster.admission import Admission, EpochCost
from flinkish.jobmaster.alignment import AlignmentGroups
from flinkish.jobmaster.bell import Bell
from flinkish.jobmaster.checkpointing import JobCheckpoints
from flinkish.jobmaster.committers import Committers
from flinkish.jobmaster.delivery import Delivery
from flinkish.jobmaster.epoch_decider import (
    EndAttempt,
    EpochFacts,
    RunEpoch,
    WaitFor,
    decide,
)
from flinkish.jobmaster.epochs import NativePosition
from flinkish.jobmaster.execution_graph import ExecutionGraph, ExecutionState
from flinkish.jobmaster.failures import JobFailure
from flinkish.jobmaster.job_metrics import JobMetrics
from flinkish.jobmaster.native_coordinator import NativeSourceCoordinator
from flinkish.jobmaster.setup import JobSetup
from flinkish.jobmaster.source_coordinator import (
    SourceCoordinator,
    source_coordinator,
    states_by_uid,
)
from flinkish.program.sinks import END_OF_INPUT_CHECKPOINT
from flinkish.runtime import faults
from flinkish.runtime.protocol import EpochCommand, EpochReport, ReaderCommand, TaskFailure

_log = logging.getLogger("flinkish.jobmaster")

#: Longest time between two polls of readers that had no records.
_LONGEST_POLL_MS = 1_000
#: Pause before the final checkpoint of a job whose input has ended is retried.
_FINAL_RETRY_MS = 1_000
#: Key in CoordinatorState.extra of the committables that sinks of a job without checkpoints prepared at the end of their input.
_PREPARED = "prepared_at_end_of_input"


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


class Attempt:
    """The EpochLoop of one attempt."""

    def __init__(
        self,
        setup: JobSetup,
        *,
        number: int,
        attempt_id: AttemptId,
        restored: StoredCheckpoint | None,
        clock: Clock,
        bell: Bell,
        graph: ExecutionGraph,
        metrics: JobMetrics,
        delivery: Delivery,
        checkpoints: JobCheckpoints,
    ) -> None:
        """Create an attempt; the arguments after `restored` live as long as the job."""
        self.number = number
        self.attempt_id = attempt_id
        self.outcome: Outcome | None = None
        self.epochs_begun = 0
        #: Whether the tasks run: the first epoch has been completed.
        self.running = False
        self._setup = setup
        self._restored = restored
        self._clock = clock
        self._bell = bell
        self._graph = graph
        self._metrics = metrics
        self._delivery = delivery
        self._results = delivery.results
        self._checkpoints = checkpoints
        job_graph = setup.plan.job_graph
        self._subtasks = tuple(
            Subtask(vertex.id, subtask) for vertex in job_graph.vertices.values() for subtask in range(vertex.parallelism)
        )
        self._expected = {(level, slot) for level in range(len(setup.plan.levels)) for slot in range(setup.plan.slots)}
        self._sources: dict[OperatorUid, SourceCoordinator] = {
            node.uid: source_coordinator(
                node,
                setup.configuration,
                clock,
                post=bell.post,
                wake_up=bell.ring,
                limit=setup.admission,
                job_id=setup.job_id,
            )
            for node in program_parts.sources(job_graph)
        }
        self._alignment = AlignmentGroups(self._sources.values())
        self._committers: Committers | None = None
        self._command: EpochCommand | None = None
        self._trigger: Trigger | None = None
        self._completed: StoredCheckpoint | None = None
        #: Whether the job was to stop with a savepoint that could not be written after its checkpoint was completed.
        self._stop_failed = False
        self._began = 0
        self._ended = clock.monotonic()
        self._admission = Admission(setup.admission)
        self._poll_delay = setup.poll_interval
        self._carry_over: dict[int, bytes] = {}
        self._next_timer: int | None = None
        #: Whether tasks of a batch job have records left that they held back.
        self._held = False
        #: Whether the client did not take results as fast as they came, since the end of the last epoch.
        self._client_waits = False
        #: Whether there was nothing to do since the end of the last epoch.
        self._waited = False
        #: The engine has seen input of its own sources that comes with the epoch after the next.
        self._native_arrived = False
        self._finished: set[Subtask] = set()
        self._final_due: int | None = None
        #: Whether only the farewell epoch is left, in which functions are notified of the last checkpoint and closed.
        self._farewell = False
        self._listens = program_parts.listens_to_checkpoints(job_graph)
        #: Whether an object in the tasks has its own close().
        self._closes = False
        #: Committables that sinks of a job without checkpoints have prepared.
        self._prepared: list[Committable] = []

    # -- life ----------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Commit the restored checkpoint's committables again, and start the sources; errors become the outcome."""
        restored = self._restored
        try:
            if restored is not None:
                faults.reach(faults.Point.RESTORING)
            nodes = [*program_parts.sinks(self._setup.plan.job_graph), *program_parts.dead_letters(self._setup.dead_letters)]
            self._committers = Committers(
                nodes,
                self._setup.configuration,
                job_name=self._setup.job_name,
                dead_letters=self._setup.dead_letters if self._setup.keeps_dead_letters else None,
            )
            if restored is not None:
                prepared = restored.manifest.coordinator.extra.get(_PREPARED)
                if prepared is not None:
                    self._prepared = msgspec.msgpack.decode(prepared, type=list[Committable])
                manifest = self._without_untrusted(restored)
                self._committers.restore(manifest, self._setup.lineage, trusted=restored.trusted)
        except Unwinding:
            raise
        except BaseException as error:
            self.fail(failures.from_error(error, "committing what the last checkpoint holds"))
            return
        states = states_by_uid(restored.manifest.coordinator.sources) if restored is not None else {}
        trusted = restored is None or restored.trusted
        for uid, source in self._sources.items():
            if (raised := raised_by(source.start, states.get(uid), trusted=trusted)) is not None:
                self.fail(failures.from_error(raised, f"starting {source.node.label}"))
                return

    def _without_untrusted(self, restored: StoredCheckpoint) -> Manifest:
        """Return the manifest; if another key signed it, its committables are removed, which is logged in one line."""
        manifest = restored.manifest
        if restored.trusted:
            return manifest
        left = [*manifest.committables, *self._prepared]
        self._prepared = []
        if left:
            _log.warning(
                "Checkpoint %d in %s was signed by another key than ours: %d committables of %s are left alone, neither "
                "committed nor removed.",
                restored.checkpoint_id, restored.root, len(left), ", ".join(sorted({each.operator_uid for each in left})),
            )  # fmt: skip
        return replace(manifest, committables=())

    def close(self) -> None:
        """Release the attempt's resources on the driver; errors are logged."""
        self._bell.drop_posted()
        for source in self._sources.values():
            if (error := raised_by(source.close)) is not None:
                _log.warning("Closing %s failed.", source.node.label, exc_info=error)
        if self._committers is not None and (error := raised_by(self._committers.close)) is not None:
            _log.warning("Closing a committer failed.", exc_info=error)

    def fail(self, failure: JobFailure) -> None:
        """End the attempt with a failure, unless it already has an outcome."""
        if self.outcome is None:
            self.outcome = Failed(failure=failure)
            if failure.vertex is not None and failure.subtask is not None:
                self._graph.fail(failure.vertex, failure.subtask, failure.message)
        self._bell.ring()

    def cancel(self) -> None:
        """End the attempt because the job is to end; may be called from any thread."""
        if self.outcome is None:
            self.outcome = Cancelled()
        self._bell.ring()

    # -- EpochLoop -----------------------------------------------------------------------------------------------------------

    @property
    def committing(self) -> str | None:
        """A clause about the commit that runs; None = there is none."""
        return None if self._committers is None else self._committers.committing

    @property
    def over(self) -> bool:
        """Whether there will be no further epoch."""
        return self.outcome is not None

    def begin_epoch(self) -> EpochCommand | None:
        """Block until there is an epoch to run and return its command; None = the attempt is over."""
        try:
            return self._begin()
        except Unwinding:
            raise
        except BaseException as error:
            self.fail(failures.from_error(error, "the driver"))
            return None

    def finish_epoch(self, reports: Sequence[EpochReport]) -> None:
        """Process the reports of the epoch begun last."""
        if self.outcome is not None:
            return  # results of a cancelled epoch must not become visible
        if (error := raised_by(self._finish, reports)) is not None:
            self.fail(failures.from_error(error, "the driver"))

    def native_starts(self) -> Mapping[OperatorUid, NativePosition]:
        """Return the positions of the engine's own sources; a source without one starts from its beginning."""
        return {uid: start for uid, source in self._native().items() if (start := source.start_position) is not None}

    def native_reads(self, positions: Mapping[OperatorUid, NativePosition]) -> None:
        """Learn up to where the next epoch reads the engine's own sources."""
        for uid, source in self._native().items():
            source.reads(positions[uid])

    def native_arrived(self) -> None:
        """Have the next epoch run; from any thread."""
        self._native_arrived = True
        self._bell.ring()

    def _native(self) -> Mapping[OperatorUid, NativeSourceCoordinator]:
        return {uid: source for uid, source in self._sources.items() if isinstance(source, NativeSourceCoordinator)}

    # -- beginning -----------------------------------------------------------------------------------------------------------

    def _begin(self) -> EpochCommand | None:
        bell = self._bell
        while True:
            since = bell.rings
            self._run_posted()
            if self.running and self.outcome is None and not self._farewell:
                self._checkpoints.serve_requests()
            if self.outcome is None:
                self._refresh_sources()
            trigger = self._next_trigger() if self.running and self.outcome is None and not self._farewell else None
            back_pressured = self._results.full
            self._client_waits = self._client_waits or back_pressured
            match decide(self._facts(trigger, back_pressured)):
                case RunEpoch(reason=reason):
                    command = self._make_command(trigger, 0 if back_pressured else self._admission.credit)
                    _log.debug(
                        "Epoch %d of attempt %d: %s, credit %d.", command.epoch, self.number, reason.value, self._admission.credit
                    )
                    return command
                case WaitFor(timeout=timeout):
                    self._waited = True
                    bell.wait(since, timeout)
                case EndAttempt():
                    return None
                case unexpected:
                    assert_never(unexpected)

    def _run_posted(self) -> None:
        for call in self._bell.take_posted():
            if (error := raised_by(call)) is not None:
                self.fail(failures.from_error(error, "a handler that a source's enumerator gave to call_async"))
                return

    def _refresh_sources(self) -> None:
        for source in self._sources.values():
            if (error := raised_by(source.refresh)) is not None:
                self.fail(failures.from_error(error, f"reading {source.node.label} on the driver"))
                return

    def _next_trigger(self) -> Trigger | None:
        self._checkpoints.look()
        if self.outcome is not None:
            return None
        if self._final_due is None:
            return self._checkpoints.coordinator.trigger_if_due()
        now = self._clock.monotonic()
        if now < self._final_due:
            return None
        self._final_due = now + _FINAL_RETRY_MS
        return self._checkpoints.coordinator.trigger_final()

    def _facts(self, trigger: Trigger | None, back_pressured: bool) -> EpochFacts:
        sources = self._sources.values()
        next_checkpoint = self._final_due
        if next_checkpoint is None and self.running and self.outcome is None:
            next_checkpoint = self._checkpoints.coordinator.next_trigger_time()
        looks = [due for due in (next_checkpoint, self._checkpoints.next_look) if due is not None]
        idle = self._setup.idle_interval
        return EpochFacts(
            wall=self._clock.wall_time(),
            now=self._clock.monotonic(),
            over=self.outcome is not None,
            first=self.epochs_begun == 0,
            farewell=self._farewell,
            barrier_due=trigger is not None,
            next_checkpoint=min(looks, default=None),
            input_ready=self._held or self._native_arrived or any(source.input_ready for source in sources),
            back_pressured=back_pressured,
            next_timer=self._next_timer,
            next_poll=self._ended + self._poll_delay if any(source.wants_poll for source in sources) else None,
            idle_deadline=None if idle is None else self._ended + idle,
        )

    def _make_command(self, trigger: Trigger | None, credit: int) -> EpochCommand:
        readers: dict[tuple[OperatorUid, int], ReaderCommand] = {}
        if not self._farewell:
            for uid, source in self._sources.items():
                readers.update({(uid, subtask): command for subtask, command in source.commands(credit).items()})
        notices = self._checkpoints.coordinator.take_notifications() if self.running else Notifications((), ())
        self._native_arrived = False
        if trigger is not None:
            for source in self._sources.values():
                source.prepare_snapshot()
        first = self.epochs_begun == 0
        command = EpochCommand(
            attempt_id=self.attempt_id,
            attempt_number=self.number,
            epoch=Epoch(self.epochs_begun),
            processing_time=self._clock.wall_time(),
            steady_time=self._clock.monotonic(),
            readers=readers,
            carry_over=dict(self._carry_over),
            barrier=None if trigger is None else trigger.barrier,
            next_checkpoint=self._next_checkpoint(trigger),
            completed_checkpoints=notices.completed_checkpoints,
            aborted_checkpoints=notices.aborted_checkpoints,
            restore=self._restored.to_restore() if first and self._restored is not None else None,
            release=credit,
            drain=trigger is not None and trigger.drain,
            farewell=self._farewell,
        )
        self._command, self._trigger = command, trigger
        self.epochs_begun += 1
        if trigger is not None:
            faults.reach(faults.Point.CHECKPOINT_BEGUN)
        self._began = self._clock.monotonic()
        self._metrics.epoch_begins(self._began, credit, waited=self._waited)
        self._waited = False
        if first:
            self._graph.transition_all(ExecutionState.INITIALIZING)
        return command

    def _next_checkpoint(self, trigger: Trigger | None) -> CheckpointId | None:
        if trigger is not None:
            return trigger.barrier.checkpoint_id
        last = self._checkpoints.coordinator.last_id
        if last is None:
            return None
        # Before the first epoch the coordinator does not know the checkpoint that the attempt starts from.
        return CheckpointId(max(last, 0 if self._restored is None else self._restored.checkpoint_id) + 1)

    # -- finishing -----------------------------------------------------------------------------------------------------------

    def _finish(self, reports: Sequence[EpochReport]) -> None:
        command = self._command
        assert command is not None, "finish_epoch without begin_epoch"
        self._metrics.introduce(reports)
        failed = min((report for report in reports if report.failure is not None), key=lambda r: (r.level, r.slot), default=None)
        if failed is not None and failed.failure is not None:
            for report in reports:
                if report.failure is not None and report is not failed:
                    other = self._describe(report.failure)
                    text = other.text(full_traceback=self._setup.full_traceback)
                    _log.warning("Operator %r failed as well:\n%s", report.failure.operator_name, text)
            failure = self._describe(failed.failure)
            if failed.failure.in_close and self._completed is not None:
                # The next attempt would start from the complete checkpoint, close functions that did nothing, and so hide the
                # error.
                failure = replace(failure, recoverable=False, why_final="its last checkpoint is complete, only close() failed")
            self.fail(failure)
            return
        self._check_complete(command, reports)
        ended_before, self._ended = self._ended, self._clock.monotonic()
        records, most = self._take_reports(reports)
        elapsed = float(self._ended - self._began)
        busy = self._metrics.add(reports, elapsed, float(self._ended - ended_before), client_waits=self._client_waits)
        self._client_waits = False
        sent = max(sum(metrics.bytes_out for metrics in report.metrics) for report in reports)
        special = command.barrier is not None or command.epoch == 0
        self._admission.observe(EpochCost(records=most, busy_ms=busy, elapsed_ms=elapsed, bytes=sent, special=special))
        longest = max(_LONGEST_POLL_MS, self._setup.poll_interval)
        self._poll_delay = self._setup.poll_interval if records else min(longest, 2 * self._poll_delay)
        if not self.running:
            self._start_running()
        for subtask in self._finished:
            self._graph.finish(subtask.vertex, subtask.subtask)
        self._delivery.deliver(reports)
        if command.farewell:
            self._finish_job()
            return
        self._take_checkpoint_parts(reports)
        if self.outcome is None:
            self._answer_readers()
            self._end_if_done()

    def _describe(self, failure: TaskFailure) -> JobFailure:
        return failures.from_task(failure, self._setup.plan.job_graph.vertices[failure.vertex].parallelism)

    def _check_complete(self, command: EpochCommand, reports: Sequence[EpochReport]) -> None:
        """Raise if a report is missing; this is the only check, as Spark's own (of state commits) is off for a clean stop."""
        got = {(report.level, report.slot) for report in reports if report.epoch == command.epoch}
        if got != self._expected or len(reports) != len(self._expected):
            raise EngineError(
                f"epoch {command.epoch} of attempt {self.number}: {len(reports)} reports came back, expected one of each of "
                f"{len(self._expected)} (level, slot); missing: {sorted(self._expected - got)}"
            )
        for report in reports:
            if report.process:
                _check_versions(report)

    def _take_reports(self, reports: Sequence[EpochReport]) -> tuple[int, int]:
        """Store positions, carry-over and timers; return the numbers of records read in total and by the busiest reader."""
        total = most = 0
        for report in reports:
            if report.carry_over is not None:
                self._carry_over[report.slot] = report.carry_over
            for (uid, subtask), reader in report.readers.items():
                self._sources[uid].apply(subtask, reader)
                total += reader.records
                most = max(most, reader.records)
            most = max(most, report.released)
            for metrics in report.metrics:
                if metrics.finished:
                    self._finished.add(Subtask(metrics.vertex, metrics.subtask))
            for uid, subtask, committables in report.final_committables:
                self._prepared.extend(Committable(operator_uid=uid, subtask=subtask, data=data) for data in committables)
        self._held = any(report.holds for report in reports)
        self._closes = any(report.closes for report in reports)
        self._alignment.update()
        self._next_timer = min((report.next_timer for report in reports if report.next_timer is not None), default=None)
        return total, most

    def _start_running(self) -> None:
        self.running = True
        self._graph.transition_all(ExecutionState.RUNNING)
        self._checkpoints.begin_attempt(self, self._subtasks, restored=self._restored)

    def _take_checkpoint_parts(self, reports: Sequence[EpochReport]) -> None:
        coordinator, trigger = self._checkpoints.coordinator, self._trigger
        self._completed = None
        # A checkpoint that took longer than its timeout is aborted, even if all of its parts have arrived.
        coordinator.expire_overdue()
        for report in reports:
            for decline in report.declines:
                coordinator.receive_decline(decline)
        if trigger is not None:
            checkpoint_id = trigger.barrier.checkpoint_id
            self._results.mark(checkpoint_id)
            try:
                state = self._coordinator_state(checkpoint_id)
            except Unwinding:
                raise
            except BaseException as error:
                coordinator.coordinator_state_failed(checkpoint_id, error)
            else:
                coordinator.receive_coordinator_state(checkpoint_id, state)
        for report in reports:
            for acknowledgement in report.acknowledgements:
                coordinator.receive_acknowledgement(acknowledgement)

    def _coordinator_state(self, checkpoint_id: CheckpointId) -> CoordinatorState:
        assert self._committers is not None
        setup = self._setup
        graph = setup.plan.job_graph
        prepared = {_PREPARED: msgspec.msgpack.encode(self._prepared)} if self._prepared else {}
        sources = []
        for source in self._sources.values():
            try:
                sources.append(source.snapshot(checkpoint_id))
            except Unwinding:
                raise
            except BaseException as error:
                raise SourceError(f"{source.node.label}: the snapshot of its enumerator failed: {error!r}") from error
        return CoordinatorState(
            job_name=setup.job_name,
            sources=tuple(sources),
            operators=tuple(program_parts.operator_shape(vertex, node) for vertex, node in program_parts.operators(graph)),
            graph_fingerprint=program_parts.fingerprint(graph),
            attempt_id=self.attempt_id,
            extra={**prepared, **self._committers.snapshot()},
        )

    def checkpoint_completed(self, checkpoint: StoredCheckpoint) -> None:
        """Make results visible that the checkpoint covers; the coordinator calls this with the last acknowledgement."""
        assert self._committers is not None
        manifest = checkpoint.manifest
        # First the results: whatever fails below, the job resumes from this checkpoint and does not compute them again.
        self._results.commit(manifest.checkpoint_id)
        self._committers.commit(manifest.checkpoint_id, manifest.committables, manifest.job_id, manifest.lineage)
        for source in self._sources.values():
            if (error := raised_by(source.checkpoint_completed, manifest.checkpoint_id)) is not None:
                raise SourceError(
                    f"{source.node.label}: notify_checkpoint_complete of its enumerator failed: {error!r}"
                ) from error
        self._completed = checkpoint

    def stop_failed(self) -> bool:
        """Continue after the checkpoint that was just completed, unless the input has ended; return whether it has ended."""
        self._stop_failed = True
        drained = self._trigger is not None and self._trigger.drain
        return drained or len(self._finished) == len(self._subtasks)

    def _answer_readers(self) -> None:
        for source in self._sources.values():
            if (error := raised_by(source.after_epoch)) is not None:
                self.fail(failures.from_error(error, f"the enumerator of {source.node.label}"))
                return

    def _end_if_done(self) -> None:
        """Finish if the job was to end with the last epoch's checkpoint, or all input has ended and everything is committed."""
        ended = len(self._finished) == len(self._subtasks)
        kind = None if self._completed is None else self._completed.manifest.kind
        stops = kind is CheckpointKind.STOP_SAVEPOINT and not self._stop_failed
        self._stop_failed = False
        if stops or (ended and kind is not None):
            # The barrier of a checkpoint in the epoch in which the last input ended follows that end, so it is the final one.
            self._say_farewell(self._listens or self._closes)
        elif ended and not self._setup.checkpointing:
            self._say_farewell(self._closes)
        elif ended and self._final_due is None:
            self._final_due = self._clock.monotonic()

    def _say_farewell(self, needed: bool) -> None:
        """End the job; if needed, first run one more epoch in which functions are notified and closed (0.2 s on Spark)."""
        if needed:
            self._farewell = True
        else:
            self._finish_job()

    def _finish_job(self) -> None:
        if not self._setup.checkpointing:
            self._commit_prepared()
        self._results.commit_all()
        assert self._committers is not None
        if (error := raised_by(self._committers.close)) is not None:
            failure = failures.from_error(error, "the driver", recoverable=False)
            self.fail(replace(failure, why_final="all is committed, only close() failed"))
            return
        self._graph.transition_all(ExecutionState.FINISHED)
        if self.outcome is None:
            self.outcome = Finished()

    def _commit_prepared(self) -> None:
        """Commit everything at the end of the input of a job without checkpoints."""
        assert self._committers is not None
        faults.reach(faults.Point.SINKS_TO_COMMIT)
        # For a savepoint during the run, writers prepared committables that no checkpoint has committed.
        prepared = [*self._checkpoints.coordinator.uncommitted(), *self._prepared]
        self._committers.commit(END_OF_INPUT_CHECKPOINT, prepared, self._setup.job_id, self._setup.lineage)
        faults.reach(faults.Point.SINKS_COMMITTED)


def _check_versions(report: EpochReport) -> None:
    """Raise if a slot host's versions differ from the driver's, because they exchange pickled objects."""
    minor = ".".join(platform.python_version().split(".")[:2])
    for name, ours in (("python", minor), ("flinkish", flinkish.__version__), ("cloudpickle", pickling.CLOUDPICKLE_VERSION)):
        theirs = report.process.get(name)
        if theirs is not None and theirs != ours and not str(theirs).startswith(f"{ours}."):
            raise EngineError(
                f"slot {report.slot} runs {name} {theirs}, the driver {ours}",
                hint="driver and executors must have the same versions; set PYSPARK_PYTHON, or send one environment to all.",
            )

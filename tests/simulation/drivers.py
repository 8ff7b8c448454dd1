"""The driver processes of a simulated job: what the JobMaster does with a coordinator, attempt by attempt and epoch by epoch."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, cast

import msgspec

from flinkish.checkpoint import paths
from flinkish.checkpoint.coordinator import CheckpointCoordinator, Trigger
from flinkish.checkpoint.delta_log import DeltaLog
from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage
from flinkish.checkpoint.failure_manager import FailureReason
from flinkish.checkpoint.history import JobHistory
from flinkish.checkpoint.manifest import CheckpointKind, CoordinatorState, OperatorShape
from flinkish.checkpoint.pending import Subtask
from flinkish.checkpoint.statistics import CheckpointRecord
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.errors import CheckpointError, CorruptCheckpointError, FlinkishError, StaleGenerationError
from flinkish.common.ids import CheckpointId, Generation, LineageId
from flinkish.graph.job_graph import VertexId
from flinkish.runtime.protocol import Acknowledgement, CheckpointPart, Restore
from tests.simulation.invariants import position_of
from tests.simulation.model import Content
from tests.simulation.store import SimulatedLog
from tests.simulation.tasks import MAX_PARALLELISM, Command, Report, Slot
from tests.unit.checkpoint.support import COUNT, JOB, KEY, SINK, A, B, reason_of

if TYPE_CHECKING:
    from tests.simulation.world import World

_T = TypeVar("_T")

_decode_records = msgspec.msgpack.Decoder(list[int]).decode


@dataclass(slots=True)
class _Held:
    """An acknowledgement that arrives late, or never; until then its part counts as being written."""

    ack: Acknowledgement
    part: CheckpointPart
    epochs: int
    lost: bool


class Attempt:
    """The tasks of one attempt, and what the driver knows of them."""

    def __init__(self, world: World, name: str, parallelism: int, restored: StoredCheckpoint | None) -> None:
        self.slots = [Slot(world, name, subtask, parallelism) for subtask in range(parallelism)]
        self.blobs: list[bytes] = [b""] * parallelism
        self.epoch = 0
        self.position = 0 if restored is None else position_of(restored.manifest)
        self.restored = restored
        self.parts: dict[CheckpointId, CoordinatorState] = {}
        self.held: list[_Held] = []
        self.repeats: list[Acknowledgement] = []
        #: The input has ended, or was stopped: nothing more is read unless the last checkpoint fails.
        self.stopping = False

    @property
    def subtasks(self) -> list[Subtask]:
        return [Subtask(vertex, slot.subtask) for slot in self.slots for vertex in (A.vertex, B.vertex)]

    def content(self) -> Content:
        """Return the state of all slots, if all of them have it in memory."""
        merged: Content = {}
        for slot in self.slots:
            if slot.state is not None:
                merged |= slot.state.content()
        return merged


class Driver:
    """One driver process. Implements CoordinatorListener, and JobHistory for the coordinator."""

    def __init__(self, world: World, number: int) -> None:
        self.world = world
        self.number = number
        self.alive = True
        self.coordinator: CheckpointCoordinator | None = None
        self.attempt: Attempt | None = None
        self.attempts = 0
        self.generation = Generation(0)
        #: Why the attempt has to end.
        self.failure: BaseException | None = None
        self._stop_completed = False
        self._futures: list[Future[StoredCheckpoint]] = []

    def __str__(self) -> str:
        return f"driver {self.number}"

    # -- steps ---------------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Take over the job."""
        world = self.world
        storage = DeltaCheckpointStorage(
            world.directory,
            JOB,
            lineage=LineageId(world.ids()),
            signing_key=KEY,
            clock=world.clock,
            ids=world.ids,
            num_retained=world.settings.num_retained,
            durable=world.durable,
            delta_log=cast(type[DeltaLog], SimulatedLog),
        )
        self._reading(storage.peek)
        world.invariants.claims(self.number)
        self._reading(storage.claim)
        self.generation = storage.generation
        self.coordinator = CheckpointCoordinator(
            job_id=JOB,
            settings=world.settings,
            storage=storage,
            clock=world.clock,
            listener=self,
            history=cast(JobHistory, self),
        )
        self.storage = storage

    def _reading(self, read: Callable[[], _T]) -> _T:
        """Read the table: it is never damaged unless something has failed or gone on meanwhile."""
        before = self.world.disturbances
        try:
            return read()
        except CorruptCheckpointError as error:
            if before == self.world.disturbances:
                self.world.invariants.violated(f"I8: {self}: {error}")
            raise

    def advance(self) -> None:
        """Run one epoch, or start an attempt; errors end the attempt or this process, as in the JobMaster."""
        try:
            if self.coordinator is None:
                self.start()
            elif self.attempt is None:
                self._begin(self.coordinator)
            else:
                self._run_epoch(self.coordinator, self.attempt)
        except (FlinkishError, OSError) as error:
            self.failure = self.failure or error
            if self.attempt is None:
                self.leave()
        self.settle()

    def settle(self) -> None:
        """Carry out what the last calls have led to."""
        failure, self.failure = self.failure, None
        if self._stop_completed and self.alive:
            self.leave()
            assert self.coordinator is not None
            self.world.job_ends(self)
            self.coordinator.shutdown(self.world.end)
        elif isinstance(failure, StaleGenerationError):
            self.world.count("superseded")
            self.leave()
        elif failure is not None and self.alive and self.attempt is not None:
            self.world.count("attempt failed")
            self.end_attempt()

    def leave(self) -> None:
        """End this process by itself; its slots may outlive it for a while."""
        self.alive = False

    def end_attempt(self) -> None:
        assert self.coordinator is not None
        self.attempt = None
        self.coordinator.end_attempt(FailureReason.JOB_FAILED)

    def request(self, kind: str) -> None:
        """Request a checkpoint, a savepoint or a stop, as a client does."""
        if self.coordinator is None or self.attempt is None:
            return
        if kind == "checkpoint":
            self.coordinator.trigger_checkpoint()
        else:
            future = self.coordinator.trigger_savepoint(self.world.savepoints, stop=kind != "savepoint", drain=kind == "drain")
            future.add_done_callback(self._savepoint_done)
        self.settle()

    def _savepoint_done(self, future: Future[StoredCheckpoint]) -> None:
        if future.exception() is None:
            stored = future.result()
            self.world.count(f"{stored.manifest.kind.value} done")
            self.world.invariants.savepoints.append(stored)
            self._stop_completed = stored.manifest.kind is CheckpointKind.STOP_SAVEPOINT

    def look(self) -> None:
        """Check, as it does from time to time, whether another driver has taken over."""
        if self.coordinator is not None:
            self.coordinator.check_generation()
            self.settle()

    # -- attempts ------------------------------------------------------------------------------------------------------------

    def _begin(self, coordinator: CheckpointCoordinator) -> None:
        world = self.world
        before = world.disturbances
        restored = self._reading(coordinator.latest)
        if before == world.disturbances:
            world.invariants.restored(self.number, 0 if restored is None else restored.checkpoint_id)
        self.attempts += 1
        name = f"{self.number}-{self.attempts}"
        attempt = Attempt(world, name, world.rng.randint(1, world.largest), restored)
        world.count("attempt")
        if restored is not None:
            world.count("restored")
            self._commit(restored)
        self._reading(partial(self._run_slots, attempt, self._command(attempt, range(0), None, ())))
        if all(slot.state is not None for slot in attempt.slots):
            world.invariants.same(attempt.content(), attempt.position, f"attempt {name}")
        self.attempt = attempt
        coordinator.begin_attempt(attempt.subtasks, restored=None if restored is None else restored.checkpoint_id)

    def _command(
        self,
        attempt: Attempt,
        records: range,
        trigger: Trigger | None,
        aborted: tuple[CheckpointId, ...],
    ) -> Command:
        restore: Restore | None = None
        if attempt.epoch == 0 and attempt.restored is not None:
            restore = attempt.restored.to_restore()
        return Command(
            epoch=attempt.epoch,
            records=records,
            barrier=None if trigger is None else trigger.barrier,
            aborted=aborted,
            restore=restore,
        )

    def _run_slots(self, attempt: Attempt, command: Command) -> list[Report]:
        """Run an epoch in all slots; a try may be lost with its process, or its result may, and is then repeated."""
        reports = []
        for slot in attempt.slots:
            report, blob = self.world.run_slot(slot, command, attempt.blobs[slot.subtask])
            reports.append(report)
            attempt.blobs[slot.subtask] = blob
        attempt.epoch += 1
        attempt.position += len(command.records)
        return reports

    def _run_epoch(self, coordinator: CheckpointCoordinator, attempt: Attempt) -> None:
        world, rng = self.world, self.world.rng
        coordinator.expire_overdue()
        trigger = None if self.failure is not None else coordinator.trigger_if_due()
        if self.failure is not None:
            return
        if trigger is not None:
            world.invariants.trigger(self.number, trigger.barrier.checkpoint_id)
            if trigger.kind is CheckpointKind.PERIODIC:
                world.invariants.limits(self.number, coordinator.pending, world.settings.effective_max_concurrent)
            attempt.stopping = attempt.stopping or trigger.kind is CheckpointKind.STOP_SAVEPOINT
        completed, aborted = coordinator.take_notifications()
        world.invariants.notify(self.number, completed, aborted)
        count = 0 if world.finishing or (attempt.stopping and trigger is None) else rng.randint(0, 4)
        records = range(attempt.position, attempt.position + count)
        reports = self._run_slots(attempt, self._command(attempt, records, trigger, aborted))
        self._take_parts(coordinator, attempt, trigger, reports)

    # -- what attempt.py does after an epoch ---------------------------------------------------------------------------------

    def _take_parts(
        self, coordinator: CheckpointCoordinator, attempt: Attempt, trigger: Trigger | None, reports: list[Report]
    ) -> None:
        coordinator.expire_overdue()
        for report in reports:
            for decline in report.declines:
                coordinator.receive_decline(decline)
        if trigger is not None:
            self._take_own_part(coordinator, attempt, trigger.barrier.checkpoint_id)
        acks = [ack for report in reports for ack in report.acknowledgements]
        uploading = [part for report in reports for part in report.uploading]
        for ack in self._disturb(attempt, acks, uploading):
            coordinator.receive_acknowledgement(ack)
        coordinator.receive_uploading(uploading)
        for checkpoint_id in coordinator.acknowledged():
            if self.failure is None and checkpoint_id in coordinator.pending:
                coordinator.receive_coordinator_state(checkpoint_id, attempt.parts[checkpoint_id])
        attempt.parts = {each: attempt.parts[each] for each in coordinator.pending if each in attempt.parts}

    def _take_own_part(self, coordinator: CheckpointCoordinator, attempt: Attempt, checkpoint_id: CheckpointId) -> None:
        if self.world.happens(self.world.rates.driver_part):
            coordinator.coordinator_state_failed(checkpoint_id, OSError("an enumerator's snapshot failed"))
            return
        parallelism = len(attempt.slots)
        attempt.parts[checkpoint_id] = CoordinatorState(
            job_name="simulated",
            sources=(),
            operators=tuple(
                OperatorShape(uid=uid, name=uid, parallelism=parallelism, max_parallelism=MAX_PARALLELISM, kind="")
                for uid in (COUNT, SINK)
            ),
            extra={"position": attempt.position.to_bytes(4, "big")},
        )

    def _disturb(self, attempt: Attempt, acks: list[Acknowledgement], uploading: list[CheckpointPart]) -> list[Acknowledgement]:
        """Return the acknowledgements that arrive now: some late, never, twice, in another order, of nobody."""
        world, rng, rates = self.world, self.world.rng, self.world.rates
        arrived = []
        for ack in acks:
            if world.happens(rates.late):
                part = CheckpointPart(
                    checkpoint_id=ack.checkpoint_id, vertex=ack.vertex, subtask=ack.subtask, committables=ack.committables
                )
                attempt.held.append(_Held(ack, part, rng.randint(1, 6), world.happens(0.3)))
            else:
                arrived.append(ack)
        for held in list(attempt.held):
            held.epochs -= 1
            if held.epochs < 0:
                attempt.held.remove(held)
                world.count("ack lost" if held.lost else "ack late")
                if not held.lost:
                    arrived.append(held.ack)
            else:
                uploading.append(held.part)
        if world.happens(rates.repeated) and (arrived or attempt.repeats):
            attempt.repeats = [*attempt.repeats, *arrived][-5:]
            world.count("ack repeated")
            arrived.append(rng.choice(attempt.repeats))
            if world.happens(0.2):
                arrived.append(replace(arrived[0], vertex=VertexId(99), files=(), committables={}))
        rng.shuffle(arrived)
        return arrived

    # -- CoordinatorListener -------------------------------------------------------------------------------------------------

    def checkpoint_completed(self, checkpoint: StoredCheckpoint) -> None:
        self.world.count("completed")
        if any(not file.path.startswith(f"chk-{checkpoint.checkpoint_id}-") for file in checkpoint.manifest.files):
            self.world.count("shared files")
        self.world.invariants.complete(self.number, checkpoint)
        if self.world.happens(self.world.rates.sink):
            raise OSError("the sink cannot be reached")
        self._commit(checkpoint)
        if self.world.happens(self.world.rates.sink):
            raise OSError("the sink's answer was lost")

    def _commit(self, checkpoint: StoredCheckpoint) -> None:
        """Have the sink commit; a repeated commit has no effect."""
        committables = checkpoint.manifest.committables
        records = [record for each in committables for record in _decode_records(each.data)]
        self.world.invariants.commit(checkpoint.manifest, records)

    def stop_failed(self, checkpoint: StoredCheckpoint) -> str:
        self.world.count("stop failed")
        if self.attempt is not None:
            self.attempt.stopping = False
        return "the job goes on"

    def fail_job(self, error: CheckpointError) -> None:
        self.failure = error

    def wake_up(self) -> None:
        """Nothing waits here."""

    # -- JobHistory ----------------------------------------------------------------------------------------------------------

    def checkpoint_ended(self, record: CheckpointRecord) -> None:
        if record.failure is None:
            return
        reason = reason_of(record)
        self.world.count(f"aborted: {reason.name}")
        unknown = None
        if "(CommitOutcomeUnknownError" in record.failure:
            self.world.count("unknown outcome")
            unknown = paths.folder_name(record.checkpoint_id, self.generation)
        self.world.invariants.abort(self.number, record.checkpoint_id, unknown=unknown)
        if reason is FailureReason.FINALIZE_FAILED and "no retained checkpoint names" in record.failure:
            self.world.invariants.violated(f"a checkpoint that shares files was refused: {record.failure}")
        if self.attempt is not None:
            self.attempt.stopping = False

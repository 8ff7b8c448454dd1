"""A coordinator among messages that get lost, doubled and late, storage that fails, and attempts that end: the invariants hold.

Each seed is one run; a failing one is replayed by its number.
"""

from __future__ import annotations

import random
from typing import cast

import pytest

from flinkish.checkpoint.checkpoint_settings import CheckpointSettings
from flinkish.checkpoint.coordinator import CheckpointCoordinator
from flinkish.checkpoint.history import JobHistory
from flinkish.checkpoint.pending import Subtask
from flinkish.common.clock import ManualClock
from flinkish.common.errors import CommitOutcomeUnknownError
from flinkish.common.ids import CheckpointId
from flinkish.graph.job_graph import VertexId
from flinkish.runtime.protocol import Acknowledgement, Decline
from tests.unit.checkpoint.support import JOB, FakeStorage, Listener, ack, coordinator_state

SUBTASKS = [Subtask(VertexId(vertex), subtask) for vertex in (1, 2) for subtask in (0, 1)]


class Simulation:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.clock = ManualClock(0)
        self.storage = FakeStorage()
        self.listener = Listener()
        self.settings = CheckpointSettings(
            interval=50,
            timeout=200,
            min_pause=self.rng.choice([0, 0, 30]),
            max_concurrent=self.rng.choice([1, 2, 5]),
            tolerable_failures=-1,
            savepoint_directory="/savepoints",
        )
        self.coordinator = CheckpointCoordinator(
            job_id=JOB,
            settings=self.settings,
            storage=self.storage,
            clock=self.clock,
            listener=self.listener,
            history=cast(JobHistory, self.listener),
        )
        self.in_flight: list[Acknowledgement | Decline | CheckpointId] = []
        self.triggered: list[int] = []
        self.prepared: set[bytes] = set()
        self.notified: list[int] = []
        self.aborted_notices: list[int] = []
        self.trace: list[str] = []
        self.begin()

    def begin(self) -> None:
        latest = self.coordinator.latest()
        self.coordinator.begin_attempt(SUBTASKS, restored=None if latest is None else latest.checkpoint_id)
        self.in_flight.clear()
        self.prepared.clear()
        self.committed_before = len(self.listener.completed)

    def step(self) -> None:
        action = self.rng.choice(["trigger"] * 4 + ["message"] * 12 + ["time"] * 3 + ["fault", "savepoint", "restart", "kill"])
        self.trace.append(action)
        match action:
            case "trigger":
                trigger = self.coordinator.trigger_if_due()
                if trigger is not None:
                    self.send_parts(trigger.barrier.checkpoint_id)
            case "message" if self.in_flight:
                self.deliver(self.in_flight.pop(self.rng.randrange(len(self.in_flight))))
            case "time":
                self.clock.advance(self.rng.choice([1, 20, 60, 250]))
                self.coordinator.expire_overdue()
            case "fault":
                call = self.rng.choice(["prepare", "commit", "commit_savepoint"])
                error = (
                    self.rng.choice([OSError("full"), CommitOutcomeUnknownError("unknown")])
                    if call == "commit"
                    else OSError("full")
                )
                self.storage.fail[call] = error
            case "kill" if self.rng.random() < 0.5:
                self.kill(self.rng.choice(SUBTASKS))
            case "savepoint" if self.rng.random() < 0.5:
                self.coordinator.trigger_savepoint()
            case "restart" if self.rng.random() < 0.3:
                self.coordinator.end_attempt()
                self.begin()
            case _:
                pass
        if self.rng.random() < 0.3:
            notices = self.coordinator.take_notifications()
            self.notified.extend(notices.completed_checkpoints)
            self.aborted_notices.extend(notices.aborted_checkpoints)
        self.check()

    def kill(self, subtask: Subtask) -> None:
        """End the process of a subtask while it writes; what its writers prepared has come with the reports of the barriers."""
        writing = [message for message in self.in_flight if isinstance(message, Acknowledgement)]
        self.coordinator.receive_uploading(writing)
        self.prepared.update(item for message in writing for many in message.committables.values() for item in many)
        lost = [message for message in writing if (message.vertex, message.subtask) == subtask]
        self.in_flight = [message for message in self.in_flight if message not in lost]
        self.coordinator.receive_uploading([message for message in writing if message not in lost])

    def send_parts(self, checkpoint_id: CheckpointId) -> None:
        self.triggered.append(checkpoint_id)
        self.in_flight.append(checkpoint_id)
        for number, subtask in enumerate(SUBTASKS):
            fate = self.rng.random()
            if fate < 0.05:
                self.in_flight.append(
                    Decline(checkpoint_id=checkpoint_id, vertex=subtask.vertex, subtask=subtask.subtask, reason="no")
                )
                continue
            data = b"%d-%d" % (checkpoint_id, number)
            message = ack(checkpoint_id, subtask, committables=(data,))
            self.in_flight.extend([message] * (2 if fate > 0.9 else 1))

    def deliver(self, message: Acknowledgement | Decline | int) -> None:
        match message:
            case Acknowledgement():
                self.coordinator.receive_acknowledgement(message)
                self.prepared.update(item for many in message.committables.values() for item in many)
            case Decline():
                self.coordinator.receive_decline(message)
            case _:
                self.coordinator.receive_coordinator_state(CheckpointId(message), coordinator_state(message))

    def check(self) -> None:
        completed = self.listener.completed_ids
        aborted = [number for number, _ in self.listener.aborted]
        assert self.triggered == sorted(set(self.triggered)), "ids rise strictly"
        assert completed == sorted(set(completed)), "completed once each, in order"
        assert len(aborted) == len(set(aborted)), "aborted once each"
        assert not set(completed) & set(aborted), "never both completed and aborted"
        assert len(self.notified) == len(set(self.notified)), "tasks are told once"
        assert set(self.notified) <= set(completed), "tasks are told of completed ones only"
        assert set(self.aborted_notices) <= set(aborted)
        latest = self.coordinator.latest()
        assert (0 if latest is None else latest.checkpoint_id) == (completed[-1] if completed else 0), (
            "the last one is restorable"
        )
        assert not set(completed) & {int(path.split("-")[1]) for path in self.storage.discarded}, (
            "no completed state is discarded"
        )
        committed = [
            item.data for stored in self.listener.completed[self.committed_before :] for item in stored.manifest.committables
        ]
        assert len(committed) == len(set(committed)), "nothing is committed twice"
        assert set(committed) <= self.prepared
        if completed and len(self.listener.completed) > self.committed_before:
            owed = {data for data in self.prepared if int(data.split(b"-")[0]) <= completed[-1]}
            late = owed - set(committed)
            kept = {item.data for item in self.coordinator.uncommitted()}
            assert late <= kept, "nothing that a writer has forgotten is lost"


@pytest.mark.parametrize("block", range(10))
def test_the_invariants_hold_whatever_happens(block: int) -> None:
    completed = 0
    for seed in range(block * 50, block * 50 + 50):
        simulation = Simulation(seed)
        try:
            for _ in range(250):
                simulation.step()
        except AssertionError as error:
            raise AssertionError(f"seed {seed} after {len(simulation.trace)} steps: {simulation.trace[-15:]}") from error
        completed += len(simulation.listener.completed)
    assert completed > 50, "the runs did complete checkpoints"

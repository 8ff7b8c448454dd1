"""The checkpoint coordinator; after the behaviours that the tests of Flink's CheckpointCoordinator name."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from pathlib import Path
from typing import cast

import pytest

from flinkish.checkpoint.checkpoint_settings import CheckpointSettings, JobEnd, Retention
from flinkish.checkpoint.coordinator import CheckpointCoordinator, Trigger
from flinkish.checkpoint.failure_manager import FailureReason
from flinkish.checkpoint.history import JobHistory
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.pending import Subtask
from flinkish.checkpoint.statistics import CheckpointStatus
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.clock import ManualClock
from flinkish.common.errors import (
    CheckpointError,
    CommitOutcomeUnknownError,
    ConfigurationError,
    InvalidArgumentError,
    SinkError,
    StaleGenerationError,
)
from flinkish.common.ids import CheckpointId
from flinkish.graph.job_graph import VertexId
from flinkish.runtime.protocol import Decline, StateFile

from .support import JOB, SINK, A, B, FakeStorage, Listener, ack, coordinator_state

STRANGER = Subtask(VertexId(99), 0)


class World:
    """A coordinator with everything round it under the test's control."""

    def __init__(self, settings: CheckpointSettings | None = None, *, begin: bool = True, triggered: int = 0) -> None:
        self.clock = ManualClock(1_000)
        self.storage = FakeStorage()
        self.listener = Listener()
        self.coordinator = CheckpointCoordinator(
            job_id=JOB,
            settings=settings or CheckpointSettings(interval=100, timeout=1_000, savepoint_directory="/savepoints"),
            storage=self.storage,
            clock=self.clock,
            listener=self.listener,
            history=cast(JobHistory, self.listener),
        )
        if begin:
            self.coordinator.begin_attempt([A, B])
        for _ in range(triggered):
            self.trigger()

    def trigger(self) -> Trigger:
        """Let the interval pass and start the periodic checkpoint."""
        trigger = self.look_after(100)
        assert trigger is not None
        return trigger

    def look_after(self, milliseconds: int) -> Trigger | None:
        """Let time pass, and start the checkpoint that is due."""
        self.clock.advance(milliseconds)
        return self.coordinator.trigger_if_due()

    def finish(self, checkpoint_id: int, *, committables: tuple[bytes, ...] = ()) -> None:
        """Bring all parts of a checkpoint."""
        self.coordinator.receive_acknowledgement(ack(checkpoint_id, A))
        self.coordinator.receive_acknowledgement(ack(checkpoint_id, B, committables=committables))
        self.coordinator.receive_coordinator_state(CheckpointId(checkpoint_id), coordinator_state())

    def take(self, checkpoint_id: int, *, committables: tuple[bytes, ...] = ()) -> None:
        """Start the periodic checkpoint, which gets this id, and bring all its parts."""
        self.trigger()
        self.finish(checkpoint_id, committables=committables)

    def decline(self, checkpoint_id: int, subtask: Subtask = A) -> None:
        self.coordinator.receive_decline(
            Decline(checkpoint_id=CheckpointId(checkpoint_id), vertex=subtask.vertex, subtask=subtask.subtask, reason="no space")
        )

    @property
    def latest(self) -> int | None:
        """The id of the last complete checkpoint."""
        found = self.coordinator.latest()
        return None if found is None else found.checkpoint_id

    def savepoint(self, *, stop: bool = False, drain: bool = False) -> tuple[Future[StoredCheckpoint], Trigger]:
        future = self.coordinator.trigger_savepoint("/savepoints", stop=stop, drain=drain)
        trigger = self.coordinator.trigger_if_due()
        assert trigger is not None
        return future, trigger


def error_of(future: Future[StoredCheckpoint]) -> str:
    error = future.exception(timeout=0)
    assert isinstance(error, CheckpointError)
    return str(error)


def file(name: str) -> StateFile:
    return StateFile(path=name, size=5, sha256="", rows=3, operator_uids=(), key_groups=(-1, -1))


# -- triggering -------------------------------------------------------------------------------------------------------------


def test_a_periodic_checkpoint_that_is_brought_forward_starts_at_once_and_the_next_an_interval_later() -> None:
    world = World()
    world.clock.advance(30)
    world.coordinator.bring_forward()
    trigger = world.coordinator.trigger_if_due()
    assert trigger is not None
    assert trigger.kind is CheckpointKind.PERIODIC
    assert world.coordinator.next_trigger_time() == 1_130


def test_a_checkpoint_that_is_brought_forward_keeps_the_pause_after_the_one_before() -> None:
    world = World(CheckpointSettings(interval=100, timeout=1_000, min_pause=80))
    world.take(1)
    world.coordinator.bring_forward()
    assert world.coordinator.trigger_if_due() is None
    assert world.look_after(80) is not None


def test_nothing_is_brought_forward_in_a_job_that_takes_no_periodic_checkpoints() -> None:
    world = World(CheckpointSettings(interval=None, timeout=1_000))
    world.coordinator.bring_forward()
    assert world.coordinator.trigger_if_due() is None


def test_the_first_periodic_checkpoint_starts_one_interval_after_the_attempt() -> None:
    world = World()
    assert world.coordinator.next_trigger_time() == 1_100
    assert world.coordinator.trigger_if_due() is None
    trigger = world.look_after(100)
    assert trigger is not None
    assert trigger.kind is CheckpointKind.PERIODIC
    assert (trigger.barrier.checkpoint_id, trigger.barrier.timestamp) == (1, 1_100)
    assert trigger.barrier.directory == "/checkpoints/chk-1-g1"


def test_checkpoint_ids_rise_by_one_also_after_aborted_ones_and_new_attempts() -> None:
    world = World(CheckpointSettings(interval=100, tolerable_failures=5))
    ids = [world.trigger().barrier.checkpoint_id]
    world.decline(1)
    ids.append(world.trigger().barrier.checkpoint_id)
    world.coordinator.end_attempt()
    world.coordinator.begin_attempt([A, B])
    ids.append(world.trigger().barrier.checkpoint_id)
    assert ids == [1, 2, 3]


def test_ids_go_on_after_the_checkpoint_that_was_restored() -> None:
    world = World(begin=False)
    world.coordinator.begin_attempt([A, B], restored=CheckpointId(41))
    assert world.trigger().barrier.checkpoint_id == 42
    assert world.coordinator.figures().counts.restored == 1


def test_periodic_checkpoints_keep_their_rate() -> None:
    world = World()
    starts = []
    for _ in range(3):
        trigger = world.trigger()
        starts.append(trigger.barrier.timestamp)
        world.finish(trigger.barrier.checkpoint_id)
    assert starts == [1_100, 1_200, 1_300]


def test_checkpoints_that_were_missed_are_not_made_up_for() -> None:
    world = World()
    first = world.look_after(1_050)
    assert first is not None
    world.finish(first.barrier.checkpoint_id)
    assert world.coordinator.trigger_if_due() is None
    assert world.coordinator.next_trigger_time() == 2_150


def test_no_periodic_checkpoint_without_an_interval() -> None:
    world = World(CheckpointSettings())
    world.clock.advance(10_000_000)
    assert world.coordinator.next_trigger_time() is None
    assert world.coordinator.trigger_if_due() is None


def test_the_next_checkpoint_waits_for_the_one_in_progress() -> None:
    world = World(triggered=1)
    assert world.look_after(100) is None
    world.finish(1)
    assert world.coordinator.next_trigger_time() == world.clock.monotonic()
    assert world.coordinator.trigger_if_due() is not None


@pytest.mark.parametrize("asynchronous", [True, False])
def test_epochs_wait_for_the_files_of_their_snapshots_if_these_must_not_be_asynchronous(asynchronous: bool) -> None:
    world = World(CheckpointSettings(interval=100, asynchronous=asynchronous))
    assert world.trigger().barrier.waits is not asynchronous


def test_incremental_checkpoints_are_based_on_the_last_completed_one_and_savepoints_on_none() -> None:
    world = World(CheckpointSettings(interval=100, incremental=True, max_concurrent=2))
    first = world.trigger().barrier
    second = world.trigger().barrier
    assert (first.incremental, first.base, second.base) == (True, None, None)
    world.finish(1)
    third = world.trigger().barrier
    assert (third.incremental, third.base) == (True, 1)
    world.finish(2)
    assert not world.savepoint()[1].barrier.incremental
    world.finish(3)
    world.coordinator.trigger_checkpoint(full=True)
    full = world.coordinator.trigger_if_due()
    assert full is not None
    assert (full.barrier.incremental, full.barrier.base) == (True, None)
    assert not World().trigger().barrier.incremental


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_no_more_checkpoints_than_allowed_are_in_progress(limit: int) -> None:
    world = World(CheckpointSettings(interval=100, max_concurrent=limit))
    for _ in range(limit):
        world.trigger()
    assert world.look_after(1_000) is None
    assert len(world.coordinator.pending) == limit


def test_the_pause_counts_from_the_completion() -> None:
    world = World(CheckpointSettings(interval=100, min_pause=60), triggered=1)
    world.clock.advance(90)
    world.finish(1)  # at 1190: the interval would allow 1200, the pause 1250
    assert world.look_after(20) is None
    assert world.coordinator.next_trigger_time() == 1_250
    assert world.look_after(40) is not None


def test_a_checkpoint_that_was_asked_for_ignores_interval_and_pause() -> None:
    world = World(CheckpointSettings(interval=100, min_pause=60))
    world.take(1)
    future = world.coordinator.trigger_checkpoint()
    assert world.listener.wake_ups == 1
    assert world.coordinator.next_trigger_time() == world.clock.monotonic()
    trigger = world.coordinator.trigger_if_due()
    assert trigger is not None
    assert trigger.kind is CheckpointKind.REQUESTED
    world.finish(2)
    assert future.result(timeout=0).checkpoint_id == 2


def test_a_request_waits_until_the_checkpoint_in_progress_has_failed() -> None:
    world = World(CheckpointSettings(interval=100, tolerable_failures=1), triggered=1)
    world.coordinator.trigger_checkpoint()
    assert world.coordinator.trigger_if_due() is None
    world.decline(1)
    assert world.coordinator.trigger_if_due() is not None


def test_nothing_is_triggered_while_no_attempt_runs() -> None:
    world = World(begin=False)
    assert world.look_after(10_000) is None
    assert world.coordinator.next_trigger_time() is None
    assert "not all tasks" in error_of(world.coordinator.trigger_savepoint())
    assert "not all tasks" in error_of(world.coordinator.trigger_checkpoint())


def test_nothing_is_triggered_after_an_attempt_has_ended() -> None:
    world = World()
    world.coordinator.end_attempt()
    assert world.look_after(10_000) is None


def test_nothing_is_triggered_after_shutdown() -> None:
    world = World()
    world.coordinator.shutdown(JobEnd.FINISHED)
    assert world.look_after(10_000) is None
    assert "ending" in error_of(world.coordinator.trigger_savepoint())
    with pytest.raises(CheckpointError, match="shut down"):
        world.coordinator.begin_attempt([A])


def test_requests_that_wait_fail_when_the_job_ends() -> None:
    world = World()
    future = world.coordinator.trigger_savepoint()
    world.coordinator.shutdown(JobEnd.CANCELED)
    assert "the job ended" in error_of(future)


def test_beyond_the_limit_of_waiting_requests_the_least_important_fails() -> None:
    world = World(CheckpointSettings(max_queued=1, savepoint_directory="/savepoints"))
    first = world.coordinator.trigger_checkpoint()
    second = world.coordinator.trigger_savepoint()
    assert "too many" in error_of(first)
    assert not second.done()


def test_an_attempt_without_subtasks_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="subtasks"):
        World(begin=False).coordinator.begin_attempt([])


def test_a_place_that_cannot_be_prepared_is_a_failure_that_counts() -> None:
    world = World(CheckpointSettings(interval=100, tolerable_failures=1))
    for _ in range(2):
        world.storage.fail["prepare"] = OSError(28, "No space left on device")
        assert world.look_after(100) is None
    assert len(world.listener.failures) == 1
    assert "No space left" in str(world.listener.failures[0])
    # A part of a place may have been made: its id is not used a second time.
    assert world.trigger().barrier.checkpoint_id == 3


def test_two_threads_that_trigger_at_once_start_one_checkpoint() -> None:
    world = World()
    world.clock.advance(100)
    barrier = threading.Barrier(4)
    triggers: list[Trigger | None] = []

    def run() -> None:
        barrier.wait(60)
        triggers.append(world.coordinator.trigger_if_due())

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sum(trigger is not None for trigger in triggers) == 1


# -- completion -------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_completes_when_all_parts_are_in() -> None:
    world = World(triggered=1)
    world.coordinator.receive_acknowledgement(ack(1, A))
    world.coordinator.receive_acknowledgement(ack(1, B))
    assert world.listener.completed_ids == []
    world.coordinator.receive_coordinator_state(CheckpointId(1), coordinator_state())
    assert world.listener.completed_ids == [1]
    assert world.coordinator.pending == ()
    assert world.latest == 1


def test_the_drivers_part_may_come_first() -> None:
    world = World(triggered=1)
    world.coordinator.receive_coordinator_state(CheckpointId(1), coordinator_state())
    world.coordinator.receive_acknowledgement(ack(1, A))
    world.coordinator.receive_acknowledgement(ack(1, B))
    assert world.listener.completed_ids == [1]


def test_tasks_are_told_once_about_each_checkpoint() -> None:
    world = World(CheckpointSettings(interval=100, tolerable_failures=5))
    world.take(1)
    world.trigger()
    world.decline(2)
    assert world.coordinator.take_notifications() == ((1,), (2,))
    assert world.coordinator.take_notifications() == ((), ())


def test_the_committables_of_all_subtasks_are_in_the_checkpoint() -> None:
    world = World(triggered=1)
    world.coordinator.receive_acknowledgement(ack(1, B, committables=(b"2", b"3")))
    world.coordinator.receive_acknowledgement(ack(1, A, committables=(b"1",)))
    world.coordinator.receive_coordinator_state(CheckpointId(1), coordinator_state())
    committables = world.listener.completed[0].manifest.committables
    assert [(item.operator_uid, item.data) for item in committables] == [(SINK, b"1"), (SINK, b"2"), (SINK, b"3")]


def test_a_failing_sink_commit_is_raised_and_the_checkpoint_stays_completed() -> None:
    world = World(triggered=1)
    world.listener.commit_error = RuntimeError("sink is down")
    with pytest.raises(RuntimeError, match="sink is down"):
        world.finish(1)
    assert world.latest == 1
    assert world.listener.aborted == []


def test_old_checkpoints_are_cleaned_up_after_each_completion_but_not_those_in_progress() -> None:
    world = World(CheckpointSettings(interval=100, max_concurrent=2), triggered=1)
    world.take(1)
    assert world.storage.cleaned == [(2,)]


def test_listeners_may_call_the_coordinator() -> None:
    world = World()
    seen: list[tuple[int, ...]] = []
    original = world.listener.checkpoint_completed

    def completed(checkpoint: StoredCheckpoint) -> None:
        original(checkpoint)
        thread = threading.Thread(target=lambda: seen.append(world.coordinator.pending))
        thread.start()
        thread.join(60)

    world.listener.checkpoint_completed = completed  # type: ignore[method-assign]
    world.take(1)
    assert seen == [()]


# -- duplicates, strangers, late messages -----------------------------------------------------------------------------------


def test_a_duplicate_acknowledgement_changes_nothing_and_deletes_nothing() -> None:
    world = World(triggered=1)
    world.coordinator.receive_acknowledgement(ack(1, A, files=(file("a"),), committables=(b"1",)))
    again = ack(1, A, files=(file("a"),), committables=(b"1",))
    world.coordinator.receive_acknowledgement(again)
    world.coordinator.receive_acknowledgement(ack(1, B))
    world.coordinator.receive_coordinator_state(CheckpointId(1), coordinator_state())
    manifest = world.listener.completed[0].manifest
    assert [item.path for item in manifest.files] == ["a"]
    assert [item.data for item in manifest.committables] == [b"1"]
    assert world.storage.discarded_files == []


def test_the_state_of_an_unknown_subtask_is_discarded() -> None:
    world = World(triggered=1)
    world.coordinator.receive_acknowledgement(ack(1, STRANGER, files=(file("x"),)))
    assert world.storage.discarded_files == ["x"]
    assert world.coordinator.pending == (1,)


def test_messages_about_unknown_checkpoints_never_raise() -> None:
    world = World()
    world.coordinator.receive_acknowledgement(ack(77, A, files=(file("x"),)))
    world.coordinator.receive_acknowledgement(ack(77, STRANGER))
    world.decline(77)
    world.coordinator.receive_coordinator_state(CheckpointId(77), coordinator_state())
    world.coordinator.coordinator_state_failed(CheckpointId(77), ValueError())
    assert world.storage.discarded_files == []


def test_the_state_of_a_late_acknowledgement_is_discarded() -> None:
    world = World(CheckpointSettings(interval=100, tolerable_failures=1), triggered=1)
    world.decline(1)
    world.coordinator.receive_acknowledgement(ack(1, B, files=(file("late"),)))
    assert world.storage.discarded_files == ["late"]


def test_an_acknowledgement_after_completion_deletes_nothing() -> None:
    world = World()
    world.take(1)
    world.coordinator.receive_acknowledgement(ack(1, A, files=(file("a"),)))
    assert world.storage.discarded_files == []
    assert world.listener.completed_ids == [1]


# -- timeouts ---------------------------------------------------------------------------------------------------------------


def test_a_checkpoint_expires_alone_and_its_state_is_discarded_once() -> None:
    world = World(CheckpointSettings(interval=100, timeout=150, max_concurrent=2, tolerable_failures=5), triggered=1)
    world.coordinator.receive_acknowledgement(ack(1, A))
    world.trigger()
    world.clock.advance(50)
    world.coordinator.expire_overdue()
    world.coordinator.expire_overdue()
    assert world.storage.discarded == ["/checkpoints/chk-1-g1"]
    assert world.listener.aborted == [(1, FailureReason.EXPIRED)]
    assert world.coordinator.pending == (2,)
    world.coordinator.receive_acknowledgement(ack(1, B))
    assert world.listener.completed_ids == []
    world.finish(2)
    assert world.listener.completed_ids == [2]


def test_the_coordinator_asks_to_be_woken_for_a_timeout() -> None:
    world = World(CheckpointSettings(interval=10_000, timeout=1_000))
    world.look_after(10_000)
    assert world.coordinator.next_trigger_time() == world.clock.monotonic() + 1_000


def test_of_several_overdue_checkpoints_each_is_aborted_once_also_if_the_first_ends_the_job() -> None:
    world = World(CheckpointSettings(interval=100, timeout=1_000, max_concurrent=2))
    assert [world.trigger().barrier.checkpoint_id for _ in range(2)] == [1, 2]
    world.storage.fail["check_generation"] = StaleGenerationError("generation 2")
    world.clock.advance(1_000)
    world.coordinator.expire_overdue()
    assert world.listener.aborted == [(1, FailureReason.EXPIRED), (2, FailureReason.SUPERSEDED_DRIVER)]
    world.coordinator.receive_acknowledgement(ack(2, A))
    assert len(world.listener.failures) == 1


def test_an_expired_checkpoint_names_who_did_not_acknowledge() -> None:
    world = World(triggered=1)
    world.coordinator.receive_acknowledgement(ack(1, A))
    world.clock.advance(1_000)
    world.coordinator.expire_overdue()
    assert "vertex 2 subtask 0" in str(world.listener.failures[0])


def test_after_a_timeout_the_next_checkpoint_may_start() -> None:
    world = World(CheckpointSettings(interval=100, timeout=100, tolerable_failures=5), triggered=1)
    world.clock.advance(100)
    world.coordinator.expire_overdue()
    assert world.coordinator.trigger_if_due() is not None


# -- subsumption ------------------------------------------------------------------------------------------------------------


def test_a_completed_checkpoint_aborts_older_ones_and_leaves_later_ones() -> None:
    world = World(CheckpointSettings(interval=100, max_concurrent=3))
    for _ in range(3):
        world.trigger()
    world.finish(2)
    assert world.listener.aborted == [(1, FailureReason.SUBSUMED)]
    assert world.storage.discarded == ["/checkpoints/chk-1-g1"]
    assert world.coordinator.pending == (3,)
    world.coordinator.receive_acknowledgement(ack(1, A))
    world.finish(3)
    assert world.listener.completed_ids == [2, 3]
    assert world.listener.failures == []


def test_a_pending_savepoint_is_not_subsumed() -> None:
    world = World(CheckpointSettings(interval=100, max_concurrent=3))
    future, _ = world.savepoint()
    world.take(2)
    assert world.coordinator.pending == (1,)
    world.finish(1)
    assert future.result(timeout=0).checkpoint_id == 1


def test_a_savepoint_in_passing_subsumes_nothing_and_notifies_nobody() -> None:
    world = World(CheckpointSettings(interval=100, max_concurrent=3), triggered=1)
    future, _ = world.savepoint()
    world.finish(2)
    assert future.done()
    assert world.coordinator.pending == (1,)
    assert world.listener.completed_ids == []
    assert world.coordinator.take_notifications() == ((), ())
    assert world.coordinator.latest() is None


# -- declines and failures --------------------------------------------------------------------------------------------------


def test_a_decline_aborts_just_that_checkpoint() -> None:
    world = World(CheckpointSettings(interval=100, max_concurrent=2, tolerable_failures=5), triggered=2)
    world.decline(1)
    world.decline(1, B)
    assert world.listener.aborted == [(1, FailureReason.DECLINED)]
    assert world.storage.discarded == ["/checkpoints/chk-1-g1"]
    assert world.coordinator.pending == (2,)


def test_a_checkpoint_counts_once_however_many_tasks_fail_it() -> None:
    world = World(CheckpointSettings(interval=100, tolerable_failures=1), triggered=1)
    world.decline(1)
    world.decline(1, B)
    assert world.listener.failures == []


def test_a_checkpoint_waits_for_subtasks_that_still_write() -> None:
    world = World()
    checkpoint_id = world.trigger().barrier.checkpoint_id
    world.coordinator.receive_acknowledgement(ack(checkpoint_id, A))
    for _ in range(3):
        world.coordinator.receive_uploading([ack(checkpoint_id, B)])
        assert world.coordinator.pending == (checkpoint_id,)
        assert world.coordinator.acknowledged() == ()
    world.coordinator.receive_acknowledgement(ack(checkpoint_id, B))
    world.coordinator.receive_uploading([])
    assert world.coordinator.acknowledged() == (checkpoint_id,)
    world.coordinator.receive_coordinator_state(checkpoint_id, coordinator_state())
    assert world.listener.completed_ids == [checkpoint_id]


def test_a_checkpoint_whose_part_nobody_writes_any_more_is_aborted_without_counting() -> None:
    world = World(CheckpointSettings(interval=100, max_concurrent=2, tolerable_failures=0))
    first, second = world.trigger().barrier.checkpoint_id, world.trigger().barrier.checkpoint_id
    world.coordinator.receive_acknowledgement(ack(first, A))
    world.coordinator.receive_uploading([ack(second, A), ack(second, B)])
    assert world.listener.aborted == [(first, FailureReason.SNAPSHOT_LOST)]
    assert world.coordinator.pending == (second,)
    assert world.listener.failures == []


def test_what_a_writer_prepared_is_taken_before_its_files_are_written_and_only_once() -> None:
    world = World()
    first = world.trigger().barrier.checkpoint_id
    world.coordinator.receive_uploading([ack(first, A, committables=[b"a"]), ack(first, B)])
    world.coordinator.receive_uploading([])  # both processes have ended
    assert world.coordinator.pending == ()
    second = world.trigger().barrier.checkpoint_id
    world.coordinator.receive_uploading([ack(second, A, committables=[b"b"]), ack(second, B)])
    world.coordinator.receive_acknowledgement(ack(second, A, committables=[b"b"]))
    world.finish(second)
    assert [each.data for each in world.storage.stored[-1].manifest.committables] == [b"a", b"b"]


@pytest.mark.parametrize(
    ("settings", "waits"), [(CheckpointSettings(interval=100), False), (CheckpointSettings(interval=None), True)]
)
def test_the_barrier_of_a_savepoint_waits_only_in_a_job_that_takes_no_checkpoints(
    settings: CheckpointSettings, waits: bool
) -> None:
    world = World(settings)
    assert world.savepoint()[1].barrier.waits is waits


def test_the_barriers_with_which_a_job_ends_wait() -> None:
    assert World().savepoint(stop=True)[1].barrier.waits
    world = World()
    assert not world.trigger().barrier.waits
    trigger = world.coordinator.trigger_final()
    assert trigger is not None
    assert trigger.barrier.waits


def test_more_failures_than_tolerable_fail_the_job_once() -> None:
    world = World(CheckpointSettings(interval=100, tolerable_failures=1), triggered=1)
    world.decline(1)
    assert world.listener.failures == []
    world.trigger()
    world.decline(2)
    assert len(world.listener.failures) == 1
    assert "no space" in str(world.listener.failures[0])


def test_the_drivers_own_failure_aborts_the_checkpoint() -> None:
    world = World(CheckpointSettings(interval=100, tolerable_failures=1), triggered=1)
    world.coordinator.coordinator_state_failed(CheckpointId(1), ValueError("enumerator is broken"))
    assert world.listener.aborted == [(1, FailureReason.SNAPSHOT_FAILED)]


def test_the_end_of_an_attempt_aborts_everything_without_counting() -> None:
    world = World(CheckpointSettings(interval=100, max_concurrent=2), triggered=2)
    waiting = world.coordinator.trigger_checkpoint()
    world.coordinator.end_attempt()
    assert world.listener.aborted == [(1, FailureReason.JOB_FAILED), (2, FailureReason.JOB_FAILED)]
    assert world.listener.failures == []
    assert "failed over" in error_of(waiting)


def test_messages_of_an_old_attempt_do_not_reach_a_new_one() -> None:
    world = World(triggered=1)
    world.coordinator.receive_acknowledgement(ack(1, A, committables=(b"old",)))
    world.coordinator.end_attempt()
    world.coordinator.begin_attempt([A, B])
    trigger = world.trigger()
    world.finish(trigger.barrier.checkpoint_id)
    assert world.listener.completed[0].manifest.committables == ()


# -- storing ----------------------------------------------------------------------------------------------------------------


def test_a_commit_that_fails_aborts_the_checkpoint_and_discards_its_state() -> None:
    world = World(CheckpointSettings(interval=100, tolerable_failures=1), triggered=1)
    world.storage.fail["commit"] = OSError(28, "No space left on device")
    world.finish(1)
    assert world.listener.aborted == [(1, FailureReason.FINALIZE_FAILED)]
    assert world.storage.discarded == ["/checkpoints/chk-1-g1"]
    assert world.listener.completed_ids == []


def test_nothing_is_discarded_when_the_outcome_of_a_commit_is_unknown() -> None:
    world = World(CheckpointSettings(interval=100, tolerable_failures=1), triggered=1)
    world.storage.fail["commit"] = CommitOutcomeUnknownError("the connection broke")
    world.finish(1)
    assert world.listener.aborted == [(1, FailureReason.FINALIZE_FAILED)]
    assert world.storage.discarded == []


def test_an_older_checkpoint_does_not_replace_one_that_may_have_completed() -> None:
    world = World(CheckpointSettings(interval=100, max_concurrent=3, tolerable_failures=1), triggered=3)
    world.storage.fail["commit"] = CommitOutcomeUnknownError("the connection broke")
    world.finish(2)
    assert world.listener.aborted == [(2, FailureReason.FINALIZE_FAILED), (1, FailureReason.SUBSUMED)]
    world.finish(1)
    assert world.listener.completed_ids == []
    world.finish(3)
    assert world.listener.completed_ids == [3]


def test_a_superseded_driver_stops_for_good_and_deletes_nothing() -> None:
    world = World(CheckpointSettings(interval=100, max_concurrent=2, retention=Retention.RETAIN_ON_CANCELLATION), triggered=2)
    world.storage.fail["commit"] = StaleGenerationError("generation 2 has taken over")
    world.finish(2)
    assert isinstance(world.listener.failures[0], StaleGenerationError)
    assert len(world.listener.failures) == 1
    assert world.storage.discarded == []
    assert world.listener.completed_ids == []
    assert world.look_after(10_000) is None
    world.coordinator.shutdown(JobEnd.FAILED)
    assert world.storage.deleted_all == 0


def test_a_driver_that_is_superseded_learns_it_when_it_triggers() -> None:
    world = World()
    world.storage.fail["prepare"] = StaleGenerationError("generation 2 has taken over")
    assert world.look_after(100) is None
    assert isinstance(world.listener.failures[0], StaleGenerationError)


def test_a_superseded_driver_leaves_no_folder_for_the_savepoint_with_which_it_was_to_stop() -> None:
    world = World()
    world.storage.fail["prepare"] = StaleGenerationError("generation 2 has taken over")
    world.coordinator.trigger_savepoint("/savepoints", stop=True)
    assert world.coordinator.trigger_if_due() is None
    assert world.storage.discarded == ["/savepoints"]


def test_a_driver_whose_sinks_fail_to_commit_because_it_is_superseded_says_so() -> None:
    world = World(triggered=1)
    world.listener.commit_error = SinkError("the table holds the rows of checkpoint 2 already")
    world.storage.fail["check_generation"] = StaleGenerationError("generation 2 has taken over")
    with pytest.raises(SinkError):
        world.finish(1)
    assert [type(failure) for failure in world.listener.failures] == [StaleGenerationError]


def test_a_driver_whose_checkpoint_fails_because_it_is_superseded_says_so() -> None:
    """Its successor removes the folder into which its tasks write: what they report is not the reason."""
    world = World(CheckpointSettings(interval=100), triggered=1)
    world.storage.fail["check_generation"] = StaleGenerationError("generation 2 has taken over")
    world.decline(1)
    assert [type(failure) for failure in world.listener.failures] == [StaleGenerationError]


def test_what_sinks_prepared_for_a_failed_checkpoint_goes_into_the_next_one() -> None:
    world = World(CheckpointSettings(interval=100, tolerable_failures=9), triggered=1)
    world.storage.fail["commit"] = OSError("disk is full")
    world.finish(1, committables=(b"one",))
    world.trigger()
    world.coordinator.receive_acknowledgement(ack(2, B, committables=(b"two",)))
    world.decline(2)
    world.trigger()
    world.clock.advance(600_000)
    world.coordinator.expire_overdue()
    world.coordinator.receive_acknowledgement(ack(3, B, committables=(b"three, late",)))
    trigger = world.coordinator.trigger_if_due()
    assert trigger is not None
    world.finish(4, committables=(b"four",))
    assert [item.data for item in world.listener.completed[0].manifest.committables] == [b"one", b"two", b"three, late", b"four"]
    world.take(5, committables=(b"five",))
    assert [item.data for item in world.listener.completed[1].manifest.committables] == [b"five"]


def test_what_sinks_prepared_for_a_checkpoint_that_their_own_task_declined_goes_into_the_next_one() -> None:
    world = World(CheckpointSettings(interval=100, tolerable_failures=9), triggered=1)
    decline = Decline(
        checkpoint_id=CheckpointId(1), vertex=B.vertex, subtask=B.subtask, reason="no space", committables={SINK: (b"one",)}
    )
    world.coordinator.receive_decline(decline)
    world.coordinator.receive_decline(decline)
    world.take(2, committables=(b"two",))
    assert [item.data for item in world.listener.completed[0].manifest.committables] == [b"one", b"two"]


def test_what_sinks_prepared_for_a_savepoint_in_passing_is_committed_with_the_next_checkpoint() -> None:
    world = World()
    future, _ = world.savepoint()
    world.finish(1, committables=(b"one",))
    assert [item.data for item in future.result(timeout=0).manifest.committables] == [b"one"]
    world.take(2, committables=(b"two",))
    assert [item.data for item in world.listener.completed[0].manifest.committables] == [b"one", b"two"]


def test_a_checkpoint_does_not_hold_what_was_prepared_after_it() -> None:
    world = World(CheckpointSettings(interval=100, max_concurrent=2), triggered=2)
    world.coordinator.receive_acknowledgement(ack(2, B, committables=(b"two",)))
    world.finish(1, committables=(b"one",))
    assert [item.data for item in world.listener.completed[0].manifest.committables] == [b"one"]


@pytest.mark.parametrize(
    ("retention", "end", "deleted"),
    [
        (Retention.NO_EXTERNALIZED_CHECKPOINTS, JobEnd.CANCELED, 1),
        (Retention.RETAIN_ON_CANCELLATION, JobEnd.CANCELED, 0),
        (Retention.DELETE_ON_CANCELLATION, JobEnd.FAILED, 0),
    ],
)
def test_checkpoints_are_deleted_at_the_end_as_the_retention_says(retention: Retention, end: JobEnd, deleted: int) -> None:
    world = World(CheckpointSettings(interval=100, retention=retention))
    world.coordinator.shutdown(end)
    world.coordinator.shutdown(end)
    assert world.storage.deleted_all == deleted


# -- savepoints and the end -------------------------------------------------------------------------------------------------


def test_a_savepoint_goes_into_its_own_folder() -> None:
    world = World()
    future, trigger = world.savepoint()
    assert trigger.kind is CheckpointKind.SAVEPOINT
    assert trigger.barrier.root == "/savepoints"
    assert trigger.kind is CheckpointKind.SAVEPOINT
    world.finish(1)
    assert future.result(timeout=0).root == Path("/savepoints")
    assert world.storage.stored == []


def test_a_savepoint_starts_while_a_checkpoint_is_in_progress() -> None:
    world = World(triggered=1)
    world.savepoint()
    assert world.coordinator.pending == (1, 2)


def test_savepoints_are_possible_without_periodic_checkpoints() -> None:
    world = World(CheckpointSettings())
    future, _ = world.savepoint()
    world.finish(1)
    assert future.done()


def test_a_savepoint_without_a_folder_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="savepoint-dir"):
        World(CheckpointSettings()).coordinator.trigger_savepoint()


def test_draining_without_stopping_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="stop=True"):
        World().coordinator.trigger_savepoint(drain=True)


def test_a_declined_savepoint_fails_for_whoever_asked() -> None:
    world = World(CheckpointSettings(tolerable_failures=1))
    future, _ = world.savepoint()
    world.decline(1)
    assert "no space" in error_of(future)


def test_a_savepoint_that_cannot_be_written_does_not_fail_the_job() -> None:
    world = World()
    future, _ = world.savepoint()
    world.storage.fail["commit_savepoint"] = OSError("no space")
    world.finish(1)
    assert "no space" in error_of(future)
    assert world.listener.failures == []


def test_a_stop_with_savepoint_is_a_checkpoint_and_a_copy_of_it() -> None:
    world = World()
    future, trigger = world.savepoint(stop=True, drain=True)
    assert trigger.kind is CheckpointKind.STOP_SAVEPOINT
    assert trigger.drain
    assert trigger.barrier.root == "/checkpoints"
    world.finish(1, committables=(b"one",))
    assert world.listener.completed_ids == [1]
    assert world.storage.exported == [(1, "/savepoints")]
    assert future.result(timeout=0).checkpoint_id == 1


def test_no_checkpoint_starts_once_the_job_is_stopping() -> None:
    world = World()
    world.savepoint(stop=True)
    assert world.look_after(500) is None
    assert "ending" in error_of(world.coordinator.trigger_savepoint())
    world.finish(1)
    assert world.coordinator.trigger_if_due() is None


@pytest.mark.parametrize("how", ["decline", "expire", "commit"])
@pytest.mark.parametrize("drain", [True, False])
def test_a_stop_with_savepoint_that_failed_after_the_barrier_fails_the_job_if_its_input_was_ended(how: str, drain: bool) -> None:
    world = World(CheckpointSettings(interval=100, timeout=1_000, tolerable_failures=100))
    future, _ = world.savepoint(stop=True, drain=drain)
    if how == "decline":
        world.decline(1)
    elif how == "expire":
        world.clock.advance(1_000)
        world.coordinator.expire_overdue()
    else:
        world.storage.fail["commit"] = OSError("no space")
        world.finish(1)
    assert "checkpoint 1" in error_of(future)
    assert "/savepoints" in world.storage.discarded
    if drain:
        assert len(world.listener.failures) == 1
        assert "stop" in str(world.listener.failures[0])
    else:
        assert world.listener.failures == []
        world.clock.advance(100)
        assert world.trigger().barrier.checkpoint_id == 2


def test_a_stop_into_a_folder_that_cannot_be_written_is_refused_before_any_task_hears_of_it() -> None:
    world = World()
    world.storage.fail["prepare_export"] = OSError("read-only")
    future = world.coordinator.trigger_savepoint("/savepoints", stop=True, drain=True)
    assert world.coordinator.trigger_if_due() is None
    assert "read-only" in error_of(future)
    assert world.listener.failures == []
    world.clock.advance(500)
    assert world.trigger().kind is CheckpointKind.PERIODIC


def test_a_stop_whose_copy_fails_is_no_stop_and_leaves_the_checkpoint() -> None:
    world = World()
    future, _ = world.savepoint(stop=True)
    world.storage.fail["export_savepoint"] = OSError("no space")
    world.finish(1)
    assert "no space" in error_of(future)
    assert "the listener's words" in error_of(future)
    assert world.listener.failures == []
    assert world.listener.failed_stops == [1]
    assert world.latest == 1


def test_after_a_failed_stop_the_next_attempt_takes_checkpoints_again() -> None:
    world = World()
    world.savepoint(stop=True)
    world.decline(1)
    world.coordinator.end_attempt()
    world.coordinator.begin_attempt([A, B])
    assert world.trigger().barrier.checkpoint_id == 2


def test_the_last_checkpoint_of_a_bounded_job_ignores_all_limits() -> None:
    world = World(CheckpointSettings(interval=100, min_pause=90), triggered=1)
    trigger = world.coordinator.trigger_final()
    assert trigger is not None
    assert trigger.kind is CheckpointKind.FINAL
    world.finish(2)
    assert world.listener.completed_ids == [2]
    assert world.look_after(5_000) is None


def test_a_final_checkpoint_that_failed_can_be_tried_again() -> None:
    world = World(CheckpointSettings(interval=100, tolerable_failures=1))
    world.coordinator.trigger_final()
    world.decline(1)
    trigger = world.coordinator.trigger_final()
    assert trigger is not None
    world.finish(2)
    assert world.listener.completed_ids == [2]


# -- figures ----------------------------------------------------------------------------------------------------------------


def test_the_statistics_count_and_remember() -> None:
    world = World(CheckpointSettings(interval=100, tolerable_failures=5, max_concurrent=3), triggered=1)
    world.coordinator.receive_acknowledgement(ack(1, A, files=(file("a"),)))
    world.clock.advance(7)
    world.coordinator.receive_acknowledgement(ack(1, B, files=(file("b"),)))
    world.coordinator.receive_coordinator_state(CheckpointId(1), coordinator_state())
    world.trigger()
    world.decline(2)
    world.trigger()
    statistics = world.coordinator.figures()
    counts = statistics.counts
    assert (counts.triggered, counts.in_progress, counts.completed, counts.failed) == (3, 1, 1, 1)
    assert [(record.checkpoint_id, record.status) for record in statistics.history] == [
        (3, CheckpointStatus.IN_PROGRESS),
        (2, CheckpointStatus.FAILED),
        (1, CheckpointStatus.COMPLETED),
    ]
    done = statistics.latest_completed
    assert done is not None
    assert (done.duration, done.state_size, done.state_rows, done.files, done.acknowledged) == (7, 10, 6, 2, 2)
    failed = statistics.latest_failed
    assert failed is not None
    assert "declined" in (failed.failure or "")


def test_a_savepoint_that_no_place_can_be_made_for_is_answered_whatever_is_raised() -> None:
    world = World()
    future = world.coordinator.trigger_savepoint("s3://bucket/savepoints")
    world.storage.fail["prepare"] = ConfigurationError("savepoint directory = 's3://bucket/savepoints': not a folder")
    assert world.coordinator.trigger_if_due() is None
    assert "not a folder" in str(future.exception(0))

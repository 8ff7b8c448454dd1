from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.statistics import CheckpointFigures, CheckpointRecord
from flinkish.checkpoint.storage import CheckpointDraft, StoredCheckpoint
from flinkish.common.configuration import Configuration
from flinkish.common.errors import (
    CheckpointError,
    CommitOutcomeUnknownError,
    CorruptCheckpointError,
    EngineError,
    JobCancelledError,
    JobExecutionError,
    SinkError,
    SourceError,
    StaleGenerationError,
)
from flinkish.common.job_status import JobStatus
from flinkish.datastream.connectors.base import END_OF_INPUT_CHECKPOINT
from flinkish.jobmaster.delivery import PrintError
from flinkish.jobmaster.exception_history import EarlierRestarts, FailureRecord
from flinkish.jobmaster.execution_graph import ExecutionState
from flinkish.jobmaster.restart_strategies import FixedDelay
from flinkish.program.driver_objects import NeedsDataFrames
from flinkish.program.row_folders import row_folder
from flinkish.runtime.protocol import EpochCommand, EpochReport

from ..checkpoint.support import FakeStorage
from .support import JOB_ID, VERTEX, Job, Line, Notes, Numbers, WaitsForEver

ONCE = FixedDelay(attempts=1, delay=1_000)


def texts(numbers: range) -> list[str]:
    return [str(number) for number in numbers]


class TestBoundedJobs:
    def test_a_bounded_job_finishes_and_says_how_long_it_ran(self) -> None:
        job = Job(Numbers((0, 5))).run()
        result = job.master.result.result()
        assert str(result.get_job_id()) == JOB_ID
        assert result.get_net_runtime() > 0
        assert job.master.status is JobStatus.FINISHED
        assert job.results == [0, 1, 2, 3, 4]

    def test_everything_is_released_before_the_client_learns_of_the_end(self) -> None:
        job = Job(Numbers((0, 5)))
        closed_before: list[bool] = []
        job.master.result.add_done_callback(lambda _: closed_before.append(job.engine.closed))
        job.run()
        assert closed_before == [True]

    def test_without_checkpoints_sinks_commit_once_at_the_end_of_the_input(self) -> None:
        job = Job(Numbers((0, 25))).run()
        assert job.sink.commits == [(END_OF_INPUT_CHECKPOINT, texts(range(25)))]

    def test_with_checkpoints_a_last_one_is_taken_when_the_input_has_ended(self) -> None:
        job = Job(Numbers((0, 5)), interval=60_000).run()
        assert [stored.manifest.kind for stored in job.storage.stored] == [CheckpointKind.FINAL]
        assert job.sink.commits == [(1, texts(range(5)))]

    def test_a_checkpoint_behind_the_end_of_the_input_is_the_last_one(self) -> None:
        job = Job(Numbers((0, 20)), interval=15)
        job.tasks.duration = 20
        job.run()
        assert [(s.checkpoint_id, s.manifest.kind) for s in job.storage.stored] == [(1, CheckpointKind.PERIODIC)]
        assert job.sink.commits == [(1, texts(range(20)))]

    def test_a_last_checkpoint_that_fails_is_taken_again(self) -> None:
        job = Job(Numbers((0, 5)), interval=60_000, tolerable_failures=3)
        job.storage.fail["commit"] = OSError("no space left")
        job.run(JobStatus.FINISHED)
        assert job.sink.commits == [(2, texts(range(5)))]

    def test_results_of_a_checkpointed_job_come_when_their_checkpoint_is_complete(self) -> None:
        job = Job(Numbers((0, 5)), interval=60_000)
        ready: list[int] = []
        job.on_epoch(1, lambda: ready.append(len(job.master.results._ready))).run()
        assert ready == [0]
        assert job.results == [0, 1, 2, 3, 4]

    def test_user_metrics_are_the_accumulators_of_the_result(self) -> None:
        job = Job(Numbers((0, 5), (5, 10)), parallelism=2).run()
        assert "Numbers.seen" in job.master.result.result().get_all_accumulator_results()
        assert job.master.figures().records_read == 10


class TestEpochs:
    def test_positions_come_back_with_the_next_command(self) -> None:
        job = Job(Numbers((0, 25)), credit=10).run()
        read = [len(command.readers["numbers", 0].splits) for command in job.epochs[:3]]
        assert read == [1, 1, 1]
        assert [command.carry_over for command in job.epochs[:2]] == [{}, {0: b"carried-0-0"}]

    def test_epochs_are_numbered_from_zero_and_carry_the_wall_clock(self) -> None:
        job = Job(Numbers((0, 25)), credit=10).run()
        assert [command.epoch for command in job.epochs] == list(range(len(job.epochs)))
        assert [command.processing_time for command in job.epochs[:2]] == [1_000_000, 1_000_010]

    def test_a_wall_clock_that_is_set_moves_processing_time_but_not_what_timeouts_go_by(self) -> None:
        job = Job(Numbers((0, 25)), credit=10)
        job.on_epoch(1, lambda: setattr(job.clock, "wall_time", lambda: 5)).run()
        assert [command.steady_time for command in job.epochs[:3]] == [1_000_000, 1_000_010, 1_000_020]
        assert [command.processing_time for command in job.epochs[:3]] == [1_000_000, 1_000_010, 5]

    def test_an_idle_job_without_anything_due_waits_without_end(self) -> None:
        job = Job(Numbers(lasting=True)).run()
        assert isinstance(job.error, JobExecutionError)
        assert isinstance(job.error.__cause__, WaitsForEver)
        assert len(job.epochs) == 1

    def test_an_idle_job_wakes_up_for_its_next_timer_only(self) -> None:
        job = Job(Numbers(lasting=True))
        job.tasks.next_timer = 1_005_000
        job.on_epoch(1, lambda: job.master.cancel()).run()
        assert [command.processing_time for command in job.epochs] == [1_000_000, 1_005_000]
        assert len(job.clock.waits) == 1

    def test_readers_with_nothing_to_give_are_asked_ever_less_often_up_to_once_a_second(self) -> None:
        job = Job(Numbers((0, 5), lasting=True))
        job.tasks.tailing = True
        job.tasks.duration = 0
        job.clock.after(3_600, job.master.cancel)
        job.run()
        times = [command.processing_time - 1_000_000 for command in job.epochs]
        assert times == [0, 100, 300, 700, 1_500, 2_500, 3_500]

    def test_an_idle_job_runs_an_empty_epoch_when_the_engine_needs_one(self) -> None:
        job = Job(Numbers(lasting=True), idle_interval=45_000)
        job.tasks.duration = 0
        job.clock.after(100_000, job.master.cancel)
        job.run()
        assert [command.processing_time - 1_000_000 for command in job.epochs] == [0, 45_000, 90_000]

    def test_a_checkpoint_is_taken_on_an_idle_job_when_it_is_due(self) -> None:
        job = Job(Numbers(lasting=True), interval=10_000)
        job.clock.after(25_000, job.master.cancel)
        job.run()
        assert [command.barrier is not None for command in job.epochs] == [False, True, True]
        assert job.epochs[2].completed_checkpoints == (1,)

    def test_the_last_checkpoint_is_that_of_the_epoch_in_which_the_input_ends_if_its_end_is_foreseen(self) -> None:
        job = Job(Numbers((0, 25), (25, 45), counted=True), parallelism=2, interval=10_000).run()
        assert [command.barrier is not None for command in job.epochs] == [False, False, True]
        assert [(checkpoint, len(values)) for checkpoint, values in job.sink.commits] == [(1, 45)]

    def test_an_end_that_is_foreseen_but_does_not_come_costs_one_checkpoint(self) -> None:
        job = Job(Numbers((0, 25), counted=True), interval=10_000)
        # Its reader reads less than it may, from the third epoch on.
        job.tasks.most = {2: 1, 3: 1}
        job.run()
        assert [command.barrier is not None for command in job.epochs] == [False, False, True, False, False, True]
        assert [(checkpoint, len(values)) for checkpoint, values in job.sink.commits] == [(1, 21), (2, 4)]

    def test_missing_reports_fail_the_attempt_by_name(self) -> None:
        job = Job(Numbers((0, 5)), parallelism=2)
        job.tasks.script = lambda command: [EpochReport(epoch=command.epoch, level=0, slot=0)]
        job.run()
        assert "missing: [(0, 1)]" in str(job.error)

    def test_a_slot_host_with_another_version_is_refused(self) -> None:
        job = Job(Numbers((0, 5)))
        job.tasks.script = lambda command: [EpochReport(epoch=command.epoch, level=0, slot=0, process={"cloudpickle": "0.1"})]
        job.run()
        assert "slot 0 runs cloudpickle 0.1" in str(job.error)


class TestFailures:
    def test_the_error_names_the_operator_and_holds_the_users_message_and_traceback(self) -> None:
        job = Job(Numbers((0, 5))).fail_epoch(0).run()
        text = str(job.error)
        assert "operator 'Notes' (uid notes), subtask 1/1: ValueError: bad record" in text
        assert "in user code" in text
        assert "restart-strategy.type is none" in text
        assert isinstance(job.error.__cause__, ValueError)
        assert job.master.status is JobStatus.FAILED

    def test_a_failed_job_starts_again_after_the_delay_as_a_new_attempt(self) -> None:
        job = Job(Numbers((0, 5)), restart=ONCE).fail_epoch(0).run(JobStatus.FINISHED)
        assert [program.attempt_id for program in job.engine.programs] == ["0" * 31 + "1", "0" * 31 + "2"]
        assert [command.attempt_number for command in job.epochs] == [0, 1, 1]
        assert (1_000_010, 1_000) in job.clock.waits

    def test_restarts_before_this_process_count(self) -> None:
        lost = 600_000
        line = "the job's driver was lost"
        failure = FailureRecord(timestamp=lost, error="JobExecutionError", text=line, line=line, series_began=500_000)
        job = Job(Numbers((0, 5)), restart=ONCE, environment={"earlier": EarlierRestarts(count=2, last_failure=failure)})
        job.fail_epoch(0).run()
        assert job.master.figures().restarts == 3
        records, count = job.master.exceptions.records()
        assert count == 3
        assert [record.series_began for record in records] == [500_000, 500_000]
        assert records[1] is failure

    def test_a_restart_goes_back_to_the_last_completed_checkpoint(self) -> None:
        source = Numbers((0, 100))
        job = Job(source, interval=15, restart=ONCE).fail_epoch(5).run()
        restart = next(command for command in job.epochs if command.attempt_number == 1)
        assert restart.restore is not None
        assert restart.restore.checkpoint_id == max(c.barrier.checkpoint_id for c in job.epochs[:5] if c.barrier is not None)
        assert source.enumerators[1].taken_back == ["0"]

    def test_nothing_is_lost_or_repeated_over_a_restart_in_results_and_commits(self) -> None:
        job = Job(Numbers((0, 100)), interval=15, restart=ONCE).fail_epoch(5).run()
        assert job.results == list(range(100))
        committed: dict[int, list[str]] = dict(job.sink.commits)
        assert [number for numbers in committed.values() for number in numbers] == texts(range(100))

    def test_a_restart_without_any_checkpoint_begins_from_scratch(self) -> None:
        job = Job(Numbers((0, 30)), interval=60_000, restart=ONCE).fail_epoch(2).run()
        assert job.epochs[3].restore is None
        assert job.results == list(range(30))

    def test_what_a_checkpoint_holds_is_committed_again_before_the_restart_goes_on(self) -> None:
        job = Job(Numbers((0, 100)), interval=15, restart=ONCE).fail_epoch(5)
        committed_before: list[list[int]] = []
        job.on_epoch(0, lambda: committed_before.append([number for number, _ in job.sink.commits]), attempt=1).run()
        (ids,) = committed_before
        assert ids[-1] == ids[-2]

    def test_a_failing_commit_restarts_the_job_and_is_repeated(self) -> None:
        job = Job(Numbers((0, 5)), interval=60_000, restart=ONCE)
        job.sink.fail.append(SinkError("table is gone"))
        job.run(JobStatus.FINISHED)
        assert dict(job.sink.commits)[1] == texts(range(5))
        assert job.results == list(range(5))

    def test_the_job_fails_when_the_strategy_gives_up(self) -> None:
        job = Job(Numbers((0, 5)), restart=ONCE).fail_epoch(0)
        job.fail_epoch(0, attempt=1).run()
        assert "all 1 attempts" in str(job.error)

    def test_a_damaged_checkpoint_is_not_tried_again_and_nothing_is_deleted(self) -> None:
        job = Job(Numbers((0, 5)), interval=1_000, restart=ONCE)
        job.fail_epoch(0, error=CorruptCheckpointError("state file is truncated")).run()
        assert len(job.engine.programs) == 1
        assert job.storage.deleted_all == 0

    def test_an_engine_that_cannot_start_is_not_started_again(self) -> None:
        job = Job(Numbers((0, 5)), restart=ONCE)
        job.engine.errors.append(EngineError("no Java"))
        job.run()
        assert len(job.engine.programs) == 1
        assert "no Java" in str(job.error)

    def test_an_engine_that_is_lost_later_is_started_again(self) -> None:
        job = Job(Numbers((0, 5)), restart=FixedDelay(attempts=2, delay=10)).fail_epoch(0)
        job.on_epoch(0, lambda: None, attempt=1)
        job.engine.errors = []

        def lose() -> None:
            raise EngineError("executor lost")

        job.on_epoch(0, lose, attempt=1).run(JobStatus.FINISHED)
        assert len(job.engine.programs) == 3

    def test_an_engine_that_returns_too_early_is_a_failure(self) -> None:
        job = Job(Numbers((0, 5)))
        job.engine.run_attempt = lambda program, loop: None  # type: ignore[method-assign]
        job.run()
        assert "without being told to" in str(job.error)

    def test_results_of_a_checkpoint_whose_commit_was_in_doubt_come_once_when_the_job_goes_on_from_it(self) -> None:
        job = Job(Numbers((0, 100)), interval=15, restart=ONCE)
        commit = job.storage.commit

        def commit_and_lose_the_answer(draft: CheckpointDraft) -> StoredCheckpoint:
            job.storage.commit = commit  # type: ignore[method-assign]
            commit(draft)
            raise CommitOutcomeUnknownError("connection lost")

        job.storage.commit = commit_and_lose_the_answer  # type: ignore[method-assign]
        job.run()
        assert len(job.engine.programs) == 2
        assert job.results == list(range(100))

    def test_results_handed_out_without_checkpoints_are_never_repeated(self) -> None:
        job = Job(Numbers((0, 30)), restart=ONCE)
        job.on_epoch(2, lambda: next(iter(job.master.results))).fail_epoch(3).run()
        with pytest.raises(JobExecutionError, match="handed out already"):
            _ = job.results

    def test_a_superseded_driver_ends_for_good_and_deletes_nothing(self) -> None:
        job = Job(Numbers((0, 100)), interval=15, restart=ONCE)
        job.storage.fail["commit"] = StaleGenerationError("generation 2 has taken over")
        job.run(JobStatus.FAILED)
        assert len(job.engine.programs) == 1
        assert job.sink.commits == []
        assert job.storage.deleted_all == 0

    def test_a_driver_that_is_superseded_between_two_checkpoints_ends_within_ten_seconds(self) -> None:
        configuration = Configuration.from_dict({"high-availability.cluster-id": "orders"})
        job = Job(Numbers((0, 5), lasting=True), interval=3_600_000, restart=ONCE, configuration=configuration)
        job.on_epoch(0, lambda: job.storage.fail.update(check_generation=StaleGenerationError("generation 2 has taken over")))
        began = job.clock.monotonic()
        job.run(JobStatus.FAILED)
        assert job.error is not None
        assert isinstance(job.error.__cause__, StaleGenerationError)
        assert job.clock.monotonic() - began < 10_000
        assert len(job.engine.programs) == 1

    def test_a_storage_that_cannot_be_asked_for_the_generation_fails_nothing(self) -> None:
        configuration = Configuration.from_dict({"high-availability.cluster-id": "orders"})
        job = Job(Numbers((0, 5), lasting=True), interval=10_000, configuration=configuration)
        job.on_epoch(0, lambda: job.storage.fail.update(check_generation=OSError("connection lost")))
        job.on_epoch(40, lambda: job.master.cancel())
        job.run(JobStatus.CANCELED)
        assert len(job.storage.stored) >= 2

    def test_more_failed_checkpoints_than_tolerated_fail_the_job(self) -> None:
        job = Job(Numbers((0, 100)), interval=15)
        job.tasks.decline = True
        job.run(JobStatus.FAILED)
        assert "full" in str(job.error)

    def test_a_checkpoint_that_took_longer_than_its_timeout_does_not_complete(self) -> None:
        job = Job(Numbers((0, 100)), interval=15, timeout=500, tolerable_failures=1)
        job.on_epoch(3, lambda: job.clock.advance(600)).run()
        assert job.epochs[3].barrier is not None
        assert job.storage.stored[0].checkpoint_id == 2
        assert sorted(int(n) for _, numbers in job.sink.commits for n in numbers) == list(range(100))

    def test_user_code_that_exits_fails_the_job_instead_of_the_process(self) -> None:
        job = Job(Numbers((0, 5)))

        def leave() -> None:
            raise SystemExit(3)

        job.on_epoch(0, leave).run(JobStatus.FAILED)
        assert "SystemExit: 3" in str(job.error)

    def test_closed_standard_output_ends_the_job_without_restarts(self) -> None:
        job = Job(Numbers((0, 5)), restart=ONCE).fail_epoch(0, error=PrintError("broken pipe")).run()
        assert len(job.engine.programs) == 1

    def test_an_error_in_a_handler_of_call_async_fails_the_job(self) -> None:
        job = Job(Numbers((0, 100)))

        def handle() -> None:
            raise SourceError("source 'Numbers': a handler of call_async failed")

        job.on_epoch(0, lambda: job.master._wakeup.post(handle)).run()
        assert "a handler of call_async failed" in str(job.error)
        assert len(job.epochs) == 1

    def test_what_an_aborted_checkpoint_prepared_is_committed_with_the_next(self) -> None:
        job = Job(Numbers((0, 100)), interval=15, tolerable_failures=1)
        job.storage.fail["commit"] = OSError("no space left")
        job.run()
        assert sorted(int(n) for _, numbers in job.sink.commits for n in numbers) == list(range(100))
        assert job.sink.commits[0][0] == 2


class Panic(BaseException):
    """What pyo3 raises when Rust panics, and sys.exit(): no Exception."""


class PanickingNotes:
    def __init__(self, *methods: str) -> None:
        self.methods = methods

    def _reach(self, method: str) -> None:
        if method in self.methods:
            raise Panic(method)

    def checkpoint_ended(self, record: CheckpointRecord) -> None:
        self._reach("checkpoint_ended")

    def note(self, event: str, message: str = "") -> None:
        self._reach(f"note {event}")

    def flush(self) -> None:
        self._reach("flush")


def panic(*_: object) -> None:
    raise Panic


class TestWhatIsNoException:
    """Whoever waits for the job gets an answer, whatever is raised in its thread."""

    @pytest.mark.parametrize("method", ["flush", "note job ended"])
    def test_in_the_notes_at_the_end_does_not_change_the_outcome(self, method: str) -> None:
        job = Job(Numbers((0, 50)), interval=15, environment={"notes": PanickingNotes(method)})
        assert job.run().results == list(range(50))
        assert job.master.result.done()

    @pytest.mark.parametrize("method", ["note attempt started", "checkpoint_ended"])
    def test_in_the_notes_while_it_runs_fails_the_job(self, method: str) -> None:
        job = Job(Numbers((0, 50)), interval=15, environment={"notes": PanickingNotes(method)}).run()
        assert job.error is not None
        assert "Panic" in str(job.error)

    @pytest.mark.parametrize("part", ["on_released", "retire"])
    def test_in_what_is_released_does_not_change_the_outcome(self, part: str) -> None:
        job = Job(Numbers((0, 50)), interval=15, environment={part: panic})
        assert job.run().results == list(range(50))
        assert job.master.result.done()

    def test_in_the_engine_s_close_does_not_change_the_outcome(self) -> None:
        job = Job(Numbers((0, 50)), interval=15)
        job.engine.close = panic  # type: ignore[method-assign]
        assert job.run().results == list(range(50))
        assert job.master.result.done()

    @pytest.mark.parametrize("call", ["latest", "prepare", "commit"])
    def test_in_the_storage_fails_the_job(self, call: str) -> None:
        job = Job(Numbers((0, 50)), interval=15)
        setattr(job.storage, call, panic)
        job.run()
        assert "Panic" in str(job.error)

    def test_in_a_sink_s_commit_fails_the_job_or_starts_it_again(self) -> None:
        job = Job(Numbers((0, 50)), Notes(), interval=15, restart=ONCE)
        job.sink.fail.append(Panic())  # type: ignore[arg-type]
        job.run(JobStatus.FINISHED)
        assert len(job.engine.programs) == 2

    def test_in_giving_up_leaves_nobody_waiting(self) -> None:
        job = Job(Numbers((0, 50)), interval=15).fail_epoch(1)
        job.master._give_up = panic  # type: ignore[assignment,method-assign]
        job.run()
        assert "ended without an outcome" in str(job.error)


class TestCancel:
    def test_a_cancelled_job_ends_as_canceled_without_commits(self) -> None:
        job = Job(Numbers((0, 100)))
        job.on_epoch(1, job.master.cancel).run(JobStatus.CANCELED)
        assert isinstance(job.error, JobCancelledError)
        assert job.sink.commits == []
        assert job.engine.interrupts == 1

    def test_an_attempt_that_is_over_runs_no_epoch_not_even_the_first(self) -> None:
        job = Job(Numbers((0, 5)), interval=1_000)
        job.master.cancel()
        job.run(JobStatus.CANCELED)
        assert job.epochs == []

    def test_an_idle_job_is_cancelled_at_once(self) -> None:
        job = Job(Numbers(lasting=True))
        job.clock.after(60_000, job.master.cancel)
        job.run(JobStatus.CANCELED)
        assert len(job.epochs) == 1

    def test_a_job_that_waits_for_its_restart_is_cancelled_at_once(self) -> None:
        job = Job(Numbers((0, 5)), restart=FixedDelay(attempts=5, delay=600_000)).fail_epoch(0)
        job.clock.after(1_000, job.master.cancel)
        job.run(JobStatus.CANCELED)
        assert len(job.engine.programs) == 1

    def test_an_engine_error_while_cancelling_is_no_failure(self) -> None:
        job = Job(Numbers((0, 100)), restart=ONCE)

        def interrupted() -> None:
            job.master.cancel()
            raise EngineError("query stopped")

        job.on_epoch(1, interrupted).run(JobStatus.CANCELED)

    def test_iterating_over_the_results_of_a_cancelled_job_just_ends(self) -> None:
        job = Job(Numbers((0, 100)))
        job.on_epoch(1, job.master.cancel).run()
        assert job.results == list(range(10))

    def test_cancel_deletes_the_checkpoints_and_a_suspended_job_keeps_them(self) -> None:
        for suspend, deleted, status in ((False, 1, JobStatus.CANCELED), (True, 0, JobStatus.SUSPENDED)):
            job = Job(Numbers(lasting=True), interval=10_000)
            job.clock.after(25_000, lambda job=job, suspend=suspend: job.master.cancel(suspend=suspend))
            job.run()
            assert (job.storage.deleted_all, job.retired, job.master.status) == (deleted, deleted, status)

    def test_cancelling_an_ended_job_does_nothing(self) -> None:
        job = Job(Numbers((0, 5))).run()
        job.master.cancel()
        assert job.master.status is JobStatus.FINISHED


class TestClosing:
    def test_a_committer_that_fails_to_close_fails_the_job_and_is_not_started_again(self) -> None:
        job = Job(Numbers((0, 5)), interval=60_000, restart=ONCE)
        job.sink.fail_to_close = OSError("the connection is gone")
        job.run()
        assert job.sink.commits == [(1, texts(range(5)))]
        assert "closing its committer failed: OSError: the connection is gone" in str(job.error)
        assert "all is committed, only close() failed" in str(job.error)
        assert job.master.status is JobStatus.FAILED

    @pytest.mark.parametrize("interval", [None, 60_000])
    @pytest.mark.parametrize("closes", [True, False])
    def test_a_last_epoch_is_run_where_tasks_have_something_to_close(self, closes: bool, interval: int | None) -> None:
        job = Job(Numbers((0, 5)), interval=interval)
        job.tasks.closes = closes
        job.run()
        assert len(job.tasks.farewells) == closes
        assert job.results == list(range(5))

    def test_an_engine_lost_behind_a_stop_with_savepoint_ends_the_job(self) -> None:
        job = Job(Numbers((0, 1_000)), interval=60_000, restart=ONCE)
        job.tasks.closes = True
        asked = []
        job.on_epoch(1, lambda: asked.append(job.master.checkpoints.trigger_savepoint("/savepoints", stop=True)))

        def script(command: EpochCommand, former: object = job.tasks.script) -> list[EpochReport] | None:
            if command.farewell:
                raise EngineError("the JVM is gone")
            return former(command)  # type: ignore[operator, no-any-return]

        job.tasks.script = script
        job.run()
        assert len(job.engine.programs) == 1
        with pytest.raises(CheckpointError, match=r"(?s)the savepoint \S+ is complete, but.*the JVM is gone"):
            asked[0].result(0)


class TestSavepoints:
    def test_a_savepoint_is_taken_while_the_job_goes_on_and_commits_nothing(self) -> None:
        job = Job(Numbers((0, 50)), interval=60_000)
        paths: list[str] = []

        def ask() -> None:
            job.master.checkpoints.trigger_savepoint("/savepoints").add_done_callback(lambda done: paths.append(done.result()))

        job.on_epoch(1, ask).run()
        assert paths == ["/savepoints"]
        assert [s.manifest.kind for s in job.storage.savepoints] == [CheckpointKind.SAVEPOINT]
        assert job.sink.commits == [(2, texts(range(50)))]
        assert job.results == list(range(50))

    @pytest.mark.parametrize("savepoint", [True, False])
    def test_rows_of_data_frames_stay_after_the_end_if_a_savepoint_of_any_attempt_may_need_them(
        self, savepoint: bool, tmp_path: Path
    ) -> None:
        class Frames(Notes, NeedsDataFrames):
            pass

        configuration = Configuration.from_dict({"execution.checkpointing.dir": str(tmp_path)})
        sink = row_folder(configuration, JOB_ID) / "sinks" / "a"
        sink.mkdir(parents=True)
        (sink / "rows.parquet").touch()
        job = Job(Numbers((0, 50)), Frames(), interval=60_000, configuration=configuration)
        if savepoint:
            job.on_epoch(1, lambda: job.master.checkpoints.trigger_savepoint("/savepoints"))
        job.on_epoch(4, lambda: job.master.cancel(suspend=True)).run()
        # Another process goes on with the job, and ends it.
        Job(Numbers((0, 5)), Frames(), interval=60_000, configuration=configuration).run()
        assert (sink / "rows.parquet").exists() is savepoint

    def test_a_job_without_checkpoints_takes_savepoints_too(self) -> None:
        job = Job(Numbers((0, 50)))
        asked = []
        job.on_epoch(1, lambda: asked.append(job.master.checkpoints.trigger_savepoint("/savepoints"))).run()
        assert asked[0].result(0) == "/savepoints"

    def test_a_savepoint_asked_for_before_the_tasks_run_waits_for_them(self) -> None:
        job = Job(Numbers((0, 50)), interval=60_000)
        asked = job.master.checkpoints.trigger_savepoint("/savepoints")
        job.run()
        assert asked.result(0) == "/savepoints"

    def test_stop_with_savepoint_commits_and_finishes_and_then_answers(self) -> None:
        job = Job(Numbers((0, 1_000)), interval=60_000)
        status_at_answer: list[JobStatus] = []

        def ask() -> None:
            asked = job.master.checkpoints.trigger_savepoint("/savepoints", stop=True)
            asked.add_done_callback(lambda _: status_at_answer.append(job.master.status))

        job.on_epoch(2, ask).run()
        assert status_at_answer == [JobStatus.FINISHED]
        assert job.sink.commits == [(1, texts(range(40)))]
        assert not job.epochs[-1].drain
        assert job.storage.exported == [(1, "/savepoints")]

    def test_draining_ends_the_sources_in_the_epoch_of_the_savepoint_which_keeps_their_positions(self) -> None:
        job = Job(Numbers((0, 1_000)), interval=60_000)
        job.on_epoch(2, lambda: job.master.checkpoints.trigger_savepoint("/savepoints", stop=True, drain=True))
        job.run(JobStatus.FINISHED)
        assert job.epochs[-1].drain
        assert [split.split_id for split in job.storage.stored[-1].manifest.coordinator.sources[0].splits] == ["0"]

    def test_a_savepoint_without_a_folder_says_so(self) -> None:
        job = Job(Numbers((0, 50)), interval=60_000)
        asked = job.master.checkpoints.trigger_savepoint()
        job.run()
        assert "savepoint-dir" in str(asked.exception())

    def test_a_savepoint_of_an_ended_job_is_refused(self) -> None:
        job = Job(Numbers((0, 5))).run()
        assert isinstance(job.master.checkpoints.trigger_savepoint("/savepoints").exception(), CheckpointError)

    def test_a_checkpoint_asked_for_is_taken_at_once_and_is_one_to_start_from(self) -> None:
        job = Job(Numbers((0, 50)), interval=60_000)
        asked = []
        job.on_epoch(1, lambda: asked.append(job.master.checkpoints.trigger_checkpoint())).run()
        assert asked[0].result(0) == 1
        assert [stored.manifest.kind for stored in job.storage.stored] == [CheckpointKind.REQUESTED, CheckpointKind.FINAL]
        assert job.sink.commits == [(1, texts(range(30))), (2, texts(range(30, 50)))]

    def test_a_checkpoint_of_a_job_that_takes_none_is_refused(self) -> None:
        job = Job(Numbers((0, 50)))
        asked = job.master.checkpoints.trigger_checkpoint()
        with pytest.raises(CheckpointError, match=r"the job takes none(?s:.*)execution\.checkpointing\.interval"):
            asked.result(0)
        assert job.run().results == list(range(50))

    @pytest.mark.parametrize("interval", [None, 60_000])
    def test_requests_that_nobody_could_serve_before_the_job_ended_are_refused(self, interval: int | None) -> None:
        job = Job(Numbers((0, 50)), interval=interval)
        asked = job.master.checkpoints.trigger_savepoint("/savepoints")
        job.master.cancel()
        late = job.master.checkpoints.trigger_savepoint("/savepoints")
        assert "the job has ended or is about to" in str(late.exception())
        job.run()
        assert "the job has ended" in str(asked.exception())
        assert job.storage.savepoints == []

    def test_the_figures_of_checkpoints_are_there_for_a_job_that_takes_none(self) -> None:
        job = Job(Numbers((0, 50))).run()
        assert job.master.checkpoints.figures() == CheckpointFigures()

    @pytest.mark.parametrize("drain", [True, False])
    @pytest.mark.parametrize("call", ["prepare_export", "export_savepoint"])
    def test_a_stop_whose_savepoint_cannot_be_written_does_not_harm_the_job(self, call: str, drain: bool) -> None:
        job = Job(Numbers((0, 100)), interval=60_000)
        job.storage.fail[call] = OSError("read-only")
        asked = []
        job.on_epoch(1, lambda: asked.append(job.master.checkpoints.trigger_savepoint("/savepoints", stop=True, drain=drain)))
        job.run()
        assert "read-only" in str(asked[0].exception())
        assert job.master.status is JobStatus.FINISHED
        assert len(job.engine.programs) == 1
        results = job.results
        if call == "export_savepoint" and drain:
            # the sources had ended, all they had read is a result
            assert results == list(range(len(results)))
            assert 0 < len(results) < 100
            assert "with all its results" in str(asked[0].exception())
            assert job.storage.deleted_all == 0
        else:
            assert results == list(range(100))
            assert job.storage.deleted_all == 1


class TestRecoveryOfAnotherProcess:
    def test_a_new_process_commits_what_the_old_one_left_and_goes_on(self) -> None:
        storage = FakeStorage()
        first = Job(Numbers((0, 100)), interval=15, storage=storage)
        first.sink.fail.append(SinkError("killed before the commit"))
        first.run()
        assert first.sink.commits == []
        second = Job(Numbers((0, 100)), Notes(), interval=15, storage=storage).run(JobStatus.FINISHED)
        numbers = {n for _, ns in second.sink.commits for n in ns}
        assert numbers == set(texts(range(100)))

    def test_a_job_started_from_a_foreign_checkpoint_commits_under_the_id_of_its_origin(self) -> None:
        donor = Job(Numbers((0, 100)), interval=15).run()
        checkpoint = donor.storage.stored[0]
        job = Job(Numbers((0, 100)), Notes(), interval=60_000, restored=checkpoint).run()
        assert checkpoint.manifest.job_id in job.sink.job_ids
        assert job.epochs[0].restore is not None


class TestStates:
    def test_subtasks_go_through_flinks_states(self) -> None:
        job = Job(Numbers((0, 5)), parallelism=2).run()
        states = ["CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING", "FINISHED"]
        assert {tuple(each.timestamps) for each in job.master.details().executions} == {tuple(map(ExecutionState, states))}

    def test_the_failing_subtask_is_failed_and_the_others_are_canceled(self) -> None:
        job = Job(Numbers((0, 50), (50, 100)), parallelism=2).fail_epoch(1).run()
        details = job.master.details()
        assert Counter(each.state for each in details.executions) == {ExecutionState.FAILED: 1, ExecutionState.CANCELED: 1}
        failed = next(e for e in details.executions if e.state is ExecutionState.FAILED)
        assert failed.vertex == VERTEX
        assert "bad record" in job.master.exceptions.records()[0][0].text

    def test_the_job_goes_through_restarting(self) -> None:
        job = Job(Numbers((0, 5)), restart=ONCE).fail_epoch(0).run()
        assert {JobStatus.FAILING, JobStatus.RESTARTING, JobStatus.FINISHED} <= set(job.master.details().timestamps)


class TestDriverSources:
    def test_records_of_a_driver_side_source_travel_with_the_command_to_subtask_0(self) -> None:
        line = Line()
        line.reader.put("a", "b", end=True)
        job = Job(line).run()
        assert job.epochs[0].readers["numbers", 0].records == ("a", "b")
        assert job.results == ["a", "b"]
        assert line.reader.closed

    def test_an_error_of_the_reader_fails_the_job_by_the_sources_name(self) -> None:
        line = Line()
        line.reader.error = OSError("connection reset")
        job = Job(line).run()
        assert "source 'Numbers' (uid numbers)" in str(job.error)
        assert "connection reset" in str(job.error)

"""Checkpoints whose state files are written while later epochs run."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from flinkish.checkpoint.failure_manager import FailureReason
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.statistics import CheckpointStatus
from flinkish.common.job_status import JobStatus
from flinkish.jobmaster.restart_strategies import FixedDelay
from flinkish.runtime.protocol import EpochCommand

from .support import SINK, Job, Notes, Numbers, NumbersSplit


def texts(numbers: range) -> list[str]:
    return [str(number) for number in numbers]


def epochs_with_barriers(job: Job) -> list[int]:
    return [command.epoch for command in job.epochs if command.barrier is not None]


def test_a_checkpoint_completes_some_epochs_after_its_barrier_and_holds_what_was_before_it() -> None:
    job = Job(Numbers((0, 60)), interval=15)
    job.tasks.late = 2
    job.run(JobStatus.FINISHED)
    first = job.storage.stored[0].manifest
    (split,) = first.coordinator.sources[0].splits
    read = msgspec.msgpack.decode(split.split, type=NumbersSplit).position
    assert job.epochs[epochs_with_barriers(job)[0] + 1].readers["numbers", 0].splits == (split,)
    assert job.storage.stored[-1].manifest.kind is CheckpointKind.FINAL
    assert sorted(text for _, many in job.sink.commits for text in many) == sorted(texts(range(60)))
    assert job.sink.commits[0] == (1, texts(range(read)))
    assert job.results == list(range(60))


def test_only_one_checkpoint_is_in_progress_unless_more_are_allowed() -> None:
    job = Job(Numbers((0, 100)), interval=15)
    job.tasks.late = 3
    job.run()
    barriers = epochs_with_barriers(job)
    assert all(later - earlier > 3 for earlier, later in itertools.pairwise(barriers[:-1])), barriers


def test_an_idle_job_runs_epochs_until_all_is_acknowledged_and_then_rests() -> None:
    job = Job(Numbers((0, 5), lasting=True), interval=60_000)
    job.tasks.late = 3
    job.tasks.tailing = True
    job.clock.after(65_000, lambda: job.master.cancel())
    job.run()
    (barrier,) = epochs_with_barriers(job)
    times = {command.epoch: command.steady_time for command in job.epochs}
    assert [stored.checkpoint_id for stored in job.storage.stored] == [1]
    assert times[barrier + 3] - times[barrier] < 1_000


@pytest.mark.parametrize("lost", [True, False])
def test_a_part_that_is_lost_with_its_process_aborts_its_checkpoint_without_counting(lost: bool) -> None:
    job = Job(Numbers((0, 60)), interval=15, tolerable_failures=0)
    job.tasks.late = 2
    if lost:
        job.on_epoch(4, job.tasks.lose_uploads)
    job.run(JobStatus.FINISHED)
    history = job.master.checkpoints.figures().history
    failures = [record.failure or "" for record in history if record.status is CheckpointStatus.FAILED]
    assert any(FailureReason.SNAPSHOT_LOST.sentence in failure for failure in failures) is lost
    # What writers had prepared for it goes into the next one.
    assert sorted(text for _, many in job.sink.commits for text in many) == sorted(texts(range(60)))


def test_a_checkpoint_that_is_not_acknowledged_in_time_expires_and_later_acknowledgements_do_not_count() -> None:
    job = Job(Numbers((0, 200)), interval=15, timeout=25, tolerable_failures=-1)
    job.tasks.late = 4
    aborted: list[int] = []

    def note(command: EpochCommand) -> None:
        aborted.extend(command.aborted_checkpoints)

    job.tasks.script = note  # type: ignore[assignment]
    job.run(JobStatus.FINISHED)
    assert 1 in aborted
    assert [stored.manifest.kind for stored in job.storage.stored] == [CheckpointKind.FINAL]
    assert job.sink.commits == [(job.storage.stored[0].checkpoint_id, texts(range(200)))]


def test_a_restart_while_files_are_written_goes_back_to_the_checkpoint_before() -> None:
    job = Job(Numbers((0, 60)), interval=15, restart=FixedDelay(attempts=1, delay=1))
    job.tasks.late = 2
    job.fail_epoch(4).run(JobStatus.FINISHED)
    assert job.tasks.commands[-1].attempt_number == 1
    assert sorted(text for _, many in job.sink.commits for text in many) == sorted(texts(range(60)))
    assert job.results == list(range(60))


class CountingNotes(Notes):
    """The state of its committer is how often it has committed."""

    @property
    def state(self) -> bytes:  # type: ignore[override]
        return b"%d" % len(self.commits)

    @state.setter
    def state(self, value: bytes | None) -> None:
        pass


def test_the_state_of_committers_is_that_after_the_commit_of_the_checkpoint_before() -> None:
    job = Job(Numbers((0, 100)), CountingNotes(), interval=15, max_concurrent=3)
    job.tasks.late = 4
    job.run(JobStatus.FINISHED)
    states = [
        msgspec.msgpack.decode(stored.manifest.coordinator.extra["committers"])[SINK].decode() for stored in job.storage.stored
    ]
    assert len(states) > 2
    assert states == [str(number) for number in range(len(states))]

"""The checker is checked: bugs are planted in flinkish, and each is noticed within a few worlds, by the invariant it breaks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from flinkish.checkpoint import cleaning, fencing, request_decider
from flinkish.checkpoint.coordinator import CheckpointCoordinator
from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage
from flinkish.checkpoint.failure_manager import FailureReason
from flinkish.checkpoint.job_table import JobTable
from flinkish.checkpoint.pending import Uncommitted
from flinkish.common.errors import CheckpointError
from flinkish.runtime.uploads import Uploads
from tests.kit import planted_bugs
from tests.kit.planted_bugs import Patch, Plant
from tests.simulation.invariants import Violation
from tests.simulation.world import WITH_BACKENDS, run, simulated

#: The note is a regular expression of the violations that a bug may cause.
BUGS, bug = planted_bugs.registry()


@bug("I10: .* was deleted while")
def cleaning_deletes_files_of_older_checkpoints_that_are_retained(patch: Patch) -> None:
    plan = cleaning.plan
    patch.setattr(cleaning, "plan", lambda found, *, retained, **rest: plan(found, retained=retained[-1:], **rest))


@bug("I10: .* was deleted while|which is not what was acknowledged")
def cleaning_deletes_files_that_checkpoints_share(patch: Patch) -> None:
    plan = cleaning.plan

    def own(retained: Any) -> Any:
        return [(each, {path for path in files if path.startswith(f"chk-{each}-")}) for each, files in retained]

    patch.setattr(cleaning, "plan", lambda found, *, retained, **rest: plan(found, retained=own(retained), **rest))


@bug("I10: after two clean-ups")
def cleaning_forgets_state_files(patch: Patch) -> None:
    plan = cleaning.plan

    def forgetful(*arguments: Any, **named: Any) -> cleaning.Removal:
        removal = plan(*arguments, **named)
        return replace(removal, files=tuple(path for path in removal.files if "manifest" in path), folders=())

    patch.setattr(cleaning, "plan", forgetful)


@bug("I11: aborted checkpoint .* completed|I11: completed checkpoint .* was aborted|I11: .* was aborted twice")
def an_acknowledgement_of_an_aborted_checkpoint_is_counted(patch: Patch) -> None:
    abort = CheckpointCoordinator._abort

    def half(self: Any, pending: Any, reason: FailureReason, *arguments: Any, **named: Any) -> None:
        waits = pending.checkpoint_id in self._pending and reason is FailureReason.EXPIRED
        abort(self, pending, reason, *arguments, **named)
        if waits:
            self._pending[pending.checkpoint_id] = pending

    patch.setattr(CheckpointCoordinator, "_abort", half)


@bug("I7: driver")
def the_id_of_an_aborted_checkpoint_is_used_again_after_a_restart(patch: Patch) -> None:
    patch.setattr(fencing, "highest_id", lambda last, current, folders: max(last, current or 0))


@bug("I11: tasks learn twice")
def tasks_are_notified_twice_of_a_completed_checkpoint(patch: Patch) -> None:
    completed = CheckpointCoordinator._completed

    def twice(self: Any, pending: Any, stored: Any) -> None:
        completed(self, pending, stored)
        self._completed_notices.extend(self._completed_notices[-1:])

    patch.setattr(CheckpointCoordinator, "_completed", twice)


@bug("I11: tasks learn that .* completed: it has not|I9: results of checkpoint|I8: driver")
def tasks_are_notified_of_the_completion_of_a_savepoint(patch: Patch) -> None:
    completed = CheckpointCoordinator._completed

    def also(self: Any, pending: Any, stored: Any) -> None:
        completed(self, pending, stored)
        if not pending.kind.is_recovery_point:
            self._completed_notices.append(pending.checkpoint_id)

    patch.setattr(CheckpointCoordinator, "_completed", also)


@bug("I9: generation")
def a_driver_that_was_taken_over_commits(patch: Patch) -> None:
    patch.setattr(fencing, "newer_generation", lambda found, own: None)


@bug("I4|which is not what was acknowledged|I8")
def a_state_file_of_another_checkpoint_is_accepted(patch: Patch) -> None:
    receive = CheckpointCoordinator.receive_acknowledgement

    def moved(self: Any, ack: Any) -> Any:
        others = [each for each in self._pending if each > ack.checkpoint_id]
        if ack.checkpoint_id not in self._pending and others:
            ack = replace(ack, checkpoint_id=others[0], committables={})
        return receive(self, ack)

    patch.setattr(CheckpointCoordinator, "receive_acknowledgement", moved)
    patch.setattr(DeltaCheckpointStorage, "_check_file", lambda self, draft, file: None)


@bug("I4|I10|I12")
def a_commit_whose_answer_was_lost_counts_as_refused(patch: Patch) -> None:
    outcome = DeltaCheckpointStorage._outcome

    def refused(self: Any, own: Any, manifest_path: str, failure: Exception | None) -> Any:
        log = outcome(self, own, manifest_path, failure)
        if failure is not None:
            raise CheckpointError(f"checkpoint {own.checkpoint_id}: its commit was refused") from failure
        return log

    patch.setattr(DeltaCheckpointStorage, "_outcome", refused)


@bug("I10|I12")
def the_files_of_a_checkpoint_of_unknown_outcome_are_deleted(patch: Patch) -> None:
    abort = CheckpointCoordinator._abort
    patch.setattr(CheckpointCoordinator, "_abort", lambda *arguments, keep_files=False, **rest: abort(*arguments, **rest))
    patch.setattr(fencing, "may_discard", lambda folder, **rest: folder is not None)


@bug("I1:|I2:")
def what_sinks_prepared_for_a_later_checkpoint_is_forgotten(patch: Patch) -> None:
    patch.setattr(Uncommitted, "completed", lambda self, checkpoint_id: self.clear())


@bug("I2:")
def what_sinks_prepared_is_committed_again(patch: Patch) -> None:
    patch.setattr(Uncommitted, "completed", lambda self, checkpoint_id: None)


@bug("I8: driver .* starts from")
def a_job_is_restored_from_the_oldest_checkpoint_that_is_retained(patch: Patch) -> None:
    latest = DeltaCheckpointStorage.latest
    patch.setattr(DeltaCheckpointStorage, "latest", lambda self: self._retained[0] if self._retained else latest(self))


@bug("are in progress, at most")
def more_checkpoints_than_allowed_are_in_progress(patch: Patch) -> None:
    choose = request_decider.choose
    patch.setattr(request_decider, "choose", lambda queue, *, pending, **rest: choose(queue, pending=0, **rest))


@bug("I1:")
def what_sinks_prepared_for_a_checkpoint_that_is_still_written_is_not_reported(patch: Patch) -> None:
    end = Uploads.end_epoch

    def stripped(self: Any, *, waits: bool) -> None:
        end(self, waits=waits)
        self.uploading = tuple(replace(part, committables={}) for part in self.uploading)

    patch.setattr(Uploads, "end_epoch", stripped)


@bug("I8: driver .* is damaged|I8: driver .* is gone|I8/I10|I8|no checkpoint completes")
def the_log_is_cleaned_up_to_its_newest_entry(patch: Patch) -> None:
    clean = JobTable.clean_log

    def all_of_it(self: Any, log: Any, *, summarized: int, **rest: Any) -> int:
        done = clean(self, log, summarized=summarized, **rest)
        self.delete([f"_delta_log/{name}" for name in self.files.names("_delta_log")[:-1]])
        return done

    patch.setattr(JobTable, "clean_log", all_of_it)


def first_violation(seeds: Iterable[int]) -> str:
    with simulated():
        for seed in seeds:
            try:
                run(seed)
            except Violation as error:
                return str(error)
    return "none"


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, breaks = BUGS[name]
    plant(monkeypatch)
    assert re.search(breaks, first_violation(range(1, 2_000)))


@pytest.mark.parametrize(
    ("plant", "first"),
    [
        (planted_bugs.part_of_the_state_is_not_restored, 0),
        (planted_bugs.incremental_checkpoints_forget_what_was_removed, 0),
        # None of the worlds before that notices it, and they take half a minute.
        (planted_bugs.changes_before_a_checkpoint_that_failed_are_forgotten, 480),
    ],
)
def test_a_bug_of_a_backend_is_noticed(plant: Plant, first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert "I4: attempt" in first_violation(range(first * WITH_BACKENDS, 1_000 * WITH_BACKENDS, WITH_BACKENDS))

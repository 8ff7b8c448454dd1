"""Two driver processes and one job: at most one generation makes anything visible."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from deltalake.exceptions import CommitFailedError

from flinkish.checkpoint import checkpoint_files
from flinkish.checkpoint.delta_log import DeltaLog
from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.storage import CheckpointDraft
from flinkish.common.errors import CheckpointError, CommitOutcomeUnknownError, StaleGenerationError
from flinkish.common.ids import CheckpointId
from tests.unit.checkpoint.support import claimed_storage, files_of, flaky_log, make_draft, make_storage, named_by, take


def test_each_claim_is_a_higher_generation(tmp_path: Path) -> None:
    assert [make_storage(tmp_path).claim() for _ in range(4)] == [1, 2, 3, 4]


def test_the_generation_survives_checkpoints(tmp_path: Path) -> None:
    first = claimed_storage(tmp_path)
    take(first, 1)
    second = make_storage(tmp_path)
    assert second.claim() == 2
    latest = second.latest()
    assert latest is not None
    assert (latest.checkpoint_id, latest.manifest.generation) == (1, 1)


def test_a_stale_driver_cannot_commit_and_what_it_wrote_is_removed(tmp_path: Path) -> None:
    old, new = make_storage(tmp_path), make_storage(tmp_path)
    old.claim()
    draft = make_draft(old, 1)
    new.claim()
    with pytest.raises(StaleGenerationError, match="generation 2"):
        old.commit(draft)
    assert new.latest() is None
    stored = take(new, 2)
    new.clean_up(())
    assert files_of(new.root) == named_by(stored)


def test_a_stale_driver_is_refused_everything_else_as_well(tmp_path: Path) -> None:
    old, new = make_storage(tmp_path / "c"), make_storage(tmp_path / "c")
    old.claim()
    savepoint = make_draft(old, 1, kind=CheckpointKind.SAVEPOINT, target=str(tmp_path / "s"))
    new.claim()
    with pytest.raises(StaleGenerationError):
        old.prepare(CheckpointId(2), None)
    with pytest.raises(StaleGenerationError):
        old.latest()
    with pytest.raises(StaleGenerationError):
        old.commit_savepoint(savepoint)
    take(new, 5)
    old.delete_all()
    assert new.latest() is not None


def test_a_driver_that_is_overtaken_between_its_check_and_its_commit_is_refused(tmp_path: Path) -> None:
    """The handle saw no newer generation, then stood still; the commit itself must be refused."""
    new = make_storage(tmp_path)
    overtaken: list[int] = []

    class SlowLog(DeltaLog):
        def replace_files(self, *arguments: object, **options: object) -> None:
            if not overtaken:
                overtaken.append(new.claim())
                take(new, 1)
            super().replace_files(*arguments, **options)  # type: ignore[arg-type]

    old = claimed_storage(tmp_path, delta_log=SlowLog)
    with pytest.raises(StaleGenerationError):
        take(old, 1)
    latest = new.latest()
    assert latest is not None
    assert latest.manifest.generation == 2
    checkpoint_files.verify_files(latest)


def test_a_driver_that_slept_while_the_log_was_cleaned_is_refused(tmp_path: Path) -> None:
    """The file of its next version is gone from the log, so that creating it succeeds; only looking again tells."""
    new = make_storage(tmp_path)
    slept: list[int] = []

    class SleepingLog(DeltaLog):
        def replace_files(self, *arguments: object, **options: object) -> None:
            if not slept:
                slept.append(new.claim())
                for number in range(1, 40):
                    take(new, number, files=1, rows=1)
                    new.clean_up(())
                assert not (new.root / "_delta_log" / f"{self.version + 1:020}.json").exists()
            super().replace_files(*arguments, **options)  # type: ignore[arg-type]

    old = claimed_storage(tmp_path, delta_log=SleepingLog)
    with pytest.raises(StaleGenerationError):
        take(old, 1)
    latest = make_storage(tmp_path)
    assert latest.claim() == 3
    assert latest.retained()[-1].checkpoint_id == 39


def test_a_driver_whose_table_was_deleted_by_a_successor_that_ended_the_job_is_refused_and_makes_no_new_one(
    tmp_path: Path,
) -> None:
    old, new = make_storage(tmp_path), make_storage(tmp_path)
    old.claim()
    take(old, 1)
    draft = make_draft(old, 2)
    new.claim()
    take(new, 3)
    handle = old._handle
    assert handle is not None
    new.delete_all()
    with pytest.raises(StaleGenerationError, match="gone"):
        old.check_generation()
    with pytest.raises(StaleGenerationError, match="gone"):
        old.prepare(CheckpointId(4), None)
    with pytest.raises(StaleGenerationError, match="gone"):
        old.commit(draft)
    with pytest.raises(StaleGenerationError, match="gone"):
        old.latest()
    old.clean_up(())
    assert not old.root.exists()


def assert_commit_is_refused_as_gone(folder: Path, log: type[DeltaLog]) -> None:
    old = claimed_storage(folder, delta_log=log)
    draft = make_draft(old, 1)
    with pytest.raises(StaleGenerationError, match="gone"):
        old.commit(draft)
    assert not old.root.exists()


def test_a_driver_whose_table_is_deleted_between_its_check_and_its_commit_is_refused(tmp_path: Path) -> None:
    new = make_storage(tmp_path)

    class SlowLog(DeltaLog):
        def replace_files(self, *arguments: object, **options: object) -> None:
            new.claim()
            new.delete_all()
            super().replace_files(*arguments, **options)  # type: ignore[arg-type]

    assert_commit_is_refused_as_gone(tmp_path, SlowLog)


def test_a_driver_whose_table_is_deleted_while_its_commit_is_on_the_way_is_refused_and_leaves_no_log(tmp_path: Path) -> None:
    """Writing the entry creates the folder again: a log with one entry, which nothing can read."""
    new = make_storage(tmp_path)

    class LateLog(DeltaLog):
        def replace_files(self, *arguments: object, **options: object) -> None:
            new.claim()
            entry = new.root / "_delta_log" / f"{self.version + 1:020}.json"
            content = entry.read_text()
            new.delete_all()
            entry.parent.mkdir(parents=True)
            entry.write_text(content)

    assert_commit_is_refused_as_gone(tmp_path, LateLog)


def test_a_stale_driver_deletes_nothing_of_its_successor(tmp_path: Path) -> None:
    old = claimed_storage(tmp_path)
    take(old, 1)
    new = claimed_storage(tmp_path)
    in_progress = make_draft(new, 3)
    stored = take(new, 2)
    old.clean_up(())
    assert named_by(stored) | {file.path for file in in_progress.files} <= files_of(new.root)


def test_a_successor_keeps_the_checkpoint_it_may_have_to_restore_again(tmp_path: Path) -> None:
    old = claimed_storage(tmp_path)
    stored = take(old, 1)
    new = claimed_storage(tmp_path)
    new.clean_up(())
    checkpoint_files.verify_files(stored)
    assert [item.checkpoint_id for item in new.retained()] == [1]


def test_of_many_drivers_that_start_at_once_each_gets_a_generation_of_its_own_and_only_the_last_can_write(tmp_path: Path) -> None:
    storages = [make_storage(tmp_path) for _ in range(4)]
    start = threading.Barrier(len(storages))
    errors: list[BaseException] = []

    def run(storage: DeltaCheckpointStorage) -> None:
        try:
            start.wait(60)
            storage.claim()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(storage,)) for storage in storages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    generations = [storage.generation for storage in storages]
    assert len(set(generations)) == len(storages)
    committed = []
    for number, storage in enumerate(storages, start=1):
        try:
            committed.append(take(storage, number).manifest.generation)
        except StaleGenerationError:
            continue
    assert committed == [max(generations)]


def test_a_commit_that_races_with_a_take_over_is_either_refused_or_inherited(tmp_path: Path) -> None:
    for round_number in range(20):
        old, new = make_storage(tmp_path / str(round_number)), make_storage(tmp_path / str(round_number))
        old.claim()
        draft = make_draft(old, 1)
        start = threading.Barrier(2)
        refused: list[StaleGenerationError] = []

        def commit(
            old: DeltaCheckpointStorage = old,
            draft: CheckpointDraft = draft,
            start: threading.Barrier = start,
            refused: list[StaleGenerationError] = refused,
        ) -> None:
            start.wait(60)
            try:
                old.commit(draft)
            except StaleGenerationError as error:
                refused.append(error)

        thread = threading.Thread(target=commit)
        thread.start()
        start.wait(60)
        new.claim()
        thread.join(60)
        latest = new.latest()
        # what the old driver was told to be complete, the new one has; the new one knows of it from the moment it took over
        assert refused or latest is not None
        assert [stored.checkpoint_id for stored in new.retained()] == ([] if latest is None else [1])


# -- answers that get lost --------------------------------------------------------------------------------------------------


def test_a_commit_that_happened_although_an_error_came_back_is_recognized_as_our_own(tmp_path: Path) -> None:
    after: dict[str, Exception] = {}
    storage = claimed_storage(tmp_path, delta_log=flaky_log({}, after))
    after["replace_files"] = CommitFailedError("connection reset")
    stored = take(storage, 1)
    assert after == {}
    latest = storage.latest()
    assert latest == stored
    assert take(storage, 2).version == stored.version + 1


def test_a_commit_that_did_not_happen_fails_and_the_next_one_works(tmp_path: Path) -> None:
    before: dict[str, Exception] = {}
    storage = claimed_storage(tmp_path, delta_log=flaky_log(before, {}))
    first = take(storage, 1)
    before["replace_files"] = CommitFailedError("service unavailable")
    with pytest.raises(CheckpointError, match="refused"):
        take(storage, 2)
    assert storage.latest() == first
    assert take(storage, 3).checkpoint_id == 3


@pytest.mark.parametrize("happened", [True, False])
def test_when_the_outcome_cannot_be_learned_nothing_is_deleted(tmp_path: Path, happened: bool) -> None:
    before: dict[str, Exception] = {}
    after: dict[str, Exception] = {}
    storage = claimed_storage(tmp_path, delta_log=flaky_log(before, after))
    draft = make_draft(storage, 1)
    (after if happened else before)["replace_files"] = CommitFailedError("connection reset")
    before["open"] = OSError("network is unreachable")
    with pytest.raises(CommitOutcomeUnknownError):
        storage.commit(draft)
    storage.discard(draft.location)
    storage.clean_up(())
    assert {file.path for file in draft.files} <= files_of(storage.root)
    latest = storage.latest()
    assert (latest is not None) == happened
    stored = take(storage, 2)
    storage.clean_up(())
    assert files_of(storage.root) == named_by(stored)


def test_nothing_is_deleted_while_not_even_the_folder_of_the_log_can_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before: dict[str, Exception] = {}
    storage = claimed_storage(tmp_path, delta_log=flaky_log(before, {}))
    draft = make_draft(storage, 1)

    def unreachable(folder: Path) -> bool:
        raise OSError(f"stale file handle: {folder}")

    def commits_and_loses_the_mount(*arguments: object, **options: object) -> None:
        DeltaLog.replace_files(*arguments, **options)  # type: ignore[arg-type]
        before["open"] = OSError("stale file handle")
        monkeypatch.setattr(Path, "is_dir", unreachable)

    assert storage._handle is not None
    monkeypatch.setattr(type(storage._handle), "replace_files", commits_and_loses_the_mount)
    with pytest.raises(CommitOutcomeUnknownError):
        storage.commit(draft)
    monkeypatch.undo()
    storage.discard(draft.location)
    storage.clean_up(())
    latest = storage.latest()
    assert latest is not None
    checkpoint_files.verify_files(latest)


def test_a_claim_whose_answer_is_lost_is_repeated_with_a_higher_generation(tmp_path: Path) -> None:
    after: dict[str, Exception] = {"note_transaction": CommitFailedError("connection reset")}
    storage = make_storage(tmp_path, delta_log=flaky_log({}, after))
    assert storage.claim() == 2
    assert take(storage, 1).manifest.generation == 2


def test_a_claim_that_never_succeeds_says_so(tmp_path: Path) -> None:
    others = iter(range(1_000))

    class Slower(DeltaLog):
        def note_transaction(self, application: str, transaction: int, metadata: object, **_: object) -> None:
            DeltaLog(self._table).note_transaction(f"other {next(others)}", 1, {})
            raise CommitFailedError("somebody else was quicker")

    with pytest.raises(CheckpointError, match="could not be claimed"):
        make_storage(tmp_path, delta_log=Slower).claim()


def test_a_claim_that_the_storage_refuses_says_why_on_one_line_without_colours(tmp_path: Path) -> None:
    class Full(DeltaLog):
        def note_transaction(self, *_: object, **__: object) -> None:
            raise OSError(
                "Generic error\n   \x1b[31m↳\x1b[0m Unable to copy data\n    \x1b[31m↳\x1b[0m No space left on device\n"
            )

    with pytest.raises(CheckpointError, match=r"written: OSError: Generic error: Unable to copy data: No space left on device"):
        make_storage(tmp_path, delta_log=Full).claim()


def test_a_savepoint_that_was_written_although_an_error_came_back_counts(tmp_path: Path) -> None:
    after: dict[str, Exception] = {}
    storage = claimed_storage(tmp_path / "c", delta_log=flaky_log({}, after))
    draft = make_draft(storage, 1, kind=CheckpointKind.SAVEPOINT, target=str(tmp_path / "s"))
    after["create"] = OSError("connection reset")
    checkpoint_files.verify_files(storage.commit_savepoint(draft))
    assert after == {}


def test_a_savepoint_that_was_not_written_fails(tmp_path: Path) -> None:
    before: dict[str, Exception] = {}
    storage = claimed_storage(tmp_path / "c", delta_log=flaky_log(before, {}))
    draft = make_draft(storage, 1, kind=CheckpointKind.SAVEPOINT, target=str(tmp_path / "s"))
    before["create"] = OSError("connection reset")
    with pytest.raises(CheckpointError, match="could not be written"):
        storage.commit_savepoint(draft)

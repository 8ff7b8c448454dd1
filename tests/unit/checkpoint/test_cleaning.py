"""What a clean-up may delete."""

from __future__ import annotations

from flinkish.checkpoint.cleaning import Removal, obsolete_log_entries, plan
from flinkish.checkpoint.paths import Folder, manifest_name
from flinkish.common.ids import CheckpointId, Generation


def folder(checkpoint_id: int, generation: int = 1) -> Folder:
    return Folder(CheckpointId(checkpoint_id), Generation(generation))


def files(checkpoint_id: int, generation: int = 1) -> tuple[str, ...]:
    name = f"chk-{checkpoint_id}-g{generation}"
    return (f"{name}/part-0.parquet", manifest_name(name, f"{checkpoint_id:064x}"))


def retained(*ids: int) -> list[tuple[CheckpointId, set[str]]]:
    return [(CheckpointId(number), set(files(number))) for number in ids]


def test_nothing_is_planned_for_nothing() -> None:
    assert plan({}, retained=[], in_use=(), generation=Generation(1)) == Removal((), ())


def test_what_retained_checkpoints_name_stays() -> None:
    found = {folder(number): files(number) for number in (1, 2, 3)}
    removal = plan(found, retained=retained(2, 3), in_use=(), generation=Generation(1))
    assert set(removal.files) == set(files(1))
    assert removal.folders == (folder(1),)


def test_manifests_go_before_data_and_older_ones_first() -> None:
    found = {folder(number): files(number) for number in (2, 1, 3)}
    removal = plan(found, retained=retained(3), in_use=(), generation=Generation(1))
    assert removal.files == (files(1)[1], files(2)[1], files(1)[0], files(2)[0])


def test_what_is_in_progress_stays() -> None:
    found = {folder(1): files(1), folder(2): files(2)}
    assert plan(found, retained=retained(1), in_use=[CheckpointId(2)], generation=Generation(1)) == Removal((), ())


def test_an_id_in_use_protects_only_the_folder_of_its_own_generation() -> None:
    found = {folder(2, 1): files(2, 1), folder(2, 2): files(2, 2)}
    removal = plan(found, retained=[], in_use=[CheckpointId(2)], generation=Generation(2))
    assert set(removal.files) == set(files(2, 1))


def test_folders_of_a_later_generation_are_left_alone() -> None:
    found = {folder(1, 2): files(1, 2)}
    assert plan(found, retained=[], in_use=(), generation=Generation(1)) == Removal((), ())


def test_leftovers_of_an_earlier_generation_go() -> None:
    found = {folder(1, 1): files(1, 1)}
    assert set(plan(found, retained=[], in_use=(), generation=Generation(2)).files) == set(files(1, 1))


def test_a_file_that_a_retained_checkpoint_takes_from_an_older_folder_stays() -> None:
    shared = "chk-1-g1/base.parquet"
    found = {folder(1): (shared, "chk-1-g1/old.parquet"), folder(2): files(2)}
    removal = plan(found, retained=[(CheckpointId(2), {shared, *files(2)})], in_use=(), generation=Generation(1))
    assert removal == Removal(("chk-1-g1/old.parquet",), ())


def test_the_folder_of_an_id_above_the_newest_checkpoint_stays_as_a_note_of_the_id() -> None:
    found = {folder(5): ("chk-5-g1/part-0.parquet",), folder(1): ()}
    removal = plan(found, retained=retained(4), in_use=(), generation=Generation(1))
    assert removal == Removal(("chk-5-g1/part-0.parquet",), (folder(1),))


def entry(version: int, kind: str = "json") -> str:
    return f"{version:020}.{kind}"


def test_log_entries_before_the_summary_that_is_needed_are_obsolete() -> None:
    names = [entry(number) for number in range(25)] + [entry(10, "checkpoint.parquet"), entry(20, "checkpoint.parquet")]
    assert obsolete_log_entries(names, oldest_needed=19) == tuple(entry(number) for number in range(10))
    expected = sorted([entry(number) for number in range(20)] + [entry(10, "checkpoint.parquet")])
    assert sorted(obsolete_log_entries(names, oldest_needed=20)) == expected


def test_without_a_summary_every_log_entry_is_needed() -> None:
    assert obsolete_log_entries([entry(0), entry(1)], oldest_needed=1) == ()
    assert obsolete_log_entries([entry(0), entry(5, "checkpoint.parquet")], oldest_needed=1) == ()


def test_other_files_in_the_log_are_left_alone() -> None:
    names = [entry(0), entry(1, "checkpoint.parquet"), "_last_checkpoint", "x.json", f"{0:020}.json.tmp"]
    assert obsolete_log_entries(names, oldest_needed=5) == (entry(0),)

"""Checkpoints in a Delta table: commit, read back, retain, clean up, savepoints."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from flinkish.checkpoint import checkpoint_files, disposal, paths
from flinkish.checkpoint.delta_log import STATE_SCHEMA
from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.signing import SigningKey
from flinkish.checkpoint.storage import CheckpointDraft
from flinkish.common.errors import CheckpointError, ConfigurationError
from flinkish.common.ids import CheckpointId
from flinkish.runtime import faults
from flinkish.runtime.protocol import StateFile
from tests.unit.checkpoint.support import (
    COUNT,
    JOB,
    SOURCE,
    claimed_storage,
    coordinator_state,
    files_of,
    make_draft,
    make_storage,
    named_by,
    take,
    write_state,
)


def test_a_new_job_has_no_checkpoint(tmp_path: Path) -> None:
    storage = make_storage(tmp_path)
    assert storage.claim() == 1
    assert storage.latest() is None
    assert storage.retained() == ()
    assert storage.last_id == 0


def test_a_checkpoint_is_read_back_as_it_was_committed(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    draft = make_draft(storage, 1)
    stored = storage.commit(draft)
    assert storage.latest() == stored
    manifest = stored.manifest
    assert (manifest.job_id, manifest.generation, manifest.checkpoint_id) == (JOB, 1, 1)
    assert manifest.coordinator == draft.coordinator
    assert manifest.committables == draft.committables
    assert set(manifest.files) == set(draft.files)
    assert (manifest.trigger_time, manifest.completion_time) == (500, 1_000)
    assert stored.trusted


def test_a_restore_names_files_parallelism_and_trust(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    restore = take(storage, 3).to_restore()
    assert restore.checkpoint_id == 3
    assert restore.root == str(storage.root)
    assert restore.pickle_allowed
    assert restore.parallelism[COUNT] == 2
    assert {file.path for file in restore.files} == {"chk-3-g1/part-0.parquet", "chk-3-g1/part-1.parquet"}


def test_a_completed_checkpoint_is_one_version_of_the_table(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path, num_retained=2)
    first, second = take(storage, 1, rows=10), take(storage, 2, rows=20)
    assert second.version == first.version + 1
    for stored, rows in ((first, 20), (second, 40)):
        table = DeltaTable(str(storage.root), version=stored.version).to_pyarrow_table()
        assert table.schema.names == STATE_SCHEMA.names
        values = table.filter(pc.equal(table["state_kind"], "value"))
        assert values.num_rows == rows
        assert set(table["checkpoint_id"].to_pylist()) == {stored.checkpoint_id}


def test_positions_and_manifest_can_be_read_with_sql(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    take(storage, 1)
    rows = DeltaTable(str(storage.root)).to_pyarrow_table().to_pylist()
    split = next(row for row in rows if row["state_name"] == "split")
    assert split["operator_uid"] == SOURCE
    assert json.loads(split["value_json"]) == {"split_id": "numbers-0", "next": 100}
    manifest = next(row for row in rows if row["state_name"] == "manifest")
    assert manifest["operator_uid"] == JOB
    source = json.loads(manifest["value_json"])["coordinator"]["sources"][0]
    assert (source["uid"], source["enumerator"], source["splits"]) == (SOURCE, [1, 2], 1)


def test_a_checkpoint_without_state_files_is_possible(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    take(storage, 1)
    stored = take(storage, 2, files=0)
    assert storage.latest() == stored
    assert stored.manifest.files == ()


def test_the_last_retained_checkpoints_stay_readable_and_others_go(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path, num_retained=3)
    for number in range(1, 8):
        take(storage, number)
        storage.clean_up(())
    retained = storage.retained()
    assert [stored.checkpoint_id for stored in retained] == [5, 6, 7]
    for stored in retained:
        checkpoint_files.verify_files(stored)
        assert DeltaTable(str(storage.root), version=stored.version).to_pyarrow_table().num_rows == 20 + 3
    assert files_of(storage.root) == set().union(*map(named_by, retained))
    assert sorted(path.name for path in storage.root.glob("chk-*")) == ["chk-5-g1", "chk-6-g1", "chk-7-g1"]


def sharing(storage: DeltaCheckpointStorage, number: int, *shared: StateFile, files: int = 1) -> CheckpointDraft:
    """Prepare a checkpoint that names files of an older one again."""
    draft = make_draft(storage, number, files=files)
    return dataclasses.replace(draft, files=(*draft.files, *shared))


def test_a_checkpoint_may_name_files_of_an_older_one_which_stay_as_long_as_one_names_them(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    first = take(storage, 1, rows=7)
    shared, dropped = first.manifest.files
    for number in (2, 3):
        stored = storage.commit(sharing(storage, number, shared))
        storage.clean_up(())
        assert shared in stored.manifest.files
        assert files_of(storage.root) == named_by(stored)
        checkpoint_files.verify_files(stored)
        assert storage.latest() == stored
        table = DeltaTable(str(storage.root)).to_pyarrow_table()
        assert pc.sum(pc.equal(table["state_kind"], "value")).as_py() == 10 + 7
        # Delta forbids that one commit adds and removes a file: Spark and delta-rs would disagree about it.
        entry = (storage.root / "_delta_log" / f"{stored.version:020}.json").read_text().splitlines()
        actions = [action for line in entry for action in json.loads(line).items()]
        paths_of = {kind: [action["path"] for each, action in actions if each == kind] for kind in ("add", "remove")}
        assert not set(paths_of["add"]) & set(paths_of["remove"])
        assert shared.path not in paths_of["add"]
    assert dropped.path not in DeltaTable(str(storage.root)).to_pyarrow_dataset().files
    last = take(storage, 4)
    storage.clean_up(())
    assert files_of(storage.root) == named_by(last)
    again = claimed_storage(tmp_path)
    latest = again.latest()
    assert latest is not None
    assert latest.manifest == last.manifest


def test_retained_checkpoints_that_share_a_file_are_all_readable(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path, num_retained=2)
    shared, _ = take(storage, 1).manifest.files
    for number in (2, 3):
        storage.commit(sharing(storage, number, shared))
        storage.clean_up(())
    retained = storage.retained()
    for stored in retained:
        checkpoint_files.verify_files(stored)
        values = DeltaTable(str(storage.root), version=stored.version).to_pyarrow_table()
        assert pc.sum(pc.equal(values["state_kind"], "value")).as_py() == 20
    assert files_of(storage.root) == set().union(*map(named_by, retained))


@pytest.mark.parametrize("how", ["never written", "other hash", "other size", "dropped before"])
def test_a_file_that_no_retained_checkpoint_names_in_the_same_way_is_refused(tmp_path: Path, how: str) -> None:
    storage = claimed_storage(tmp_path)
    shared, _ = take(storage, 1).manifest.files
    match how:
        case "never written":
            shared = dataclasses.replace(shared, path="chk-1-g1/other.parquet")
        case "other hash":
            shared = dataclasses.replace(shared, sha256="0" * 64)
        case "other size":
            shared = dataclasses.replace(shared, size=shared.size - 1)
        case _:
            take(storage, 2)
    with pytest.raises(CheckpointError, match="no retained checkpoint names"):
        storage.commit(sharing(storage, 3, shared))


def test_files_of_the_checkpoint_before_stay_while_one_is_in_progress_that_may_name_them(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    shared, _ = take(storage, 1).manifest.files
    draft = sharing(storage, 3, shared)  # its tasks only know checkpoint 1
    take(storage, 2)
    storage.clean_up([CheckpointId(3)])
    stored = storage.commit(draft)
    checkpoint_files.verify_files(stored)
    storage.clean_up(())
    assert files_of(storage.root) == named_by(stored)


def test_files_of_a_late_acknowledgement_go_but_not_those_that_it_shares(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    stored = take(storage, 1)
    draft = sharing(storage, 2, *stored.manifest.files)
    storage.discard_files(draft.location, draft.files)
    storage.discard(draft.location)
    assert files_of(storage.root) == named_by(stored)


def test_a_savepoint_holds_copies_of_shared_files(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    shared, _ = take(storage, 1).manifest.files
    stored = storage.commit(sharing(storage, 2, shared))
    savepoint = storage.export_savepoint(stored, storage.prepare_export(str(tmp_path / "savepoints")))
    checkpoint_files.verify_files(savepoint)
    assert DeltaTable(str(savepoint.root)).to_pyarrow_table().num_rows == 20 + 3
    disposal.dispose(str(savepoint.root))
    assert not Path(savepoint.root).exists()
    own = make_draft(storage, 3, kind=CheckpointKind.SAVEPOINT, target=str(tmp_path / "savepoints"), files=1)
    with pytest.raises(CheckpointError, match="not in its folder"):
        storage.commit_savepoint(dataclasses.replace(own, files=(*own.files, shared)))


def test_nothing_unreferenced_survives_a_clean_up_but_what_is_in_progress(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    make_draft(storage, 1)
    stored = take(storage, 2)
    in_progress = make_draft(storage, 3)
    storage.clean_up([CheckpointId(3)])
    assert files_of(storage.root) == named_by(stored) | {file.path for file in in_progress.files}
    storage.clean_up(())
    assert files_of(storage.root) == named_by(stored)


def test_the_log_of_the_table_stays_short(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path, num_retained=2)
    for number in range(1, 60):
        take(storage, number, files=1, rows=1)
        storage.clean_up(())
    assert len(list((storage.root / "_delta_log").iterdir())) < 40
    assert [stored.checkpoint_id for stored in storage.retained()] == [58, 59]
    for stored in storage.retained():
        assert DeltaTable(str(storage.root), version=stored.version).to_pyarrow_table().num_rows == 4
    successor = make_storage(tmp_path, num_retained=2)
    assert successor.claim() == 2
    assert [stored.checkpoint_id for stored in successor.retained()] == [58, 59]


def test_a_discarded_checkpoint_leaves_its_empty_folder_until_a_later_one_completes(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    draft = make_draft(storage, 1)
    storage.discard(draft.location)
    assert [path.name for path in storage.root.glob("chk-*")] == ["chk-1-g1"]
    assert files_of(storage.root) == set()
    take(storage, 2)
    storage.clean_up(())
    assert [path.name for path in storage.root.glob("chk-*")] == ["chk-2-g1"]


def test_a_committed_checkpoint_cannot_be_discarded(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    draft = make_draft(storage, 1)
    stored = storage.commit(draft)
    storage.discard(draft.location)
    assert files_of(storage.root) == named_by(stored)


def test_single_files_can_be_discarded(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    draft = make_draft(storage, 1)
    storage.discard_files(draft.location, draft.files[:1])
    storage.discard_files(draft.location, draft.files[:1])
    assert files_of(storage.root) == {draft.files[1].path}


def test_ids_are_never_used_again_also_after_a_crash(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    take(storage, 1)
    make_draft(storage, 2)
    storage.prepare(CheckpointId(3), str(tmp_path / "savepoints"))
    successor = claimed_storage(tmp_path)
    assert successor.last_id == 3


def test_more_retained_checkpoints_can_be_asked_for_later(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path, num_retained=1)
    take(storage, 1)
    take(storage, 2)
    successor = claimed_storage(tmp_path, num_retained=3)
    take(successor, 3)
    assert [stored.checkpoint_id for stored in successor.retained()] == [2, 3]


def test_fewer_retained_checkpoints_can_be_asked_for_later(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path, num_retained=3)
    for number in (1, 2, 3):
        take(storage, number)
    successor = claimed_storage(tmp_path, num_retained=1)
    assert [stored.checkpoint_id for stored in successor.retained()] == [3]
    successor.clean_up(())
    assert files_of(storage.root) == named_by(successor.retained()[0])


def test_all_is_deleted_when_the_job_has_ended(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    take(storage, 1)
    storage.delete_all()
    assert not storage.root.exists()
    successor = make_storage(tmp_path)
    assert successor.claim() == 1
    assert successor.latest() is None


@contextmanager
def armed(fault: str) -> Iterator[None]:
    faults.arm(fault)
    try:
        yield
    finally:
        faults.arm(None)


@pytest.mark.parametrize("crash_after", range(4))
def test_a_crash_in_the_middle_of_a_clean_up_leaves_every_retained_checkpoint_whole(tmp_path: Path, crash_after: int) -> None:
    storage = claimed_storage(tmp_path, num_retained=2)
    for number in range(1, 6):
        take(storage, number)
    with armed(f"P14:raise:nth={crash_after + 1}"):
        storage.clean_up(())
    successor = claimed_storage(tmp_path, num_retained=2)
    retained = successor.retained()
    assert [stored.checkpoint_id for stored in retained] == [4, 5]
    for stored in retained:
        checkpoint_files.verify_files(stored)
    successor.clean_up(())
    assert files_of(storage.root) == set().union(*map(named_by, retained))


@pytest.mark.parametrize(("point", "left"), [("P8", 1), ("P9", 1), ("P12", 2)])
def test_a_crash_leaves_the_checkpoint_before_until_the_commit_and_the_new_one_after_it(
    tmp_path: Path, point: str, left: int
) -> None:
    storage = claimed_storage(tmp_path)
    first = take(storage, 1)
    with armed(f"{point}:raise"), pytest.raises(faults.InjectedFaultError):
        take(storage, 2)
    successor = claimed_storage(tmp_path)
    latest = successor.latest()
    assert latest is not None
    assert latest.checkpoint_id == left
    assert (latest.manifest == first.manifest) == (left == 1)
    successor.clean_up(())
    assert files_of(storage.root) == named_by(latest)


# -- savepoints -------------------------------------------------------------------------------------------------------------


def test_a_savepoint_is_a_table_of_its_own(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path / "checkpoints")
    first = take(storage, 1)
    draft = make_draft(storage, 2, kind=CheckpointKind.SAVEPOINT, target=str(tmp_path / "savepoints"))
    savepoint = storage.commit_savepoint(draft)
    assert savepoint.root.parent == tmp_path / "savepoints"
    assert savepoint.root.name.startswith(f"savepoint-{JOB[:6]}-")
    assert DeltaTable(str(savepoint.root)).to_pyarrow_table().num_rows == 23
    assert files_of(savepoint.root) == named_by(savepoint)
    latest = storage.latest()
    assert latest is not None
    assert latest.checkpoint_id == first.checkpoint_id
    assert savepoint.external_path == str(savepoint.root)


def test_a_savepoint_survives_everything_that_the_job_deletes(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path / "checkpoints")
    draft = make_draft(storage, 1, kind=CheckpointKind.SAVEPOINT, target=str(tmp_path / "savepoints"))
    savepoint = storage.commit_savepoint(draft)
    take(storage, 2)
    storage.clean_up(())
    storage.discard(draft.location)
    storage.delete_all()
    checkpoint_files.verify_files(savepoint)


def test_an_aborted_savepoint_leaves_nothing_behind(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path / "checkpoints")
    draft = make_draft(storage, 1, kind=CheckpointKind.SAVEPOINT, target=str(tmp_path / "savepoints"))
    storage.discard(draft.location)
    assert list((tmp_path / "savepoints").iterdir()) == []


def test_a_checkpoint_exported_as_savepoint_does_not_need_the_job_any_more(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path / "checkpoints")
    stored = take(storage, 1)
    savepoint = storage.export_savepoint(stored, storage.prepare_export(f"file://{tmp_path}/savepoints"))
    storage.delete_all()
    checkpoint_files.verify_files(savepoint)
    assert DeltaTable(str(savepoint.root)).to_pyarrow_table().num_rows == 23
    assert savepoint.manifest.coordinator == stored.manifest.coordinator


def test_an_export_that_meets_a_damaged_file_leaves_nothing_behind(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path / "checkpoints")
    stored = take(storage, 1)
    victim = storage.root / stored.manifest.files[1].path
    content = bytearray(victim.read_bytes())
    content[50] ^= 1
    victim.write_bytes(content)
    folder = storage.prepare_export(str(tmp_path / "savepoints"))
    with pytest.raises(CheckpointError, match="SHA-256"):
        storage.export_savepoint(stored, folder)
    assert list((tmp_path / "savepoints").iterdir()) == []


def test_a_folder_that_takes_no_bytes_is_no_place_for_a_savepoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = claimed_storage(tmp_path / "checkpoints")
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="Not a directory"):
        storage.prepare_export(str(tmp_path / "file" / "savepoints"))

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            storage.prepare_export(str(tmp_path / "savepoints"))
    assert list((tmp_path / "savepoints").iterdir()) == []
    folder = storage.prepare_export(str(tmp_path / "savepoints"))
    assert list(Path(folder).iterdir()) == []


# -- refusals ---------------------------------------------------------------------------------------------------------------


def test_storage_must_be_claimed_before_it_is_used(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not claimed"):
        make_storage(tmp_path).prepare(CheckpointId(1), None)


def test_a_state_file_outside_of_its_folder_is_refused(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    one, two = make_draft(storage, 1), make_draft(storage, 2)
    for path in ("../secret", "/etc/passwd", "chk-2-g1/../x", two.files[0].path):
        bad = dataclasses.replace(one, files=(dataclasses.replace(one.files[0], path=path),))
        with pytest.raises(CheckpointError, match="not in its folder"):
            storage.commit(bad)


def test_a_state_file_shorter_than_acknowledged_is_refused(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    draft = make_draft(storage, 1)
    os.truncate(storage.root / draft.files[0].path, 10)
    with pytest.raises(CheckpointError, match="has 10"):
        storage.commit(draft)


def test_the_signing_key_must_not_lie_in_the_storage(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="signing key"):
        make_storage(tmp_path, key=SigningKey.load(str(tmp_path / "secret" / "key")))


@pytest.mark.parametrize("text", ["s3://bucket/checkpoints", "hdfs://host/x", "", "  ", "a\0b", "file://other-host/x"])
def test_a_directory_that_is_no_folder_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.dir"):
        paths.local_path(text, key="execution.checkpointing.dir")


@pytest.mark.parametrize("job_id", ["", ".", "..", "../x", "a/b", "a\\b", "a\0b", "%2e%2e", "-x", "x" * 201])
def test_a_job_id_that_cannot_name_a_folder_is_refused(tmp_path: Path, job_id: str) -> None:
    with pytest.raises(ConfigurationError, match="job id"):
        make_storage(tmp_path, job_id=job_id)


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(CheckpointError, match=r"execution\.checkpointing\.dir"):
        make_storage(tmp_path / "file").claim()


def test_a_disk_that_is_full_fails_only_that_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = claimed_storage(tmp_path)
    first = take(storage, 1)
    draft = make_draft(storage, 2)
    with monkeypatch.context() as patch:

        def full(*_: object, **__: object) -> None:
            raise OSError(28, "No space left on device")

        patch.setattr("flinkish.checkpoint.delta_storage.write_manifest", full)
        with pytest.raises(OSError, match="No space"):
            storage.commit(draft)
    storage.discard(draft.location)
    assert storage.latest() == first
    assert take(storage, 3).checkpoint_id == 3


def test_files_are_synced_when_durability_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = make_storage(tmp_path)
    storage._durable = True
    synced: list[str] = []
    original = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.path.relpath(os.readlink(f"/proc/self/fd/{descriptor}"), storage.root))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    storage.claim()
    location = storage.prepare(CheckpointId(1), None)
    file = write_state(location, "part")
    stored = storage.commit(
        CheckpointDraft(
            checkpoint_id=CheckpointId(1),
            kind=CheckpointKind.PERIODIC,
            trigger_time=0,
            location=location,
            coordinator=coordinator_state(),
            files=(file,),
            committables=(),
        )
    )
    assert {file.path, stored.manifest_path, "chk-1-g1", f"_delta_log/{stored.version:020}.json", "_delta_log"} <= set(synced)

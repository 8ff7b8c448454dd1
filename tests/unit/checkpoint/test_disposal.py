"""Deleting a savepoint: only a savepoint is deleted, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from flinkish.checkpoint.disposal import dispose
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.errors import CheckpointError, ConfigurationError, CorruptCheckpointError, ForeignCheckpointError

from .support import JOB, OTHER_KEY, claimed_storage, make_draft, take


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def take_savepoint(tmp_path: Path) -> StoredCheckpoint:
    storage = claimed_storage(tmp_path / "checkpoints", key=OTHER_KEY)
    take(storage, 1)
    return storage.commit_savepoint(make_draft(storage, 2, kind=CheckpointKind.SAVEPOINT, target=str(tmp_path / "savepoints")))


@pytest.mark.parametrize("form", ["{}", "file://{}", "{}/"])
def test_a_savepoint_is_deleted_with_its_folder_and_nothing_else(tmp_path: Path, form: str) -> None:
    savepoint = take_savepoint(tmp_path)
    others = contents(tmp_path / "checkpoints")

    dispose(form.format(savepoint.root))

    assert list((tmp_path / "savepoints").iterdir()) == []
    assert contents(tmp_path / "checkpoints") == others


def test_the_savepoint_of_a_stop_is_deleted(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path / "checkpoints")
    stored = take(storage, 1)
    savepoint = storage.export_savepoint(stored, storage.prepare_export(str(tmp_path / "savepoints")))

    dispose(str(savepoint.root))

    assert not Path(savepoint.root).exists()
    assert storage.latest() == stored


@pytest.mark.parametrize("place", ["", "state", "state/chk-1-g1", "history"])
def test_the_checkpoints_of_a_job_are_no_savepoint(tmp_path: Path, place: str) -> None:
    take_savepoint(tmp_path)
    before = contents(tmp_path)

    with pytest.raises(ForeignCheckpointError, match="savepoint"):
        dispose(str(tmp_path / "checkpoints" / JOB / place))

    assert contents(tmp_path) == before


def test_a_stops_own_checkpoint_is_no_savepoint(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path)
    storage.commit(make_draft(storage, 1, kind=CheckpointKind.STOP_SAVEPOINT))
    before = contents(tmp_path)

    with pytest.raises(ForeignCheckpointError, match="has the checkpoints of a job"):
        dispose(str(tmp_path / JOB / "state"))
    # Nor is it one without the marker of a job's table.
    (tmp_path / JOB / "state" / "_latest.json").unlink()
    with pytest.raises(ForeignCheckpointError, match="of several versions"):
        dispose(str(tmp_path / JOB / "state"))

    assert contents(tmp_path) == {name: content for name, content in before.items() if not name.endswith("_latest.json")}


@pytest.mark.parametrize("what", ["missing", "folder", "file", "table", "root"])
def test_anything_else_is_refused_by_name(tmp_path: Path, what: str) -> None:
    path = tmp_path / what
    if what in ("folder", "root"):
        path.mkdir()
        (path / "data.txt").write_text("data")
    elif what == "file":
        path.write_text("data")
    elif what == "table":
        write_deltalake(str(path), pa.table({"a": [1]}))
    before = contents(tmp_path)

    with pytest.raises(ForeignCheckpointError, match=what if what != "root" else "'/'"):
        dispose("/" if what == "root" else str(path))

    assert contents(tmp_path) == before


@pytest.mark.parametrize("name", ["mine.txt", "chk-2-g1/mine.parquet", "_delta_log/mine.json", "folder/deep/mine"])
def test_a_savepoint_with_other_files_in_its_folder_is_kept(tmp_path: Path, name: str) -> None:
    savepoint = take_savepoint(tmp_path)
    extra = Path(savepoint.root, name)
    extra.parent.mkdir(parents=True, exist_ok=True)
    extra.write_text("mine")
    before = contents(tmp_path)

    with pytest.raises(ForeignCheckpointError, match=name):
        dispose(str(savepoint.root))

    assert contents(tmp_path) == before


def test_a_damaged_savepoint_is_kept(tmp_path: Path) -> None:
    savepoint = take_savepoint(tmp_path)
    Path(savepoint.root, savepoint.manifest.files[0].path).write_bytes(b"other")
    before = contents(tmp_path)

    with pytest.raises(CorruptCheckpointError):
        dispose(str(savepoint.root))

    assert contents(tmp_path) == before


def test_links_are_not_followed(tmp_path: Path) -> None:
    savepoint = Path(take_savepoint(tmp_path).root)
    link = tmp_path / "link"
    link.symlink_to(savepoint)
    with pytest.raises(CorruptCheckpointError, match="is a link"):
        dispose(str(link))
    # A log that leads elsewhere.
    shutil.move(savepoint / "_delta_log", tmp_path / "log")
    (savepoint / "_delta_log").symlink_to(tmp_path / "log")
    before = contents(tmp_path)
    with pytest.raises(CorruptCheckpointError, match="is a link"):
        dispose(str(savepoint))
    assert contents(tmp_path) == before


def test_a_disposal_that_was_cut_short_leaves_no_savepoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    savepoint = Path(take_savepoint(tmp_path).root)
    from flinkish.common.files.local import LocalFiles

    removed: list[str] = []

    def remove(self: LocalFiles, inside: str) -> None:
        if removed:
            raise PermissionError("no more")
        removed.append(inside)
        Path(self.root, inside).unlink()

    monkeypatch.setattr(LocalFiles, "remove", remove)
    with pytest.raises(CheckpointError, match="could not be deleted completely: no more"):
        dispose(str(savepoint))
    assert removed == ["_delta_log/00000000000000000000.json"]


@pytest.mark.parametrize("text", ["", "memory://a/b", "hdfs://host/a", "\0", "s3://"])
def test_a_text_that_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="savepoint-path"):
        dispose(text)

"""Attacks by whoever can write to the storage of checkpoints: nothing outside of it is read, changed or deleted."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from flinkish.checkpoint import history as history_module
from flinkish.checkpoint import paths
from flinkish.checkpoint.checkpoint_files import Latest, write_latest
from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage
from flinkish.checkpoint.history import JobHistory
from flinkish.checkpoint.recovery import open_checkpoint
from flinkish.checkpoint.storage import CheckpointLocation
from flinkish.common import safe_files
from flinkish.common.clock import ManualClock
from flinkish.common.errors import CheckpointError, ConfigurationError, CorruptCheckpointError
from flinkish.common.ids import Generation
from flinkish.jobmaster.ha import ClusterRecord

from .support import JOB, KEY, make_storage, take


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Make a folder outside of the storage, with what is dear to its owner."""
    folder = tmp_path / "home"
    (folder / "deep" / "empty").mkdir(parents=True)
    for name in ("letter", "deep/key", "part-0.parquet"):
        (folder / name).write_text("mine")
    return folder


@pytest.fixture
def storage(tmp_path: Path) -> DeltaCheckpointStorage:
    storage = make_storage(tmp_path / "storage")
    storage.claim()
    return storage


def everything_in(folder: Path) -> dict[str, str | None]:
    return {
        path.relative_to(folder).as_posix(): path.read_text() if path.is_file() else None for path in sorted(folder.rglob("*"))
    }


@pytest.mark.parametrize("name", ["chk-1-g1", "chk-999-g1"])
def test_cleaning_does_not_delete_through_a_link_in_place_of_a_checkpoint_folder(
    storage: DeltaCheckpointStorage, home: Path, name: str
) -> None:
    before = everything_in(home)
    if name == "chk-999-g1":
        (storage.root / name).symlink_to(home)
    take(storage, 1)
    take(storage, 2)
    if name == "chk-1-g1":
        for path in (storage.root / name).iterdir():
            path.unlink()
        (storage.root / name).rmdir()
        (storage.root / name).symlink_to(home)
    storage.clean_up(())
    take(storage, 3)
    storage.clean_up(())
    assert everything_in(home) == before


def test_cleaning_deletes_links_in_a_checkpoint_folder_but_not_what_they_lead_to(
    storage: DeltaCheckpointStorage, home: Path
) -> None:
    before = everything_in(home)
    take(storage, 1)
    folder = storage.root / "chk-1-g1"
    (folder / "home").symlink_to(home)
    (folder / "letter").symlink_to(home / "letter")
    (folder / "inner").mkdir()
    (folder / "inner" / "up").symlink_to("../../../../home")
    take(storage, 2)
    storage.clean_up(())
    assert not folder.exists()
    assert everything_in(home) == before


def test_removing_empty_folders_does_not_follow_a_link(storage: DeltaCheckpointStorage, home: Path) -> None:
    (storage.root / "chk-1-g1").symlink_to(home / "deep")
    (home / "deep" / "key").unlink()
    take(storage, 2)
    storage.clean_up(())
    assert (home / "deep" / "empty").is_dir()


def test_a_discarded_checkpoint_is_not_deleted_through_a_link(storage: DeltaCheckpointStorage, home: Path) -> None:
    before = everything_in(home)
    location = storage.prepare(1, None)  # type: ignore[arg-type]
    os.rmdir(location.directory)
    os.symlink(home, location.directory)
    storage.discard(location)
    files = take(storage, 2).manifest.files
    stolen = CheckpointLocation(directory=location.directory, root=location.root)
    storage.discard_files(stolen, [type(files[0])(**{**_fields(files[0]), "path": "chk-1-g1/part-0.parquet"})])
    assert everything_in(home) == before


def _fields(file: object) -> dict[str, object]:
    return {name: getattr(file, name) for name in file.__slots__}  # type: ignore[attr-defined]


def test_the_marker_of_the_newest_version_is_not_written_through_a_link(tmp_path: Path, home: Path) -> None:
    root = tmp_path / "table"
    root.mkdir()
    for name in ("_latest.json.1.new", "_latest.json.new", "_latest.json"):
        (root / name).symlink_to(home / "letter")
    write_latest(root, Latest(version=3, checkpoint_id=2, generation=1), sync=False)
    assert (home / "letter").read_text() == "mine"
    assert not (root / "_latest.json").is_symlink()


def test_drafts_of_the_marker_that_a_killed_driver_left_behind_are_removed(storage: DeltaCheckpointStorage) -> None:
    take(storage, 1)
    for name in ("_latest.json.1.0123456789abcdef.new", "_latest.json.2.0123456789abcdef.new"):
        (storage.root / name).write_text("{")
    storage.clean_up(())
    assert sorted(path.name for path in storage.root.glob("*.new")) == ["_latest.json.2.0123456789abcdef.new"]


def test_the_marker_of_the_newest_version_is_not_read_through_a_link(storage: DeltaCheckpointStorage) -> None:
    take(storage, 1)
    (storage.root / paths.LATEST).unlink()
    (storage.root / paths.LATEST).symlink_to("/dev/zero")
    with pytest.raises(CorruptCheckpointError, match=paths.LATEST):
        storage.latest()


@pytest.mark.parametrize("which", ["job", "state", "_delta_log"])
@pytest.mark.parametrize("call", ["claim", "open"])
def test_a_link_in_place_of_a_folder_of_the_table_is_refused(tmp_path: Path, which: str, call: str) -> None:
    first = make_storage(tmp_path / "storage")
    first.claim()
    take(first, 1)
    folder = {"job": first.root.parent, "state": first.root, "_delta_log": first.root / paths.LOG}[which]
    elsewhere = tmp_path / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    before = sorted(path.relative_to(elsewhere) for path in elsewhere.rglob("*"))
    if call == "claim":
        with pytest.raises(CorruptCheckpointError, match="is a link"):
            make_storage(tmp_path / "storage").claim()
    elif which == "_delta_log":
        with pytest.raises(CorruptCheckpointError, match="is a link"):
            open_checkpoint(str(first.root), signing_key=KEY)
    first.delete_all()
    assert sorted(path.relative_to(elsewhere) for path in elsewhere.rglob("*")) == before


def test_an_entry_of_the_log_that_is_a_link_is_refused(storage: DeltaCheckpointStorage) -> None:
    take(storage, 1)
    newest = max((storage.root / paths.LOG).glob("*.json"))
    (newest.parent / f"{int(newest.stem) + 1:020}.json").symlink_to("/dev/zero")
    with pytest.raises(CorruptCheckpointError, match="is a link"):
        storage.latest()


def test_delta_s_own_files_are_not_written_through_links(tmp_path: Path, home: Path) -> None:
    storage = make_storage(tmp_path / "storage")
    storage.claim()
    take(storage, 1)
    before = everything_in(home)
    log = storage.root / paths.LOG
    (log / "_last_checkpoint").symlink_to(home / "letter")
    version = int(max(log.glob("*.json")).stem)
    for number in range(version, version + 30):
        (log / f"{number:020}.checkpoint.parquet").symlink_to(home / "letter")
    # the storage may refuse to go on
    with contextlib.suppress(CheckpointError):
        for checkpoint_id in range(2, 30):
            take(storage, checkpoint_id)
            storage.clean_up(())
    assert everything_in(home) == before


@pytest.mark.parametrize("kind", ["state file", "manifest", "pipe"])
def test_files_of_a_checkpoint_are_not_read_through_links_or_from_pipes(storage: DeltaCheckpointStorage, kind: str) -> None:
    stored = take(storage, 1)
    path = storage.root / (stored.manifest_path if kind == "manifest" else stored.manifest.files[0].path)
    copy = storage.root / "copy"
    path.rename(copy)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(copy)
    with pytest.raises(CorruptCheckpointError, match=path.name):
        storage.latest()


def test_the_record_of_a_cluster_id_is_not_written_through_links(tmp_path: Path, home: Path) -> None:
    before = everything_in(home)
    directory = tmp_path / "storage"
    record = ClusterRecord(directory, "orders")
    record.retire(record.job_id())
    (file,) = (directory / "high-availability").iterdir()
    file.with_suffix(f".{os.getpid()}.new").symlink_to(home / "letter")
    record.retire(record.job_id())
    assert everything_in(home) == before
    file.unlink()
    file.symlink_to(home / "letter")
    with pytest.raises(ConfigurationError, match="cluster-id"):
        record.job_id()


def test_no_record_of_a_cluster_id_is_made_in_a_folder_that_is_a_link(tmp_path: Path, home: Path) -> None:
    before = everything_in(home)
    (tmp_path / "storage").mkdir()
    (tmp_path / "storage" / "high-availability").symlink_to(home)
    record = ClusterRecord(tmp_path / "storage", "orders")
    with pytest.raises(ConfigurationError, match="high-availability"):
        record.job_id()
    assert everything_in(home) == before


@pytest.mark.parametrize("where", ["", "_delta_log"])
def test_the_history_is_not_cleaned_through_links(tmp_path: Path, home: Path, where: str) -> None:
    before = everything_in(home)
    clock = ManualClock(1_000)
    history = JobHistory(tmp_path / "storage", JOB, generation=Generation(1), clock=clock)
    for batch in range(history_module._BATCHES_PER_COMPACTION):
        if batch == 1:
            (history.root / where / "link").symlink_to(home)
            (history.root / "link.parquet").symlink_to(home / "letter")
        history.note("event")
        history.flush()
    assert everything_in(home) == before
    if not where:
        assert len(list(history.root.glob("*.parquet"))) == 1


def test_the_history_is_not_written_through_a_link(tmp_path: Path, home: Path) -> None:
    before = everything_in(home)
    (tmp_path / "storage" / JOB).mkdir(parents=True)
    (tmp_path / "storage" / JOB / "history").symlink_to(home)
    history = JobHistory(tmp_path / "storage", JOB, generation=Generation(1), clock=ManualClock(1_000))
    history.note("event")
    history.flush()
    assert everything_in(home) == before


ATTACKS: list[tuple[str, Callable[[Path, str], object]]] = [
    ("open_file", safe_files.open_file),
    ("read_file", lambda root, inside: safe_files.read_file(root, inside, limit=10)),
    ("remove_file", safe_files.remove_file),
    ("replace_file", lambda root, inside: safe_files.replace_file(root, inside, b"x", sync=False)),
    ("remove_empty_folders", safe_files.remove_empty_folders),
    ("make_folders", safe_files.make_folders),
]


@pytest.mark.parametrize("inside", ["link/letter", "link/deep/key", "../home/letter", "inner/../link/letter"])
@pytest.mark.parametrize(("name", "operation"), ATTACKS, ids=lambda part: part if isinstance(part, str) else "")
def test_no_operation_below_a_folder_follows_a_link_or_leaves_it(
    tmp_path: Path, home: Path, inside: str, name: str, operation: Callable[[Path, str], object]
) -> None:
    before = everything_in(home)
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    (root / "link").symlink_to(home)
    with pytest.raises(OSError, match="ot a "):  # directory, plain relative path
        operation(root, inside)
    assert everything_in(home) == before


@pytest.mark.parametrize(
    "path", ["/base", "/other/a", "/base/../other/a", "/base/a/../../b", "/base/./a", "base/a", "/basement/a", ""]
)
def test_a_path_that_is_not_written_plainly_below_its_base_leads_outside(path: str) -> None:
    assert safe_files.leads_outside(path, "/base")


def test_a_path_that_leaves_its_base_by_a_link_leads_outside(tmp_path: Path, home: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    (base / "link").symlink_to(home)
    (base / "inner").symlink_to(".")
    assert safe_files.leads_outside(base / "link" / "letter", base)
    assert not safe_files.leads_outside(base / "inner" / "new", base)
    assert not safe_files.leads_outside(base / "a" / "new", base)

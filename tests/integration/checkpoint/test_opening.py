"""Opening what execution.state-recovery.path names, and whether it fits the program."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from flinkish.checkpoint.manifest import CheckpointKind, OperatorShape
from flinkish.checkpoint.opening import Selection, check_operators, open_checkpoint, parse_selection
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.errors import ConfigurationError, CorruptCheckpointError, ForeignCheckpointError
from flinkish.common.ids import OperatorUid
from tests.unit.checkpoint.support import (
    COUNT,
    JOB,
    KEY,
    SINK,
    SOURCE,
    claimed_storage,
    coordinator_state,
    make_draft,
    take,
)


@pytest.fixture
def job(tmp_path: Path) -> Path:
    storage = claimed_storage(tmp_path, num_retained=2)
    for number in (1, 2, 3):
        take(storage, number)
        storage.clean_up(())
    return tmp_path / JOB


@pytest.mark.parametrize(
    ("text", "selection"),
    [
        ("/a/b", Selection(Path("/a/b"))),
        ("file:///a/b", Selection(Path("/a/b"))),
        ("/a/b@7", Selection(Path("/a/b"), checkpoint_id=7)),
        ("/a/b#7", Selection(Path("/a/b"), checkpoint_id=7)),
        ("/a/b@v7", Selection(Path("/a/b"), version=7)),
        ("/a@home/b", Selection(Path("/a@home/b"))),
    ],
)
def test_the_forms_of_a_recovery_path(text: str, selection: Selection) -> None:
    assert parse_selection(text) == selection


def test_a_recovery_path_elsewhere_than_in_a_folder_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="hdfs"):
        parse_selection("hdfs://host/savepoint")


@pytest.mark.parametrize("suffix", ["", "/state", "/state/chk-3-g1", "@3", "/state@3", "#3"])
def test_the_newest_checkpoint_is_found_by_every_form(job: Path, suffix: str) -> None:
    assert open_checkpoint(f"{job}{suffix}", signing_key=KEY).checkpoint_id == 3


@pytest.mark.parametrize("suffix", ["@2", "#2", "/state#2", "/state/chk-2-g1"])
def test_an_older_retained_checkpoint_is_found_by_its_id(job: Path, suffix: str) -> None:
    found = open_checkpoint(f"{job}{suffix}", signing_key=KEY)
    assert found.checkpoint_id == 2
    assert found.trusted


def test_a_checkpoint_is_found_by_the_version_of_the_table(job: Path) -> None:
    newest = open_checkpoint(str(job), signing_key=KEY)
    found = open_checkpoint(f"{job}@v{newest.version - 1}", signing_key=KEY)
    assert (found.checkpoint_id, found.version) == (2, newest.version - 1)


def test_the_external_path_of_a_checkpoint_opens_it_again(job: Path) -> None:
    for number in (2, 3):
        found = open_checkpoint(f"{job}@{number}", signing_key=KEY)
        assert open_checkpoint(found.external_path, signing_key=KEY) == found


def test_a_checkpoint_that_is_gone_is_refused_with_those_that_are_there(job: Path) -> None:
    with pytest.raises(ForeignCheckpointError, match=r"\[2, 3\]"):
        open_checkpoint(f"{job}@1", signing_key=KEY)


def test_a_version_that_is_not_there_is_refused_with_the_newest(job: Path) -> None:
    with pytest.raises(ForeignCheckpointError, match="newest"):
        open_checkpoint(f"{job}@v99", signing_key=KEY)


def test_a_version_whose_files_are_deleted_is_corrupt(job: Path) -> None:
    newest = open_checkpoint(str(job), signing_key=KEY)
    with pytest.raises(CorruptCheckpointError, match="chk-1-g1"):
        open_checkpoint(f"{job}@v{newest.version - 2}", signing_key=KEY)


def test_opening_changes_nothing(job: Path) -> None:
    before = sorted((path, path.stat().st_mtime_ns) for path in job.rglob("*"))
    open_checkpoint(str(job), signing_key=KEY)
    assert sorted((path, path.stat().st_mtime_ns) for path in job.rglob("*")) == before


def test_a_moved_savepoint_is_opened_where_it_is(tmp_path: Path) -> None:
    storage = claimed_storage(tmp_path / "c")
    draft = make_draft(storage, 4, kind=CheckpointKind.SAVEPOINT, target=str(tmp_path / "s"))
    savepoint = storage.commit_savepoint(draft)
    moved = savepoint.root.rename(tmp_path / "moved")
    found = open_checkpoint(str(moved), signing_key=KEY)
    assert (found.checkpoint_id, found.root, found.manifest) == (4, moved, savepoint.manifest)


@pytest.mark.parametrize("what", ["missing", "empty folder", "file", "other table", "no checkpoint yet"])
def test_a_path_without_a_checkpoint_is_foreign(tmp_path: Path, what: str) -> None:
    path = tmp_path / "x"
    match what:
        case "empty folder":
            path.mkdir()
        case "file":
            path.write_text("hello")
        case "other table":
            write_deltalake(str(path), pa.table({"a": [1]}))
        case "no checkpoint yet":
            claimed_storage(tmp_path, job_id="x")
    with pytest.raises(ForeignCheckpointError, match=re.escape(str(path))):
        open_checkpoint(str(path), signing_key=KEY)


def shapes(**changes: int) -> Mapping[OperatorUid, OperatorShape]:
    """The operators of the checkpoint, some with another max parallelism (by uid); 0 removes one."""
    old = {shape.uid: shape for shape in coordinator_state().operators}
    new = {uid: dataclasses.replace(shape, max_parallelism=changes.get(uid, 128)) for uid, shape in old.items()}
    return {uid: shape for uid, shape in new.items() if shape.max_parallelism}


@pytest.fixture
def checkpoint(tmp_path: Path) -> StoredCheckpoint:
    storage = claimed_storage(tmp_path)
    return take(storage, 1)


def test_the_same_program_fits(checkpoint: StoredCheckpoint) -> None:
    assert check_operators(checkpoint.manifest, shapes(), allow_unclaimed=False, where="here") == ()


def test_another_parallelism_fits(checkpoint: StoredCheckpoint) -> None:
    rescaled = {uid: dataclasses.replace(shape, parallelism=7) for uid, shape in shapes().items()}
    assert check_operators(checkpoint.manifest, rescaled, allow_unclaimed=False, where="here") == ()


def test_a_new_operator_fits(checkpoint: StoredCheckpoint) -> None:
    new = OperatorShape(uid=OperatorUid("new"), name="new", parallelism=1, max_parallelism=128, kind="keyed")
    assert check_operators(checkpoint.manifest, {**shapes(), new.uid: new}, allow_unclaimed=False, where="here") == ()


@pytest.mark.parametrize("uid", [COUNT, SOURCE, SINK])
def test_state_of_an_operator_that_is_gone_is_refused_unless_allowed(checkpoint: StoredCheckpoint, uid: OperatorUid) -> None:
    operators = shapes(**{uid: 0})
    with pytest.raises(ForeignCheckpointError, match=f"does not have: {uid}"):
        check_operators(checkpoint.manifest, operators, allow_unclaimed=False, where="here")
    assert check_operators(checkpoint.manifest, operators, allow_unclaimed=True, where="here") == (uid,)


def test_another_max_parallelism_of_keyed_state_is_refused(checkpoint: StoredCheckpoint) -> None:
    with pytest.raises(ForeignCheckpointError, match="max parallelism 64, its keyed state was written with 128"):
        check_operators(checkpoint.manifest, shapes(count=64), allow_unclaimed=True, where="here")


def test_another_max_parallelism_without_keyed_state_fits(checkpoint: StoredCheckpoint) -> None:
    assert check_operators(checkpoint.manifest, shapes(source=64), allow_unclaimed=False, where="here") == ()

"""A form of storage that is no folder of this machine needs a CheckpointFiles and a line in the table of forms, no more."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.transaction import create_table_with_add_actions

from flinkish.checkpoint import checkpoint_files, delta_log
from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.opening import open_checkpoint
from flinkish.checkpoint.storage import CheckpointDraft, CheckpointLocation
from flinkish.common.clock import ManualClock
from flinkish.common.errors import StaleGenerationError
from flinkish.common.files import schemes
from flinkish.common.files.checkpoint_files import StoreReference
from flinkish.common.files.local import LocalFiles
from flinkish.common.files.schemes import root_of
from flinkish.common.ids import CheckpointId
from tests.unit.checkpoint.support import JOB, KEY, LINEAGE, coordinator_state, write_state

OPTIONS = {"secret_access_key": "hunter2"}


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have `bucket://b/...` lie in a folder, for delta-rs only with the options; return the folder."""

    class BucketFiles(LocalFiles):
        def __init__(self, root: PurePath) -> None:
            super().__init__(tmp_path.joinpath(*root.parts[1:]))
            self._reference = root

        @property
        def root(self) -> Any:
            return self._reference

        @property
        def delta_options(self) -> Mapping[str, str]:
            return OPTIONS

    def place(uri: str, options: dict[str, str] | None) -> str:
        assert uri.startswith("bucket://")
        assert options == OPTIONS
        return str(tmp_path / uri.removeprefix("bucket://"))

    def opened(uri: str, version: int | None, storage_options: dict[str, str] | None) -> DeltaTable:
        return DeltaTable(place(uri, storage_options), version=version)

    def created(uri: str, *arguments: Any, storage_options: dict[str, str] | None, **options: Any) -> None:
        create_table_with_add_actions(place(uri, storage_options), *arguments, **options)

    monkeypatch.setitem(schemes._STORES, "bucket", BucketFiles)
    monkeypatch.setattr(delta_log, "DeltaTable", opened)
    monkeypatch.setattr(delta_log, "create_table_with_add_actions", created)
    return tmp_path


def make() -> DeltaCheckpointStorage:
    ids = itertools.count(1)
    return DeltaCheckpointStorage(
        "bucket://b/checkpoints",
        JOB,
        lineage=LINEAGE,
        signing_key=KEY,
        clock=ManualClock(1_000),
        ids=lambda: f"{next(ids):032x}"[::-1],
    )


def draft(storage: DeltaCheckpointStorage, folder: Path, checkpoint_id: int) -> CheckpointDraft:
    location = storage.prepare(CheckpointId(checkpoint_id), None)
    root = folder.joinpath(*root_of(location.root).parts[1:])
    here = CheckpointLocation(directory=str(root / root_of(location.directory).name), root=str(root))
    return CheckpointDraft(
        checkpoint_id=CheckpointId(checkpoint_id),
        kind=CheckpointKind.PERIODIC,
        trigger_time=0,
        location=location,
        coordinator=coordinator_state(checkpoint_id),
        files=(write_state(here, "part", 10, checkpoint_id),),
        committables=(),
    )


def test_checkpoints_are_kept_and_fenced_in_another_storage(bucket: Path) -> None:
    storage = make()
    assert (storage.peek(), storage.claim()) == (None, 1)
    for checkpoint_id in range(1, 15):
        stored = storage.commit(draft(storage, bucket, checkpoint_id))
        storage.clean_up(())
    assert isinstance(stored.root, StoreReference)
    assert stored.external_path == f"bucket://b/checkpoints/{JOB}/state@14"
    assert storage.latest() == stored
    assert open_checkpoint(stored.external_path, signing_key=KEY) == stored
    checkpoint_files.verify_files(stored)
    table = bucket / "b" / "checkpoints" / JOB / "state"
    assert [path.name for path in table.glob("chk-*")] == ["chk-14-g1"]
    late = draft(storage, bucket, 15)
    other = make()
    assert (other.claim(), other.last_id) == (2, 15)
    with pytest.raises(StaleGenerationError):
        storage.commit(late)
    exported = other.export_savepoint(stored, other.prepare_export("bucket://b/savepoints"))
    assert open_checkpoint(exported.external_path, signing_key=KEY).manifest == exported.manifest
    other.delete_all()
    assert not table.exists()

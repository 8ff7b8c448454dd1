"""What was reported as durable is there when the power is lost right after it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flinkish.checkpoint import checkpoint_files
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.opening import open_checkpoint
from tests.kit.power_loss import ForgetfulDisk

from .support import KEY, make_draft, make_storage

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="what a descriptor stands for is read from /proc")


@pytest.mark.parametrize("kind", ["checkpoint", "savepoint", "exported savepoint"])
def test_a_checkpoint_outlasts_the_loss_of_power(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    storage = make_storage(tmp_path)
    storage._durable = True
    disk = ForgetfulDisk(tmp_path)
    with disk.recording(monkeypatch):
        storage.claim()
        if kind == "savepoint":
            draft = make_draft(storage, 1, kind=CheckpointKind.SAVEPOINT, target=str(tmp_path / "savepoints"))
            stored = storage.commit_savepoint(draft)
        else:
            stored = storage.commit(make_draft(storage, 1))
        if kind == "exported savepoint":
            stored = storage.export_savepoint(stored, storage.prepare_export(str(tmp_path / "savepoints")))
    disk.lose_power(len(disk.syncs))
    found = open_checkpoint(stored.external_path, signing_key=KEY)
    assert found.manifest == stored.manifest
    checkpoint_files.verify_files(found)

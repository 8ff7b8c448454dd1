"""What deltalake leaves to its callers: panics and the disk."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from flinkish.checkpoint.delta_log import DeltaLog
from flinkish.common import disk
from flinkish.common.delta_calls import panics_as_errors, rows_of, sync_log

#: delta-rs panics at a name that URLs do not take.
BRACKETS = "[x]"


def test_a_panic_becomes_an_error(tmp_path: Path) -> None:
    with pytest.raises(DeltaError, match=r"deltalake panicked: .*InvalidDomainCharacter"), panics_as_errors():
        write_deltalake(str(tmp_path / BRACKETS), pa.table({"a": [1]}))


def test_a_panic_under_a_checkpoint_table_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def panic(*_: object, **__: object) -> None:
        raise type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})("index out of bounds")

    DeltaLog.create(tmp_path, {}, {}, time=0)
    log = DeltaLog.open(tmp_path)
    assert log is not None
    for method in ("create_write_transaction", "update_incremental", "transaction_version", "get_add_actions", "__init__"):
        monkeypatch.setattr(DeltaTable, method, panic)
    for call in (
        lambda: DeltaLog.open(tmp_path),
        log.refresh,
        log.files,
        lambda: log.transaction("job"),
        lambda: log.note_transaction("job", 1, {}),
    ):
        with pytest.raises(DeltaError, match="deltalake panicked: index out of bounds"):
            call()


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_other_errors_stay_what_they_are(error: type[BaseException]) -> None:
    with pytest.raises(error), panics_as_errors():
        raise error


def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    fsync, mine = os.fsync, threading.get_ident()

    def noted(descriptor: int) -> None:
        if threading.get_ident() == mine:
            names.append(os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    monkeypatch.setattr(disk.os, "fsync", noted)
    return names


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="what a descriptor stands for is read from /proc")
def test_the_log_is_synced_from_the_last_summary_on_and_then_what_is_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def commit() -> None:
        write_deltalake(tmp_path, pa.table({"a": [1]}), mode="append")

    for _ in range(3):
        commit()
    names = synced(monkeypatch)
    assert sync_log(tmp_path, -1) == (2, False)
    assert sorted(names) == [*(f"{version:020}.json" for version in range(3)), "_delta_log"]
    names.clear()
    assert sync_log(tmp_path, 2) == (2, False)
    assert names == ["_delta_log"]
    commit()
    DeltaTable(tmp_path).create_checkpoint()
    commit()
    names.clear()
    assert sync_log(tmp_path, 2) == (4, True)
    assert "_last_checkpoint" in names
    assert f"{3:020}.checkpoint.parquet" in names
    names.clear()
    assert sync_log(tmp_path, -1) == (4, True)
    assert f"{2:020}.json" not in names
    assert f"{4:020}.json" in names


def test_folders_that_are_made_are_synced_into_those_above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = synced(monkeypatch)
    disk.make_folders(tmp_path / "a" / "b")
    assert names == [tmp_path.name, "a"]
    disk.make_folders(tmp_path / "a" / "b")
    assert len(names) == 2


def test_a_folder_is_read_without_a_file_system_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "a b#c?d"
    write_deltalake(str(folder), pa.table({"a": [1, 2]}))
    monkeypatch.setattr("deltalake.fs.DeltaStorageHandler.from_table", lambda *_: pytest.fail("threads of Arrow would hold it"))

    assert rows_of(DeltaTable(str(folder)), folder).to_pydict() == {"a": [1, 2]}

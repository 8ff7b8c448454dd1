"""A RocksDB folder stands exactly at the end of an epoch, goes back by one, and refuses any other position."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from flinkish.common.errors import EngineError
from flinkish.runtime.state.disk.store import Store

FIRST, SECOND, THIRD = (1, "a"), (2, "b"), (3, "c")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A closed store after two epochs."""
    store = Store.create(tmp_path / "store")
    store.commit(FIRST, {b"k1": b"old", b"k2": b"kept", b"k3": b"gone"}, {})
    store.commit(SECOND, {b"k1": b"new", b"k3": None, b"k4": b"added"}, {})
    store.close()
    return tmp_path / "store"


def content(store: Store) -> dict[bytes, bytes]:
    return dict(store.rows_from(b"\x01", b""))


def test_it_is_recovered_where_it_stands(folder: Path) -> None:
    assert content(Store.recover(folder, SECOND)) == {b"k1": b"new", b"k2": b"kept", b"k4": b"added"}


def test_a_lost_try_is_undone(folder: Path) -> None:
    store = Store.recover(folder, FIRST)
    assert content(store) == {b"k1": b"old", b"k2": b"kept", b"k3": b"gone"}
    store.commit((2, "again"), {b"k2": None}, {})
    store.close()
    assert content(Store.recover(folder, FIRST)) == {b"k1": b"old", b"k2": b"kept", b"k3": b"gone"}


@pytest.mark.parametrize("position", [(2, "a"), (1, "b"), THIRD])
def test_any_other_position_is_refused(folder: Path, position: tuple[int, str]) -> None:
    with pytest.raises(EngineError, match="cannot go back to"):
        Store.recover(folder, position)
    Store.recover(folder, SECOND).close()


def test_it_goes_back_by_one_epoch_only(folder: Path) -> None:
    store = Store.recover(folder, SECOND)
    store.commit(THIRD, {}, {})
    store.close()
    with pytest.raises(EngineError, match="cannot go back to"):
        Store.recover(folder, FIRST)


def test_a_missing_folder_is_named_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="is gone"):
        Store.recover(tmp_path / "none", FIRST)
    assert not (tmp_path / "none").exists()


def test_a_folder_that_is_removed_while_in_use_is_named_when_it_is_recovered(folder: Path) -> None:
    store = Store.recover(folder, SECOND)
    store.commit(THIRD, {b"k1": b"newest"}, {})
    shutil.rmtree(folder)
    store.close()
    with pytest.raises(EngineError, match="is gone"):
        Store.recover(folder, THIRD)


def test_an_emptied_folder_is_refused(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()
    with pytest.raises(EngineError, match="cannot go back to"):
        Store.recover(folder, SECOND)


@pytest.mark.parametrize("tables", [True, False])
def test_flipped_bytes_are_never_read_as_state(tmp_path: Path, *, tables: bool) -> None:
    store = Store.create(tmp_path / "store")
    store.commit(FIRST, {b"k": b"old" * 10}, {})
    store.commit(SECOND, {b"k": b"new" * 10}, {})
    if tables:
        store.close()  # moves the rows from the log to a table
    killed = tmp_path / "killed"
    shutil.copytree(tmp_path / "store", killed)
    file = next(killed.glob("*.sst" if tables else "*.log"))
    data = file.read_bytes()
    at = data.rindex(b"new")
    file.write_bytes(data[:at] + b"bad" + data[at + 3 :])
    with pytest.raises(EngineError):
        content(Store.recover(killed, SECOND))


def test_the_end_of_a_process_loses_no_epoch(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "store")
    store.commit(FIRST, {b"k": b"value"}, {})
    shutil.copytree(tmp_path / "store", tmp_path / "killed")
    assert content(Store.recover(tmp_path / "killed", FIRST)) == {b"k": b"value"}


def test_rows_do_not_change_after_the_call(folder: Path) -> None:
    store = Store.recover(folder, SECOND)
    rows = store.rows(b"k")
    store.commit(THIRD, {b"k1": None, b"k9": b"later"}, {})
    assert dict(rows) == {b"k1": b"new", b"k2": b"kept", b"k4": b"added"}
    assert dict(store.rows(b"k9")) == {b"k9": b"later"}


def test_a_snapshot_does_not_change_and_outlives_the_store(folder: Path) -> None:
    store = Store.recover(folder, SECOND)
    snapshot = store.snapshot()
    store.commit(THIRD, {b"k1": b"newest", b"k2": None, b"k3": b"again"}, {})
    store.close()
    with ThreadPoolExecutor(1) as threads:
        read = list(threads.map(snapshot.get, [b"k1", b"k2", b"k3", b"k4", b"k5", b""]))
    assert read == [b"new", b"kept", None, b"added", None, None]

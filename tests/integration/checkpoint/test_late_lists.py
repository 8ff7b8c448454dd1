"""Checkpoints in an object store whose lists lag behind: nothing is lost, doubled, or deleted wrongly."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from flinkish.checkpoint import checkpoint_files, delta_storage
from flinkish.common.errors import CommitOutcomeUnknownError, CorruptCheckpointError
from flinkish.common.files.schemes import files_at
from flinkish.common.ids import CheckpointId
from tests.integration.checkpoint.test_s3_storage import draft, files_of, make, take
from tests.kit.fake_clouds import Cloud

_PLACE = "late"


@pytest.fixture
def late(clouds: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """A store that is asked for a list three times at most, in quick succession."""
    for module in (checkpoint_files, delta_storage):
        monkeypatch.setattr(module, "LIST_WAITS", (0.01, 0.02, 0.04))
    yield clouds
    clouds.unlisted.clear()
    clouds.ghosts.clear()
    files_at(f"gs://{_PLACE}").remove_all()


def entry(cloud: Cloud, version: int) -> str:
    end = f"_delta_log/{version:020}.json"
    (found,) = {name for name in (*cloud.objects, *cloud.unlisted) if name.startswith(f"{_PLACE}/") and name.endswith(end)}
    return found


def future_entry(cloud: Cloud, version: int) -> str:
    return entry(cloud, 0).replace(f"{0:020}", f"{version:020}")


def test_a_commit_that_no_list_shows_is_known_by_its_name(late: Cloud, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = make(f"gs://{_PLACE}/a")
    storage.claim()
    take(storage, 1)
    version = storage.retained()[-1].version + 1
    late.unlisted.add(future_entry(late, version))
    monkeypatch.setattr(delta_storage, "LIST_WAITS", (0.05, 0.1, 0.2, 0.5, 1.0, 2.0))
    timer = threading.Timer(0.4, late.unlisted.clear)  # the list shows it some time later
    timer.start()
    assert take(storage, 2).version == version
    timer.join()
    assert take(storage, 3).checkpoint_id == 3


def test_a_commit_that_stays_unlisted_deletes_nothing_and_is_found_later(late: Cloud) -> None:
    storage = make(f"gs://{_PLACE}/b")
    storage.claim()
    take(storage, 1)
    late.unlisted.add(future_entry(late, storage.retained()[-1].version + 1))
    prepared = draft(storage, 2)
    with pytest.raises(CommitOutcomeUnknownError, match=r"was committed, but gs://late/b/.* does not list it yet"):
        storage.commit(prepared)
    storage.discard(prepared.location)
    storage.clean_up(())
    assert any("chk-2-" in path for path in files_of(storage))
    late.unlisted.clear()
    other = make(f"gs://{_PLACE}/b")
    other.claim()
    latest = other.latest()
    assert latest is not None
    assert latest.checkpoint_id == 2
    checkpoint_files.verify_files(latest)


def test_a_driver_that_is_shown_an_old_log_waits_or_does_not_start(late: Cloud) -> None:
    storage = make(f"gs://{_PLACE}/c")
    storage.claim()
    take(storage, 1)
    late.unlisted.add(entry(late, take(storage, 2).version))
    with pytest.raises(CorruptCheckpointError, match="entries of _delta_log are lost"):
        make(f"gs://{_PLACE}/c").peek()
    checkpoint_files.LIST_WAITS = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)  # undone by the fixture
    timer = threading.Timer(0.4, late.unlisted.clear)
    timer.start()
    found = make(f"gs://{_PLACE}/c").peek()
    timer.join()
    assert found is not None
    assert found.checkpoint_id == 2


def test_cleaning_by_old_lists_removes_only_what_is_not_needed(late: Cloud) -> None:
    storage = make(f"gs://{_PLACE}/d", num_retained=2)
    storage.claim()
    for checkpoint_id in range(1, 5):
        take(storage, checkpoint_id)
    state = {name for name in late.objects if name.startswith(f"{_PLACE}/d") and "chk-" in name}
    late.unlisted |= {name for name in state if "chk-1-" in name or ("chk-4-" in name and "part" in name)}
    late.ghosts |= {name.replace("part-0", "part-gone") for name in state if "chk-2-" in name or "chk-3-" in name}
    storage.clean_up(())
    for stored in storage.retained():
        checkpoint_files.verify_files(stored)
    assert [stored.checkpoint_id for stored in storage.retained()] == [3, 4]
    late.unlisted.clear()
    late.ghosts.clear()
    storage.clean_up((CheckpointId(4),))
    assert {path.split("-")[1] for path in files_of(storage)} == {"3", "4"}

"""Checkpoints of a job in the memory of the process: the same storage, with no file."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint import checkpoint_files, delta_storage, paths
from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage
from flinkish.checkpoint.opening import open_checkpoint
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common import Configuration, Types, WatermarkStrategy
from flinkish.common.errors import CheckpointError, ConfigurationError, CorruptCheckpointError, StaleGenerationError
from flinkish.common.files import memory
from flinkish.common.files.schemes import files_at
from flinkish.common.ids import CheckpointId
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from tests.integration.checkpoint import test_s3_storage
from tests.integration.checkpoint.test_s3_storage import draft, take
from tests.kit.functions import FailsAfterCheckpoint
from tests.kit.memory_log import MemoryLog
from tests.unit.checkpoint.support import KEY

_NUMBERS = itertools.count()


def make(directory: str, *, num_retained: int = 1, delta_log: Any = MemoryLog) -> DeltaCheckpointStorage:
    return test_s3_storage.make(directory, num_retained=num_retained, delta_log=delta_log)


def opened(text: str) -> StoredCheckpoint:
    return open_checkpoint(text, signing_key=KEY, delta_log=MemoryLog)  # type: ignore[arg-type]


@pytest.fixture
def directory() -> Iterator[str]:
    """Return a reference of its own, and remove what is left there."""
    reference = f"memory://checkpoints-{next(_NUMBERS)}"
    yield reference
    files_at(reference).remove_all()


def test_checkpoints_are_kept_found_and_cleaned_up(directory: str) -> None:
    storage = make(directory, num_retained=2)
    assert (storage.peek(), storage.claim()) == (None, 1)
    taken = [take(storage, checkpoint_id) for checkpoint_id in range(1, 40) if storage.clean_up(()) >= 0]
    assert storage.latest() == taken[-1]
    assert list(storage.retained()) == taken[-2:]
    checkpoint_files.verify_files(taken[-1])
    storage.clean_up(())
    files = files_at(storage.root)
    assert sorted(name for name in files.names() if name.startswith("chk")) == ["chk-38-g1", "chk-39-g1"]
    assert len(files.names(paths.LOG)) < 30
    again = make(directory, num_retained=2)
    assert again.peek() == taken[-1]
    assert (again.claim(), again.last_id) == (2, 39)
    assert list(again.retained()) == taken[-2:]
    again.delete_all()
    assert not files.exists("")
    assert not any(path.is_relative_to(storage.root) for path in memory._ENTRIES)


def test_a_driver_that_was_taken_over_cannot_commit(directory: str) -> None:
    old = make(directory)
    old.claim()
    stored = take(old, 1)
    late = draft(old, 2)
    new = make(directory)
    assert new.claim() == 2
    with pytest.raises(StaleGenerationError):
        old.commit(late)
    with pytest.raises(StaleGenerationError):
        old.prepare(CheckpointId(3), None)
    old.delete_all()
    latest = new.latest()
    assert latest is not None
    assert latest.manifest == stored.manifest
    assert take(new, 3).manifest.generation == 2


def test_a_version_that_came_in_between_refuses_a_commit(directory: str) -> None:
    class Beaten(MemoryLog):
        beaten = False

        def replace_files(self, *arguments: Any, **options: Any) -> None:
            if Beaten.beaten:
                super().note_transaction("another application", 1, {})
            super().replace_files(*arguments, **options)

    storage = make(directory, delta_log=Beaten)
    storage.claim()
    first = take(storage, 1)
    Beaten.beaten = True
    with pytest.raises(CheckpointError, match="was refused: FileExistsError"):
        take(storage, 2)
    latest = storage.latest()
    assert latest is not None
    assert latest.manifest == first.manifest


def test_damage_is_noticed(directory: str) -> None:
    storage = make(directory)
    storage.claim()
    stored = take(storage, 1)
    files = files_at(storage.root)
    files.replace(stored.manifest.files[0].path, b"x", sync=False)
    with pytest.raises(CorruptCheckpointError, match="SHA-256"):
        checkpoint_files.verify_files(stored)
    files.replace(stored.manifest_path, b"x", sync=False)
    with pytest.raises(CorruptCheckpointError, match="manifest"):
        storage.latest()


def test_a_savepoint_in_memory_is_opened_by_its_reference(directory: str) -> None:
    storage = make(directory)
    storage.claim()
    stored = take(storage, 1)
    savepoint = storage.commit_savepoint(draft(storage, 2, f"{directory}/savepoints"))
    assert savepoint.external_path.startswith(f"{directory}/savepoints/savepoint-")
    assert opened(savepoint.external_path) == savepoint
    exported = storage.export_savepoint(stored, storage.prepare_export(f"{directory}/savepoints"))
    assert opened(exported.external_path).manifest == exported.manifest
    assert opened(f"{storage.root}@1") == stored
    checkpoint_files.verify_files(exported)


@pytest.mark.parametrize("key", ["execution.checkpointing.dir", "execution.state-recovery.path"])
def test_a_user_s_checkpoints_are_not_kept_where_nobody_finds_them(key: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"{key} = 'memory://x'"):
        run(tmp_path, **{key: "memory://x"})


def run(tmp_path: Path, **settings: Any) -> list[Any]:
    configuration = {
        "execution.engine": "local",
        "execution.epoch.target-duration": "20 ms",
        "execution.epoch.max-records": 500,
        "execution.checkpointing.interval": 20,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": 1,
        "security.checkpoint.hmac-key-file": str(tmp_path / "keys" / "key"),
        **settings,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(configuration)).set_parallelism(2)
    numbers = env.from_source(NumberSequenceSource(1, 100_000), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    sums = (
        numbers.map(FailsAfterCheckpoint(tmp_path / "failed"), Types.LONG())
        .key_by(lambda value: value % 7, key_type=Types.LONG())
        .reduce(lambda a, b: a + b)
        .uid("sums")
    )
    with sums.execute_and_collect() as results:
        return list(results)


def test_a_whole_job_keeps_its_checkpoints_in_memory_and_recovers_from_them(
    directory: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[DeltaCheckpointStorage] = []
    restored: list[int] = []

    class InMemory(DeltaCheckpointStorage):
        def __init__(self, _: Any, job_id: str, **options: Any) -> None:
            super().__init__(directory, job_id, delta_log=MemoryLog, **options)  # type: ignore[arg-type]
            made.append(self)

        def latest(self) -> StoredCheckpoint | None:
            found = super().latest()
            restored.append(0 if found is None else found.checkpoint_id)
            assert not list(tmp_path.rglob("*.parquet"))
            return found

    monkeypatch.setattr(delta_storage, "DeltaCheckpointStorage", InMemory)
    results = run(tmp_path)
    assert (tmp_path / "failed").exists()
    (storage,) = made
    assert storage.last_id > 1
    assert max(restored) >= 1
    expected = [sum(value for value in range(1, 100_001) if value % 7 == key) for key in range(7)]
    assert sorted(results)[-7:] == sorted(expected)
    assert not files_at(storage.root).exists("")  # the job has ended

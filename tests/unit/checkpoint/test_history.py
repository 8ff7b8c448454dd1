"""Notes about a job, for people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from flinkish.checkpoint import history
from flinkish.checkpoint.history import JobHistory
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.statistics import CheckpointRecord, CheckpointStatus
from flinkish.common.clock import ManualClock
from flinkish.common.ids import CheckpointId, Generation

from .support import JOB


def make_history(directory: Path, clock: ManualClock | None = None) -> JobHistory:
    return JobHistory(directory, JOB, generation=Generation(3), clock=clock or ManualClock(5_000))


def rows(notes: JobHistory) -> list[dict[str, object]]:
    return DeltaTable(str(notes.root)).to_pyarrow_table().to_pylist()


def record(number: int, failure: str | None = None) -> CheckpointRecord:
    status = CheckpointStatus.COMPLETED if failure is None else CheckpointStatus.FAILED
    return CheckpointRecord(
        checkpoint_id=CheckpointId(number),
        kind=CheckpointKind.PERIODIC,
        status=status,
        trigger_time=1,
        duration=7,
        failure=failure,
    )


def test_checkpoints_and_events_become_rows(tmp_path: Path) -> None:
    notes = make_history(tmp_path)
    notes.checkpoint_ended(record(1))
    notes.checkpoint_ended(record(2, "a task declined the checkpoint"))
    notes.note("attempt failed", "ValueError: boom", details={"attempt": 0})
    notes.flush()
    found = rows(notes)
    assert [(row["event"], row["checkpoint_id"], row["generation"]) for row in found] == [
        ("checkpoint completed", 1, 3),
        ("checkpoint failed", 2, 3),
        ("attempt failed", None, 3),
    ]
    assert json.loads(str(found[0]["details"]))["duration"] == 7
    assert found[2]["message"] == "ValueError: boom"


def test_notes_are_written_in_batches(tmp_path: Path) -> None:
    clock = ManualClock(0)
    notes = make_history(tmp_path, clock)
    notes.note("first")
    assert not notes.root.exists()
    clock.advance(60_000)
    notes.note("second")
    assert len(rows(notes)) == 2


def test_the_table_is_cut_down_from_time_to_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_BATCHES_PER_COMPACTION", 5)
    monkeypatch.setattr(history, "_KEPT_ROWS", 4)
    notes = make_history(tmp_path)
    for number in range(10):
        notes.note("event", str(number))
        notes.flush()
    assert len(rows(notes)) == 4
    assert len(list(notes.root.glob("*.parquet"))) <= 2


def test_a_table_that_cannot_be_written_harms_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / JOB).write_text("in the way")
    notes = make_history(tmp_path)
    notes.note("event")
    notes.flush()
    assert "could not be written" in caplog.text

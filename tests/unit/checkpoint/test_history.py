"""Notes about a job, for people."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from flinkish.checkpoint import history
from flinkish.checkpoint.history import JobHistory, jobs_with_history, read_history
from flinkish.checkpoint.manifest import CheckpointKind
from flinkish.checkpoint.statistics import CheckpointRecord, CheckpointStatus
from flinkish.common.clock import ManualClock
from flinkish.common.errors import CorruptCheckpointError
from flinkish.common.ids import CheckpointId, Generation

from .support import JOB


def make_history(directory: Path, clock: ManualClock | None = None, *, generation: int = 3, **limits: int) -> JobHistory:
    return JobHistory(directory, JOB, generation=Generation(generation), clock=clock or ManualClock(5_000), **limits)


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
    assert not DeltaTable.is_deltatable(str(notes.root))
    clock.advance(60_000)
    notes.note("second")
    assert len(rows(notes)) == 2


def test_notes_of_a_process_that_was_killed_come_into_the_table_once(tmp_path: Path) -> None:
    killed = make_history(tmp_path)
    killed.note("in the table")
    killed.flush()
    killed.checkpoint_ended(record(1))
    killed.checkpoint_ended(record(2))
    expected = ["in the table", "checkpoint completed", "checkpoint completed"]
    assert [event.event for event in read_history(str(tmp_path), JOB)] == expected
    again = make_history(tmp_path, generation=4)
    again.note("a new attempt")
    waiting = again.root / history.WAITING
    content = waiting.read_bytes()
    again.flush()
    # As if it was killed after the commit to the table, before the file is removed.
    waiting.write_bytes(content)
    make_history(tmp_path, generation=5).flush()
    assert sorted((row["event"], row["generation"]) for row in rows(again)) == [
        ("a new attempt", 4),
        ("checkpoint completed", 3),
        ("checkpoint completed", 3),
        ("in the table", 3),
    ]
    assert sorted(event.event for event in read_history(str(tmp_path), JOB)) == sorted([*expected, "a new attempt"])


def test_a_job_that_is_killed_before_the_first_batch_has_a_history(tmp_path: Path) -> None:
    make_history(tmp_path).note("begun")
    assert jobs_with_history(str(tmp_path)) == [JOB]
    assert [event.event for event in read_history(str(tmp_path), JOB)] == ["begun"]


def test_a_file_of_notes_that_cannot_be_read_harms_no_job(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    notes = make_history(tmp_path)
    notes.note("lost")
    (notes.root / history.WAITING).write_text("{")
    with pytest.raises(CorruptCheckpointError, match="cannot be read"):
        read_history(str(tmp_path), JOB)
    after = make_history(tmp_path)
    after.note("kept")
    after.flush()
    assert "could not be read" in caplog.text
    assert [row["event"] for row in rows(after)] == ["kept"]


def test_the_table_is_cut_down_from_time_to_time(tmp_path: Path) -> None:
    notes = make_history(tmp_path, batches_per_compaction=5, kept_rows=4)
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

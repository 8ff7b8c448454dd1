"""The effect of close() of functions, readers and writers on the end of a job, on both engines."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Types, WatermarkStrategy
from flinkish.common.errors import CheckpointError, JobExecutionError
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.base import Sink, SinkWriter, SinkWriterContext, WriteContext
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import MapFunction
from tests.conftest import MakeEnvironment, locally
from tests.kit.restarts import restarting
from tests.kit.results import collect
from tests.kit.waiting import wait_until

NO_WATERMARKS = WatermarkStrategy.no_watermarks()
RESTARTING = restarting(3, "1 ms")


class Closes(MapFunction):
    """Writes a line to a file in each close(); can wait before that, and raise an error after it."""

    def __init__(self, notes: Path, *, wait: float = 0, error: BaseException | None = None, fail_at: int | None = None) -> None:
        self.notes, self.wait, self.error, self.fail_at = notes, wait, error, fail_at

    def map(self, value: int) -> int:
        if value == self.fail_at:
            raise ValueError(f"cannot digest {value}")
        return value

    def close(self) -> None:
        threading.Event().wait(self.wait)
        with self.notes.open("a") as file:
            file.write("closed\n")
        if self.error is not None:
            raise self.error


class ClosingSink(Sink[Any, None]):
    """A sink whose writers record their close() in a file."""

    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, None]:
        return ClosingWriter(self.notes)


class ClosingWriter(SinkWriter[Any, None]):
    def __init__(self, notes: Path) -> None:
        self.notes = notes

    def write(self, element: Any, context: WriteContext) -> None:
        pass

    def close(self) -> None:
        with self.notes.open("a") as file:
            file.write("closed\n")


def closed(notes: Path) -> int:
    return len(notes.read_text().splitlines()) if notes.exists() else 0


def numbers(env: StreamExecutionEnvironment, count: int = 10) -> Any:
    return env.from_source(NumberSequenceSource(0, count - 1), NO_WATERMARKS, "numbers", Types.LONG())


def test_a_job_ends_only_when_a_close_that_takes_seconds_has_returned(make_env: MakeEnvironment, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    env = make_env(1)
    assert sorted(collect(numbers(env).map(Closes(notes, wait=4)))) == list(range(10))
    assert closed(notes) == 1


def test_an_error_in_close_fails_the_job_and_all_else_is_closed(make_env: MakeEnvironment, tmp_path: Path) -> None:
    before, behind, sink = tmp_path / "before", tmp_path / "behind", tmp_path / "sink"
    env = make_env(1)
    stream = numbers(env).map(Closes(before, error=OSError("the last rows were not taken"))).name("Upsert")
    stream.key_by(lambda value: value).map(Closes(behind)).sink_to(ClosingSink(sink))
    with pytest.raises(JobExecutionError, match="the last rows were not taken") as failed:
        env.execute()
    assert "Upsert" in str(failed.value)
    assert (closed(before), closed(behind), closed(sink)) == (1, 1, 1)


@locally
def test_each_error_in_close_is_told(make_env: MakeEnvironment, tmp_path: Path) -> None:
    first, second = Closes(tmp_path / "1", error=OSError("one")), Closes(tmp_path / "2", error=SystemExit("two"))
    with pytest.raises(JobExecutionError) as failed:
        collect(numbers(make_env(1)).map(first).map(second))
    assert "OSError: one" in str(failed.value)
    assert "SystemExit: two" in str(failed.value)


@locally
def test_without_checkpoints_an_error_in_close_is_a_failure_like_any_other(make_env: MakeEnvironment, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    env = make_env(1, settings=RESTARTING)
    numbers(env).map(Closes(notes, error=OSError("again"))).sink_to(ClosingSink(tmp_path / "sink"))
    with pytest.raises(JobExecutionError, match="again"):
        env.execute()
    assert closed(notes) == 4


@locally
def test_after_the_last_checkpoint_no_restart_hides_an_error_in_close(make_env: MakeEnvironment, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    env = make_env(1, settings={"execution.checkpointing.interval": "1 min", **RESTARTING})
    numbers(env).map(Closes(notes, error=OSError("lost"))).sink_to(ClosingSink(tmp_path / "sink"))
    with pytest.raises(JobExecutionError, match=r"(?s)OSError: lost.*its last checkpoint is complete, only close\(\) failed"):
        env.execute()
    assert closed(notes) == 1


@locally
def test_a_job_that_fails_says_why_and_not_what_close_said(make_env: MakeEnvironment, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    spoiled = Closes(notes, error=OSError("no good bye"), fail_at=5)
    with pytest.raises(JobExecutionError, match="cannot digest 5") as failed:
        collect(numbers(make_env(1)).map(spoiled))
    assert "no good bye" not in str(failed.value)
    assert closed(notes) == 1


@locally
def test_a_stopped_job_whose_close_fails_names_its_savepoint_and_ends(make_env: MakeEnvironment, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    env = make_env(1, settings={"execution.checkpointing.interval": "10 ms", **RESTARTING})
    endless = env.from_source(
        DataGeneratorSource(lambda i: i, None, records_per_second=200), NO_WATERMARKS, "endless", Types.LONG()
    )
    endless.map(Closes(notes, error=OSError("lost"))).sink_to(ClosingSink(tmp_path / "sink"))
    client = env.execute_async()
    wait_until("the start of the job", lambda: client.get_job_status().result().name == "RUNNING")
    with pytest.raises(CheckpointError, match=r"(?s)the savepoint \S+ is complete, but.*lost"):
        client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(120)
    assert client.get_job_status().result().name == "FAILED"
    assert closed(notes) == 1


@pytest.mark.parametrize("engine", [pytest.param("spark", marks=pytest.mark.spark)])
def test_a_close_that_does_not_return_fails_the_job_after_the_timeout(
    make_env: MakeEnvironment, tmp_path: Path, flinkish_spark: object
) -> None:
    env = make_env(1, settings={"task.cancellation.timeout": "1 s", **RESTARTING})
    with pytest.raises(JobExecutionError, match=r"(?s)CloseTimeoutError: close\(\) .* has not returned within 1000 ms"):
        collect(numbers(env).map(Closes(tmp_path / "notes", wait=600)))

"""A job with a DataFrameSink is killed with -9: each row comes once, and no file of the killed process stays behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from flinkish.common.errors import JobExecutionError
from flinkish.runtime.faults import InjectedFaultError, Point, call_at
from tests.recovery import data_frame_sink_job
from tests.recovery.data_frame_sink_job import RETAINED
from tests.recovery.processes import running

pytestmark = [pytest.mark.spark, pytest.mark.kill]


def calls(folder: Path) -> list[Any]:
    """Return checkpoint, rows and files of each call of the function, in order."""
    log = folder / "written"
    return [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")] if log.exists() else []


def files(folder: Path) -> set[str]:
    return {path.name for path in (folder / "checkpoints").glob("*/rows/sinks/*/*.parquet")}


def test_files_that_a_killed_process_has_left_go_with_the_next_start(spark_session: SparkSession, tmp_path: Path) -> None:
    # Killed with the files of a checkpoint that is not committed, after some that are.
    command = ["--engine=spark", f"--output={tmp_path}", "--parallelism=1"]
    with running(*command, log=tmp_path / "log", fault="P9:kill9:nth=5", script="data_frame_sink_job.py") as job:
        assert job.finish() == -9, job.output()
        job.kill_all()
    before = calls(tmp_path)
    left = files(tmp_path)
    uncommitted = left - {name for call in before for name in call[2]}
    assert (len(before), len(uncommitted)) == (4, 1)
    assert len(left) == RETAINED + 1

    found: list[set[str]] = []

    def end_job() -> None:
        found.append(files(tmp_path))
        raise InjectedFaultError("the first new checkpoint is committed")

    with call_at(Point.SINKS_COMMITTED, end_job), pytest.raises(JobExecutionError, match="the first new checkpoint"):
        data_frame_sink_job.main(command)
    after = calls(tmp_path)
    assert found == [{name for call in after[-RETAINED:] for name in call[2]}]
    # The last checkpoint of the killed process is committed again, with the same rows.
    assert after[len(before)] == before[-1]
    rows = [row for call in [*before, *after[len(before) + 1 :]] for row in call[1]]
    assert rows == list(range(len(rows)))

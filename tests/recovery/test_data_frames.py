"""A job that reads a streaming DataFrame is killed and started again, at other parallelisms: each row counts once.

    pytest -m soak tests/recovery/test_data_frames.py

FLINKISH_SEED chooses when (printed), FLINKISH_SOAK_ROUNDS how often.
"""

from __future__ import annotations

import json
import os
import random
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kit.seeds import chosen_seed
from tests.kit.tables import rows_of
from tests.kit.waiting import wait_until
from tests.recovery import data_frame_job
from tests.recovery.processes import running

pytestmark = [pytest.mark.spark, pytest.mark.kill]

_SEED = chosen_seed()
_ROUNDS = int(os.environ.get("FLINKISH_SOAK_ROUNDS", "20"))
_KEYS = 7
_ROWS = 50


class Input:
    """Files of rows, each of which appears as a whole."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._folder.mkdir()
        self.files = 0

    def add(self, files: int) -> None:
        for _ in range(files):
            rows = range(self.files * _ROWS, (self.files + 1) * _ROWS)
            text = "\n".join(json.dumps({"id": row, "key": f"k{row % _KEYS}"}) for row in rows)
            draft = self._folder / f".{self.files:05}"
            draft.write_text(text, encoding="utf-8")
            draft.rename(self._folder / f"{self.files:05}.json")
            self.files += 1

    @property
    def rows(self) -> int:
        return self.files * _ROWS


def table_rows(table: Path) -> list[tuple[int, str, int]]:
    """Return id, key and number of each row; none if the table is not there yet."""
    return rows_of(table, "id", "key", "number")


def assert_exact(table: Path, rows: int, *, complete: bool) -> None:
    """Each row is there at most once, and the numbers of each key have no gap and no repetition; all are there if `complete`."""
    found = table_rows(table)
    ids = [row[0] for row in found]
    assert len(ids) == len(set(ids))
    for key in {row[1] for row in found}:
        numbers = sorted(row[2] for row in found if row[1] == key)
        assert numbers == list(range(1, len(numbers) + 1)), key
    if complete:
        assert sorted(ids) == list(range(rows))


def kill_again_and_again(folder: Path, spark: SparkSession, rounds: int, rng: random.Random) -> None:
    """Kill the job so many times, then let it go on in the session of the tests, which is there already, until all is read."""
    given, table = Input(folder / "input"), folder / "table"
    given.add(3)
    for number in range(rounds):
        parallelism = rng.randint(1, 3)
        with running(str(folder), str(parallelism), log=folder / f"log {number}", script="data_frame_job.py") as job:
            before = len(table_rows(table))
            given.add(4)
            job.wait_until("rows", lambda before=before: len(table_rows(table)) > before, 600)  # type: ignore[misc]
            given.add(rng.randint(1, 6))
            pause = rng.uniform(0.0, 2.0)
            threading.Event().wait(pause)
            print(f"round {number}: parallelism {parallelism}, killed {pause:.1f} s after rows, {given.rows} given")
            job.kill_all()
            assert_exact(table, given.rows, complete=False)
    client = data_frame_job.build(spark, folder, rng.randint(1, 3)).execute_async("data-frames")
    given.add(2)
    wait_until("all rows", lambda: len(table_rows(table)) >= given.rows, 300)
    client.cancel().result(120)
    assert_exact(table, given.rows, complete=True)


@pytest.mark.soak  # tests/jobs/test_spark_to_spark.py kills a job over a streaming DataFrame once
def test_a_job_that_was_killed_reads_on_exactly_where_its_checkpoint_ended(spark_session: SparkSession, tmp_path: Path) -> None:
    kill_again_and_again(tmp_path, spark_session, 1, random.Random(5))


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_a_job_killed_at_random_reads_every_row_once(spark_session: SparkSession, tmp_path: Path) -> None:
    print(f"FLINKISH_SEED={_SEED}")
    kill_again_and_again(tmp_path, spark_session, _ROUNDS, random.Random(_SEED))

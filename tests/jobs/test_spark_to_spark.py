"""spark_to_spark.py: killed as a program of spark-submit, and gone on with in another session."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from flinkish.datastream import StreamExecutionEnvironment
from tests.jobs.conftest import JOBS, ROOT
from tests.kit.own_process import set_arguments
from tests.kit.tables import rows_of
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

START = datetime(2013, 1, 1, tzinfo=UTC)
_COLUMNS = pa.schema(
    [("kind", pa.string()), ("origin", pa.string()), ("departure", pa.timestamp("us", "UTC")), ("late_out", pa.int32())]
)

Delay = tuple[str, str, datetime, int]


def delays(days: range, chosen: random.Random) -> list[Delay]:
    """Return delays of some days, with gaps shorter and longer than an hour, and events of another kind."""
    found = []
    for day in days:
        for _ in range(30):
            at = START + timedelta(days=day, minutes=chosen.randrange(1_440))
            found.append(
                (chosen.choice(["knock-on"] * 4 + ["standing"]), chosen.choice(["JFK", "LGA"]), at, chosen.randrange(15, 99))
            )
    return found


def append(table: Path, events: list[Delay]) -> None:
    write_deltalake(
        table, pa.Table.from_arrays([pa.array(column) for column in zip(*events, strict=True)], schema=_COLUMNS), mode="append"
    )


def spells(events: list[Delay]) -> list[tuple[Any, ...]]:
    """Return the spells, computed from all events at once: a new one begins where an hour passes without a delay."""
    found: list[list[Any]] = []
    for kind, origin, at, minutes in sorted(events, key=lambda event: (event[1], event[2])):
        if kind != "knock-on":
            continue
        if found and found[-1][0] == origin and at - found[-1][2] < timedelta(hours=1):
            _, _, _, count, total = found[-1]
            found[-1][2:] = [at, count + 1, total + minutes]
        else:
            found.append([origin, at, at, 1, minutes])
    return [tuple(spell) for spell in found]


def written(table: Path) -> list[tuple[Any, ...]]:
    return sorted(rows_of(table))


@pytest.mark.spark
@pytest.mark.kill
def test_spells_are_merged_once_although_the_job_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark_session: SparkSession
) -> None:
    source, target = tmp_path / "events", tmp_path / "spells"
    chosen = random.Random(1)
    first, second = delays(range(4), chosen), delays(range(4, 8), chosen)
    end: list[Delay] = [("knock-on", "EWR", START + timedelta(days=9), 15)]
    append(source, first)
    arguments = [
        *(str(JOBS / "spark_to_spark.py"), str(source), str(target)),
        *("-Dexecution.checkpointing.interval=1 s", f"-Dexecution.checkpointing.dir={tmp_path / 'checkpoints'}"),
        *("-Dhigh-availability.cluster-id=spells", f"-Dsecurity.checkpoint.hmac-key-file={tmp_path / 'key'}"),
    ]
    submit = [str(Path(sys.executable).with_name("flinkish")), "submit", "--master", "local[2]"]
    submit += ["--conf", "spark.databricks.delta.snapshotPartitions=1", "--conf", "spark.ui.enabled=false"]
    # What a killed process leaves in memory-backed storage is removed by the next one only.
    scratch = f"-Dio.tmp.dirs={tmp_path / 'scratch'}"
    with (tmp_path / "log").open("w") as log:
        killed = subprocess.Popen([*submit, *arguments, scratch], cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
    try:
        # The last spells of the first days are still open.
        wait_until("the first spells", lambda: len(written(target)) > 20, 240, ended=lambda: killed.poll() is not None)
        append(source, second)
    finally:
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()

    import spark_to_spark as job

    clients: list[Any] = []
    monkeypatch.setattr(StreamExecutionEnvironment, "execute", lambda env, name: clients.append(env.execute_async(name)))
    set_arguments(monkeypatch, *arguments)
    job.main(str(source), str(target))
    append(source, end)
    expected = spells(first + second)
    ended = clients[0].get_job_execution_result().done
    try:
        wait_until("all spells", lambda: len(written(target)) >= len(expected), 240, ended=ended)
    finally:
        clients[0].cancel().result()
    assert written(target) == expected

    with pytest.raises(SystemExit, match=f"there is no Delta table {tmp_path / 'none'}"):
        job.main(str(tmp_path / "none"), str(tmp_path / "other"))
    assert not (tmp_path / "other").exists()

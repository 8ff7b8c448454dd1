"""A table that is put back to an older state while a job writes to it: the job ends with an error that names what is lost."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Row, Types, WatermarkStrategy
from flinkish.common.errors import JobExecutionError
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors import DataGeneratorSource
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from tests.conftest import MakeEnvironment
from tests.kit.waiting import wait_until

TYPE = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])


def environment(make_env: MakeEnvironment, folder: Path) -> StreamExecutionEnvironment:
    settings = {
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": folder / "checkpoints",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": 1000,
        "restart-strategy.fixed-delay.delay": "10 ms",
    }
    return make_env(1, settings)


def expect_an_end(
    env: StreamExecutionEnvironment, sink: Any, *, written: Callable[[], bool], go_back: Callable[[], None]
) -> None:
    """Run a job that writes rows without end, put the target back once rows are there, and expect the named error."""
    numbers = DataGeneratorSource(lambda i: Row(id=i, name=str(i)), count=10_000_000, records_per_second=500, type_info=TYPE)
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
    stream.sink_to(sink) if isinstance(sink, DeltaSink) else stream.add_sink(sink)
    job = env.execute_async()
    wait_until("rows of a checkpoint", written)
    go_back()
    with pytest.raises(JobExecutionError, match=r"SinkChangedError: .* are lost, and would not be written again") as caught:
        job.get_job_execution_result().result(180)
    assert "It was not started again: starting again would meet the same." in str(caught.value)


def test_a_database_that_is_put_back_ends_the_job(make_env: MakeEnvironment, tmp_path: Path) -> None:
    path = tmp_path / "rows.db"

    def execute(sql: str) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            return connection.execute(sql).fetchall()

    def go_back() -> None:
        with closing(sqlite3.connect(tmp_path / "backup.db")) as backup, closing(sqlite3.connect(path)) as current:
            backup.backup(current)

    execute("CREATE TABLE t (id BIGINT, name TEXT)")
    shutil.copy(path, tmp_path / "backup.db")
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:sqlite:{path}").build()
    sink = JdbcSink.exactly_once_sink("INSERT INTO t VALUES (?, ?)", TYPE, options)
    env = environment(make_env, tmp_path)
    expect_an_end(env, sink, written=lambda: bool(execute("SELECT id FROM t LIMIT 1")), go_back=go_back)
    assert execute("SELECT id FROM t") == []


def test_a_delta_table_that_is_removed_ends_the_job(make_env: MakeEnvironment, tmp_path: Path) -> None:
    path = tmp_path / "table"
    # In one step, as a commit may be under way.
    env, log = environment(make_env, tmp_path), path / "_delta_log"
    expect_an_end(
        env,
        DeltaSink(str(path)),
        written=lambda: len(list(log.glob("*.json"))) > 2,
        go_back=lambda: log.rename(tmp_path / "moved"),
    )
    assert not list(log.glob("*.json"))

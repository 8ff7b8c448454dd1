"""Jobs that read Delta tables: killed, started again at another parallelism, each change once."""

from __future__ import annotations

import datetime
import decimal
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from flinkish.common import Row, Types, WatermarkStrategy
from flinkish.common.errors import JobCancelledError, JobExecutionError
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.delta import DeltaSink, DeltaSource
from flinkish.engine.job_client import EmbeddedJobClient
from tests.integration.datastream.connectors.delta.test_source import TABLES
from tests.kit.environments import env_of
from tests.kit.tables import rows_of
from tests.kit.waiting import wait_for_checkpoints, wait_until

NO_WATERMARKS = WatermarkStrategy.no_watermarks()


def environment(folder: Path, parallelism: int = 1, **settings: Any) -> StreamExecutionEnvironment:
    configuration = {
        "execution.epoch.max-records": 50,
        "execution.checkpointing.interval": 20,
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "high-availability.cluster-id": "delta",
        **settings,
    }
    return env_of(configuration, parallelism)


def test_rows_of_all_types_go_through_a_job_into_another_table(tmp_path: Path) -> None:
    env = environment(tmp_path)
    source = DeltaSource.for_bounded_row_data(str(TABLES / "types")).build()
    rows = env.from_source(source, NO_WATERMARKS, "types").rebalance()
    # A DeltaSink keeps every time as a point in time.
    rows.sink_to(DeltaSink(str(tmp_path / "copy")))
    env.execute()
    found = DeltaTable(str(tmp_path / "copy")).to_pyarrow_table().to_pylist()
    (first,) = [row for row in found if row["b"]]
    assert first["dec"] == decimal.Decimal("12345678901234567.125")
    assert first["ts"] == datetime.datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=datetime.UTC)
    assert first["arr"] == [1, None]
    assert first["st"]["inner"] == [{"t": datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)}]
    assert len(found) == 2


def test_a_job_that_reads_changes_goes_on_where_it_was_at_any_parallelism(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    properties = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(table, pa.table({"id": range(300), "n": [0] * 300}), configuration=properties)
    done = threading.Event()

    def change() -> None:
        """Change the table while the job runs: each row again and again, each third one goes."""
        for version in range(1, 7):
            DeltaTable(table).update({"n": str(version)}, predicate=f"id % 6 = {version - 1}")
        DeltaTable(table).delete("id % 3 = 0")
        done.set()

    def start(parallelism: int) -> EmbeddedJobClient:
        env = environment(tmp_path, parallelism)
        builder = DeltaSource.for_continuous_row_data(table).version_as_of(0).read_change_feed()
        source = builder.update_check_interval_millis(10).build()
        rows = env.from_source(source, NO_WATERMARKS, "table").uid("source")
        row_type = Types.ROW_NAMED(["kind", "id", "n"], [Types.STRING(), Types.LONG(), Types.LONG()])
        kinds = rows.map(lambda row: Row(kind=str(row.get_row_kind()), id=row.id, n=row.n), row_type).uid("kinds")
        kinds.sink_to(DeltaSink(str(tmp_path / "seen"))).uid("seen")
        client = env.execute_async()
        assert isinstance(client, EmbeddedJobClient)
        return client

    def seen() -> list[tuple[str, int, int]]:
        return rows_of(tmp_path / "seen", "kind", "id", "n")

    thread = threading.Thread(target=change)
    wanted = [("+I", n, 0) for n in range(300)]
    wanted += [(kind, n, value) for n in range(300) for kind, value in (("-U", 0), ("+U", n % 6 + 1))]
    wanted += [("-D", n, n % 6 + 1) for n in range(0, 300, 3)]
    for number, parallelism in enumerate([2, 3, 1, 2]):
        client = start(parallelism)
        if number == 0:
            thread.start()
        if number == 3:
            thread.join()
            wait_until("all changes", lambda: len(seen()) >= len(wanted))
        else:
            wait_for_checkpoints(client, 2)
        client.stop_for_signal("SIGTERM")
        with pytest.raises(JobCancelledError):
            client.get_job_execution_result().result(120)
    assert sorted(seen()) == sorted(wanted)


def test_a_job_whose_table_changes_its_schema_ends_and_says_so(tmp_path: Path) -> None:
    table = str(tmp_path / "table")
    write_deltalake(table, pa.table({"id": [1]}))
    # Without the rule for such errors it would start again for ever.
    env = environment(tmp_path, **{"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": 1_000_000})
    source = DeltaSource.for_continuous_row_data(table).update_check_interval_millis(10).build()
    env.from_source(source, NO_WATERMARKS, "table").print()
    client = env.execute_async()
    write_deltalake(table, pa.table({"id": [2], "name": ["b"]}), mode="append", schema_mode="merge")
    with pytest.raises(JobExecutionError, match=r"table.*the schema of .* changed with version 1: column 'name' was added"):
        client.get_job_execution_result().result(120)


def test_a_change_feed_is_merged_into_a_copy_across_restarts_at_any_parallelism(tmp_path: Path) -> None:
    table, copy = str(tmp_path / "table"), str(tmp_path / "copy")
    write_deltalake(table, pa.table({"id": range(100), "n": [0] * 100}), configuration={"delta.enableChangeDataFeed": "true"})

    def start(parallelism: int) -> EmbeddedJobClient:
        env = environment(tmp_path, parallelism)
        builder = DeltaSource.for_continuous_row_data(table).version_as_of(0).read_change_feed()
        rows = env.from_source(builder.update_check_interval_millis(10).build(), NO_WATERMARKS, "table").uid("source")
        # Of all writers the rows of a key reach one, though several subtasks send them.
        rows.sink_to(DeltaSink.for_table(copy).with_upsert_keys("id").build()).uid("copy")
        client = env.execute_async()
        assert isinstance(client, EmbeddedJobClient)
        return client

    def rows(path: str) -> list[tuple[int, int]]:
        return sorted(rows_of(path, "id", "n"))

    for number, parallelism in enumerate([2, 1, 3]):
        client = start(parallelism)
        DeltaTable(table).update({"n": f"n + {number + 1}"}, predicate=f"id % 3 = {number}")
        DeltaTable(table).update({"id": "id + 1000"}, predicate=f"id = {50 + number}")
        DeltaTable(table).delete(f"id % 10 = {number}")
        if number == 2:
            wait_until("the copy is complete", lambda: rows(copy) == rows(table))
        else:
            wait_for_checkpoints(client, 2)
        client.stop_for_signal("SIGTERM")
        with pytest.raises(JobCancelledError):
            client.get_job_execution_result().result(120)
    assert len(rows(copy)) == len({row[0] for row in rows(copy)})

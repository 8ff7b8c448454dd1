"""A target that is put back to an older state, or changed, while a job writes to it: the job ends with an error by name."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from flinkish.common import Row, Types, WatermarkStrategy
from flinkish.common.errors import JobExecutionError
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors import DataGeneratorSource
from flinkish.datastream.connectors.base import DeliveryGuarantee
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from flinkish.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from flinkish.datastream.formats.json import JsonRowSerializationSchema
from tests.conftest import MakeEnvironment
from tests.kit.kafka_broker import Broker
from tests.kit.restarts import restarting
from tests.kit.waiting import wait_until

TYPE = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])


def environment(make_env: MakeEnvironment, folder: Path) -> StreamExecutionEnvironment:
    settings = {
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": folder / "checkpoints",
        **restarting(1000, "10 ms"),
    }
    return make_env(1, settings)


def expect_an_end(
    env: StreamExecutionEnvironment,
    sink: Any,
    *,
    written: Callable[[], bool],
    go_back: Callable[[], object],
    match: str = "SinkChangedError: .* are lost, and would not be written again",
) -> None:
    """Run a job that writes rows without end, put the target back once rows are there, and expect the named error."""
    numbers = DataGeneratorSource(lambda i: Row(id=i, name=str(i)), count=10_000_000, records_per_second=500, type_info=TYPE)
    stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
    stream.sink_to(sink) if isinstance(sink, DeltaSink | KafkaSink) else stream.add_sink(sink)
    job = env.execute_async()
    wait_until("rows of a checkpoint", written)
    go_back()
    with pytest.raises(JobExecutionError, match=match) as caught:
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


def test_a_delta_table_that_is_changed_so_that_it_takes_no_rows_ends_the_job(make_env: MakeEnvironment, tmp_path: Path) -> None:
    path = tmp_path / "table"

    def constrain() -> None:
        DeltaTable(path).alter.add_constraint({"all": "id >= 0"})

    expect_an_end(
        environment(make_env, tmp_path),
        DeltaSink(str(path)),
        written=lambda: len(list((path / "_delta_log").glob("*.json"))) > 2,
        go_back=lambda: again(constrain, CommitFailedError),
        match="SinkChangedError: .* with constraints asks more of writers than DeltaSink supports",
    )


def again(act: Callable[[], None], error: type[Exception]) -> None:
    """Do something until it does not fail with the error, as commits of the job come in between."""
    while True:
        try:
            return act()
        except error:
            continue


def test_a_topic_that_is_deleted_and_created_again_ends_the_job(make_env: MakeEnvironment, tmp_path: Path, kafka: Broker) -> None:
    topic = kafka.create_topic(1)
    rows = JsonRowSerializationSchema.builder().with_type_info(TYPE).build()
    sink = (
        KafkaSink.builder()
        .set_bootstrap_servers(kafka.address)
        .set_record_serializer(
            KafkaRecordSerializationSchema.builder().set_topic(topic).set_value_serialization_schema(rows).build()
        )
        .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        .set_transactional_id_prefix(topic)
        .build()
    )

    def go_back() -> None:
        kafka.delete_topic(topic)
        kafka.create_topic(1, topic)

    env = environment(make_env, tmp_path)
    expect_an_end(env, sink, written=lambda: bool(kafka.values(topic)), go_back=go_back)

"""Spark's own Kafka source as the source of a job: env.from_data_frame(spark.readStream.format("kafka")...)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from flinkish.common.job_client import JobClient
from flinkish.datastream.connectors import DataFrameSink
from tests.conftest import MakeEnvironment
from tests.kit.jars import MissingJarsError
from tests.kit.kafka_broker import Broker
from tests.kit.spark_kafka import connector_jars
from tests.kit.waiting import wait_until
from tests.spark.test_data_frames import Written, end, sums

pytestmark = pytest.mark.spark


@pytest.fixture
def engine() -> str:
    return "spark"


@pytest.fixture
def with_kafka(spark_session: SparkSession) -> SparkSession:
    """The session of the tests, which can read Kafka from now on."""
    try:
        jars = connector_jars()
    except MissingJarsError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no jars of Spark's Kafka source: they are not here and could not be fetched: {error}")
    for jar in jars:
        spark_session.sql(f"ADD JAR '{jar}'")
    return spark_session


def test_a_job_over_sparks_kafka_source_goes_on_from_a_savepoint_and_reads_nothing_twice(
    kafka: Broker, make_env: MakeEnvironment, with_kafka: SparkSession, tmp_path: Path
) -> None:
    topic, written = kafka.create_topic(2), Written()

    def produce(*messages: tuple[str, int]) -> None:
        kafka.produce(topic, [{"key": key, "value": str(value)} for key, value in messages])

    def start(parallelism: int, settings: dict[str, str] | None = None) -> JobClient:
        env = make_env(parallelism, {"execution.checkpointing.interval": "1 s"} | (settings or {}))
        reader = with_kafka.readStream.format("kafka").option("kafka.bootstrap.servers", kafka.address)
        frame = reader.option("subscribe", topic).option("startingOffsets", "earliest").load()
        rows = env.from_data_frame(frame.selectExpr("string(key) as key", "bigint(string(value)) as time"), name="kafka")
        sums(rows.uid("kafka")).sink_to(DataFrameSink(written)).uid("out")
        return env.execute_async("sums")

    produce(("a", 1), ("b", 2))
    client = start(2)
    wait_until("rows", lambda: ("b", 2) in written.rows(), 120)
    produce(("a", 10))
    wait_until("more rows", lambda: ("a", 11) in written.rows(), 120)
    savepoint = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(120)
    produce(("a", 100), ("b", 200))
    written.by_id.clear()
    client = start(3, {"execution.state-recovery.path": savepoint})
    wait_until("the rest", lambda: written.rows() == [("a", 111), ("b", 202)], 120)
    end(client)

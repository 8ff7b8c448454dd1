"""A Kafka source whose brokers do not answer."""

from __future__ import annotations

import socket

import pytest

from flinkish.common import WatermarkStrategy
from flinkish.common.errors import (
    JobExecutionError,
)
from tests.conftest import MakeEnvironment, locally
from tests.unit.datastream.connectors.test_kafka_settings import builder


@locally
def test_brokers_that_do_not_answer_are_named_with_what_to_check(make_env: MakeEnvironment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        nobody = f"127.0.0.1:{listening.getsockname()[1]}"
    source = builder(default_api_timeout_ms="200").set_bootstrap_servers(nobody)
    env = make_env(1)
    env.from_source(source.build(), WatermarkStrategy.no_watermarks(), "kafka").print()
    with pytest.raises(JobExecutionError) as failed:
        env.execute()
    assert "SourceError: source 'Source: kafka'" in str(failed.value)
    assert f"KafkaSource: the topics at {nobody} cannot be listed" in str(failed.value)
    assert "are the brokers running" in str(failed.value)
    assert "_PassingError" not in str(failed.value)

"""Connectors of PyFlink that are not here: a program that imports one is told why, and what to use."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from docs.support import recorded
from flinkish.common.errors import UnsupportedError
from flinkish.datastream import connectors

_ABSENT = ("cassandra", "dynamic_kafka", "elasticsearch", "kinesis", "pulsar", "rabbitmq")


@pytest.mark.parametrize("name", _ABSENT)
def test_importing_from_its_module_says_why(name: str) -> None:
    module = importlib.import_module(f"flinkish.datastream.connectors.{name}")

    for class_name in recorded()["modules"][f"pyflink.datastream.connectors.{name}"]:
        with pytest.raises(
            UnsupportedError,
            match=rf"connectors\.{name}\.{class_name} is not supported: .*\nHint: (write a Source|use KafkaSource)",
        ):
            getattr(module, class_name)


def test_a_from_import_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"PulsarSink is not supported: it configures Flink's Pulsar connector"):
        from flinkish.datastream.connectors.pulsar import PulsarSink  # noqa: F401


@pytest.mark.parametrize("name", ["PulsarSource", "RMQSource", "DynamicKafkaSource"])
def test_importing_it_from_the_package_says_why(name: str) -> None:
    with pytest.raises(UnsupportedError, match=f"{name} is not supported"):
        getattr(connectors, name)


def test_python_may_look_for_what_modules_have() -> None:
    module = importlib.import_module("flinkish.datastream.connectors.pulsar")

    assert not hasattr(module, "__path__")


@pytest.mark.parametrize(
    ("module", "name", "client"),
    [
        ("cassandra", "CassandraSink", "cassandra-driver"),
        ("elasticsearch", "Elasticsearch7SinkBuilder", "elasticsearch"),
        ("kinesis", "KinesisFirehoseSink", "boto3"),
        ("pulsar", "PulsarSink", "pulsar-client"),
        ("rabbitmq", "RMQSource", "pika"),
    ],
)
def test_the_hint_names_the_client_and_the_page_of_recipes(module: str, name: str, client: str) -> None:
    page = "docs/pages/connectors/recipes.md"
    with pytest.raises(UnsupportedError, match=rf"{name} is not supported: .*\nHint: .* with the package {client}; {page}"):
        getattr(importlib.import_module(f"flinkish.datastream.connectors.{module}"), name)
    text = (Path(__file__).parents[4] / page).read_text()
    assert f"`{client}`" in text

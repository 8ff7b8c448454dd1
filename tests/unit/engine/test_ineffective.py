from __future__ import annotations

import logging
from typing import Any

import pytest

from flinkish.common import Configuration, Types, options
from flinkish.engine.support import ineffective
from tests.kit.environments import env_of


def texts(settings: dict[str, Any]) -> list[str]:
    return ineffective(Configuration.from_dict(settings))


def test_nothing_is_told_of_defaults_of_settings_with_effect_and_of_sparks() -> None:
    settings = {key: options.OPTIONS[key].default for key in options.WITHOUT_EFFECT if options.OPTIONS[key].default is not None}
    settings |= {"high-availability.type": "NONE", "state.backend.type": "hashmap", "spark.executor.memory": "1g"}
    assert texts(settings) == []


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"pipeline.object-reuse": True}, "pipeline.object-reuse: true has no effect: records are never copied"),
        ({"high-availability": "zookeeper"}, "high-availability.type: zookeeper has no effect: high availability is on if"),
        (
            {"execution.state-recovery.claim-mode": "CLAIM"},
            "execution.state-recovery.claim-mode: CLAIM has no effect: a job never",
        ),
        (
            {"metrics.reporters": "log", "metrics.reporter.prom.port": "1", "metrics.reporter.log.interval": "1 s"},
            "metrics.reporter.prom.port: this has no effect: metrics.reporters does not list these reporters",
        ),
        (
            {"metrics.scope.jm": "<host>", "metrics.fetcher.update-interval": "1 s"},
            "metrics.fetcher.update-interval, metrics.scope.jm: these have no effect: the names of metrics are Flink's defaults",
        ),
        (
            {"pipeline.jars": "file:///opt/delta-spark_2.13.jar;file:///opt/flink-sql-connector-kafka-4.0.0-2.0.jar"},
            "pipeline.jars: flink-sql-connector-kafka-4.0.0-2.0.jar has no effect: connectors and formats of flinkish need",
        ),
        ({"pipeline.classpaths": "file:///opt/flink-avro.jar"}, "pipeline.classpaths: flink-avro.jar has no effect"),
        ({"taskmanager.memory.process.size": "1g"}, "taskmanager.memory.process.size: this has no effect"),
        (
            {"execution.engine": "local", "spark.master": "spark://host:7077"},
            "spark.master: spark://host:7077 has no effect: with execution.engine: local, the job runs in this process only",
        ),
    ],
)
def test_a_setting_without_effect_has_one_line_that_says_why(settings: dict[str, Any], told: str) -> None:
    (text,) = texts(settings)
    assert text.startswith(told)


@pytest.mark.parametrize(("engine", "master"), [("spark", "spark://host:7077"), ("local", "local[2]")])
def test_a_master_that_is_used_or_is_this_machine_is_not_told(engine: str, master: str) -> None:
    assert texts({"execution.engine": engine, "spark.master": master}) == []


def test_keys_that_resemble_a_known_one_have_been_told_of_before() -> None:
    assert texts({"pipeline.object-resue": True}) == []


def test_a_job_tells_once_in_a_process_of_what_has_no_effect(caplog: pytest.LogCaptureFixture) -> None:
    settings = {"execution.checkpointing.interval": "1 h", "metrics.scope.only-of-this-test": "x"}
    caplog.set_level(logging.WARNING, "flinkish.job")
    for _ in range(2):
        env = env_of(settings)
        env.from_collection([1], Types.INT()).map(lambda value: value).print()
        env.execute()
    told = [record.getMessage() for record in caplog.records if "metrics." in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("metrics.scope.only-of-this-test: this has no effect")

from __future__ import annotations

from typing import Any

import pytest

from flinkish.common import Configuration
from flinkish.common.errors import ConfigurationError
from flinkish.metrics.reporters.reporter_settings import ReporterKind, reporter_settings

PROM = {"metrics.reporter.prom.factory.class": ReporterKind.PROMETHEUS.value}
LOG = {"metrics.reporter.log.factory.class": ReporterKind.LOG.value}


def read(settings: dict[str, Any]) -> Any:
    return reporter_settings(Configuration.from_dict(settings))


def test_without_settings_there_are_no_reporters() -> None:
    assert read({}) == ()


def test_all_that_are_configured_are_used_unless_some_are_listed() -> None:
    assert [each.name for each in read({**PROM, **LOG})] == ["log", "prom"]
    assert [each.name for each in read({**PROM, **LOG, "metrics.reporters": "prom"})] == ["prom"]
    assert [each.name for each in read({**PROM, **LOG, "metrics.reporters": "prom, log"})] == ["prom", "log"]


def test_settings_of_a_reporter_are_typed_and_have_flinks_defaults() -> None:
    [prom] = read({**PROM, "metrics.reporter.prom.port": "9250-9252", "metrics.reporter.prom.scope.variables.additional": "dc:x"})
    assert prom.ports == (9250, 9251, 9252)
    assert prom.additional == {"dc": "x"}
    assert prom.own["filterLabelValueCharacters"] is True
    [log] = read({**LOG, "metrics.reporter.log.interval": "2 s", "metrics.reporter.log.scope.variables.excludes": "tm_id;host"})
    assert log.own["interval"] == 2_000
    assert log.excluded == {"tm_id", "host"}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"metrics.reporters": "prom"}, "the reporter 'prom' has no settings"),
        ({"metrics.reporter.prom.port": "1"}, "metrics.reporter.prom.factory.class is not set"),
        ({"metrics.reporter.x": "1"}, "metrics.reporter.x: this is no setting of a reporter"),
        ({"metrics.reporter.x.factory.class": "org.apache.flink.metrics.jmx.JMXReporterFactory"}, "which flinkish does not have"),
        ({**PROM, "metrics.reporter.prom.interval": "1 s"}, r"metrics.reporter.prom.interval: this reporter has no such setting"),
        ({**PROM, "metrics.reporter.prom.port": "x"}, "metrics.reporter.prom.port: 'x' is neither a port"),
        ({**PROM, "metrics.reporter.prom.port": "9-8"}, "metrics.reporter.prom.port: '9-8' is neither a port"),
        (
            {**LOG, "metrics.reporter.log.interval": "soon"},
            "bad value 'soon' for the configuration key",
        ),
        (
            {**LOG, "metrics.reporter.log.interval": "0"},
            "bad value '0' for the configuration key 'metrics.reporter.log.interval'",
        ),
        (
            {"metrics.reporter.otel.factory.class": ReporterKind.OPEN_TELEMETRY.value},
            "metrics.reporter.otel.exporter.endpoint is not set",
        ),
    ],
)
def test_wrong_settings_are_refused_by_name(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        read(settings)

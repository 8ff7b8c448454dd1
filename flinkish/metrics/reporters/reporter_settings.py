"""Settings of the reporters, under Flink's keys: `metrics.reporters` and `metrics.reporter.NAME.*`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from flinkish.common import options
from flinkish.common.config_options import (
    BOOLEAN,
    DURATION,
    LIST,
    MAP,
    STRING,
    ConfigOption,
    OptionType,
    in_range,
    one_of,
    ports_of,
)
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError


class ReporterKind(Enum):
    """The available reporters, with the names of their factories in Flink."""

    PROMETHEUS = "org.apache.flink.metrics.prometheus.PrometheusReporterFactory"
    LOG = "org.apache.flink.metrics.slf4j.Slf4jReporterFactory"
    OPEN_TELEMETRY = "org.apache.flink.metrics.otel.OpenTelemetryMetricReporterFactory"
    #: A reporter of flinkish.
    HISTORY = "flinkish.metrics.reporters.history.HistoryReporterFactory"


#: Settings of each reporter in addition to factory.class: name, type, default, meaning. The page on metrics lists them.
COMMON: Final[Mapping[str, tuple[OptionType[Any], Any, str]]] = {
    "scope.variables.excludes": (LIST, [], "Labels to leave out, such as `task_attempt_id;tm_id`."),
    "scope.variables.additional": (MAP, {}, "Labels to add to every metric, such as `cluster:east`."),
}
_INTERVAL: Final = (in_range(DURATION, 100), 10_000, "How often it reports; at least 100 ms.")
OWN: Final[Mapping[ReporterKind, Mapping[str, tuple[OptionType[Any], Any, str]]]] = {
    ReporterKind.PROMETHEUS: {
        "port": (STRING, "9249", "Port, or range of ports to try, such as `9250-9260`; 0 = any that is free."),
        "filterLabelValueCharacters": (BOOLEAN, True, "Whether `_` replaces characters of label values not in `[a-zA-Z0-9:_]`."),
    },
    ReporterKind.LOG: {"interval": _INTERVAL},
    ReporterKind.OPEN_TELEMETRY: {
        "interval": _INTERVAL,
        "exporter.endpoint": (STRING, None, "URL of the collector, such as `http://localhost:4318/v1/metrics`."),
        "exporter.protocol": (one_of("HTTP"), "HTTP", "Protocol of the collector: OTLP over HTTP with protobuf."),
        "exporter.timeout": (DURATION, 10_000, "How long one report may take."),
        "service.name": (STRING, "flinkish", "The resource attribute service.name."),
        "service.version": (STRING, None, "The resource attribute service.version; if not set, the version of flinkish."),
    },
    ReporterKind.HISTORY: {"interval": (in_range(DURATION, 1_000), 60_000, "How often it reports; at least 1 s.")},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReporterSettings:
    """One reporter; durations are milliseconds."""

    name: str
    kind: ReporterKind
    excluded: frozenset[str]
    additional: Mapping[str, str]
    #: Settings of its kind by their names.
    own: Mapping[str, Any]

    @property
    def ports(self) -> tuple[int, ...]:
        """The ports that a Prometheus reporter tries, in order; raises ConfigurationError if `port` is malformed."""
        text = str(self.own["port"]).strip()
        ports = ports_of(text)
        if not ports:
            raise ConfigurationError(
                f"metrics.reporter.{self.name}.port: {text!r} is neither a port nor a range of ports",
                hint="such as 9249 or 9250-9260.",
            )
        return tuple(ports)


def reporter_settings(configuration: Configuration) -> tuple[ReporterSettings, ...]:
    """Return the settings of the reporters to use: those that `metrics.reporters` lists; if it is not set, all configured ones.

    Raises ConfigurationError for a reporter that does not exist, and for settings that it does not have.
    """
    found: dict[str, set[str]] = {}
    for key in configuration.key_set():
        if key.startswith(options.REPORTER_PREFIX):
            name, dot, rest = key.removeprefix(options.REPORTER_PREFIX).partition(".")
            if not name or not dot or not rest:
                raise ConfigurationError(
                    f"{key}: this is no setting of a reporter", hint="write it as metrics.reporter.NAME.SETTING."
                )
            found.setdefault(name, set()).add(rest)
    listed = configuration.get(options.METRIC_REPORTERS)
    names = sorted(found) if listed is None else [name.strip() for name in re.split("[,;]", listed) if name.strip()]
    for name in names:
        if name not in found:
            raise ConfigurationError(
                f"{options.METRIC_REPORTERS.key}: the reporter {name!r} has no settings",
                hint=f"set metrics.reporter.{name}.factory.class, such as {ReporterKind.PROMETHEUS.value}; "
                f"configured: {', '.join(sorted(found)) or 'none'}.",
            )
    return tuple(_reporter(configuration, name, found[name]) for name in dict.fromkeys(names))


def _reporter(configuration: Configuration, name: str, given: set[str]) -> ReporterSettings:
    prefix = f"{options.REPORTER_PREFIX}{name}"
    factory = configuration.get_string(f"{prefix}.factory.class", None)
    kinds = {kind.value: kind for kind in ReporterKind}
    if factory is None or factory not in kinds:
        problem = "is not set" if factory is None else f"is {factory!r}, which flinkish does not have"
        raise ConfigurationError(f"{prefix}.factory.class {problem}", hint=f"set it to one of {', '.join(kinds)}.")
    kind = kinds[factory]
    known = {**COMMON, **OWN[kind]}
    for rest in sorted(given - known.keys() - {"factory.class"}):
        raise ConfigurationError(
            f"{prefix}.{rest}: this reporter has no such setting", hint=f"it has {', '.join(sorted(known))}."
        )
    values = {
        rest: configuration.get(ConfigOption(f"{prefix}.{rest}", kind_of, default))
        for rest, (kind_of, default, _) in known.items()
    }
    settings = ReporterSettings(
        name=name,
        kind=kind,
        excluded=frozenset(str(label) for label in values["scope.variables.excludes"]),
        additional={str(label): str(value) for label, value in values["scope.variables.additional"].items()},
        own={rest: values[rest] for rest in OWN[kind]},
    )
    if kind is ReporterKind.PROMETHEUS:
        _ = settings.ports
    if kind is ReporterKind.OPEN_TELEMETRY and not settings.own["exporter.endpoint"]:
        raise ConfigurationError(f"{prefix}.exporter.endpoint is not set", hint="such as http://localhost:4318/v1/metrics.")
    return settings

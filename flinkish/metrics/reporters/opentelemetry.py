"""The OpenTelemetry reporter: sends metrics to a collector by OTLP.

It needs the extra `flinkish[otel]`, so this module is imported only when it is used.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import flinkish
from flinkish.common.clock import Clock
from flinkish.common.errors import FlinkishError, MissingPackageError
from flinkish.common.limits import LONG_MAX, LONG_MIN
from flinkish.metrics.catalog import Kind, Scope, find
from flinkish.metrics.reporters.base import Reporter, labelled, numbers
from flinkish.metrics.reporters.reporter_settings import ReporterSettings
from flinkish.metrics.samples import Sample

try:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.sdk.metrics import export
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
except ImportError as error:
    raise MissingPackageError(
        "the reporter for OpenTelemetry needs the packages opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http",
        hint="install them with pip install 'flinkish[otel]'.",
    ) from error


class OpenTelemetryReporter(Reporter):
    """Sends all samples as data points: counters of tasks as monotonic sums, all other metrics as gauges.

    Only the SDK's exporter is used. Its instruments would count, and the values are counted already.
    """

    def __init__(self, settings: ReporterSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._began = clock.wall_time()
        own = settings.own
        self._timeout = int(own["exporter.timeout"])
        self._exporter = OTLPMetricExporter(endpoint=own["exporter.endpoint"], timeout=self._timeout / 1000)
        version = own["service.version"] or flinkish.__version__
        self._resource = Resource.create({"service.name": own["service.name"], "service.version": version})

    def report(self, samples: Sequence[Sample]) -> None:
        """Send one report; raises FlinkishError if the collector does not accept it."""
        points: dict[tuple[Scope, str, bool], list[export.NumberDataPoint]] = {}
        for sample in samples:
            name, labels = labelled(sample, self._settings)
            for suffix, extra, value in numbers(sample, ".count"):
                attributes: Mapping[str, str] = {**labels, **extra}
                point = export.NumberDataPoint(
                    attributes=attributes,
                    start_time_unix_nano=1_000_000 * self._began,
                    time_unix_nano=1_000_000 * self._clock.wall_time(),
                    value=_number(value),
                )
                info = find(sample.scope, name)
                # Counters of operators start at 0 in each attempt, so they are not monotonic.
                sums = info is not None and info.kind is Kind.COUNTER and sample.scope is Scope.TASK
                points.setdefault((sample.scope, name + suffix, sums), []).append(point)
        scope = InstrumentationScope("flinkish", flinkish.__version__)
        metrics = export.ScopeMetrics(scope, [_metric(*key, found) for key, found in points.items()], "")
        data = export.MetricsData([export.ResourceMetrics(self._resource, [metrics], "")])
        if self._exporter.export(data, timeout_millis=self._timeout) is not export.MetricExportResult.SUCCESS:
            raise FlinkishError(f"the collector {self._settings.own['exporter.endpoint']} did not take the metrics")

    def close(self) -> None:
        self._exporter.shutdown()


def _metric(scope: Scope, name: str, sums: bool, points: list[export.NumberDataPoint]) -> export.Metric:
    info = find(scope, name)
    data: export.Sum | export.Gauge = export.Gauge(points)
    if sums:
        data = export.Sum(points, export.AggregationTemporality.CUMULATIVE, is_monotonic=True)
    dotted = f"flink.{scope.value.replace('_', '.')}.{name}"
    return export.Metric(dotted, info.description if info else "", info.unit if info else "", data)


def _number(value: float) -> float:
    """Return a number that the protocol has: whole numbers of 64 bits, no truth values. Another one would stop the report."""
    return int(value) if isinstance(value, int) and LONG_MIN <= value <= LONG_MAX else float(value)

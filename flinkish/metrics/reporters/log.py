"""The log reporter: all metrics as lines of one log message, as Flink's reporter for SLF4J writes them."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from flinkish.metrics.catalog import Kind, find
from flinkish.metrics.reporters.base import Reporter, labels_of, place, text
from flinkish.metrics.reporters.reporter_settings import ReporterSettings
from flinkish.metrics.samples import Histogram, Sample

_log = logging.getLogger("flinkish.metrics")

_TITLES = {Kind.COUNTER: "Counters", Kind.GAUGE: "Gauges", Kind.METER: "Meters", Kind.HISTOGRAM: "Histograms"}


class LogReporter(Reporter):
    """Writes all metrics to the logger `flinkish.metrics`, at level INFO."""

    def __init__(self, settings: ReporterSettings) -> None:
        self._settings = settings

    def report(self, samples: Sequence[Sample]) -> None:
        parts: dict[str, list[str]] = {title: [] for title in _TITLES.values()}
        for sample in samples:
            info = find(sample.scope, sample.name)
            kind = Kind.HISTOGRAM if isinstance(sample.value, Histogram) else info.kind if info else Kind.GAUGE
            parts[_TITLES[kind]].append(f"{place(labels_of(sample, self._settings))}.{sample.name}: {text(sample)}")
        lines = [f"-- {title} --\n" + "\n".join(members) for title, members in parts.items() if members]
        _log.info("Metrics report\n%s", "\n".join(lines))

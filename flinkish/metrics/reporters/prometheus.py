"""The Prometheus reporter: metrics in Prometheus' text format, with the names and labels of Flink's reporter.

Prometheus pulls them: the server answers its requests with this text.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from flinkish.metrics.catalog import find
from flinkish.metrics.reporters.base import labelled, numbers
from flinkish.metrics.reporters.reporter_settings import ReporterSettings
from flinkish.metrics.samples import Histogram, Sample

if TYPE_CHECKING:
    from prometheus_client import Metric

_log = logging.getLogger("flinkish.metrics")

#: Content type of the answer.
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OTHER = re.compile(r"[^a-zA-Z0-9:_]")
_NO_LABEL = re.compile(r"[^a-zA-Z0-9_]")


class PrometheusText:
    """Renders the current metrics as text, at each scrape."""

    def __init__(self, settings: ReporterSettings, read: Callable[[], Sequence[Sample]]) -> None:
        self._settings = settings
        self._read = read
        self._filters = bool(settings.own["filterLabelValueCharacters"])
        self._told: set[str] = set()

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format; may be called from any thread."""
        from prometheus_client import generate_latest

        return generate_latest(self)

    def collect(self) -> Iterable[Metric]:
        """Return the metric families; called by prometheus-client."""
        from prometheus_client import Metric

        families: dict[str, Metric] = {}
        seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
        for sample in self._read():
            if not isinstance(sample.value, (int, float, Histogram)):
                continue
            logical, given = labelled(sample, self._settings)
            name = f"flink_{sample.scope.value}_{_OTHER.sub('_', logical)}"
            labels = {_label(key): _OTHER.sub("_", value) if self._filters else value for key, value in given.items()}
            address = (name, tuple(sorted(labels.items())))
            if address in seen:
                # A duplicate would make Prometheus reject the whole answer.
                self._tell(name, sample.name)
                continue
            seen.add(address)
            if name not in families:
                info = find(sample.scope, logical)
                kind = "summary" if isinstance(sample.value, Histogram) else "gauge"
                families[name] = Metric(name, info.description if info else f"{logical} of a user or connector", kind)
            for suffix, extra, value in numbers(sample, "_count"):
                families[name].add_sample(name + suffix, {**labels, **extra}, float(value))
        return list(families.values())

    def _tell(self, name: str, metric: str) -> None:
        if name not in self._told:
            self._told.add(name)
            _log.warning(
                "Two metrics have the name %s and the same labels, one of them %s: only the first is reported.", name, metric
            )


def _label(name: str) -> str:
    """Return a valid name of a label: without colons, and without a digit at its beginning. Flink's names are valid."""
    text = _NO_LABEL.sub("_", name)
    return f"_{text}" if text[:1].isdigit() else text

"""The history table: metrics of each job as rows with the event `metrics`, in the Delta table of its checkpoints and restarts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from flinkish.metrics.catalog import Scope
from flinkish.metrics.plain import text_of
from flinkish.metrics.reporters.base import Reporter, labels_of
from flinkish.metrics.reporters.reporter_settings import ReporterSettings
from flinkish.metrics.samples import Histogram, Sample


class HistoryReporter(Reporter):
    """Calls `write` with a job's id and its metrics as plain data."""

    def __init__(self, settings: ReporterSettings, write: Callable[[str, Mapping[str, object]], None]) -> None:
        self._settings = settings
        self._write = write

    def report(self, samples: Sequence[Sample]) -> None:
        jobs: dict[str, dict[str, object]] = {}
        for sample in samples:
            job_id = sample.labels.get("job_id")
            if job_id is None:
                continue
            labels = labels_of(sample, self._settings)
            value = sample.value
            quantiles = value.quantiles if isinstance(value, Histogram) else None
            shown = _json(value) if quantiles is None else {str(share): _json(at) for share, at in quantiles.items()}
            jobs.setdefault(job_id, {})[f"{_scope(sample.scope, labels)}{sample.name}"] = shown
        for job_id, values in jobs.items():
            self._write(job_id, values)


def _json(value: object) -> object:
    """Return a value that JSON has: NaN and infinity are texts."""
    return text_of(value) if isinstance(value, float) and not math.isfinite(value) else value


def _scope(scope: Scope, labels: Mapping[str, str]) -> str:
    """Return the prefix of a metric within its job: `task.subtask.operator.`, with the operator's id if it has one."""
    names = {
        Scope.TASK: ("task_name", "subtask_index"),
        Scope.OPERATOR: ("task_name", "subtask_index", "operator_name", "operator_id"),
        Scope.LATENCY: ("source_id", "operator_id", "operator_subtask_index"),
    }.get(scope, ())
    return "".join(f"{labels[name]}." for name in names if name in labels)

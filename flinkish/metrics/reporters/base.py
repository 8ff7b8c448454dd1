"""What all reporters share: labels as configured, values as single numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence

from flinkish.metrics.plain import text_of
from flinkish.metrics.reporters.reporter_settings import ReporterSettings
from flinkish.metrics.samples import Histogram, Sample


class Reporter(ABC):
    """Sends samples to another system at intervals; its errors are logged and do not affect jobs."""

    @abstractmethod
    def report(self, samples: Sequence[Sample]) -> None:
        """Send the samples of all metrics, taken at one time."""

    def close(self) -> None:  # noqa: B027
        """Release the resources of the reporter; nothing by default."""


def labels_of(sample: Sample, settings: ReporterSettings) -> dict[str, str]:
    """Return the labels of a sample after `scope.variables.excludes` and `scope.variables.additional` were applied."""
    labels = {name: value for name, value in sample.labels.items() if name not in settings.excluded}
    return {**labels, **settings.additional}


def labelled(sample: Sample, settings: ReporterSettings) -> tuple[str, dict[str, str]]:
    """Return name and labels of a sample for a system with labels: the values of users' keys are labels, not parts of the name.

    As in Flink, a key of the user does not replace a variable of the scope.
    """
    own = {name: value for name, value in sample.variables.items() if name not in settings.excluded}
    return sample.logical_name or sample.name, {**own, **labels_of(sample, settings)}


def numbers(sample: Sample, count: str) -> Iterator[tuple[str, dict[str, str], float]]:
    """Yield a suffix of the name, additional labels, and a number for each value of a sample; nothing for a text.

    `count` is the suffix of the number of values in a histogram.
    """
    value = sample.value
    if isinstance(value, Histogram):
        yield count, {}, value.count
        for share, at in value.quantiles.items():
            yield "", {"quantile": str(share)}, at
    elif isinstance(value, (int, float)):
        yield "", {}, value


def text(sample: Sample) -> str:
    """Return a value as text for people."""
    value = sample.value
    if isinstance(value, Histogram):
        shown = ", ".join(f"p{100 * share:g}={at:g}" for share, at in value.quantiles.items())
        return f"count={value.count}, min={value.min:g}, max={value.max:g}, mean={value.mean:g}, stddev={value.stddev:g}, {shown}"
    return text_of(value)


def place(labels: Mapping[str, str]) -> str:
    """Return where a sample belongs, for people: job, task, subtask, operator."""
    names = ("job_name", "task_name", "subtask_index", "operator_name", "source_id", "operator_id", "operator_subtask_index")
    shown = [labels[name] for name in names if name in labels and not (name == "operator_id" and "operator_name" in labels)]
    return ".".join(shown) or labels.get("host", "")

"""Latencies from sources to operators, as Flink's latency markers measure them; off unless `metrics.latency.interval` is set.

No marker travels with the records. A marker would come to a source at a multiple of the interval, wait there until the next epoch
reads, and come to an operator with the records of that epoch. So its latency is the time that it waits, plus the time from the
epoch's command until the operator's subtask has done its work in that epoch, which the subtask reports. That is an upper bound
for the records of the epoch: most of them are done earlier.

- Only epochs count in which the source read records, and only operators downstream of it.
- If the job waited before the epoch, because there was nothing to read, a marker did not wait.
- Time that records spent outside of the job, such as in Kafka, is not part of it; Flink's markers do not measure it either.
- The clocks of all machines must agree, as for Flink's markers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from flinkish.graph.job_graph import JobGraph, VertexId
from flinkish.jobmaster.back_pressure import downstream
from flinkish.metrics.samples import Histogram, histogram
from flinkish.runtime.protocol import EpochReport

#: Maximum number of markers that count in one epoch, so that an interval far below an epoch's length costs nothing.
_MOST_MARKERS = 32


class Granularity(Enum):
    """How latencies distinguish sources: not at all, by operator, or by subtask; the names are Flink's."""

    SINGLE = "single"
    OPERATOR = "operator"
    SUBTASK = "subtask"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencySettings:
    """The settings: `interval` in milliseconds; `history_size` is the number of latencies that a histogram remembers."""

    interval: int
    granularity: Granularity = Granularity.OPERATOR
    history_size: int = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyKey:
    """The source and its subtask (None if they are not distinguished), and the subtask that receives the records."""

    source: VertexId | None
    source_subtask: int | None
    vertex: VertexId
    subtask: int


@dataclass(slots=True)
class _Values:
    last: deque[float]
    count: int = 0


@dataclass
class LatencyTracker:
    """Collects the latencies of one job; JobMetrics calls it with its lock. Times are monotonic milliseconds."""

    graph: JobGraph
    sources: Mapping[str, VertexId]
    settings: LatencySettings
    began: int
    _due: int = field(init=False)
    _waits: list[int] = field(default_factory=list, init=False)
    _values: dict[LatencyKey, _Values] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._due = self.began + self.settings.interval
        self._reached = {
            source: (source, *(vertex for vertex in self.graph.vertices if vertex in found))
            for source, found in downstream(self.graph).items()
            if source in self.sources.values()
        }

    def epoch_begins(self, now: int, *, waited: bool) -> None:
        """Record how long the markers of this epoch have waited; `waited` = the job had nothing to do before this epoch."""
        interval = self.settings.interval
        self._waits = []
        if now < self._due:
            return
        markers = (now - self._due) // interval + 1
        # Evenly spread over the time, if there are too many.
        counted = range(0, markers, -(-markers // _MOST_MARKERS))
        self._waits = [0] if waited else [now - self._due - interval * number for number in counted]
        self._due += markers * interval

    def add(self, reports: Sequence[EpochReport]) -> None:
        """Add what the markers of an epoch measured."""
        if not self._waits:
            return
        read = {
            (vertex, subtask)
            for report in reports
            for (uid, subtask), reader in report.readers.items()
            if reader.records and (vertex := self.sources.get(str(uid))) is not None
        }
        ended = {(metrics.vertex, metrics.subtask): metrics.ended_ms for report in reports for metrics in report.metrics}
        keys = {self._key(source, index, vertex, subtask) for source, index in read for vertex, subtask in ended
                if vertex in self._reached[source]}  # fmt: skip
        for key in keys:
            values = self._values.get(key)
            if values is None:
                values = self._values[key] = _Values(deque(maxlen=self.settings.history_size))
            values.count += len(self._waits)
            values.last.extend(max(0.0, wait + ended[key.vertex, key.subtask]) for wait in self._waits)

    def _key(self, source: VertexId, index: int, vertex: VertexId, subtask: int) -> LatencyKey:
        granularity = self.settings.granularity
        return LatencyKey(
            source=None if granularity is Granularity.SINGLE else source,
            source_subtask=index if granularity is Granularity.SUBTASK else None,
            vertex=vertex,
            subtask=subtask,
        )

    def restarted(self) -> None:
        """Drop the markers that the failed attempt had read."""
        self._waits = []

    def histograms(self) -> Mapping[LatencyKey, Histogram]:
        """Return the statistics of the latencies that are remembered."""
        return {key: histogram(tuple(values.last), values.count) for key, values in self._values.items()}

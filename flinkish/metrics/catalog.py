"""All metrics of flinkish itself: name, scope, kind, unit and meaning. The documentation's page is generated from this table.

Names and scopes are those of Flink 2.3's "System Metrics" if Flink has the metric; the others are marked as flinkish's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

__all__ = ["CATALOG", "Kind", "MetricInfo", "Scope", "find"]


class Scope(Enum):
    """The subject of a metric, with the prefix of its name in Prometheus, as in Flink."""

    SERVER = "jobmanager"
    JOB = "jobmanager_job"
    TASK = "taskmanager_job_task"
    OPERATOR = "taskmanager_job_task_operator"
    #: Latencies of a job, whose operator is a label.
    LATENCY = "taskmanager_job"


class Kind(Enum):
    """The kinds of metrics; a histogram has a count, a mean and quantiles."""

    COUNTER = "counter"
    GAUGE = "gauge"
    METER = "meter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricInfo:
    """One metric; `text` = its value is text, which only the REST API and the log reporter show."""

    name: str
    scope: Scope
    kind: Kind
    unit: str
    description: str
    #: Whether Flink has no metric of this name.
    own: bool = False
    text: bool = False


def _of(scope: Scope, kind: Kind, name: str, unit: str, description: str, *, own: bool = False, text: bool = False) -> MetricInfo:
    return MetricInfo(name=name, scope=scope, kind=kind, unit=unit, description=description, own=own, text=text)


_RATE = "Averaged over the last 10 s, at least over the last epoch."
_JOB, _TASK, _OPERATOR = Scope.JOB, Scope.TASK, Scope.OPERATOR
_COUNTER, _GAUGE, _METER, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.METER, Kind.HISTOGRAM

_INFOS = (
    _of(Scope.SERVER, _GAUGE, "numRunningJobs", "jobs", "Jobs that run in this process."),
    _of(_JOB, _GAUGE, "uptime", "ms", "How long the job has been running without interruption; 0 while it does not run."),
    _of(_JOB, _GAUGE, "downtime", "ms", "Time since the job failed; 0 while it runs, -1 after its end."),
    _of(_JOB, _GAUGE, "numRestarts", "restarts", "Restarts since the job began in this process."),
    _of(_JOB, _GAUGE, "fullRestarts", "restarts", "The same number, by its older name."),
    _of(_JOB, _GAUGE, "numberOfCompletedCheckpoints", "checkpoints", "Checkpoints and savepoints that were completed."),
    _of(_JOB, _GAUGE, "numberOfFailedCheckpoints", "checkpoints", "Checkpoints that failed or were aborted."),
    _of(_JOB, _GAUGE, "numberOfInProgressCheckpoints", "checkpoints", "Checkpoints that are in progress."),
    _of(_JOB, _GAUGE, "totalNumberOfCheckpoints", "checkpoints", "Checkpoints that were started."),
    _of(_JOB, _GAUGE, "lastCheckpointDuration", "ms", "Duration of the last completed checkpoint; -1 before the first."),
    _of(_JOB, _GAUGE, "lastCheckpointSize", "bytes", "State in the last completed checkpoint; -1 before the first."),
    _of(_JOB, _GAUGE, "lastCheckpointFullSize", "bytes", "The same number: each checkpoint is complete in itself."),
    _of(_JOB, _GAUGE, "lastCheckpointCompletedTimestamp", "ms since 1970", "When the last checkpoint completed; -1 before that."),
    _of(_JOB, _GAUGE, "lastCheckpointRestoreTimestamp", "ms since 1970", "When the job last started from a checkpoint, or -1."),
    _of(_JOB, _GAUGE, "lastCompletedCheckpointId", "id", "Id of the last completed checkpoint; -1 before the first."),
    _of(_JOB, _GAUGE, "lastCheckpointExternalPath", "path", "Where the last completed checkpoint is.", text=True),
    _of(_JOB, _COUNTER, "numEpochs", "epochs", "Epochs that were run.", own=True),
    _of(_JOB, _GAUGE, "lastEpochDuration", "ms", "Duration of the last epoch, from command to reports.", own=True),
    _of(_JOB, _GAUGE, "currentCredit", "records", "How many records each source subtask may read in an epoch.", own=True),
    _of(_TASK, _COUNTER, "numRecordsIn", "records", "Records received; for a source, records read."),
    _of(_TASK, _METER, "numRecordsInPerSecond", "records/s", f"Records received. {_RATE}"),
    _of(_TASK, _COUNTER, "numRecordsOut", "records", "Records sent to other tasks; a record counts once for each outgoing edge."),
    _of(_TASK, _METER, "numRecordsOutPerSecond", "records/s", f"Records sent to other tasks. {_RATE}"),
    _of(_TASK, _COUNTER, "numBytesIn", "bytes", "Approximate number of bytes received from other tasks; sources receive none."),
    _of(_TASK, _METER, "numBytesInPerSecond", "bytes/s", f"Bytes received. {_RATE}"),
    _of(_TASK, _COUNTER, "numBytesOut", "bytes", "Approximate number of bytes sent to other tasks and to the driver."),
    _of(_TASK, _METER, "numBytesOutPerSecond", "bytes/s", f"Bytes sent. {_RATE}"),
    _of(_TASK, _COUNTER, "numLateRecordsDropped", "records", "Records dropped as too late, by all operators of the task."),
    _of(_TASK, _GAUGE, "busyTimeMsPerSecond", "ms/s", f"Time in which the task worked. {_RATE}"),
    _of(_TASK, _GAUGE, "backPressuredTimeMsPerSecond", "ms/s", f"Time in which the task waited for a busier one. {_RATE}"),
    _of(_TASK, _GAUGE, "idleTimeMsPerSecond", "ms/s", f"All other time: no records, or the engine's own time. {_RATE}"),
    _of(_TASK, _GAUGE, "accumulateBusyTimeMs", "ms", "Time in which the task worked, since the job began."),
    _of(_TASK, _GAUGE, "accumulateBackPressuredTimeMs", "ms", "Time under back pressure, since the job began."),
    _of(_TASK, _GAUGE, "accumulateIdleTimeMs", "ms", "Idle time, since the job began."),
    _of(_TASK, _GAUGE, "isBackPressured", "0 or 1", "Whether it was back-pressured for more than half of the last seconds."),
    _of(_TASK, _GAUGE, "currentInputWatermark", "ms since 1970", "Watermark that the task has received; sources have none."),
    _of(_TASK, _GAUGE, "checkpointAlignmentTime", "ns", "How long the last checkpoint waited for barriers to be aligned."),
    _of(_TASK, _GAUGE, "lastCheckpointStateSize", "bytes", "State of the task in the last completed checkpoint.", own=True),
    _of(_OPERATOR, _COUNTER, "numRecordsIn", "records", "Records received; not known for all operators within a chain."),
    _of(_OPERATOR, _METER, "numRecordsInPerSecond", "records/s", f"Records received. {_RATE}"),
    _of(_OPERATOR, _COUNTER, "numRecordsOut", "records", "Records emitted; not known for all operators within a chain."),
    _of(_OPERATOR, _METER, "numRecordsOutPerSecond", "records/s", f"Records emitted. {_RATE}"),
    _of(_OPERATOR, _COUNTER, "numRecordsSend", "records", "Records that a sink received."),
    _of(_OPERATOR, _COUNTER, "numRecordsInErrors", "records", "Records that a source or a format could not read."),
    _of(_OPERATOR, _COUNTER, "numLateRecordsDropped", "records", "Records that a window or join dropped as too late."),
    _of(_OPERATOR, _COUNTER, "numDeadLetters", "records", "Records that were written as dead letters.", own=True),
    _of(_OPERATOR, _GAUGE, "currentInputWatermark", "ms since 1970", "Watermark that the operator has received."),
    _of(_OPERATOR, _GAUGE, "currentOutputWatermark", "ms since 1970", "Watermark that the operator has emitted."),
    _of(_OPERATOR, _GAUGE, "watermarkLag", "ms", "Time from the watermark to now; for sources and assigned watermarks."),
    _of(
        _OPERATOR,
        _GAUGE,
        "pendingRecords",
        "records",
        "Records that wait to be read, for sources that know their number: Kafka, Delta tables.",
    ),
    _of(
        Scope.LATENCY,
        _HISTOGRAM,
        "latency",
        "ms",
        "From a source to the end of an operator's work on its records. Off unless metrics.latency.interval is set.",
    ),
)

#: All metrics by scope and name.
CATALOG: Mapping[tuple[Scope, str], MetricInfo] = {(info.scope, info.name): info for info in _INFOS}


def find(scope: Scope, name: str) -> MetricInfo | None:
    """Return the entry of a metric; None for one that a user or a connector defines."""
    return CATALOG.get((scope, name))

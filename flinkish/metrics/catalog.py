"""All metrics of flinkish itself: name, scope, kind, unit and meaning. The documentation's page is generated from this table.

Names and scopes are those of Flink 2.3's "System Metrics" if Flink has the metric; the others are marked as flinkish's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


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


@dataclass(frozen=True, slots=True)
class MetricInfo:
    """One metric; `text` = its value is text, which only the REST API and the log reporter show."""

    scope: Scope
    kind: Kind
    name: str
    unit: str
    description: str
    #: Whether Flink has no metric of this name.
    own: bool = False
    text: bool = False


_RATE = "Averaged over the last 10 s, at least over the last epoch."
_JOB, _TASK, _OPERATOR = Scope.JOB, Scope.TASK, Scope.OPERATOR
_COUNTER, _GAUGE, _METER, _HISTOGRAM = Kind.COUNTER, Kind.GAUGE, Kind.METER, Kind.HISTOGRAM

_INFOS = (
    MetricInfo(Scope.SERVER, _GAUGE, "numRunningJobs", "jobs", "Jobs that run in this process."),
    MetricInfo(_JOB, _GAUGE, "uptime", "ms", "How long the job has been running without interruption; 0 while it does not run."),
    MetricInfo(_JOB, _GAUGE, "downtime", "ms", "Time since the job failed; 0 while it runs, -1 after its end."),
    MetricInfo(_JOB, _GAUGE, "numRestarts", "restarts", "Restarts since the job began in this process."),
    MetricInfo(_JOB, _GAUGE, "fullRestarts", "restarts", "The same number, by its older name."),
    MetricInfo(_JOB, _GAUGE, "numberOfCompletedCheckpoints", "checkpoints", "Checkpoints and savepoints that were completed."),
    MetricInfo(_JOB, _GAUGE, "numberOfFailedCheckpoints", "checkpoints", "Checkpoints that failed or were aborted."),
    MetricInfo(_JOB, _GAUGE, "numberOfInProgressCheckpoints", "checkpoints", "Checkpoints that are in progress."),
    MetricInfo(_JOB, _GAUGE, "totalNumberOfCheckpoints", "checkpoints", "Checkpoints that were started."),
    MetricInfo(_JOB, _GAUGE, "lastCheckpointDuration", "ms", "Duration of the last completed checkpoint; -1 before the first."),
    MetricInfo(_JOB, _GAUGE, "lastCheckpointSize", "bytes", "State in the last completed checkpoint; -1 before the first."),
    MetricInfo(_JOB, _GAUGE, "lastCheckpointFullSize", "bytes", "The same number: each checkpoint is complete in itself."),
    MetricInfo(
        _JOB, _GAUGE, "lastCheckpointCompletedTimestamp", "ms since 1970", "When the last checkpoint completed; -1 before that."
    ),
    MetricInfo(
        _JOB, _GAUGE, "lastCheckpointRestoreTimestamp", "ms since 1970", "When the job last started from a checkpoint, or -1."
    ),
    MetricInfo(_JOB, _GAUGE, "lastCompletedCheckpointId", "id", "Id of the last completed checkpoint; -1 before the first."),
    MetricInfo(_JOB, _GAUGE, "lastCheckpointExternalPath", "path", "Where the last completed checkpoint is.", text=True),
    MetricInfo(_JOB, _COUNTER, "numEpochs", "epochs", "Epochs that were run.", own=True),
    MetricInfo(_JOB, _GAUGE, "lastEpochDuration", "ms", "Duration of the last epoch, from command to reports.", own=True),
    MetricInfo(_JOB, _GAUGE, "currentCredit", "records", "How many records each source subtask may read in an epoch.", own=True),
    MetricInfo(_TASK, _COUNTER, "numRecordsIn", "records", "Records received; for a source, records read."),
    MetricInfo(_TASK, _METER, "numRecordsInPerSecond", "records/s", f"Records received. {_RATE}"),
    MetricInfo(
        _TASK, _COUNTER, "numRecordsOut", "records", "Records sent to other tasks; a record counts once for each outgoing edge."
    ),
    MetricInfo(_TASK, _METER, "numRecordsOutPerSecond", "records/s", f"Records sent to other tasks. {_RATE}"),
    MetricInfo(
        _TASK, _COUNTER, "numBytesIn", "bytes", "Approximate number of bytes received from other tasks; sources receive none."
    ),
    MetricInfo(_TASK, _METER, "numBytesInPerSecond", "bytes/s", f"Bytes received. {_RATE}"),
    MetricInfo(_TASK, _COUNTER, "numBytesOut", "bytes", "Approximate number of bytes sent to other tasks and to the driver."),
    MetricInfo(_TASK, _METER, "numBytesOutPerSecond", "bytes/s", f"Bytes sent. {_RATE}"),
    MetricInfo(_TASK, _COUNTER, "numLateRecordsDropped", "records", "Records dropped as too late, by all operators of the task."),
    MetricInfo(_TASK, _GAUGE, "busyTimeMsPerSecond", "ms/s", f"Time in which the task worked. {_RATE}"),
    MetricInfo(_TASK, _GAUGE, "backPressuredTimeMsPerSecond", "ms/s", f"Time in which the task waited for a busier one. {_RATE}"),
    MetricInfo(_TASK, _GAUGE, "idleTimeMsPerSecond", "ms/s", f"All other time: no records, or the engine's own time. {_RATE}"),
    MetricInfo(_TASK, _GAUGE, "accumulateBusyTimeMs", "ms", "Time in which the task worked, since the job began."),
    MetricInfo(_TASK, _GAUGE, "accumulateBackPressuredTimeMs", "ms", "Time under back pressure, since the job began."),
    MetricInfo(_TASK, _GAUGE, "accumulateIdleTimeMs", "ms", "Idle time, since the job began."),
    MetricInfo(
        _TASK, _GAUGE, "isBackPressured", "0 or 1", "Whether it was back-pressured for more than half of the last seconds."
    ),
    MetricInfo(
        _TASK, _GAUGE, "currentInputWatermark", "ms since 1970", "Watermark that the task has received; sources have none."
    ),
    MetricInfo(_TASK, _GAUGE, "checkpointAlignmentTime", "ns", "How long the last checkpoint waited for barriers to be aligned."),
    MetricInfo(
        _TASK, _GAUGE, "lastCheckpointStateSize", "bytes", "State of the task in the last completed checkpoint.", own=True
    ),
    MetricInfo(_OPERATOR, _COUNTER, "numRecordsIn", "records", "Records received; not known for all operators within a chain."),
    MetricInfo(_OPERATOR, _METER, "numRecordsInPerSecond", "records/s", f"Records received. {_RATE}"),
    MetricInfo(_OPERATOR, _COUNTER, "numRecordsOut", "records", "Records emitted; not known for all operators within a chain."),
    MetricInfo(_OPERATOR, _METER, "numRecordsOutPerSecond", "records/s", f"Records emitted. {_RATE}"),
    MetricInfo(_OPERATOR, _COUNTER, "numRecordsSend", "records", "Records that a sink received."),
    MetricInfo(_OPERATOR, _COUNTER, "numRecordsInErrors", "records", "Records that a source or a format could not read."),
    MetricInfo(_OPERATOR, _COUNTER, "numLateRecordsDropped", "records", "Records that a window or join dropped as too late."),
    MetricInfo(_OPERATOR, _COUNTER, "numDeadLetters", "records", "Records that were written as dead letters.", own=True),
    MetricInfo(_OPERATOR, _GAUGE, "currentInputWatermark", "ms since 1970", "Watermark that the operator has received."),
    MetricInfo(_OPERATOR, _GAUGE, "currentOutputWatermark", "ms since 1970", "Watermark that the operator has emitted."),
    MetricInfo(_OPERATOR, _GAUGE, "watermarkLag", "ms", "Time from the watermark to now; for sources and assigned watermarks."),
    MetricInfo(
        _OPERATOR,
        _GAUGE,
        "pendingRecords",
        "records",
        "Records that wait to be read, for sources that know their number: Kafka, Delta tables.",
    ),
    MetricInfo(
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

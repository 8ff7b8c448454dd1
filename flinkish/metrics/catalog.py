"""All metrics of flinkish itself: name, scope, kind, unit and meaning. The documentation's page is generated from this table.

Names and scopes are those of Flink 2.3's "System Metrics" if Flink has the metric; the others are marked as flinkish's own.
"""

from __future__ import annotations

import functools
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

    kind: Kind
    scope: Scope
    name: str
    unit: str
    description: str
    #: Whether Flink has no metric of this name.
    own: bool = False
    text: bool = False


_RATE = "Averaged over the last 10 s, at least over the last epoch."
_JOB, _TASK, _OPERATOR = Scope.JOB, Scope.TASK, Scope.OPERATOR
_counter, _gauge, _meter, _histogram = (functools.partial(MetricInfo, kind) for kind in Kind)

_INFOS = (
    _gauge(Scope.SERVER, "numRunningJobs", "jobs", "Jobs that run in this process."),
    _gauge(_JOB, "uptime", "ms", "How long the job has been running without interruption; 0 while it does not run."),
    _gauge(_JOB, "downtime", "ms", "Time since the job failed; 0 while it runs, -1 after its end."),
    _gauge(_JOB, "numRestarts", "restarts", "Restarts since the job began in this process."),
    _gauge(_JOB, "fullRestarts", "restarts", "The same number, by its older name."),
    _gauge(_JOB, "numberOfCompletedCheckpoints", "checkpoints", "Checkpoints and savepoints that were completed."),
    _gauge(_JOB, "numberOfFailedCheckpoints", "checkpoints", "Checkpoints that failed or were aborted."),
    _gauge(_JOB, "numberOfInProgressCheckpoints", "checkpoints", "Checkpoints that are in progress."),
    _gauge(_JOB, "totalNumberOfCheckpoints", "checkpoints", "Checkpoints that were started."),
    _gauge(_JOB, "lastCheckpointDuration", "ms", "Duration of the last completed checkpoint; -1 before the first."),
    _gauge(_JOB, "lastCheckpointSize", "bytes", "What the last completed checkpoint wrote; -1 before the first."),
    _gauge(_JOB, "lastCheckpointFullSize", "bytes", "State in the last completed checkpoint; -1 before the first."),
    _gauge(_JOB, "lastCheckpointCompletedTimestamp", "ms since 1970", "When the last checkpoint completed; -1 before that."),
    _gauge(_JOB, "lastCheckpointRestoreTimestamp", "ms since 1970", "When the job last started from a checkpoint, or -1."),
    _gauge(_JOB, "lastCompletedCheckpointId", "id", "Id of the last completed checkpoint; -1 before the first."),
    _gauge(_JOB, "lastCheckpointExternalPath", "path", "Where the last completed checkpoint is.", text=True),
    _counter(_JOB, "numEpochs", "epochs", "Epochs that were run.", own=True),
    _gauge(_JOB, "lastEpochDuration", "ms", "Duration of the last epoch, from command to reports.", own=True),
    _gauge(_JOB, "currentCredit", "records", "How many records each source subtask may read in an epoch.", own=True),
    _counter(_TASK, "numRecordsIn", "records", "Records received; for a source, records read."),
    _meter(_TASK, "numRecordsInPerSecond", "records/s", f"Records received. {_RATE}"),
    _counter(_TASK, "numRecordsOut", "records", "Records sent to other tasks; a record counts once for each outgoing edge."),
    _meter(_TASK, "numRecordsOutPerSecond", "records/s", f"Records sent to other tasks. {_RATE}"),
    _counter(_TASK, "numBytesIn", "bytes", "Approximate number of bytes received from other tasks; sources receive none."),
    _meter(_TASK, "numBytesInPerSecond", "bytes/s", f"Bytes received. {_RATE}"),
    _counter(_TASK, "numBytesOut", "bytes", "Approximate number of bytes sent to other tasks and to the driver."),
    _meter(_TASK, "numBytesOutPerSecond", "bytes/s", f"Bytes sent. {_RATE}"),
    _counter(_TASK, "numLateRecordsDropped", "records", "Records dropped as too late, by all operators of the task."),
    _gauge(_TASK, "busyTimeMsPerSecond", "ms/s", f"Time in which the task worked. {_RATE}"),
    _gauge(_TASK, "backPressuredTimeMsPerSecond", "ms/s", f"Time in which the task waited for a busier one. {_RATE}"),
    _gauge(_TASK, "idleTimeMsPerSecond", "ms/s", f"All other time: no records, or the engine's own time. {_RATE}"),
    _gauge(_TASK, "accumulateBusyTimeMs", "ms", "Time in which the task worked, since the job began."),
    _gauge(_TASK, "accumulateBackPressuredTimeMs", "ms", "Time under back pressure, since the job began."),
    _gauge(_TASK, "accumulateIdleTimeMs", "ms", "Idle time, since the job began."),
    _gauge(_TASK, "isBackPressured", "0 or 1", "Whether it was back-pressured for more than half of the last seconds."),
    _gauge(_TASK, "currentInputWatermark", "ms since 1970", "Watermark that the task has received; sources have none."),
    _gauge(_TASK, "checkpointAlignmentTime", "ns", "How long the last checkpoint waited for barriers to be aligned."),
    _gauge(_TASK, "lastCheckpointStateSize", "bytes", "State of the task in the last completed checkpoint.", own=True),
    _counter(_OPERATOR, "numRecordsIn", "records", "Records received; not known for all operators within a chain."),
    _meter(_OPERATOR, "numRecordsInPerSecond", "records/s", f"Records received. {_RATE}"),
    _counter(_OPERATOR, "numRecordsOut", "records", "Records emitted; not known for all operators within a chain."),
    _meter(_OPERATOR, "numRecordsOutPerSecond", "records/s", f"Records emitted. {_RATE}"),
    _counter(_OPERATOR, "numRecordsSend", "records", "Records that a sink received."),
    _counter(_OPERATOR, "numRecordsInErrors", "records", "Records that a source or a format could not read."),
    _counter(_OPERATOR, "numLateRecordsDropped", "records", "Records that a window or join dropped as too late."),
    _counter(_OPERATOR, "numDeadLetters", "records", "Records that were written as dead letters.", own=True),
    _gauge(_OPERATOR, "currentInputWatermark", "ms since 1970", "Watermark that the operator has received."),
    _gauge(_OPERATOR, "currentOutputWatermark", "ms since 1970", "Watermark that the operator has emitted."),
    _gauge(_OPERATOR, "watermarkLag", "ms", "Time from the watermark to now; for sources and assigned watermarks."),
    _gauge(
        _OPERATOR,
        "pendingRecords",
        "records",
        "Records that wait to be read, for sources that know their number: Kafka, Delta tables.",
    ),
    _histogram(
        Scope.LATENCY,
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

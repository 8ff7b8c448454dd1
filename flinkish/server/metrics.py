"""Metrics of a job by Flink's names, computed from a view of it, for REST and the reporters. Pure functions.

`flinkish/metrics/catalog.py` says what each metric means.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from flinkish.common.job_status import JobStatus
from flinkish.common.limits import LONG_MAX, LONG_MIN
from flinkish.graph.job_graph import JobVertex
from flinkish.graph.stream_graph import NodeId
from flinkish.jobmaster.execution_graph import Execution
from flinkish.jobmaster.job_metrics import SubtaskFigures
from flinkish.metrics.catalog import Scope
from flinkish.metrics.registry import Labelled
from flinkish.metrics.samples import Histogram, Sample
from flinkish.program.operators import (
    MapConfig,
    SinkConfig,
    SinkWriterConfig,
    SourceConfig,
    TimestampsAndWatermarksConfig,
)
from flinkish.server.views.job_view import UNASSIGNED, JobView, operator_id, rest_id

#: Milliseconds per second above which a task counts as back-pressured, as on Flink's page.
_BACK_PRESSURED = 500.0


def subtask_metrics(view: JobView, vertex: JobVertex, index: int) -> dict[str, Any]:
    """Return all metrics of a subtask; the names of its operators' metrics have the prefix `OPERATOR.`."""
    metrics = task_metrics(view, vertex, index)
    found = operator_metrics(view, vertex, index)
    for node in vertex.operators:
        # The form that names of metrics use.
        operator = re.sub("[ :,.]", "_", node.name)
        metrics.update({f"{operator}.{name}": value for name, value in expand(found[node.id]).items()})
    return metrics


def task_metrics(view: JobView, vertex: JobVertex, index: int) -> dict[str, Any]:
    """Return the metrics of a subtask itself."""
    now = view.subtask(vertex.id, index)
    rates = now.rates
    metrics: dict[str, Any] = {
        "numRecordsIn": now.records_in,
        "numRecordsInPerSecond": rates.records_in,
        "numRecordsOut": now.records_out,
        "numRecordsOutPerSecond": rates.records_out,
        "numBytesIn": now.bytes_in,
        "numBytesInPerSecond": rates.bytes_in,
        "numBytesOut": now.bytes_out,
        "numBytesOutPerSecond": rates.bytes_out,
        "numLateRecordsDropped": now.late_records,
        "busyTimeMsPerSecond": round(rates.busy),
        "backPressuredTimeMsPerSecond": round(rates.back_pressured),
        "idleTimeMsPerSecond": 1000 - round(rates.busy) - round(rates.back_pressured),
        "accumulateBusyTimeMs": round(now.busy_ms),
        "accumulateBackPressuredTimeMs": round(now.back_pressured_ms),
        "accumulateIdleTimeMs": round(now.idle_ms),
        "isBackPressured": int(rates.back_pressured > _BACK_PRESSURED),
    }
    if view.setup.plan.job_graph.inputs(vertex.id):
        metrics["currentInputWatermark"] = LONG_MIN if now.watermark is None else now.watermark
    checkpoint = view.checkpoints.latest_completed
    for part in () if checkpoint is None else checkpoint.acknowledgements:
        if (part.vertex, part.subtask) == (vertex.id, index):
            metrics["checkpointAlignmentTime"] = round(1_000_000 * part.alignment_ms)
            metrics["lastCheckpointStateSize"] = part.state_size
    return metrics


def operator_metrics(view: JobView, vertex: JobVertex, index: int) -> dict[NodeId, dict[str, Any]]:
    """Return the metrics of each operator of a subtask's chain; user metrics are numbers or mappings of numbers."""
    now = view.subtask(vertex.id, index)
    found: dict[NodeId, dict[str, Any]] = {node.id: {} for node in vertex.operators}
    received, emitted = _record_counts(view, vertex, now)
    watermarks = {node.id: watermark for node, watermark in zip(vertex.operators, now.watermarks, strict=False)}
    before = {edge.target: edge.source for edge in vertex.chain_edges}
    for node in vertex.operators:
        metrics = found[node.id]
        if node.id in received:
            metrics["numRecordsIn"], metrics["numRecordsInPerSecond"] = received[node.id]
        if node.id in emitted:
            metrics["numRecordsOut"], metrics["numRecordsOutPerSecond"] = emitted[node.id]
        if isinstance(node.operator, (SinkConfig, SinkWriterConfig)) and node.id in received:
            metrics["numRecordsSend"] = metrics["numRecordsIn"]
        if node.id in watermarks:
            metrics["currentOutputWatermark"] = watermark = watermarks[node.id]
            # The head receives the input of the task. A head that assigns watermarks drops those that it receives.
            if node.id in before:
                metrics["currentInputWatermark"] = watermarks[before[node.id]]
            elif not isinstance(node.operator, (SourceConfig, TimestampsAndWatermarksConfig)):
                metrics["currentInputWatermark"] = watermark
            if isinstance(node.operator, (SourceConfig, TimestampsAndWatermarksConfig)) and LONG_MIN < watermark < LONG_MAX:
                metrics["watermarkLag"] = view.now - watermark
    for name, owner, inside in _owned(view, vertex, now.user):
        found[owner][inside] = now.user[name]
    return found


def labels_of_operators(view: JobView, vertex: JobVertex, index: int) -> dict[NodeId, dict[str, Labelled]]:
    """Return, for each operator, the names without values and the labels of its metrics in groups of a key and a value."""
    found: dict[NodeId, dict[str, Labelled]] = {node.id: {} for node in vertex.operators}
    labelled = view.subtask(vertex.id, index).labelled
    for name, node, inside in _owned(view, vertex, labelled):
        logical, labels = labelled[name]
        found[node][inside] = (logical[len(name) - len(inside) :], labels)
    return found


def _owned(view: JobView, vertex: JobVertex, names: Iterable[str]) -> Iterator[tuple[str, NodeId, str]]:
    """Yield each name with the operator that it belongs to, and the name within that operator."""
    graph = view.setup.plan.job_graph
    # The longest scope first: an operator may be called `a`, and another one `a.b`.
    scopes = sorted(((".".join(graph.metric_scope(node)), node) for node in vertex.operators), key=lambda each: -len(each[0]))
    for name in names:
        for scope, node in scopes:
            if name.startswith(f"{scope}."):
                yield name, node.id, name[len(scope) + 1 :]
                break


Counted = dict[NodeId, tuple[int, float]]


def _record_counts(view: JobView, vertex: JobVertex, now: SubtaskFigures) -> tuple[Counted, Counted]:
    """Return the records that each operator of a chain received and emitted, in total and per second, where they are known.

    Records are counted only at the ends of a chain, because counting within it would cost time for each record. The numbers of
    the operators between are known as long as each emits one record for each input record.
    """
    received: Counted = {vertex.head.id: (now.records_in, now.rates.records_in)}
    emitted: Counted = {}
    sinks = [node.id for node in vertex.operators if isinstance(node.operator, (SinkConfig, SinkWriterConfig))]
    if len(sinks) == 1 and sinks[0] != vertex.head.id:
        received[sinks[0]] = (now.records_written, now.rates.records_written)
    edges = view.setup.plan.job_graph.outputs(vertex.id)
    if len(edges) == 1 and edges[0].side_output is None:
        emitted[edges[0].source] = (now.records_out, now.rates.records_out)
    # With dead letters, a record whose function fails is not emitted.
    one_to_one = () if view.setup.keeps_dead_letters else (MapConfig, SourceConfig, TimestampsAndWatermarksConfig)
    by_id = {node.id: node for node in vertex.operators}
    chained = [edge for edge in vertex.chain_edges if edge.side_output is None]
    for _ in range(2):  # forwards from the head and backwards from the end, then also from what that found
        for node in vertex.operators:
            if isinstance(node.operator, one_to_one) and node.id in received:
                emitted.setdefault(node.id, received[node.id])
            for edge in chained:
                if edge.source == node.id and node.id in emitted:
                    received.setdefault(edge.target, emitted[node.id])
        for edge in reversed(chained):
            if isinstance(by_id[edge.target].operator, one_to_one) and edge.target in emitted:
                received.setdefault(edge.target, emitted[edge.target])
            if edge.target in received:
                emitted.setdefault(edge.source, received[edge.target])
    return received, emitted


def job_metrics(view: JobView) -> dict[str, Any]:
    figures, checkpoints = view.figures, view.checkpoints
    latest = checkpoints.latest_completed
    runs = view.status is JobStatus.RUNNING
    since = view.now - view.details.timestamps.get(view.status, view.now)
    return {
        "uptime": since if runs else 0,
        "downtime": -1 if view.ended_at >= 0 else 0 if runs or not figures.epochs else since,
        "numRestarts": figures.restarts,
        "fullRestarts": figures.restarts,
        "numberOfCompletedCheckpoints": checkpoints.counts.completed,
        "numberOfFailedCheckpoints": checkpoints.counts.failed,
        "numberOfInProgressCheckpoints": checkpoints.counts.in_progress,
        "totalNumberOfCheckpoints": checkpoints.counts.triggered,
        "lastCheckpointDuration": -1 if latest is None else latest.duration or 0,
        "lastCheckpointSize": -1 if latest is None else latest.checkpointed_size,
        "lastCheckpointFullSize": -1 if latest is None else latest.state_size,
        "lastCheckpointCompletedTimestamp": -1 if latest is None else latest.trigger_time + (latest.duration or 0),
        "lastCheckpointRestoreTimestamp": -1 if checkpoints.restored is None else checkpoints.restored.restored_at,
        "lastCheckpointExternalPath": "n/a" if latest is None else latest.external_path or "n/a",
        "lastCompletedCheckpointId": -1 if latest is None else latest.checkpoint_id,
        "numEpochs": figures.epochs,
        "lastEpochDuration": round(figures.last_epoch_ms),
        "currentCredit": figures.credit,
    }


def latencies(view: JobView) -> list[tuple[dict[str, str], Histogram]]:
    """Return the latencies of each operator: the variables of its scope by Flink's names, and statistics in milliseconds.

    All operators of a task have the latency of the task; a source has no latency.
    """
    found = []
    for key, values in view.figures.latencies.items():
        scope: dict[str, str] = {}
        if key.source is not None:
            scope["source_id"] = operator_id(view.vertices[key.source].head)
        if key.source_subtask is not None:
            scope["source_subtask_index"] = str(key.source_subtask)
        for node in view.vertices[key.vertex].operators:
            if not isinstance(node.operator, SourceConfig):
                found.append(({**scope, "operator_id": operator_id(node), "operator_subtask_index": str(key.subtask)}, values))
    return found


def latency_metrics(view: JobView) -> dict[str, Any]:
    """Return the latencies by the names that they have in the REST API's metrics of a job."""
    found: dict[str, Any] = {}
    for scope, values in latencies(view):
        name = ".".join(["latency", *(part for pair in scope.items() for part in pair), "latency"])
        parts = {"count": values.count, "min": values.min, "max": values.max, "mean": values.mean, "stddev": values.stddev}
        parts |= {
            "median" if share == 0.5 else f"p{100 * share:g}".replace(".", ""): at for share, at in values.quantiles.items()
        }
        found.update({f"{name}_{part}": number for part, number in parts.items()})
    return found


def expand(metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return metrics with one value each: the rate of a meter, and one name for each statistic of a distribution."""
    expanded: dict[str, Any] = {}
    for name, value in metrics.items():
        if not isinstance(value, Mapping):
            expanded[name] = value
        elif "rate" in value:
            expanded[name] = value["rate"]
        else:
            expanded.update({f"{name}_{part}": number for part, number in distribution(value).items()})
    return expanded


def distribution(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the statistics of a distribution; if it has no values, only count and sum."""
    count = value["count"]
    parts = {"count": count, "sum": value["sum"]}
    return {**parts, "min": value["min"], "max": value["max"], "mean": value["sum"] / count} if count else parts


def aggregate(values: Sequence[float], wanted: Sequence[str]) -> dict[str, float]:
    """Return statistics of one metric; `skew` is the mean deviation from the mean, in percent of it, as in Flink."""
    total = float(sum(values))
    mean = total / len(values)
    skew = 0.0 if not mean else 100 * sum(abs(value - mean) for value in values) / len(values) / mean
    all_of = {"min": float(min(values)), "max": float(max(values)), "avg": mean, "sum": total, "skew": round(skew, 3)}
    return {name: all_of[name] for name in (wanted or all_of)}


def all_samples(views: Sequence[JobView], host: str) -> list[Sample]:
    """Return the metrics of all jobs; `host` is the name of this machine."""
    running = Sample(scope=Scope.SERVER, name="numRunningJobs", value=len(views), labels={"host": host})
    return [running, *(sample for view in views for sample in job_samples(view, host))]


def job_samples(view: JobView, host: str) -> Iterator[Sample]:
    job = {"host": host, "job_id": view.job_id, "job_name": view.name}
    yield from _samples(Scope.JOB, job_metrics(view), job)
    # Latencies are measured for the whole job; the label exists because Flink has it.
    manager = next((each.id for each in view.task_managers), UNASSIGNED)
    for scope, values in latencies(view):
        yield Sample(scope=Scope.LATENCY, name="latency", value=values, labels={**job, "tm_id": manager, **scope})
    for vertex in view.vertices.values():
        for execution in view.executions(vertex.id):
            yield from _of_subtask(view, vertex, execution, job)


def _of_subtask(view: JobView, vertex: JobVertex, execution: Execution, job: Mapping[str, str]) -> Iterator[Sample]:
    index = execution.subtask
    task = {
        **job,
        "tm_id": view.task_manager_id(execution.slot),
        "task_id": rest_id(vertex),
        "task_name": vertex.name,
        "task_attempt_id": f"{rest_id(vertex)}_{index}_{execution.attempt_number}",
        "task_attempt_num": str(execution.attempt_number),
        "subtask_index": str(index),
    }
    yield from _samples(Scope.TASK, task_metrics(view, vertex, index), task)
    found = operator_metrics(view, vertex, index)
    labelled = labels_of_operators(view, vertex, index)
    for node in vertex.operators:
        operator = {**task, "operator_id": operator_id(node), "operator_name": node.name}
        for name, value in found[node.id].items():
            logical, pairs = labelled[node.id].get(name, (None, ()))
            for suffix, number in expand({"": value}).items():
                yield Sample(
                    scope=Scope.OPERATOR,
                    name=name + suffix,
                    value=number,
                    labels=operator,
                    logical_name=None if logical is None else logical + suffix,
                    variables=dict(pairs),
                )


def _samples(scope: Scope, values: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[Sample]:
    return (Sample(scope=scope, name=name, value=value, labels=labels) for name, value in values.items())

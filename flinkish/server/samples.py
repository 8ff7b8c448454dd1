"""All metrics of this process as samples, for reporters: pure functions of views of its jobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flinkish.graph.job_graph import JobVertex
from flinkish.jobmaster.execution_graph import Execution
from flinkish.metrics.catalog import Scope
from flinkish.metrics.samples import Sample
from flinkish.server import metrics
from flinkish.server.views.job_view import UNASSIGNED, JobView, operator_id, rest_id


def all_samples(views: Iterable[JobView], host: str) -> list[Sample]:
    """Return the metrics of all jobs; `host` is the name of this machine."""
    looks = list(views)
    samples = [Sample(scope=Scope.SERVER, name="numRunningJobs", value=len(looks), labels={"host": host})]
    for view in looks:
        samples.extend(job_samples(view, host))
    return samples


def job_samples(view: JobView, host: str) -> Iterator[Sample]:
    """Yield the metrics of one job."""
    job = {"host": host, "job_id": view.job_id, "job_name": view.name}
    yield from _samples(Scope.JOB, metrics.job_metrics(view), job)
    # Latencies are measured for the whole job; the label exists because Flink has it.
    manager = next((each.id for each in view.task_managers), UNASSIGNED)
    for scope, values in metrics.latencies(view):
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
    yield from _samples(Scope.TASK, metrics.task_metrics(view, vertex, index), task)
    found = metrics.operator_metrics(view, vertex, index)
    labelled = metrics.labels_of_operators(view, vertex, index)
    for node in vertex.operators:
        operator = {**task, "operator_id": operator_id(node), "operator_name": node.name}
        special = labelled[node.id]
        plain = {name: value for name, value in found[node.id].items() if name not in special}
        yield from _samples(Scope.OPERATOR, metrics.expand(plain), operator)
        for name, (logical, pairs) in special.items():
            # A gauge that cannot be read has no value.
            given = {"": found[node.id][name]} if name in found[node.id] else {}
            for suffix, value in metrics.expand(given).items():
                yield Sample(
                    scope=Scope.OPERATOR,
                    name=name + suffix,
                    value=value,
                    labels=operator,
                    logical_name=logical + suffix,
                    variables=dict(pairs),
                )


def _samples(scope: Scope, values: Mapping[str, Any], labels: Mapping[str, str]) -> Iterator[Sample]:
    return (Sample(scope=scope, name=name, value=value, labels=labels) for name, value in values.items())

"""Metrics of whole jobs, by Flink's names."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from flinkish.common import Types, WatermarkStrategy
from flinkish.common.clock import ManualClock
from flinkish.datastream import FilterFunction, MapFunction, RuntimeContext, StreamExecutionEnvironment
from flinkish.jobmaster.latency import LatencyKey
from flinkish.metrics.catalog import CATALOG, Scope
from flinkish.metrics.samples import histogram
from flinkish.server import metrics
from flinkish.server.answers.wire import encode
from flinkish.server.metrics import job_samples
from flinkish.server.rest import job_handlers
from flinkish.server.rest.calls import JobCall
from flinkish.server.views.job_view import JobView, look_at, operator_id, rest_id
from flinkish.server.views.jobs import accumulators
from flinkish.testing import JobHarness

NOW = 1_700_000_000_000


class Measured(MapFunction):
    def open(self, context: RuntimeContext) -> None:
        group = context.get_metrics_group()
        self._seen = group.counter("seen")
        self._sizes = group.distribution("sizes")
        self._marks = group.meter("marks", 10)
        group.gauge("level", lambda: 7)
        self._kinds = [group.add_group("kind", kind).distribution("sizes") for kind in ("even", "odd.ly")]

    def map(self, value: Any) -> Any:
        self._seen.inc()
        self._sizes.update(value)
        self._marks.mark_event()
        self._kinds[value % 2].update(value)
        return value


class Even(FilterFunction):
    def filter(self, value: Any) -> bool:
        return bool(value % 2 == 0)


def program(env: StreamExecutionEnvironment, job: JobHarness) -> None:
    source = env.from_source(job.source("numbers", Types.LONG()), WatermarkStrategy.no_watermarks(), "numbers")
    one = source.map(Measured(), Types.LONG()).name("m").uid("one").filter(Even()).name("even").uid("even")
    one.map(Measured(), Types.LONG()).name("m").uid("two").map(Measured(), Types.LONG()).name("m.seen").sink_to(job.sink("out"))


def view_of(job: JobHarness) -> JobView:
    return look_at(job.client.job_master, clock=ManualClock(NOW))


@pytest.fixture(scope="module")
def view() -> JobView:
    with JobHarness(program, start_time=NOW) as job:
        for number in range(10):
            job.source("numbers").emit(number)
        job.source("numbers").watermark(5)
        assert job.checkpoint() == 1
        return view_of(job)


def of_operators(view: JobView) -> dict[str, dict[str, Any]]:
    [vertex] = view.vertices.values()
    found = metrics.operator_metrics(view, vertex, 0)
    return {str(node.uid): found[node.id] for node in vertex.operators}


def test_records_of_operators_inside_a_chain_are_known_where_one_comes_out_for_each(view: JobView) -> None:
    found = list(of_operators(view).values())
    counts = [(each.get("numRecordsIn"), each.get("numRecordsOut")) for each in found]
    assert counts == [(10, 10), (10, 10), (10, 5), (5, 5), (5, 5), (5, None)]
    assert found[-1]["numRecordsSend"] == 5


def test_operators_with_one_name_and_names_that_look_like_scopes_are_kept_apart(view: JobView) -> None:
    found = of_operators(view)
    assert found["one"]["seen"] == 10
    assert found["two"]["seen"] == 5
    assert [each["seen"] for each in found.values() if "seen" in each] == [10, 5, 5]


def test_distributions_and_meters_are_shown_as_numbers(view: JobView) -> None:
    found = metrics.expand(of_operators(view)["one"])
    assert {name: found[name] for name in found if name.startswith("sizes")} == {
        "sizes_count": 10, "sizes_sum": 45, "sizes_min": 0, "sizes_max": 9, "sizes_mean": 4.5,
    }  # fmt: skip
    assert found["marks"] == 1.0
    assert found["level"] == 7


def test_the_values_of_users_keys_are_variables_of_samples_and_part_of_names_in_rest(view: JobView) -> None:
    [vertex] = view.vertices.values()
    # Of two operators with one name, which have their uids in the names of the job's metrics.
    [found] = [
        {sample.name: sample for sample in job_samples(view, "h") if sample.labels.get("operator_id") == operator_id(node)}
        for node in vertex.operators
        if node.uid == "one"
    ]
    named = {name: sample.value for name, sample in found.items() if name.startswith("kind.")}
    assert {name: named[name] for name in named if name.endswith("_sum")} == {
        "kind.even.sizes_sum": 20,
        "kind.odd.ly.sizes_sum": 25,
    }
    sample = found["kind.odd.ly.sizes_sum"]
    assert (sample.logical_name, sample.variables) == ("kind.sizes_sum", {"kind": "odd.ly"})
    assert (found["seen"].logical_name, found["seen"].variables) == (None, {})
    assert "m.kind.odd.ly.sizes_sum" in metrics.subtask_metrics(view, vertex, 0)
    assert view.figures.user["m.one.kind.odd.ly.sizes"]["sum"] == 25


def test_watermarks_and_their_lag(view: JobView) -> None:
    found = list(of_operators(view).values())
    assert found[0]["watermarkLag"] == view.now - 5
    assert [each["currentOutputWatermark"] for each in found] == [5] * 6
    assert [each.get("currentInputWatermark") for each in found] == [None] + [5] * 5


def test_what_the_last_checkpoint_took(view: JobView) -> None:
    [vertex] = view.vertices.values()
    task, job = metrics.task_metrics(view, vertex, 0), metrics.job_metrics(view)
    assert task["lastCheckpointStateSize"] == job["lastCheckpointSize"] > 0
    assert task["checkpointAlignmentTime"] == 0
    assert job["numberOfCompletedCheckpoints"] == 1
    assert job["uptime"] >= 0
    assert job["downtime"] == 0


def test_latencies_have_flinks_names_in_rest(view: JobView) -> None:
    [vertex] = view.vertices
    key = LatencyKey(source=vertex, source_subtask=None, vertex=vertex, subtask=0)
    figures = replace(view.figures, latencies={key: histogram([5.0], 1)})
    found = metrics.latency_metrics(replace(view, figures=figures))
    source, *others = (operator_id(node) for vertex in view.vertices.values() for node in vertex.operators)
    prefix = f"latency.source_id.{source}.operator_id"
    parts = ("count", "min", "max", "mean", "stddev", "median", "p75", "p95", "p98", "p99", "p999")
    assert found.keys() == {f"{prefix}.{each}.operator_subtask_index.0.latency_{part}" for each in others for part in parts}


def test_every_metric_is_in_the_catalog(view: JobView) -> None:
    [vertex] = view.vertices.values()
    users = {"seen", "sizes", "marks", "level", "kind.even.sizes", "kind.odd.ly.sizes"}
    shown = {(Scope.JOB, name) for name in metrics.job_metrics(view)}
    shown |= {(Scope.TASK, name) for name in metrics.task_metrics(view, vertex, 0)}
    shown |= {(Scope.OPERATOR, name) for found in of_operators(view).values() for name in found if name not in users}
    assert shown <= CATALOG.keys()
    assert {name for scope, name in CATALOG if scope is Scope.JOB} == metrics.job_metrics(view).keys()


class Strange(MapFunction):
    """Has metrics of every kind whose values no reporter expects."""

    def open(self, context: RuntimeContext) -> None:
        group = context.get_metrics_group()
        group.counter("large").inc(2**70)
        group.meter("marks").mark_event(10**300)
        group.distribution("sizes").update(Decimal("NaN"))  # type: ignore[arg-type]
        lock = threading.Lock()
        values = {"none": None, "inf": math.inf, "text": "a", "lock": lock, "dict": {"rate": lock}, "decimal": Decimal("1.5")}
        for name, value in values.items():
            group.gauge(name, lambda value=value: value)
        group.gauge("numLateRecordsDropped", lambda: "many")  # type: ignore[arg-type, return-value]
        group.gauge("plain", lambda: 5)

    def map(self, value: Any) -> Any:
        return value


def test_strange_values_of_a_users_metrics_stop_neither_the_job_nor_its_other_metrics() -> None:
    def strange(env: StreamExecutionEnvironment, job: JobHarness) -> None:
        source = env.from_source(job.source("numbers", Types.LONG()), WatermarkStrategy.no_watermarks(), "numbers")
        source.map(Strange(), Types.LONG()).name("m").sink_to(job.sink("out"))

    with JobHarness(strange, start_time=NOW) as job:
        job.source("numbers").emit(1)
        job.checkpoint()
        view = view_of(job)
    [vertex] = view.vertices.values()
    expected: dict[str, Any] = {"large": 2**70, "marks": 10**300 / 60, "inf": math.inf, "text": "a", "decimal": 1.5, "plain": 5}
    expected["numLateRecordsDropped"] = "many"
    found = {each.name: each.value for each in job_samples(view, "h") if each.labels.get("operator_name") == "m"}
    assert {name: found[name] for name in expected} == expected
    assert math.isnan(found["sizes_mean"])
    assert not {"none", "lock", "dict"} & found.keys()

    def ask(handler: Any, **query: str) -> Any:
        path = {"vertexid": rest_id(vertex), "subtaskindex": "0"}
        return json.loads(encode(handler(JobCall(path, query, b"", job=None, view=view))))  # type: ignore[arg-type]

    names = [f"m.{name}" for name in expected]
    listed = ask(job_handlers.subtask_metrics, get=",".join(names))
    assert {each["id"]: each["value"] for each in listed}["m.inf"] == "Infinity"
    assert len(listed) == len(expected)
    assert {each["id"]: each["max"] for each in ask(job_handlers.aggregated_subtask_metrics, get="m.large,m.plain")} == {
        "m.large": 2.0**70,
        "m.plain": 5.0,
    }
    assert len(ask(job_handlers.aggregated_subtask_metrics, get=",".join(names))) == len(expected) - 2
    texts = {each["name"]: each["value"] for each in json.loads(encode(accumulators(view)))["user-task-accumulators"]}
    assert texts["m.large"] == str(2**70)

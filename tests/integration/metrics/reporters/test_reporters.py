"""What reporters make of samples."""

from __future__ import annotations

import json
import logging
import math
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from flinkish.common import Configuration
from flinkish.common.clock import ManualClock
from flinkish.common.errors import FlinkishError, MissingPackageError
from flinkish.metrics.catalog import Scope
from flinkish.metrics.reporters.history import HistoryReporter
from flinkish.metrics.reporters.log import LogReporter
from flinkish.metrics.reporters.opentelemetry import OpenTelemetryReporter
from flinkish.metrics.reporters.prometheus import PrometheusText
from flinkish.metrics.reporters.reporter_settings import ReporterKind, ReporterSettings, reporter_settings
from flinkish.metrics.samples import Sample, histogram
from tests.kit.http import replying

JOB = {"host": "h", "job_id": "j1", "job_name": "my job"}
TASK = {**JOB, "task_name": "Source: a -> b", "subtask_index": "0"}
OPERATOR = {**TASK, "operator_id": "o1", "operator_name": "b"}
LATENCY = {**JOB, "source_id": "s", "operator_id": "o", "operator_subtask_index": "0"}
SAMPLES = [
    Sample(scope=Scope.JOB, name="numRestarts", value=2, labels=JOB),
    Sample(scope=Scope.JOB, name="lastCheckpointExternalPath", value="/x", labels=JOB),
    Sample(scope=Scope.TASK, name="numRecordsIn", value=7, labels=TASK),
    Sample(scope=Scope.OPERATOR, name="group.my-counter", value=3, labels=OPERATOR),
    Sample(scope=Scope.LATENCY, name="latency", value=histogram([10.0, 20.0, 30.0], 5), labels=LATENCY),
]


def settings_of(kind: ReporterKind, **own: str) -> ReporterSettings:
    given = {f"metrics.reporter.r.{name.replace('__', '.')}": value for name, value in own.items()}
    [settings] = reporter_settings(Configuration.from_dict({"metrics.reporter.r.factory.class": kind.value, **given}))
    return settings


def prometheus(samples: list[Sample], **own: str) -> list[str]:
    return PrometheusText(settings_of(ReporterKind.PROMETHEUS, **own), lambda: samples).text().decode().splitlines()


def test_prometheus_has_flinks_names_and_labels_without_texts() -> None:
    lines = prometheus(SAMPLES)
    job = 'host="h",job_id="j1",job_name="my_job"'
    task = f'{job},subtask_index="0",task_name="Source:_a____b"'
    latency = 'host="h",job_id="j1",job_name="my_job",operator_id="o",operator_subtask_index="0"'
    assert f"flink_jobmanager_job_numRestarts{{{job}}} 2.0" in lines
    assert f"flink_taskmanager_job_task_numRecordsIn{{{task}}} 7.0" in lines
    operator = f'{job},operator_id="o1",operator_name="b",subtask_index="0",task_name="Source:_a____b"'
    assert f"flink_taskmanager_job_task_operator_group_my_counter{{{operator}}} 3.0" in lines
    assert f'flink_taskmanager_job_latency_count{{{latency},source_id="s"}} 5.0' in lines
    assert f'flink_taskmanager_job_latency{{{latency},quantile="0.5",source_id="s"}} 20.0' in lines
    assert not any("ExternalPath" in line for line in lines)
    assert "# TYPE flink_taskmanager_job_latency summary" in lines


def test_labels_can_be_left_out_added_and_kept_as_they_are() -> None:
    changes = {
        "scope__variables__excludes": "host",
        "scope__variables__additional": "dc:x",
        "filterLabelValueCharacters": "false",
    }
    assert 'flink_jobmanager_job_numRestarts{dc="x",job_id="j1",job_name="my job"} 2.0' in prometheus(SAMPLES[:1], **changes)


def of_keys(**variables: str) -> list[Sample]:
    """Two metrics of a user whose names differ in the value of a key."""
    return [
        Sample(
            scope=Scope.OPERATOR,
            name=f"read.file.{value}.lines",
            value=number,
            labels=OPERATOR,
            logical_name="read.file.lines",
            variables={"file": value, **variables},
        )
        for number, value in enumerate(("a.csv", "b.csv"))
    ]


def test_the_values_of_users_keys_are_labels_of_prometheus() -> None:
    # A key does not replace a variable of the scope, and each key has a form that Prometheus takes.
    lines = prometheus(of_keys(**{"job_id": "mine", "2x:y": "z"}), scope__variables__excludes="host;task_name;operator_id")
    job = 'job_id="j1",job_name="my_job",operator_name="b",subtask_index="0"'
    name = "flink_taskmanager_job_task_operator_read_file_lines"
    assert [line for line in lines if not line.startswith("#")] == [
        f'{name}{{_2x_y="z",file="a_csv",{job}}} 0.0',
        f'{name}{{_2x_y="z",file="b_csv",{job}}} 1.0',
    ]
    assert prometheus(of_keys(), scope__variables__excludes="file").count(f"# TYPE {name} gauge") == 1


def test_the_values_of_users_keys_stay_in_the_names_of_the_log_and_the_history(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "flinkish.metrics")
    LogReporter(settings_of(ReporterKind.LOG)).report(of_keys())
    place = "my job.Source: a -> b.0.b"
    assert f"{place}.read.file.a.csv.lines: 0\n{place}.read.file.b.csv.lines: 1" in caplog.text
    written: list[Any] = []
    HistoryReporter(settings_of(ReporterKind.HISTORY), lambda *each: written.append(each[1])).report(of_keys())
    assert list(written[0].values()) == [0, 1]


def test_two_metrics_that_would_have_one_address_do_not_spoil_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    twins = [Sample(scope=Scope.OPERATOR, name=name, value=1, labels=OPERATOR) for name in ("a.b", "a_b", "c")]
    lines = [line for line in prometheus(twins) if not line.startswith("#")]
    assert len(lines) == 2
    assert "one of them a_b: only the first is reported" in caplog.text


def test_the_log_has_a_line_for_each_metric(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "flinkish.metrics")
    LogReporter(settings_of(ReporterKind.LOG)).report(SAMPLES)
    assert caplog.messages == [
        "Metrics report\n-- Counters --\nmy job.Source: a -> b.0.numRecordsIn: 7\n-- Gauges --\nmy job.numRestarts: 2\n"
        "my job.lastCheckpointExternalPath: /x\nmy job.Source: a -> b.0.b.group.my-counter: 3\n-- Histograms --\n"
        "my job.s.o.0.latency: count=5, min=10, max=30, mean=20, stddev=10, "
        "p50=20, p75=30, p95=30, p98=30, p99=30, p99.9=30"
    ]


def test_the_history_gets_plain_values_of_each_job() -> None:
    written: list[Any] = []
    HistoryReporter(settings_of(ReporterKind.HISTORY), lambda *each: written.append(each)).report(
        [*SAMPLES[:3], Sample(scope=Scope.SERVER, name="numRunningJobs", value=1, labels={"host": "h"})]
    )
    assert written == [("j1", {"numRestarts": 2, "lastCheckpointExternalPath": "/x", "Source: a -> b.0.numRecordsIn": 7})]


@contextmanager
def collector(status: int = 200) -> Iterator[tuple[str, list[ExportMetricsServiceRequest]]]:
    taken: list[ExportMetricsServiceRequest] = []

    def reply(request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, str, bytes]:
        taken.append(ExportMetricsServiceRequest.FromString(body))
        return status, "", b""

    with replying(reply) as port:
        yield f"http://127.0.0.1:{port}/v1/metrics", taken


def test_open_telemetry_sends_sums_gauges_and_quantiles_to_a_collector() -> None:
    with collector() as (url, taken):
        reporter = OpenTelemetryReporter(settings_of(ReporterKind.OPEN_TELEMETRY, exporter__endpoint=url), ManualClock(1_000))
        reporter.report([*SAMPLES, *of_keys()])
        reporter.close()
    [resource] = taken[0].resource_metrics
    assert {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"] == "flinkish"
    found = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    assert found.keys() == {
        "flink.jobmanager.job.numRestarts", "flink.taskmanager.job.task.numRecordsIn",
        "flink.taskmanager.job.task.operator.group.my-counter", "flink.taskmanager.job.latency",
        "flink.taskmanager.job.latency.count", "flink.taskmanager.job.task.operator.read.file.lines",
    }  # fmt: skip
    assert len(found["flink.taskmanager.job.task.operator.read.file.lines"].gauge.data_points) == 2
    attributes = found["flink.taskmanager.job.task.operator.read.file.lines"].gauge.data_points[0].attributes
    assert {each.key: each.value.string_value for each in attributes} == {**OPERATOR, "file": "a.csv"}
    counter = found["flink.taskmanager.job.task.numRecordsIn"].sum
    assert (counter.is_monotonic, counter.data_points[0].as_int) == (True, 7)
    assert {each.key: each.value.string_value for each in counter.data_points[0].attributes} == TASK
    assert len(found["flink.taskmanager.job.latency"].gauge.data_points) == 6


STRANGE = {"large": 2**70, "nan": math.nan, "inf": -math.inf, "text": "a", "yes": True, "plain": 5}


def test_no_reporter_is_stopped_by_a_strange_value(caplog: pytest.LogCaptureFixture) -> None:
    samples = [Sample(scope=Scope.OPERATOR, name=name, value=value, labels=OPERATOR) for name, value in STRANGE.items()]
    scraped = dict(line.rsplit(" ", 1) for line in prometheus(samples) if not line.startswith("#"))
    values = {name.partition("{")[0].rpartition("_")[2]: float(value) for name, value in scraped.items()}
    assert math.isnan(values.pop("nan"))
    assert values == {"large": 2.0**70, "inf": -math.inf, "yes": 1.0, "plain": 5.0}

    caplog.set_level(logging.INFO, "flinkish.metrics")
    LogReporter(settings_of(ReporterKind.LOG)).report(samples)
    for shown in (f"large: {2**70}", "nan: NaN", "inf: -Infinity", "text: a", "plain: 5"):
        assert shown in caplog.text

    written: list[Any] = []
    HistoryReporter(settings_of(ReporterKind.HISTORY), lambda *each: written.append(each[1])).report(samples)
    assert "NaN" not in json.dumps(list(written[0].values())).replace('"NaN"', "")
    assert list(written[0].values()) == [2**70, "NaN", "-Infinity", "a", True, 5]

    with collector() as (url, taken):
        reporter = OpenTelemetryReporter(settings_of(ReporterKind.OPEN_TELEMETRY, exporter__endpoint=url), ManualClock())
        reporter.report(samples)
        reporter.close()
    points = {
        metric.name.rpartition(".")[2]: metric.gauge.data_points[0]
        for metric in taken[0].resource_metrics[0].scope_metrics[0].metrics
    }
    assert points.keys() == STRANGE.keys() - {"text"}
    assert (points["large"].as_double, points["plain"].as_int, points["inf"].as_double) == (2.0**70, 5, -math.inf)


def test_a_collector_that_refuses_is_an_error_with_its_address() -> None:
    with collector(400) as (url, _):
        reporter = OpenTelemetryReporter(settings_of(ReporterKind.OPEN_TELEMETRY, exporter__endpoint=url), ManualClock())
        with pytest.raises(FlinkishError, match="did not take the metrics"):
            reporter.report(SAMPLES)
        reporter.close()


def test_without_its_packages_open_telemetry_is_refused_with_the_extra_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "flinkish.metrics.reporters.opentelemetry")
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(MissingPackageError, match=r"opentelemetry-sdk.*\n?.*flinkish\[otel\]"):
        __import__("flinkish.metrics.reporters.opentelemetry")

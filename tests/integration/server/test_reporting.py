"""Reporters of this process, over real jobs."""

from __future__ import annotations

import json
import logging
import re
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flinkish.common import Configuration, Types, WatermarkStrategy
from flinkish.common.clock import SystemClock
from flinkish.common.errors import ConfigurationError
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import MapFunction, RuntimeContext
from flinkish.metrics.reporters.reporter_settings import ReporterKind, reporter_settings
from flinkish.metrics.samples import Sample
from flinkish.server import reporting
from flinkish.server.reporting import Reporters
from tests.kit.waiting import wait_until
from tests.unit.server.support import SAMPLES, endless_job, make_env

SAMPLE = SAMPLES / "prometheus_reporter.json"
DASHBOARD = Path(__file__).parents[3] / "conf" / "grafana" / "flinkish.json"
PROMETHEUS = {"metrics.reporter.prom.factory.class": ReporterKind.PROMETHEUS.value, "metrics.reporter.prom.port": "0"}


@contextmanager
def running(settings: dict[str, str]) -> Iterator[Reporters]:
    configuration = Configuration.from_dict(settings)
    reporters = Reporters(reporter_settings(configuration), configuration, SystemClock())
    try:
        yield reporters
    finally:
        reporters.close()


def scrape(port: int, path: str = "/metrics", **headers: str) -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return str(answer.read().decode())


def test_prometheus_scrapes_a_running_job_by_flinks_names_and_labels(tmp_path: Path) -> None:
    with running({**PROMETHEUS}) as reporters:
        client = endless_job(make_env(tmp_path, **{"metrics.latency.interval": "10 ms"}), "my job")
        try:
            port = reporters.ports["prom"]
            wait_until("a latency and a checkpoint", lambda: "job_latency{" in scrape(port) and "StateSize{" in scrape(port))
            lines = [line for line in scrape(port).splitlines() if not line.startswith("#")]
        finally:
            client.cancel().result()
            client.get_job_execution_result().exception()
    names = {line.partition("{")[0] for line in lines}
    recorded = json.loads(SAMPLE.read_text())
    own = {"numEpochs", "lastEpochDuration", "currentCredit", "lastCheckpointStateSize", "numRecordsSend", "watermarkLag"}
    # Flink's have no older name of numRestarts, and no metric of windows: this job has none.
    dashboard = set(re.findall(r"flink_[a-zA-Z_]+", DASHBOARD.read_text()))
    # Those of windows, Kafka and event time are not in this job.
    assert {name.rpartition("_")[2] for name in dashboard - names} == {"numDeadLetters", "pendingRecords", "watermarkLag"}
    strange = {
        name
        for name in names
        if name.rpartition("_")[2] not in own | {"fullRestarts", "numLateRecordsDropped", "latency", "count"}
    }
    assert strange <= {*recorded["jobmanager_names"], *recorded["taskmanager_names"]}
    [line] = [line for line in lines if line.startswith("flink_taskmanager_job_task_numRecordsIn{") and 'index="1"' in line][:1]
    labels = {pair.split("=")[0] for pair in line[line.index("{") + 1 : line.index("}")].split(",")}
    assert labels == {
        "host", "job_id", "job_name", "tm_id", "task_id", "task_name", "task_attempt_id", "task_attempt_num", "subtask_index",
    }  # fmt: skip


def test_a_further_reporter_takes_the_next_port_of_its_range_and_a_full_range_is_an_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings = {**PROMETHEUS, "metrics.reporter.prom.port": f"{port}-{min(65_535, port + 20)}"}
        with running(settings) as reporters:
            assert port < reporters.ports["prom"] <= port + 20
        with (
            pytest.raises(ConfigurationError, match=r"the reporter 'prom' finds no port\n?.*metrics.reporter.prom.port"),
            running({**PROMETHEUS, "metrics.reporter.prom.port": str(port)}),
        ):
            pass


def test_metrics_are_as_guarded_as_the_rest_api() -> None:
    with running({**PROMETHEUS, "security.rest.token": "0123456789abcdef"}) as reporters:
        port = reporters.ports["prom"]
        with pytest.raises(urllib.error.HTTPError, match="401"):
            scrape(port)
        assert "flink_jobmanager_numRunningJobs" in scrape(port, Authorization="Bearer 0123456789abcdef")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            scrape(port, "/jobs", Authorization="Bearer 0123456789abcdef")
    with running({**PROMETHEUS}) as reporters, pytest.raises(urllib.error.HTTPError, match="403"):
        scrape(reporters.ports["prom"], Host="attacker.example")
    with (
        pytest.raises(ConfigurationError, match="needs a token"),
        running({**PROMETHEUS, "rest.bind-address": "0.0.0.0"}),
    ):
        pass


def test_a_reporter_at_intervals_writes_into_the_history_table_of_the_job(tmp_path: Path) -> None:
    settings = {"metrics.reporter.h.factory.class": ReporterKind.HISTORY.value, "metrics.reporter.h.interval": "1 s"}
    client = endless_job(make_env(tmp_path))
    job_id = str(client.get_job_id())
    try:
        wait_until("records", lambda: client.figures().records_read > 0)
        with running(settings):
            pass  # it reports once more at its end
    finally:
        client.cancel().result()
        client.get_job_execution_result().exception()
    rows = DeltaTable(tmp_path / "checkpoints" / job_id / "history").to_pyarrow_table().to_pylist()
    [row] = [row for row in rows if row["event"] == "metrics"]
    values = json.loads(row["details"])
    assert values["numRestarts"] == 0
    assert values["Source: numbers -> to pair.0.numRecordsIn"] > 0


class Count(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self._seen = runtime_context.get_metrics_group().counter("seen")

    def map(self, value: int) -> int:
        self._seen.inc()
        return value


def run_short_job(tmp_path: Path) -> str:
    """Run a job of 1,000 records to its end; return its id."""
    numbers = make_env(tmp_path).from_source(NumberSequenceSource(1, 1_000), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(Count(), Types.LONG()).name("count").sink_to(DiscardingSink())
    return str(numbers.get_execution_environment().execute("short").get_job_id())


def test_a_job_that_is_shorter_than_the_interval_is_reported_at_its_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = {
        f"metrics.reporter.{kind.name.lower()}.{key}": value
        for kind in (ReporterKind.HISTORY, ReporterKind.LOG)
        for key, value in (("factory.class", kind.value), ("interval", "1 h"))
    }
    with running(settings), caplog.at_level(logging.INFO, "flinkish.metrics"):
        job_id = run_short_job(tmp_path)
        # They have it when the client learns of the end.
        rows = DeltaTable(tmp_path / "checkpoints" / job_id / "history").to_pyarrow_table().to_pylist()
        [report] = [record.getMessage() for record in caplog.records if "Metrics report" in record.getMessage()]
    [row] = [row for row in rows if row["event"] == "metrics"]
    values = json.loads(row["details"])
    [*counts] = [value for name, value in values.items() if name.endswith(".seen")]
    assert sum(counts) == 1_000
    assert values["downtime"] == -1
    assert len(re.findall(r"\.seen: (?!0\b)", report)) == len([count for count in counts if count])


def test_the_end_of_a_job_does_not_wait_for_a_collector_that_gets_its_last_figures_nevertheless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, sent = threading.Event(), []

    class Collector:
        def report(self, samples: Sequence[Sample]) -> None:
            assert free.wait(60)
            sent.append(sum(sample.value for sample in samples if sample.name == "seen"))

        def close(self) -> None:
            sent.append("closed")

    monkeypatch.setattr(Reporters, "_make", lambda *_: Collector())
    settings = {
        "metrics.reporter.otel.factory.class": ReporterKind.OPEN_TELEMETRY.value,
        "metrics.reporter.otel.exporter.endpoint": "http://127.0.0.1:9/v1/metrics",
        "metrics.reporter.otel.interval": "1 h",
    }
    with running(settings):
        run_short_job(tmp_path / "a")
        run_short_job(tmp_path / "b")
        assert sent == []
        free.set()
        wait_until("the last figures of the jobs", lambda: len(sent) == 2)
        run_short_job(tmp_path / "c")
    # At its end, the process reports the jobs that still run.
    assert sent == [1_000, 1_000, 1_000, 0, "closed"]


def test_a_reporter_that_fails_is_told_of_once_and_does_not_end(caplog: pytest.LogCaptureFixture) -> None:
    settings = {
        "metrics.reporter.otel.factory.class": ReporterKind.OPEN_TELEMETRY.value,
        "metrics.reporter.otel.exporter.endpoint": "http://127.0.0.1:9/v1/metrics",
        "metrics.reporter.otel.exporter.timeout": "50 ms",
        "metrics.reporter.otel.interval": "100 ms",
    }
    with running(settings):
        wait_until("a failure", lambda: "The reporter 'otel' failed" in caplog.text)
    assert caplog.text.count("The reporter 'otel' failed") == 1


def test_the_reporters_of_a_process_are_those_of_its_first_job(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    closers: list[Any] = []
    monkeypatch.setattr(reporting, "_reported", None)
    monkeypatch.setattr(reporting.atexit, "register", closers.append)
    reporting.ensure_reporters(Configuration.from_dict({}))
    assert closers == []
    reporting.ensure_reporters(Configuration.from_dict(PROMETHEUS))
    reporting.ensure_reporters(Configuration.from_dict(PROMETHEUS))
    assert not caplog.records
    reporting.ensure_reporters(Configuration.from_dict({"metrics.reporter.l.factory.class": ReporterKind.LOG.value}))
    assert "have no effect" in caplog.text
    [close] = closers
    close()

"""The answers about a running job, an ended one and the server have exactly the fields of Flink's recorded ones."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from flinkish.common import Types, WatermarkStrategy
from flinkish.common.errors import JobExecutionError
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.server.process_figures import ProcessFigures
from flinkish.server.rest import server_handlers
from flinkish.server.state import ServedJob
from tests.kit.waiting import wait_until
from tests.unit.server.support import UNKNOWN, Server, differences, endless_job, make_env, sample, served, served_job, shape


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, str]]:
    """A server and the id of a job that runs and has completed a checkpoint."""
    with served_job(tmp_path_factory.mktemp("job")) as found:
        yield found


def test_a_task_manager_on_another_machine_has_the_figures_that_its_slots_report(
    world: tuple[Server, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, _ = world
    monkeypatch.setattr(server_handlers.platform, "node", lambda: "another machine")
    monkeypatch.setattr(ProcessFigures, "of", lambda *_: pytest.fail("it was measured here"))

    (manager,) = server.get("/taskmanagers")["taskmanagers"]
    details = server.get(f"/taskmanagers/{manager['id']}")
    metrics = server.get(f"/taskmanagers/{manager['id']}/metrics?get=Status.JVM.CPU.Time,Status.JVM.Threads.Count")

    memory = psutil.Process().memory_info().rss
    # Both slots are in one process, which counts once.
    assert memory / 2 < details["metrics"]["heapUsed"] < 1.5 * memory
    assert details["metrics"]["heapMax"] == psutil.virtual_memory().total
    assert {each["id"]: float(each["value"]) > 0 for each in metrics} == {
        "Status.JVM.CPU.Time": True,
        "Status.JVM.Threads.Count": True,
    }


def test_the_details_of_a_checkpoint_have_the_fields_of_flinks(world: tuple[Server, str]) -> None:
    server, job_id = world
    checkpoint = server.get(f"/jobs/{job_id}/checkpoints")["latest"]["completed"]["id"]
    details = server.get(f"/jobs/{job_id}/checkpoints/details/{checkpoint}")
    vertex = next(iter(details["tasks"]))
    subtasks = server.get(f"/jobs/{job_id}/checkpoints/details/{checkpoint}/subtasks/{vertex}")

    recorded = sample("job_checkpoints_running", "GET /jobs/ID/checkpoints/details/N")
    assert differences(shape(recorded), shape(details)) == []
    recorded = sample("checkpoint_subtasks", "GET /jobs/ID/checkpoints/details/N/subtasks/ID")
    assert [text for text in differences(shape(recorded), shape(subtasks)) if ".p" not in text] == []
    # Four subtasks have acknowledged, two of each vertex, and the vertices' parts are the whole.
    assert details["num_acknowledged_subtasks"] == 4
    assert sum(part["num_acknowledged_subtasks"] for part in details["tasks"].values()) == 4
    assert details["state_size"] == sum(part["state_size"] for part in details["tasks"].values()) > 0
    assert {each["ack_timestamp"] >= details["trigger_timestamp"] for each in subtasks["subtasks"]} == {True}


def test_the_plan_lists_the_sinks_first_and_names_what_they_read(world: tuple[Server, str]) -> None:
    server, job_id = world

    last, first = server.get(f"/jobs/{job_id}/plan")["plan"]["nodes"]

    assert last["description"] == "count<br/>+- Sink: out<br/>"
    assert first["description"] == "Source: numbers<br/>+- to pair<br/>"
    assert [(each["id"], each["ship_strategy"]) for each in last["inputs"]] == [(first["id"], "HASH")]
    assert "inputs" not in first


def test_metrics_are_listed_by_name_and_given_as_text(world: tuple[Server, str]) -> None:
    server, job_id = world
    vertex = server.get(f"/jobs/{job_id}")["vertices"][1]["id"]
    path = f"/jobs/{job_id}/vertices/{vertex}"

    names = {metric["id"] for metric in server.get(f"{path}/metrics")}
    assert {"0.numRecordsIn", "1.busyTimeMsPerSecond", "0.currentInputWatermark"} <= names
    chosen = server.get(f"{path}/metrics?get=0.numRecordsIn,nothing")
    assert [metric["id"] for metric in chosen] == ["0.numRecordsIn"]
    assert int(chosen[0]["value"]) > 0
    [summed] = server.get(f"{path}/subtasks/metrics?get=numRecordsIn&agg=sum,max")
    assert summed.keys() == {"id", "sum", "max"}
    assert summed["sum"] >= summed["max"] > 0
    assert server.get(f"{path}/watermarks")[0]["id"] == "0.currentInputWatermark"
    assert {"id": "numRestarts", "value": "0"} in server.get(f"/jobs/{job_id}/metrics?get=numRestarts,uptime")


@pytest.mark.parametrize("query", ["agg=bad", "get=numRecordsIn&agg=sum,bad"])
def test_a_statistic_that_does_not_exist_is_refused_also_for_an_unknown_vertex(world: tuple[Server, str], query: str) -> None:
    server, job_id = world
    vertex = server.get(f"/jobs/{job_id}")["vertices"][1]["id"]

    for each in (vertex, UNKNOWN):
        status, answer = server.ask("GET", f"/jobs/{job_id}/vertices/{each}/subtasks/metrics?{query}")
        assert (status, "(agg) is not known: 'bad'" in answer["errors"][0]) == (400, True)


def test_a_job_that_ends_during_a_request_is_counted_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with served() as server:
        client = endless_job(make_env(tmp_path))
        job = server.jobs.get(str(client.get_job_id()))
        assert job is not None
        running = job.view()
        client.cancel().result(120)
        views = iter([running, job.view()])
        monkeypatch.setattr(ServedJob, "view", lambda _: next(views))

        counts = server.get("/overview")

    assert (counts["jobs-running"], counts["jobs-cancelled"]) == (1, 0)


def test_a_failed_job_is_shown_with_its_failures_after_its_end(tmp_path: Path) -> None:
    def boom(value: int) -> int:
        if value == 50:
            raise ValueError("deliberate")
        return value

    env = make_env(tmp_path, **{"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "1"})
    numbers = env.from_source(NumberSequenceSource(0, 100), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(boom, Types.LONG()).name("boom").sink_to(DiscardingSink())
    with served() as server:
        client = env.execute_async("failing")
        with pytest.raises(JobExecutionError):
            client.get_job_execution_result().result(120)
        job_id = str(client.get_job_id())

        info = server.get(f"/jobs/{job_id}")
        history = server.get(f"/jobs/{job_id}/exceptions")["exceptionHistory"]
        result = server.get(f"/jobs/{job_id}/execution-result")
        summary = server.get("/jobs/overview")["jobs"][0]

    assert (info["state"], summary["state"]) == ("FAILED", "FAILED")
    assert info["end-time"] == info["timestamps"]["FAILED"] > 0
    assert info.pop("restarts") == summary["restarts"]
    assert summary["restarts"]["count"] == 1
    assert "ValueError: deliberate" in summary["restarts"]["last-failure"]
    assert differences(shape(sample("job_failed_pyflink", "GET /jobs/ID")), shape(info)) == []
    assert differences(shape(sample("job_failed_pyflink", "GET /jobs/ID/execution-result")), shape(result)) == []
    final, first = history["entries"]
    recorded = sample("job_failed_pyflink", "GET /jobs/ID/exceptions")["exceptionHistory"]
    assert differences(shape(recorded), shape(history)) == []
    assert "taskName" not in final
    assert final["concurrentExceptions"][0]["taskName"].endswith("- execution #1")
    assert "deliberate" in final["concurrentExceptions"][0]["stacktrace"]
    assert (first["exceptionName"], first["concurrentExceptions"]) == ("ValueError", [])
    assert first["taskName"].startswith("Source: numbers -> boom -> Sink: ")
    assert result["job-execution-result"]["failure-cause"]["class"] == "ValueError"


def test_as_many_checkpoints_and_failures_are_kept_as_the_settings_say(tmp_path: Path) -> None:
    def boom(value: int) -> int:
        if (tmp_path / "fail").exists():
            raise ValueError("deliberate")
        return value

    settings = {
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "3",
        "restart-strategy.fixed-delay.delay": "1 ms",
        "web.checkpoints.history": "2",
        "web.exception-history-size": "3",
    }
    env = make_env(tmp_path, **settings)
    numbers = env.from_source(NumberSequenceSource(0, 10**12), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(boom, Types.LONG()).name("boom").sink_to(DiscardingSink())
    with served() as server:
        client = env.execute_async("failing")
        job_id = str(client.get_job_id())
        wait_until("4 checkpoints", lambda: server.get(f"/jobs/{job_id}/checkpoints")["counts"]["completed"] >= 4, 120)
        checkpoints = server.get(f"/jobs/{job_id}/checkpoints")["history"]
        (tmp_path / "fail").touch()
        with pytest.raises(JobExecutionError):
            client.get_job_execution_result().result(120)
        failures = server.get(f"/jobs/{job_id}/exceptions")["exceptionHistory"]
    assert len([each for each in checkpoints if each["className"] != "in_progress"]) == 2
    # Of four.
    assert (len(failures["entries"]), failures["truncated"]) == (3, True)


def test_a_stopped_job_is_finished_and_its_savepoint_known(tmp_path: Path) -> None:
    with served() as server:
        client = endless_job(make_env(tmp_path))
        job_id = str(client.get_job_id())
        server.await_progress(job_id)
        status, answer = server.ask("POST", f"/v1/jobs/{job_id}/stop", {"targetDirectory": None, "drain": False})
        assert status == 202
        trigger = answer["request-id"]
        result: Any = None

        def done() -> bool:
            nonlocal result
            result = server.get(f"/v1/jobs/{job_id}/savepoints/{trigger}")
            return result["status"]["id"] == "COMPLETED"

        wait_until("the savepoint", done)
        info = server.get(f"/jobs/{job_id}")
        checkpoints = server.get(f"/jobs/{job_id}/checkpoints")

    client.get_job_execution_result().result(120)
    assert Path(result["operation"]["location"]).is_dir()
    assert info["state"] == "FINISHED"
    assert checkpoints["latest"]["savepoint"]["checkpoint_type"] == "SYNC_SAVEPOINT"
    # The copy that stays, not the job's own checkpoint.
    location = result["operation"]["location"]
    paths = [checkpoints["latest"]["savepoint"]["external_path"], checkpoints["history"][0]["external_path"]]
    assert paths == [location, location]
    assert all(each["external_path"] != location for each in checkpoints["history"][1:])
    for recorded, answer in (("GET /jobs/ID", info), ("GET /jobs/ID/checkpoints", checkpoints)):
        found = differences(shape(sample("job_finished_after_stop", recorded)), shape(answer))
        # In Flink, the stop ended a checkpoint that was in flight.
        assert [text for text in found if not text.startswith((".latest.failed", ".history[0]"))] == []


def test_secrets_are_hidden_in_all_answers_about_a_job(tmp_path: Path) -> None:
    secret, known = "Zq9-in-the-url", "Zq9-of-the-store"

    def boom(value: int) -> int:
        raise ValueError(f"cannot reach postgresql://me:{secret}@db/x with password='{secret}', nor the store with {known}")

    settings = {
        "restart-strategy.type": "none",
        "my-store.secret-key": known,
        "pipeline.global-job-parameters": f"db.password:{secret},signing.key:{secret},nested:signing.key={secret},name:shown",
    }
    env = make_env(tmp_path, **settings)
    numbers = env.from_source(NumberSequenceSource(0, 10), WatermarkStrategy.no_watermarks(), "numbers")
    numbers.map(boom, Types.LONG()).name("boom").sink_to(DiscardingSink())
    with served() as server:
        client = env.execute_async("failing")
        with pytest.raises(JobExecutionError) as caught:
            client.get_job_execution_result().result(120)
        job_id = str(client.get_job_id())
        paths = ["", "/exceptions", "/execution-result", "/config", "/jobmanager/config", "/plan"]
        answers = {path: str(server.get(f"/jobs/{job_id}{path}")) for path in paths}
        answers["application"] = str(server.get(f"/applications/{job_id}/exceptions"))

    assert secret not in str(caught.value)
    assert known not in str(caught.value)
    assert [path for path, answer in answers.items() if secret in answer or known in answer] == []
    assert "postgresql://******@db/x" in answers["/exceptions"]
    assert "shown" in answers["/config"]

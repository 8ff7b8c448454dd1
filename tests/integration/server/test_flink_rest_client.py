"""The client `flink-rest-client` of PyPI, unchanged, makes each of its calls that Flink answers; real Flink answers them, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flink_rest_client import FlinkRestClient
from flink_rest_client.common import RestException

from tests.kit.waiting import wait_until
from tests.unit.server.support import UNKNOWN, endless_job, make_env, served


def test_every_call_works_as_with_flink(tmp_path: Path) -> None:
    with served() as server:
        job = endless_job(make_env(tmp_path))
        job_id = str(job.get_job_id())
        server.await_progress(job_id)
        client = FlinkRestClient.get(host="localhost", port=server.port)
        _look_at_the_cluster(client, job_id)
        _look_at_the_job(client.jobs, job_id)
        _look_at_a_vertex(client.jobs, job_id)

        saved = client.jobs.create_savepoint(job_id, str(tmp_path / "saved"))
        wait_until("the savepoint", lambda: saved.status["status"]["id"] == "COMPLETED")
        assert Path(saved.status["operation"]["location"]).is_dir()
        # A parallelism cannot be changed while the job runs, neither here nor in Flink.
        with pytest.raises(RestException, match=r"503.*Rescaling is temporarily disabled"):
            client.jobs.rescale(job_id, 4)
        with pytest.raises(RestException, match="404"):
            client.jobs.get(UNKNOWN)
        stopped = client.jobs.stop(job_id, str(tmp_path / "stopped"))
        wait_until("the end", lambda: stopped.status["status"]["id"] == "COMPLETED")
        assert Path(stopped.status["operation"]["location"]).is_dir()
        assert client.jobs.get_execution_result(job_id)["job-execution-result"]["application-status"] == "SUCCEEDED"
        job.get_job_execution_result().result(120)

        other = endless_job(make_env(tmp_path))
        assert client.jobs.terminate(str(other.get_job_id())) is True
        wait_until("the cancellation", lambda: server.get(f"/jobs/{other.get_job_id()}/status")["status"] == "CANCELED")
        other.cancel().result(120)


def _look_at_the_cluster(client: Any, job_id: str) -> None:
    assert client.overview()["jobs-running"] == 1
    assert client.config()["flink-version"] == "2.3.0"
    assert client.datasets() == []
    deleted = client.delete_dataset(UNKNOWN)
    assert deleted.status["operation"]["failure-cause"]["class"] == "InvalidArgumentError"
    assert client.jobmanager.config()["rest.port"] == "0"
    name = client.jobmanager.logs()[0]["name"]
    assert "numRunningJobs" in client.jobmanager.metric_names()
    assert client.jobmanager.metrics()["numRunningJobs"] == "1"
    assert isinstance(client.jobmanager.get_log(name), str)
    [manager] = client.taskmanagers.taskmanager_ids()
    assert client.taskmanagers.get(manager)["allocatedSlots"][0]["jobId"] == job_id
    assert client.taskmanagers.get_logs(manager)[0]["name"] == name
    assert float(client.taskmanagers.get_metrics(manager)["Status.JVM.CPU.Time"]) > 0
    assert client.taskmanagers.metrics()["Status.JVM.Memory.Heap.Used"]["max"] > 0
    assert "MainThread" in client.taskmanagers.get_thread_dump(manager)


def _look_at_the_job(jobs: Any, job_id: str) -> None:
    assert jobs.all() == [{"id": job_id, "status": "RUNNING"}]
    assert jobs.job_ids() == [job_id]
    assert jobs.overview()[0]["state"] == "RUNNING"
    assert jobs.metrics(["uptime"], job_ids=[job_id])["uptime"]["max"] > 0
    assert jobs.get(job_id)["name"] == "endless"
    assert jobs.get_config(job_id)["execution-config"]["job-parallelism"] == 2
    assert jobs.get_exceptions(job_id)["exceptionHistory"]["entries"] == []
    assert jobs.get_execution_result(job_id)["status"] == {"id": "IN_PROGRESS"}
    assert jobs.get_metrics(job_id)["numRestarts"] == "0"
    assert len(jobs.get_plan(job_id)["nodes"]) == 2
    assert jobs.get_accumulators(job_id)["job-accumulators"] == []
    assert jobs.get_checkpointing_configuration(job_id)["mode"] == "exactly_once"
    assert jobs.get_checkpoints(job_id)["counts"]["completed"] > 0
    newest = max(jobs.get_checkpoint_ids(job_id))
    assert jobs.get_checkpoint_details(job_id, newest, show_subtasks=True)["num_subtasks"] == 4


def _look_at_a_vertex(jobs: Any, job_id: str) -> None:
    vertex = jobs.get_vertex(job_id, jobs.get_vertex_ids(job_id)[1])
    assert vertex.details()["name"].startswith("count")
    assert len(vertex.backpressure()["subtasks"]) == 2
    assert int(vertex.metrics(["0.numRecordsIn"])["0.numRecordsIn"]) > 0
    assert len(vertex.subtasktimes()["subtasks"]) == 2
    assert len(vertex.taskmanagers()["taskmanagers"]) == 1
    assert vertex.watermarks()[0]["id"] == "0.currentInputWatermark"
    assert vertex.subtasks.subtask_ids() == [0, 1]
    assert vertex.subtasks.metrics(["numBytesIn"])["numBytesIn"]["sum"] > 0
    assert vertex.subtasks.get(1)["attempt"] == 0
    assert vertex.subtasks.get_attempt(1)["status"] == "RUNNING"
    assert vertex.subtasks.get_attempt_accumulators(1)["user-accumulators"] == []

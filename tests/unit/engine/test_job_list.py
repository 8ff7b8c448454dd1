"""The list of running jobs, as a server uses it: by id, from a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from flinkish.common import JobID, WatermarkStrategy
from flinkish.common.errors import ForeignCheckpointError, InvalidProgramError, JobNotFoundError
from flinkish.common.job_status import JobStatus
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.engine import launcher
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.engine.job_list import RUNNING_JOBS, JobList
from tests.kit.environments import env_of


class Listener:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: list[tuple[str, JobStatus]] = []

    def job_started(self, job: EmbeddedJobClient) -> None:
        self.started.append(str(job.get_job_id()))

    def job_ended(self, job: EmbeddedJobClient) -> None:
        self.ended.append((str(job.get_job_id()), job.get_job_status().result()))


class FailingListener:
    def job_started(self, job: EmbeddedJobClient) -> None:
        raise RuntimeError("the server is gone")

    def job_ended(self, job: EmbeddedJobClient) -> None:
        raise RuntimeError("the server is gone")


@pytest.fixture
def listener() -> Iterator[Listener]:
    """A listener of the jobs of this process."""
    listener = Listener()
    RUNNING_JOBS.subscribe(listener)
    yield listener
    RUNNING_JOBS.unsubscribe(listener)


def program(tmp_path: Path, count: int | None = None, **settings: Any) -> StreamExecutionEnvironment:
    """An environment with a program that runs until it is stopped, or has read `count` numbers."""
    configuration = {
        "execution.epoch.target-duration": "20 ms",
        "security.checkpoint.hmac-key-file": str(tmp_path / "keys" / "key"),
        **settings,
    }
    env = env_of(configuration)
    rate = 1_000 if count is None else None
    source = DataGeneratorSource(lambda index: index, count, records_per_second=rate)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers").uid("numbers")
    numbers.key_by(lambda n: n % 7).reduce(max).uid("most").sink_to(DiscardingSink()).uid("sink")
    return env


def in_another_thread(call: Callable[[], Any]) -> Any:
    """Return what a call returns that is made as a server would: not by the thread that started the job."""
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    thread.join(250)
    assert len(results) == 1, "the call did not return"
    return results[0]


def test_a_running_job_is_steered_by_its_id_from_another_thread(tmp_path: Path) -> None:
    env = program(tmp_path, **{"execution.checkpointing.interval": "1 h"})
    job_id = str(env.execute_async("steered").get_job_id())

    def steer() -> tuple[str, int, str, str]:
        job = RUNNING_JOBS.get(job_id)
        checkpoint = job.trigger_checkpoint().result(120)
        savepoint = job.trigger_savepoint(str(tmp_path / "savepoints")).result(120)
        stopped = job.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(120)
        return job.job_master.setup.job_name, checkpoint, savepoint, stopped

    name, checkpoint, savepoint, stopped = in_another_thread(steer)
    assert (name, checkpoint) == ("steered", 1)
    assert Path(savepoint).is_dir()
    assert Path(stopped).is_dir()
    with pytest.raises(JobNotFoundError):
        RUNNING_JOBS.get(job_id)


def test_a_job_is_cancelled_by_its_id_from_another_thread_and_its_client_outlives_it(tmp_path: Path) -> None:
    job_id = program(tmp_path).execute_async("to be cancelled").get_job_id()
    job = RUNNING_JOBS.get(job_id)
    in_another_thread(lambda: job.cancel().result(120))
    assert job not in RUNNING_JOBS.running()
    assert job.details().status is JobStatus.CANCELED
    assert job.checkpoints().counts.completed == 0


def test_all_running_jobs_are_listed_oldest_first(tmp_path: Path) -> None:
    before = len(RUNNING_JOBS.running())
    clients = [cast(EmbeddedJobClient, program(tmp_path).execute_async(name)) for name in ("first", "second")]
    try:
        assert [job.job_master.setup.job_name for job in RUNNING_JOBS.running()[before:]] == ["first", "second"]
    finally:
        for client in clients:
            client.cancel().result(120)
    assert len(RUNNING_JOBS.running()) == before


def test_an_id_that_no_job_has_is_refused_with_those_that_run(tmp_path: Path) -> None:
    client = program(tmp_path).execute_async("another")
    try:
        with pytest.raises(JobNotFoundError, match=f"(?s)no job {'0' * 32} runs in this process.*{client.get_job_id()}"):
            RUNNING_JOBS.get("0" * 32)
    finally:
        client.cancel().result(120)


def test_of_two_jobs_with_one_id_the_one_started_last_is_found() -> None:
    class Job:
        def get_job_id(self) -> JobID:
            return JobID("a" * 32)

    first, second = (cast(EmbeddedJobClient, Job()) for _ in range(2))
    jobs = JobList()
    jobs.add(first)
    jobs.add(second)
    assert jobs.get("a" * 32) is second
    jobs.remove(second)
    assert jobs.get(JobID("a" * 32)) is first


def test_a_listener_learns_also_of_a_job_that_ends_at_once(tmp_path: Path, listener: Listener) -> None:
    job_id = str(program(tmp_path, count=10).execute("short").get_job_id())
    assert listener.started == [job_id]
    assert listener.ended == [(job_id, JobStatus.FINISHED)]


def test_a_listener_that_fails_harms_neither_the_job_nor_other_listeners(tmp_path: Path) -> None:
    failing, behind = FailingListener(), Listener()
    RUNNING_JOBS.subscribe(failing)
    RUNNING_JOBS.subscribe(behind)
    try:
        program(tmp_path, count=10).execute("short")
    finally:
        RUNNING_JOBS.unsubscribe(failing)
        RUNNING_JOBS.unsubscribe(behind)
    assert [status for _, status in behind.ended] == [JobStatus.FINISHED]


def test_a_program_that_is_refused_never_is_a_job(tmp_path: Path, listener: Listener) -> None:
    env = program(tmp_path, **{"execution.state-recovery.path": str(tmp_path / "nothing")})
    with pytest.raises(ForeignCheckpointError, match="there is no such folder"):
        env.execute("refused")
    with pytest.raises(InvalidProgramError):
        env_of().execute("empty")
    assert listener.started == []


def test_the_graph_is_generated_once_also_for_a_job_that_goes_on_from_a_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = cast(EmbeddedJobClient, program(tmp_path).execute_async("first"))
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(120)
    generated: list[object] = []
    generate = launcher.generate

    def counting(given: Any) -> Any:
        generated.append(given)
        return generate(given)

    monkeypatch.setattr(launcher, "generate", counting)
    again = cast(EmbeddedJobClient, program(tmp_path, **{"execution.state-recovery.path": path}).execute_async("again"))
    again.cancel().result(120)
    assert len(generated) == 1

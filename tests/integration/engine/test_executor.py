"""Whole jobs through the executor, on the local engine."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flinkish.checkpoint.delta_storage import DeltaCheckpointStorage
from flinkish.common import Row, Types, WatermarkStrategy
from flinkish.common.errors import (
    CheckpointError,
    ConfigurationError,
    ForeignCheckpointError,
    JobCancelledError,
    JobExecutionError,
)
from flinkish.common.job_status import JobStatus
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.functions import MapFunction, RuntimeContext
from flinkish.engine.job_client import EmbeddedJobClient
from tests.kit.environments import env_of
from tests.kit.own_process import set_temporary_folder
from tests.kit.waiting import completed, wait_until

NUMBERS = 20_000


MakeEnvironment = Callable[..., StreamExecutionEnvironment]


@pytest.fixture
def make_env(tmp_path: Path) -> MakeEnvironment:
    """Return a function that makes an environment on the local engine with small epochs; more settings by their keys."""

    def make(parallelism: int = 2, **settings: Any) -> StreamExecutionEnvironment:
        configuration = {
            "execution.epoch.target-duration": "20 ms",
            "execution.epoch.max-records": 500,
            "security.checkpoint.hmac-key-file": str(tmp_path / "keys" / "key"),
            **settings,
        }
        return env_of(configuration, parallelism)

    return make


def numbers(env: StreamExecutionEnvironment, end: int = NUMBERS) -> DataStream:
    return env.from_source(NumberSequenceSource(1, end), WatermarkStrategy.no_watermarks(), "Numbers").uid("numbers")


def test_a_savepoint_goes_on_at_another_parallelism(make_env: MakeEnvironment, tmp_path: Path) -> None:
    def program(env: StreamExecutionEnvironment) -> DataStream:
        counted = numbers(env, 200_000).key_by(lambda n: n % 7, Types.LONG()).reduce(lambda a, b: a + 1)
        return counted.uid("count")

    with program(make_env(2)).execute_and_collect() as results:
        client = results.client
        first = [next(results)]
        path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(120)
        first.extend(results)
    assert client.get_job_status().result() is JobStatus.FINISHED
    assert len(first) < 200_000
    env = make_env(3, **{"execution.state-recovery.path": path, "execution.epoch.max-records": 100_000})
    second = list(program(env).execute_and_collect())
    assert len(first) + len(second) == 200_000
    # The first number of each key stands for itself, each further one adds 1, whatever process counted it.
    assert max(second) in (200_000 // 7 + k for k in range(-1, 8))


def test_state_that_the_program_no_longer_has_is_refused_or_left_behind(make_env: MakeEnvironment, tmp_path: Path) -> None:
    with numbers(make_env(1), 200_000).key_by(lambda n: n % 7).reduce(max).uid("gone").execute_and_collect() as results:
        next(results)
        path = results.client.trigger_savepoint(str(tmp_path / "savepoints")).result(120)
    settings = {"execution.state-recovery.path": path, "execution.epoch.max-records": 100_000}
    with pytest.raises(ForeignCheckpointError, match="gone"):
        numbers(make_env(1, **settings), 200_000).execute_and_collect()
    settings["execution.state-recovery.ignore-unclaimed-state"] = "true"
    rest = list(numbers(make_env(1, **settings), 200_000).execute_and_collect())
    assert 0 < len(rest) < 200_000


def test_a_job_found_by_its_cluster_id_goes_on_and_a_finished_one_begins_anew(make_env: MakeEnvironment, tmp_path: Path) -> None:
    settings = settings_of(tmp_path)

    def start(records_per_epoch: int = 5_000) -> EmbeddedJobClient:
        env = make_env(1, **{**settings, "execution.epoch.max-records": records_per_epoch})
        rows = numbers(env, 30_000).map(lambda n: Row(n), Types.ROW_NAMED(["n"], [Types.LONG()])).uid("rows")
        rows.sink_to(DeltaSink(str(tmp_path / "table"))).uid("table")
        client = env.execute_async()
        assert isinstance(client, EmbeddedJobClient)
        return client

    def committed() -> list[int]:
        return sorted(DeltaTable(str(tmp_path / "table")).to_pyarrow_table()["n"].to_pylist())

    suspended = start(500)  # with 500 epochs left, it does not end before the signal
    wait_until("checkpoints", lambda: completed(suspended) >= 2)
    suspended.stop_for_signal("SIGTERM")
    with pytest.raises(JobCancelledError, match="SIGTERM"):
        suspended.get_job_execution_result().result(120)
    assert suspended.get_job_status().result() is JobStatus.SUSPENDED
    assert 0 < len(committed()) < 30_000
    again = start()
    again.get_job_execution_result().result(120)
    assert str(again.get_job_id()) == str(suspended.get_job_id())
    assert committed() == list(range(1, 30_001))
    another = start()
    another.get_job_execution_result().result(120)
    assert str(another.get_job_id()) != str(again.get_job_id())
    assert committed() == sorted([*range(1, 30_001)] * 2)


@pytest.mark.parametrize("other", ["another name", "other operators"])
def test_a_second_job_of_a_program_under_its_cluster_id_is_refused_but_not_in_a_notebook(
    make_env: MakeEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    settings = settings_of(tmp_path)

    def run(name: str, uid: str, source: str = "numbers") -> JobStatus:
        env = make_env(1, **settings)
        read = env.from_source(NumberSequenceSource(1, 100), WatermarkStrategy.no_watermarks(), "Numbers").uid(source)
        read.key_by(lambda n: n % 7, key_type=Types.LONG()).reduce(max).uid(uid).sink_to(DiscardingSink())
        client = env.execute_async(name)
        client.get_job_execution_result().result(120)
        return client.get_job_status().result()

    second = ("second", "sums") if other == "another name" else ("first", "other")
    assert run("first", "sums") is JobStatus.FINISHED
    assert run("first", "sums") is JobStatus.FINISHED
    with pytest.raises(ConfigurationError, match=f"job {second[0]!r} cannot run under .*= 'orders': .* another job .*'first'"):
        run(*second)
    # The checkpoint of a job with other sources would be refused.
    assert run("third", "others", "other numbers") is JobStatus.FINISHED
    assert run("first", "sums") is JobStatus.FINISHED
    assert run("third", "others", "other numbers") is JobStatus.FINISHED
    with pytest.raises(ConfigurationError, match="another job"):
        run(*second)
    monkeypatch.setattr("sys.ps1", ">>> ", raising=False)
    assert run(*second) is JobStatus.FINISHED


REFUSALS: dict[str, tuple[type[Exception], str, dict[str, Any], dict[str, Any]]] = {
    "another program": (ForeignCheckpointError, "operators that the program does not have", {"uid": "other"}, {}),
    "another max parallelism": (ForeignCheckpointError, "max parallelism 64", {"max_parallelism": 64}, {}),
    "another key": (ForeignCheckpointError, "another key", {}, {"security.checkpoint.hmac-key-file": "OTHER"}),
    "a bad setting": (ConfigurationError, "num-retained", {}, {"execution.checkpointing.num-retained": "0"}),
    "a bad setting of the job": (ConfigurationError, "timeout", {}, {"execution.checkpointing.timeout": "1 ms"}),
    "a bad restart strategy": (ConfigurationError, "restart-strategy", {}, {"restart-strategy.type": "never"}),
}


def settings_of(folder: Path) -> dict[str, Any]:
    """Return the settings of a job that is found again, with many checkpoints."""
    return {
        "execution.checkpointing.interval": 20,
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "high-availability.cluster-id": "orders",
        "restart-strategy.type": "none",
    }


def start_endless(env: StreamExecutionEnvironment, *, uid: str = "maxima", max_parallelism: int = 128) -> EmbeddedJobClient:
    source = DataGeneratorSource(lambda index: index, None, records_per_second=1_000)
    endless = env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers").uid("numbers")
    maxima = endless.key_by(lambda n: n % 7, key_type=Types.LONG()).reduce(max).uid(uid).set_max_parallelism(max_parallelism)
    maxima.sink_to(DiscardingSink()).uid("sink")
    client = env.execute_async()
    assert isinstance(client, EmbeddedJobClient)
    return client


@pytest.mark.parametrize(("kind", "text", "program", "settings"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_program_that_is_refused_leaves_the_job_that_runs_under_its_cluster_id_alone(
    make_env: MakeEnvironment,
    tmp_path: Path,
    kind: type[Exception],
    text: str,
    program: dict[str, Any],
    settings: dict[str, Any],
) -> None:
    usual = settings_of(tmp_path)

    running = start_endless(make_env(1, **usual))
    try:
        wait_until("checkpoints", lambda: completed(running) >= 2)
        changes = {key: value.replace("OTHER", str(tmp_path / "other.key")) for key, value in settings.items()}
        with pytest.raises(kind, match=text):
            start_endless(make_env(1, **{**usual, **changes}), **program)
        before = completed(running)
        wait_until("checkpoints", lambda: completed(running) >= before + 3)
        assert running.get_job_status().result() is JobStatus.RUNNING
        assert running.job_master.checkpoints.storage.generation == 1
    finally:
        running.cancel().result(120)


@pytest.mark.parametrize("checkpoints", [True, False])
@pytest.mark.parametrize("drain", [True, False])
def test_a_stop_into_a_folder_that_cannot_be_written_is_refused_and_the_job_goes_on(
    make_env: MakeEnvironment, tmp_path: Path, checkpoints: bool, drain: bool
) -> None:
    taken: dict[str, Any] = {"execution.checkpointing.interval": 20} if checkpoints else {}
    (tmp_path / "file").write_text("")
    source = DataGeneratorSource(lambda index: index, 1_000, records_per_second=1_000)
    slow = make_env(1, **taken).from_source(source, WatermarkStrategy.no_watermarks(), "Slow")
    with slow.key_by(lambda n: 0).reduce(lambda a, b: a + b).execute_and_collect() as results:
        first = next(results)
        asked = results.client.stop_with_savepoint(drain, str(tmp_path / "file" / "savepoints"))
        with pytest.raises(CheckpointError, match=r"could not be prepared.*Not a directory"):
            asked.result(120)
        sums = [first, *results]
    assert sums[-1] == sum(range(1_000))
    assert results.client.job_master.result.exception() is None


@pytest.mark.parametrize("checkpoints", [True, False])
@pytest.mark.parametrize("drain", [True, False])
def test_a_disk_that_is_full_when_a_stopped_job_s_savepoint_is_written_costs_nothing(
    make_env: MakeEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoints: bool, drain: bool
) -> None:
    settings: dict[str, Any] = {"execution.checkpointing.dir": str(tmp_path / "checkpoints")}
    if checkpoints:
        settings["execution.checkpointing.interval"] = 20

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    def sums(**more: Any) -> Any:
        source = DataGeneratorSource(lambda index: index, None, records_per_second=1_000)
        endless = make_env(1, **settings, **more).from_source(source, WatermarkStrategy.no_watermarks(), "N").uid("n")
        return endless.key_by(lambda n: 0, key_type=Types.INT()).reduce(lambda a, b: a + b).uid("sums").execute_and_collect()

    with sums() as results:
        first = next(results)
        with monkeypatch.context() as patch:
            patch.setattr("flinkish.checkpoint.delta_storage.copy_verified", full)
            asked = results.client.stop_with_savepoint(drain, str(tmp_path / "savepoints"))
            with pytest.raises(CheckpointError, match="No space left") as error:
                asked.result(120)
        assert list((tmp_path / "savepoints").iterdir()) == []
        if drain:
            assert "its input was ended, so the job ends, with all its results" in str(error.value)
            *_, last = [first, *results]
            assert results.client.get_job_status().result() is JobStatus.FINISHED
            # what the savepoint was to hold
            (kept,) = (tmp_path / "checkpoints").glob("*/state")
            (path,) = re.findall(rf"{re.escape(str(kept))}@\d+", str(error.value))
            with sums(**{"execution.state-recovery.path": path}) as again:
                again.client.cancel().result(120)
        else:
            assert "the job goes on" in str(error.value)
            path = results.client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(120)
            *_, last = [first, *results]
            with sums(**{"execution.state-recovery.path": path}) as again:
                assert next(again) > last


def test_a_program_that_is_refused_leaves_nothing_behind(make_env: MakeEnvironment, tmp_path: Path) -> None:
    settings = {
        "execution.checkpointing.interval": 20,
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "high-availability.cluster-id": "orders",
        "execution.state-recovery.path": str(tmp_path / "nothing"),
    }
    with pytest.raises(ForeignCheckpointError, match="there is no such folder"):
        numbers(make_env(1, **settings)).execute_and_collect()
    assert not (tmp_path / "checkpoints").exists()


def test_a_checkpoint_that_completes_while_another_program_takes_over_is_the_one_it_starts_from(
    make_env: MakeEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(tmp_path)

    running = start_endless(make_env(1, **settings))
    wait_until("checkpoints", lambda: completed(running) >= 1)
    claim = DeltaCheckpointStorage.claim
    seen: list[int] = []

    def late(storage: DeltaCheckpointStorage) -> Any:
        peeked = storage.peek()
        assert peeked is not None
        seen.append(peeked.checkpoint_id)
        wait_until(
            "a later checkpoint", lambda: running.job_master.checkpoints.storage.latest().checkpoint_id > peeked.checkpoint_id
        )
        return claim(storage)

    monkeypatch.setattr(DeltaCheckpointStorage, "claim", late)
    successor = start_endless(make_env(1, **settings))
    try:
        assert successor.job_master.checkpoints.initial.checkpoint_id > seen[0]
    finally:
        successor.cancel().result(120)
    with pytest.raises(JobExecutionError, match="belongs to generation 2"):
        running.get_job_execution_result().result(120)


def test_a_checkpoint_that_is_removed_while_another_program_is_checked_is_not_called_damaged(
    make_env: MakeEnvironment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_of(tmp_path)

    running = start_endless(make_env(1, **settings))
    try:
        wait_until("checkpoints", lambda: completed(running) >= 1)
        peek, seen = DeltaCheckpointStorage.peek, []

        def early(storage: DeltaCheckpointStorage) -> Any:
            found = peek(storage)
            assert found is not None
            if not seen:
                wait_until("it is removed", lambda: not (Path(found.root) / found.manifest_path).exists())
            seen.append(found.checkpoint_id)
            return found

        monkeypatch.setattr(DeltaCheckpointStorage, "peek", early)
        with pytest.raises(ForeignCheckpointError, match="operators that the program does not have"):
            start_endless(make_env(1, **settings), uid="other")
        assert seen[-1] > seen[0]
    finally:
        running.cancel().result(120)


def test_user_counters_are_the_accumulators(make_env: MakeEnvironment) -> None:
    class Counting(MapFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.counter = runtime_context.get_metrics_group().counter("seen")

        def map(self, value: int) -> int:
            self.counter.inc()
            return value

    env = make_env(2)
    numbers(env, 1_000).map(Counting()).name("count").print()
    result = env.execute()
    assert [value for name, value in result.get_all_accumulator_results().items() if name.endswith("seen")] == [1_000]


def test_nothing_is_left_of_a_job_in_temporary_folders(
    make_env: MakeEnvironment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    set_temporary_folder(monkeypatch, temporary)
    env = make_env(2, **{"execution.checkpointing.interval": 10})
    numbers(env).filter(lambda n: False).print()
    env.execute()
    assert list(temporary.iterdir()) == []


_WATCHED = """
import sys
from flinkish.common import Configuration, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.number_seq import NumberSequenceSource

configuration = Configuration.from_dict({"execution.engine": "local", "execution.epoch.target-duration": "20 ms"})
env = StreamExecutionEnvironment.get_execution_environment(configuration).set_parallelism(1)
numbers = env.from_source(NumberSequenceSource(1, 10**15), WatermarkStrategy.no_watermarks(), "Numbers")
numbers.filter(lambda n: n == 1).print()
try:
    env.execute()
except KeyboardInterrupt:
    print("caught")
    raise
"""


@pytest.mark.parametrize(
    ("number", "code", "said"), [(signal.SIGINT, 130, ["1", "caught"]), (signal.SIGTERM, 143, ["1"])], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_ends_the_program_quietly_when_the_job_has_been_stopped(
    number: int, code: int, said: list[str], tmp_path: Path
) -> None:
    script = tmp_path / "job.py"
    script.write_text(_WATCHED, encoding="utf-8")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary), "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    ) as process:
        try:
            assert process.stdout is not None
            first = process.stdout.readline()
            process.send_signal(number)
            out, err = process.communicate(timeout=240)
        finally:
            process.kill()
    assert ((first + out).split(), err, process.returncode) == (said, "", code)
    assert list(temporary.iterdir()) == []


def test_a_checkpoint_tells_how_long_its_barriers_were_aligned(make_env: MakeEnvironment, tmp_path: Path) -> None:
    settings = {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": str(tmp_path / "cp"),
        "execution.epoch.max-records": 20,
    }
    # The first reader's barrier waits for what the second one has sent before its own: up to 20 records of 2 ms.
    slow = numbers(make_env(2, **settings), 200).rebalance().map(lambda value: time.sleep(0.002)).set_parallelism(1)
    slow.sink_to(DiscardingSink()).set_parallelism(1)
    client = slow.get_execution_environment().execute_async()
    client.get_job_execution_result().result(120)
    assert isinstance(client, EmbeddedJobClient)
    taken = [record.alignment_ms for record in client.checkpoints().history]
    assert max(taken) >= 10, taken


def test_clients_and_results_say_which_job_they_are_of_and_its_state(make_env: MakeEnvironment) -> None:
    env = make_env()
    results = env.from_source(
        DataGeneratorSource(lambda index: index, 2**60, type_info=Types.LONG()), WatermarkStrategy.no_watermarks(), "endless"
    ).execute_and_collect("numbers")
    next(results)
    client = results.client
    name = f"<JobClient of job 'numbers' ({client.get_job_id()}): "
    assert repr(results) == f"<CloseableIterator of {name}RUNNING>>"
    assert repr(client.get_job_status()) == "<CompletableFuture: <JobStatus.RUNNING: 1>>"
    ended = client.get_job_execution_result()
    assert repr(ended) == "<CompletableFuture: not completed>"
    results.close()
    assert repr(client) == f"{name}CANCELED>"
    assert repr(ended).startswith("<CompletableFuture: JobCancelledError(")

"""Jobs with a DeltaSink that begin again, go back or go elsewhere: each row once, or a named error."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from flinkish.checkpoint.opening import open_checkpoint
from flinkish.checkpoint.signing import SigningKey
from flinkish.common import Row, Types, WatermarkStrategy
from flinkish.common.errors import JobCancelledError, JobExecutionError
from flinkish.common.serialization import Encoder
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.engine.job_client import EmbeddedJobClient
from tests.kit.environments import env_of
from tests.kit.power_loss import ForgetfulDisk
from tests.kit.waiting import completed, wait_until

END = 10_000
ALL = list(range(1, END + 1))
PATH = "execution.state-recovery.path"
#: Seconds instead of tenths of one, to be ended in between.
SLOW = {"execution.epoch.max-records": 20}


class Runs:
    """Starts one program again and again, in one folder."""

    def __init__(self, folder: Path, rolling_policy: RollingPolicy | None = None) -> None:
        """Into a Delta table; with a rolling policy into files of lines."""
        self.folder = folder
        self.rolling_policy = rolling_policy
        self.settings: dict[str, Any] = {
            "execution.epoch.max-records": 500,
            "execution.checkpointing.interval": 20,
            "execution.checkpointing.dir": str(folder / "checkpoints"),
            "execution.checkpointing.num-retained": 3,
            "restart-strategy.type": "none",
            "security.checkpoint.hmac-key-file": str(folder / "keys" / "key"),
        }

    def start(self, table: str = "table", *, uid: str = "table", **settings: Any) -> EmbeddedJobClient:
        """Start the program; `settings` are configuration keys."""
        env = env_of({**self.settings, **settings})
        source = NumberSequenceSource(1, END)
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "Numbers").uid("numbers")
        path = str(self.folder / table)
        if self.rolling_policy is None:
            rows = numbers.map(lambda n: Row(n), Types.ROW_NAMED(["n"], [Types.LONG()])).uid("rows")
            rows.sink_to(DeltaSink(path)).uid(uid)
        else:
            lines = FileSink.for_row_format(path, Encoder.simple_string_encoder()).with_rolling_policy(self.rolling_policy)
            assigner = BucketAssigner.base_path_bucket_assigner()
            numbers.map(str, Types.STRING()).sink_to(lines.with_bucket_assigner(assigner).build()).uid(uid)
        client = env.execute_async()
        assert isinstance(client, EmbeddedJobClient)
        return client

    def finish(self, table: str = "table", **settings: Any) -> None:
        self.start(table, **settings).get_job_execution_result().result(120)

    def killed(self, table: str = "table", *, checkpoints: int = 2, **settings: Any) -> EmbeddedJobClient:
        """Run until some checkpoints are complete, and end without being done, as a killed process does."""
        client = self.start(table, **SLOW, **settings)
        wait_until("checkpoints", lambda: completed(client) >= checkpoints)
        client.stop_for_signal("SIGTERM")
        with pytest.raises(JobCancelledError):
            client.get_job_execution_result().result(120)
        assert len(self.rows(table)) < END
        return client

    def stopped(self, table: str = "table", **settings: Any) -> str:
        client = self.start(table, **SLOW, **settings)
        wait_until("checkpoints", lambda: completed(client) >= 1)
        return client.stop_with_savepoint(False, str(self.folder / "savepoints")).result(120)

    def rows(self, table: str = "table") -> list[int]:
        if self.rolling_policy is None:
            return sorted(DeltaTable(str(self.folder / table)).to_pyarrow_table()["n"].to_pylist())
        files = (self.folder / table).glob("part-*")
        return sorted(int(line) for file in files for line in file.read_text().splitlines())

    def state(self, client: EmbeddedJobClient, folder: str = "checkpoints") -> Path:
        return self.folder / folder / str(client.get_job_id()) / "state"


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


@pytest.fixture
def cluster(tmp_path: Path) -> Runs:
    """The same, under a cluster id."""
    runs = Runs(tmp_path)
    runs.settings["high-availability.cluster-id"] = "orders"
    return runs


def test_a_job_whose_checkpoint_table_was_removed_begins_again_and_commits_all(cluster: Runs) -> None:
    first = cluster.killed(checkpoints=3)
    shutil.rmtree(cluster.state(first))
    before = cluster.rows()
    cluster.finish()
    assert cluster.rows() == sorted([*before, *ALL])


def test_two_users_of_a_cluster_id_on_other_checkpoint_folders_both_commit_all(cluster: Runs, tmp_path: Path) -> None:
    cluster.killed(checkpoints=3)
    before = cluster.rows()
    cluster.finish(**{"execution.checkpointing.dir": str(tmp_path / "others")})
    assert cluster.rows() == sorted([*before, *ALL])


def test_a_killed_job_goes_on_in_its_lineage(cluster: Runs) -> None:
    lineages = [cluster.killed().job_master.setup.lineage for _ in range(2)]
    assert lineages[0] == lineages[1]
    cluster.finish()
    assert cluster.rows() == ALL


def test_a_job_stopped_with_a_savepoint_goes_on_under_the_same_cluster_id(cluster: Runs) -> None:
    savepoint = cluster.stopped()
    cluster.finish(**{PATH: savepoint})
    assert cluster.rows() == ALL


def test_a_stop_savepoint_starts_a_job_that_writes_to_another_table(runs: Runs) -> None:
    savepoint = runs.stopped()
    first = runs.rows()
    runs.finish("other", **{PATH: savepoint})
    assert (runs.rows(), sorted([*first, *runs.rows("other")])) == (first, ALL)


def test_an_older_checkpoint_than_the_sink_s_is_refused_with_what_to_do(runs: Runs) -> None:
    client = runs.killed(checkpoints=4)
    state, before = runs.state(client), runs.rows()
    newest = open_checkpoint(str(state), signing_key=SigningKey.load(runs.settings["security.checkpoint.hmac-key-file"]))
    older = newest.manifest.previous[0].checkpoint_id
    with pytest.raises(JobExecutionError, match=rf"(?s)ahead of checkpoint {older}, .*Hint: start from the newest checkpoint"):
        runs.finish(**{PATH: f"{state}@{older}", "restart-strategy.type": "fixed-delay"})
    assert runs.rows() == before
    runs.finish(**{PATH: f"{state}@{newest.checkpoint_id}"})
    assert runs.rows() == ALL


def test_going_back_on_purpose_works_as_the_error_says(runs: Runs) -> None:
    client = runs.killed(checkpoints=4)
    state = runs.state(client)
    newest = open_checkpoint(str(state), signing_key=SigningKey.load(runs.settings["security.checkpoint.hmac-key-file"]))
    older = newest.manifest.previous[0].checkpoint_id
    table = DeltaTable(str(runs.folder / "table"))
    versions = [entry["version"] for entry in table.history() if int(entry.get("flinkish.checkpoint-id", 0)) <= older]
    table.restore(max(versions))
    ignore = {"execution.state-recovery.ignore-unclaimed-state": "true"}
    runs.finish(uid="again", **{PATH: f"{state}@{older}"}, **ignore)
    assert runs.rows() == ALL


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="what a descriptor stands for is read from /proc")
@pytest.mark.parametrize("sink", ["Delta table", "files closed at checkpoints", "files that grow over checkpoints"])
def test_power_loss_at_any_instant_loses_and_repeats_nothing(cluster: Runs, monkeypatch: pytest.MonkeyPatch, sink: str) -> None:
    cluster.rolling_policy = {
        "Delta table": None,
        "files closed at checkpoints": RollingPolicy.on_checkpoint_rolling_policy(),
        "files that grow over checkpoints": RollingPolicy.default_rolling_policy(),
    }[sink]
    disk = ForgetfulDisk(cluster.folder)
    with disk.recording(monkeypatch):
        cluster.killed(checkpoints=6)
    rng = random.Random(8)
    instants = [*rng.sample(range(1, len(disk.syncs)), 10), len(disk.syncs)]
    for instant in instants:
        disk.lose_power(instant)
        cluster.finish()
        assert cluster.rows() == ALL, f"after {instant} of {len(disk.syncs)} calls of fsync"


def test_each_run_without_checkpoints_appends_its_rows(runs: Runs) -> None:
    del runs.settings["execution.checkpointing.interval"]
    runs.finish()
    runs.finish(**{"high-availability.cluster-id": "ignored"})
    assert runs.rows() == sorted([*ALL, *ALL])


def test_a_savepoint_of_a_job_without_checkpoints_is_behind_a_table_that_got_the_rest(runs: Runs) -> None:
    del runs.settings["execution.checkpointing.interval"]
    client = runs.start(**SLOW)
    savepoint = client.trigger_savepoint(str(runs.folder / "savepoints")).result(120)
    client.get_job_execution_result().result(120)
    assert runs.rows() == ALL
    with pytest.raises(JobExecutionError, match="rows of the end of the input already"):
        runs.finish(**{PATH: savepoint})


def test_a_panic_of_deltalake_in_a_commit_fails_the_job_and_its_caller_learns_it(
    runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    panic = type("PanicException", (BaseException,), {"__module__": "pyo3_runtime"})

    def panics(*_: Any, **__: Any) -> None:
        raise panic("called `Option::unwrap()` on a `None` value")

    del runs.settings["execution.checkpointing.interval"]
    monkeypatch.setattr(DeltaTable, "create_write_transaction", panics)
    with pytest.raises(JobExecutionError, match="deltalake panicked: called"):
        runs.finish()

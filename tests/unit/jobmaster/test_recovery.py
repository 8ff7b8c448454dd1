from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinkish.checkpoint.delta_log import STATE_SCHEMA
from flinkish.checkpoint.storage import StoredCheckpoint
from flinkish.common.clock import ManualClock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError, CorruptCheckpointError, ForeignCheckpointError
from flinkish.common.ids import LineageId, random_id
from flinkish.jobmaster import recovery
from flinkish.jobmaster.ha import ClusterRecord, YarnAttempt
from flinkish.runtime.protocol import StateFile

from .support import Job, Notes, Numbers, make_plan

GRAPH = make_plan(Numbers(), Notes()).job_graph


class TestClusterRecord:
    def test_the_same_cluster_id_gives_the_same_job_id_in_another_process(self, tmp_path: Path) -> None:
        assert ClusterRecord(tmp_path, "orders").job_id() == ClusterRecord(tmp_path, "orders").job_id()

    def test_different_cluster_ids_give_different_jobs(self, tmp_path: Path) -> None:
        assert ClusterRecord(tmp_path, "orders").job_id() != ClusterRecord(tmp_path, "payments").job_id()

    def test_after_the_end_of_a_job_the_next_one_has_another_id(self, tmp_path: Path) -> None:
        record = ClusterRecord(tmp_path, "orders")
        first = record.job_id()
        record.retire(first)
        assert ClusterRecord(tmp_path, "orders").job_id() != first

    def test_a_job_that_was_retired_before_retires_nothing(self, tmp_path: Path) -> None:
        record = ClusterRecord(tmp_path, "orders")
        first = record.job_id()
        record.retire(first)
        second = record.job_id()
        record.retire(first)
        assert record.job_id() == second

    def test_a_job_that_has_ended_is_not_run_again_by_yarn(self, tmp_path: Path) -> None:
        def record(application: int, attempt: int) -> ClusterRecord:
            environment = {"CONTAINER_ID": f"container_e17_1795_{application:04}_{attempt:02}_000001"}
            return ClusterRecord(tmp_path, "orders", YarnAttempt.of(environment))

        first = record(1, 1).job_id()
        # The driver was lost, and another one resumes the job.
        assert record(1, 2).job_id() == first
        record(1, 2).retire(first)
        with pytest.raises(ConfigurationError, match=r"(?s)'orders' has ended, .*attempt 3 of application_1795_0001.*Hint: "):
            record(1, 3).job_id()
        # Submitted again, in whatever way.
        second = record(2, 1).job_id()
        assert second != first
        assert record(2, 2).job_id() == ClusterRecord(tmp_path, "orders").job_id() == second

    @pytest.mark.parametrize("text", ["", "container_1", "x"])
    def test_a_process_that_yarn_did_not_start_has_no_attempt(self, text: str) -> None:
        assert YarnAttempt.of({"CONTAINER_ID": text} if text else {}) is None
        assert YarnAttempt.of({"CONTAINER_ID": "container_17_0003_02_000001"}) == YarnAttempt("application_17_0003", 2)

    def test_a_damaged_record_is_an_error_with_its_file(self, tmp_path: Path) -> None:
        record = ClusterRecord(tmp_path, "orders")
        record.retire(record.job_id())
        (file,) = (tmp_path / "high-availability").iterdir()
        file.write_text('{"cluster_id": "orders"')
        with pytest.raises(ConfigurationError, match=file.name):
            record.job_id()


class TestIdentity:
    def record(self, checkpointing: bool = True, **settings: str) -> ClusterRecord | None:
        configuration = Configuration.from_dict({key.replace("__", "."): value for key, value in settings.items()})
        return recovery.cluster_record(configuration, checkpointing=checkpointing)

    def test_without_a_cluster_id_each_start_is_a_new_job(self) -> None:
        assert self.record() is None

    def test_a_cluster_id_needs_a_folder_that_lasts(self) -> None:
        with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.dir"):
            self.record(**{"high-availability__cluster-id": "orders"})

    def test_a_cluster_id_means_nothing_without_checkpoints(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        record = self.record(
            checkpointing=False,
            **{"high-availability__cluster-id": "orders", "execution__checkpointing__dir": str(tmp_path)},
        )
        assert record is None
        assert "has no effect" in caplog.text


@pytest.mark.parametrize("place", ["hdfs://host/a", "memory://a"])
def test_a_place_that_cannot_be_used_is_refused_before_a_key_is_made(tmp_path: Path, place: str) -> None:
    key = tmp_path / "keys" / "key"
    named = {"execution.checkpointing.dir": place, "execution.state-recovery.path": place}
    configuration = Configuration.from_dict({"security.checkpoint.hmac-key-file": str(key), **named})
    identity: Any = {"lineage": LineageId("a"), "clock": ManualClock(), "ids": random_id, "temporary": tmp_path}
    with pytest.raises(ConfigurationError, match=f"execution.checkpointing.dir = '{place}'"):
        recovery.open_storage(configuration, "job", **identity)
    with pytest.raises(ConfigurationError, match=f"execution.state-recovery.path = '{place}'"):
        recovery.find_checkpoint(configuration, None)
    assert not key.parent.exists()


@pytest.fixture
def checkpoint(tmp_path: Path) -> StoredCheckpoint:
    """A checkpoint of operators `numbers` and `notes`, and with state of `gone` and, of the runtime only, of `passing`."""
    taken = Job(Numbers((0, 5)), interval=1_000).run().storage.stored[0]
    rows = [
        {"operator_uid": "gone", "state_name": "count", "state_kind": "value", "key_group": 3, "checkpoint_id": 1},
        {"operator_uid": "gone", "state_name": "_watermark", "state_kind": "union_list", "key_group": -1, "checkpoint_id": 1},
        {"operator_uid": "passing", "state_name": "_watermark", "state_kind": "union_list", "key_group": -1, "checkpoint_id": 1},
        {"operator_uid": "passing", "state_name": "empty", "state_kind": "schema", "key_group": -1, "checkpoint_id": 1},
    ]
    file = tmp_path / "state.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=STATE_SCHEMA), file)
    content = file.read_bytes()
    state = StateFile(
        path="state.parquet",
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        rows=len(rows),
        operator_uids=("gone", "passing"),
        key_groups=(3, 3),
    )
    return replace(taken, root=tmp_path, manifest=replace(taken.manifest, files=(state,)))


def without_rows_of(checkpoint: StoredCheckpoint, uid: str) -> StoredCheckpoint:
    (file,) = checkpoint.manifest.files
    uids = tuple(other for other in file.operator_uids if other != uid)
    return replace(checkpoint, manifest=replace(checkpoint.manifest, files=(replace(file, operator_uids=uids),)))


class TestFit:
    def test_state_of_an_operator_that_is_gone_is_refused(self, checkpoint: StoredCheckpoint) -> None:
        with pytest.raises(ForeignCheckpointError, match="gone") as refused:
            recovery.check_fits(checkpoint, GRAPH, allow_unclaimed=False)
        assert "passing" not in str(refused.value)

    def test_it_is_left_behind_where_that_is_allowed(
        self, checkpoint: StoredCheckpoint, caplog: pytest.LogCaptureFixture
    ) -> None:
        recovery.check_fits(checkpoint, GRAPH, allow_unclaimed=True)
        assert "gone" in caplog.text

    def test_an_operator_that_had_nothing_but_its_watermark_may_go(self, checkpoint: StoredCheckpoint) -> None:
        recovery.check_fits(without_rows_of(checkpoint, "gone"), GRAPH, allow_unclaimed=False)

    def test_files_are_verified_before_they_are_looked_into(self, checkpoint: StoredCheckpoint) -> None:
        file = checkpoint.root / "state.parquet"
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
        with pytest.raises(CorruptCheckpointError):
            recovery.check_fits(checkpoint, GRAPH, allow_unclaimed=False)

    def test_the_max_parallelism_of_a_checkpoint_is_found_again(self, checkpoint: StoredCheckpoint) -> None:
        assert recovery.recorded_max_parallelism(checkpoint) == {"numbers": 128, "notes": 128}
        assert recovery.recorded_max_parallelism(None) == {}

    def test_state_of_an_operator_of_another_kind_is_refused(self, checkpoint: StoredCheckpoint) -> None:
        state = checkpoint.manifest.coordinator
        (numbers,) = (shape for shape in state.operators if shape.uid == state.sources[0].uid)

        def with_kind(kind: str) -> StoredCheckpoint:
            changed = replace(state, operators=(replace(numbers, kind=kind),))
            return replace(checkpoint, manifest=replace(checkpoint.manifest, coordinator=changed))

        assert numbers.kind == "a source with splits of the class NumbersSplit"
        with pytest.raises(ForeignCheckpointError, match=r"of a function .* a source with splits of the class NumbersSplit"):
            recovery.check_fits(with_kind("a function"), GRAPH, allow_unclaimed=True)
        recovery.check_fits(with_kind(numbers.kind), GRAPH, allow_unclaimed=True)

"""Jobs whose checkpoints, savepoints and records are in an object store."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from flinkish.common import Configuration, Encoder, Row, Types, WatermarkStrategy
from flinkish.common.files import store_settings
from flinkish.common.files.schemes import files_at
from flinkish.datastream.connectors import DeltaSink, DeltaSource
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.connectors.file_system import BucketAssigner, FileSink
from tests.behaviour.test_bad_checkpoints import PATH, first_result, local_env, sums
from tests.conftest import MakeEnvironment
from tests.kit.functions import FailsAfterCheckpoint
from tests.kit.s3_server import ACCESS_KEY, SECRET_KEY, S3Server


def test_a_job_recovers_from_a_checkpoint_in_an_object_store_and_hands_on_its_credentials(
    make_env: MakeEnvironment,
    running_s3: S3Server,
    engine: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    directory = f"s3://bucket/job-{engine}-{os.getpid()}"
    settings: dict[str, Any] = {
        "execution.epoch.target-duration": "20 ms" if engine == "local" else "200 ms",
        "execution.checkpointing.interval": 500,
        "execution.checkpointing.dir": f"{directory}/checkpoints",
        "high-availability.storageDir": f"{directory}/records",
        "high-availability.cluster-id": "sums",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": 1,
        "security.checkpoint.hmac-key-file": str(tmp_path / "keys" / "key"),
        **running_s3.settings,
    }
    env = make_env(settings=settings)
    count = 2_000 if engine == "local" else 3_000
    source = DataGeneratorSource(lambda index: index, count, records_per_second=500)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    # A table is read, and rows are written into another one, with the settings of the environment, too.
    in_store = store_settings.storage_options(directory)
    write_deltalake(f"{directory}/input", pa.table({"v": range(-100, 0)}), storage_options=in_store)
    given = DeltaSource.for_bounded_row_data(f"{directory}/input").build()
    table = env.from_source(given, WatermarkStrategy.no_watermarks(), "table")
    rows = numbers.map(lambda value: Row(v=value), Types.ROW_NAMED(["v"], [Types.LONG()]))
    table.union(rows).sink_to(DeltaSink(f"{directory}/output"))
    sums = (
        numbers.map(FailsAfterCheckpoint(tmp_path / "failed"), Types.LONG())
        .key_by(lambda value: value % 7, key_type=Types.LONG())
        .reduce(lambda a, b: a + b)
    )
    lines = FileSink.for_row_format(f"{directory}/out", Encoder.simple_string_encoder())
    lines.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    numbers.map(FailsAfterCheckpoint(tmp_path / "failed"), Types.LONG()).map(str, Types.STRING()).sink_to(lines.build())
    try:
        with sums.execute_and_collect() as results:
            found = list(results)
        assert (tmp_path / "failed").exists()
        expected = [sum(value for value in range(count) if value % 7 == key) for key in range(7)]
        assert len(found) == count
        assert set(expected) <= set(found)
        (job,) = files_at(f"{directory}/checkpoints").names()
        (record,) = files_at(f"{directory}/records/high-availability").names()
        assert record.endswith(".json")
        history = files_at(f"{directory}/checkpoints/{job}/history")
        events_table = DeltaTable(str(history.root), storage_options=dict(history.delta_options)).to_pyarrow_table()
        events = events_table.column("event").to_pylist()
        assert events.count("checkpoint completed") >= 2
        assert files_at(f"{directory}/checkpoints/{job}").names() == ["history"]  # the job has ended
        output = DeltaTable(f"{directory}/output", storage_options=in_store)
        assert sorted(output.to_pyarrow_table().column("v").to_pylist()) == list(range(-100, count))
        shown = caplog.text + str(events_table.to_pylist()) + str(output.history())
        assert SECRET_KEY not in shown
        assert ACCESS_KEY not in shown
        # A failure is not told again as that of a later level, which had no barrier from the subtask that failed.
        assert "wait for a barrier" not in shown
        with env.read_text_file(f"{directory}/out").execute_and_collect() as results:
            assert sorted(int(line) for line in results) == list(range(count))
        assert not any(name.startswith(".") for name in files_at(f"{directory}/out").files_below(""))
    finally:
        store_settings.use(Configuration())


def test_a_job_is_stopped_with_a_savepoint_in_an_object_store_and_continued_from_it(s3: S3Server, tmp_path: Path) -> None:
    directory = f"s3://bucket/saved-{os.getpid()}"
    settings = {**s3.settings, "security.checkpoint.hmac-key-file": str(tmp_path / "key")}
    with sums(local_env({"execution.checkpointing.dir": tmp_path / "checkpoints", **settings})).execute_and_collect() as results:
        for _ in range(50):
            results.next()
        savepoint = results.client.stop_with_savepoint(False, directory).result()
    assert savepoint.startswith(f"{directory}/savepoint-")
    assert first_result(local_env({PATH: savepoint, **settings})) > 20

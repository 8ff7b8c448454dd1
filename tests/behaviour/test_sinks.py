"""Every sink in whole jobs, on both engines."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from flinkish.common import Configuration, Encoder, Instant, JobStatus, Row, Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.base import (
    CommitRequest,
    Committer,
    Sink,
    SinkWriter,
    SinkWriterContext,
    WriteContext,
)
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    FileSource,
    ParquetWriterFactory,
    RollingPolicy,
    StreamFormat,
)
from flinkish.datastream.state import ListStateDescriptor
from flinkish.testing.tables import assert_delta_table_equal, assert_tables_equal
from tests.conftest import MakeEnvironment, also_on_spark, locally
from tests.kit.environments import env_of
from tests.kit.functions import FailOnce
from tests.kit.results import collect, visible
from tests.kit.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_WATERMARKS = WatermarkStrategy.no_watermarks()
#: Fails once, restarts, and checkpoints often.
RESTARTING = {
    "execution.checkpointing.interval": "10 ms",
    "execution.epoch.max-records": 25,
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.delay": "1 ms",
}


def endless(env: StreamExecutionEnvironment) -> Any:
    return env.from_source(DataGeneratorSource(lambda i: i, None, records_per_second=200), NO_WATERMARKS, "endless", Types.LONG())


# execute_and_collect


def test_closing_the_results_early_cancels_the_job(env: StreamExecutionEnvironment) -> None:
    with endless(env).execute_and_collect("endless") as results:
        assert results.next() in range(10**6)
        client = results.client
        assert client.get_job_status().result() is JobStatus.RUNNING
    assert client.get_job_status().result() is JobStatus.CANCELED
    with pytest.raises(StopIteration):
        results.next()


@locally
def test_floats_are_collected_with_the_decimals_that_they_were_written_with(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    kind = Types.TUPLE([Types.FLOAT(), Types.DOUBLE()])
    stream = env.from_collection([1, 3], Types.INT()).map(lambda number: (number / 10 + 1, number / 10), kind)
    assert collect(stream) == [(1.1, 0.1), (1.3, 0.3)]
    # functions see the rounding
    assert collect(env.from_collection([1.1], Types.FLOAT()).map(lambda value: value)) == [1.100000023841858]


# FileSink


class ByFirstField(BucketAssigner):
    def get_bucket_id(self, element: Any, context: Any) -> str:
        return str(element[0])


def test_output_files_have_the_permissions_that_the_umask_of_the_user_gives(
    make_env: MakeEnvironment, engine: str, tmp_path: Path
) -> None:
    umask = 0o002
    if engine == "spark":
        # that of the JVM, which was started before
        umask = os.umask(0)
        os.umask(umask)
    env = make_env(
        settings={
            "execution.checkpointing.interval": "10 ms",
            "execution.checkpointing.dir": tmp_path / "cp",
        }
    )
    before = os.umask(umask)
    try:
        rows = env.from_collection(FLIGHTS[:2], FLIGHT)
        by_letter = FileSink.for_row_format(str(tmp_path / "rows"), Encoder.simple_string_encoder())
        rows.sink_to(by_letter.with_bucket_assigner(ByFirstField()).build())
        rows.sink_to(DeltaSink.for_table(str(tmp_path / "table")).with_partition_columns("origin").build())
        env.execute()
    finally:
        os.umask(before)
    written = [path for name in ("rows", "table") for path in (tmp_path / name).rglob("*")]
    assert {path.suffix for path in written} >= {".parquet", ".json", ""}
    assert {path.stat().st_mode & 0o777 for path in written if path.is_dir()} == {0o777 & ~umask}
    # delta-rs makes its log entries with 0644 at most
    ours = [path for path in written if path.is_file() and "_delta_log" not in path.parts]
    assert {path.stat().st_mode & 0o777 for path in ours} == {0o666 & ~umask}


def test_bulk_files_appear_with_each_checkpoint_while_the_job_runs(make_env: MakeEnvironment, tmp_path: Path) -> None:
    env = make_env(settings={"execution.checkpointing.interval": "50 ms", "execution.checkpointing.dir": tmp_path / "cp"})
    row_type = Types.ROW_NAMED(["id", "text"], [Types.LONG(), Types.STRING()])
    sink = (
        FileSink.for_bulk_format(str(tmp_path / "out"), ParquetWriterFactory(compression="zstd"))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.on_checkpoint_rolling_policy())
        .build()
    )
    endless(env).map(lambda number: Row(id=number, text=f"n{number}"), row_type).sink_to(sink)
    client = env.execute_async("bulk")
    try:
        wait_until("two checkpoints have finished files", lambda: len(visible(tmp_path / "out")) >= 3)
    finally:
        client.cancel().result()
    tables = [pq.read_table(path).to_pylist() for path in visible(tmp_path / "out")]
    rows = [row for table in tables for row in table]
    assert all(row["text"] == f"n{row['id']}" for row in rows)
    assert len({row["id"] for row in rows}) == len(rows)


def test_files_are_read_and_written_once_each_after_a_restart(make_env: MakeEnvironment, tmp_path: Path) -> None:
    env = make_env(settings={**RESTARTING, "execution.checkpointing.dir": tmp_path / "checkpoints"})
    marker = tmp_path / "failed"
    (tmp_path / "in").mkdir()
    for half in (0, 1):
        numbers = "".join(f"{number}\n" for number in range(half * 100, half * 100 + 100))
        (tmp_path / "in" / f"{half}.txt").write_text(numbers, encoding="utf-8")
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "in")).build()
    sink = (
        FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .build()
    )
    numbers_read = env.from_source(source, NO_WATERMARKS, "numbers").map(int, Types.LONG())
    numbers_read.map(FailOnce(marker, 180), Types.LONG()).sink_to(sink)
    env.execute()
    assert marker.exists()
    lines = [line for path in visible(tmp_path / "out") for line in path.read_text(encoding="utf-8").split()]
    assert sorted(map(int, lines)) == list(range(200))


# DeltaSink

FLIGHT = Types.ROW_NAMED(["origin", "year", "delay"], [Types.STRING(), Types.INT(), Types.DOUBLE()])
FLIGHTS = [("JFK", 2013, 1.5), ("JFK", 2014, None), ("EWR", 2013, -2.0), (None, 2013, 0.0), ("L G/A", 2013, 3.0)]


def test_rows_come_into_a_partitioned_delta_table(
    env: StreamExecutionEnvironment, engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    path = str(tmp_path / "flights")
    for _ in range(2):  # the second job appends
        sink = DeltaSink.for_table(path).with_partition_columns("origin", "year").build()
        env.from_collection(FLIGHTS, FLIGHT).sink_to(sink)
        env.execute()
    table = DeltaTable(path)
    assert table.metadata().partition_columns == ["origin", "year"]
    rows = table.to_pyarrow_table().select(["origin", "year", "delay"]).to_pylist()
    assert sorted([tuple(row.values()) for row in rows], key=str) == sorted(FLIGHTS * 2, key=str)
    if engine == "spark":
        spark: SparkSession = request.getfixturevalue("spark_session")
        assert_delta_table_equal(path, FLIGHTS * 2, "origin string, year int, delay double", spark=spark)
    # one commit that creates the table, one for each job
    assert [entry["operation"] for entry in table.history()].count("WRITE") == 2


EVERYTHING = Types.ROW_NAMED(
    ["bool", "byte", "short", "int", "long", "float", "double", "text", "dec", "day", "at", "bytes", "list", "map", "inner"],
    [
        Types.BOOLEAN(), Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.FLOAT(), Types.DOUBLE(), Types.STRING(),
        Types.BIG_DEC(), Types.SQL_DATE(), Types.SQL_TIMESTAMP(), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.LIST(Types.LONG()),
        Types.MAP(Types.STRING(), Types.INT()), Types.ROW_NAMED(["x", "when"], [Types.INT(), Types.INSTANT()]),
    ],
)  # fmt: skip


@pytest.mark.spark
def test_spark_reads_every_type_of_a_table_that_was_written(spark_session: SparkSession, tmp_path: Path) -> None:
    env = env_of()
    noon = datetime.datetime(2013, 1, 1, 12, 0, 0, 5_000)
    full = Row(
        True, -1, -2, -3, 2**62, 0.5, 1e300, "ü", Decimal("1.50"), noon.date(), noon, b"\x00\xff", [1, 2], {"k": 1},
        Row(7, Instant.of_epoch_milli(1500)),
    )  # fmt: skip
    empty = Row(*[None] * 15)
    path = str(tmp_path / "table")
    env.from_collection([1, 2], Types.INT()).map(lambda n: full if n == 1 else empty, EVERYTHING).sink_to(DeltaSink(path))
    env.execute()
    spark_session.conf.set("spark.sql.session.timeZone", "UTC")
    read = spark_session.read.format("delta").load(path)
    utc = datetime.UTC
    expected = spark_session.createDataFrame(
        [
            (
                True, -1, -2, -3, 2**62, 0.5, 1e300, "ü", Decimal("1.50"), noon.date(), noon.replace(tzinfo=utc),
                bytearray(b"\x00\xff"), [1, 2], {"k": 1}, (7, datetime.datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=utc)),
            ),
            (None,) * 15,
        ],
        read.schema,
    )  # fmt: skip
    assert_tables_equal(read, expected, ignore_column_order=False, ignore_nullable=False)
    types = {field.name: field.dataType.simpleString() for field in read.schema}
    assert types == {
        "bool": "boolean", "byte": "tinyint", "short": "smallint", "int": "int", "long": "bigint", "float": "float",
        "double": "double", "text": "string", "dec": "decimal(38,18)", "day": "date", "at": "timestamp", "bytes": "binary",
        "list": "array<bigint>", "map": "map<string,int>", "inner": "struct<x:int,when:timestamp>",
    }  # fmt: skip


# A sink of the user's own: lines are staged in a folder and moved on commit.


@dataclass(frozen=True)
class Staged:
    path: str
    lines: int


class StagingSink(Sink[Any, Staged]):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    committable_type = Staged

    def create_writer(self, context: SinkWriterContext) -> StagingWriter:
        return StagingWriter(self.folder / "staged", context)

    def create_committer(self, configuration: Configuration) -> Mover:
        return Mover(self.folder / "out")


class StagingWriter(SinkWriter[Any, Staged]):
    def __init__(self, folder: Path, context: SinkWriterContext) -> None:
        self.state = context.get_list_state(ListStateDescriptor("lines", Types.STRING()))
        self.lines: list[str] = list(self.state.get())
        self.folder = folder
        self.ready: list[Staged] = []
        self.subtask = context.subtask_index

    def write(self, value: Any, context: WriteContext) -> None:
        self.lines.append(json.dumps(value))

    def end_epoch(self) -> None:
        self.state.update(self.lines)

    def flush(self, end_of_input: bool) -> None:
        if not self.lines:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        # named after what is in it: a second try of the epoch writes the same file again
        path = self.folder / f"{self.subtask}-{min(map(int, self.lines))}-{len(self.lines)}"
        path.write_text("\n".join(self.lines) + "\n", encoding="utf-8")
        self.ready.append(Staged(str(path), len(self.lines)))
        self.lines = []
        self.state.clear()

    def prepare_commit(self) -> Sequence[Staged]:
        ready, self.ready = self.ready, []
        return ready


class Mover(Committer[Staged]):
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[Staged]]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for request in requests:
            assert isinstance(request.committable, Staged)
            source = Path(request.committable.path)
            if source.exists():
                source.rename(self.folder / f"{source.name}-of-{request.committable.lines}")


@also_on_spark("checkpoints", [True, False], True)
def test_a_two_phase_commit_sink_of_the_users_own_is_exact(make_env: MakeEnvironment, tmp_path: Path, checkpoints: bool) -> None:
    settings = {**RESTARTING, "execution.checkpointing.dir": tmp_path / "checkpoints"} if checkpoints else {}
    env = make_env(settings=settings)
    marker = tmp_path / "failed"
    failures = (180,) if checkpoints else ()
    env.generate_sequence(0, 199).map(FailOnce(marker, *failures), Types.LONG()).sink_to(StagingSink(tmp_path)).name("Staging")
    env.execute()
    assert marker.exists() is checkpoints
    files = visible(tmp_path / "out")
    assert len(files) >= 2
    written = [path.read_text(encoding="utf-8").split() for path in files]
    assert all(len(lines) == int(path.name.rpartition("-")[2]) for lines, path in zip(written, files, strict=True))
    assert sorted(int(line) for lines in written for line in lines) == list(range(200))

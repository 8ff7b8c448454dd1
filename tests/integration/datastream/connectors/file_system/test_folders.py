"""Folders with odd names, and folders of Delta tables: they work, or are refused with the reason."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet
import pytest
from deltalake import DeltaTable, write_deltalake

from flinkish.common import Duration, Row, Types, WatermarkStrategy
from flinkish.common.errors import (
    CheckpointError,
    ConfigurationError,
    InvalidArgumentError,
    JobExecutionError,
    SinkError,
    SourceError,
)
from flinkish.common.serialization import Encoder
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.delta import DeltaSink
from flinkish.datastream.connectors.file_system import (
    BucketAssigner,
    BulkFormat,
    FileSink,
    FileSource,
    ParquetWriterFactory,
    StreamFormat,
)
from tests.kit.environments import env_of

#: All that deltalake can read and write in names of folders.
ODD = Path("a b", "50%", "x#7", "q?r", "s@7", "ü日", "k=v&w+{y}*'`~")
UNUSABLE = ["%20", "%C3", "\\", "[", "]", "|", "^", "\n"]
ROWS = Types.ROW_NAMED(["n"], [Types.LONG()])


@pytest.fixture
def environment(tmp_path: Path) -> Callable[..., StreamExecutionEnvironment]:
    def make(**settings: Any) -> StreamExecutionEnvironment:
        base = {
            "execution.epoch.max-records": 5,
            "security.checkpoint.hmac-key-file": str(tmp_path / "key"),
        }
        return env_of({**base, **settings})

    return make


Make = Callable[..., StreamExecutionEnvironment]


def lines(path: Path | str) -> FileSource:
    return FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path)).build()


def read(env: StreamExecutionEnvironment, source: FileSource) -> list[Any]:
    return list(env.from_source(source, WatermarkStrategy.no_watermarks(), "files").execute_and_collect())


def text_sink(path: Path | str, assigner: BucketAssigner | None = None) -> FileSink:
    builder = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    return builder.with_bucket_assigner(assigner or BucketAssigner.base_path_bucket_assigner()).build()


def write(env: StreamExecutionEnvironment, path: Path) -> None:
    env.from_collection(["a", "b"], Types.STRING()).sink_to(text_sink(path))
    env.execute()


def test_checkpoints_savepoints_and_tables_stand_in_folders_with_odd_names(environment: Make, tmp_path: Path) -> None:
    folder = tmp_path / ODD
    settings = {"execution.checkpointing.dir": str(folder / "checkpoints"), "execution.checkpointing.interval": 100}

    def start(**more: Any) -> Any:
        env = environment(**{"execution.epoch.max-records": 50}, **settings, **more)
        numbers = env.generate_sequence(1, 8_000).map(Row, ROWS).uid("rows")
        numbers.sink_to(DeltaSink(str(folder / "table"))).uid("table")
        return env.execute_async()

    savepoint = start().stop_with_savepoint(False, str(folder)).result(120)
    for name in ("moved@7", "moved#7"):  # also where the name looks like one with the id of a checkpoint
        renamed = folder / name
        shutil.move(savepoint, renamed)
        savepoint = renamed
        url = f"file://{quote(str(renamed), safe='/#?@')}" if name == "moved#7" else str(renamed)
        client = start(**{"execution.state-recovery.path": url})
        if name == "moved#7":
            client.get_job_execution_result().result(120)
        else:
            savepoint = client.stop_with_savepoint(False, str(folder)).result(120)
    assert sorted(DeltaTable(str(folder / "table")).to_pyarrow_table()["n"].to_pylist()) == list(range(1, 8_001))


@pytest.mark.parametrize("name", [str(ODD), *(f"x{characters}y" for characters in UNUSABLE)])
def test_files_are_written_to_and_read_from_any_folder(environment: Make, tmp_path: Path, name: str) -> None:
    folder = tmp_path / name
    write(environment(), folder / "lines")
    assert sorted(read(environment(), lines(folder / "lines"))) == ["a", "b"]
    assert sorted(read(environment(), lines(f"file://{quote(str(folder / 'lines'))}"))) == ["a", "b"]
    env = environment()
    parquet = FileSink.for_bulk_format(str(folder / "parquet"), ParquetWriterFactory(ROWS))
    env.from_collection([Row(1)], ROWS).sink_to(parquet.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build())
    env.execute()
    source = FileSource.for_bulk_file_format(BulkFormat.parquet_format(), str(folder / "parquet")).build()
    assert [row["n"] for row in read(environment(), source)] == [1]


@pytest.mark.parametrize("characters", UNUSABLE)
def test_a_folder_that_can_hold_no_table_is_refused_with_the_characters_that_are_why(
    environment: Make, tmp_path: Path, characters: str
) -> None:
    name = f"x{characters}y"
    folder = tmp_path / name / "below"
    folder.mkdir(parents=True)
    with pytest.raises(InvalidArgumentError) as sink:
        DeltaSink(str(folder))
    with pytest.raises(ConfigurationError) as checkpoints:
        environment(**{"execution.checkpointing.dir": str(folder), "execution.checkpointing.interval": 10}).from_collection(
            [1]
        ).execute_and_collect()
    with pytest.raises(ConfigurationError) as recovery:
        environment(**{"execution.state-recovery.path": str(folder)}).from_collection([1]).execute_and_collect()
    with environment().generate_sequence(1, 10**6).execute_and_collect() as results:
        next(results)
        with pytest.raises(CheckpointError) as savepoint:
            results.client.trigger_savepoint(str(folder)).result(120)
    for error in (sink, checkpoints, recovery, savepoint):
        assert f"in the folder {name!r}, because of the {characters!r} in its name" in str(error.value)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A Delta table of which a row was deleted."""
    path = tmp_path / "outer" / "table"
    write_deltalake(path, pa.table({"n": [1, 2], "p": ["x", "y"]}), partition_by=["p"])
    DeltaTable(path).delete("n = 1")
    return path


def parquet(path: Path) -> FileSource:
    return FileSource.for_bulk_file_format(BulkFormat.parquet_format(), str(path)).build()


def test_a_delta_table_is_not_read_as_a_folder_of_files(environment: Make, table: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(table / "p=y")
    file = next(table.glob("p=y/*.parquet"))
    for path in (table, table / "p=y", file, tmp_path / "link"):
        with pytest.raises(SourceError, match=r"Delta table(?s:.*)Hint: DeltaSource.for_bounded_row_data"):
            environment().from_source(parquet(path), WatermarkStrategy.no_watermarks(), "files")


def test_a_delta_table_below_the_folder_that_is_read_fails_the_job(environment: Make, table: Path) -> None:
    (table.parent / "a.parquet").write_bytes(next(table.glob("p=y/*.parquet")).read_bytes())
    with pytest.raises(JobExecutionError, match=rf"{table} is a Delta table"):
        read(environment(), parquet(table.parent))


def test_a_delta_table_that_comes_into_a_folder_that_is_watched_fails_the_job(environment: Make, tmp_path: Path) -> None:
    folder = tmp_path / "watched"
    write(environment(), folder)
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(folder))
    source = builder.monitor_continuously(Duration.of_millis(10)).build()
    env = environment()
    with env.from_source(source, WatermarkStrategy.no_watermarks(), "files").execute_and_collect() as results:
        assert sorted([next(results), next(results)]) == ["a", "b"]
        # In one step: a file of a table that is being made is read before the log is there.
        write_deltalake(tmp_path / "table", pa.table({"n": [1]}))
        (tmp_path / "table").rename(folder / "table")
        with pytest.raises(JobExecutionError, match=r"watched/table is a Delta table"):
            next(results)


def test_what_the_error_says_reads_the_rows_of_a_delta_table(environment: Make, table: Path, tmp_path: Path) -> None:
    rows = environment().from_collection(DeltaTable(table).to_pandas()).execute_and_collect()
    assert [row["n"] for row in rows] == [2]
    copy = tmp_path / "copy"
    copy.mkdir()
    pa.parquet.write_table(DeltaTable(table).to_pyarrow_table(), copy / "rows.parquet")
    assert [row["n"] for row in read(environment(), parquet(copy))] == [2]


def test_the_log_of_a_delta_table_is_read_as_the_text_that_it_is(environment: Make, table: Path) -> None:
    assert any("commitInfo" in line for line in read(environment(), lines(table / "_delta_log")))


def test_files_are_not_written_into_the_folder_of_a_delta_table(environment: Make, table: Path) -> None:
    for path in (table, table / "p=x", table / "_delta_log", table / "new"):
        with pytest.raises(SinkError, match=rf"{table} is a Delta table"):
            environment().from_collection(["a"], Types.STRING()).sink_to(text_sink(path))


class ByName(BucketAssigner):
    def get_bucket_id(self, element: Any, context: Any) -> str:
        return str(element)


def test_a_bucket_that_is_a_delta_table_fails_the_job(environment: Make, table: Path) -> None:
    env = environment()
    env.from_collection(["plain", "table"], Types.STRING()).sink_to(text_sink(table.parent, ByName()))
    with pytest.raises(JobExecutionError, match=rf"FileSink cannot write into {table}: .* is a Delta table"):
        env.execute()
    assert not list(table.glob(".*inprogress*"))


def test_a_table_in_the_folder_of_another_table_is_refused(environment: Make, table: Path) -> None:
    with pytest.raises(SinkError, match=rf"is in the folder of the Delta table {table}"):
        environment().from_collection([Row(1)], ROWS).sink_to(DeltaSink(str(table / "inner")))

"""Files of all formats in whole jobs that fail: each record is read and written once; also HybridSource and merged files."""

from __future__ import annotations

import csv
import io
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinkish.common import Encoder, Row, Types, WatermarkStrategy
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream import DataStream, StreamExecutionEnvironment
from flinkish.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from flinkish.datastream.connectors.hybrid_source import HybridSource
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.formats.avro import AvroBulkWriters, AvroInputFormat, AvroSchema, GenericRecordAvroTypeInfo
from flinkish.datastream.formats.csv import CsvBulkWriters, CsvReaderFormat, CsvSchema
from flinkish.datastream.formats.json import JsonRowDeserializationSchema, JsonRowSerializationSchema
from flinkish.datastream.formats.parquet import (
    AvroParquetReaders,
    AvroParquetWriters,
    ParquetBulkWriters,
    ParquetColumnarRowInputFormat,
)
from flinkish.datastream.functions import MapFunction
from flinkish.runtime import faults
from flinkish.table import DataTypes
from tests.conftest import MakeEnvironment, locally
from tests.kit.functions import FailOnce, fail_once
from tests.kit.restarts import restarting
from tests.kit.results import collect, visible
from tests.kit.waiting import wait_for_checkpoints

NO_WATERMARKS = WatermarkStrategy.no_watermarks()
ROWS = 200
RESTARTING = {
    "execution.checkpointing.interval": "10 ms",
    "execution.epoch.max-records": 25,
    **restarting(20, "1 ms"),
}
ROW = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])
TABLE_ROW = DataTypes.ROW([DataTypes.FIELD("id", DataTypes.BIGINT()), DataTypes.FIELD("name", DataTypes.STRING())])
AVRO = AvroSchema(
    {"type": "record", "name": "Named", "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"]}]}
)
CSV = CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header().set_strict_headers().build()


def name_of(number: int) -> str:
    return f'n "{number}",\n{number % 7}'


RECORDS = [{"id": i, "name": name_of(i)} for i in range(ROWS)]


def id_of(record: Any) -> Any:
    return record["id"]


def environment(make_env: MakeEnvironment, folder: Path, **settings: Any) -> StreamExecutionEnvironment:
    return make_env(settings={**RESTARTING, "execution.checkpointing.dir": folder / "checkpoints", **settings})


# Formats.


@dataclass(frozen=True)
class Case:
    """Writes and reads test data of a format, without flinkish and in a job."""

    write: Callable[[Path], None]
    source: Callable[[StreamExecutionEnvironment, str], DataStream]
    type_info: TypeInformation
    sink: Callable[[str], FileSink]
    read: Callable[[Path], list[Any]]


def write_csv(path: Path) -> None:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, ["id", "name"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(RECORDS)
    path.write_text(text.getvalue(), newline="")


def read_csv(path: Path) -> list[Any]:
    with open(path, newline="") as file:
        return [{**row, "id": int(row["id"])} for row in csv.DictReader(file)]


def write_json(path: Path) -> None:
    path.write_text("".join(f"{json.dumps(record)}\n" for record in RECORDS))


def write_avro(path: Path) -> None:
    with open(path, "wb") as file:
        fastavro.writer(file, AVRO.parsed, RECORDS, sync_interval=300)


def read_avro(path: Path) -> list[Any]:
    with open(path, "rb") as file:
        return list(fastavro.reader(file))


def read_parquet(path: Path) -> list[Any]:
    return list(pq.read_table(path).to_pylist())


def from_files(kind: Any, format_: Any) -> Callable[[StreamExecutionEnvironment, str], DataStream]:
    return lambda env, path: env.from_source(kind(format_, path).build(), NO_WATERMARKS, "files")


def to_files(begin: Any, format_: Any) -> Callable[[str], FileSink]:
    return lambda path: begin(path, format_).with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


RECORD = GenericRecordAvroTypeInfo(AVRO)
STREAM, BULK = FileSource.for_record_stream_format, FileSource.for_bulk_file_format
CASES = {
    "csv": Case(
        write_csv,
        from_files(STREAM, CsvReaderFormat.for_schema(CSV)),
        ROW,
        to_files(FileSink.for_bulk_format, CsvBulkWriters.for_schema(CSV)),
        read_csv,
    ),
    "json": Case(
        write_json,
        from_files(STREAM, StreamFormat.line_format(JsonRowDeserializationSchema.builder().type_info(ROW).build())),
        ROW,
        to_files(FileSink.for_row_format, Encoder.of_schema(JsonRowSerializationSchema.builder().with_type_info(ROW).build())),
        lambda path: [json.loads(line) for line in path.read_text().splitlines()],
    ),
    "avro": Case(
        write_avro,
        lambda env, path: env.create_input(AvroInputFormat(path, AVRO)),
        RECORD,
        to_files(FileSink.for_bulk_format, AvroBulkWriters.for_generic_record(AVRO)),
        read_avro,
    ),
    "parquet": Case(
        lambda path: pq.write_table(pa.Table.from_pylist(RECORDS), path, row_group_size=30),
        from_files(BULK, ParquetColumnarRowInputFormat(TABLE_ROW, batch_size=7, is_case_sensitive=False)),
        ROW,
        to_files(FileSink.for_bulk_format, ParquetBulkWriters.for_row_type(TABLE_ROW)),
        read_parquet,
    ),
    "avro in parquet": Case(
        lambda path: pq.write_table(pa.Table.from_pylist(RECORDS), path, row_group_size=30),
        from_files(STREAM, AvroParquetReaders.for_generic_record(AVRO)),
        RECORD,
        to_files(FileSink.for_bulk_format, AvroParquetWriters.for_generic_record(AVRO)),
        read_parquet,
    ),
}


def run(env: StreamExecutionEnvironment, folder: Path, *names: str) -> None:
    """Read and write files of some formats in one job that fails again and again; compare what came out."""
    for name in names:
        case = CASES[name]
        (folder / name).mkdir()
        case.write(folder / name / "in")
        stream = case.source(env, str(folder / name / "in"))
        assert stream.get_type() == case.type_info
        stream.map(FailOnce(folder / "failed", 60, 150, of=id_of), case.type_info).sink_to(case.sink(str(folder / name / "out")))
    env.execute()
    assert {path.name for path in (folder / "failed").iterdir()} == {"60", "150"}
    for name in names:
        found = [record for path in visible(folder / name / "out") for record in CASES[name].read(path)]
        assert sorted(found, key=lambda record: record["id"]) == RECORDS, name


@locally
@pytest.mark.parametrize("name", CASES)
def test_files_of_a_format_are_read_and_written_once_each_after_restarts(
    make_env: MakeEnvironment, tmp_path: Path, name: str
) -> None:
    run(environment(make_env, tmp_path), tmp_path, name)


def lines_by_columns(env: StreamExecutionEnvironment, folder: Path) -> Callable[[], None]:
    """Read lines of CSV and JSON as columns, and write them as JSON, failing twice; return the check of what came out."""
    folder.mkdir()
    (folder / "a.csv").write_text("".join(f'{number},"n, {number}"\n' for number in range(ROWS)))
    (folder / "a.json").write_text("".join(json.dumps({"id": ROWS + n, "name": f"n, {ROWS + n}"}) + "\n" for n in range(ROWS)))

    def failing(batch: pa.RecordBatch) -> pa.RecordBatch:
        for number in {60, ROWS + 150} & set(batch["id"].to_pylist()):
            fail_once(folder / "failed", number)
        return batch

    formats = {"csv": StreamFormat.csv_format(ROW, header=False), "json": StreamFormat.json_lines_format(ROW)}
    csv_lines, json_lines = (from_files(STREAM, format_)(env, str(folder / f"a.{end}")) for end, format_ in formats.items())
    lines = csv_lines.union(json_lines).map_batches(failing, ROW)
    lines.sink_to(CASES["json"].sink(str(folder / "out"))).name("lines by columns")
    on_columns = [line for line in env.explain().splitlines() if line.endswith(", columns")]
    assert [sum(name in line for line in on_columns) for name in ("Source: files", "Sink: lines by columns")] == [2, 1]

    def check() -> None:
        assert {path.name for path in (folder / "failed").iterdir()} == {"60", str(ROWS + 150)}
        found = [record for path in visible(folder / "out") for record in CASES["json"].read(path)]
        assert sorted(found, key=id_of) == [{"id": number, "name": f"n, {number}"} for number in range(2 * ROWS)]

    return check


@locally
def test_lines_that_stay_columns_are_read_and_written_once_each_after_restarts(make_env: MakeEnvironment, tmp_path: Path) -> None:
    env = environment(make_env, tmp_path)
    check = lines_by_columns(env, tmp_path / "lines")
    env.execute()
    check()


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark"], indirect=True)
def test_files_of_all_formats_in_one_job_on_spark(make_env: MakeEnvironment, tmp_path: Path) -> None:
    env = environment(make_env, tmp_path)
    check = lines_by_columns(env, tmp_path / "lines")
    run(env, tmp_path, *CASES)
    check()


# Merged files.


def test_merged_files_hold_everything_once_after_restarts(make_env: MakeEnvironment, engine: str, tmp_path: Path) -> None:
    env = environment(make_env, tmp_path)
    # A restart on Spark takes seconds.
    failures = (20, 60, 90, 130, 180) if engine == "local" else (60, 130)
    base_path, on_checkpoint = BucketAssigner.base_path_bucket_assigner(), RollingPolicy.on_checkpoint_rolling_policy()
    numbers = env.generate_sequence(0, ROWS - 1).map(FailOnce(tmp_path / "failed", *failures), Types.LONG())
    lines = (
        FileSink.for_row_format(str(tmp_path / "lines"), Encoder.simple_string_encoder())
        .with_bucket_assigner(base_path)
        .with_rolling_policy(on_checkpoint)
        .enable_compact(
            FileCompactStrategy.builder().enable_compaction_on_checkpoint(3).build(), FileCompactor.concat_file_compactor()
        )
        .build()
    )
    numbers.sink_to(lines).uid("lines")
    rows = (
        FileSink.for_bulk_format(str(tmp_path / "rows"), ParquetBulkWriters.for_row_type(ROW))
        .with_bucket_assigner(base_path)
        .enable_compact(
            FileCompactStrategy.builder().set_size_threshold(10**9).set_num_compact_threads(2).build(),
            FileCompactor.record_wise_file_compactor(),
        )
        .build()
    )
    numbers.map(lambda number: Row(id=number, name=name_of(number)), ROW).sink_to(rows)
    env.execute()
    assert len(list((tmp_path / "failed").iterdir())) == len(failures)
    files = visible(tmp_path / "lines")
    assert sorted(int(line) for path in files for line in path.read_text().split()) == list(range(ROWS))
    assert any(path.name.startswith("compacted-part-") for path in files)
    # Less than a gigabyte is not merged before the end; then the files of both writers are merged into one file.
    (merged,) = visible(tmp_path / "rows")
    assert sorted(read_parquet(merged), key=lambda record: record["id"]) == RECORDS


#: Points of the protocol at which the job fails; see flinkish.runtime.faults.
POINTS = {
    "in the middle of an epoch": "P3:raise:nth=9",
    "in the middle of a later level": "P4:raise:nth=9",
    "files written, state not": "P6:raise:nth=9",
    "state written, not committed": "P8:raise:nth=4",
    "checkpoint committed, files not": "P10:raise:nth=3",
    "files committed": "P11:raise:nth=3",
}


@locally
@pytest.mark.parametrize("point", POINTS)
def test_files_are_merged_once_wherever_the_job_fails(make_env: MakeEnvironment, tmp_path: Path, point: str) -> None:
    # Enough epochs that the input does not end before the checkpoints that the points need.
    env = environment(make_env, tmp_path, **{"execution.epoch.max-records": 3})
    source = HybridSource.builder(NumberSequenceSource(0, 49)).add_source(NumberSequenceSource(50, ROWS - 1)).build()
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(2).build()
    sink = (
        FileSink.for_bulk_format(str(tmp_path / "out"), AvroBulkWriters.for_generic_record(AVRO))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .enable_compact(strategy, FileCompactor.record_wise_file_compactor())
        .build()
    )
    reached = tmp_path / "reached"

    def record_of(number: int) -> dict[str, Any]:
        return {"id": number, "name": name_of(number)}

    env.from_source(source, NO_WATERMARKS, "numbers").map(record_of, RECORD).sink_to(sink)
    faults.arm(f"{POINTS[point]}:once={reached}")
    try:
        env.execute()
    finally:
        faults.arm(None)
    assert reached.exists()
    found = [record for path in visible(tmp_path / "out") for record in read_avro(path)]
    assert sorted(found, key=lambda record: record["id"]) == RECORDS


# Sources one after the other.


@locally
def test_a_hybrid_source_goes_on_in_whichever_source_it_was(make_env: MakeEnvironment, engine: str, tmp_path: Path) -> None:
    env = environment(make_env, tmp_path)
    failures = (50, 99, 130, 180, 200, 260) if engine == "local" else (50, 130, 260)
    (tmp_path / "in").mkdir()
    for half in (100, 150):
        text = "".join(f'{{"id": {number}}}\n' for number in range(half, half + 50))
        (tmp_path / "in" / f"{half}.jsonl").write_text(text)
    of_id = Types.ROW_NAMED(["id"], [Types.LONG()])
    files = StreamFormat.json_lines_format(of_id)

    def ids(path: Path, numbers: range) -> FileSource:
        path.write_text("".join(f'{{"id": {number}}}\n' for number in numbers))
        return FileSource.for_record_stream_format(files, str(path)).build()

    source = (
        HybridSource.builder(ids(tmp_path / "first.jsonl", range(100)))
        .add_source(FileSource.for_record_stream_format(files, str(tmp_path / "in")).build())
        .add_source(ids(tmp_path / "last.jsonl", range(200, 300)))
        .build()
    )
    stream = env.from_source(source, NO_WATERMARKS, "hybrid")
    found = collect(stream.map(FailOnce(tmp_path / "failed", *failures, of=id_of), of_id))
    assert len(list((tmp_path / "failed").iterdir())) == len(failures)
    numbers = [row.id for row in found]
    assert sorted(numbers) == list(range(300))
    # One source after the other, and within a file in its order.
    assert [number for number in numbers if number < 100] == numbers[:100]
    assert [number for number in numbers if number >= 200] == numbers[200:] == list(range(200, 300))


class Slow(MapFunction):
    """Works slowly, so that the job can be stopped halfway."""

    def map(self, value: int) -> int:
        threading.Event().wait(0.0005)
        return value


Change = Callable[[FileSink.RowFormatBuilder], object]


def merging(builder: FileSink.RowFormatBuilder) -> object:
    strategy = FileCompactStrategy.builder().set_size_threshold(600).build()
    return builder.enable_compact(strategy, FileCompactor.concat_file_compactor())


@locally
@pytest.mark.parametrize(
    ("before", "after", "parallelism"),
    [
        (merging, merging, 3),
        (merging, FileSink.RowFormatBuilder.disable_compact, 1),
        (lambda builder: builder, merging, 3),
    ],
    ids=["merging goes on", "merging ends", "merging begins"],
)
def test_a_job_goes_on_from_a_savepoint_with_its_files_and_sources(
    make_env: MakeEnvironment, tmp_path: Path, before: Change, after: Change, parallelism: int
) -> None:
    def job(change: Change, parallelism: int, settings: dict[str, Any]) -> Any:
        checkpoints = {"execution.checkpointing.interval": "10 ms", "execution.checkpointing.dir": tmp_path / "checkpoints"}
        env = make_env(parallelism, {**checkpoints, "execution.epoch.max-records": 20, **settings})
        source = HybridSource.builder(NumberSequenceSource(0, 299)).add_source(NumberSequenceSource(300, 999)).build()
        builder = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
        builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=100))
        change(builder)
        numbers = env.from_source(source, NO_WATERMARKS, "numbers").uid("numbers")
        numbers.map(Slow(), Types.LONG()).uid("slow").sink_to(builder.build()).uid("files")
        return env.execute_async("files")

    def written() -> list[int]:
        return sorted(int(line) for path in visible(tmp_path / "out") for line in path.read_text().split())

    first = job(before, 2, {})
    wait_for_checkpoints(first, 5)
    savepoint = first.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(120)
    first.get_job_execution_result().result(120)
    assert 0 < len(written()) < 1000
    job(after, parallelism, {"execution.state-recovery.path": savepoint}).get_job_execution_result().result(120)
    assert written() == list(range(1000))

"""Every source in whole jobs, on both engines."""

from __future__ import annotations

import gzip
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from flinkish.common import Duration, Row, Time, Types, WatermarkStrategy
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream import DataStream, StreamExecutionEnvironment
from flinkish.datastream.connectors.base import (
    Boundedness,
    InputStatus,
    ReaderOutput,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkish.datastream.connectors.batch_generator import BatchGeneratorSource
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.connectors.delta import DeltaSink, DeltaSource
from flinkish.datastream.connectors.file_system import BulkFormat, FileSource, StreamFormat
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import ProcessFunction
from flinkish.datastream.window import TumblingEventTimeWindows
from tests.conftest import MakeEnvironment, locally
from tests.kit.functions import FailOnce, Itself
from tests.kit.restarts import restarting
from tests.kit.results import collect

NO_WATERMARKS = WatermarkStrategy.no_watermarks()
FLIGHT = Types.ROW_NAMED(["origin", "delay"], [Types.STRING(), Types.INT()])


def labelled(label: str, stream: DataStream) -> DataStream:
    return stream.map(lambda value: (label, value))


def by_label(results: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for label, value in results:
        found.setdefault(label, []).append(value)
    return found


@locally
def test_collections_sequences_and_generators_give_all_their_records(env: StreamExecutionEnvironment) -> None:
    streams = [
        labelled("untyped", env.from_collection([1, "a", None, (2, [3])])),
        labelled("short", env.from_collection([-21658.0], Types.SHORT())),
        labelled("row", env.from_collection([{"origin": "JFK"}, ("LGA", 5)], FLIGHT)),
        labelled("empty", env.from_collection([], Types.STRING())),
        labelled("numbers", env.from_source(NumberSequenceSource(5, 104), NO_WATERMARKS, "numbers")),
        labelled("none", env.from_source(DataGeneratorSource(str, 0), NO_WATERMARKS, "none")),
        labelled("old sequence", env.generate_sequence(1, 3)),
        labelled("generated", env.from_source(DataGeneratorSource(lambda i: f"x{i}", 50), NO_WATERMARKS, "generated")),
    ]
    found = by_label(collect(streams[0].union(*streams[1:])))
    assert sorted(found["untyped"], key=str) == [(2, [3]), 1, None, "a"]
    assert found["short"] == [-21658]
    assert sorted(found["row"], key=str) == [Row(origin="JFK", delay=None), Row(origin="LGA", delay=5)]
    assert sorted(found["numbers"]) == list(range(5, 105))
    assert sorted(found["old sequence"]) == [1, 2, 3]
    assert sorted(found["generated"]) == sorted(f"x{i}" for i in range(50))
    assert "empty" not in found
    assert "none" not in found


NUMBER = Types.ROW_NAMED(["number", "text"], [Types.LONG(), Types.STRING()])


def numbered(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.record_batch([pa.array(numbers, pa.int64()), pa.array([f"x{n}" for n in numbers], pa.string())], ["number", "text"])


def test_generated_batches_give_each_row_once_after_a_failure(make_env: MakeEnvironment, tmp_path: Path) -> None:
    env = make_env(
        settings={
            "execution.checkpointing.interval": "10 ms",
            "execution.checkpointing.dir": tmp_path / "checkpoints",
            "execution.epoch.max-records": 300,
            **restarting(2, "1 ms"),
        }
    )
    rows = env.from_source(BatchGeneratorSource(numbered, 3_000, NUMBER), NO_WATERMARKS, "numbered")
    markers = tmp_path / "markers"
    found = collect(rows.map(FailOnce(markers, 1_400, 2_000, of=lambda row: row.number), NUMBER))
    assert len(list(markers.iterdir())) == 2
    assert sorted(found, key=lambda row: row.number) == [Row(number=n, text=f"x{n}") for n in range(3_000)]


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    """The same two flights in a folder per format, with hidden files that are no input."""
    lines = {"csv": ["origin,delay", "JFK,11", '"L""GA",'], "json": ['{"origin": "JFK", "delay": 11}', '{"origin": "L\\"GA"}']}
    for kind, texts in lines.items():
        (tmp_path / kind).mkdir()
        (tmp_path / kind / f"flights.{kind}").write_text("\n".join(texts) + "\n", encoding="utf-8")
    (tmp_path / "text" / "deeper").mkdir(parents=True)
    (tmp_path / "text" / "a.txt").write_text("one\r\ntwö\n\nlast", encoding="utf-8")
    (tmp_path / "text" / ".hidden").write_text("never\n", encoding="utf-8")
    (tmp_path / "text" / "_SUCCESS").write_text("never\n", encoding="utf-8")
    with gzip.open(tmp_path / "text" / "deeper" / "b.txt.gz", "wt", encoding="utf-8") as file:
        file.write("packed\n")
    (tmp_path / "parquet").mkdir()
    table = pa.table({"delay": pa.array([11, None], pa.int32()), "origin": ["JFK", 'L"GA'], "more": [1.5, 2.5]})
    pq.write_table(table, tmp_path / "parquet" / "flights.parquet")
    return tmp_path


def test_files_of_each_format_are_read_once_to_their_end(env: StreamExecutionEnvironment, flights: Path) -> None:
    def read(kind: str, source: FileSource, type_info: TypeInformation | None = None) -> DataStream:
        return labelled(kind, env.from_source(source, NO_WATERMARKS, kind, type_info))

    def stream_format(format_: StreamFormat, folder: str) -> FileSource:
        return FileSource.for_record_stream_format(format_, str(flights / folder)).build()

    parquet = FileSource.for_bulk_file_format(BulkFormat.parquet_format(FLIGHT), f"file://{flights / 'parquet'}").build()
    streams = [
        read("text", stream_format(StreamFormat.text_line_format(), "text")),
        read("csv", stream_format(StreamFormat.csv_format(FLIGHT, null_values=("",)), "csv")),
        read("json", stream_format(StreamFormat.json_lines_format(FLIGHT), "json")),
        read("parquet", parquet),
        labelled("old text", env.read_text_file(str(flights / "text" / "a.txt"))),
    ]
    found = by_label(collect(streams[0].union(*streams[1:])))
    both = [Row(origin="JFK", delay=11), Row(origin='L"GA', delay=None)]
    assert found.pop("csv") == both
    assert found.pop("json") == both
    assert found.pop("parquet") == both
    assert sorted(found.pop("text")) == sorted(["one", "twö", "", "last", "packed"])
    assert found.pop("old text") == ["one", "twö", "", "last"]
    assert found == {}


def arrive(folder: Path, name: str, lines: Sequence[str]) -> None:
    """Put a complete file into a watched folder: written under a hidden name, then renamed."""
    hidden = folder / f".{name}.part"
    hidden.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    hidden.rename(folder / name)


def watched(folder: Path, format_: StreamFormat | None = None) -> FileSource:
    return (
        FileSource.for_record_stream_format(format_ or StreamFormat.text_line_format(), str(folder))
        .monitor_continuously(Duration.of_millis(50))
        .build()
    )


def take(results: Any, count: int) -> list[Any]:
    return [results.next() for _ in range(count)]


def test_files_that_arrive_while_the_job_runs_are_read(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    arrive(tmp_path, "first", ["a", "b"])
    with env.from_source(watched(tmp_path), NO_WATERMARKS, "lines").execute_and_collect() as lines:
        assert take(lines, 2) == ["a", "b"]
        arrive(tmp_path, "third", ["c"])
        assert take(lines, 1) == ["c"]
        (tmp_path / "deeper").mkdir()
        arrive(tmp_path / "deeper", "second", ["d", "e"])
        assert take(lines, 2) == ["d", "e"]


def test_windows_over_a_watched_folder_fire_also_while_a_reader_has_no_file(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_idleness(Duration.of_millis(300))
    arrive(tmp_path, "first", ["1", "2", "11"])
    lines = env.from_source(watched(tmp_path), strategy.with_timestamp_assigner(Itself()), "lines")
    windows = lines.map(int, Types.LONG()).window_all(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    with windows.reduce(lambda a, b: a + b).execute_and_collect() as sums:
        assert take(sums, 1) == [3]
        arrive(tmp_path, "second", ["12", "25"])
        assert take(sums, 1) == [23]


@contextmanager
def serving(lines: Sequence[bytes]) -> Iterator[int]:
    """Serve one connection: send the parts and close. Yields the port."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                for part in lines:
                    connection.sendall(part)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(server.getsockname()[1])
        thread.join(10)


def test_lines_from_a_socket_come_in_order_until_it_closes(env: StreamExecutionEnvironment) -> None:
    with serving([b"to be", b" or\r\nnot \xff\n", "tö".encode()[:2], "tö".encode()[2:] + b"\n\nend"]) as port:
        lines = collect(env.socket_text_stream("127.0.0.1", port))
    assert lines == ["to be or", "not \ufffd", "tö", "", "end"]


# A source as a user would write one: two splits of letters, each with its position; watermarks per split.


@dataclass(frozen=True, slots=True, kw_only=True)
class Letters(SourceSplit):
    text: str
    position: int = 0


class LettersEnumerator(SplitEnumerator[Letters, tuple[Letters, ...]]):
    def __init__(self, context: SplitEnumeratorContext[Letters], left: Sequence[Letters]) -> None:
        self._context = context
        self._left = list(left)

    def handle_split_request(self, subtask: int) -> None:
        if self._left:
            self._context.assign_split(self._left.pop(0), subtask)
        else:
            self._context.signal_no_more_splits(subtask)

    def add_splits_back(self, splits: Sequence[Letters], subtask: int) -> None:
        self._left += splits

    def snapshot_state(self, checkpoint_id: int) -> tuple[Letters, ...]:
        return tuple(self._left)


class LettersReader(SourceReader[str, Letters]):
    def __init__(self) -> None:
        self._splits: list[Letters] = []
        self._no_more = False

    def add_splits(self, splits: Sequence[Letters]) -> None:
        self._splits += splits

    def notify_no_more_splits(self) -> None:
        self._no_more = True

    def poll_next(self, output: ReaderOutput[str]) -> InputStatus:
        if not self._splits:
            return InputStatus.END_OF_INPUT if self._no_more else InputStatus.NOTHING_AVAILABLE
        split = self._splits.pop(0)
        output.select_split(split.split_id)
        output.collect(split.text[split.position], split.position * 1000)
        if split.position + 1 < len(split.text):
            self._splits.insert(0, replace(split, position=split.position + 1))
        else:
            output.split_finished(split.split_id)
        return InputStatus.MORE_AVAILABLE

    def snapshot_state(self) -> Sequence[Letters]:
        return self._splits


class LettersSource(Source[str, Letters, tuple[Letters, ...]]):
    def __init__(self, *texts: str) -> None:
        self._texts = texts

    boundedness = Boundedness.BOUNDED
    split_type = Letters
    enumerator_checkpoint_type = tuple[Letters, ...]

    def create_enumerator(self, context: SplitEnumeratorContext[Letters]) -> LettersEnumerator:
        return LettersEnumerator(context, [Letters(split_id=str(i), text=text) for i, text in enumerate(self._texts)])

    def restore_enumerator(self, context: SplitEnumeratorContext[Letters], checkpoint: tuple[Letters, ...]) -> LettersEnumerator:
        return LettersEnumerator(context, checkpoint)

    def create_reader(self, context: SourceReaderContext) -> LettersReader:
        return LettersReader()

    def produced_type(self) -> TypeInformation:
        return Types.STRING()


class WithTimestamp(ProcessFunction):
    def process_element(self, value: str, ctx: ProcessFunction.Context) -> Any:
        yield value, ctx.timestamp()


def test_a_source_of_the_users_own_goes_on_where_its_splits_stood(make_env: MakeEnvironment, tmp_path: Path) -> None:
    env = make_env(
        settings={
            "execution.checkpointing.interval": "10 ms",
            "execution.checkpointing.dir": tmp_path / "checkpoints",
            "execution.epoch.max-records": 3,
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.delay": "1 ms",
        }
    )
    marker = tmp_path / "failed"
    letters = env.from_source(LettersSource("abcdefghijk", "ABCDEFG", "xyz"), NO_WATERMARKS, "letters")
    found = collect(letters.process(WithTimestamp()).map(FailOnce(marker, "h", of=lambda pair: pair[0])))
    assert marker.exists()
    expected = [(letter, index * 1000) for text in ("abcdefghijk", "ABCDEFG", "xyz") for index, letter in enumerate(text)]
    assert sorted(found) == sorted(expected)
    # order within a split
    assert [pair for pair in found if pair[0] in "abcdefghijk"] == expected[:11]


@locally
def test_the_timestamp_assigner_of_a_source_sees_the_timestamp_of_its_reader(env: StreamExecutionEnvironment) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda _, record_timestamp: record_timestamp + 500
    )
    letters = env.from_source(LettersSource("abc"), strategy, "letters")
    assert collect(letters.process(WithTimestamp())) == [("a", 500), ("b", 1500), ("c", 2500)]


DELTA_TABLES = Path(__file__).parents[1] / "integration/datastream/connectors/delta/tables"


def test_versions_and_changes_of_a_delta_table_are_read_and_merged_into_a_copy(
    env: StreamExecutionEnvironment, tmp_path: Path
) -> None:
    vectors = DeltaSource.for_bounded_row_data(str(DELTA_TABLES / "deletion_vectors")).version_as_of(3).build()
    rows = labelled("rows", env.from_source(vectors, NO_WATERMARKS, "rows").map(lambda row: (row.id, row.name)))
    feed = DeltaSource.for_bounded_row_data(str(DELTA_TABLES / "change_feed_partitioned")).read_change_feed()
    changes = env.from_source(feed.starting_version(1).ending_version(4).build(), NO_WATERMARKS, "changes")
    changes.sink_to(DeltaSink(str(tmp_path / "copy"), upsert_keys=["id"], partition_by=["day"]))
    kinds = labelled("kinds", changes.map(lambda row: (str(row.get_row_kind()), row.id)))
    found = by_label(collect(rows.union(kinds)))
    assert sorted(found["rows"]) == [(n, "changed" if n == 5 else f"n{n}") for n in range(20) if n not in (3, 4, 17)]
    assert sorted(found["kinds"]) == [
        ("+I", 1), ("+I", 2), ("+I", 3), ("+I", 4), ("+U", 2), ("-D", 1), ("-D", 3), ("-U", 2),
    ]  # fmt: skip
    copy = DeltaTable(str(tmp_path / "copy")).to_pyarrow_table().sort_by("id").to_pylist()
    assert copy == [{"id": 2, "day": date(2024, 1, 3), "n": 2.5}, {"id": 4, "day": None, "n": 4.5}]

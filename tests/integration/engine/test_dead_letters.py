"""Dead letters (`pipeline.dead-letters.dir`): what would be lost is in a Delta table, once, whatever happens to the job."""

from __future__ import annotations

import datetime
import io
import logging
import pickle
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from flinkish.common import Instant, Row, RowKind, Time, Types, WatermarkStrategy
from flinkish.common.errors import ConfigurationError, JobExecutionError, SinkError, SourceError
from flinkish.common.serialization import DeserializationSchema
from flinkish.datastream import OutputTag, ProcessJoinFunction, StreamExecutionEnvironment
from flinkish.datastream.connectors.data_frame import decoder
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.connectors.delta.files import TableFiles
from flinkish.datastream.connectors.delta.source import DeltaSource
from flinkish.datastream.connectors.file_system import FileSource, StreamFormat
from flinkish.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSource
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy, RecordErrors
from flinkish.datastream.window import EventTimeTrigger, TumblingEventTimeWindows, WindowAssigner
from flinkish.program.dead_letters import COLUMNS, DEAD_LETTERS_UID, BadRecord
from flinkish.program.sources import InputStatus, SideOutputRecord, SourceReader
from flinkish.testing import CrashPoint, JobHarness
from tests.kit.environments import env_of
from tests.kit.results import collect
from tests.unit.datastream.connectors.fakes import FakeOutput, FakeReaderContext

Environment = StreamExecutionEnvironment
NO_WATERMARKS = WatermarkStrategy.no_watermarks()
PAIR = Types.TUPLE([Types.STRING(), Types.LONG()])
LATE = OutputTag("late", PAIR)
OPTION = "pipeline.dead-letters.dir"


def rows(table: Path, *columns: str) -> list[Any]:
    """Return the rows of a table in order; values alone if there is one column."""
    return rows_in(DeltaTable(table), *columns)


def rows_in(table: DeltaTable, *columns: str) -> list[Any]:
    found = table.to_pyarrow_table().select(list(columns)).to_pylist()
    return sorted([row[columns[0]] if len(columns) == 1 else tuple(row.values()) for row in found], key=repr)


def bad(number: int) -> SideOutputRecord:
    """What a reader emits for a record that it cannot decode."""
    record = BadRecord(reason="no number", source="s", position=number, unit="line", raw=b"%d" % number)
    return SideOutputRecord(None, None, record)


def sums(env: Environment, job: JobHarness, tag: OutputTag | None = None, *, read: bool = False) -> None:
    """Sums of pairs in windows of 10 ms."""
    pairs = env.from_source(job.source("pairs"), NO_WATERMARKS, "pairs").uid("pairs").map(lambda pair: pair, PAIR).uid("typed")
    windows = pairs.key_by(lambda pair: pair[0], Types.STRING()).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    if tag is not None:
        windows = windows.side_output_late_data(tag)
    results = windows.reduce(lambda a, b: (a[0], a[1] + b[1])).name("sums").uid("sums")
    results.sink_to(job.sink("out")).uid("out")
    if tag is not None and read:
        results.get_side_output(tag).sink_to(job.sink("late")).uid("late")


def first_of_window(env: Environment, job: JobHarness) -> None:
    """The first records, of any type, of windows of 10 ms."""
    stream = env.from_source(job.source("source"), NO_WATERMARKS, "source").key_by(lambda value: 1)
    windows = stream.window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    windows.reduce(lambda a, b: a).sink_to(job.sink("out"))


def emit(job: JobHarness, number: int) -> None:
    """Emit a record that is in time, one that is late, and one that was not decoded."""
    source = job.source("pairs")
    source.emit(("a", number), 100 + number)
    source.emit(("late", number), 5)
    source.emit(bad(number))


@contextmanager
def kept_in(table: Path, *emitted: int, **arguments: Any) -> Iterator[JobHarness]:
    """Run sums with this table of dead letters; the watermark is 29, and what `emit` emits for some numbers has been emitted."""
    with JobHarness(sums, settings={OPTION: table}, **arguments) as job:
        job.source("pairs").watermark(29)
        for number in emitted:
            emit(job, number)
        yield job


def run(env: Environment) -> None:
    env.execute("dead letters")


# -- what is in the table ----------------------------------------------------------------------------------------------------


def test_a_late_record_is_described(tmp_path: Path) -> None:
    with kept_in(tmp_path / "dead", start_time=1_700_000_000_000) as job:
        job.source("pairs").emit(("x", 1), 7)
        assert job.checkpoint() == 1
        [row] = DeltaTable(tmp_path / "dead").to_pyarrow_table().to_pylist()
        counts = {name: count for name, count in job.client.figures().user.items() if name.endswith("numDeadLetters")}
        assert counts == {"sums.numDeadLetters": 1, "Source: pairs.numDeadLetters": 0}
        job_id = job.client.job_master.setup.job_id
    assert list(row) == list(COLUMNS)
    assert {name: value for name, value in row.items() if value is not None} == {
        "kind": "late",
        "reason": "the watermark has passed all windows of the record and their allowed lateness",
        "job_name": "harness",
        "job_id": job_id,
        "operator_uid": "sums",
        "operator_name": "sums",
        "subtask": 0,
        "event_time": 7,
        "watermark": 29,
        "dropped_at": datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC),
        "json": '["x",1]',
        "checkpoint_id": 1,
    }


def test_late_records_are_pickled_if_their_json_does_not_show_all_of_them(tmp_path: Path) -> None:
    shown = {'{"a":[1,1.5,"x",null]}': {"a": [1, 1.5, "x", None]}, '{"a":1,"at":1005}': Row(a=1, at=Instant(1, 5_000_000))}
    pickled = {
        "[1,null]": (1, float("nan")),
        '{"1":"a","1":"b"}': {1: "a", "1": "b"},
        '{"a":2}': Row.of_kind(RowKind.DELETE, a=2),
        "[-1]": [Instant(-1, 999_999_999)],
    }
    with JobHarness(first_of_window, settings={OPTION: tmp_path / "dead"}) as job:
        job.source("source").watermark(29)
        for value in (*shown.values(), *pickled.values()):
            job.source("source").emit(value, 7)
        job.checkpoint()
    found = dict(rows(tmp_path / "dead", "json", "raw"))
    assert {json for json, raw in found.items() if raw is None} == shown.keys()
    assert {json: repr(pickle.loads(raw)) for json, raw in found.items() if raw} == {k: repr(v) for k, v in pickled.items()}


def test_a_late_record_without_json_is_pickled(tmp_path: Path) -> None:
    with JobHarness(first_of_window, settings={OPTION: tmp_path / "dead"}) as job:
        job.source("source").watermark(29)
        job.source("source").emit({1: "\ud800"}, 7)
        job.checkpoint()
    [(form, raw, json)] = rows(tmp_path / "dead", "raw_format", "raw", "json")
    assert (form, json, pickle.loads(raw)) == ("pickle", "\"{1: '\\\\ud800'}\"", {1: "\ud800"})


def test_formats_give_the_bytes_that_they_read_and_where_they_are(tmp_path: Path) -> None:
    flight = Types.ROW_NAMED(["origin", "delay"], [Types.STRING(), Types.INT()])
    contents = {
        "csv": b'origin,delay\nJFK,1\n"L,GA",late\n\xff,3\n"EWR\n',
        "json": b'{"origin": "JFK", "delay": 1}\n{"origin": 5}\nnot json\n{"origin": "\xff"}\n',
        "txt": b"good\nb\xe4d\n",
        "schema": b"1\nx\n",
    }
    formats = {
        "csv": StreamFormat.csv_format(flight),
        "json": StreamFormat.json_lines_format(flight),
        "txt": StreamFormat.text_line_format(),
    }
    (tmp_path / "in").mkdir()
    env = env_of({OPTION: tmp_path / "dead"})
    for suffix, format_ in formats.items():
        (tmp_path / "in" / suffix).write_bytes(contents[suffix])
        source = FileSource.for_record_stream_format(format_, str(tmp_path / "in" / suffix)).build()
        env.from_source(source, NO_WATERMARKS, suffix).map(str, Types.STRING()).print()
    run(env)
    found = rows(tmp_path / "dead", "source", "position", "position_unit", "raw", "raw_format")
    assert found == sorted(
        [
            (str(tmp_path / "in" / "csv"), 3, "line", b'"L,GA",late', "source"),
            (str(tmp_path / "in" / "csv"), 4, "line", b"\xff,3", "source"),
            (str(tmp_path / "in" / "csv"), 5, "line", b'"EWR', "source"),
            (str(tmp_path / "in" / "json"), 2, "line", b'{"origin": 5}', "source"),
            (str(tmp_path / "in" / "json"), 3, "line", b"not json", "source"),
            (str(tmp_path / "in" / "json"), 4, "line", b'{"origin": "\xff"}', "source"),
            (str(tmp_path / "in" / "txt"), 2, "line", b"b\xe4d", "source"),
        ],
        key=repr,
    )
    # The job takes no checkpoints; all was committed at its end.
    assert set(rows(tmp_path / "dead", "checkpoint_id")) == {None}


def test_a_batch_job_commits_when_it_has_finished(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"good\nb\xe4d\n")
    env = env_of({OPTION: tmp_path / "dead", "execution.runtime-mode": "BATCH"})
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "x")).build()
    assert collect(env.from_source(source, NO_WATERMARKS, "x").key_by(lambda line: line).reduce(lambda a, b: a)) == ["good"]
    assert rows(tmp_path / "dead", "raw", "checkpoint_id") == [(b"b\xe4d", None)]


class Join(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        yield left, right


@pytest.mark.parametrize("tag", [None, LATE], ids=["no tag", "unread tag"])
def test_late_records_of_an_interval_join_are_kept(tmp_path: Path, tag: OutputTag | None) -> None:
    def program(env: Environment, job: JobHarness) -> None:
        left, right = (env.from_source(job.source(name, PAIR), NO_WATERMARKS, name).key_by(lambda p: p[0]) for name in "lr")
        join = left.interval_join(right).between(Time.milliseconds(-5), Time.milliseconds(5))
        if tag is not None:
            join = join.side_output_left_late_data(tag)
        join.process(Join()).sink_to(job.sink("out"))

    with JobHarness(program, settings={OPTION: tmp_path / "dead"}) as job:
        for name in "lr":
            job.source(name).watermark(29)
        job.source("l").emit(("a", 1), 28)
        job.source("r").emit(("b", 2), 28)
        job.checkpoint()
    kept = rows(tmp_path / "dead", "kind", "json", "event_time", "watermark")
    assert kept == [("late", '["a",1]', 28, 29), ("late", '["b",2]', 28, 29)]


class Yesterday(WindowAssigner[Any, Any]):
    """Assigns records to windows that end before their time."""

    def assign_windows(self, element: Any, timestamp: int, context: Any) -> Any:
        return TumblingEventTimeWindows.of(Time.milliseconds(10)).assign_windows(element, timestamp - 100, context)

    def get_default_trigger(self, env: Any) -> Any:
        return EventTimeTrigger.create()

    def get_window_serializer(self) -> Any:
        return TumblingEventTimeWindows.of(Time.milliseconds(10)).get_window_serializer()

    def is_event_time(self) -> bool:
        return True


def test_records_that_flink_drops_without_counting_them_are_kept(tmp_path: Path) -> None:
    def program(env: Environment, job: JobHarness) -> None:
        stream = env.from_source(job.source("source", PAIR), NO_WATERMARKS, "source").key_by(lambda pair: pair[0])
        stream.window(Yesterday()).reduce(lambda a, b: a).sink_to(job.sink("out"))

    with JobHarness(program, settings={OPTION: tmp_path / "dead"}) as job:
        job.source("source").watermark(29)
        job.source("source").emit(("x", 1), 50)
        job.checkpoint()
        assert [count for name, count in job.client.figures().user.items() if name.endswith("numLateRecordsDropped")] == [0]
    assert rows(tmp_path / "dead", "json", "event_time") == [('["x",1]', 50)]


def test_what_a_side_output_takes_is_no_dead_letter(tmp_path: Path) -> None:
    with JobHarness(lambda env, job: sums(env, job, LATE, read=True), settings={OPTION: tmp_path / "dead"}) as job:
        job.source("pairs").watermark(29)
        job.source("pairs").emit(("x", 1), 7)
        job.checkpoint()
        assert job.sink("late").committed_values() == [("x", 1)]
    # The table is there, and says that nothing was lost.
    assert rows(tmp_path / "dead", "kind") == []


def test_what_a_policy_skips_or_sends_to_a_side_output_that_nobody_reads_is_kept(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"good\nb\xe4d\n")
    env = env_of({OPTION: tmp_path / "dead"})
    for policy in (RecordErrorPolicy.skip(), RecordErrorPolicy.side_output(OutputTag("bad"))):
        builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "x"))
        env.from_source(builder.on_record_error(policy).build(), NO_WATERMARKS, repr(policy)).print()
    run(env)
    assert rows(tmp_path / "dead", "raw") == [b"b\xe4d", b"b\xe4d"]


# -- exactly once ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("point", CrashPoint)
def test_a_crash_at_any_point_neither_loses_nor_doubles(point: CrashPoint, tmp_path: Path) -> None:
    with kept_in(tmp_path / "dead", 1, parallelism=2) as job:
        job.checkpoint()
        emit(job, 2)
        job.crash(point)
        emit(job, 3)
        job.restart(parallelism=3)
        emit(job, 4)
        job.finish()
        assert len(job.sink("out").committed()) > 0
    assert rows(tmp_path / "dead", "kind", "position", "json") == sorted(
        [*(("late", None, f'["late",{n}]') for n in range(1, 5)), *(("undecodable", n, None) for n in range(1, 5))], key=repr
    )
    # Each row says which checkpoint was to come.
    numbers = dict(rows(tmp_path / "dead", "raw", "checkpoint_id"))
    assert numbers[b"1"] == 1
    assert numbers[b"2"] >= 2


def test_what_a_checkpoint_holds_is_committed_by_a_job_that_keeps_no_dead_letters(tmp_path: Path) -> None:
    with kept_in(tmp_path / "dead", 1) as job:
        job.settle()
        job._settings.pop(OPTION)
        job.crash(CrashPoint.BEFORE_SINK_COMMIT)
        assert rows(tmp_path / "dead", "position") == [1, None]
        job.source("pairs").emit(("late", 2), 5)
        job.checkpoint()
        job._settings[OPTION] = tmp_path / "dead"
        job.restart()
        emit(job, 3)
        job.finish()
    assert rows(tmp_path / "dead", "position") == [1, 3, None, None]


def test_a_savepoint_is_restored_with_the_option_on_or_off(tmp_path: Path) -> None:
    with kept_in(tmp_path / "dead", 1) as job:
        savepoint = job.savepoint(str(tmp_path))
        emit(job, 2)
        job._settings.pop(OPTION)
        job.restart(savepoint=savepoint)
        job.checkpoint()
        job._settings[OPTION] = tmp_path / "other"
        job.restart()
        emit(job, 3)
        job.finish()
    assert rows(tmp_path / "other", "position") == [3, None]
    assert rows(tmp_path / "dead", "position") == [1, None]


def test_another_folder_gets_what_comes_and_the_former_what_was_prepared(tmp_path: Path) -> None:
    with kept_in(tmp_path / "former", 1) as job:
        job.settle()
        job._settings[OPTION] = tmp_path / "new"
        job.crash(CrashPoint.AFTER_COMMIT)
        emit(job, 2)
        job.checkpoint()
    assert rows(tmp_path / "former", "position") == [1, None]
    assert rows(tmp_path / "new", "position") == [2, None]


def test_a_removed_table_does_not_stop_a_job_that_keeps_no_dead_letters(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with kept_in(tmp_path / "dead", 1) as job:
        job.checkpoint()
        job._settings.pop(OPTION)
        (tmp_path / "dead").rename(tmp_path / "elsewhere")
        job.restart()
        job.finish()
    assert "is gone: the 2 of checkpoint 1 are lost" in caplog.text


def test_a_table_that_is_removed_while_the_job_runs_ends_the_job(tmp_path: Path) -> None:
    with kept_in(tmp_path / "dead", 1) as job:
        job.checkpoint()
        (tmp_path / "dead" / "_delta_log").rename(tmp_path / "elsewhere")
        emit(job, 2)
        expected = (
            f"(?s)SinkChangedError: .*the table of dead letters does not fit the checkpoint: .*set {OPTION} to another folder"
        )
        with pytest.raises(JobExecutionError, match=expected):
            job.checkpoint()
    assert not (tmp_path / "dead" / "_delta_log").exists()


def test_a_table_ahead_of_the_checkpoint_is_not_written_twice(tmp_path: Path) -> None:
    with kept_in(tmp_path / "dead") as job:
        savepoint = job.savepoint(str(tmp_path))
        job.restart(savepoint=savepoint)
        emit(job, 1)
        job.checkpoint()
        with pytest.raises(JobExecutionError, match=f"(?s)does not fit the checkpoint.*set {OPTION} to another folder"):
            job.restart(savepoint=savepoint)
        job._settings[OPTION] = tmp_path / "other"
        job.restart(savepoint=savepoint)
        emit(job, 2)
        job.checkpoint()
    assert rows(tmp_path / "dead", "position") == [1, None]
    assert rows(tmp_path / "other", "position") == [1, 2, None, None]


# -- tables that are there already -------------------------------------------------------------------------------------------


def test_a_table_of_an_older_or_newer_shape_is_written(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "dead", pa.table({"kind": ["old"], "reason": ["r"], "later": [1]}))
    with kept_in(tmp_path / "dead", 1) as job:
        job.checkpoint()
    assert rows(tmp_path / "dead", "kind", "position", "later") == [
        ("late", None, None), ("old", None, 1), ("undecodable", 1, None)
    ]  # fmt: skip


def test_a_table_that_does_not_fit_is_refused_before_the_job_starts(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "dead", pa.table({"kind": [1]}))
    with pytest.raises(SinkError, match=rf"(?s){OPTION} = .*kind: long in the table, string in the rows"):
        JobHarness(sums, settings={OPTION: tmp_path / "dead"})
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match=f"{OPTION} = .*is a file; a table is a folder"):
        JobHarness(sums, settings={OPTION: tmp_path / "file"})


def test_a_full_disk_fails_the_job_with_the_name_of_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with kept_in(tmp_path / "dead", 1) as job:

        def full(*arguments: Any, **keywords: Any) -> None:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(TableFiles, "write_parquet", full)
            with pytest.raises(JobExecutionError, match=rf"dead letters \({OPTION}\) cannot be written.*No space left"):
                job.checkpoint()
        job.restart()
        job.checkpoint()
    assert rows(tmp_path / "dead", "position") == [1, None]


def test_an_unbounded_job_without_checkpoints_is_refused(tmp_path: Path) -> None:
    env = env_of({OPTION: tmp_path})
    env.from_source(DataGeneratorSource(lambda index: index, type_info=Types.LONG()), NO_WATERMARKS, "endless").print()
    with pytest.raises(ConfigurationError, match=r"dead-letters.*the source '.*endless' never ends: nothing would ever be"):
        run(env)


# -- many, or none -----------------------------------------------------------------------------------------------------------


def test_many_dead_letters_go_to_files_before_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x").write_bytes(b"\xff" * 300 + b"\n" + b"good\n" + (b"\xff" * 300 + b"\n") * 8_000)
    env = env_of({OPTION: tmp_path / "dead", "execution.epoch.max-bytes": "1 mb"})
    monkeypatch.setattr("flinkish.runtime.dead_letters._FILE_BYTES", 2 << 20)
    source = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "x")).build()
    env.from_source(source, NO_WATERMARKS, "x").print()
    run(env)
    table = DeltaTable(tmp_path / "dead")
    counts = table.get_add_actions().column("num_records").to_pylist()
    assert sum(counts) == 8_001
    assert len(counts) >= 3
    # An epoch ends when its dead letters have as many bytes as one may send.
    assert len(set(rows(tmp_path / "dead", "dropped_at"))) >= 3


def test_without_a_table_one_line_says_that_records_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with JobHarness(lambda env, job: sums(env, job, LATE), parallelism=2) as job:
        job.source("pairs").watermark(29)
        for _ in range(3):
            job.source("pairs").emit(("x", 1), 7)
            job.source("pairs").emit(("y", 1), 7)
            job.settle()
        job.crash()
        job.finish()
    lines = [record.getMessage() for record in caplog.records if OPTION in record.getMessage()]
    # One at the first record, and one with the number at the end, in each process.
    assert len([line for line in lines if "'sums' (uid sums) has dropped a late record" in line]) == 2
    assert len([line for line in lines if "dropped records because they were too late: 6 of 6 at 'sums' (uid sums)" in line]) == 2
    assert len(lines) == 4


def test_without_a_table_one_line_says_that_bad_records_are_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "x").write_bytes(b"good\n" + b"b\xe4d\n" * 10)
    env = env_of()
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "x"))
    env.from_source(builder.on_record_error(RecordErrorPolicy.skip()).build(), NO_WATERMARKS, "lines").print()
    run(env)
    lines = [record.getMessage() for record in caplog.records if OPTION in record.getMessage()]
    assert len(lines) == 1
    assert "'Source: lines'" in lines[0]
    assert "a record that it could not decode" in lines[0]


def test_the_uid_of_dead_letters_is_no_operator_of_a_program() -> None:
    # It must not change: it is part of the transactions in tables, and of checkpoints.
    assert DEAD_LETTERS_UID == "flinkish.dead-letters"


# -- sources of columns ------------------------------------------------------------------------------------------------------


class Keeping:
    """What a reader of a job that keeps dead letters gets."""

    on = True

    def dropped(self, kind: str) -> None:
        raise AssertionError(kind)


@dataclass
class KeepingContext(FakeReaderContext):
    dead_letters: Keeping = field(default_factory=Keeping)


def dates(*days: int) -> pa.Array:
    """Return days since 1970-01-01; Python has no day 4,000,000."""
    return pa.array(days, pa.int32()).cast(pa.date32())


DAYS = Types.ROW_NAMED(["id", "day"], [Types.LONG(), Types.SQL_DATE()])


def read_all(reader: SourceReader[Any, Any], splits: Sequence[Any], credit: int = 100) -> list[Any]:
    output = FakeOutput(credit)
    try:
        reader.add_splits(splits)
        reader.notify_no_more_splits()
        while output.credit > 0 and reader.poll_next(output) is InputStatus.MORE_AVAILABLE:
            pass
        return output.values
    finally:
        reader.close()


@pytest.mark.parametrize("credit", [1, 3, 100])
def test_rows_of_a_delta_table_that_python_cannot_hold_are_kept(credit: int, tmp_path: Path) -> None:
    write_deltalake(tmp_path / "t", pa.table({"id": [1, 2, 3, 4], "day": dates(0, 4_000_000, 1, 4_000_001)}))
    source = DeltaSource.for_bounded_row_data(str(tmp_path / "t")).build()
    if credit == 1:
        with pytest.raises(JobExecutionError, match="does not fit its type"):
            collect(env_of().from_source(source, NO_WATERMARKS, "table"))
    env = env_of({OPTION: tmp_path / "dead", "execution.epoch.max-records": credit})
    assert [row.id for row in collect(env.from_source(source, NO_WATERMARKS, "table"))] == [1, 3]
    found = rows(tmp_path / "dead", "position", "position_unit", "raw", "json")
    assert found == [
        (2, "row", None, '{"id": "2", "day": "4000000"}'),
        (4, "row", None, '{"id": "4", "day": "4000001"}'),
    ]


def test_rows_of_a_streaming_data_frame_that_python_cannot_hold_are_kept() -> None:
    batch = pa.record_batch({"id": [1, 2, 3], "day": dates(0, 4_000_000, 1)})
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(SourceError, match="column 'day' of the DataFrame"):
        list(decoder(DAYS, as_tuples=True)(sink.getvalue()))
    errors = RecordErrors(RecordErrorPolicy.fail(), KeepingContext())
    for as_tuples in (True, False):
        first, second, third = decoder(DAYS, as_tuples=as_tuples, errors=errors)(sink.getvalue())
        assert [tuple(first), tuple(third)] == [(1, datetime.date(1970, 1, 1)), (3, datetime.date(1970, 1, 2))]
        assert second.bad.reason.startswith("column 'day' of the DataFrame holds a value that cannot be")
        assert (second.bad.position, second.bad.unit) == (None, None)
        assert second.bad.json == '{"id": "2", "day": "4000000"}'


def test_rows_of_a_database_that_do_not_fit_the_declared_types_are_kept(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "db")) as database:
        database.execute("CREATE TABLE t (id INTEGER, day TEXT)")
        database.execute("INSERT INTO t VALUES (1, '1970-01-01'), (2, 'soon'), (3, '1970-01-02')")
        database.commit()
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"sqlite:///{tmp_path / 'db'}").build()
    source = JdbcSource(options, DAYS, table="t")
    with pytest.raises(SourceError, match="column 'day' is declared"):
        read_all(source.create_reader(FakeReaderContext()), source.splits(1))
    first, second, third = read_all(source.create_reader(KeepingContext()), source.splits(1))
    assert (first.id, third.id) == (1, 3)
    assert second.bad.json == '{"id": 2, "day": "soon"}'
    assert second.bad.source.startswith("the table t of sqlite:")
    assert "column 'day' is declared" in second.bad.reason


class Picky(DeserializationSchema):
    """Fails as programs do that do not know of ValueError."""

    def deserialize(self, message: bytes) -> Any:
        return {b"1": "one"}[message]

    def get_produced_type(self) -> Any:
        return Types.STRING()


def test_any_error_of_a_schema_makes_a_dead_letter(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"1\n2\n")
    source = FileSource.for_record_stream_format(StreamFormat.line_format(Picky()), str(tmp_path / "x")).build()
    env = env_of()
    env.from_source(source, NO_WATERMARKS, "x").print()
    with pytest.raises(JobExecutionError, match="KeyError"):
        run(env)
    env = env_of({OPTION: tmp_path / "dead"})
    env.from_source(source, NO_WATERMARKS, "x").print()
    run(env)
    assert rows(tmp_path / "dead", "reason", "raw") == [("KeyError: b'2'", b"2")]

"""FileSink: names, rolling, and exactly the right contents after lost writers, repeated epochs and restores."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flinkish.common.errors import (
    ForeignCheckpointError,
    InvalidArgumentError,
    InvalidProgramError,
    SinkChangedError,
    SinkError,
    TypeMismatchError,
)
from flinkish.common.ids import random_id
from flinkish.common.pickling import dumps, loads
from flinkish.common.serialization import Encoder
from flinkish.common.typeinfo import Types
from flinkish.common.types import Row, RowKind
from flinkish.datastream.connectors import _row_buffer
from flinkish.datastream.connectors.base import WriteContext
from flinkish.datastream.connectors.file_system import (
    BucketAssigner,
    FileSink,
    OutputFileConfig,
    ParquetWriterFactory,
    RollingPolicy,
    StreamingFileSink,
)
from flinkish.datastream.connectors.file_system.policies import BucketContext, DefaultRollingPolicy, PartFileInfo, format_time
from tests.unit.datastream.connectors.fakes import SinkRun

PAIR = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])


def text_sink(
    path: Path, policy: RollingPolicy | None = None, assigner: BucketAssigner | None = None, interval: int = 1000
) -> FileSink:
    return (
        FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
        .with_bucket_assigner(assigner or BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(policy or RollingPolicy.default_rolling_policy())
        .with_output_file_config(OutputFileConfig.builder().with_part_prefix("out").with_part_suffix(".txt").build())
        .with_bucket_check_interval(interval)
        .build()
    )


def parquet_sink(path: Path, assigner: BucketAssigner | None = None) -> FileSink:
    return (
        FileSink.for_bulk_format(str(path), ParquetWriterFactory())
        .with_bucket_assigner(assigner or BucketAssigner.base_path_bucket_assigner())
        .build()
    )


def visible(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))


def hidden(path: Path) -> list[Path]:
    return sorted(p for p in path.rglob(".*") if p.is_file())


def lines(path: Path) -> list[str]:
    return [line for file in visible(path) for line in file.read_text().splitlines()]


def rows(path: Path) -> list[Any]:
    return [(r["k"], r["v"]) for file in visible(path) for r in pq.read_table(file).to_pylist()]


class ByFirstLetter(BucketAssigner):
    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        return f"letter={element[0]}"


@pytest.mark.usefixtures("both_ways")
def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    monkeypatch.setattr("flinkish.datastream.connectors.file_system.parts.make_folders", refuse)
    with pytest.raises(SinkError, match=f"FileSink cannot write into {tmp_path}/new: Read-only file system"):
        SinkRun(text_sink(tmp_path / "new"), Types.STRING()).epoch(["a"])


@pytest.mark.usefixtures("both_ways")
def test_nothing_is_visible_before_a_checkpoint_and_the_file_is_finished_after_it(tmp_path: Path) -> None:
    run = SinkRun(text_sink(tmp_path, RollingPolicy.on_checkpoint_rolling_policy()), Types.STRING()).epoch(["a", "b"])
    assert visible(tmp_path) == []
    (in_progress,) = hidden(tmp_path)
    assert in_progress.name.startswith(".out-")
    assert ".txt.inprogress." in in_progress.name
    checkpoint = run.checkpoint(["c"], commit=False)
    assert visible(tmp_path) == []
    run.commit(checkpoint)
    (finished,) = visible(tmp_path)
    assert finished.name.startswith("out-")
    assert finished.name.endswith("-0.txt")
    assert (lines(tmp_path), hidden(tmp_path)) == (["a", "b", "c"], [])


@pytest.mark.usefixtures("both_ways")
def test_names_are_those_of_flink(tmp_path: Path) -> None:
    """As PyFlink 2.3.0 writes them: `.part-040eac50-b0fe-4e05-954e-205c0d111bfc-0.inprogress.1876108d-fb20-4ca4-...`."""
    uuid = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    for name, sink in (("out", text_sink(tmp_path / "text")), ("part", parquet_sink(tmp_path / "parquet"))):
        run = SinkRun(sink, Types.STRING() if name == "out" else PAIR)
        checkpoint = run.checkpoint(["a"] if name == "out" else [Row(k="a", v=1)], commit=False)
        (in_progress,) = hidden(tmp_path)
        run.commit(checkpoint)
        run.checkpoint([], end_of_input=True)

        suffix = r"\.txt" if name == "out" else ""
        assert re.fullmatch(rf"\.{name}-{uuid}-0{suffix}\.inprogress\.{uuid}", in_progress.name)
        assert any(re.fullmatch(rf"{name}-{uuid}-0{suffix}", file.name) for file in visible(tmp_path))


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("policy", ["open", "closed"])
def test_files_that_an_older_version_named_without_dashes_are_committed_and_gone_on_with(
    tmp_path: Path, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = text_sink(tmp_path, RollingPolicy.on_checkpoint_rolling_policy() if policy == "closed" else None)
    with monkeypatch.context() as older:
        older.setattr("flinkish.datastream.connectors.file_system.sink.random_uuid", random_id)
        run = SinkRun(sink, Types.STRING()).epoch(["a"])
        checkpoint = run.checkpoint(["b"], commit=False)
    assert re.fullmatch(r"\.out-[0-9a-f]{32}-0\.txt\.inprogress\.[0-9a-f]{32}", hidden(tmp_path)[0].name)

    run.restore(checkpoint).epoch(["c"]).checkpoint([], end_of_input=True)

    assert sorted(lines(tmp_path)) == ["a", "b", "c"]
    assert hidden(tmp_path) == []


@pytest.mark.usefixtures("both_ways")
def test_the_default_policy_keeps_a_file_open_over_checkpoints_until_it_is_too_old(tmp_path: Path) -> None:
    run = SinkRun(text_sink(tmp_path), Types.STRING()).after(["a"])
    assert visible(tmp_path) == []
    run.now = 60_000
    run.epoch([]).checkpoint(["b"])
    assert lines(tmp_path) == ["a"]


@pytest.mark.usefixtures("both_ways")
def test_a_file_without_new_records_is_rolled_by_inactivity(tmp_path: Path) -> None:
    policy = RollingPolicy.default_rolling_policy(rollover_interval=10_000_000, inactivity_interval=5_000)
    run = SinkRun(text_sink(tmp_path, policy), Types.STRING()).epoch(["a"])
    run.now = 4_000
    run.epoch(["b"])
    run.now = 8_000
    run.checkpoint()
    assert visible(tmp_path) == []
    run.now = 9_000
    run.epoch([]).checkpoint()
    assert lines(tmp_path) == ["a", "b"]


@pytest.mark.usefixtures("both_ways")
def test_files_roll_by_size_and_are_numbered(tmp_path: Path) -> None:
    run = SinkRun(text_sink(tmp_path, RollingPolicy.default_rolling_policy(part_size=10)), Types.STRING())
    run.checkpoint([f"line {i}" for i in range(6)], end_of_input=True)
    files = visible(tmp_path)
    assert [file.name[-6:] for file in files] == ["-0.txt", "-1.txt", "-2.txt"]
    assert [file.read_text() for file in files] == ["line 0\nline 1\n", "line 2\nline 3\n", "line 4\nline 5\n"]


def test_columns_are_appended_as_a_whole_unless_a_policy_or_an_error_needs_each_record(tmp_path: Path) -> None:
    sink = text_sink(tmp_path, RollingPolicy.default_rolling_policy(part_size=15))
    run = SinkRun(sink, Types.STRING(), by_columns=True).epoch(["a", "b", "c", "d"])
    assert run.from_columns == 4
    # As they make the file too large, it is closed between two of them.
    run.checkpoint(["line 1", "line 2", "line 3", "line 4"], end_of_input=True)
    assert [file.read_text() for file in visible(tmp_path)] == ["a\nb\nc\nd\nline 1\nline 2\n", "line 3\nline 4\n"]
    assert run.from_columns == 4

    class Own(DefaultRollingPolicy):
        def should_roll_on_event(self, part: PartFileInfo, element: Any) -> bool:
            return bool(element == "b")

    assert "looks at each record" in (text_sink(tmp_path, Own()).why_records or "")
    assert text_sink(tmp_path).why_records is None
    latin = FileSink.for_row_format(str(tmp_path / "latin"), Encoder.simple_string_encoder("latin-1")).build()
    with pytest.raises(UnicodeEncodeError, match=r"character '\\u20ac' in position 0"):
        SinkRun(latin, Types.STRING()).epoch(["a", "ä", "b", "€"])


@pytest.mark.usefixtures("both_ways")
def test_the_end_of_the_input_finishes_all_files(tmp_path: Path) -> None:
    run = SinkRun(text_sink(tmp_path), Types.STRING(), parallelism=2).epoch(["a", "b", "c"])
    run.checkpoint(end_of_input=True)
    assert sorted(lines(tmp_path)) == ["a", "b", "c"]
    assert len(visible(tmp_path)) == 2


@pytest.mark.usefixtures("both_ways")
def test_more_than_a_megabyte_in_an_epoch_is_whole(tmp_path: Path) -> None:
    run = SinkRun(text_sink(tmp_path), Types.STRING())
    values = [str(i) * 50_000 for i in range(10)] * 4
    run.epoch(values).checkpoint(values, end_of_input=True)
    assert lines(tmp_path) == values * 2


@pytest.mark.usefixtures("both_ways")
def test_an_epoch_run_again_after_its_writer_was_lost_writes_nothing_twice(tmp_path: Path) -> None:
    for name, policy in (("default", None), ("checkpoint", RollingPolicy.on_checkpoint_rolling_policy())):
        path = tmp_path / name
        run = SinkRun(text_sink(path, policy), Types.STRING()).epoch(["a"])
        run.lost_epoch(["b", "c"]).epoch(["b", "c"]).lose_writers().checkpoint(["d"])
        run.lost_epoch(["e"]).checkpoint(["e"], end_of_input=True)
        assert sorted(lines(path)) == ["a", "b", "c", "d", "e"]


@pytest.mark.usefixtures("both_ways")
def test_an_epoch_lost_in_its_middle_leaves_no_trace(tmp_path: Path) -> None:
    run = SinkRun(text_sink(tmp_path), Types.STRING()).epoch(["a"])
    lost = run.writers
    run.write(["b" * 2_000_000, "c"]).lose_writers().epoch(["b"])
    for writer in lost:
        # A process that should be dead comes to the end of its epoch after all.
        writer.end_epoch()
    run.checkpoint(["c"], end_of_input=True)
    assert lines(tmp_path) == ["a", "b", "c"]


@pytest.mark.usefixtures("both_ways")
def test_a_commit_made_again_changes_nothing(tmp_path: Path) -> None:
    run = SinkRun(text_sink(tmp_path, RollingPolicy.on_checkpoint_rolling_policy()), Types.STRING())
    checkpoint = run.checkpoint(["a"])
    before = [(file, file.stat().st_mtime_ns) for file in visible(tmp_path)]
    run.commit(checkpoint)
    run.commit(checkpoint)
    assert [(file, file.stat().st_mtime_ns) for file in visible(tmp_path)] == before


@pytest.mark.usefixtures("both_ways")
def test_output_that_was_taken_away_is_not_missed_when_its_commit_is_repeated(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run = SinkRun(text_sink(tmp_path, RollingPolicy.on_checkpoint_rolling_policy()), Types.STRING())
    checkpoint = run.checkpoint(["a"])
    visible(tmp_path)[0].unlink()
    run.restore(checkpoint)
    assert "neither" in caplog.text


@pytest.mark.usefixtures("both_ways")
def test_a_file_that_is_gone_at_its_first_commit_is_an_error(tmp_path: Path) -> None:
    run = SinkRun(text_sink(tmp_path, RollingPolicy.on_checkpoint_rolling_policy()), Types.STRING())
    restored = run.checkpoint(["a"])
    checkpoint = run.restore(restored).checkpoint(["b"], commit=False)
    hidden(tmp_path)[0].unlink()
    with pytest.raises(SinkError, match=r"neither .* nor .* exists, though the 2 bytes were written"):
        run.commit(checkpoint)


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("committed", [False, True])
def test_a_restart_goes_back_to_what_its_checkpoint_covered(tmp_path: Path, parallelism: int, committed: bool) -> None:
    run = SinkRun(text_sink(tmp_path), Types.STRING(), parallelism=2).epoch(["a", "b"])
    checkpoint = run.checkpoint(["c", "d"], commit=committed)
    run.epoch(["lost 1", "lost 2"]).restore(checkpoint, parallelism).epoch(["e", "f"]).checkpoint([], end_of_input=True)
    assert sorted(lines(tmp_path)) == ["a", "b", "c", "d", "e", "f"]


@pytest.mark.usefixtures("both_ways")
def test_a_file_copied_at_a_restart_is_removed_once_the_next_checkpoint_is_complete(tmp_path: Path) -> None:
    run = SinkRun(text_sink(tmp_path), Types.STRING())
    checkpoint = run.checkpoint(["a"])
    run.restore(checkpoint).epoch(["b"])
    assert len(hidden(tmp_path)) == 2
    run.restore(checkpoint).checkpoint(["b"])
    assert len(hidden(tmp_path)) == 2, "the one in progress, and that of the attempt which was lost"
    run.checkpoint(["c"], end_of_input=True)
    assert lines(tmp_path) == ["a", "b", "c"]


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("policy", ["open", "closed"])
@pytest.mark.parametrize("first", ["old", "new"])
def test_a_job_started_from_the_savepoint_of_another_leaves_the_files_of_that_one_alone(
    tmp_path: Path, policy: str, first: str
) -> None:
    rolling = RollingPolicy.default_rolling_policy() if policy == "open" else RollingPolicy.on_checkpoint_rolling_policy()
    old = SinkRun(text_sink(tmp_path, rolling), Types.STRING()).after(["a"]).epoch(["b"])
    # a savepoint in passing: the job commits what it holds with the next checkpoint
    savepoint = old.checkpoint(["c"], commit=False)
    new = SinkRun(text_sink(tmp_path, rolling), Types.STRING()).restore(savepoint, lineage="another")
    later = old.checkpoint(["old 1"], commit=False)
    later.requests[:0] = savepoint.requests
    if first == "old":
        old.commit(later)
    new.checkpoint(["new 1"])
    new.checkpoint(["new 2"], end_of_input=True)
    if first == "new":
        old.commit(later)
    old.checkpoint(["old 2"], end_of_input=True)
    # a file that was open at the savepoint is in both
    shared = ["a", "b", "c"] * (2 if policy == "open" else 1)
    assert sorted(lines(tmp_path)) == sorted([*shared, "new 1", "new 2", "old 1", "old 2"])


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("policy", ["open", "closed"])
def test_a_job_can_go_back_to_before_a_savepoint_that_another_job_was_started_from(tmp_path: Path, policy: str) -> None:
    rolling = RollingPolicy.default_rolling_policy() if policy == "open" else RollingPolicy.on_checkpoint_rolling_policy()
    old = SinkRun(text_sink(tmp_path, rolling), Types.STRING()).epoch(["a"])
    checkpoint = old.checkpoint([])
    old.now = 100_000
    savepoint = old.checkpoint(["b"], commit=False)
    new = SinkRun(text_sink(tmp_path, rolling), Types.STRING()).restore(savepoint, lineage="another")
    new.checkpoint(["new"], end_of_input=True)
    old.restore(checkpoint).checkpoint(["old"], end_of_input=True)
    shared = ["a", "a", "b"] if policy == "open" else ["a", "b"]
    assert sorted(lines(tmp_path)) == sorted([*shared, "new", "old"])


@pytest.mark.usefixtures("both_ways")
def test_a_job_started_from_the_savepoint_of_another_goes_on_under_names_of_its_own(tmp_path: Path) -> None:
    old = SinkRun(text_sink(tmp_path), Types.STRING())
    savepoint = old.checkpoint(["a"])
    for lineage in ("one", "two"):
        new = SinkRun(text_sink(tmp_path), Types.STRING()).restore(savepoint, lineage=lineage)
        new.checkpoint([lineage], end_of_input=True)
    old.checkpoint(["old"], end_of_input=True)
    assert sorted(file.read_text() for file in visible(tmp_path)) == ["a\nold\n", "a\none\n", "a\ntwo\n"]
    assert hidden(tmp_path) == []


@pytest.mark.usefixtures("both_ways")
def test_a_restart_from_an_older_checkpoint_never_writes_a_name_that_is_taken(tmp_path: Path) -> None:
    run = SinkRun(text_sink(tmp_path, RollingPolicy.on_checkpoint_rolling_policy()), Types.STRING())
    first = run.checkpoint(["a"])
    run.checkpoint(["b"])
    run.restore(first).checkpoint(["b again"])
    assert sorted(lines(tmp_path)) == ["a", "b", "b again"]


@pytest.mark.usefixtures("both_ways")
def test_a_process_that_should_be_dead_cannot_write_into_what_a_new_attempt_finishes(tmp_path: Path) -> None:
    run = SinkRun(text_sink(tmp_path), Types.STRING())
    checkpoint = run.checkpoint(["a"])
    dead = run.writers[0]
    run.restore(checkpoint).checkpoint(["b"], end_of_input=True)
    dead.write("ghost", WriteContext(timestamp=None, watermark=0))
    dead.end_epoch()
    assert lines(tmp_path) == ["a", "b"]


@pytest.mark.usefixtures("both_ways")
def test_a_part_that_became_shorter_is_refused_by_name(tmp_path: Path) -> None:
    run = SinkRun(text_sink(tmp_path), Types.STRING())
    checkpoint = run.checkpoint(["abc"])
    (in_progress,) = hidden(tmp_path)
    os.truncate(in_progress, 2)
    with pytest.raises(SinkChangedError, match=r"has 2 bytes, but 4 were written"):
        run.restore(checkpoint)
    in_progress.unlink()
    with pytest.raises(ForeignCheckpointError, match="the file is gone"):
        run.restore(checkpoint)
    pending = SinkRun(text_sink(tmp_path / "x", RollingPolicy.on_checkpoint_rolling_policy()), Types.STRING())
    checkpoint = pending.checkpoint(["abc"], commit=False)
    os.truncate(hidden(tmp_path / "x")[0], 2)
    with pytest.raises(SinkChangedError, match="has 2 bytes, but 4 were written"):
        pending.commit(checkpoint)
    hidden(tmp_path / "x")[0].unlink()
    with pytest.raises(SinkChangedError, match="though the 4 bytes were written"):
        pending.commit(checkpoint)


@pytest.mark.usefixtures("both_ways")
def test_records_go_to_the_folder_of_their_bucket(tmp_path: Path) -> None:
    run = SinkRun(text_sink(tmp_path, assigner=ByFirstLetter()), Types.STRING()).epoch(["ax", "by"])
    run.lose_writers().checkpoint(["az"], end_of_input=True)
    assert {p.parent.name: p.read_text() for p in visible(tmp_path)} == {"letter=a": "ax\naz\n", "letter=b": "by\n"}
    assert run.states[0]["flinkish.file-sink.buckets"] == [], "finished buckets are forgotten"


@pytest.mark.usefixtures("both_ways")
def test_the_default_buckets_are_hours_of_processing_time(tmp_path: Path) -> None:
    sink = (
        FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.date_time_bucket_assigner(timezone_id="UTC"))
        .build()
    )
    run = SinkRun(loads(dumps(sink)), Types.STRING())
    run.now = 3_600_000 * 5
    run.epoch(["a"])
    run.now += 3_600_000
    run.checkpoint(["b"], end_of_input=True)
    assert [p.parent.name for p in visible(tmp_path)] == ["1970-01-01--05", "1970-01-01--06"]


@pytest.mark.parametrize(
    ("pattern", "zone", "expected"),
    [
        ("yyyy-MM-dd--HH", "UTC", "2021-03-04--05"),
        ("yyyy/M/d/H:m:s.SSS", "UTC", "2021/3/4/5:6:7.089"),
        ("'dt='yyyyMMdd'/''h'''hh a", "GMT-08:00", "dt=20210303/'h'09 PM"),
        ("DDD D E", "Asia/Kolkata", "063 63 Thu"),
        ("yy''", "+02:00", "21'"),
    ],
)
def test_date_patterns_are_java_s(pattern: str, zone: str, expected: str) -> None:
    assert format_time(1_614_834_367_089, pattern, zone) == expected


@pytest.mark.parametrize("pattern", ["yyyyy", "QQ", "yyyy'x", "xx"])
def test_patterns_that_are_not_supported_are_refused_when_the_sink_is_built(pattern: str) -> None:
    with pytest.raises(InvalidProgramError, match="format_str"):
        BucketAssigner.date_time_bucket_assigner(pattern)
    with pytest.raises(InvalidProgramError, match="No/Where"):
        BucketAssigner.date_time_bucket_assigner(timezone_id="No/Where")


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("bucket", ["../x", "/etc", "a/../../b", 5, None])
def test_a_bucket_outside_the_sink_s_path_is_refused(tmp_path: Path, bucket: Any) -> None:
    class Elsewhere(BucketAssigner):
        def get_bucket_id(self, element: Any, context: BucketContext) -> str:
            return bucket  # type: ignore[no-any-return]

    run = SinkRun(text_sink(tmp_path, assigner=Elsewhere()), Types.STRING())
    with pytest.raises(SinkError, match="get_bucket_id"):
        run.write(["a"])


@pytest.mark.usefixtures("both_ways")
def test_typed_rows_are_printed_as_flink_does(tmp_path: Path) -> None:
    run = SinkRun(text_sink(tmp_path), Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()]))
    run.checkpoint([Row(a=1, b=None)], end_of_input=True)
    assert lines(tmp_path) == ["+I[1, null]"]


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("in_list", [False, True])
@pytest.mark.parametrize("text", ["ab", ""])
def test_a_char_of_a_parquet_file_is_one_character_when_it_is_written(tmp_path: Path, text: str, in_list: bool) -> None:
    kind = Types.LIST(Types.CHAR()) if in_list else Types.CHAR()
    run = SinkRun(parquet_sink(tmp_path), Types.ROW_NAMED(["c"], [kind]))
    run.epoch([Row(c=["a", None] if in_list else "a"), Row(c=None)])
    with pytest.raises(TypeMismatchError, match=f"column 'c' .*'{text}' is not one character"):
        run.epoch([Row(c=[text] if in_list else text)])


@pytest.mark.usefixtures("both_ways")
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_parquet_rows_survive_lost_writers_and_restarts_once_each(tmp_path: Path, parallelism: int, committed: bool) -> None:
    run = SinkRun(parquet_sink(tmp_path), PAIR, parallelism=2).epoch([Row(k="a", v=1), Row(k="b", v=2)])
    run.lost_epoch([Row(k="c", v=3)]).epoch([Row(k="c", v=3)])
    checkpoint = run.lose_writers().checkpoint([Row(k="d", v=None)], commit=committed)
    run.epoch([Row(k="lost", v=0)]).restore(checkpoint, parallelism).epoch([Row(k="e", v=5)]).checkpoint(end_of_input=True)
    assert sorted(rows(tmp_path), key=str) == [("a", 1), ("b", 2), ("c", 3), ("d", None), ("e", 5)]
    assert hidden(tmp_path) == []


@pytest.mark.usefixtures("both_ways")
def test_bulk_files_have_their_bucket_s_rows(tmp_path: Path) -> None:
    class ByKey(BucketAssigner):
        def get_bucket_id(self, element: Any, context: BucketContext) -> str:
            return str(element.k)

    run = SinkRun(parquet_sink(tmp_path, ByKey()), PAIR).epoch([Row(k="a", v=1), Row(k="b", v=2)])
    run.lose_writers().checkpoint([Row(k="a", v=3)], end_of_input=True)
    assert sorted((p.parent.name, pq.read_table(p).num_rows) for p in visible(tmp_path)) == [("a", 2), ("b", 1)]


@pytest.mark.usefixtures("both_ways")
def test_many_rows_go_to_a_file_before_the_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_row_buffer, "BUFFER_ROWS", 10)
    run = SinkRun(parquet_sink(tmp_path), PAIR).epoch([Row(k="a", v=i) for i in range(12)])
    assert len(hidden(tmp_path)) == 1
    assert run.states[0]["flinkish.file-sink.rows"] == []
    run.lose_writers().checkpoint([Row(k="b", v=0)])
    assert len(rows(tmp_path)) == 13


@pytest.mark.usefixtures("both_ways")
def test_records_that_no_parquet_file_takes_are_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidProgramError, match="rows or tuples"):
        parquet_sink(tmp_path).validate(Types.STRING())
    run = SinkRun(parquet_sink(tmp_path), PAIR).write([Row(k="a", v=1), Row(k="b", v="x")])
    with pytest.raises(TypeMismatchError, match=r"column 'v' is Long.*got 'x' of type str"):
        run.end_epoch()
    with pytest.raises(TypeMismatchError, match=r"fields \['k', 'v'\]"):
        run.write([Row(1, 2, 3)])
    with pytest.raises(SinkError, match="only appends; got a row of kind -D"):
        run.write([Row.of_kind(RowKind.DELETE, "a", 1)])


def test_wrong_settings_are_refused_when_the_sink_is_built(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="needs an Encoder"):
        FileSink.for_row_format(str(tmp_path), "text")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="writer factory"):
        FileSink.for_bulk_format(str(tmp_path), "parquet")  # type: ignore[arg-type]
    builder = FileSink.for_bulk_format(str(tmp_path), ParquetWriterFactory())
    with pytest.raises(InvalidArgumentError, match="OnCheckpointRollingPolicy"):
        builder.with_rolling_policy(RollingPolicy.default_rolling_policy())  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="part_size"):
        RollingPolicy.default_rolling_policy(part_size=0)
    with pytest.raises(InvalidArgumentError, match="part_prefix"):
        OutputFileConfig.builder().with_part_prefix("a/b").build()
    (tmp_path / "file").write_text("")
    with pytest.raises(SinkError, match="is a file; a folder is needed"):
        text_sink(tmp_path / "file").validate(Types.STRING())


def test_the_old_sink_has_the_same_builders(tmp_path: Path) -> None:
    assert isinstance(StreamingFileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build(), FileSink)
    assert OutputFileConfig("p", "s").get_part_prefix() + OutputFileConfig("p", "s").get_part_suffix() == "ps"

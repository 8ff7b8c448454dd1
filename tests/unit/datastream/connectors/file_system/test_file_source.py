"""FileSource: finding files, splits, text lines, restarts at any position."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SourceChangedError, SourceError, UnsupportedError
from flinkish.common.time import Duration
from flinkish.common.typeinfo import Types
from flinkish.datastream.connectors.base import Boundedness, InputStatus
from flinkish.datastream.connectors.file_system import (
    FileEnumeratorProvider,
    FileSource,
    FileSplitAssignerProvider,
    StreamFormat,
)
from flinkish.datastream.connectors.file_system.splits import FileEnumeratorState, FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy, SideOutputRecord
from flinkish.datastream.output_tag import OutputTag
from tests.unit.datastream.connectors.fakes import (
    FakeEnumeratorContext,
    FakeMetricGroup,
    FakeOutput,
    FakeReaderContext,
    SourceRun,
    stored,
)


def text_source(*paths: Path | str, charset: str = "UTF-8", block_size: int | None = None) -> FileSource:
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(charset), *map(str, paths))
    if block_size is not None:
        builder.set_file_enumerator(FileEnumeratorProvider.default_splittable_file_enumerator(block_size))
    return builder.build()


def test_lines_come_in_order_without_their_ends(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\ntwo\r\n\nfour")
    source = text_source(tmp_path)
    assert SourceRun(source).values() == ["one", "two", "", "four"]
    assert source.produced_type() == Types.STRING()
    assert source.boundedness is Boundedness.BOUNDED


def test_folders_are_searched_in_the_order_of_names_and_hidden_names_left_out(tmp_path: Path) -> None:
    for name in ("b/2.txt", "a.txt", "b/1.txt", ".hidden", "_SUCCESS", "_temporary/x.txt", ".dot/x.txt", "c.txt"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(name + "\n")
    assert SourceRun(text_source(tmp_path)).values() == ["a.txt", "b/1.txt", "b/2.txt", "c.txt"]


def test_several_paths_and_a_file_scheme_are_read_once_each(tmp_path: Path) -> None:
    first, second = tmp_path / "first file.txt", tmp_path / "second.txt"
    first.write_text("1\n")
    second.write_text("2\n")
    uri = "file://" + str(first).replace(" ", "%20")
    assert SourceRun(text_source(uri, second, first)).values() == ["1", "2"]


@pytest.mark.parametrize("name", ["a#b", "a?b", "a b"])
def test_the_path_of_a_file_url_is_all_that_stands_behind_its_host(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "f").write_text("right")
    (tmp_path / "a").write_text("wrong")
    for host in ("", "localhost"):
        assert SourceRun(text_source(f"file://{host}{tmp_path}/{name}")).values() == ["right"]
    with pytest.raises(UnsupportedError, match=r"'file://tmp/x': 'tmp', which stands before the path"):
        text_source("file://tmp/x")


def test_a_tilde_is_the_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "f").write_text("a")
    assert SourceRun(text_source("~/f")).values() == ["a"]


def test_a_link_to_nothing_and_links_in_a_circle_are_errors(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a")
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(SourceError, match=r"link is a link to .*gone, which is not there"):
        SourceRun(text_source(tmp_path)).values()
    (tmp_path / "link").unlink()
    (tmp_path / "circle").symlink_to(tmp_path)
    with pytest.raises(SourceError, match=r"FileSource cannot read .*circle"):
        SourceRun(text_source(tmp_path)).values()


def test_an_empty_file_has_no_lines(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    assert SourceRun(text_source(tmp_path)).values() == []


@pytest.mark.parametrize("restart_readers", [False, True])
@pytest.mark.parametrize("block_size", [None, 1, 2, 7, 64, 10_000])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_every_line_is_read_once_however_the_file_is_cut(
    tmp_path: Path, block_size: int | None, parallelism: int, restart_readers: bool
) -> None:
    lines = [f"line {i} " + "ü" * (i % 5) for i in range(40)]
    lines[7] = lines[30] = ""
    (tmp_path / "a.txt").write_text("\n".join(lines))
    run = SourceRun(text_source(tmp_path, block_size=block_size), parallelism, credit=3, restart_readers=restart_readers)
    values = run.values()
    assert sorted(values) == sorted(lines)
    if parallelism == 1:
        assert values == lines


def test_random_files_read_the_same_at_any_cut_and_credit(tmp_path: Path) -> None:
    chance = random.Random(7)
    path = tmp_path / "a.txt"
    for round_ in range(60):
        lines = ["x" * chance.choice([0, 1, 2, 5, 30]) + str(i) for i in range(chance.randrange(30))]
        text = "\n".join(lines) + chance.choice(["", "\n"])
        path.write_text(text)
        expected = text.split("\n")
        if expected[-1] == "":
            expected.pop()
        source = text_source(path, block_size=chance.randrange(1, 40))
        run = SourceRun(source, credit=chance.randrange(1, 9), restart_readers=chance.random() < 0.5)
        assert run.values() == expected, f"round {round_}: {text!r}"


def test_lines_longer_than_the_read_buffer_are_whole(tmp_path: Path) -> None:
    lines = ["a" * 700_000, "b", "c" * 300_000]
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n")
    assert SourceRun(text_source(tmp_path), credit=1, restart_readers=True).values() == lines
    assert SourceRun(text_source(tmp_path, block_size=1000)).values() == lines


def zstandard(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    written: bytes = sink.getvalue().to_pybytes()
    return written


@pytest.mark.parametrize("restart_readers", [False, True])
@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("a.gz", gzip.compress),
        ("a.gzip", gzip.compress),
        ("a.bz2", bz2.compress),
        ("a.xz", lzma.compress),
        ("a.deflate", zlib.compress),
        ("a.zst", zstandard),
    ],
)
def test_compressed_files_are_read_as_one_split(tmp_path: Path, name: str, compress: Any, restart_readers: bool) -> None:
    lines = [f"line {i}" for i in range(50)]
    (tmp_path / name).write_bytes(compress("\n".join(lines).encode()))
    run = SourceRun(text_source(tmp_path, block_size=5), parallelism=2, credit=7, restart_readers=restart_readers)
    assert run.by_subtask() == {0: lines, 1: []}


def test_a_damaged_compressed_file_is_named(tmp_path: Path) -> None:
    data = gzip.compress(b"line\n" * 100_000)
    (tmp_path / "cut.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(SourceError, match=r"cannot decompress .*cut\.gz"):
        SourceRun(text_source(tmp_path), credit=1000).values()
    (tmp_path / "cut.gz").write_bytes(b"no gzip")
    with pytest.raises(SourceError, match=r"cannot decompress .*cut\.gz"):
        SourceRun(text_source(tmp_path)).values()


@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("a.bz2", bz2.compress),
        ("a.xz", lzma.compress),
        ("a.gz", gzip.compress),
        ("a.deflate", zlib.compress),
        ("a.zst", zstandard),
    ],
)
def test_files_of_several_compressed_streams_are_read_to_their_end_or_named(tmp_path: Path, name: str, compress: Any) -> None:
    lines = [f"line {i}" for i in range(3000)]
    parts = [compress("".join(f"{line}\n" for line in lines[i : i + 1000]).encode()) for i in (0, 1000, 2000)]
    (tmp_path / name).write_bytes(parts[0] + b"\0" * 4 * (name == "a.xz") + parts[1] + parts[2])
    assert SourceRun(text_source(tmp_path), credit=700, restart_readers=True).values() == lines
    for damaged in (parts[0] + b"\1" + parts[1], parts[0] + parts[1][:-30] + parts[2], parts[0] + parts[1][:-1]):
        (tmp_path / name).write_bytes(damaged)
        with pytest.raises(SourceError, match=rf"cannot decompress .*{name}"):
            SourceRun(text_source(tmp_path)).values()


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "deflate"])
def test_a_compressed_file_without_any_bytes_was_cut_short(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.{suffix}").touch()
    with pytest.raises(SourceError, match="it ends in the middle"):
        SourceRun(text_source(tmp_path)).values()


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "utf-32", "ISO-8859-1", "cp1252", "shift_jis", "utf-8-sig"])
@pytest.mark.parametrize("block_size", [None, 10])
def test_lines_in_other_character_sets(tmp_path: Path, charset: str, block_size: int | None) -> None:
    lines = ["plain", "", "日本\u010a" if charset.startswith("utf") else "日本" if charset == "shift_jis" else "grün", "last\r"]
    (tmp_path / "a.txt").write_bytes("\n".join(lines).encode(charset))
    run = SourceRun(text_source(tmp_path, charset=charset, block_size=block_size), credit=1, restart_readers=True)
    assert run.values() == [*lines[:3], "last"]


def test_an_undecodable_line_fails_the_job_naming_file_line_and_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good\nb\xffd\ngood\n")
    with pytest.raises(SourceError, match=r"a\.txt, line 2: .*utf-8.*b\\\\xffd"):
        SourceRun(text_source(tmp_path)).values()


def test_the_line_number_is_right_in_a_region_and_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good\n" * 20 + b"b\xffd\n" + b"good\n" * 20)
    for run in (
        SourceRun(text_source(tmp_path, block_size=40), parallelism=3, credit=4),
        SourceRun(text_source(tmp_path), credit=3, restart_readers=True),
    ):
        with pytest.raises(SourceError, match=r"a\.txt, line 21:"):
            run.values()


def test_skipped_lines_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xff\ngood\n\xfe\n")
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
        .on_record_error(RecordErrorPolicy.skip())
        .build()
    )
    metrics = FakeMetricGroup()
    assert SourceRun(source, credit=1, metric_group=metrics).values() == ["good"]
    assert metrics.counters["numRecordsInErrors"].count == 2


def test_bad_lines_go_to_a_side_output(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"good\nb\xffd\n")
    row_tag, text_tag = OutputTag("rows"), OutputTag("texts", Types.STRING())
    results = []
    for tag in (row_tag, text_tag):
        builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
        good, bad = SourceRun(builder.on_record_error(RecordErrorPolicy.side_output(tag)).build()).values()
        assert good == "good"
        assert isinstance(bad, SideOutputRecord)
        assert bad.tag == tag
        results.append(bad.value)
    assert results[0].as_dict() == {
        "path": str(tmp_path / "a.txt"),
        "line": 2,
        "reason": "the line is not text in the character set utf-8",
        "record": "b\\xffd",
    }
    assert results[1] == f"{tmp_path}/a.txt, line 2: the line is not text in the character set utf-8: b\\xffd"


def test_a_tag_of_another_type_is_refused_for_bad_records() -> None:
    with pytest.raises(InvalidArgumentError, match="cannot take records that could not be read"):
        RecordErrorPolicy.side_output(OutputTag("numbers", Types.INT()))
    with pytest.raises(InvalidArgumentError, match="OutputTag"):
        RecordErrorPolicy.side_output("tag")  # type: ignore[arg-type]


def test_a_missing_path_is_refused_when_the_job_is_built(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"nothing is at .*/no/such/file") as caught:
        text_source(tmp_path / "no" / "such" / "file").validate()
    assert f"{tmp_path} exists" in str(caught.value)
    (tmp_path / "a").write_text("")
    text_source(tmp_path / "a").validate()


def test_a_file_that_goes_away_or_shrinks_before_it_is_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("one\ntwo\n")
    reader = text_source(tmp_path).create_reader(FakeReaderContext())
    reader.add_splits([FileSourceSplit(split_id="x", path=str(path), offset=0, length=None, file_size=100)])
    with pytest.raises(SourceError, match="was 100 bytes long when it was found, and now has 8"):
        reader.poll_next(FakeOutput(1))
    path.unlink()
    for modified in (None, 1):
        reader = text_source(tmp_path).create_reader(FakeReaderContext())
        reader.add_splits([FileSourceSplit(split_id="x", path=str(path), offset=0, length=None, file_size=8, modified=modified)])
        with pytest.raises(SourceError, match=r"a\.txt is gone"):
            reader.poll_next(FakeOutput(1))


def test_wrong_arguments_are_refused_when_the_source_is_built(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="needs a StreamFormat"):
        FileSource.for_record_stream_format("text", str(tmp_path))  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="at least one path"):
        FileSource.for_record_stream_format(StreamFormat.text_line_format())
    with pytest.raises(UnsupportedError, match=r"hdfs://host/x.*of s3://, gs:// and abfss://"):
        text_source("hdfs://host/x")
    with pytest.raises(InvalidArgumentError, match="'hex' is not a character set"):
        text_source(tmp_path, charset="hex")
    with pytest.raises(InvalidArgumentError, match="no-such-charset"):
        StreamFormat.text_line_format("no-such-charset")
    builder = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    with pytest.raises(InvalidArgumentError, match="takes a Duration"):
        builder.monitor_continuously(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="at least a millisecond"):
        builder.monitor_continuously(Duration.of_nanos(5))
    assert isinstance(builder.set_split_assigner(FileSplitAssignerProvider.locality_aware_split_assigner()).build(), FileSource)


def test_small_files_are_handed_out_together_and_leave_some_for_the_others(tmp_path: Path) -> None:
    for i in range(10):
        (tmp_path / f"{i}.txt").write_text("x\n")
    context = FakeEnumeratorContext(2)
    enumerator = text_source(tmp_path).create_enumerator(context)
    enumerator.start()
    enumerator.handle_split_request(0)
    enumerator.handle_split_request(1)
    assert (len(context.assigned[0]), len(context.assigned[1])) == (5, 3)


def monitored(path: Path) -> FileSource:
    return (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(path))
        .monitor_continuously(Duration.of_seconds(1))
        .build()
    )


def names(splits: list[FileSourceSplit]) -> list[str]:
    return [Path(split.path).name for split in splits]


def test_monitoring_finds_each_new_file_once_and_wakes_waiting_readers(tmp_path: Path) -> None:
    source = monitored(tmp_path)
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    context = FakeEnumeratorContext(2)
    (tmp_path / "a").write_text("1\n")
    enumerator = source.create_enumerator(context)
    enumerator.start()
    assert context.calls[0][2] == 1000
    enumerator.handle_split_request(0)
    enumerator.handle_split_request(1)
    assert names(context.assigned[0]) == ["a"]
    (tmp_path / "b").write_text("2\n")
    context.run_calls()
    context.run_calls()
    assert names(context.assigned[1]) == ["b"]
    assert context.no_more == set()


def test_monitoring_goes_on_after_a_restore_without_reading_a_file_again(tmp_path: Path) -> None:
    source = monitored(tmp_path)
    (tmp_path / "a").write_text("1\n")
    (tmp_path / "b").write_text("2\n")
    first = FakeEnumeratorContext(2)
    enumerator = source.create_enumerator(first)
    enumerator.start()
    enumerator.handle_split_request(0)
    checkpoint = stored(enumerator.snapshot_state(1), FileEnumeratorState)
    (tmp_path / "c").write_text("3\n")
    context = FakeEnumeratorContext(1)
    restored = source.restore_enumerator(context, checkpoint)
    restored.add_splits_back(first.assigned[0], 0)
    restored.start()
    context.run_calls()
    restored.handle_split_request(0)
    assert names(context.assigned[0]) == ["a", "b", "c"]


def test_monitoring_that_begins_after_a_restore_reads_no_file_again(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("1\n")
    first = FakeEnumeratorContext(2)
    enumerator = text_source(tmp_path).create_enumerator(first)
    enumerator.start()
    enumerator.handle_split_request(0)
    assert names(first.assigned[0]) == ["a"]
    checkpoint = stored(enumerator.snapshot_state(1), FileEnumeratorState)
    (tmp_path / "c").write_text("3\n")
    context = FakeEnumeratorContext(1)
    restored = monitored(tmp_path).restore_enumerator(context, checkpoint)
    restored.start()
    context.run_calls()
    restored.handle_split_request(0)
    assert names(context.assigned[0]) == ["b", "c"]


def test_monitoring_fails_with_the_error_of_a_path_that_goes_away(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    context = FakeEnumeratorContext()
    monitored(folder).create_enumerator(context).start()
    folder.rmdir()
    with pytest.raises(SourceError, match="nothing is at"):
        context.run_calls()


def test_a_reader_that_monitors_waits_when_its_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("1\n")
    source = monitored(tmp_path)
    reader = source.create_reader(FakeReaderContext())
    reader.add_splits([FileSourceSplit(split_id="a", path=str(path), offset=0, length=None, file_size=2, line=0)])
    output = FakeOutput(10)
    assert reader.poll_next(output) is InputStatus.NOTHING_AVAILABLE
    assert (output.values, output.finished, list(reader.snapshot_state())) == (["1"], ["a"], [])


def test_a_bounded_source_restored_reads_only_what_was_not_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("1\n2\n3\n")
    source = text_source(tmp_path)
    context = FakeEnumeratorContext()
    enumerator = source.create_enumerator(context)
    enumerator.start()
    enumerator.handle_split_request(0)
    reader = source.create_reader(FakeReaderContext())
    reader.add_splits(context.assigned[0])
    reader.poll_next(FakeOutput(2))
    splits = [stored(split, FileSourceSplit) for split in reader.snapshot_state()]
    reader.close()
    checkpoint = stored(enumerator.snapshot_state(1), FileEnumeratorState)
    again = FakeEnumeratorContext()
    restored = source.restore_enumerator(again, checkpoint)
    restored.add_splits_back(splits, 0)
    restored.start()
    restored.handle_split_request(0)
    restored.handle_split_request(0)
    assert again.no_more == {0}
    output = FakeOutput(10)
    reader = source.create_reader(FakeReaderContext())
    reader.add_splits(again.assigned[0])
    reader.poll_next(output)
    assert output.values == ["3"]


def replaced(content: bytes) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        other = path.with_name(".other")
        other.write_bytes(content)
        other.replace(path)

    return change


def written_again(path: Path) -> None:
    path.write_bytes(b"9" * path.stat().st_size)
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 5_000_000))


LINES = b"".join(b"%d\n" % number for number in range(9))
CHANGES = [
    (replaced(b"new\n" * 100), "replaced by another one, of 400 bytes"),
    (replaced(b"new\n"), "cut to 4 bytes, or replaced"),
    (written_again, "written again"),
]


class OneFile:
    """Reads a file from the moment when the enumerator finds it."""

    def __init__(self, path: Path) -> None:
        self.source = text_source(path)
        context = FakeEnumeratorContext(1)
        enumerator = self.source.create_enumerator(context)
        enumerator.start()
        enumerator.handle_split_request(0)
        self.splits = context.assigned[0]
        self.begin()

    def begin(self) -> None:
        self.reader = self.source.create_reader(FakeReaderContext())
        self.reader.start()
        self.reader.add_splits([stored(split, FileSourceSplit) for split in self.splits])
        self.reader.notify_no_more_splits()

    def take(self, credit: int) -> list[str]:
        output = FakeOutput(credit)
        self.reader.poll_next(output)
        return output.values

    def resume(self) -> None:
        self.splits = list(self.reader.snapshot_state())
        self.reader.close()
        self.begin()


@pytest.mark.parametrize(("change", "expected"), CHANGES)
@pytest.mark.parametrize("when", ["before", "while", "resumed"])
def test_a_local_file_that_is_changed_before_it_is_read_to_its_end_is_an_error(
    when: str, change: Callable[[Path], None], expected: str, tmp_path: Path
) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(LINES)
    file = OneFile(path)
    if when != "before":
        assert file.take(2) == ["0", "1"]
    if when == "resumed":
        file.resume()
    change(path)
    try:
        with pytest.raises(SourceChangedError, match=rf"file\.txt, which had 18 bytes .* was {expected}"):
            file.take(100)
    finally:
        file.reader.close()


@pytest.mark.parametrize("resumed", [False, True])
def test_a_local_file_that_only_grows_is_read_to_its_new_end(resumed: bool, tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(LINES)
    file = OneFile(path)
    values = file.take(2)
    if resumed:
        file.resume()
    with path.open("ab") as more:
        more.write(b"9\n")
    assert [*values, *file.take(100)] == [str(number) for number in range(10)]

"""Merging of FileSink's files: when, how, and exactly once after lost epochs, repeated ones and restores."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from flinkish.common.errors import (
    ForeignCheckpointError,
    InvalidArgumentError,
    InvalidProgramError,
    NotSerializableError,
    SinkError,
)
from flinkish.common.serialization import Encoder
from flinkish.common.time import Instant
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    OnCheckpointRollingPolicy,
    ParquetWriterFactory,
    RollingPolicy,
)
from flinkish.datastream.connectors.file_system.compaction import ClosedFile, groups_to_merge
from flinkish.datastream.connectors.file_system.parts import FileCommittable, PartFile
from flinkish.datastream.formats.orc import OrcBulkWriters
from tests.kit.programs import id_of
from tests.unit.datastream.connectors.fakes import Checkpoint, SinkRun
from tests.unit.datastream.connectors.file_system.test_file_sink import ByFirstLetter, hidden, lines, rows, visible

PAIR = Types.ROW_NAMED(["k", "v"], [Types.STRING(), Types.LONG()])


def strategy(size: int | None = None, checkpoints: int | None = None, threads: int = 1) -> FileCompactStrategy:
    builder = FileCompactStrategy.builder().set_num_compact_threads(threads)
    if size is not None:
        builder.set_size_threshold(size)
    if checkpoints is not None:
        builder.enable_compaction_on_checkpoint(checkpoints)
    return builder.build()


def closed(name: str, length: int) -> FileCommittable:
    return FileCommittable(part=PartFile(in_progress=f".{name}", final=name), length=length)


@pytest.mark.parametrize(
    ("sizes", "checkpoints", "given", "end", "groups", "rest"),
    [
        ([4, 4], 1, strategy(size=10), False, [], [4, 4]),
        ([4, 6], 1, strategy(size=10), False, [[4, 6]], []),
        ([4, 6, 3, 12, 1], 1, strategy(size=10), False, [[4, 6], [3, 12]], [1]),
        ([4, 4], 1, strategy(size=10), True, [[4, 4]], []),
        ([4, 4], 1, strategy(checkpoints=2), False, [], [4, 4]),
        ([4, 4], 2, strategy(checkpoints=2), False, [[4, 4]], []),
        ([4, 6, 1], 2, strategy(size=10, checkpoints=2), False, [[4, 6], [1]], []),
        ([], 5, strategy(checkpoints=1), True, [], []),
        ([0, 0], 1, strategy(size=1), False, [], [0, 0]),
        ([0, 5], 1, strategy(size=0), False, [[0], [5]], []),
        ([4, 4], 2, strategy(size=-1, checkpoints=2), False, [[4, 4]], []),
    ],
)
def test_files_are_grouped_by_size_and_age(
    sizes: list[int], checkpoints: int, given: FileCompactStrategy, end: bool, groups: list[list[int]], rest: list[int]
) -> None:
    files = [closed(str(i), size) for i, size in enumerate(sizes)]
    found, left = groups_to_merge(files, checkpoints, given, end)
    assert [[file.length for file in group] for group in found] == groups
    assert [file.length for file in left] == rest


class TwoStages:
    """Runs the writers of a sink and what merges their files, as the two operators do."""

    def __init__(self, sink: FileSink, input_type: Any = None, parallelism: int = 2) -> None:
        transformer = sink.get_transformer()
        self.writers = SinkRun(transformer.sink, input_type or Types.STRING(), parallelism)
        self.compactors = SinkRun(sink, parallelism=parallelism)

    def checkpoint(self, values: Sequence[Any] = (), *, end_of_input: bool = False, commit: bool = True) -> Any:
        first = self.writers.checkpoint(values, end_of_input=end_of_input, commit=False)
        second = self.compactors.checkpoint(
            [request.committable for request in first.requests], end_of_input=end_of_input, commit=commit
        )
        return Checkpoint(first.id, first.states, [], first.lineage), second

    def after(self, values: Sequence[Any]) -> Self:
        """Take a checkpoint that nobody looks at."""
        self.checkpoint(values)
        return self

    def epoch(self, values: Sequence[Any]) -> Self:
        self.writers.epoch(values)
        self.compactors.epoch([])
        return self

    def restore(self, checkpoint: tuple[Checkpoint, Checkpoint], parallelism: int, *, lineage: str | None = None) -> Self:
        self.writers.restore(checkpoint[0], parallelism, lineage=lineage)
        self.compactors.restore(checkpoint[1], parallelism, lineage=lineage)
        return self


def text_sink(
    path: Path,
    given: FileCompactStrategy,
    compactor: FileCompactor | None = None,
    assigner: BucketAssigner | None = None,
    policy: RollingPolicy | None = None,
) -> FileSink:
    return (
        FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
        .with_bucket_assigner(assigner or BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(policy or OnCheckpointRollingPolicy())
        .enable_compact(given, compactor or FileCompactor.concat_file_compactor())
        .build()
    )


def test_files_of_all_subtasks_become_one_at_each_checkpoint(tmp_path: Path) -> None:
    run = TwoStages(text_sink(tmp_path, strategy(checkpoints=1)), parallelism=1)
    # as if there were two writers before one compactor
    run.writers = SinkRun(run.writers.sink, Types.STRING(), parallelism=2)
    run.checkpoint(["a", "b", "c"])
    (merged,) = visible(tmp_path)
    assert merged.name.startswith("compacted-part-")
    assert sorted(lines(tmp_path)) == ["a", "b", "c"]
    assert hidden(tmp_path) == []
    run.checkpoint(["d", "e"])
    assert len(visible(tmp_path)) == 2
    assert sorted(lines(tmp_path)) == ["a", "b", "c", "d", "e"]


def test_nothing_is_visible_until_the_files_are_merged(tmp_path: Path) -> None:
    run = TwoStages(text_sink(tmp_path, strategy(checkpoints=3)), parallelism=1).after(["a"])
    run.checkpoint(["b"])
    assert visible(tmp_path) == []
    run.checkpoint(["c"])
    assert [path.read_text() for path in visible(tmp_path)] == ["a\nb\nc\n"]
    assert hidden(tmp_path) == []


@pytest.mark.parametrize("first", ["old", "new"])
def test_files_that_wait_in_another_job_are_merged_as_copies_and_stay(tmp_path: Path, first: str) -> None:
    old = TwoStages(text_sink(tmp_path, strategy(checkpoints=3)), parallelism=1).after(["a"])
    savepoint = old.checkpoint(["b"])
    new = TwoStages(text_sink(tmp_path, strategy(checkpoints=3)), parallelism=1).restore(savepoint, 1, lineage="another")
    for name, run in (("old", old), ("new", new)) if first == "old" else (("new", new), ("old", old)):
        run.checkpoint([name])
    assert sorted(path.read_text() for path in visible(tmp_path)) == ["a\nb\nnew\n", "a\nb\nold\n"]
    assert hidden(tmp_path) == []


def test_a_size_threshold_makes_files_of_about_that_size(tmp_path: Path) -> None:
    run = TwoStages(text_sink(tmp_path, strategy(size=10, threads=3)), parallelism=1)
    for _ in range(7):
        run.checkpoint(["abc"])
    assert [path.stat().st_size for path in visible(tmp_path)] == [12, 12]
    run.checkpoint(end_of_input=True)
    assert sorted(path.stat().st_size for path in visible(tmp_path)) == [4, 12, 12]
    assert lines(tmp_path) == ["abc"] * 7


def test_buckets_are_merged_each_for_itself(tmp_path: Path) -> None:
    run = TwoStages(text_sink(tmp_path, strategy(checkpoints=2, threads=2), assigner=ByFirstLetter()), parallelism=1)
    run.checkpoint(["a1", "b1"])
    run.checkpoint(["a2", "b2"])
    assert {path.parent.name: path.read_text() for path in visible(tmp_path)} == {
        "letter=a": "a1\na2\n",
        "letter=b": "b1\nb2\n",
    }


def test_a_delimiter_stands_between_files_only(tmp_path: Path) -> None:
    run = TwoStages(text_sink(tmp_path, strategy(checkpoints=2), FileCompactor.concat_file_compactor(b"--\n")), parallelism=1)
    run.checkpoint(["a"])
    run.checkpoint(["b"])
    assert [path.read_text() for path in visible(tmp_path)] == ["a\n--\nb\n"]
    assert FileCompactor.concat_file_compactor(bytearray(b"-")) == FileCompactor.concat_file_compactor(b"-")


def test_a_single_file_keeps_its_name_and_needs_no_copy(tmp_path: Path) -> None:
    run = TwoStages(text_sink(tmp_path, strategy(checkpoints=1), FileCompactor.identical_file_compactor()), parallelism=1)
    run.checkpoint(["a"])
    assert [path.name[:5] for path in visible(tmp_path)] == ["part-"]


def test_the_identical_compactor_refuses_several_files(tmp_path: Path) -> None:
    run = TwoStages(text_sink(tmp_path, strategy(checkpoints=2), FileCompactor.identical_file_compactor()), parallelism=1)
    run.checkpoint(["a"])
    with pytest.raises(SinkError, match="takes over a single file; there are 2"):
        run.checkpoint(["b"])


def test_only_the_bytes_that_count_are_merged(tmp_path: Path) -> None:
    run = TwoStages(text_sink(tmp_path, strategy(checkpoints=2)), parallelism=1).after(["a"])
    (waiting,) = hidden(tmp_path)
    waiting.write_text("a\nwritten by an epoch that was thrown away\n")
    run.checkpoint(["b"])
    assert lines(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("committed", [True, False])
def test_waiting_files_survive_a_restore_at_another_parallelism(tmp_path: Path, parallelism: int, committed: bool) -> None:
    sink = text_sink(tmp_path, strategy(checkpoints=3), assigner=ByFirstLetter())
    run = TwoStages(sink).after(["a1", "b1", "c1"])
    saved = run.checkpoint(["a2", "b2"], commit=committed)
    # lost: an epoch, and a checkpoint that was never completed
    run.epoch(["a3"]).checkpoint(["b3"], commit=False)
    run.restore(saved, parallelism).checkpoint(["a4", "c4"])
    run.checkpoint(end_of_input=True)
    assert sorted(lines(tmp_path)) == ["a1", "a2", "a4", "b1", "b2", "c1", "c4"]


def test_a_crash_between_checkpoint_and_commit_merges_once(tmp_path: Path) -> None:
    run = TwoStages(text_sink(tmp_path, strategy(checkpoints=2)), parallelism=1).after(["a"])
    saved = run.checkpoint(["b"], commit=False)
    assert visible(tmp_path) == []
    run.restore(saved, 1)
    assert [path.read_text() for path in visible(tmp_path)] == ["a\nb\n"]
    run.restore(saved, 2)  # committed again: no harm
    run.checkpoint(end_of_input=True)
    assert [path.read_text() for path in visible(tmp_path)] == ["a\nb\n"]


def test_lost_compactors_start_from_the_last_epoch(tmp_path: Path) -> None:
    run = TwoStages(text_sink(tmp_path, strategy(checkpoints=2)), parallelism=1).after(["a"])
    run.compactors.lose_writers()
    run.writers.lose_writers()
    run.checkpoint(["b"])
    assert lines(tmp_path) == ["a", "b"]


def test_files_in_progress_go_on_over_checkpoints_and_their_copies_are_removed(tmp_path: Path) -> None:
    run = TwoStages(text_sink(tmp_path, strategy(checkpoints=1), policy=RollingPolicy.default_rolling_policy()), parallelism=1)
    run.checkpoint(["a"])
    run.writers.lose_writers()
    run.compactors.lose_writers()
    run.checkpoint(["b"])
    run.checkpoint(["c"], end_of_input=True)
    assert lines(tmp_path) == ["a", "b", "c"]
    assert hidden(tmp_path) == []


def test_a_waiting_file_that_is_gone_is_named(tmp_path: Path) -> None:
    run = TwoStages(text_sink(tmp_path, strategy(checkpoints=2)), parallelism=1).after(["a"])
    (waiting,) = hidden(tmp_path)
    waiting.unlink()
    with pytest.raises(
        ForeignCheckpointError, match=rf"cannot merge files for .*{waiting.name} is gone(?s:.*)restore the latest"
    ):
        run.checkpoint(["b"])


def test_disabled_compaction_passes_on_what_waited(tmp_path: Path) -> None:
    run = TwoStages(text_sink(tmp_path, strategy(checkpoints=10)), parallelism=1).after(["a"])
    saved = run.checkpoint(["b"])
    assert visible(tmp_path) == []
    disabled = (
        FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(OnCheckpointRollingPolicy())
        .disable_compact()
        .build()
    )
    again = TwoStages(disabled, parallelism=1).restore(saved, 1)
    again.checkpoint(["c"])
    assert sorted(lines(tmp_path)) == ["a", "b", "c"]
    assert len(visible(tmp_path)) == 3
    assert hidden(tmp_path) == []


def parquet_sink(path: Path, given: FileCompactStrategy, compactor: FileCompactor) -> FileSink:
    return (
        FileSink.for_bulk_format(str(path), ParquetWriterFactory(compression="zstd"))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .enable_compact(given, compactor)
        .build()
    )


def test_parquet_files_are_merged_record_by_record(tmp_path: Path) -> None:
    sink = parquet_sink(tmp_path, strategy(checkpoints=3), FileCompactor.record_wise_file_compactor())
    run = TwoStages(sink, PAIR, parallelism=1)
    for i in range(3):
        run.checkpoint([("k", 2 * i), (None, 2 * i + 1)])
    (merged,) = visible(tmp_path)
    assert pq.ParquetFile(merged).metadata.row_group(0).column(0).compression == "ZSTD"
    assert rows(tmp_path) == [("k", 0), (None, 1), ("k", 2), (None, 3), ("k", 4), (None, 5)]
    assert hidden(tmp_path) == []


def test_parquet_files_of_two_schemas_are_not_merged(tmp_path: Path) -> None:
    one, two = tmp_path / "1", tmp_path / "2"
    pq.write_table(pa.table({"a": [1]}), one)
    pq.write_table(pa.table({"b": [1]}), two)
    with pytest.raises(ValueError, match="schema"):
        ParquetWriterFactory().merge([str(one), str(two)], str(tmp_path / "3"))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Types.SQL_TIMESTAMP(), datetime.datetime(9999, 12, 31)),
        (Types.LIST(Types.SQL_TIMESTAMP()), [datetime.datetime(1, 1, 1)]),
        (Types.INSTANT(), Instant.of_epoch_milli(253_402_214_400_000)),
    ],
)
def test_orc_files_with_times_that_arrow_cannot_read_back_stay_apart(
    tmp_path: Path, kind: TypeInformation, value: Any, caplog: pytest.LogCaptureFixture
) -> None:
    sink = (
        FileSink.for_bulk_format(str(tmp_path), OrcBulkWriters.for_row_type(Types.ROW_NAMED(["at"], [kind])))
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .enable_compact(strategy(checkpoints=2), FileCompactor.record_wise_file_compactor())
        .build()
    )
    run = TwoStages(sink, PAIR, parallelism=1)
    for values in ([(value,)], [(None,)], [(None,)], [(None,)]):
        run.checkpoint(values)
    assert sorted(path.name[:5] for path in visible(tmp_path)) == ["compa", "part-", "part-"]
    assert sum(orc.ORCFile(path).nrows for path in visible(tmp_path)) == 4
    assert hidden(tmp_path) == []
    assert "from 1677 to 2262" in caplog.text


def test_a_damaged_orc_file_is_not_left_unmerged_in_silence(tmp_path: Path) -> None:
    factory = OrcBulkWriters.for_row_type(Types.ROW_NAMED(["a"], [Types.INT()]))
    (tmp_path / "1").write_bytes(b"ORC")
    with pytest.raises(OSError, match="too small"):
        factory.merge([str(tmp_path / "1")], str(tmp_path / "2"))  # type: ignore[attr-defined]


class Backwards(FileCompactor):
    """One of the user's own."""

    def compact(self, files: Sequence[ClosedFile], target: str) -> None:
        Path(target).write_bytes(b"".join(Path(file.path).read_bytes()[: file.length] for file in reversed(files)))


def test_a_compactor_of_the_users_own(tmp_path: Path) -> None:
    run = TwoStages(text_sink(tmp_path, strategy(checkpoints=2), Backwards()), parallelism=1).after(["a"])
    run.checkpoint(["b"])
    assert [path.read_text() for path in visible(tmp_path)] == ["b\na\n"]


def test_wrong_settings_are_refused() -> None:
    builder = FileCompactStrategy.builder
    with pytest.raises(InvalidProgramError, match="needs a size threshold, a number of checkpoints, or both"):
        builder().set_num_compact_threads(2).build()
    for set_it, least in (
        (builder().set_size_threshold, -1),
        (builder().set_num_compact_threads, 1),
        (builder().enable_compaction_on_checkpoint, 1),
    ):
        with pytest.raises(InvalidProgramError, match=f"at least {least}; got {least - 1}"):
            set_it(least - 1)
        with pytest.raises(InvalidArgumentError, match="must be an int"):
            set_it("1")  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="needs a size threshold"):
        builder().set_size_threshold(-1).build()
    with pytest.raises(InvalidArgumentError, match="must be bytes"):
        FileCompactor.concat_file_compactor("x")  # type: ignore[arg-type]
    row = FileSink.for_row_format("/tmp/x", Encoder.simple_string_encoder())
    with pytest.raises(InvalidArgumentError, match="needs a FileCompactStrategy"):
        row.enable_compact(10, FileCompactor.concat_file_compactor())  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="needs a FileCompactor"):
        row.enable_compact(strategy(size=1), "concat")  # type: ignore[arg-type]
    with pytest.raises(InvalidProgramError, match="concat_file_compactor"):
        row.enable_compact(strategy(size=1), FileCompactor.record_wise_file_compactor())
    bulk = FileSink.for_bulk_format("/tmp/x", ParquetWriterFactory())
    with pytest.raises(InvalidProgramError, match="ParquetWriterFactory writes cannot be put behind one another"):
        bulk.enable_compact(strategy(size=1), FileCompactor.concat_file_compactor())

    class Unpicklable(Backwards):
        def __init__(self) -> None:
            self.lock = threading.Lock()

    with pytest.raises(NotSerializableError, match="file compactor of FileSink"):
        row.enable_compact(strategy(size=1), Unpicklable())


def test_uid_and_parallelism_of_the_sink_are_those_of_both_stages(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    numbers = env.from_collection([1], Types.INT())
    sink = numbers.sink_to(text_sink(tmp_path, strategy(checkpoints=1))).uid("files").name("Files").set_parallelism(3)
    transformations = env.transformations
    second = transformations[id_of(sink)]
    (partition,) = second.inputs
    (first,) = transformations[partition].inputs
    assert (second.uid, second.name, second.parallelism) == ("files-compactor", "Files", 3)
    assert (transformations[first].uid, transformations[first].name, transformations[first].parallelism) == ("files", "Writer", 3)
    plain = numbers.sink_to(FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()).uid("plain")
    assert env.transformations[id_of(plain)].uid == "plain"

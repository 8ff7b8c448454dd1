"""FileSink on object stores: parts that wait in state, hidden objects, commits by copies, losses at every request, clean-up."""

from __future__ import annotations

import io
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import obstore
import pyarrow.parquet as pq
import pytest

from flinkish.common.errors import ForeignCheckpointError, InvalidArgumentError, SinkChangedError, SinkError
from flinkish.common.files.schemes import files_at
from flinkish.common.serialization import Encoder
from flinkish.common.typeinfo import Types
from flinkish.datastream.connectors.file_system import (
    BucketAssigner,
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    OutputFileConfig,
    ParquetWriterFactory,
    RollingPolicy,
)
from flinkish.datastream.connectors.file_system.parts import FileCommittable, PartFile, check_committable
from flinkish.datastream.connectors.file_system.policies import BucketContext
from flinkish.program.sinks import END_OF_INPUT_CHECKPOINT
from tests.kit.fake_clouds import Cloud
from tests.kit.s3_server import S3Server
from tests.unit.datastream.connectors.fakes import SinkRun

_NUMBERS = itertools.count()


class ByParity(BucketAssigner):
    def get_bucket_id(self, element: Any, context: BucketContext) -> str:
        return f"even={int(element) % 2 == 0}"


@pytest.fixture(params=["gs", "abfss"])
def place(request: pytest.FixtureRequest, clouds: Cloud) -> Iterator[str]:
    """Return a path of its own in each of the stand-ins."""
    yield {"gs": "gs://out", "abfss": "abfss://out@mine.dfs.core.windows.net"}[request.param] + f"/{next(_NUMBERS)}"
    for name in [name for name in clouds.objects if name.startswith("out/")]:
        del clouds.objects[name]


def text_sink(path: str, policy: RollingPolicy | None = None, assigner: BucketAssigner | None = None) -> FileSink:
    builder = FileSink.for_row_format(path, Encoder.simple_string_encoder())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner() if assigner is None else assigner)
    builder.with_output_file_config(OutputFileConfig("out", ".txt"))
    if policy is not None:
        builder.with_rolling_policy(policy)
    return builder.build()


on_checkpoint = RollingPolicy.on_checkpoint_rolling_policy


def objects(path: str, *, hidden: bool = False) -> dict[str, bytes]:
    files = files_at(path)
    found = list(files.files_below("")) if files.is_folder() else []
    return {name: files.read(name, limit=1 << 20) for name in found if hidden or not name.startswith(".")}


def lines(path: str) -> list[str]:
    return sorted(line for content in objects(path).values() for line in content.decode().splitlines())


def numbers(*spans: range) -> list[str]:
    return sorted(str(number) for span in spans for number in span)


def test_parts_are_visible_when_their_checkpoint_is_complete(place: str) -> None:
    run = SinkRun(text_sink(place, on_checkpoint(), ByParity()), parallelism=2).epoch([str(n) for n in range(10)])
    assert objects(place, hidden=True) == {}  # they wait in state
    checkpoint = run.checkpoint([str(n) for n in range(10, 20)], commit=False)
    assert objects(place) == {}
    run.commit(checkpoint)
    assert lines(place) == numbers(range(20))
    assert {name.split("/")[0] for name in objects(place, hidden=True)} == {"even=True", "even=False"}
    assert all(name.split("/")[-1].startswith("out-") and name.endswith(".txt") for name in objects(place))


def test_the_rolling_policy_holds_across_checkpoints(place: str) -> None:
    policy = RollingPolicy.default_rolling_policy(part_size=12, rollover_interval=120_000, inactivity_interval=120_000)
    run = SinkRun(text_sink(place, policy)).after(["aaaa"])
    assert objects(place, hidden=True) == {}  # it is open, and in the checkpoint as state
    run.lose_writers().checkpoint(["bbbb"])
    run.checkpoint(["cccc", "dddd"])
    assert sorted(objects(place).values()) == [b"aaaa\nbbbb\ncccc\n"]
    run.now = 130_000
    run.end_epoch().checkpoint()
    assert sorted(objects(place).values()) == [b"aaaa\nbbbb\ncccc\n", b"dddd\n"]
    run.checkpoint(["eeee"], end_of_input=True)
    assert lines(place) == ["aaaa", "bbbb", "cccc", "dddd", "eeee"]


def test_a_full_buffer_is_put_before_the_checkpoint(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flinkish.datastream.connectors._row_buffer.BUFFER_BYTES", 100)
    run = SinkRun(text_sink(place, RollingPolicy.default_rolling_policy())).epoch(["x" * 60])
    run.epoch(["y" * 60])
    assert objects(place) == {}
    assert [content for name, content in objects(place, hidden=True).items()] == [b"x" * 60 + b"\n" + b"y" * 60 + b"\n"]
    run.lost_epoch(["z" * 200]).checkpoint(["z" * 10], end_of_input=True)
    assert lines(place) == sorted(["x" * 60, "y" * 60, "z" * 10])


def test_parquet_parts_are_objects_of_one_checkpoint(place: str) -> None:
    type_ = Types.ROW_NAMED(["n"], [Types.LONG()])
    builder = FileSink.for_bulk_format(place, ParquetWriterFactory()).with_bucket_assigner(
        BucketAssigner.base_path_bucket_assigner()
    )
    SinkRun(builder.build(), type_).checkpoint([(n,) for n in range(5)])
    (content,) = objects(place).values()
    assert pq.read_table(io.BytesIO(content)).column("n").to_pylist() == list(range(5))


def test_closed_objects_are_merged_before_they_become_visible(place: str) -> None:
    builder = FileSink.for_row_format(place, Encoder.simple_string_encoder()).with_rolling_policy(on_checkpoint())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(1).build()
    sink = builder.enable_compact(strategy, FileCompactor.concat_file_compactor()).build()
    writers = SinkRun(sink.get_transformer().sink, parallelism=2)
    closed = [each.committable for each in writers.checkpoint(["1", "2", "3"], commit=False).requests]
    SinkRun(sink, Types.PICKLED_BYTE_ARRAY()).checkpoint(closed)
    ((name, content),) = objects(place).items()
    assert name.startswith("compacted-part-")
    assert sorted(content.split()) == [b"1", b"2", b"3"]
    assert objects(place, hidden=True).keys() == {name}


# -- losses ------------------------------------------------------------------------------------------------------------------


class Lost(BaseException):
    """The process is killed: no handler runs."""


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, bool], None]:
    """Return a function that has the n-th change of the store from now on fail, before or after its effect."""
    state = {"left": -1, "after": False}

    def changed(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            state["left"] -= 1
            if state["left"] == 0 and not state["after"]:
                raise Lost
            result = real(*args, **kwargs)
            if state["left"] == 0:
                raise Lost
            return result

        return call

    for name in ("put", "copy", "delete"):
        monkeypatch.setattr(obstore, name, changed(getattr(obstore, name)))

    def fail(number: int, after: bool) -> None:
        state.update(left=number, after=after)

    return fail


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_kill_at_each_change_of_the_store_loses_and_doubles_nothing_and_leaves_nothing(
    place: str, failing: Callable[[int, bool], None], after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flinkish.datastream.connectors.file_system.parts._COPIES", 1)
    for number in itertools.count(1):
        path = f"{place}/{after}-{number}"
        run = SinkRun(text_sink(path, on_checkpoint(), ByParity()), parallelism=2)
        restored = run.checkpoint(["0", "1", "2", "3"])
        failing(number, after)
        killed = False
        try:
            restored = run.checkpoint(["4", "5", "6", "7"], commit=False)
            run.commit(restored)  # the checkpoint is in its storage: from here on its rows must become visible
        except Lost:
            killed = True
        failing(-1, False)
        run.restore(restored).checkpoint([] if restored.id == 2 else ["4", "5", "6", "7"])
        run.checkpoint(["8", "9"], end_of_input=True)
        assert lines(path) == numbers(range(10)), number
        assert [name for name in objects(path, hidden=True) if name.startswith(".")] == [], number
        if not killed:
            assert number > 5  # two parts are put, two copied, and what is hidden is removed
            return


def test_lists_that_lag_behind_leave_something_behind_and_remove_nothing_else(place: str, clouds: Cloud) -> None:
    run = SinkRun(text_sink(place, on_checkpoint()))
    run.checkpoint(["0"], commit=False)  # never completed
    (orphan,) = (name for name in clouds.objects if name.startswith("out/"))
    restored = run.checkpoint(["1"], commit=False)
    clouds.unlisted.add(orphan)
    clouds.ghosts.add(orphan.replace("out-", "out-gone-"))
    run.restore(restored)
    assert orphan in clouds.objects
    run.checkpoint(["2"])
    assert lines(place) == ["1", "2"]
    clouds.unlisted.clear()
    run.restore(run.checkpoint(["3"]))
    clouds.ghosts.clear()
    assert orphan not in clouds.objects
    assert lines(place) == ["1", "2", "3"]


def test_the_end_of_the_input_removes_what_failed_tries_have_left(place: str) -> None:
    run = SinkRun(text_sink(place, on_checkpoint())).after(["0"], commit=False).lose_writers()
    run.next_checkpoint = END_OF_INPUT_CHECKPOINT
    run.checkpoint(["1"], end_of_input=True)
    assert list(objects(place, hidden=True).values()) == [b"1\n"]


def test_a_job_that_starts_from_a_savepoint_of_another_copies_and_leaves_the_others_objects(place: str) -> None:
    run = SinkRun(text_sink(place, on_checkpoint()))
    savepoint = run.checkpoint(["1"], commit=False)
    other = SinkRun(text_sink(place, on_checkpoint())).restore(savepoint, lineage="other")
    other.checkpoint(["2"])
    assert lines(place) == ["1", "2"]
    assert len([name for name in objects(place, hidden=True) if name.startswith(".")]) == 1  # the first job may still run
    run.commit(savepoint)
    run.checkpoint(["3"])
    assert lines(place) == ["1", "2", "3"]
    assert [name for name in objects(place, hidden=True) if name.startswith(".")] == []


def test_what_is_committed_again_is_not_made_again_after_a_reader_has_moved_it(place: str, clouds: Cloud) -> None:
    run = SinkRun(text_sink(place, on_checkpoint()))
    checkpoint = run.checkpoint(["1"])
    for name in [name for name in clouds.objects if name.startswith("out/")]:
        del clouds.objects[name]
    run.restore(checkpoint)
    assert objects(place, hidden=True) == {}
    lost = run.checkpoint(["2"], commit=False)
    for name in [name for name in clouds.objects if name.startswith("out/")]:
        clouds.objects[name] = (b"short", next(clouds.numbers))
    with pytest.raises(SinkChangedError, match=r"has 5 bytes, but 2 were written"):
        run.commit(lost)
    for name in [name for name in clouds.objects if name.startswith("out/")]:
        del clouds.objects[name]
    with pytest.raises(SinkChangedError, match=r"neither .* exists, though the 2 bytes"):
        run.commit(lost)


def test_objects_that_are_not_of_the_sink_are_refused() -> None:
    base, staging = "gs://out/a", f"gs://out/a/.inprogress/{'0' * 32}"
    check_committable(base, FileCommittable(part=PartFile.at(f"{base}/b/part-1", "x", staging), length=1))
    for in_progress, final in (
        (f"{staging}/part-1.x", "gs://other/a/part-1"),
        (f"{staging}/part-1.x", f"{base}/../part-1"),
        (f"{staging}/part-2.x", f"{base}/part-1"),
        (f"{base}/b/.part-1.inprogress.x", f"{base}/b/part-1"),
        ("gs://other/a/.inprogress/0/part-1.x", f"{base}/part-1"),
        (f"{staging}/part-1.x", f"{staging}/part-1"),
    ):
        with pytest.raises(ForeignCheckpointError, match="which is not one of this sink"):
            check_committable(base, FileCommittable(part=PartFile(in_progress=in_progress, final=final), length=1))
    with pytest.raises(ForeignCheckpointError):
        check_committable(base, FileCommittable(part=None, obsolete=(f"{base}/part-1",)))


def test_places_that_cannot_be_written_are_refused(place: str, clouds: Cloud) -> None:
    with pytest.raises(InvalidArgumentError, match=r"base_path of FileSink 'gs://\*\*\*@out/a': expected gs://bucket/path"):
        text_sink("gs://me:hush@out/a")
    clouds.objects[f"out/{place.rpartition('/')[2]}/_delta_log/0.json"] = (b"{}", 1)
    with pytest.raises(SinkError, match="is a Delta table"):
        text_sink(f"{place}/x").validate(Types.STRING())


def test_rescaled_writers_go_on_with_all_open_parts(place: str) -> None:
    run = SinkRun(text_sink(place, RollingPolicy.default_rolling_policy(), ByParity()), parallelism=3)
    checkpoint = run.checkpoint([str(n) for n in range(30)])
    checkpoint = run.restore(checkpoint, 2).checkpoint([str(n) for n in range(30, 40)])
    run.restore(checkpoint, 5).checkpoint(["40"], end_of_input=True)
    assert lines(place) == numbers(range(41))
    for name, content in objects(place).items():
        assert {int(line) % 2 for line in content.split()} == {int(not name.startswith("even=True"))}


def test_s3_holds_each_row_once_after_kills_at_random_requests(s3: S3Server, failing: Callable[[int, bool], None]) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    chance = random.Random(seed)
    path = f"s3://bucket/sink-{next(_NUMBERS)}-{seed}"
    run = SinkRun(text_sink(path, on_checkpoint(), ByParity()), parallelism=2)
    complete = run.checkpoint()
    written = position = 0
    while written < 40:
        failing(chance.randrange(1, 12), chance.random() < 0.5)
        try:
            taken = run.checkpoint([str(n) for n in range(position, position + 5)], commit=False)
            complete, written = taken, position + 5
            run.commit(taken)
        except Lost:
            failing(-1, False)
            run.restore(complete, chance.choice([1, 2, 3]))
        position = written
    failing(-1, False)
    run.checkpoint(end_of_input=True)
    assert lines(path) == numbers(range(40))
    files_at(path).remove_all()

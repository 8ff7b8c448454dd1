"""Scripted sources, and the watermarks that sources may emit themselves."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from flinkish.common import Types, WatermarkStrategy
from flinkish.common.errors import ForeignCheckpointError, InvalidArgumentError, JobExecutionError, SourceError
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.base import SourceReader, SourceReaderContext
from flinkish.testing import JobHarness, ScriptedSource
from flinkish.testing.scripted_source import ScriptSplit
from flinkish.testing.steps import Emit, End, MarkIdle


class Unannounced(ScriptedSource):
    """Emits watermarks, but does not say that it does."""

    emits_watermarks = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Unannounced, (self.name,)


def test_pickled_records_of_a_split_are_not_taken_from_a_checkpoint_of_another_key() -> None:
    source = ScriptedSource("source")
    split = ScriptSplit(split_id="0", number=0, position=0, items=pickle.dumps([]))
    source.check_restored([split], 1, trusted=True)
    source.check_restored([], 1, trusted=False)
    with pytest.raises(ForeignCheckpointError, match="hold pickled records, and another key signed the checkpoint"):
        source.check_restored([split], 1, trusted=False)


def test_a_source_must_say_that_it_emits_watermarks() -> None:
    source = Unannounced("source")

    def program(env: StreamExecutionEnvironment, job: JobHarness) -> None:
        job._sources["source"] = source
        env.from_source(source, WatermarkStrategy.no_watermarks(), "source").sink_to(job.sink("out"))

    with JobHarness(program) as job:
        source.emit(1)
        source.watermark(1)
        with pytest.raises(JobExecutionError, match=r"emit_watermark\(\)(.|\n)*set emits_watermarks = True"):
            job.settle()


class OneSplit:
    """The output of a reader that notes what is said."""

    def __init__(self, credit: int) -> None:
        self.credit = credit
        self.said: list[Any] = []

    def select_split(self, split_id: str) -> None:
        self.split = split_id

    def collect(self, value: Any, timestamp: int | None = None) -> None:
        self.credit -= 1
        self.said.append((self.split, value))

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.said.append((name, *arguments))


def reader_of(source: ScriptedSource, *numbers: int) -> SourceReader[Any, ScriptSplit]:
    reader = pickle.loads(pickle.dumps(source)).create_reader(SourceReaderContext)
    reader.add_splits([source_split(source, number) for number in numbers])
    return reader  # type: ignore[no-any-return]


def source_split(source: ScriptedSource, number: int, position: int = 0) -> ScriptSplit:
    items = pickle.dumps(source.items(number, position))
    return ScriptSplit(split_id=str(number), number=number, position=position, items=items)


def test_a_reader_follows_the_order_of_the_script_over_its_splits_as_far_as_its_credit_goes() -> None:
    source = ScriptedSource("source", splits=2)
    source.emit("a", split=0)
    source.emit("b", split=1)
    source.watermark(5, split=1)
    source.emit("c", split=0)
    source.release(0)
    first = reader_of(source, 0, 1)
    output: Any = OneSplit(2)
    first.poll_next(output)
    assert output.said == [("0", "a"), ("1", "b")]
    # Another reader goes on from there, as when the process was lost.
    second = reader_of(source)
    second.add_splits(first.snapshot_state())
    output = OneSplit(10)
    second.poll_next(output)
    assert output.said == [("emit_watermark", 5), ("0", "c")]
    assert [(split.number, split.position) for split in second.snapshot_state()] == [(0, 4), (1, 3)]


def test_what_was_released_after_a_pause_waits_for_the_time() -> None:
    source = ScriptedSource("source")
    source.emit(1)
    source.pause(0)
    source.pause(10)
    source.emit(2)
    assert source.release(5)
    assert (source.released, source.resumes_at) == (1, 15)
    assert not source.release(14)
    assert source.release(15)
    assert source.released == 2


def test_a_failure_is_handed_out_once_but_keeps_its_place() -> None:
    source = ScriptedSource("source")
    source.fail()
    source.emit(1)
    source.release(0)
    assert [place for place, _ in source.items(0, 0)] == [0, 1]
    assert [place for place, _ in source.items(0, 0)] == [1]


def test_a_script_that_does_not_fit_a_checkpoint_is_refused() -> None:
    with pytest.raises(SourceError, match="had 2 splits in the checkpoint and has 1 now"):
        ScriptedSource("source").restore_enumerator(None, 2)  # type: ignore[arg-type]


def test_wrong_numbers_of_splits_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="at least one split"):
        ScriptedSource("source", Types.LONG(), splits=0)


@pytest.fixture
def flinkish_engine() -> str:
    return "local"


def test_the_engine_of_a_job_is_that_of_its_test(flinkish_job: Any) -> None:
    with pytest.raises(TypeError, match="engine"):
        flinkish_job(lambda env, job: None, engine="spark")


def test_only_an_end_may_leave_out_the_split() -> None:
    source = ScriptedSource("numbers", splits=2)
    for step in (Emit(1, None, "numbers", None), MarkIdle("numbers", None)):  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError, match="source 'numbers' has splits 0 to 1"):
            source.do(step)
    source.do(End("numbers"))
    assert source.ended

"""HybridSource: sources one after the other, whatever the readers do, and after restores in each of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SourceError
from flinkish.common.time import Duration
from flinkish.common.typeinfo import Types
from flinkish.datastream.connectors.base import Boundedness, InputStatus, SourceReader
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.connectors.file_system import FileSource, StreamFormat
from flinkish.datastream.connectors.hybrid_source import HybridSource
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.connectors.socket import SocketSource
from flinkish.program.driver_objects import NeedsDataFrames
from tests.unit.datastream.connectors.fakes import FakeEnumeratorContext, FakeOutput, FakeReaderContext, SourceRun, stored


def numbers(*ranges: tuple[int, int]) -> HybridSource:
    first, *others = [NumberSequenceSource(start, end) for start, end in ranges]
    builder = HybridSource.builder(first)
    for source in others:
        builder.add_source(source)
    return builder.build()


@pytest.mark.parametrize("restart_readers", [False, True])
@pytest.mark.parametrize("credit", [1, 3, 100])
@pytest.mark.parametrize("parallelism", [1, 3])
def test_each_source_is_read_to_its_end_before_the_next_begins(parallelism: int, credit: int, restart_readers: bool) -> None:
    run = SourceRun(numbers((1, 10), (11, 12), (13, 30)), parallelism, credit, restart_readers)
    assert sorted(run.values()) == list(range(1, 31))
    # no reader has gone on to a later source before all had read the one before
    parts = [[[value for value in epoch if low <= value <= high] for epoch in run.emitted_by_epoch] for low, high in
             ((1, 10), (11, 12), (13, 30))]  # fmt: skip
    last = [max(i for i, epoch in enumerate(part) if epoch) for part in parts]
    first = [min(i for i, epoch in enumerate(part) if epoch) for part in parts]
    assert last[0] < first[1]
    assert last[1] < first[2]


def test_sources_of_other_kinds_may_use_the_same_split_ids(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\ny\n")
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build()
    source = HybridSource.builder(lines).add_source(lines).add_source(NumberSequenceSource(1, 2)).build()
    assert SourceRun(source, restart_readers=True).values() == ["x", "y", "x", "y", 1, 2]


def test_an_empty_source_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    nothing = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "empty")).build()
    source = HybridSource.builder(nothing).add_source(NumberSequenceSource(1, 3)).add_source(nothing).build()
    assert sorted(SourceRun(source, parallelism=2).values()) == [1, 2, 3]


@dataclass
class Driven:
    """A hybrid source driven epoch by epoch, with restores at another parallelism."""

    source: HybridSource
    parallelism: int
    credit: int = 2

    def __post_init__(self) -> None:
        self.values: list[int] = []
        self._begin(None, [])

    def _begin(self, state: Any, splits: list[Any]) -> None:
        self.context = FakeEnumeratorContext(self.parallelism)
        if state is None:
            self.enumerator = self.source.create_enumerator(self.context)
        else:
            self.enumerator = self.source.restore_enumerator(self.context, state)
            if splits:
                self.enumerator.add_splits_back(splits, 0)
        self.readers: list[SourceReader[Any, Any]] = []
        self.finished: set[int] = set()
        for subtask in range(self.parallelism):
            reader = self.source.create_reader(FakeReaderContext(subtask_index=subtask, parallelism=self.parallelism))
            reader.start()
            self.readers.append(reader)
        self.told: set[int] = set()
        self.enumerator.start()
        # As the coordinator does: restored splits are handed out in rounds.
        for _ in range(3):
            for subtask in range(self.parallelism):
                if subtask not in self.context.no_more:
                    self.enumerator.handle_split_request(subtask)

    def epoch(self) -> bool:
        """Run one; returns whether there is more to come."""
        asking = []
        for subtask, reader in enumerate(self.readers):
            if subtask in self.finished:
                continue
            if new := self.context.assigned.pop(subtask, []):
                reader.add_splits([stored(split, self.source.split_type) for split in new])
            if subtask in self.context.no_more and subtask not in self.told:
                self.told.add(subtask)
                reader.notify_no_more_splits()
            output = FakeOutput(self.credit)
            status = InputStatus.MORE_AVAILABLE
            while output.credit > 0 and status is InputStatus.MORE_AVAILABLE:
                status = reader.poll_next(output)
            self.values += output.values
            self.context.reading[subtask] = bool(reader.snapshot_state())
            if status is InputStatus.END_OF_INPUT:
                self.finished.add(subtask)
            elif not self.context.reading[subtask]:
                asking.append(subtask)
        for subtask in asking:
            if subtask not in self.context.no_more:
                self.enumerator.handle_split_request(subtask)
        return len(self.finished) < self.parallelism

    def restore(self, parallelism: int) -> None:
        state = stored(self.enumerator.snapshot_state(1), self.source.enumerator_checkpoint_type)
        splits = [
            stored(split, self.source.split_type)
            for subtask, reader in enumerate(self.readers)
            if subtask not in self.finished
            for split in [*reader.snapshot_state(), *self.context.assigned.get(subtask, [])]
        ]
        self.parallelism = parallelism
        self._begin(state, splits)


@pytest.mark.parametrize("at", range(12))
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_restore_at_any_time_and_at_another_parallelism_loses_and_repeats_nothing(at: int, parallelism: int) -> None:
    driven = Driven(numbers((1, 9), (10, 12), (13, 20)), 2)
    for _ in range(at):
        driven.epoch()
    driven.restore(parallelism)
    epochs = 0
    while driven.epoch():
        epochs += 1
        assert epochs < 100
    assert sorted(driven.values) == list(range(1, 21))
    for low, high in ((1, 9), (10, 12)):
        assert driven.values.index(next(v for v in driven.values if v > high)) > max(
            i for i, v in enumerate(driven.values) if low <= v <= high
        )


def test_a_checkpoint_holds_the_splits_and_the_enumerator_of_the_source_that_is_read() -> None:
    driven = Driven(numbers((1, 4), (5, 100)), 1)
    state = driven.enumerator.snapshot_state(1)
    assert state.source == 0
    while driven.enumerator.snapshot_state(1).source == 0:
        driven.epoch()
    driven.epoch()
    (split,) = driven.readers[0].snapshot_state()
    assert split.source == 1
    assert split.split_id.startswith("1: ")
    inner = msgspec.msgpack.decode(split.split, type=NumberSequenceSource(1, 2).split_type)
    assert (inner.next_number, inner.end) == (7, 100)


def test_calls_in_the_background_end_with_their_source() -> None:
    class Polling(NumberSequenceSource):
        def create_enumerator(self, context: Any) -> Any:
            calls.append("made")
            context.call_async(lambda: calls.append("work"), lambda result, error: calls.append("handled"), period=10)
            return super().create_enumerator(context)

    calls: list[str] = []
    context = FakeEnumeratorContext(1)
    enumerator = HybridSource.builder(Polling(1, 1)).add_source(NumberSequenceSource(2, 2)).build().create_enumerator(context)
    enumerator.start()
    context.run_calls()
    assert calls == ["made", "work", "handled"]
    enumerator.handle_split_request(0)
    context.reading[0] = False
    enumerator.handle_split_request(0)
    assert enumerator.snapshot_state(1).source == 1
    context.run_calls()
    assert calls == ["made", "work", "handled"]


def test_an_enumerator_that_asks_too_early_does_not_switch() -> None:
    context = FakeEnumeratorContext(2)
    enumerator = numbers((1, 2), (3, 4)).create_enumerator(context)
    enumerator.start()
    context.reading = {0: True, 1: True}
    for _ in range(5):
        enumerator.handle_split_request(0)
        enumerator.handle_split_request(1)
    assert enumerator.snapshot_state(1).source == 0


def test_watermarks_and_idleness_of_a_source_are_passed_on() -> None:
    class Emitting(NumberSequenceSource):
        emits_watermarks = True

        def create_reader(self, context: Any) -> Any:
            return Marking()

    class Marking(SourceReader[Any, Any]):
        def add_splits(self, splits: Sequence[Any]) -> None: ...
        def snapshot_state(self) -> Sequence[Any]:
            return ()

        def poll_next(self, output: Any) -> InputStatus:
            output.emit_watermark(7)
            output.mark_idle()
            output.mark_active()
            return InputStatus.NOTHING_AVAILABLE

    class Output(FakeOutput):
        def emit_watermark(self, timestamp: int) -> None:
            self.values.append(timestamp)

        def mark_idle(self) -> None:
            self.values.append("idle")

        def mark_active(self) -> None:
            self.values.append("active")

    source = HybridSource.builder(NumberSequenceSource(1, 1)).add_source(Emitting(1, 2)).build()
    assert source.emits_watermarks
    assert not numbers((1, 1), (2, 2)).emits_watermarks
    reader = source.create_reader(FakeReaderContext())
    reader.notify_no_more_splits()
    output = Output(10)
    assert reader.poll_next(output) is InputStatus.NOTHING_AVAILABLE
    assert output.values == [7, "idle", "active"]


def test_the_last_source_decides_on_boundedness_and_only_it_may_be_endless(tmp_path: Path) -> None:
    endless = DataGeneratorSource(lambda i: i, None)
    assert HybridSource.builder(NumberSequenceSource(1, 2)).add_source(endless).build().boundedness is (
        Boundedness.CONTINUOUS_UNBOUNDED
    )
    with pytest.raises(InvalidProgramError, match=r"source 0 .*DataGeneratorSource.* is not"):
        HybridSource.builder(endless).add_source(NumberSequenceSource(1, 2))
    monitored = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path))
    with pytest.raises(InvalidProgramError, match="all sources of a HybridSource but the last must be bounded"):
        HybridSource.builder(monitored.monitor_continuously(Duration.of_seconds(1)).build()).add_source(endless)


def test_types_must_agree(tmp_path: Path) -> None:
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path)).build()
    json = FileSource.for_record_stream_format(StreamFormat.json_lines_format(), str(tmp_path)).build()
    mixed = HybridSource.builder(NumberSequenceSource(1, 2)).add_source(lines).build()
    with pytest.raises(InvalidProgramError, match="source 0 has Long, source 1 has String"):
        mixed.validate()
    assert numbers((1, 2), (3, 4)).produced_type() == Types.LONG()
    assert HybridSource.builder(lines).add_source(json).build().produced_type() is None


class _OfDataFrames(NeedsDataFrames, NumberSequenceSource):
    """As the source of a DataFrame is marked."""


def test_what_a_part_refuses_the_whole_refuses(tmp_path: Path) -> None:
    missing = FileSource.for_record_stream_format(StreamFormat.text_line_format(), str(tmp_path / "none")).build()
    with pytest.raises(SourceError, match="nothing is at"):
        HybridSource.builder(NumberSequenceSource(1, 2)).add_source(missing).build().validate()
    for not_by_tasks in (SocketSource("localhost", 1), _OfDataFrames(1, 2)):
        with pytest.raises(InvalidProgramError, match="is not read by tasks alone"):
            HybridSource.builder(NumberSequenceSource(1, 2)).add_source(not_by_tasks)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="needs a Source"):
        HybridSource.builder("x")  # type: ignore[arg-type]

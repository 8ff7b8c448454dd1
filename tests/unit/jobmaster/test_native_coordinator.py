"""The driver's side of a source that the engine reads."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from flinkish.checkpoint.manifest import SourceState
from flinkish.common.errors import ForeignCheckpointError
from flinkish.common.ids import OperatorUid
from flinkish.jobmaster.epochs import NativePosition
from flinkish.jobmaster.native_coordinator import NativeSourceCoordinator
from flinkish.jobmaster.program_parts import SourceNode
from flinkish.runtime.protocol import ReaderReport
from tests.kit.native import Batches

UID = OperatorUid("rows")


def coordinator(parallelism: int = 2) -> NativeSourceCoordinator:
    return NativeSourceCoordinator(SourceNode(uid=UID, name="rows", parallelism=parallelism, source=Batches()))


def started(parallelism: int = 2) -> NativeSourceCoordinator:
    made = coordinator(parallelism)
    made.start(None)
    return made


def position(offset: str | None, files: Mapping[str, bytes] | None = None) -> NativePosition:
    return NativePosition(offsets=(offset,), files=lambda: files or {})


def report(watermark: int | None = None, *, idle: bool = False) -> ReaderReport:
    return ReaderReport(
        splits=(), records=0, more_available=False, finished=False, wants_split=False, watermark=watermark, idle=idle
    )


def run_epoch(source: NativeSourceCoordinator, at: NativePosition, *reports: ReaderReport) -> None:
    source.reads(at)
    source.commands(10)
    for subtask, each in enumerate(reports):
        source.apply(subtask, each)
    source.after_epoch()


def test_there_is_input_when_the_position_moves_and_when_the_watermark_has_risen() -> None:
    source = started()
    source.reads(position("1"))
    assert source.input_ready
    run_epoch(source, position("1"), report(), report())
    source.reads(position("1"))
    assert not source.input_ready
    run_epoch(source, position("2"), report(7), report())
    source.reads(position("2"))
    assert source.input_ready
    run_epoch(source, position("2"), report(7), report())
    source.reads(position("2"))
    assert not source.input_ready


def test_all_subtasks_are_told_the_highest_watermark_which_never_falls() -> None:
    source = started()
    run_epoch(source, position("1"), report(7), report(30))
    assert {command.watermark for command in source.commands(10).values()} == {30}
    run_epoch(source, position("2"), report(8), report(None))
    assert {command.watermark for command in source.commands(10).values()} == {30}


def test_the_source_is_idle_when_all_subtasks_are() -> None:
    source = started()
    run_epoch(source, position("1"), report(idle=True), report())
    assert not any(command.idle for command in source.commands(10).values())
    run_epoch(source, position("1"), report(idle=True), report(idle=True))
    assert all(command.idle for command in source.commands(10).values())


def test_a_checkpoint_holds_the_position_of_its_epoch_and_the_files_from_before_it_ran() -> None:
    source = started()
    files = {"0/1": b"a"}
    source.reads(position('{"x": 1}', files))
    source.prepare_snapshot()
    source.commands(10)
    files = dict(files, **{"0/2": b"b"})
    state = source.snapshot(1)
    assert state.enumerator is not None
    assert msgspec.msgpack.decode(state.enumerator)["offsets"] == ['{"x": 1}']
    restored = coordinator(3)
    restored.start(state)
    assert restored.start_position is not None
    assert restored.start_position.offsets == ('{"x": 1}',)
    assert restored.start_position.files() == {"0/1": b"a"}


def test_a_restored_source_has_its_watermark_and_nothing_to_read_at_its_position() -> None:
    source = started()
    run_epoch(source, position("5"), report(40), report())
    restored = coordinator(1)
    restored.start(source.snapshot(1))
    assert restored.commands(10)[0].watermark == 40
    restored.reads(position("5"))
    assert not restored.input_ready


def test_positions_of_other_sources_and_of_others_keys_are_refused() -> None:
    source = started()
    run_epoch(source, position("5"), report(), report())
    state = source.snapshot(1)
    with pytest.raises(ForeignCheckpointError, match="another key has signed"):
        coordinator().start(state, trusted=False)
    with pytest.raises(ForeignCheckpointError, match="another kind of source"):
        coordinator().start(SourceState(uid=UID, enumerator=msgspec.msgpack.encode([1])))

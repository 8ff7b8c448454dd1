"""Sinks with operator state as users write them: CheckpointedFunction and CheckpointListener, with lists, union lists and maps.

Each writes files when it learns that a checkpoint is complete: what it wrote for the last one tells what was in its state.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from flinkish.common import Types
from flinkish.datastream import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    RuntimeContext,
    SinkFunction,
)
from flinkish.datastream.state import ListStateDescriptor, MapStateDescriptor

_LONG = Types.LONG()


class _Figures:
    """Figures of one subtask: written down with a checkpoint, shown in a file when it is complete."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._noted: dict[int, int] = {}

    def note(self, checkpoint_id: int, figure: int) -> None:
        self._noted[checkpoint_id] = figure

    def show(self, checkpoint_id: int, subtask: int) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / f"{checkpoint_id:020}-{subtask}").write_text(str(self._noted.pop(checkpoint_id)), encoding="utf-8")


def last_figures(folder: Path) -> list[int]:
    """Return what the subtasks showed for the last checkpoint."""
    files = sorted(folder.iterdir())
    last = files[-1].name.partition("-")[0]
    return [int(file.read_text(encoding="utf-8")) for file in files if file.name.startswith(last)]


class Ledger(SinkFunction, CheckpointedFunction, CheckpointListener):
    """Writes each number in a file of its own when a complete checkpoint holds it: two-phase commit by hand.

    What is not written yet is a list, which is dealt out when the job is rescaled; how many numbers there were is a union list,
    whose sum goes on in the first subtask.
    """

    def __init__(self, folder: Path) -> None:
        self.numbers = folder / "numbers"
        self.figures = _Figures(folder / "totals")

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.pending_state = store.get_list_state(ListStateDescriptor("pending", Types.TUPLE([_LONG, _LONG])))
        self.total_state = store.get_union_list_state(ListStateDescriptor("total", _LONG))
        self.pending = list(self.pending_state.get())
        self.fresh: list[int] = []
        self.restored = context.get_restored_checkpoint_id()

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()
        self.total = sum(self.total_state.get()) if self.subtask == 0 else 0
        self.numbers.mkdir(parents=True, exist_ok=True)
        if self.restored is not None:
            self.write(self.restored)

    def invoke(self, value: int, context: SinkFunction.Context) -> None:
        self.fresh.append(value)
        self.total += 1

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.pending += [(context.get_checkpoint_id(), number) for number in self.fresh]
        self.fresh = []
        twice = [number for number, count in Counter(number for _, number in self.pending).items() if count > 1]
        assert not twice, f"in the list more than once: {twice}"
        self.pending_state.update(self.pending)
        self.total_state.update([self.total])
        self.figures.note(context.get_checkpoint_id(), self.total)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.write(checkpoint_id)
        self.figures.show(checkpoint_id, self.subtask)

    def write(self, checkpoint_id: int) -> None:
        for covered, number in self.pending:
            if covered <= checkpoint_id:
                (self.numbers / str(number)).touch()
        self.pending = [pair for pair in self.pending if pair[0] > checkpoint_id]


class Census(SinkFunction, CheckpointedFunction, CheckpointListener):
    """Counts a broadcast stream in broadcast state: each subtask has counted all of it, also one that was not there before."""

    def __init__(self, folder: Path) -> None:
        self.figures = _Figures(folder)

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.counts = context.get_operator_state_store().get_broadcast_state(MapStateDescriptor("counts", _LONG, _LONG))

    def open(self, runtime_context: RuntimeContext) -> None:
        self.subtask = runtime_context.get_index_of_this_subtask()

    def invoke(self, value: int, context: SinkFunction.Context) -> None:
        self.counts.put(value % 5, (self.counts.get(value % 5) or 0) + 1)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.figures.note(context.get_checkpoint_id(), sum(self.counts.values()))

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.figures.show(checkpoint_id, self.subtask)

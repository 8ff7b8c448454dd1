"""A source that first fills the state fast and then emits few records in each epoch; an example of a user's own source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase(SourceSplit):
    """Numbers from `next_number`, in steps of `step`: up to `fill` as fast as may be, then `small` in each epoch, up to `end`."""

    next_number: int
    step: int
    fill: int
    small: int
    end: int


@dataclass(frozen=True)
class PhasedSource(Source[int, Phase, tuple[Phase, ...]]):
    """One split for each reader; all together give the numbers from 0 to `end`."""

    fill: int
    small: int
    end: int

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def split_type(self) -> type[Phase]:
        return Phase

    @property
    def enumerator_checkpoint_type(self) -> Any:
        return tuple[Phase, ...]

    def create_enumerator(self, context: SplitEnumeratorContext[Phase]) -> SplitEnumerator[Phase, tuple[Phase, ...]]:
        count = context.parallelism
        return _Enumerator(
            context,
            tuple(
                Phase(split_id=str(i), next_number=i, step=count, fill=self.fill, small=self.small, end=self.end)
                for i in range(count)
            ),
        )

    def restore_enumerator(
        self, context: SplitEnumeratorContext[Phase], checkpoint: tuple[Phase, ...]
    ) -> SplitEnumerator[Phase, tuple[Phase, ...]]:
        return _Enumerator(context, checkpoint)

    def create_reader(self, context: SourceReaderContext) -> SourceReader[int, Phase]:
        return _Reader()


class _Enumerator(SplitEnumerator[Phase, tuple[Phase, ...]]):
    def __init__(self, context: SplitEnumeratorContext[Phase], waiting: tuple[Phase, ...]) -> None:
        self._context = context
        self._waiting = list(waiting)

    def handle_split_request(self, subtask: int) -> None:
        if self._waiting:
            self._context.assign_split(self._waiting.pop(0), subtask)
        else:
            self._context.signal_no_more_splits(subtask)

    def add_splits_back(self, splits: Sequence[Phase], subtask: int) -> None:
        self._waiting.extend(splits)

    def snapshot_state(self, checkpoint_id: int) -> tuple[Phase, ...]:
        return tuple(self._waiting)


class _Reader(SourceReader[int, Phase]):
    def __init__(self) -> None:
        self._splits: list[Phase] = []
        self._no_more = False

    def add_splits(self, splits: Sequence[Phase]) -> None:
        self._splits.extend(splits)

    def notify_no_more_splits(self) -> None:
        self._no_more = True

    def poll_next(self, output: ReaderOutput[int]) -> InputStatus:
        if not self._splits:
            return InputStatus.END_OF_INPUT if self._no_more else InputStatus.NOTHING_AVAILABLE
        split = self._splits[0]
        filling = split.next_number < split.fill
        count = output.credit if filling else split.small
        last = split.fill if filling else split.end
        stop = min(split.next_number + count * split.step, last + split.next_number % split.step)
        output.select_split(split.split_id)
        output.collect_all(range(split.next_number, stop, split.step))
        self._splits[0] = replace(split, next_number=stop)
        if stop >= split.end:
            output.split_finished(split.split_id)
            self._splits.pop(0)
        if filling or not self._splits:
            return InputStatus.MORE_AVAILABLE
        # That is all for this epoch: the next one begins after execution.epoch.poll-interval.
        return InputStatus.NOTHING_AVAILABLE

    def snapshot_state(self) -> Sequence[Phase]:
        return tuple(self._splits)

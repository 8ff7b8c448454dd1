"""Common parts of sources: cutting of ranges, the enumerator of a fixed set of splits, readers of one split after the other."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Generic

from flinkish.program.sources import InputStatus, ReaderOutput, SourceReader, SplitEnumerator, SplitEnumeratorContext, SplitT, T


def cut_range(start: int, end: int, parts: int) -> list[tuple[int, int]]:
    """Cut start..end (both inclusive) into at most `parts` non-empty ranges whose sizes differ by at most one.

    The larger ranges come first, as in Flink's NumberSequenceIterator.split.

    >>> cut_range(1, 7, 3)
    [(1, 3), (4, 5), (6, 7)]
    >>> cut_range(1, 2, 3)
    [(1, 1), (2, 2)]
    """
    total = max(0, end - start + 1)
    size, larger = divmod(total, parts)
    ranges = []
    for index in range(min(parts, total)):
        length = size + (1 if index < larger else 0)
        ranges.append((start, start + length - 1))
        start += length
    return ranges


class FixedSplitsEnumerator(SplitEnumerator[SplitT, tuple[SplitT, ...]]):
    """Assigns a fixed set of splits, one for each request, in their order; its state is the splits not assigned yet.

    With the last split it notifies all readers that there are no more. So a short input ends in the epoch in which it is read,
    and no watermark but the last one follows its records.
    """

    def __init__(self, context: SplitEnumeratorContext[SplitT], splits: Iterable[SplitT]) -> None:
        self._context = context
        self._splits = deque(splits)

    def handle_split_request(self, subtask: int) -> None:
        if self._splits:
            self._context.assign_split(self._splits.popleft(), subtask)
        if not self._splits:
            for reader in range(self._context.parallelism):
                self._context.signal_no_more_splits(reader)

    def add_splits_back(self, splits: Sequence[SplitT], subtask: int) -> None:
        self._splits.extendleft(reversed(splits))

    def snapshot_state(self, checkpoint_id: int) -> tuple[SplitT, ...]:
        return tuple(self._splits)


class OwnedSplits(Generic[SplitT]):
    """The unfinished splits of a reader, by id, read one after the other."""

    def __init__(self) -> None:
        self._splits: dict[str, SplitT] = {}
        self._no_more = False

    def add(self, splits: Sequence[SplitT]) -> None:
        for split in splits:
            self._splits[split.split_id] = split

    def no_more(self) -> None:
        self._no_more = True

    def first(self) -> SplitT | None:
        """Return the split to read now; None if there is none."""
        return next(iter(self._splits.values()), None)

    def update(self, split: SplitT) -> None:
        self._splits[split.split_id] = split

    def put_last(self, split_id: str) -> None:
        """Move a split, unless it has ended, behind all others, which are then read first."""
        split = self._splits.pop(split_id, None)
        if split is not None:
            self._splits[split_id] = split

    def remove(self, split_id: str) -> None:
        del self._splits[split_id]

    def __len__(self) -> int:
        return len(self._splits)

    def all(self) -> tuple[SplitT, ...]:
        return tuple(self._splits.values())

    def status(self) -> InputStatus:
        """Return the result for `poll_next` after records of the first split were emitted."""
        if self._splits:
            return InputStatus.MORE_AVAILABLE
        return InputStatus.END_OF_INPUT if self._no_more else InputStatus.NOTHING_AVAILABLE


class SequentialReader(SourceReader[T, SplitT]):
    """A reader that owns its splits and reads them one after the other; a subclass implements `_read`."""

    def __init__(self) -> None:
        self._splits: OwnedSplits[SplitT] = OwnedSplits()

    def add_splits(self, splits: Sequence[SplitT]) -> None:
        self._splits.add(splits)

    def notify_no_more_splits(self) -> None:
        self._splits.no_more()

    def poll_next(self, output: ReaderOutput[T]) -> InputStatus:
        split = self._splits.first()
        if split is not None:
            self._read(split, output)
        return self._splits.status()

    @abstractmethod
    def _read(self, split: SplitT, output: ReaderOutput[T]) -> None:
        """Emit records of a split, at most about `output.credit`; then update the split in `_splits`, or `_finish` it."""

    def _finish(self, split: SplitT, output: ReaderOutput[T]) -> None:
        """Drop a split that was read to its end."""
        self._splits.remove(split.split_id)
        output.split_finished(split.split_id)

    def snapshot_state(self) -> Sequence[SplitT]:
        return self._splits.all()

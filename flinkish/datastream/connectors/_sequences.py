"""Common parts of sources: cutting of ranges, sources with a fixed set of splits, readers of one split after the other."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Sequence
from types import GenericAlias
from typing import Any, Final

from flinkish.program.sources import (
    InputStatus,
    ReaderOutput,
    Source,
    SourceReader,
    SplitEnumerator,
    SplitEnumeratorContext,
    SplitT,
    T,
    emit_read,
)

#: Records to read from a file at a time.
BATCH_RECORDS: Final = 4096


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


class FixedSplitsSource(Source[T, SplitT, tuple[SplitT, ...]]):
    """A source whose splits are known when a job starts."""

    enumerator: type[FixedSplitsEnumerator[Any]] = FixedSplitsEnumerator

    @property
    def enumerator_checkpoint_type(self) -> Any:
        return GenericAlias(tuple, (self.split_type, ...))

    @abstractmethod
    def splits(self, parallelism: int) -> Iterable[SplitT]:
        """Return the splits of a job that starts without a checkpoint, for this number of readers."""

    def create_enumerator(self, context: SplitEnumeratorContext[SplitT]) -> FixedSplitsEnumerator[SplitT]:
        return self.enumerator(context, self.splits(context.parallelism))

    def restore_enumerator(
        self, context: SplitEnumeratorContext[SplitT], checkpoint: tuple[SplitT, ...]
    ) -> FixedSplitsEnumerator[SplitT]:
        return self.enumerator(context, checkpoint)


class SequentialReader(SourceReader[T, SplitT]):
    """A reader that reads its splits one after the other; a subclass implements `_read`."""

    def __init__(self) -> None:
        #: The unfinished splits by id; the first one is read.
        self._splits: dict[str, SplitT] = {}
        self._no_more_splits = False

    def add_splits(self, splits: Sequence[SplitT]) -> None:
        self._splits.update((split.split_id, split) for split in splits)

    def notify_no_more_splits(self) -> None:
        self._no_more_splits = True

    def poll_next(self, output: ReaderOutput[T]) -> InputStatus:
        split = next(iter(self._splits.values()), None)
        if split is not None:
            self._read(split, output)
        return self._status()

    def _status(self) -> InputStatus:
        if self._splits:
            return InputStatus.MORE_AVAILABLE
        return InputStatus.END_OF_INPUT if self._no_more_splits else InputStatus.NOTHING_AVAILABLE

    @abstractmethod
    def _read(self, split: SplitT, output: ReaderOutput[T]) -> None:
        """Emit records of a split, at most about `output.credit`; then `_update` or `_finish` the split."""

    def _update(self, split: SplitT) -> None:
        self._splits[split.split_id] = split

    def _finish(self, split: SplitT, output: ReaderOutput[T]) -> None:
        """Drop a split that was read to its end."""
        del self._splits[split.split_id]
        output.split_finished(split.split_id)

    def snapshot_state(self) -> Sequence[SplitT]:
        return tuple(self._splits.values())


class BatchedReader(SequentialReader[T, SplitT]):
    """A reader of files, which it opens one after the other; a subclass implements `_open`."""

    _current: Any = None

    @abstractmethod
    def _open(self, split: SplitT, *, by_columns: bool) -> Any:
        """Return an object that reads a split, with the methods of a SplitReader of files."""

    def _read(self, split: SplitT, output: ReaderOutput[T]) -> None:
        output.select_split(split.split_id)
        reader = self._current
        if reader is None:
            reader = self._current = self._open(split, by_columns=output.wants_columns)
        left = max(1, output.credit)
        while left > 0 and (records := reader.read(left if output.wants_columns else min(left, BATCH_RECORDS))):
            left -= len(records)
            emit_read(output, records)
        if left > 0 or reader.finished:
            self.close()
            self._finish(split, output)
        else:
            self._update(reader.split())

    def close(self) -> None:
        if self._current is not None:
            self._current.close()
            self._current = None

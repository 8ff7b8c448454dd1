"""A bounded source of the integers in a range."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flinkish.common.arguments import int_of
from flinkish.common.errors import InvalidProgramError
from flinkish.common.limits import LONG_MAX, LONG_MIN
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.datastream.connectors._sequences import FixedSplitsEnumerator, SequentialReader, cut_range
from flinkish.program.sources import (
    Boundedness,
    ReaderOutput,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSequenceSplit(SourceSplit):
    """The numbers from `next_number` to `end`, both inclusive."""

    next_number: int
    end: int


@dataclass(frozen=True)
class NumberSequenceSource(Source[int, NumberSequenceSplit, tuple[NumberSequenceSplit, ...]]):
    """Emit the numbers from `start` to `end`, both inclusive, as LONG.

    The range is divided into one part for each reader; each part is emitted in order.
    """

    start: int
    end: int

    def __post_init__(self) -> None:
        for name, value in (("start", self.start), ("end", self.end)):
            int_of(f"{name} of NumberSequenceSource", value)
            if not LONG_MIN <= value <= LONG_MAX:
                raise InvalidProgramError(f"{name} of NumberSequenceSource must fit into 64 bits; got {value}")
        if self.end < self.start:
            raise InvalidProgramError(
                f"NumberSequenceSource: end must not be less than start; got start {self.start}, end {self.end}",
                hint="both are inclusive.",
            )

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED

    @property
    def split_type(self) -> type[NumberSequenceSplit]:
        return NumberSequenceSplit

    @property
    def enumerator_checkpoint_type(self) -> Any:
        return tuple[NumberSequenceSplit, ...]

    def create_enumerator(
        self, context: SplitEnumeratorContext[NumberSequenceSplit]
    ) -> SplitEnumerator[NumberSequenceSplit, tuple[NumberSequenceSplit, ...]]:
        ranges = cut_range(self.start, self.end, context.parallelism)
        return FixedSplitsEnumerator(
            context,
            [NumberSequenceSplit(split_id=str(i), next_number=first, end=last) for i, (first, last) in enumerate(ranges)],
        )

    def restore_enumerator(
        self, context: SplitEnumeratorContext[NumberSequenceSplit], checkpoint: tuple[NumberSequenceSplit, ...]
    ) -> SplitEnumerator[NumberSequenceSplit, tuple[NumberSequenceSplit, ...]]:
        return FixedSplitsEnumerator(context, checkpoint)

    def create_reader(self, context: SourceReaderContext) -> SourceReader[int, NumberSequenceSplit]:
        return _NumberSequenceReader()

    def produced_type(self) -> TypeInformation:
        return Types.LONG()


class _NumberSequenceReader(SequentialReader[int, NumberSequenceSplit]):
    def _read(self, split: NumberSequenceSplit, output: ReaderOutput[int]) -> None:
        output.select_split(split.split_id)
        stop = min(split.end + 1, split.next_number + max(1, output.credit))
        output.collect_all(range(split.next_number, stop))
        if stop > split.end:
            self._finish(split, output)
        else:
            self._splits.update(replace(split, next_number=stop))

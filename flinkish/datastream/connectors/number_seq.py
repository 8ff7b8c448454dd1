"""A bounded source of the integers in a range."""

from __future__ import annotations

from dataclasses import dataclass, replace

from flinkish.common.arguments import check, int_of
from flinkish.common.limits import LONG_MAX, LONG_MIN
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.datastream.connectors._sequences import FixedSplitsSource, SequentialReader, cut_range
from flinkish.program.sources import Boundedness, ReaderOutput, SourceReaderContext, SourceSplit


@dataclass(frozen=True, slots=True, kw_only=True)
class NumberSequenceSplit(SourceSplit):
    """The numbers from `next_number` to `end`, both inclusive."""

    next_number: int
    end: int

    @property
    def records_left(self) -> int:
        return self.end - self.next_number + 1


@dataclass(frozen=True)
class NumberSequenceSource(FixedSplitsSource[int, NumberSequenceSplit]):
    """Emit the numbers from `start` to `end`, both inclusive, as LONG.

    The range is divided into one part for each reader; each part is emitted in order.
    """

    boundedness = Boundedness.BOUNDED
    split_type = NumberSequenceSplit
    why_records = None

    start: int
    end: int

    def __post_init__(self) -> None:
        for name, value in (("start", self.start), ("end", self.end)):
            what = f"{name} of NumberSequenceSource"
            check(LONG_MIN <= int_of(what, value) <= LONG_MAX, f"{what} must fit into 64 bits; got {value}")
        check(
            self.start <= self.end,
            f"NumberSequenceSource: end must not be less than start; got start {self.start}, end {self.end}",
            hint="both are inclusive.",
        )

    def splits(self, parallelism: int) -> list[NumberSequenceSplit]:
        ranges = cut_range(self.start, self.end, parallelism)
        return [NumberSequenceSplit(split_id=str(i), next_number=first, end=last) for i, (first, last) in enumerate(ranges)]

    def create_reader(self, context: SourceReaderContext) -> _NumberSequenceReader:
        return _NumberSequenceReader()

    def produced_type(self) -> TypeInformation:
        return Types.LONG()


class _NumberSequenceReader(SequentialReader[int, NumberSequenceSplit]):
    def _read(self, split: NumberSequenceSplit, output: ReaderOutput[int]) -> None:
        output.select_split(split.split_id)
        stop = min(split.end + 1, split.next_number + max(1, output.credit))
        if output.wants_columns:
            import numpy as np
            import pyarrow as pa

            # Not arange(first, stop): the stop after the last of all numbers would make floats of them.
            numbers = split.next_number + np.arange(stop - split.next_number)
            output.collect_columns(pa.record_batch([pa.array(numbers)], ["value"]))
        else:
            output.collect_all(range(split.next_number, stop))
        if stop > split.end:
            self._finish(split, output)
        else:
            self._update(replace(split, next_number=stop))

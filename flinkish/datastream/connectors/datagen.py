"""A source that generates records from their index, for tests, demonstrations and load tests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from flinkish.common.arguments import callable_of, check, int_of, number_of
from flinkish.common.limits import LONG_MAX
from flinkish.common.pickling import check_serializable
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors._sequences import FixedSplitsSource, SequentialReader, cut_range
from flinkish.program.sources import Boundedness, InputStatus, ReaderOutput, SourceReaderContext, SourceSplit

#: Maximum time that a rate-limited reader catches up on after a pause, in milliseconds, to avoid a flood after a restart.
_BURST = 1000


class GeneratorFunction(ABC):
    """Makes a record from its index, and may hold resources; without resources a plain callable is enough.

    It must return the same record for the same index, so that the source can be replayed.
    """

    def open(self, context: SourceReaderContext) -> None:  # noqa: B027 - optional
        """Prepare the function; called in the task."""

    @abstractmethod
    def map(self, index: int) -> Any:
        """Return the record with this index."""

    def close(self) -> None:  # noqa: B027 - optional
        """Release the resources of `open`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataGeneratorSplit(SourceSplit):
    """The indexes from `next_index` to `end`, both inclusive, at a distance of `step`.

    Each split has its own share of the rate, so that the total rate is the same at any parallelism. `allowance` is how much may
    be emitted, in thousandths of a record, as of `allowance_time` (processing time in milliseconds; None before the first poll).
    """

    next_index: int
    end: int
    #: Number of splits of the source, among which the rate is divided equally.
    shares: int
    step: int = 1
    allowance: float = 1000.0
    allowance_time: int | None = None

    @property
    def records_left(self) -> int | None:
        # With a rate, an epoch reads fewer than it may.
        return _left(self) if self.allowance_time is None else None


class DataGeneratorSource(FixedSplitsSource[Any, DataGeneratorSplit]):
    """Emits `generator_function(index)` for index 0 to count - 1, divided into one range for each reader.

    With a `count` of None the source never ends; of two readers, one then has the even and one the odd indexes.
    `records_per_second` limits the total rate of all readers. The limit uses the processing time of epochs, so a repeated epoch
    emits the same records. `type_info` is the type of the records; None = they are pickled. Raises InvalidArgumentError for
    values of a wrong type, and InvalidProgramError for values out of range.

    Differs from Flink: Flink divides the 2^63 indexes into ranges even without a count, so only one reader begins at 0.

    >>> source = DataGeneratorSource(lambda index: index * index, 10)
    >>> source.boundedness.value
    'BOUNDED'
    """

    split_type = DataGeneratorSplit

    def __init__(
        self,
        generator_function: GeneratorFunction | Callable[[int], Any],
        count: int | None = None,
        records_per_second: float | None = None,
        type_info: TypeInformation | None = None,
    ) -> None:
        if not isinstance(generator_function, GeneratorFunction):
            callable_of("generator_function", generator_function, "a GeneratorFunction or a callable of an index")
        if count is not None:
            int_of("count", count, minimum=0, maximum=LONG_MAX)
        if records_per_second is not None:
            finite = 0 < number_of("records_per_second", records_per_second) < float("inf")
            check(finite, f"records_per_second must be more than 0 and finite; got {records_per_second}")
        self._generator_function = generator_function
        self._count = count
        self._records_per_second = records_per_second
        self._type_info = type_info

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.CONTINUOUS_UNBOUNDED if self._count is None else Boundedness.BOUNDED

    def splits(self, parallelism: int) -> list[DataGeneratorSplit]:
        if self._count is None:
            # Without a count, ranges would begin at indexes that the source never reaches.
            ranges, step = [(first, LONG_MAX - 1) for first in range(parallelism)], parallelism
        else:
            ranges, step = cut_range(0, self._count - 1, parallelism), 1
        shares = len(ranges)
        # The first record is emitted at once; the first records of the other splits follow one by one at the given rate.
        return [
            DataGeneratorSplit(
                split_id=str(i), next_index=first, end=end, shares=shares, step=step, allowance=1000.0 * (1 - i / shares)
            )
            for i, (first, end) in enumerate(ranges)
        ]

    def create_reader(self, context: SourceReaderContext) -> DataGeneratorReader:
        return DataGeneratorReader(self._generator_function, self._records_per_second, context)

    def produced_type(self) -> TypeInformation | None:
        return self._type_info

    def validate(self) -> None:
        check_serializable(self._generator_function, "the generator function of DataGeneratorSource")


class DataGeneratorReader(SequentialReader[Any, DataGeneratorSplit]):
    """Calls the function of a DataGeneratorSource for the indexes of its splits, as fast as the rate allows."""

    def __init__(
        self,
        function: GeneratorFunction | Callable[[int], Any],
        records_per_second: float | None,
        context: SourceReaderContext,
    ) -> None:
        super().__init__()
        self._function = function
        self._generate = function.map if isinstance(function, GeneratorFunction) else function
        self._records_per_second = records_per_second
        self._context = context

    def start(self) -> None:
        if isinstance(self._function, GeneratorFunction):
            self._function.open(self._context)

    def poll_next(self, output: ReaderOutput[Any]) -> InputStatus:
        if self._records_per_second is None:
            return super().poll_next(output)
        credit = max(1, output.credit)
        more = False
        # Each split has its own allowance, so all splits are read.
        for split in tuple(self._splits.values()):
            split = self._refill(split, self._records_per_second)
            wanted = min(int(split.allowance // 1000), _left(split))
            due = min(wanted, credit)
            split = replace(split, allowance=split.allowance - due * 1000)
            self._update(split)
            if due > 0:
                self._emit(split, due, output)
            credit -= due
            more = more or due < wanted
        status = self._status()
        if status is InputStatus.MORE_AVAILABLE and not more:
            return InputStatus.NOTHING_AVAILABLE
        return status

    def _read(self, split: DataGeneratorSplit, output: ReaderOutput[Any]) -> None:
        self._emit(split, max(1, output.credit), output)

    def _emit(self, split: DataGeneratorSplit, limit: int, output: ReaderOutput[Any]) -> None:
        output.select_split(split.split_id)
        stop = split.next_index + min(limit, _left(split)) * split.step
        self._emit_records(range(split.next_index, stop, split.step), output)
        if stop > split.end:
            self._finish(split, output)
        else:
            # Put last, so that the others are read, too, if the credit is too small for all, or if this one never ends.
            del self._splits[split.split_id]
            self._update(replace(split, next_index=stop))

    def _emit_records(self, indexes: range, output: ReaderOutput[Any]) -> None:
        output.collect_all(map(self._generate, indexes))

    def _refill(self, split: DataGeneratorSplit, records_per_second: float) -> DataGeneratorSplit:
        now = self._context.processing_time()
        rate = records_per_second / split.shares  # records per second = thousandths of a record per millisecond
        if split.allowance_time is None:
            return replace(split, allowance_time=now)
        elapsed = min(max(0, now - split.allowance_time), _BURST)
        ceiling = max(1000.0, rate * _BURST)
        return replace(split, allowance=min(split.allowance + elapsed * rate, ceiling), allowance_time=now)

    def close(self) -> None:
        if isinstance(self._function, GeneratorFunction):
            self._function.close()


def _left(split: DataGeneratorSplit) -> int:
    return (split.end - split.next_index) // split.step + 1

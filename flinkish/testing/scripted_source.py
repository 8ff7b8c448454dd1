"""A source that emits the records of a test when the test requests it; DESIGN.md explains how scripts reach the readers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

from flinkish.common import pickling
from flinkish.common.conversion import lenient_converter
from flinkish.common.errors import ForeignCheckpointError, InvalidArgumentError, SourceError
from flinkish.common.typeinfo import TypeInformation
from flinkish.program.sources import (
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
from flinkish.testing.results import StreamRecord
from flinkish.testing.steps import Emit, EmitWatermark, End, Fail, MarkActive, MarkIdle, Pause, SourceStep

__all__ = ["ScriptedFailure", "ScriptedSource"]

#: The steps of a split, with their positions in the script of the source.
_Items = list[tuple[int, SourceStep]]


class ScriptedFailure(SourceError):
    """The error that a step `Fail` of a script raises in the reading task."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptSplit(SourceSplit):
    """A split, or a further part of the split with the same number."""

    number: int
    #: Index of the first step of the script that is not done.
    position: int
    #: Pickled `_Items`: the released steps that are not done.
    items: bytes


class ScriptedSource(Source[Any, ScriptSplit, int]):
    """A source for `env.from_source` that the test controls; made by `JobHarness.source`.

    Steps are kept until the test looks at outputs, advances the time, takes a checkpoint or calls `settle`; then the job gets all
    of them at once. Subtask `number % parallelism` reads a split; a subtask with several splits reads them in the order of the
    script. A split that has ended does not hold back watermarks, nor does a subtask without splits. The source ends with its last
    split.
    """

    emits_watermarks = True
    split_type = ScriptSplit
    enumerator_checkpoint_type = int

    def __init__(self, name: str, type_info: TypeInformation | None = None, splits: int = 1, bounded: bool = False) -> None:
        if splits < 1:
            raise InvalidArgumentError(f"source {name!r} needs at least one split; got {splits}")
        self.name = name
        self.splits = splits
        self._type_info = type_info
        self._bounded = bounded
        self._convert = None if type_info is None else lenient_converter(type_info)
        self._ended: set[int] = set()
        #: The test's steps that have not been released yet, in order. Pauses are never released.
        self._waiting: deque[SourceStep] = deque()
        self._script: list[SourceStep | None] = []
        #: The splits whose ends the job may know of.
        self.released_ends: set[int] = set()
        #: When a pause ends, in milliseconds of processing time.
        self.resumes_at: int | None = None
        #: The enumerator of the running attempt.
        self.enumerator: ScriptEnumerator | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # The script is not part of the pickled source.
        return ScriptedSource, (self.name, self._type_info, self.splits, self._bounded)

    def emit(self, value: Any, timestamp: int | None = None, *, split: int = 0) -> None:
        """Emit a record with its event time in milliseconds. With a type, it is converted like values of from_collection."""
        self.do(Emit(value, timestamp, self.name, split))

    def emit_all(self, values: Iterable[Any], timestamp: int | None = None, *, split: int = 0) -> None:
        """Emit records, all with the same event time; a StreamRecord has its own."""
        for value in values:
            record = value if isinstance(value, StreamRecord) else StreamRecord(value, timestamp)
            self.emit(*record, split=split)

    def watermark(self, timestamp: int, *, split: int = 0) -> None:
        """Emit a watermark: no more records of the split with event time <= `timestamp` (milliseconds) will follow."""
        self.do(EmitWatermark(timestamp, self.name, split))

    def idle(self, *, split: int = 0) -> None:
        """Mark the split as idle until its next watermark or `active`; meanwhile it does not hold back the watermark."""
        self.do(MarkIdle(self.name, split))

    def active(self, *, split: int = 0) -> None:
        """Mark the split as active again."""
        self.do(MarkActive(self.name, split))

    def pause(self, milliseconds: int) -> None:
        """Emit nothing until this many milliseconds of processing time have passed; other sources continue."""
        self.do(Pause(milliseconds, self.name))

    def fail(self, message: str = "the script says so", *, split: int = 0) -> None:
        """Raise ScriptedFailure in the task that reads the split, once. The job's restart strategy decides what follows."""
        self.do(Fail(message, self.name, split))

    def end(self, *, split: int | None = None) -> None:
        """End one split, or all that have not ended yet; the source ends with the last."""
        self.do(End(self.name, split))

    @property
    def ended(self) -> bool:
        """Whether the script has ended all splits."""
        return len(self._ended) == self.splits

    def do(self, step: SourceStep) -> None:
        """Add a step to the script."""
        if isinstance(step, Pause):
            if step.milliseconds < 0 or self.ended:
                raise InvalidArgumentError(f"{step!r}: a source that has not ended can pause for 0 ms or more")
        elif isinstance(step, End) and step.split is None:
            for number in set(range(self.splits)) - self._ended:
                self.do(replace(step, split=number))
            return
        elif step.split not in range(self.splits):
            raise InvalidArgumentError(f"{step!r}: source {self.name!r} has splits 0 to {self.splits - 1}")
        elif step.split in self._ended:
            raise InvalidArgumentError(f"{step!r}: split {step.split} of source {self.name!r} has ended")
        if isinstance(step, End) and step.split is not None:
            self._ended.add(step.split)
        if isinstance(step, Emit) and self._convert is not None:
            step = replace(step, value=self._convert(step.value))
        self._waiting.append(step)

    def is_like(self, type_info: TypeInformation | None, splits: int, bounded: bool) -> bool:
        """Tell whether the arguments agree with the source; default values agree with any."""
        same_type = type_info is None or type_info == self._type_info
        return same_type and splits in (1, self.splits) and bounded in (False, self._bounded)

    def release(self, now: int) -> bool:
        """Release the test's steps up to the next pause to the job; return whether there are any."""
        if self.resumes_at is not None and self.resumes_at <= now:
            self.resumes_at = None
        before = len(self._script)
        while self._waiting and self.resumes_at is None:
            step = self._waiting.popleft()
            if isinstance(step, Pause):
                self.resumes_at = now + step.milliseconds if step.milliseconds else None
            else:
                self._script.append(step)
                if isinstance(step, End) and step.split is not None:
                    self.released_ends.add(step.split)
        return len(self._script) > before

    @property
    def released(self) -> int:
        """The length of the released part of the script."""
        return len(self._script)

    def items(self, number: int, position: int) -> _Items:
        """Return the steps of a split from a position on; a failure only once, so that a restart does not repeat it."""
        items: _Items = []
        for place in range(position, len(self._script)):
            step = self._script[place]
            if step is None or isinstance(step, Pause) or step.split != number:
                continue
            if isinstance(step, Fail):
                self._script[place] = None
            items.append((place, step))
        return items

    @property
    def boundedness(self) -> Boundedness:
        return Boundedness.BOUNDED if self._bounded else Boundedness.CONTINUOUS_UNBOUNDED

    def create_enumerator(self, context: SplitEnumeratorContext[ScriptSplit]) -> ScriptEnumerator:
        return ScriptEnumerator(context, self, dict.fromkeys(range(self.splits), 0))

    def ended_before(self, numbers: set[int]) -> None:
        """Record which splits have ended according to a checkpoint, which may be from another harness."""
        self._ended |= numbers
        self.released_ends |= numbers

    def restore_enumerator(self, context: SplitEnumeratorContext[ScriptSplit], checkpoint: int) -> ScriptEnumerator:
        if checkpoint != self.splits:
            raise SourceError(f"source {self.name!r} had {checkpoint} splits in the checkpoint and has {self.splits} now")
        return ScriptEnumerator(context, self, {})

    def check_restored(self, splits: Sequence[ScriptSplit], checkpoint: int | None, *, trusted: bool) -> None:
        """Raise ForeignCheckpointError for splits that another key signed: the records in them are pickled."""
        if splits and not trusted:
            raise ForeignCheckpointError(
                f"the splits of the scripted source {self.name!r} hold pickled records, and another key signed the checkpoint",
                hint="start from that checkpoint with the signing key it was made with (security.checkpoint.hmac-key-file).",
            )

    def create_reader(self, context: SourceReaderContext) -> SourceReader[Any, ScriptSplit]:
        return _ScriptReader()

    def produced_type(self) -> TypeInformation | None:
        return self._type_info


class ScriptEnumerator(SplitEnumerator[ScriptSplit, int]):
    """Assigns all splits at once, and then the steps that the test releases; all calls come from the job's thread."""

    def __init__(self, context: SplitEnumeratorContext[ScriptSplit], source: ScriptedSource, positions: dict[int, int]) -> None:
        self.context = context
        self._source = source
        #: Positions of the splits that have not ended.
        self._positions = positions
        self._deliveries = 0

    def add_splits_back(self, splits: Sequence[ScriptSplit], subtask: int) -> None:
        released = self._source.released
        # A position from another harness has no meaning in this script, which is then read from its start.
        self._positions = {split.number: split.position if split.position <= released else 0 for split in splits}
        self._source.ended_before(set(range(self._source.splits)) - self._positions.keys())

    def start(self) -> None:
        self._source.enumerator = self
        for number, position in self._positions.items():
            self._assign(number, position, self._source.items(number, position), f"{self._source.name}-{number}")
        self._signal_end()

    def deliver(self, *, always: bool = False) -> None:
        """Assign the released steps; with `always`, assign something in any case, so that an epoch runs."""
        for number, position in self._positions.items():
            items = self._source.items(number, position)
            if items or always:
                self._deliveries += 1
                self._assign(number, position, items, f"{self._source.name}-{number}+{self._deliveries}")
        self._signal_end()

    def _assign(self, number: int, position: int, items: _Items, split_id: str) -> None:
        split = ScriptSplit(split_id=split_id, number=number, position=position, items=pickling.dumps(items))
        self.context.assign_split(split, number % self.context.parallelism)
        self._positions[number] = self._source.released

    def _signal_end(self) -> None:
        """Signal to the readers that no more splits will follow, when all splits have ended."""
        ended = self._source.released_ends
        self._positions = {number: position for number, position in self._positions.items() if number not in ended}
        if len(ended) == self._source.splits:
            for subtask in range(self.context.parallelism):
                self.context.signal_no_more_splits(subtask)

    def snapshot_state(self, checkpoint_id: int) -> int:
        return self._source.splits

    def close(self) -> None:
        if self._source.enumerator is self:
            self._source.enumerator = None


@dataclass(slots=True)
class _Open:
    """A split that is being read."""

    split_id: str
    position: int
    items: deque[tuple[int, SourceStep]]


class _ScriptReader(SourceReader[Any, ScriptSplit]):
    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        #: Splits that only brought more steps for one that is open; they are to hold back no watermark.
        self._merged: list[str] = []
        self._no_more = False
        self._said_idle = False

    def add_splits(self, splits: Sequence[ScriptSplit]) -> None:
        for split in splits:
            items = pickling.loads(split.items)
            known = self._open.get(split.number)
            if known is None:
                self._open[split.number] = _Open(split.split_id, split.position, deque(items))
            else:
                known.items.extend(items)
                self._merged.append(split.split_id)

    def notify_no_more_splits(self) -> None:
        self._no_more = True

    def poll_next(self, output: ReaderOutput[Any]) -> InputStatus:
        while self._merged:
            output.split_finished(self._merged.pop())
        while output.credit > 0:
            ready = [split for split in self._open.values() if split.items]
            if not ready:
                break
            self._do(min(ready, key=lambda split: split.items[0][0]), output)
        if any(split.items for split in self._open.values()):
            return InputStatus.MORE_AVAILABLE
        if not self._open and not self._no_more and not self._said_idle:
            # For none of its splits: it has none any more, or never had any.
            self._said_idle = True
            output.select_split("")
            output.mark_idle()
        return InputStatus.END_OF_INPUT if self._no_more and not self._open else InputStatus.NOTHING_AVAILABLE

    def _do(self, split: _Open, output: ReaderOutput[Any]) -> None:
        place, step = split.items.popleft()
        split.position = place + 1
        output.select_split(split.split_id)
        match step:
            case Emit(value=value, timestamp=timestamp):
                output.collect(value, timestamp)
            case EmitWatermark(timestamp=watermark):
                output.emit_watermark(watermark)
            case MarkIdle():
                output.mark_idle()
            case MarkActive():
                output.mark_active()
            case Fail(message=message):
                raise ScriptedFailure(message)
            case End(split=number):
                assert number is not None
                del self._open[number]
                output.split_finished(split.split_id)
            case Pause():
                raise AssertionError("a pause is never handed out")
            case unexpected:
                assert_never(unexpected)

    def snapshot_state(self) -> Sequence[ScriptSplit]:
        return [
            ScriptSplit(split_id=split.split_id, number=number, position=split.position, items=pickling.dumps(list(split.items)))
            for number, split in self._open.items()
        ]

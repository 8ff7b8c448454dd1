"""HybridSource: reads several sources one after the other, each to its end, as if they were one source.

Source: FLIP-150 (Flink's HybridSource). In Flink, readers send an event when they have finished a source. Here, a reader that
gets no more splits of a source gets a marker split instead. When it has finished that source, it drops the marker and requests
splits again, which informs the enumerator. So splits and the enumerator's state contain everything that a restore needs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

import msgspec

from flinkish.common.arguments import instance_of
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ForeignCheckpointError, InvalidProgramError
from flinkish.common.typeinfo import TypeInformation
from flinkish.program.driver_objects import NeedsDataFrames
from flinkish.program.sources import (
    Boundedness,
    DriverSource,
    InputStatus,
    ReaderOutput,
    Source,
    SourceReader,
    SourceReaderContext,
    SourceSplit,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkish.program.state_kinds import source_kind

__all__ = ["HybridSource", "HybridSourceBuilder"]

T = TypeVar("T")
AnySource = Source[Any, Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridSplit(SourceSplit):
    """A split of one of the sources."""

    #: Number of the source, from 0.
    source: int
    #: The source's own split as MessagePack; None = the marker that this source has no more splits for the reader.
    split: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridEnumeratorState:
    """The number of the current source, from 0, and the state of its enumerator as MessagePack."""

    source: int
    enumerator: bytes
    #: The kind of the current source, see program/state_kinds.py.
    kind: str


class HybridSource(Source[Any, HybridSplit, HybridEnumeratorState]):
    """Reads sources one after the other: the next one begins when all readers have finished the one before.

    >>> from flinkish.datastream.connectors.number_seq import NumberSequenceSource
    >>> history, rest = NumberSequenceSource(1, 10), NumberSequenceSource(11, 20)
    >>> HybridSource.builder(history).add_source(rest).build().boundedness.value
    'BOUNDED'

    All sources except the last must be bounded, and all must have records of the same type. Watermarks continue from one source
    to the next: records of a later source are late if their timestamps are before the end of an earlier source.
    Differs from Flink: neither a socket, which the driver reads, nor a DataFrame can be a part.
    """

    split_type = HybridSplit
    enumerator_checkpoint_type = HybridEnumeratorState

    def __init__(self, sources: Sequence[AnySource]) -> None:
        self._sources = tuple(sources)
        self.emits_watermarks = any(source.emits_watermarks for source in self._sources)
        self.makes_new_records = all(source.makes_new_records for source in self._sources)

    @staticmethod
    def builder(first_source: AnySource) -> HybridSourceBuilder:
        """Return a builder with the source to read first."""
        return HybridSourceBuilder(first_source)

    @property
    def boundedness(self) -> Boundedness:
        return self._sources[-1].boundedness

    def restore_enumerator(
        self, context: SplitEnumeratorContext[HybridSplit], checkpoint: HybridEnumeratorState | None = None
    ) -> _HybridEnumerator:
        return _HybridEnumerator(context, self._sources, checkpoint)

    create_enumerator = restore_enumerator

    def check_restored(self, splits: Sequence[HybridSplit], checkpoint: HybridEnumeratorState | None, *, trusted: bool) -> None:
        """Raise the errors of the sources' own checks."""
        hint = "add the sources that were there, or give the source another uid, so that it starts from the beginning."
        for index in {*(split.source for split in splits), *(() if checkpoint is None else (checkpoint.source,))}:
            if not 0 <= index < len(self._sources):
                raise ForeignCheckpointError(
                    f"the checkpoint was made while source {index} of the HybridSource was read; there are {len(self._sources)}",
                    hint=hint,
                )
            source = self._sources[index]
            state = None
            if checkpoint is not None and index == checkpoint.source:
                if checkpoint.kind != source_kind(source):
                    raise ForeignCheckpointError(
                        f"source {index} of the HybridSource was {checkpoint.kind} when the checkpoint was taken, and is "
                        f"{source_kind(source)} in this program",
                        hint=hint,
                    )
                state = msgspec.msgpack.decode(checkpoint.enumerator, type=source.enumerator_checkpoint_type)
            own = _decoded([split for split in splits if split.source == index], source)
            source.check_restored(own, state, trusted=trusted)

    def create_reader(self, context: SourceReaderContext) -> _HybridReader:
        return _HybridReader(context, self._sources)

    def produced_type(self) -> TypeInformation | None:
        types = [source.produced_type() for source in self._sources]
        return None if None in types else types[0]

    def validate(self) -> None:
        """Raise the errors of the sources' own checks, and InvalidProgramError if the types of their records differ."""
        for source in self._sources:
            source.validate()
        known = [(index, type_info) for index, source in enumerate(self._sources) if (type_info := source.produced_type())]
        for index, type_info in known[1:]:
            first, expected = known[0]
            if type_info != expected:
                raise InvalidProgramError(
                    f"the sources of a HybridSource must have records of one type; source {first} has {expected!r}, "
                    f"source {index} has {type_info!r}"
                )


class HybridSourceBuilder:
    """Builder of a HybridSource."""

    def __init__(self, first_source: AnySource) -> None:
        self._sources = [_checked(first_source, "HybridSource.builder")]

    def add_source(self, source: AnySource) -> HybridSourceBuilder:
        """Add a source to read after the others. Raises InvalidProgramError if the last source so far is unbounded."""
        if self._sources[-1].boundedness is not Boundedness.BOUNDED:
            raise InvalidProgramError(
                f"all sources of a HybridSource but the last must be bounded; source {len(self._sources) - 1} "
                f"({type(self._sources[-1]).__name__}) is not",
                hint="a source after it would never be read.",
            )
        self._sources.append(_checked(source, "add_source"))
        return self

    def build(self) -> HybridSource:
        """Return the source."""
        return HybridSource(self._sources)


def _checked(source: Any, method: str) -> AnySource:
    if isinstance(source, DriverSource | NeedsDataFrames):
        raise InvalidProgramError(
            f"{method}: a {type(source).__name__} is not read by tasks alone and cannot be a part of a HybridSource",
            hint="make a stream of it and union() that with the other.",
        )
    return instance_of(f"{method}()", source, Source, hint="call build() on a builder first.")


#: Split ids contain the number of their source, so that two sources may use the same ids.
_PREFIX: Final = "{}: {}"


def _wrapped(source: int, split: SourceSplit) -> HybridSplit:
    return HybridSplit(split_id=_PREFIX.format(source, split.split_id), source=source, split=msgspec.msgpack.encode(split))


def _decoded(splits: Iterable[HybridSplit], source: AnySource) -> list[Any]:
    """Return the source's own splits, without markers."""
    return [msgspec.msgpack.decode(split.split, type=source.split_type) for split in splits if split.split is not None]


class _PartContext(SplitEnumeratorContext[Any]):
    """The context of one source's enumerator, while that source is read."""

    def __init__(
        self, outer: SplitEnumeratorContext[HybridSplit], index: int, source: AnySource, no_more: Callable[[int], None]
    ) -> None:
        self.parallelism = outer.parallelism
        self.configuration: Configuration = outer.configuration
        self.over = False
        self._no_more = no_more
        self._outer = outer
        self._index = index
        self._source = source

    def signal_no_more_splits(self, subtask: int) -> None:
        self._no_more(subtask)

    def assign_split(self, split: SourceSplit, subtask: int) -> None:
        self._outer.assign_split(_wrapped(self._index, split), subtask)

    def is_reading(self, subtask: int) -> bool:
        return self._outer.is_reading(subtask)

    def assigned_splits(self) -> list[SourceSplit]:
        splits = self._outer.assigned_splits()
        return _decoded(
            [split for split in splits if isinstance(split, HybridSplit) and split.source == self._index], self._source
        )

    def call_async(
        self,
        work: Callable[[], T],
        handler: Callable[[T | None, BaseException | None], None],
        *,
        initial_delay: int = 0,
        period: int | None = None,
    ) -> None:
        def work_unless_over() -> T | None:
            return None if self.over else work()

        def handle_unless_over(result: T | None, error: BaseException | None) -> None:
            if not self.over:
                handler(result, error)

        self._outer.call_async(work_unless_over, handle_unless_over, initial_delay=initial_delay, period=period)


class _HybridEnumerator(SplitEnumerator[HybridSplit, HybridEnumeratorState]):
    def __init__(
        self,
        context: SplitEnumeratorContext[HybridSplit],
        sources: Sequence[AnySource],
        restored: HybridEnumeratorState | None,
    ) -> None:
        self._context = context
        self._sources = sources
        self._enter(0 if restored is None else restored.source, restored)

    def _enter(self, index: int, restored: HybridEnumeratorState | None) -> None:
        self._index = index
        #: Subtasks that have the marker of this source, and subtasks that have the marker and have finished the source.
        self._marked: set[int] = set()
        self._done: set[int] = set()
        source, last = self._sources[index], index == len(self._sources) - 1
        no_more = self._context.signal_no_more_splits if last else self._mark
        self._part = _PartContext(self._context, index, source, no_more)
        self._inner: SplitEnumerator[Any, Any]
        if restored is None:
            self._inner = source.create_enumerator(self._part)
        else:
            state = msgspec.msgpack.decode(restored.enumerator, type=source.enumerator_checkpoint_type)
            self._inner = source.restore_enumerator(self._part, state)

    def _mark(self, subtask: int) -> None:
        if subtask not in self._marked:
            self._marked.add(subtask)
            mark = HybridSplit(split_id=f"{self._index}: end {subtask}", source=self._index, split=None)
            self._context.assign_split(mark, subtask)

    def start(self) -> None:
        self._inner.start()

    def handle_split_request(self, subtask: int) -> None:
        if subtask not in self._marked:
            self._inner.handle_split_request(subtask)
        elif not self._context.is_reading(subtask):
            self._done.add(subtask)
            if len(self._done) == self._context.parallelism:
                self._begin_next()

    def _begin_next(self) -> None:
        self.close()
        self._enter(self._index + 1, None)
        self._inner.start()
        for subtask in range(self._context.parallelism):
            if subtask not in self._marked:
                self._inner.handle_split_request(subtask)

    def add_splits_back(self, splits: Sequence[HybridSplit], subtask: int) -> None:
        # Markers are made again, for the current parallelism.
        own = _decoded(splits, self._sources[self._index])
        if own:
            self._inner.add_splits_back(own, subtask)

    def split_limits(self) -> dict[str, int] | None:
        limits = self._inner.split_limits()
        return None if limits is None else {_PREFIX.format(self._index, name): limit for name, limit in limits.items()}

    def snapshot_state(self, checkpoint_id: int) -> HybridEnumeratorState:
        return HybridEnumeratorState(
            source=self._index,
            enumerator=msgspec.msgpack.encode(self._inner.snapshot_state(checkpoint_id)),
            kind=source_kind(self._sources[self._index]),
        )

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._inner.notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        self._part.over = True
        self._inner.close()


class _PartOutput(ReaderOutput[Any]):
    """The output of one source's reader: it adds the number of the source to split ids."""

    # Methods of the outer output, used directly, because they are called for each record.
    collect: Any
    collect_all: Any
    emit_watermark: Any
    mark_idle: Any
    mark_active: Any

    def __init__(self, source: int, outer: ReaderOutput[Any]) -> None:
        self._source = source
        self._outer = outer
        self.collect, self.collect_all = outer.collect, outer.collect_all
        self.emit_watermark, self.mark_idle, self.mark_active = outer.emit_watermark, outer.mark_idle, outer.mark_active

    def collect_columns(self, batch: Any, timestamps: Any = None) -> None:
        raise AssertionError("readers of a hybrid source are not asked for columns")

    @property
    def credit(self) -> int:  # type: ignore[override]
        return self._outer.credit

    def select_split(self, split_id: str) -> None:
        self._outer.select_split(_PREFIX.format(self._source, split_id))

    def split_finished(self, split_id: str) -> None:
        self._outer.split_finished(_PREFIX.format(self._source, split_id))


class _HybridReader(SourceReader[Any, HybridSplit]):
    """Reads each split with the reader of its source."""

    def __init__(self, context: SourceReaderContext, sources: Sequence[AnySource]) -> None:
        self._context = context
        self._sources = sources
        self._index = -1
        self._inner: SourceReader[Any, Any] | None = None
        self._mark: HybridSplit | None = None
        self._no_more = False

    def add_splits(self, splits: Sequence[HybridSplit]) -> None:
        for source in dict.fromkeys(split.source for split in splits):
            inner = self._reader_of(source)
            parts = [split for split in splits if split.source == source]
            own = _decoded(parts, self._sources[source])
            if own:
                inner.add_splits(own)
            for mark in parts:
                if mark.split is None:
                    self._mark = mark
                    inner.notify_no_more_splits()

    def _reader_of(self, source: int) -> SourceReader[Any, Any]:
        if source != self._index or self._inner is None:
            self.close()
            self._index = source
            self._inner = self._sources[source].create_reader(self._context)
            self._inner.start()
        return self._inner

    def _own(self, names: Iterable[str]) -> dict[str, str]:
        """Return the ids of splits of the present source, by the ids that they have there."""
        prefix = _PREFIX.format(self._index, "")
        return {name.removeprefix(prefix): name for name in names if name.startswith(prefix)}

    def set_split_limits(self, limits: Mapping[str, int]) -> None:
        if self._inner is not None:
            self._inner.set_split_limits({own: limits[name] for own, name in self._own(limits).items()})

    def pause_or_resume_splits(self, splits_to_pause: Collection[str], splits_to_resume: Collection[str]) -> None:
        if self._inner is not None:
            self._inner.pause_or_resume_splits(set(self._own(splits_to_pause)), set(self._own(splits_to_resume)))

    def notify_no_more_splits(self) -> None:
        # Only called for the last source; a reader may get this call before its first split.
        self._no_more = True
        self._reader_of(len(self._sources) - 1).notify_no_more_splits()

    def poll_next(self, output: ReaderOutput[Any]) -> InputStatus:
        if self._inner is None:
            return InputStatus.NOTHING_AVAILABLE
        status = self._inner.poll_next(_PartOutput(self._index, output))
        if status is not InputStatus.END_OF_INPUT or self._no_more:
            return status
        # This source is finished; without splits the reader requests splits of the next one.
        self._mark = None
        self.close()
        return InputStatus.NOTHING_AVAILABLE

    def snapshot_state(self) -> Sequence[HybridSplit]:
        own = [] if self._inner is None else [_wrapped(self._index, split) for split in self._inner.snapshot_state()]
        return own if self._mark is None else [*own, self._mark]

    def close(self) -> None:
        if self._inner is not None:
            inner, self._inner = self._inner, None
            inner.close()

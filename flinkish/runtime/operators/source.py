"""The operator of sources, at level 0: runs a reader for one epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import TYPE_CHECKING, Any

import msgspec

from flinkish.common import options
from flinkish.common.columns import Columns
from flinkish.common.configuration import Configuration
from flinkish.common.errors import SourceError
from flinkish.common.kinds import named_alike
from flinkish.common.limits import LONG_MAX, LONG_MIN
from flinkish.common.types import RowColumns
from flinkish.common.watermark_strategy import WatermarkStrategy
from flinkish.graph.columns import records_only
from flinkish.metrics import MetricGroup
from flinkish.program.operators import SourceConfig
from flinkish.program.sources import (
    Boundedness,
    DriverSource,
    InputStatus,
    NativeSource,
    SideOutputRecord,
    Source,
    SourceReader,
    SourceReaderContext,
    emit_read,
)
from flinkish.runtime.operators.base import Operator, OperatorContext, Output
from flinkish.runtime.operators.timestamps import extracting, field_times, highest, whole_milliseconds
from flinkish.runtime.protocol import (
    MAX_WATERMARK,
    MIN_WATERMARK,
    ReaderCommand,
    ReaderReport,
    SplitState,
)
from flinkish.runtime.watermarks import CombinedWatermarks, SplitWatermarks

if TYPE_CHECKING:
    import pyarrow as pa

#: Records to read between two checks of the output size, each of which takes two microseconds: first one, as it may be large,
#: then more, as long as a part stays below this number of bytes.
_FIRST_PART = 1
_LARGEST_PART = 1_024
#: The same for columns, which cost next to nothing for each record.
_LARGEST_COLUMNS_PART = 1 << 16
_PART_BYTES = 1 << 20
#: The same for one in an alignment group.
_ALIGNED_PART = 16


class _ReaderContext(SourceReaderContext):
    def __init__(self, context: OperatorContext) -> None:
        self.configuration: Configuration = context.program.configuration
        self.subtask_index = context.subtask_index
        self.parallelism = context.vertex.parallelism
        self.metric_group: MetricGroup = context.metrics
        self.dead_letters = context.dead_letters
        self._time = context.time

    def processing_time(self) -> int:
        return self._time.processing_time


class _ReaderOutput:
    """Takes records from a reader, assigns timestamps and passes them to the split's watermark generator."""

    def __init__(self, operator: SourceOperator) -> None:
        self.credit = 0
        self.finished_splits: set[str] = set()
        self._operator = operator
        self._emit = operator.emit
        self._emit_run = operator.emit_run
        self._side = operator.output.side
        self._combined = operator.combined
        self._split: SplitWatermarks | None = None
        self._extract = None if operator.assigner is None else extracting(self, operator.context, operator.assigner)
        if self._combined is None and self._extract is None:
            self.collect = self._collect_plain  # type: ignore[method-assign]
        layout = layout_for(operator)
        self.wants_columns = layout is not None
        self._layout: Any = layout

    def collect(self, value: Any, timestamp: int | None = None) -> None:
        self.credit -= 1
        if value.__class__ is SideOutputRecord:
            self._to_side(value, timestamp)
            return
        if self._extract is not None:
            timestamp = self._extract(value, MIN_WATERMARK if timestamp is None else timestamp)
            if timestamp.__class__ is not int or not LONG_MIN <= timestamp <= LONG_MAX:
                timestamp = whole_milliseconds(timestamp, self._extract, value)
        self._emit(value, timestamp)
        combined = self._combined
        if combined is not None:
            split = self._split or self._select("")
            split.event(value, timestamp)
            if combined.changed:
                self._operator.send_watermark()

    def _collect_plain(self, value: Any, timestamp: int | None = None) -> None:
        self.credit -= 1
        if value.__class__ is SideOutputRecord:
            self._to_side(value, timestamp)
        else:
            self._emit(value, timestamp)

    def collect_all(self, values: Iterable[Any]) -> None:
        if self._combined is not None or self._extract is not None:
            for value in values:
                self.collect(value)
            return
        if isinstance(values, range | RowColumns):
            # Rows of another type than declared are converted one by one.
            self._emit_run(values if self._operator.passes_through else iter(values))
            self.credit -= len(values)
        else:
            self._emit_run(_counted(self, self._operator, values))

    def collect_columns(self, batch: pa.RecordBatch, times: Callable[[], pa.Array] | None = None) -> None:
        if not batch.num_rows:
            return
        assigner = self._operator.assigner
        columns = Columns(self._layout, batch, None if times is None or assigner is not None else times())
        timed = field_times(self, columns, assigner)
        if timed is None:
            for value, timestamp in zip(columns.records(), columns.times() or repeat(None), strict=False):
                self.collect(value, timestamp)  # the record without a time is in the error
            return
        self.credit -= len(timed)
        self._operator.output.columns(timed)
        if self._combined is not None:
            split = self._split or self._select("")
            split.event(None, highest(timed))

    def _to_side(self, record: SideOutputRecord, timestamp: int | None) -> None:
        emit = None if record.tag is None else self._side.get(record.tag.tag_id)
        if emit is not None:
            emit(record.value, timestamp)
        elif record.bad is not None:
            self._operator.context.dead_letters.undecodable(record.bad, self._operator.current_watermark)

    def select_split(self, split_id: str) -> None:
        if self._combined is not None:
            self._select(split_id)

    def emit_watermark(self, timestamp: int) -> None:
        def tell(split: SplitWatermarks) -> None:
            split.mark_active()
            split.emit_watermark(timestamp)

        self._tell("emit_watermark", tell)

    def mark_idle(self) -> None:
        self._tell("mark_idle", SplitWatermarks.mark_idle)

    def mark_active(self) -> None:
        self._tell("mark_active", SplitWatermarks.mark_active)

    def _tell(self, method: str, tell: Callable[[SplitWatermarks], None]) -> None:
        """Tell something to the selected split of a source that emits watermarks itself; a batch has no watermarks."""
        operator = self._operator
        if not operator.emits_watermarks:
            raise SourceError(
                f"the reader of {operator.node.name!r} called {method}() of its output, but the source does not announce that",
                hint="set emits_watermarks = True in the class of the source.",
            )
        if self._combined is not None:
            tell(self._split or self._select(""))
            operator.send_watermark()

    def _select(self, split_id: str) -> SplitWatermarks:
        assert self._combined is not None
        self._split = self._combined.split(split_id, self._operator.context.time.steady)
        return self._split

    def split_finished(self, split_id: str) -> None:
        self.finished_splits.add(split_id)
        if self._combined is not None:
            self._combined.remove(split_id, last_word=self._operator.goes_on)
            self._split = None


def layout_for(operator: SourceOperator) -> Any:
    """Return the layout in which a source should emit columns; None if it should emit records."""
    produced = operator.produced_type
    if not (operator.output.takes_columns and operator.makes_columns and operator.passes_through) or produced is None:
        return None
    from flinkish.common.column_layout import layout_of

    made, declared = layout_of(produced), layout_of(operator.node.output_type)
    # Types are equal whatever the names of fields and the digits of decimals.
    return declared if made is not None and declared is not None and made.schema.equals(declared.schema) else None


def _counted(output: _ReaderOutput, self: SourceOperator, values: Iterable[Any]) -> Iterator[Any]:
    # An error of the reader's own iterator is raised when an operator after the source requests the next value. The `self` of
    # this frame lets failing.py trace it to the source.
    count = 0
    for count, value in enumerate(values, 1):  # noqa: B007 - the last count is what is wanted
        if value.__class__ is SideOutputRecord:
            output._to_side(value, None)
        else:
            yield value
    output.credit -= count


class SourceOperator(Operator):
    """Reads the splits named by the command, from the positions it names.

    The reader is kept from epoch to epoch as long as the next command names its position. Otherwise (the epoch is run again, or
    in another process) a new reader starts from the position in the command.
    """

    def __init__(self, context: OperatorContext) -> None:
        super().__init__(context)
        config = context.node.operator
        assert isinstance(config, SourceConfig)
        self._source = config.source
        self._reader: SourceReader[Any, Any] | None = None
        self._known: dict[str, bytes] = {}
        self._told_no_more = False
        self._held_back = False
        #: Ids of the splits that the reader was told to pause, with their watermarks.
        self._paused: dict[str, int] = {}
        #: The idleness that was sent on, for a native source, whose idleness the driver decides; None = not sent yet.
        self._said_idle: bool | None = None
        self._max_bytes = context.program.configuration.get(options.EPOCH_MAX_BYTES)
        self.combined: CombinedWatermarks | None = None
        self.emits_watermarks = isinstance(config.source, Source) and config.source.emits_watermarks
        strategy = config.watermarks or WatermarkStrategy.no_watermarks()
        self.assigner = strategy.timestamp_assigner
        # A batch has one watermark, at its end.
        if not context.batch and (self.emits_watermarks or strategy.generates_watermarks or strategy.idleness_ms is not None):
            self._strategy = strategy
            self._periodic = context.program.configuration.get(options.AUTO_WATERMARK_INTERVAL) > 0
            self.combined = CombinedWatermarks(strategy, self._periodic, context.program.attempt_id)
        #: Whether the input is unbounded, so that event time must advance when single splits end.
        self.goes_on = self._source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
        #: Whether columns do as well as records: a generator of the user's own sees each record.
        self.makes_columns = records_only(context.node) is None
        self._native = isinstance(config.source, NativeSource)
        #: Decodes what the engine has read into records, or runs of them if columns are wanted.
        self._decode: Callable[[bytes], Iterable[Any]] | None = None
        # A source that knows its type emits values of it; from others the declared type is checked.
        self.produced_type = self._source.produced_type()
        declared = self.node.output_type
        self.passes_through = self.produced_type == declared and named_alike(self.produced_type, declared)

    def makes_new(self) -> bool:
        new = isinstance(self._source, Source | NativeSource) and self._source.makes_new_records
        return new or super().makes_new()

    def connect(self, output: Output) -> None:
        super().connect(output)
        self._output = _ReaderOutput(self)
        if isinstance(self._source, NativeSource):
            context = _ReaderContext(self.context)
            self._decode = self._source.create_decoder(context, by_columns=self._output.wants_columns)

    def read(self, command: ReaderCommand, native: Sequence[bytes] = ()) -> ReaderReport:
        """Read for one epoch; emits records and watermarks, and at the end of all input the final watermark and the end.

        `native`: records that the engine has read for this subtask, if it reads the source.
        """
        if command.finished:
            # The final watermark and the end were sent in an earlier epoch of this attempt; the gates have stored them.
            return ReaderReport(finished=True)
        output = self._output
        output.credit = command.credit
        output.finished_splits.clear()
        if self._decode is not None:
            return self._read_native(command, self._decode, native)
        if isinstance(self._source, DriverSource):
            status, splits = self._read_from_driver(command)
        else:
            assert isinstance(self._source, Source)
            status, splits = self._read_splits(self._source, command)
        finished = status is InputStatus.END_OF_INPUT
        drained = not splits and not finished and status is not InputStatus.MORE_AVAILABLE
        watermark = None
        if finished:
            self.drain()
        elif self.combined is not None:
            self.combined.end_epoch(
                self.context.time.steady, held_back=self._held_back, paused=self._paused.keys(), drained=drained
            )
            self.send_watermark()
            splits = tuple(replace(state, generator=self.combined.state_of(state.split_id)) for state in splits)
            watermark = None if self.combined.idle or self.current_watermark == MIN_WATERMARK else self.current_watermark
        return ReaderReport(
            splits=splits,
            records=command.credit - self._output.credit,
            more_available=status is InputStatus.MORE_AVAILABLE,
            finished=finished,
            wants_split=drained and not command.no_more_splits,
            watermark=watermark,
            held_back=self._held_back,
            paused_from=min(self._paused.values(), default=None),
            awaits_idleness=not finished and self._awaits_idleness(),
        )

    def _read_native(
        self, command: ReaderCommand, decode: Callable[[bytes], Iterable[Any]], bodies: Sequence[bytes]
    ) -> ReaderReport:
        """Emit the records that the engine has read, after the watermark of all subtasks at the end of the last epoch.

        The engine decides which subtask gets a record, so the watermark of one subtask says nothing about the records of others:
        the watermark of its generator goes to the driver, which sends the highest of all with the next epoch.
        """
        combined, output = self.combined, self._output
        if combined is not None:
            state = command.splits[0].generator if command.splits else None
            combined.split("", self.context.time.steady, state)
            idle = command.idle and not bodies
            if not idle:
                self._say_idle(False)
            self.advance(command.watermark, None)
            if idle:
                self._say_idle(True)
        for body in bodies:
            if output.wants_columns:
                for run in decode(body):
                    emit_read(output, run)
            else:
                output.collect_all(decode(body))
        records = command.credit - output.credit
        if combined is None:
            return ReaderReport(records=records)
        combined.end_epoch(self.context.time.steady)
        combined.take()
        return ReaderReport(
            splits=(SplitState(split_id="", split=b"", generator=combined.state_of("")),),
            records=records,
            watermark=None if combined.watermark == MIN_WATERMARK else combined.watermark,
            awaits_idleness=self._awaits_idleness(),
            idle=combined.idle,
        )

    def _say_idle(self, idle: bool) -> None:
        if self._said_idle is not idle:
            self._said_idle = idle
            self.output.status(idle)

    def _awaits_idleness(self) -> bool:
        combined = self.combined
        return combined is not None and self._strategy.idleness_ms is not None and not combined.idle

    def drain(self) -> None:
        """End now, as if the input had ended."""
        self.current_watermark = MAX_WATERMARK
        self.output.watermark(MAX_WATERMARK)
        self.output.end_of_input()
        self.close()

    def _read_from_driver(self, command: ReaderCommand) -> tuple[InputStatus, tuple[SplitState, ...]]:
        # The generator of a driver-side source belongs to no split, so it is sent in a separate split state.
        if self.combined is not None and command.splits and "" not in self._known:
            self.combined.split("", self.context.time.steady, command.splits[0].generator)
            self._known = {"": b""}
        for record in command.records:
            self._output.collect(record)
        status = InputStatus.END_OF_INPUT if command.end_of_records else InputStatus.NOTHING_AVAILABLE
        return status, (SplitState(split_id="", split=b""),) if self.combined is not None else ()

    def _read_splits(self, source: Source[Any, Any, Any], command: ReaderCommand) -> tuple[InputStatus, tuple[SplitState, ...]]:
        reader = self._reader_at(source, command)
        if command.no_more_splits and not self._told_no_more:
            self._told_no_more = True
            reader.notify_no_more_splits()
        if command.limits is not None:
            reader.set_split_limits(command.limits)
        status = self._poll(reader, command)
        output = self._output
        if status is InputStatus.END_OF_INPUT:
            return status, ()
        unfinished = [split for split in reader.snapshot_state() if split.split_id not in output.finished_splits]
        self._known = {split.split_id: msgspec.msgpack.encode(split) for split in unfinished}
        return status, tuple(SplitState(split_id=name, split=encoded) for name, encoded in self._known.items())

    def _poll(self, reader: SourceReader[Any, Any], command: ReaderCommand) -> InputStatus:
        """Have the reader emit up to its credit, in parts; stop at the byte limit, or when it is too far ahead of its group.

        The sizes of the parts depend on this epoch only, so that a second try reads the same records.
        """
        output, aligned = self._output, command.max_watermark is not None
        left, size, before = command.credit, _FIRST_PART, 0
        status = InputStatus.MORE_AVAILABLE
        self._held_back = self._is_ahead(command)
        self._pause_splits(reader, command)
        while left > 0 and status is InputStatus.MORE_AVAILABLE and not self._held_back:
            part = output.credit = min(left, _ALIGNED_PART if aligned else size)
            while output.credit > 0 and status is InputStatus.MORE_AVAILABLE:
                status = reader.poll_next(output)
            left -= part - output.credit
            sent = self.context.outflow()
            if sent >= self._max_bytes:
                break
            largest = _LARGEST_COLUMNS_PART if output.wants_columns else _LARGEST_PART
            size = max(1, min(2 * size, largest, part * _PART_BYTES // max(1, sent - before)))
            before = sent
            self._held_back = status is InputStatus.MORE_AVAILABLE and self._is_ahead(command)
            if aligned:
                self._pause_splits(reader, command)
        output.credit = left
        return status

    def _pause_splits(self, reader: SourceReader[Any, Any], command: ReaderCommand) -> None:
        """Have the reader pause the splits that are ahead of the group; if all are, the reader as a whole is held back."""
        paused = {}
        pauses = type(reader).pause_or_resume_splits is not SourceReader.pause_or_resume_splits
        if pauses and self.combined is not None and command.max_watermark is not None and not self._held_back:
            paused = self.combined.splits_after(command.max_watermark)
        to_pause, to_resume = paused.keys() - self._paused.keys(), self._paused.keys() - paused.keys()
        self._paused = paused
        if to_pause or to_resume:
            reader.pause_or_resume_splits(to_pause, to_resume)

    def _is_ahead(self, command: ReaderCommand) -> bool:
        if command.max_watermark is None or self.combined is None:
            return False
        self.combined.emit_periodic()
        self.send_watermark()
        return self.current_watermark > command.max_watermark

    def _reader_at(self, source: Source[Any, Any, Any], command: ReaderCommand) -> SourceReader[Any, Any]:
        wanted = {state.split_id: state.split for state in command.splits}
        current = all(wanted.get(name) == encoded for name, encoded in self._known.items())
        if self._reader is None or not current:
            self.close()
            self._known = {}
            self._told_no_more = False
            self._paused = {}
            if self.combined is not None:
                self.combined = CombinedWatermarks(self._strategy, self._periodic, self.context.program.attempt_id)
                self.combined.watermark = self.current_watermark
            self._output = _ReaderOutput(self)
            self._output.credit = command.credit
            self._reader = source.create_reader(_ReaderContext(self.context))
            self._reader.start()
        new = [state for state in command.splits if state.split_id not in self._known]
        if self.combined is not None:
            # A split without records so far holds the watermark back, as in Flink (SourceOperator.createOutputForSplits):
            # else its first records could be late. A strategy with idleness lets the others go on.
            for state in new:
                self.combined.split(state.split_id, self.context.time.steady, state.generator)
        if new:
            self._reader.add_splits([msgspec.msgpack.decode(state.split, type=source.split_type) for state in new])
        return self._reader

    def send_watermark(self) -> None:
        """Emit the combined watermark of the generators; for a native source, send it to the driver instead."""
        assert self.combined is not None
        taken = self.combined.take()
        if not self._native:
            self.advance(*taken)

    def close(self) -> None:
        if self._reader is not None:
            reader, self._reader = self._reader, None
            reader.close()

    def closes(self) -> bool:
        return self._reader is not None and type(self._reader).close is not SourceReader.close

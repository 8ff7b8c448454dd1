"""The base class of all operators of a task, and the context that operators get.

An operator calls the next one of its chain as `emit(value, timestamp)`: no object, dict or context is made per record. An error
is traced to its operator by the stack (see failing.py), so the hot path needs no handlers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flinkish.common.closing import Unwinding
from flinkish.common.columns import Columns
from flinkish.common.conversion import converter
from flinkish.common.ids import OperatorUid
from flinkish.common.kinds import is_declared
from flinkish.common.typeinfo import TypeInformation
from flinkish.graph.columns import records_only
from flinkish.graph.job_graph import JobVertex
from flinkish.graph.stream_graph import StreamNode
from flinkish.metrics import MetricGroup
from flinkish.program.dead_letters import DeadLetters
from flinkish.runtime.elements import Emit, EmitColumns, EmitRun, Records, unpacked
from flinkish.runtime.event_loop import EventLoop
from flinkish.runtime.operators.runtime_context import SnapshotContext
from flinkish.runtime.protocol import MAX_WATERMARK, MIN_WATERMARK, Barrier, TaskProgram
from flinkish.runtime.state.level_state import OperatorState
from flinkish.udf.checkpoint import CheckpointedFunction, CheckpointListener
from flinkish.udf.output_tag import OutputTag

#: Name of the counter of dropped late records, as in Flink.
LATE_RECORDS = "numLateRecordsDropped"


class Interrupted(Unwinding):
    """Ends the epoch early, because the job ends."""


@dataclass(slots=True)
class EpochTime:
    """The current time of one slot: set at the start of each epoch, and the same if the epoch is run again."""

    processing_time: int = 0
    #: Milliseconds that never decrease within an attempt, for timeouts.
    steady: int = 0
    #: Another thread sets this to end the epoch; None if the whole process is ended instead.
    interrupted: threading.Event | None = None

    def now(self) -> int:
        """Return the processing time of this epoch in milliseconds."""
        return self.processing_time

    def check_interrupted(self) -> None:
        """Raise Interrupted if the job is to end; to be called regularly by work that may take long."""
        if self.interrupted is not None and self.interrupted.is_set():
            raise Interrupted


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorContext:
    """The services that an operator gets from its task."""

    program: TaskProgram
    vertex: JobVertex
    node: StreamNode
    subtask_index: int
    attempt_number: int
    state: OperatorState
    time: EpochTime
    metrics: MetricGroup
    #: Output tags of this operator that at least one edge reads.
    side_outputs: tuple[OutputTag, ...]
    #: Sends values to the driver: operator, destination, values, the watermark before them.
    to_driver: Callable[[OperatorUid, str, list[Any], int | None], None]
    #: Takes records of the operator that would be lost.
    dead_letters: DeadLetters
    #: Returns the approximate number of bytes that the task has emitted in this epoch so far: on edges, and to the driver.
    outflow: Callable[[], int]
    #: The task's event loop for asynchronous functions.
    event_loop: EventLoop
    #: The checkpoint from which this attempt started.
    restored_checkpoint: int | None = None
    #: Whether the operator is built again in the middle of an attempt, because its process was lost.
    rebuilt: bool = False
    #: Whether the job runs in batch mode.
    batch: bool = False


def discard(value: Any, timestamp: int | None) -> None:
    """Drop a record that has no reader."""


class Output:
    """The targets of an operator's records and control elements: chained operators and edges."""

    def __init__(
        self,
        main: list[tuple[Emit, EmitRun]],
        side: Mapping[str, list[Emit]],
        control: list[Any],
        *,
        columns: Sequence[EmitColumns] = (),
        takes_columns: bool = False,
        converts: bool = False,
    ) -> None:
        self.main = _fan_out([emit for emit, _ in main])
        self.main_run = main[0][1] if len(main) == 1 else _run_by(self.main)
        self.side = {tag: _fan_out(emits) for tag, emits in side.items()}
        self._columns = columns
        #: Whether a target of the main output keeps columns as they are, so that it is worth making them.
        self.takes_columns = takes_columns
        #: Chained operators and edge writers, each once; they have watermark(), status() and end_of_input().
        self._control = control
        #: Whether the main output is an edge that converts records to the operator's declared type.
        self.converts = converts

    def columns(self, columns: Columns) -> None:
        """Pass columns of exactly the declared type on."""
        if len(columns):
            columns = columns.with_key(())
            for emit in self._columns:
                emit(columns)

    def watermark(self, timestamp: int) -> None:
        for target in self._control:
            target.watermark(timestamp)

    def status(self, idle: bool) -> None:
        for target in self._control:
            target.status(idle)

    def end_of_input(self) -> None:
        for target in self._control:
            target.end_of_input()


def _fan_out(emits: list[Emit]) -> Emit:
    if not emits:
        return discard
    if len(emits) == 1:
        return emits[0]
    targets = tuple(emits)

    def emit_to_all(value: Any, timestamp: int | None) -> None:
        for emit in targets:
            emit(value, timestamp)

    return emit_to_all


def _run_by(emit: Emit) -> EmitRun:
    def emit_run(values: Iterable[Any]) -> None:
        for value in values:
            emit(value, None)

    return emit_run


def converting(emit: Emit, type_info: TypeInformation) -> Emit:
    """Return an `emit` that first checks a value against its declared type; `emit` itself for pickled types."""
    convert = converter(type_info)
    if convert is None or emit is discard:
        return emit

    def emit_converted(value: Any, timestamp: int | None) -> None:
        emit(convert(value), timestamp)

    return emit_converted


class Operator:
    """One operator of a chain in one subtask.

    Records come and go one by one with their timestamps (`process`, `emit`), as a run of records without timestamps
    (`process_run`, `emit_run`), or as a run of columns (`process_columns`, `output.columns`). An operator with one input has
    `process`, the hot path, as a method or as a closure set by `connect`, which saves attribute look-ups; such a closure has a
    variable `self`, so that an error is traced to the operator. It overrides `process_run` where a run can be faster than its
    records one by one, and `process_columns` where no record needs to be an object.

    Life cycle: constructor, `connect`, `open`, then epochs (`begin_epoch`, records and control elements, `end_epoch`), `finish`
    when the input has ended, `close`. Restored state is available from the constructor on; there is no separate restore method.
    """

    def __init__(self, context: OperatorContext) -> None:
        self.context = context
        self.node = context.node
        self.current_watermark = MIN_WATERMARK
        self.output = Output([], {}, [])
        self.emit: Emit = discard
        self.emit_run: EmitRun = _run_by(discard)
        #: The user function, which may take part in checkpoints and be told of them; None if there is none.
        self.function: Any = None

    #: Whether all inputs have ended. The watermark may be MAX before: if some inputs have ended and all others are idle.
    ended = False

    #: Whether timers that the user registers now are ignored; in batch mode, while the timers of an ended key fire.
    quiesced = False

    #: Whether records are passed on unchanged, so that their type has been checked upstream.
    passes_through = False

    def connect(self, output: Output) -> None:
        """Set the output; the operators after this one are already connected."""
        self.output = output
        unchanged = self.passes_through or output.converts
        self.emit = output.main if unchanged else converting(output.main, self.node.output_type)
        self.emit_run = output.main_run if self.emit is output.main else _run_by(self.emit)

    def take_over(self) -> None:
        """Declare that incoming records belong to this operator only: no other target or user code refers to them."""

    def makes_new(self) -> bool:
        """Tell whether the emitted records share no mutable objects with the user function."""
        return not self.passes_through and is_declared(self.node.output_type)

    def open(self) -> None:
        """Open the user function."""

    #: Processes one record of the only input; operators with two inputs have `process_records` only.
    process: Emit

    def process_run(self, values: Iterable[Any]) -> None:
        """Process records of the only input that have no timestamps: like `process` for each, but faster."""
        process = self.process
        for value in values:
            process(value, None)

    def expect(self, keys: Sequence[Any]) -> None:
        """Prepare for a run of records with these keys, which is processed next."""

    def process_records(self, input_index: int, records: Records) -> None:
        """Process a run of records from the gate; called for the head of a chain only."""
        if records.timestamps is None:
            self.process_run(records.values)
        else:
            process = self.process
            for value, timestamp in zip(records.values, records.timestamps, strict=True):
                process(value, timestamp)

    def process_columns(self, columns: Columns, input_index: int = 0) -> None:
        """Process a run of columns: this base class takes it apart."""
        records = unpacked(columns)
        if records.keys is not None:
            self.expect(records.keys)
        self.process_records(input_index, records)

    def takes_columns(self) -> bool:
        """Tell whether columns are processed, or passed on, as they are."""
        return records_only(self.node) is None

    def end_key(self) -> None:
        """Fire the timers of the current key and emit its result, because it has no more records (batch mode)."""

    def watermark(self, timestamp: int) -> None:
        """Advance event time and pass the watermark on."""
        self.current_watermark = timestamp
        self.output.watermark(timestamp)

    def status(self, idle: bool) -> None:
        self.output.status(idle)

    def advance(self, watermark: int | None, idle: bool | None) -> None:
        """Emit a new watermark and a changed idleness of the operator's own; None = no change."""
        if idle is False:
            self.output.status(False)
        if watermark is not None and watermark > self.current_watermark:
            self.current_watermark = watermark
            self.output.watermark(watermark)
        if idle is True:
            self.output.status(True)

    def end_of_input(self) -> None:
        """Finish, and pass the end of the input on."""
        self.ended = True
        self.finish()
        self.output.end_of_input()

    def begin_epoch(self) -> None:
        """Fire timers that became due since the last epoch."""

    def before_barrier(self) -> None:
        """Emit everything that must precede the epoch's barrier or end: results of due timers, periodic watermarks."""

    def prepare_snapshot(self) -> None:
        """Flush before the state is written; may still emit."""

    def snapshot_state(self, barrier: Barrier) -> None:
        """Bring state up to date for a checkpoint; called after `prepare_snapshot` of the whole chain, emits nothing."""
        if isinstance(self.function, CheckpointedFunction):
            self.function.snapshot_state(SnapshotContext(barrier))

    def prepare_commit(self) -> tuple[bytes, ...]:
        """Return encoded committables; only sinks have any."""
        return ()

    def end_epoch(self) -> None:
        """Update the state and make external effects durable."""

    def next_timer(self) -> int | None:
        """Return when the earliest processing-time timer is due, in milliseconds."""
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        if isinstance(self.function, CheckpointListener):
            self.function.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        if isinstance(self.function, CheckpointListener):
            self.function.notify_checkpoint_aborted(checkpoint_id)

    def finish(self) -> None:
        """Emit remaining results, because all input has ended."""

    def close(self) -> None:
        """Close the user function."""

    def closes(self) -> bool:
        """Tell whether `close` would call user code."""
        return False

    def watermark_to_keep(self) -> int | None:
        """Return the watermark to store in a checkpoint; None for MAX, because a restored job may read more input."""
        return self.current_watermark if MIN_WATERMARK < self.current_watermark < MAX_WATERMARK else None

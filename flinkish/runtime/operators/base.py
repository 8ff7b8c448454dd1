"""What all operators of a task have in common.

An operator calls the next one of its chain as `emit(value, timestamp)`: no object, dict or context is made per record. An error
is traced to its operator by the stack (see failing.py), so the hot path needs no handlers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flinkish.common.closing import Unwinding
from flinkish.common.configuration import Configuration
from flinkish.common.conversion import converter, makes_new
from flinkish.common.ids import LineageId, OperatorUid
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.output_tag import OutputTag
from flinkish.graph.stream_graph import StreamNode
from flinkish.metrics import MetricGroup
from flinkish.runtime.channels import Emit, EmitRun
from flinkish.runtime.elements import Records
from flinkish.runtime.event_loop import EventLoop
from flinkish.runtime.protocol import MAX_WATERMARK, MIN_WATERMARK, Barrier
from flinkish.runtime.state.level_state import OperatorState

#: The counter of records that came too late and went nowhere; Flink's name.
LATE_RECORDS = "numLateRecordsDropped"


class Interrupted(Unwinding):
    """The epoch ends here, because the job does."""


@dataclass(slots=True)
class EpochTime:
    """The present of one slot: set at the start of each epoch, the same when the epoch is run again."""

    processing_time: int = 0
    #: Milliseconds that only ever go on within an attempt: for timeouts.
    steady: int = 0
    epoch: int = 0
    #: Set from another thread to end what runs; None where the whole process is ended for that.
    interrupted: threading.Event | None = None

    def now(self) -> int:
        """Return the processing time of this epoch in milliseconds."""
        return self.processing_time

    def check_interrupted(self) -> None:
        """Raise Interrupted if the job is to end: for what may take long without calling user code that does."""
        if self.interrupted is not None and self.interrupted.is_set():
            raise Interrupted


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorContext:
    """What an operator is given by its task."""

    node: StreamNode
    task_name: str
    subtask_index: int
    parallelism: int
    max_parallelism: int
    #: Key groups of this subtask.
    key_groups: range
    attempt_number: int
    attempt_id: str
    job_id: str
    lineage: LineageId
    configuration: Configuration
    state: OperatorState
    time: EpochTime
    metrics: MetricGroup
    #: Tags of this operator that some edge reads.
    side_outputs: tuple[OutputTag, ...]
    #: Global job parameters.
    job_parameters: Mapping[str, str]
    #: Sends values to the driver: operator, destination, values.
    to_driver: Callable[[OperatorUid, str, list[Any]], None]
    #: Returns about how many bytes the task has emitted in this epoch so far: on edges, and to the driver.
    outflow: Callable[[], int]
    #: Of the task; for asynchronous functions.
    event_loop: EventLoop
    #: The checkpoint that this attempt goes on from.
    restored_checkpoint: int | None = None
    #: The operator is made anew in the middle of an attempt, because its process was lost.
    rebuilt: bool = False
    #: The job runs in batch mode.
    batch: bool = False
    #: Where records of a batch go that do not fit into memory; None: nowhere.
    spill: Path | None = None


def discard(value: Any, timestamp: int | None) -> None:
    """Take what nobody reads."""


class Output:
    """Where an operator's records and control elements go: chained operators and edges."""

    def __init__(self, main: list[tuple[Emit, EmitRun]], side: Mapping[str, list[Emit]], control: list[Any]) -> None:
        self.main = _fan_out([emit for emit, _ in main])
        self.main_run = main[0][1] if len(main) == 1 else _run_by(self.main)
        self.side = {tag: _fan_out(emits) for tag, emits in side.items()}
        #: Chained operators and edge writers, each once: what has watermark(), status() and end_of_input().
        self._control = control

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

    `process`, the hot path, may be set by `connect` to a closure over what it needs, which saves look-ups of attributes; such a
    closure has `self` among its variables, so that an error is traced to the operator.

    Life: constructor, `connect`, `open`, then epochs (`begin_epoch`, records and control elements, `end_epoch`), `finish` when
    the input has ended, `close`. The restored state is there from the constructor on: there is no second path.
    """

    def __init__(self, context: OperatorContext) -> None:
        self.context = context
        self.node = context.node
        self.current_watermark = MIN_WATERMARK
        self.output = Output([], {}, [])
        self.emit: Emit = discard
        self.emit_run: EmitRun = _run_by(discard)

    #: Whether timers that the user registers now are ignored: batch mode, while those of a key that has ended fire.
    quiesced = False

    #: Whether records are passed on as they came, so that their type was checked upstream.
    passes_through = False

    def connect(self, output: Output) -> None:
        """Set where the output goes; the operators behind this one are connected already."""
        self.output = output
        self.emit = output.main if self.passes_through else converting(output.main, self.node.output_type)
        self.emit_run = output.main_run if self.emit is output.main else _run_by(self.emit)

    def take_over(self) -> None:
        """Note that the records that come are this operator's own: no other target has them, nor has user code seen them."""

    def makes_new(self) -> bool:
        """Return whether its records share nothing that can change with what its function may still hold."""
        return not self.passes_through and makes_new(self.node.output_type)

    def open(self) -> None:
        """Open the user function."""

    # -- records -------------------------------------------------------------------------------------------------------------

    def process(self, value: Any, timestamp: int | None) -> None:
        """Take one record of the only input; the hot path."""
        raise NotImplementedError(f"{type(self).__name__} has two inputs")

    def process_run(self, values: Iterable[Any]) -> None:
        """Take records without timestamps of the only input: as `process` of each, in less time."""
        process = self.process
        for value in values:
            process(value, None)

    def process_records(self, input_index: int, records: Records) -> None:
        """Take a run of records from the gate; only the head of a chain gets it."""
        if records.timestamps is None:
            self.process_run(records.values)
        else:
            process = self.process
            for value, timestamp in zip(records.values, records.timestamps, strict=True):
                process(value, timestamp)

    def end_key(self) -> None:
        """In batch mode: the current key has no more records; fire its timers, emit its result."""

    # -- control elements ----------------------------------------------------------------------------------------------------

    def watermark(self, timestamp: int) -> None:
        """Advance event time and pass the watermark on."""
        self.current_watermark = timestamp
        self.output.watermark(timestamp)

    def status(self, idle: bool) -> None:
        self.output.status(idle)

    def end_of_input(self) -> None:
        """Finish, and pass it on."""
        self.finish()
        self.output.end_of_input()

    # -- epochs --------------------------------------------------------------------------------------------------------------

    def begin_epoch(self) -> None:
        """Fire what became due since the last epoch."""

    def before_barrier(self) -> None:
        """Emit what has to be emitted before the epoch's barrier or end: due timers, periodic watermarks."""

    def prepare_snapshot(self) -> None:
        """Flush; may still emit. Called before the state is written."""

    def snapshot_state(self, barrier: Barrier) -> None:
        """Bring state up to date for a checkpoint; called after `prepare_snapshot` of the whole chain, emits nothing."""

    def prepare_commit(self) -> tuple[bytes, ...]:
        """Return encoded committables; sinks only."""
        return ()

    def end_epoch(self) -> None:
        """Make state current and external effects durable."""

    def next_timer(self) -> int | None:
        """Return when the earliest processing-time timer is due, in milliseconds."""
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Learn that a checkpoint is complete."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Learn that a checkpoint was aborted."""

    def finish(self) -> None:
        """All input has ended: emit what is left."""

    def close(self) -> None:
        """Close the user function."""

    def closes(self) -> bool:
        """Return whether `close` would call code that somebody wrote for it."""
        return False

    # -- watermark across restore --------------------------------------------------------------------------------------------

    def watermark_to_keep(self) -> int | None:
        """Return the watermark that a checkpoint should remember; MAX is not: a restored job may read on."""
        return self.current_watermark if MIN_WATERMARK < self.current_watermark < MAX_WATERMARK else None

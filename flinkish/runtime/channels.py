"""The sending side of edges: the channels from one subtask to others, and the writer that cuts their elements into frames."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flinkish.common.columns import Columns
from flinkish.common.sizes import rough_size
from flinkish.common.typeinfo import TypeInformation
from flinkish.common.types import Row, RowKind
from flinkish.graph.columns import unpacked_by
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.graph.job_graph import JobEdge
from flinkish.program.transformations import Partitioning
from flinkish.runtime.elements import (
    CheckpointBarrier,
    Element,
    Emit,
    EmitRun,
    EndOfInput,
    PackedRows,
    Records,
    Watermark,
    WatermarkStatus,
    cut_body,
    encode_body,
    joined,
    unpacked,
)
from flinkish.runtime.isolation import SCALARS, isolate
from flinkish.runtime.protocol import MIN_WATERMARK, Barrier, Frame
from flinkish.udf.function_wrappers import function_behind
from flinkish.udf.functions import Function

#: Target size of a frame's body. A channel's buffer and the frame then fit into a core's cache: with frames of 1 MB, a record
#: took a third more time on both sides.
_FRAME_BYTES = 32 << 10
#: Number of records in the first frame of a channel; later frames are adapted to the measured size.
_FRAME_RECORDS = 1_024
#: Number of records between two checks of their size (a microsecond each), so that a few large records can fill a frame.
_LOOK_RECORDS = 128
#: The same for columns, which cost a little for each frame and next to nothing for each record.
_COLUMNS_BYTES = 1 << 20
#: Maximum number of records in a frame, however small they are.
_MOST_RECORDS = 1 << 17


def targets_of(edge: JobEdge, plan: ExecutionPlan, sender: int) -> range:
    """Return the subtasks of the target vertex to which a sending subtask has channels.

    FORWARD connects to the subtask with the same index; RESCALE to an even share of the targets; all others to every subtask.
    """
    senders = plan.job_graph.vertices[edge.source_vertex].parallelism
    receivers = plan.job_graph.vertices[edge.target_vertex].parallelism
    match edge.partitioner.partitioning:
        case Partitioning.FORWARD:
            return range(sender, sender + 1)
        case Partitioning.RESCALE:
            if senders >= receivers:
                target = sender * receivers // senders
                return range(target, target + 1)
            return range(sender * receivers // senders, (sender + 1) * receivers // senders)
        case _:
            return range(receivers)


def senders_of(edge: JobEdge, plan: ExecutionPlan, receiver: int) -> list[int]:
    """Return the subtasks of the source vertex that have a channel to a receiving subtask."""
    senders = plan.job_graph.vertices[edge.source_vertex].parallelism
    return [sender for sender in range(senders) if receiver in targets_of(edge, plan, sender)]


class Channel:
    """Buffers the elements from one subtask to another within one epoch."""

    __slots__ = (
        *("_elements", "column_bytes", "column_records", "full", "index", "keyed", "keys", "limit"),
        *("records", "timestamps", "values"),
    )

    def __init__(self, index: int, *, keyed: bool) -> None:
        #: Index among the edge's channels.
        self.index = index
        self.keyed = keyed
        #: Number of records that fill a frame, estimated from the last frame.
        self.full = _FRAME_RECORDS
        #: Length of `values` at which the frame may be full.
        self.limit = _LOOK_RECORDS
        #: Number of records in closed runs, without columns.
        self.records = 0
        #: Number of records in columns, and their bytes.
        self.column_records = self.column_bytes = 0
        self._elements: list[Element | PackedRows] = []
        self._start_run()

    def _start_run(self) -> None:
        self.values: list[Any] = []
        self.timestamps: list[int | None] = []
        self.keys: list[Any] | None = [] if self.keyed else None

    def pad(self) -> None:
        """Add the missing timestamps, as None, of the values added last."""
        self.timestamps.extend([None] * (self.held() - len(self.timestamps)))

    def end_run(self) -> None:
        """Close the open run of records, if there is one."""
        values = self.values
        if values:
            self._elements.append(Records(values, self._stamps(), self.keys))
            self._start_run()

    def _stamps(self) -> list[int | None] | None:
        """Count the records of the run that ends, and return their timestamps; None if no record has one."""
        self.pad()
        timestamps = self.timestamps
        self.records += len(timestamps)
        return timestamps if timestamps.count(None) != len(timestamps) else None

    def held(self) -> int:
        """Return the number of records in the open run."""
        return len(self.values)

    def last(self) -> Any:
        """Return the last record, in a form that tells its size; there must be one that was not taken."""
        if self.values:
            return self.values[-1]
        run = next(element for element in reversed(self._elements) if isinstance(element, (Records, PackedRows)))
        return run.values[-1] if isinstance(run, Records) else [column[-1] for column in run.columns]

    def add_columns(self, columns: Columns) -> None:
        """Append a run of columns."""
        self.end_run()
        self._elements.append(columns)
        self.column_records += columns.number_of_records
        self.column_bytes += columns.nbytes

    def control(self, element: Element) -> None:
        """Append a control element after the records so far."""
        self.end_run()
        self._elements.append(element)

    def take(self) -> list[Element | PackedRows]:
        """Return all elements since the last call."""
        self.end_run()
        elements, self._elements = self._elements, []
        return joined(elements) if self.column_records else elements


class RowChannel(Channel):
    """Buffers rows of a declared type as columns, one list per field: no object is created per row, and pickling is faster."""

    __slots__ = ("_key_field", "columns", "fields")

    def __init__(self, index: int, fields: tuple[str, ...], key_field: int | None) -> None:
        self.fields = fields
        #: The field that is the key: its column is also the list of keys, so that it is filled and pickled once. None = no field.
        self._key_field = key_field
        super().__init__(index, keyed=True)

    def _start_run(self) -> None:
        super()._start_run()
        self.columns: tuple[list[Any], ...] = tuple([[] for _ in self.fields])
        if self._key_field is not None:
            self.keys = self.columns[self._key_field]

    def end_run(self) -> None:
        if self.keys:
            self._elements.append(PackedRows(self.fields, self.columns, self._stamps(), self.keys))
            self._start_run()

    def add(self, value: Row | None, timestamp: int | None, key: Any) -> None:
        """Append a record that has the declared type; None and rows of other kinds than INSERT become runs of their own."""
        if value is not None and value.get_row_kind() is RowKind.INSERT:
            self.pad()
            for column, item in zip(self.columns, value, strict=True):
                column.append(item)
            self.timestamps.append(timestamp)
            if self._key_field is None:
                self.keys.append(key)  # type: ignore[union-attr]
        else:
            self.end_run()
            self.records += 1
            self._elements.append(Records([value], None if timestamp is None else [timestamp], [key]))

    def held(self) -> int:
        return len(self.keys)  # type: ignore[arg-type]

    def last(self) -> Any:
        return [column[-1] for column in self.columns] if self.keys else super().last()


class EdgeWriter:
    """The sending side of an edge in one subtask: `emit` chooses the channel. See partitioners.py for the subclasses.

    Records are emitted one by one with their timestamps, as runs without timestamps, or as columns.
    """

    emit: Emit
    emit_run: EmitRun
    #: Whether the edge stays in this slot and level, so that elements are passed on without being cut into frames.
    local = False
    #: Whether nothing else refers to the incoming records, so that they are not copied. Set before the first record.
    owns = False
    #: Whether all fields are sent, also those that the next operator does not read: dead letters show whole records.
    keeps_all = False
    #: Whether columns may be combined before they are sent, see operators/window/combining.py; and until which epoch they are
    #: not, because it did not pay.
    combines = False
    rests_until = 0
    #: The watermark that was sent last.
    passed = MIN_WATERMARK

    def __init__(self, edge: JobEdge, plan: ExecutionPlan, sender: int) -> None:
        self.edge = edge
        self.records = 0
        #: Bytes of the frames cut in this epoch.
        self.bytes = 0
        self._sender = sender
        self._targets = targets_of(edge, plan, sender)
        self._slots = [plan.slot_of(edge.target_vertex, target) for target in self._targets]
        self._level = plan.level_of[edge.target_vertex]
        self._target_vertex = plan.job_graph.vertices[edge.target_vertex]
        nodes = plan.job_graph.vertices[edge.source_vertex].operators
        (self._record_type,) = [node.output_type for node in nodes if node.id == edge.source]
        self._frames: list[Frame] = []
        self._sequence = 0
        keyed = edge.partitioner.partitioning is Partitioning.HASH
        self.channels = [Channel(index, keyed=keyed) for index in range(len(self._targets))]
        self.emit_run = self._emit_each

    def take_over(self) -> None:
        """Declare that incoming records belong to this edge only: no other target gets them, and no user code has seen them."""
        self.owns = True

    def _emit_each(self, values: Iterable[Any]) -> None:
        emit = self.emit
        for value in values:
            emit(value, None)

    def takes_columns(self) -> bool:
        """Tell whether columns stay columns on this edge and after it."""
        return unpacked_by(self.edge.partitioner, self._record_type, self._target_vertex.head) is None

    def emit_columns(self, columns: Columns) -> None:
        """Emit a run of columns: this base class takes it apart."""
        values, timestamps, _ = unpacked(columns)
        if timestamps is None:
            self.emit_run(values)
        else:
            emit = self.emit
            for value, timestamp in zip(values, timestamps, strict=True):
                emit(value, timestamp)

    def _append_columns(self, index: int, columns: Columns) -> None:
        channel = self.channels[index]
        channel.add_columns(columns)
        if channel.column_bytes >= _COLUMNS_BYTES and not self.local:
            self._cut(channel)

    def convert(self, type_info: TypeInformation) -> bool:
        """Convert all later records to their declared type, in one step with emitting them; return False if the edge cannot.

        An edge can only if it owns its records.
        """
        return False

    def functions(self) -> list[Function]:
        """Return the user's KeySelector and Partitioner objects, to be opened and closed with the operators."""
        used = (function_behind(self.edge.partitioner.key_selector), function_behind(self.edge.partitioner.function))
        return [function for function in used if function is not None]

    def begin_epoch(self, epoch: int) -> None:
        """Reset: the partitioner's state depends only on the epoch, so that a second try gives the same result."""
        self._sequence = 0
        self._frames = []
        self.records = 0
        self.bytes = 0

    def settle(self) -> None:
        """Pass on what is held back."""

    def watermark(self, timestamp: int) -> None:
        self.passed = timestamp
        self._control(Watermark(timestamp))

    def status(self, idle: bool) -> None:
        self._control(WatermarkStatus(idle))

    def barrier(self, barrier: Barrier) -> None:
        self._control(CheckpointBarrier(barrier))

    def end_of_input(self) -> None:
        self._control(EndOfInput())

    def _control(self, element: Element) -> None:
        for channel in self.channels:
            channel.control(element)
            if channel.records >= channel.full and not self.local:
                self._cut(channel)

    def outflow(self) -> int:
        """Return the approximate number of bytes emitted in this epoch so far."""
        size = self.bytes
        for channel in self.channels:
            size += channel.column_bytes
            # Also those before a watermark or barrier, which ends a run of records.
            records = channel.records + channel.held()
            if records:
                size += records * rough_size(channel.last())
        return size

    def _shares(self, indexes: Any) -> Iterator[tuple[Any, Any]]:
        """Return channels with the positions of their records, given the indexes of the channels of all records.

        Both are lists, or both are arrays of numpy. A channel comes several times, so that its frames are cut in time.
        """
        step = len(self.channels) * min(_LOOK_RECORDS, *(channel.full for channel in self.channels))
        for start in range(0, len(indexes), step):
            part = indexes[start : start + step]
            if isinstance(part, list):
                shares: list[Any] = [[] for _ in self.channels]
                for position, index in enumerate(part, start):
                    shares[index].append(position)
            else:
                shares = [(part == channel.index).nonzero()[0] + start for channel in self.channels]
            for channel, chosen in zip(self.channels, shares, strict=True):
                if len(chosen):
                    yield channel, chosen

    def _look(self, channel: Channel) -> None:
        """Cut if the frame is full, judged by the previous frame or by the last record; otherwise schedule the next check."""
        held = channel.held()
        if channel.records + held >= channel.full or (held and held * rough_size(channel.last()) >= _FRAME_BYTES):
            self._cut(channel)
        else:
            channel.limit = min(held + _LOOK_RECORDS, channel.full - channel.records)

    def _cut(self, channel: Channel) -> None:
        """Make a frame of a channel's elements, and adapt the number of records to the resulting size."""
        elements = channel.take()
        if not elements:
            return
        body = encode_body(elements)
        for piece in cut_body(body):
            self._frames.append(Frame(self._slots[channel.index], self._level, self.edge.id, self._sender, self._sequence, piece))
            self._sequence += 1
        self.bytes += len(body)
        if channel.records and not channel.column_records:
            channel.full = max(1, min(_MOST_RECORDS, channel.records * _FRAME_BYTES // len(body)))
            channel.limit = min(channel.full, _LOOK_RECORDS)
        self._count(channel)

    def _count(self, channel: Channel) -> None:
        """Count the records of a channel whose elements were taken."""
        self.records += channel.records + channel.column_records
        channel.records = channel.column_records = channel.column_bytes = 0

    def frames(self) -> list[Frame]:
        """End the epoch: return all frames emitted in it."""
        for channel in self.channels:
            self._cut(channel)
        return self._frames

    def elements(self) -> list[Any]:
        """End the epoch of an edge that stays within the slot (FORWARD): return its elements without frames."""
        (channel,) = self.channels
        elements = channel.take()
        self._count(channel)
        return elements

    def _append(self, index: int, value: Any, timestamp: int | None) -> None:
        channel = self.channels[index]
        channel.values.append(value if self.owns or value.__class__ in SCALARS else isolate(value))
        channel.timestamps.append(timestamp)
        if len(channel.values) >= channel.limit:
            self._look(channel)

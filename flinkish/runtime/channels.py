"""The sending side of edges: partitioners that distribute records over channels, and channels that are cut into frames."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from flinkish.common import pickling
from flinkish.common.conversion import compiled, converter, integer_bounds, out_of_bounds, taking_apart
from flinkish.common.errors import InvalidProgramError, TypeMismatchError
from flinkish.common.sizes import rough_size
from flinkish.common.typeinfo import PickledBytesTypeInfo, RowTypeInfo, TypeInformation, Types
from flinkish.common.types import Row, RowKind
from flinkish.datastream.function_wrappers import function_behind
from flinkish.datastream.functions import Function
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.graph.job_graph import JobEdge
from flinkish.program.transformations import Partitioning
from flinkish.runtime.elements import (
    CheckpointBarrier,
    Element,
    EndOfInput,
    PackedRows,
    Records,
    Watermark,
    WatermarkStatus,
    pack,
    unpack,
)
from flinkish.runtime.field_keys import field_read
from flinkish.runtime.isolation import SCALARS, isolate
from flinkish.runtime.key_groups import (
    MASK,
    MULTIPLIER,
    CanonicalKey,
    as_key,
    is_stored_as_given,
    key_group,
    original_key,
    subtask_of_group,
)
from flinkish.runtime.protocol import Barrier, Frame

#: Target size of a frame's body. A channel's buffer and the frame then fit into a core's cache: with frames of 1 MB, a record
#: took a third more time on both sides.
_FRAME_BYTES = 32 << 10
#: Maximum bytes of one row between slots; a larger frame is sent in several rows, because Spark copies rows several times.
_PIECE_BYTES = 4 << 20
#: First byte of a piece of a body: more pieces follow, or it is the last one; a whole body begins with pickle's 0x80.
_MORE, _LAST = b"\x01", b"\x02"
#: Number of records in the first frame of a channel; later frames are adapted to the measured size.
_FRAME_RECORDS = 1_024
#: Number of records between two checks of their size (a microsecond each), so that a few large records can fill a frame.
_LOOK_RECORDS = 128
#: Maximum number of records in a frame, however small they are.
_MOST_RECORDS = 1 << 17
#: Maximum number of keys whose target each edge caches; about 100 bytes each.
_LOCATED_KEYS = 200_000

Emit = Callable[[Any, int | None], None]
#: Emits a run of records without timestamps. The values are created lazily, one after the other: each one passes the chain, and
#: is copied if it is mutable, before the next one is created.
EmitRun = Callable[[Iterable[Any]], None]


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

    __slots__ = ("_elements", "full", "index", "keyed", "keys", "limit", "records", "timestamps", "values")

    def __init__(self, index: int, *, keyed: bool) -> None:
        #: Index among the edge's channels.
        self.index = index
        self.keyed = keyed
        #: Number of records that fill a frame, estimated from the last frame.
        self.full = _FRAME_RECORDS
        #: Length of `values` at which the frame may be full.
        self.limit = _LOOK_RECORDS
        #: Number of records in closed runs.
        self.records = 0
        self._elements: list[Element | PackedRows] = []
        self._start_run()

    def _start_run(self) -> None:
        self.values: list[Any] = []
        self.timestamps: list[int | None] = []
        self.keys: list[Any] | None = [] if self.keyed else None

    def pad(self) -> None:
        """Add the missing timestamps, as None, of the values added last."""
        self.timestamps.extend([None] * (len(self.values) - len(self.timestamps)))

    def end_run(self) -> None:
        """Close the open run of records, if there is one."""
        values, timestamps = self.values, self.timestamps
        if values:
            self.pad()
            self.records += len(values)
            stamped = timestamps if timestamps.count(None) != len(timestamps) else None
            self._elements.append(Records(values, stamped, self.keys))
            self._start_run()

    def held(self) -> int:
        """Return the number of records in the open run."""
        return len(self.values)

    def last(self) -> Any:
        """Return the last record, in a form that tells its size; there must be one that was not taken."""
        if self.values:
            return self.values[-1]
        run = next(element for element in reversed(self._elements) if isinstance(element, (Records, PackedRows)))
        return run.values[-1] if isinstance(run, Records) else [column[-1] for column in run.columns]

    def control(self, element: Element) -> None:
        """Append a control element after the records so far."""
        self.end_run()
        self._elements.append(element)

    def take(self) -> list[Element | PackedRows]:
        """Return all elements since the last call."""
        self.end_run()
        elements, self._elements = self._elements, []
        return elements


class _RowChannel(Channel):
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

    def pad(self) -> None:
        self.timestamps.extend([None] * (self.held() - len(self.timestamps)))

    def end_run(self) -> None:
        if self.keys:
            self.pad()
            timestamps = self.timestamps
            self.records += len(timestamps)
            stamped = timestamps if timestamps.count(None) != len(timestamps) else None
            self._elements.append(PackedRows(self.fields, self.columns, stamped, self.keys))
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
    """The sending side of an edge in one subtask: `emit` chooses the channel. There is a subclass for each partitioning.

    Records are emitted in two forms: one record with its timestamp, or a run of records without timestamps.
    """

    emit: Emit
    emit_run: EmitRun
    #: Whether the edge stays in this slot and level, so that elements are passed on without being cut into frames.
    local = False
    #: Whether nothing else refers to the incoming records, so that they are not copied. Set before the first record.
    owns = False

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

    def watermark(self, timestamp: int) -> None:
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
            # Also those before a watermark or barrier, which ends a run of records.
            records = channel.records + channel.held()
            if records:
                size += records * rough_size(channel.last())
        return size

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
        body = pickling.dumps([pack(element) if element.__class__ is Records else element for element in elements])
        for piece in _pieces(body) if len(body) > _PIECE_BYTES else (body,):
            self._frames.append(Frame(self._slots[channel.index], self._level, self.edge.id, self._sender, self._sequence, piece))
            self._sequence += 1
        self.bytes += len(body)
        if channel.records:
            self.records += channel.records
            channel.full = max(1, min(_MOST_RECORDS, channel.records * _FRAME_BYTES // len(body)))
            channel.limit = min(channel.full, _LOOK_RECORDS)
            channel.records = 0

    def frames(self) -> list[Frame]:
        """End the epoch: return all frames emitted in it."""
        for channel in self.channels:
            self._cut(channel)
        return self._frames

    def elements(self) -> list[Any]:
        """End the epoch of an edge that stays within the slot (FORWARD): return its elements without frames."""
        (channel,) = self.channels
        elements = channel.take()
        self.records += channel.records
        channel.records = 0
        return elements

    def _append(self, index: int, value: Any, timestamp: int | None) -> None:
        channel = self.channels[index]
        channel.values.append(value if self.owns or value.__class__ in SCALARS else isolate(value))
        channel.timestamps.append(timestamp)
        if len(channel.values) >= channel.limit:
            self._look(channel)


class _ForwardWriter(EdgeWriter):
    def __init__(self, edge: JobEdge, plan: ExecutionPlan, sender: int) -> None:
        super().__init__(edge, plan, sender)
        self.local = self._level == plan.level_of[edge.source_vertex]

    def emit(self, value: Any, timestamp: int | None) -> None:
        channel = self.channels[0]
        channel.values.append(value if self.owns or value.__class__ in SCALARS else isolate(value))
        channel.timestamps.append(timestamp)
        if not self.local and len(channel.values) >= channel.limit:
            self._look(channel)


class _Located(dict[Any, Channel]):
    """The channels of recent keys. Looking up a new key that is an int or str of the key's type finds its channel, too.

    For all other new keys a look-up raises KeyError. This takes a third of the time of an error that is caught.
    """

    def __init__(self, channels: Sequence[Channel], key_type: TypeInformation | None, max_parallelism: int) -> None:
        super().__init__()
        self._max_parallelism = max_parallelism
        self._targets = [subtask_of_group(group, max_parallelism, len(channels)) for group in range(max_parallelism)]
        self._channels = channels
        #: CanonicalKeys by their encoding.
        self.wrapped: dict[bytes, CanonicalKey] = {}
        self._texts = key_type is None or key_type == Types.STRING()
        #: Bounds of the integers that the key's type accepts unchanged.
        self._least: float = -math.inf
        self._most: float = math.inf
        if key_type is not None:
            self._least, self._most = integer_bounds(key_type) or (0, -1)

    def of_field(self, channels: Sequence[Channel], field_type: TypeInformation | None) -> None:
        """Use other channels; find only those integers that the key's field can hold, too, if the key is a field."""
        self._channels = channels
        least, most = (None if field_type is None else integer_bounds(field_type)) or (-math.inf, math.inf)
        self._least, self._most = max(least, self._least), min(most, self._most)

    def __missing__(self, key: Any) -> Channel:
        kind = key.__class__
        if kind is int and self._least <= key <= self._most:
            if len(self) >= _LOCATED_KEYS:
                self._make_room()
            # key_group(), without a call
            number = hash(key)
            group = ((((number ^ (number >> 32)) * MULTIPLIER) & MASK) >> 33) % self._max_parallelism
            channel = self[key] = self._channels[self._targets[group]]
            return channel
        if kind is str and self._texts:
            return self.locate(key)
        raise KeyError(key)

    def locate(self, key: Any) -> Channel:
        """Find and keep the channel of a key; raise TypeMismatchError if it has no canonical encoding."""
        if len(self) >= _LOCATED_KEYS:
            self._make_room()
        channel = self[key] = self._channels[self._targets[key_group(key, self._max_parallelism)]]
        return channel

    def _make_room(self) -> None:
        self.clear()
        self.wrapped.clear()


class _HashWriter(EdgeWriter):
    """HASH by key group, as Flink's KeyGroupStreamPartitioner; the targets of recent keys are cached."""

    def __init__(self, edge: JobEdge, plan: ExecutionPlan, sender: int) -> None:
        super().__init__(edge, plan, sender)
        key_type = self._target_vertex.head.key_type
        untyped = isinstance(key_type, PickledBytesTypeInfo)
        self._located = _Located(self.channels, None if untyped else key_type, self._target_vertex.max_parallelism)
        self._convert_key = None if key_type is None else converter(key_type)
        select = edge.partitioner.key_selector
        assert select is not None
        self._select = select if key_type is None or is_stored_as_given(key_type) else self._declared(select)
        self.emit, self.emit_run = self._emitter(isolate), self._emit_keyed

    def take_over(self) -> None:
        super().take_over()
        self.emit = self._emitter(None)

    def _declared(self, select: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return a selector that converts keys to the declared type, as those restored are: a named Row, a FLOAT of 32 bits."""
        convert = self._converted
        return lambda value: convert(select(value))

    def _emitter(self, isolate: Callable[[Any], Any] | None) -> Emit:
        """Return `emit` as a closure: without attribute look-ups it takes two thirds of the time."""
        select, located, locate, look, as_key = self._select, self._located, self._locate, self._look, self._as_key

        def emit(value: Any, timestamp: int | None) -> None:
            key = select(value)
            try:
                channel = located[key]
            except (KeyError, TypeError):
                key = as_key(key)
                channel = located.get(key) or locate(key)
            values = channel.values
            values.append(value if isolate is None or value.__class__ in SCALARS else isolate(value))
            channel.timestamps.append(timestamp)
            channel.keys.append(key)  # type: ignore[union-attr]
            if len(values) >= channel.limit:
                look(channel)

        return emit

    def convert(self, type_info: TypeInformation) -> bool:
        # The functions are generated, with type checks and columns inlined. `emit_slowly` handles all other records: rows with
        # positional values, rows of other kinds than INSERT, None, and values that need a conversion.
        if not isinstance(type_info, RowTypeInfo) or not self.owns:
            return False
        fields = type_info.field_names
        select, located, locate, look, as_key = self._select, self._located, self._locate, self._look, self._as_key
        convert = converter(type_info)
        assert convert is not None

        def emit_slowly(value: Any, timestamp: int | None) -> None:
            value = convert(value)
            key = select(value)
            try:
                channel = located[key]
            except (KeyError, TypeError):
                key = as_key(key)
                channel = located.get(key) or locate(key)
            channel.add(value, timestamp, key)  # type: ignore[attr-defined]
            if channel.held() >= channel.limit or channel.records >= channel.full:
                look(channel)

        key_field = field_read(self._select, type_info)
        channels = [_RowChannel(channel.index, fields, key_field) for channel in self.channels]
        scope: dict[str, Any] = {"select": select, "located": located, "locate": locate, "look": look, "as_key": as_key}
        scope |= {"channels": channels, "emit_slowly": emit_slowly, "__name__": __name__}
        # A key that has a channel is within the bounds of its field's type, so that only new keys are compared with them.
        bounds = None if key_field is None else out_of_bounds(type_info.field_types[key_field], "key")

        def appended(timestamp: str | None, end: str) -> list[str]:
            slowly = [f"if key is None or {bounds}:", f"    emit_slowly(value, {timestamp})", f"    {end}"] if bounds else []
            lines = ["try:", "    channel = located[key]", "except (KeyError, TypeError):", *[f"    {line}" for line in slowly]]
            lines += ["    key = as_key(key)", "    channel = located.get(key) or locate(key)"]
            lines.append(f"{''.join([f'c{position}, ' for position in range(len(fields))])} = channel.columns")
            lines += [f"c{position}.append(v{position})" for position in range(len(fields))]
            if key_field is None:
                lines += ["keys = channel.keys", "keys.append(key)"]
            lines += [f"channel.timestamps.append({timestamp})"] if timestamp else []
            lines += [f"if len({'keys' if key_field is None else f'c{key_field}'}) >= channel.limit:", "    look(channel)", end]
            if key_field is not None:
                return [f"key = v{key_field}", *lines]
            # A selector that reads by position fills all slots of the row; then the fields must be in the declared order.
            checked = "if value._kwargs is named or value._names == names:"
            return ["key = select(value)", checked, *[f"    {line}" for line in lines]]

        one = taking_apart(type_info, appended("timestamp", "return"), scope, key_field)
        run = taking_apart(type_info, appended(None, "continue"), scope, key_field)
        if one is None or run is None:
            return False
        self.channels = [*channels]
        located.of_field(channels, None if key_field is None else type_info.field_types[key_field])
        lines = ["def emit(value, timestamp):", *[f"    {line}" for line in one], "    emit_slowly(value, timestamp)"]
        lines += ["def emit_run(values):", "    for value in values:", *[f"        {line}" for line in run]]
        lines += ["        emit_slowly(value, None)", "    for channel in channels:", "        channel.pad()"]
        self.emit = compiled(lines, scope, "emit")
        self.emit_run = scope["emit_run"]
        return True

    def _emit_keyed(self, values: Iterable[Any]) -> None:
        select, located, locate, look, as_key = self._select, self._located, self._locate, self._look, self._as_key
        owns = self.owns
        for value in values:
            key = select(value)
            try:
                channel = located[key]
            except (KeyError, TypeError):
                key = as_key(key)
                channel = located.get(key) or locate(key)
            channel_values = channel.values
            channel_values.append(value if owns or value.__class__ in SCALARS else isolate(value))
            channel.keys.append(key)  # type: ignore[union-attr]
            if len(channel_values) >= channel.limit:
                look(channel)
        for channel in self.channels:
            channel.pad()

    def _as_key(self, key: Any) -> Any:
        try:
            return as_key(key, self._located.wrapped)
        except TypeMismatchError as error:
            raise self._refusal(error) from None

    def _refusal(self, error: TypeMismatchError) -> TypeMismatchError:
        return TypeMismatchError(f"the key that key_by() selected for {self._target_vertex.head.name!r}: {error}")

    def _locate(self, key: Any) -> Channel:
        self._check(original_key(key))
        try:
            return self._located.locate(key)
        except TypeMismatchError as error:
            raise self._refusal(error) from None

    def _check(self, key: Any) -> None:
        """Refuse a key that is not of the declared type, and one that the type would round to a whole number."""
        if self._convert_key is None:
            return
        converted = self._converted(key)
        if isinstance(converted, int) and converted != key:
            head = self._target_vertex.head
            raise TypeMismatchError(
                f"the key that key_by() selected for {head.name!r} must be of its declared type {head.key_type!r}; got {key!r}",
                hint="round it in the key selector, or give key_by() the type that keys have.",
            )

    def _converted(self, key: Any) -> Any:
        assert self._convert_key is not None
        try:
            return self._convert_key(key)
        except TypeMismatchError as error:
            raise self._refusal(error) from None


class _RoundRobinWriter(EdgeWriter):
    """REBALANCE over all targets, RESCALE over the sender's share; the first target depends on the epoch and the sender."""

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        self._next = (epoch + self._sender) % len(self.channels)

    def emit(self, value: Any, timestamp: int | None) -> None:
        index = self._next
        self._next = index + 1 if index + 1 < len(self.channels) else 0
        self._append(index, value, timestamp)


class _ShuffleWriter(EdgeWriter):
    """SHUFFLE: uniformly at random, seeded by edge, sender and epoch, so that a repeated epoch gives the same result."""

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        self._random = random.Random(f"{self.edge.id}/{self._sender}/{epoch}")

    def emit(self, value: Any, timestamp: int | None) -> None:
        self._append(int(self._random.random() * len(self.channels)), value, timestamp)


class _BroadcastWriter(EdgeWriter):
    def emit(self, value: Any, timestamp: int | None) -> None:
        for index in range(len(self.channels)):
            self._append(index, value, timestamp)


class _GlobalWriter(EdgeWriter):
    def emit(self, value: Any, timestamp: int | None) -> None:
        self._append(0, value, timestamp)


class _CustomWriter(EdgeWriter):
    def __init__(self, edge: JobEdge, plan: ExecutionPlan, sender: int) -> None:
        super().__init__(edge, plan, sender)
        assert edge.partitioner.key_selector is not None
        assert edge.partitioner.function is not None
        self._select = edge.partitioner.key_selector
        self._partition = edge.partitioner.function

    def emit(self, value: Any, timestamp: int | None) -> None:
        count = len(self.channels)
        index = self._partition(self._select(value), count)
        if not 0 <= index < count:
            raise InvalidProgramError(
                f"the partitioner of partition_custom returned {index!r}; it must be a subtask from 0 to {count - 1}",
                hint="return key_hash % num_partitions.",
            )
        self._append(index, value, timestamp)


_WRITERS: dict[Partitioning, type[EdgeWriter]] = {
    Partitioning.FORWARD: _ForwardWriter,
    Partitioning.HASH: _HashWriter,
    Partitioning.REBALANCE: _RoundRobinWriter,
    Partitioning.RESCALE: _RoundRobinWriter,
    Partitioning.SHUFFLE: _ShuffleWriter,
    Partitioning.BROADCAST: _BroadcastWriter,
    Partitioning.GLOBAL: _GlobalWriter,
    Partitioning.CUSTOM: _CustomWriter,
}


def edge_writer(edge: JobEdge, plan: ExecutionPlan, sender: int) -> EdgeWriter:
    """Create the writer of an edge for one sending subtask."""
    return _WRITERS[edge.partitioner.partitioning](edge, plan, sender)


def _pieces(body: bytes) -> Iterator[bytes]:
    """Cut a body that is too large for one row; each piece begins with a byte that says whether more follow."""
    view = memoryview(body)
    for start in range(0, len(body), _PIECE_BYTES):
        end = start + _PIECE_BYTES
        yield b"".join((_MORE if end < len(body) else _LAST, view[start:end]))


def in_order(frames: Sequence[Frame]) -> list[bytes]:
    """Return the bodies of one channel's frames, which may be in any order, in the right order."""
    bodies: list[bytes] = []
    pieces: list[memoryview] = []
    for frame in sorted(frames, key=lambda frame: frame.seq):
        mark = frame.body[:1]
        if mark != _MORE and mark != _LAST:
            bodies.append(frame.body)
            continue
        pieces.append(memoryview(frame.body)[1:])
        if mark == _LAST:
            bodies.append(b"".join(pieces))
            pieces = []
    return bodies


def decode_body(body: bytes) -> list[Element]:
    """Return the elements of a frame, which has at least one."""
    elements: list[Element | PackedRows] = pickling.loads(body)
    return [unpack(element) if isinstance(element, PackedRows) else element for element in elements]


def decode(frames: Sequence[Frame]) -> list[Element]:
    """Return the elements of one channel's frames, which may be in any order."""
    return [element for body in in_order(frames) for element in decode_body(body)]

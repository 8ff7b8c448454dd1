"""The partitioners of edges, each of which chooses the channel or channels of a record; `edge_writer` creates them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from flinkish.common.columns import Columns
from flinkish.common.conversion import compiled, converter, out_of_bounds, taking_apart
from flinkish.common.errors import InvalidProgramError, TypeMismatchError
from flinkish.common.kinds import integer_bounds
from flinkish.common.typeinfo import PickledBytesTypeInfo, RowTypeInfo, TypeInformation, Types
from flinkish.common.types import RowColumns
from flinkish.graph.columns import combined_before, fields_read
from flinkish.graph.execution_plan import ExecutionPlan
from flinkish.graph.field_keys import field_read, fields_of_key
from flinkish.graph.job_graph import JobEdge
from flinkish.program.transformations import Partitioning
from flinkish.runtime.channels import Channel, EdgeWriter, RowChannel
from flinkish.runtime.elements import Element, Emit, Watermark
from flinkish.runtime.isolation import SCALARS, isolate
from flinkish.runtime.key_groups import MASK, MULTIPLIER, key_group, key_groups, subtask_of_group
from flinkish.runtime.keys import CanonicalKey, as_key, is_stored_as_given, original_key

if TYPE_CHECKING:
    from flinkish.runtime.operators.window.combining import Combiner

#: Number of records whose channels are found together, and the least number for which numpy does it.
_RUN_RECORDS = 1_024
_MANY_RECORDS = 256
#: Maximum number of keys whose target each edge caches; about 100 bytes each.
_LOCATED_KEYS = 200_000
#: Number of epochs for which columns are not combined after that was tried in vain.
_REST = 64


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

    def emit_columns(self, columns: Columns) -> None:
        self._append_columns(0, columns)


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
        self.takes_texts = key_type is None or key_type == Types.STRING()
        self.takes_booleans = key_type is None or key_type == Types.BOOLEAN()
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
        if kind is str and self.takes_texts:
            return self.locate(key)
        raise KeyError(key)

    def indexes(self, keys: Sequence[Any]) -> Any:
        """Return the indexes of the channels of many integers as numpy's array; None if one of them is of another kind.

        For a new key this takes a tenth of the time of a look-up, and no place among the recent keys.
        """
        # numpy takes 0.1 s to import, and small jobs do without it.
        import numpy as np

        if keys.dtype.kind != "i" if isinstance(keys, np.ndarray) else set(map(type, keys)) != {int}:
            return None
        try:
            numbers = np.array(keys, np.int64)
        except OverflowError:
            return None
        if not self._least <= numbers.min() <= numbers.max() <= self._most:
            return None
        return np.array(self._targets)[key_groups(numbers, self._max_parallelism)]

    def takes(self, column: Any) -> bool:
        """Tell whether the keys in a column of Arrow, integers, texts or booleans without nulls, are of the key's type."""
        kind = str(column.type)
        if kind in ("string", "bool"):
            return self.takes_texts if kind == "string" else self.takes_booleans
        numbers = column.to_numpy()
        return bool(self._least <= numbers.min() <= numbers.max() <= self._most)

    def indexes_of_tuples(self, columns: Sequence[Any]) -> Any:
        """Return the indexes of the channels of keys that are tuples as numpy's array; `columns` are their items."""
        import numpy as np

        # Only jobs that have columns import Arrow.
        from flinkish.runtime.tuple_hashes import crcs_of_tuples

        return np.array(self._targets)[crcs_of_tuples(columns) % self._max_parallelism]

    def locate(self, key: Any) -> Channel:
        """Find and keep the channel of a key; raise TypeMismatchError if it has no canonical encoding."""
        if len(self) >= _LOCATED_KEYS:
            self._make_room()
        channel = self[key] = self._channels[self._targets[key_group(key, self._max_parallelism)]]
        return channel

    def _make_room(self) -> None:
        self.clear()
        self.wrapped.clear()


def _as_list(values: Any) -> list[Any]:
    """Return the values of a list, or of an array of numpy."""
    return values if values.__class__ is list else values.tolist()


def _appending(type_info: RowTypeInfo, key_field: int | None, timestamp: str | None, end: str) -> list[str]:
    """Return the source that finds the channel of a row, whose fields are in v0, v1, ..., and appends the row to its columns.

    `timestamp`: the expression for the row's timestamp; None = the channel is padded later. `end`: the statement after it.
    """
    columns = [f"c{position}" for position in range(len(type_info.field_names))]
    lines = ["try:", "    channel = located[key]", "except (KeyError, TypeError):"]
    # A key that has a channel is within the bounds of its field's type, so that only new keys are compared with them.
    bounds = None if key_field is None else out_of_bounds(type_info.field_types[key_field], "key")
    if bounds:
        lines += [f"    if key is None or {bounds}:", f"        emit_slowly(value, {timestamp})", f"        {end}"]
    lines += ["    key = as_key(key)", "    channel = located.get(key) or locate(key)"]
    lines.append(f"{''.join([f'{column}, ' for column in columns])} = channel.columns")
    lines += [f"{column}.append(v{position})" for position, column in enumerate(columns)]
    if key_field is None:
        lines += ["keys = channel.keys", "keys.append(key)"]
    lines += [f"channel.timestamps.append({timestamp})"] if timestamp else []
    lines += [f"if len({'keys' if key_field is None else columns[key_field]}) >= channel.limit:", "    look(channel)", end]
    if key_field is not None:
        return [f"key = v{key_field}", *lines]
    # A selector that reads by position fills all slots of the row; then the fields must be in the declared order.
    checked = "if value._kwargs is named or value._names == names:"
    return ["key = select(value)", checked, *[f"    {line}" for line in lines]]


class _HashWriter(EdgeWriter):
    """HASH by key group, as Flink's KeyGroupStreamPartitioner; the targets of recent keys are cached."""

    #: Made for the first columns, if they may be combined.
    _combiner: Combiner | None = None
    _epoch = 0

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
        key_field = field_read(self._select, type_info)
        channels = [RowChannel(channel.index, type_info.field_names, key_field) for channel in self.channels]
        scope: dict[str, Any] = {"select": self._select, "located": self._located, "locate": self._locate, "look": self._look}
        scope |= {"as_key": self._as_key, "channels": channels, "__name__": __name__}
        scope["emit_slowly"] = self._converting_emitter(type_info)
        one = taking_apart(type_info, _appending(type_info, key_field, "timestamp", "return"), scope, key_field)
        run = taking_apart(type_info, _appending(type_info, key_field, None, "continue"), scope, key_field)
        if one is None or run is None:
            return False
        self.channels = [*channels]
        self._located.of_field(channels, None if key_field is None else type_info.field_types[key_field])
        lines = ["def emit(value, timestamp):", *[f"    {line}" for line in one], "    emit_slowly(value, timestamp)"]
        lines += ["def emit_run(values):", "    for value in values:", *[f"        {line}" for line in run]]
        lines += ["        emit_slowly(value, None)", "    for channel in channels:", "        channel.pad()"]
        self.emit = compiled(lines, scope, "emit")
        self.emit_run = self._run_emitter(channels, key_field, type_info.field_names, scope["emit_run"])
        return True

    def _converting_emitter(self, type_info: TypeInformation) -> Emit:
        """Return the `emit` for records that need a conversion."""
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

        return emit_slowly

    def _run_emitter(
        self,
        channels: Sequence[RowChannel],
        key_field: int | None,
        fields: Sequence[str],
        emit_rows: Callable[[Iterable[Any]], None],
    ) -> Callable[[Iterable[Any]], None]:
        """Return the `emit_run` for rows, which may come as columns."""

        def emit_run(values: Iterable[Any]) -> None:
            if key_field is None or not isinstance(values, RowColumns) or values.fields != fields:
                emit_rows(values)
                return
            # Rows that come as columns leave as columns: no row is made of them.
            for channel, chosen in self._shares(self._indexes(values, values.columns[key_field])):
                places = _as_list(chosen)
                for own, column in zip(channel.columns, values.columns, strict=True):
                    own.extend(map(column.__getitem__, places) if column.__class__ is list else column[chosen].tolist())
                if channel.held() >= channel.limit:
                    self._look(channel)
            for channel in channels:
                channel.pad()

        return emit_run

    def _emit_keyed(self, values: Iterable[Any]) -> None:
        select, located, locate, look, as_key = self._select, self._located, self._locate, self._look, self._as_key
        owns = self.owns
        # Records whose keys are integers, which are distributed together.
        taken: list[Any] = []
        keys: list[int] = []
        for value in values:
            key = select(value)
            if key.__class__ is int:
                keys.append(key)
                taken.append(value if owns or value.__class__ in SCALARS else isolate(value))
                if len(keys) >= _RUN_RECORDS:
                    self._distribute(taken, keys)
                    taken, keys = [], []
                continue
            if keys:
                self._distribute(taken, keys)
                taken, keys = [], []
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
        self._distribute(taken, keys)
        for channel in self.channels:
            channel.pad()

    def _distribute(self, values: list[Any], keys: list[int]) -> None:
        """Append records to the channels of their keys."""
        for channel, places in self._shares(self._indexes(values, keys)):
            chosen = _as_list(places)
            channel.values.extend(map(values.__getitem__, chosen))
            channel.keys.extend(map(keys.__getitem__, chosen))
            if len(channel.values) >= channel.limit:
                self._look(channel)

    def _indexes(self, values: Sequence[Any], keys: Sequence[Any]) -> Any:
        """Return the indexes of the channels of records, as a list or an array; their keys are sent as they are."""
        located = self._located
        found = located.indexes(keys) if len(keys) >= _MANY_RECORDS else None
        if found is not None:
            return found
        keys = _as_list(keys)
        try:
            return [channel.index for channel in map(located.__getitem__, keys)]
        except KeyError:
            pass
        found = []
        for value, key in zip(values, keys, strict=True):  # noqa: B007 - an error names the value
            found.append((located.get(key) or self._locate(key)).index)
        return found

    def emit_columns(self, columns: Columns) -> None:
        keyed = columns.with_key(fields_of_key(self._select, columns.layout.type_info, self._target_vertex.head.key_type))
        if not self._are_sent_as_given(keyed):
            self.settle()
            super().emit_columns(columns)
            return
        if self._combiner is None and self.combines and combined_before(self._target_vertex.head) is not None:
            # Only jobs that have columns import Arrow.
            from flinkish.runtime.operators.window.combining import Combiner

            self._combiner = Combiner(self._target_vertex.head)
        read = fields_read(self._target_vertex.head)
        if read is not None and not self.keeps_all:
            keyed = keyed.only({*read, *(keyed.key_fields or ())})
        combiner = None if 0 < self.rests_until - self._epoch <= _REST else self._combiner
        if combiner is not None and combiner.hold(keyed, self.passed):
            if combiner.is_full:
                self.settle()
        else:
            self.settle()
            self._send(keyed)

    def _are_sent_as_given(self, columns: Columns) -> bool:
        """Tell whether there are keys, and all of them are sent as they are."""
        if columns.key_fields is None or not len(columns):
            return False
        fields = [columns.column(field) for field in columns.key_fields]
        if any(field.null_count for field in fields):
            return False
        return len(fields) != 1 or self._located.takes(fields[0])

    def _send(self, columns: Columns) -> None:
        """Send a run of columns whose keys are sent as they are."""
        if len(self.channels) == 1:
            self._append_columns(0, columns)
            return
        indexes = self._column_indexes(columns)
        for index in range(len(self.channels)):
            places = (indexes == index).nonzero()[0]
            if len(places):
                self._append_columns(index, columns.take(places))

    def settle(self) -> None:
        held = None if self._combiner is None else self._combiner.take()
        if held is not None:
            columns, in_vain = held
            if in_vain:
                self.rests_until = self._epoch + _REST
            self._send(columns)

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        self._epoch = epoch

    def watermark(self, timestamp: int) -> None:
        if self._combiner is not None and self._combiner.ends_by(timestamp):
            self.settle()
        super().watermark(timestamp)

    def _control(self, element: Element) -> None:
        if not isinstance(element, Watermark):
            self.settle()
        super()._control(element)

    def outflow(self) -> int:
        return super().outflow() + (0 if self._combiner is None else self._combiner.nbytes)

    def _column_indexes(self, columns: Columns) -> Any:
        """Return the indexes of the channels of columns whose keys are sent as they are, as an array."""
        import numpy as np

        located = self._located
        if not columns.key_fields:
            return np.full(len(columns), (located.get(0) or self._locate(0)).index)
        fields = [columns.column(field) for field in columns.key_fields]
        if len(fields) > 1:
            return located.indexes_of_tuples(fields)
        if str(fields[0].type) not in ("string", "bool"):
            return located.indexes(fields[0].to_numpy(zero_copy_only=False))
        codes, keys = columns.groups()
        return np.array([(located.get(key) or located.locate(key)).index for key in keys])[codes]

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

    def emit_columns(self, columns: Columns) -> None:
        """Give each target the records that it would get one by one."""
        import numpy as np

        count, start = len(self.channels), self._next
        for offset in range(min(count, len(columns))):
            self._append_columns((start + offset) % count, columns.take(np.arange(offset, len(columns), count)))
        self._next = (start + len(columns)) % count


class _ShuffleWriter(EdgeWriter):
    """SHUFFLE: uniformly at random, seeded by edge, sender and epoch, so that a repeated epoch gives the same result."""

    def begin_epoch(self, epoch: int) -> None:
        super().begin_epoch(epoch)
        self._random = random.Random(f"{self.edge.id}/{self._sender}/{epoch}")

    def emit(self, value: Any, timestamp: int | None) -> None:
        self._append(int(self._random.random() * len(self.channels)), value, timestamp)


class _BroadcastWriter(EdgeWriter):
    def emit_columns(self, columns: Columns) -> None:
        for index in range(len(self.channels)):
            self._append_columns(index, columns)

    def emit(self, value: Any, timestamp: int | None) -> None:
        for index in range(len(self.channels)):
            self._append(index, value, timestamp)


class _GlobalWriter(EdgeWriter):
    def emit_columns(self, columns: Columns) -> None:
        self._append_columns(0, columns)

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

"""Reads many messages of Avro at once, each a record without its schema, as columns.

All messages are one run of bytes. A cursor stands in each of them; the values of a field are read at all cursors by a few steps
of numpy, which move the cursors on. So a message without arrays takes 0.2 to 0.4 us, where fastavro, which makes Python objects,
takes 4 to 8.
The library that makes columns of such messages, pyruhvro, cannot be used: it cuts off an INT of more than 32 bits, and overlooks
bytes that are left over.
Source of the format: the Avro specification, section Binary Encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa

from flinkish.common.column_layout import Layout, layout_of
from flinkish.common.columns import slices_of
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.file_system.avro_schema import LOGICAL, AvroSchema

T = TypeVar("T")

#: Longer than any number, so that reading one never leaves the run of bytes.
_PADDING: Final = bytes(32)

#: A step of numpy takes as long as this number of items that are read one by one; a few steps never matter.
_ITEMS_A_STEP: Final = 256
_FEW_STEPS: Final = 16

_MICROSECONDS: Final = 1_000_000
_DAY: Final = 86_400


class _Messages:
    """The bytes of messages; positions in them are counted from the start of the first."""

    def __init__(self, messages: Sequence[bytes]) -> None:
        self.octets = b"".join([*messages, _PADDING])
        self.size = len(self.octets) - len(_PADDING)
        #: The eight bytes at each position, as a number.
        self.words: Any = np.ndarray(len(self.octets) - 7, "<u8", self.octets, strides=(1,))
        #: For each message the position after it.
        self.ends = np.cumsum(np.fromiter(map(len, messages), np.int64, len(messages)))
        self.starts = np.concatenate([np.zeros(1, np.int64), self.ends[:-1]])


#: Reads a field where the cursors stand. Arguments: the messages, the cursors, and for each of them the end of its message.
#: Returns the values and the new cursors. Raises ValueError or IndexError for bytes that are no such value. The caller finds a
#: cursor that has left its message, when all fields are read.
_Read = Callable[[_Messages, Any, Any], tuple[pa.Array, Any]]


def _check(valid: Any) -> None:
    if not np.all(valid):
        raise ValueError("the bytes are no record")  # never seen: the message is read once more, alone


def _numbers(messages: _Messages, at: Any) -> tuple[Any, Any]:
    """Return the numbers at cursors, written with seven bits a byte, and the positions after them."""
    words = messages.words[at]
    # In the last byte of a number the highest bit is not set; where no byte of eight is the last one, this is zero.
    last = ~words & 0x8080808080808080
    last &= ~last + np.uint64(1)
    lengths = np.frexp(last.astype(np.float64))[1].astype(np.int64) >> 3
    bits = words & (last - np.uint64(1)) & 0x7F7F7F7F7F7F7F7F
    # Bring together the seven bits of each byte, in pairs, fours and eights of bytes.
    bits = (bits & 0x007F007F007F007F) | ((bits & 0x7F007F007F007F00) >> 1)
    bits = (bits & 0x00003FFF00003FFF) | ((bits & 0x3FFF00003FFF0000) >> 2)
    bits = (bits & 0x000000000FFFFFFF) | ((bits & 0x0FFFFFFF00000000) >> 4)
    long = np.flatnonzero(last == 0)
    if long.size:
        more = messages.words[at[long] + 8]
        tenth = np.where(more & 0x80, more >> 8 & 0xFF, 0)
        _check(tenth <= 1)  # a number has at most 64 bits
        bits[long] |= (more & 0x7F) << 56 | tenth << 63
        lengths[long] = np.where(more & 0x80, 10, 9)
    return ((bits >> 1) ^ (~(bits & 1) + np.uint64(1))).view(np.int64), at + lengths


def _slices(messages: _Messages, starts: Any, ends: Any, limits: Any) -> pa.Array:
    """Return the bytes between positions; each pair lies in a message of its own."""
    _check((starts <= ends) & (ends <= limits))
    return slices_of(messages.octets, starts, ends)


def _whole(unit: pa.DataType, low: int | None = None, high: int | None = None) -> _Read:
    """Return the function that reads numbers, if they are at least `low` and less than `high`; `unit`: what they count."""

    def read(messages: _Messages, at: Any, limits: Any) -> tuple[pa.Array, Any]:
        values, at = _numbers(messages, at)
        if low is not None:
            _check((low <= values) & (values < high))
        return pa.array(values.astype(f"i{unit.bit_width // 8}", copy=False)).view(unit), at

    return read


def _fixed_width(size: int, dtype: str) -> _Read:
    def read(messages: _Messages, at: Any, limits: Any) -> tuple[pa.Array, Any]:
        words = messages.words[at]
        return pa.array(words.astype(f"<u{size}").view(dtype)), at + size

    return read


def _boolean(messages: _Messages, at: Any, limits: Any) -> tuple[pa.Array, Any]:
    octets = messages.words[at] & 0xFF
    _check(octets <= 1)
    return pa.array(octets.astype(bool)), at + 1


def _octets(messages: _Messages, at: Any, limits: Any) -> tuple[pa.Array, Any]:
    sizes, at = _numbers(messages, at)
    _check((sizes >= 0) & (sizes <= messages.size))
    return _slices(messages, at, at + sizes, limits), at + sizes


def _fixed(size: int) -> _Read:
    return lambda messages, at, limits: (_slices(messages, at, at + size, limits), at + size)


def _symbol(symbols: Sequence[str]) -> _Read:
    names = pa.array(symbols, pa.string())

    def read(messages: _Messages, at: Any, limits: Any) -> tuple[pa.Array, Any]:
        positions, at = _numbers(messages, at)
        _check((positions >= 0) & (positions < len(names)))
        return names.take(pa.array(positions)), at

    return read


def _optional(read: _Read, there: int, null: int) -> _Read:
    """Return the function that reads a union of null and one more type, which are the branches `null` and `there`."""

    def read_union(messages: _Messages, at: Any, limits: Any) -> tuple[pa.Array, Any]:
        branches, at = _numbers(messages, at)
        chosen = branches == there
        _check(chosen | (branches == null))
        rows = np.flatnonzero(chosen)
        values, at[rows] = read(messages, at[rows], limits[rows])
        return values.take(pa.array(np.cumsum(chosen) - 1, mask=~chosen)), at

    return read_union


def _row(names: Sequence[str], readers: Sequence[_Read]) -> _Read:
    def read(messages: _Messages, at: Any, limits: Any) -> tuple[pa.Array, Any]:
        columns = []
        for read_field in readers:
            values, at = read_field(messages, at, limits)
            columns.append(values)
        return pa.StructArray.from_arrays(columns, names), at

    return read


def _list(read: _Read) -> _Read:
    """Return the function that reads arrays of what `read` reads: item after item, at the cursors that have one more.

    So an array that is much longer than others makes many steps; such messages are left to be read one by one.
    """

    def read_list(messages: _Messages, at: Any, limits: Any) -> tuple[pa.Array, Any]:
        at, nobody = at.copy(), at[:0]
        owners, pieces = [nobody], [read(messages, nobody, nobody)[0]]  # the piece without items has their type
        rows, steps, items = np.arange(len(at)), 0, 0
        while rows.size:
            counts, at[rows] = _numbers(messages, at[rows])
            sized = rows[counts < 0]
            at[sized] = _numbers(messages, at[sized])[1]  # the size of the block, for readers that skip it
            left = np.abs(counts)
            _check((left >= 0) & (left <= limits[rows] - at[rows]))  # an item has a byte at least
            steps, items = steps + 1 + left.max(), items + left.sum()
            _check(steps <= _FEW_STEPS + items // _ITEMS_A_STEP)
            rows = rows[left > 0]
            left, more = left[left > 0], rows
            while more.size:
                values, at[more] = read(messages, at[more], limits[more])
                _check(at[more] <= limits[more])
                owners.append(more)
                pieces.append(values)
                left = left - 1
                more, left = more[left > 0], left[left > 0]
        owner = np.concatenate(owners)
        values = pa.concat_arrays(pieces).take(pa.array(np.argsort(owner, kind="stable")))
        ends = np.cumsum(np.bincount(owner, minlength=len(at)))
        return pa.ListArray.from_arrays(pa.array(np.concatenate([[0], ends]).astype(np.int32)), values), at

    return read_list


def _map(read: _Read) -> _Read:
    read_entries = _list(_row(["key", "value"], [_octets, read]))

    def read_map(messages: _Messages, at: Any, limits: Any) -> tuple[pa.Array, Any]:
        entries, at = read_entries(messages, at, limits)
        keys, values = entries.values.flatten()
        return pa.MapArray.from_arrays(entries.offsets, keys, values), at

    return read_map


_PRIMITIVES: Final[dict[str, _Read]] = {
    "boolean": _boolean,
    "int": _whole(pa.int32(), -(2**31), 2**31),
    "long": _whole(pa.int64()),
    "float": _fixed_width(4, "<f4"),
    "double": _fixed_width(8, "<f8"),
    "string": _octets,
    "bytes": _octets,
}
_LOGICAL: Final[dict[tuple[str, str], _Read]] = {
    ("int", "date"): _whole(pa.date32(), -(2**31), 2**31),
    ("int", "time-millis"): _whole(pa.time32("ms"), 0, 1000 * _DAY),
    ("long", "time-micros"): _whole(pa.time64("us"), 0, _MICROSECONDS * _DAY),
    **{("long", f"{prefix}timestamp-millis"): _whole(pa.timestamp("ms")) for prefix in ("", "local-")},
    **{("long", f"{prefix}timestamp-micros"): _whole(pa.timestamp("us")) for prefix in ("", "local-")},
}


def _reader(schema: Any, named: dict[str, Any]) -> _Read | None:
    """Return the function that reads values of a schema; None if they must be read one by one."""
    if isinstance(schema, str):
        return _reader(named[schema], named) if schema in named else _PRIMITIVES.get(schema)
    if isinstance(schema, list):
        others = [position for position, branch in enumerate(schema) if branch != "null"]
        read = _reader(schema[others[0]], named) if len(others) == 1 else None
        return None if read is None else _optional(read, others[0], schema.index("null") if len(schema) == 2 else others[0])
    kind, logical = schema["type"], schema.get("logicalType")
    if logical in LOGICAL:
        return _LOGICAL.get((kind, logical))
    match kind:
        case "enum":
            return _symbol(schema["symbols"])
        case "record" if schema["fields"]:
            readers = of_fields(schema, named, _reader)
            found = [read for read in readers.values() if read is not None]
            return _row(list(readers), found) if len(found) == len(readers) else None
        case "array" | "map":
            read = _reader(schema["items" if kind == "array" else "values"], named)
            return None if read is None else _list(read) if kind == "array" else _map(read)
        case "fixed" if type(schema["size"]) is int:  # fastavro takes other sizes, too, and refuses each message
            return _fixed(schema["size"])
        case _:
            return _PRIMITIVES.get(kind)


def of_fields(record: Any, named: dict[str, Any], make: Callable[[Any, dict[str, Any]], T]) -> dict[str, T]:
    """Return what `make` makes of the schema of each field; in it, the record is no named type, as no column is within itself."""
    others = {name: one for name, one in named.items() if name != record["name"]}
    return {field["name"]: make(field["type"], others) for field in record["fields"]}


def why_one_by_one(fields: Mapping[str, object], done: str) -> str | None:
    """Return why records are not `done`, read or written, by columns; None if there is something that does it for each field."""
    if not fields:
        return f"only Avro records with fields are {done} by columns"
    name = next((name for name, does in fields.items() if does is None), None)
    return None if name is None else f"the field {name!r} of Avro records is {done} one by one"


class AvroColumns:
    """Reads messages of a schema, a record's, as columns of a type, that of its rows."""

    def __init__(self, schema: AvroSchema, row_type: TypeInformation) -> None:
        self._layout: Layout | None = layout_of(row_type)
        readers = of_fields(schema.parsed, schema.named, _reader) if isinstance(schema.parsed, dict) else {}
        self._readers = [read for read in readers.values() if read is not None]
        #: Why messages cannot be columns; None if they can.
        self.why_records = why_one_by_one(readers, "read")

    def batch(self, messages: Sequence[bytes]) -> pa.RecordBatch | None:
        """Return one message or more as columns; None if they must be read one by one, as when one is malformed."""
        assert self._layout is not None
        data = _Messages(messages)
        at, columns = data.starts, []
        try:
            for read, field in zip(self._readers, self._layout.schema, strict=True):
                values, at = read(data, at, data.ends)
                columns.append(values.cast(field.type))
            _check(at == data.ends)
            return self._layout.batch_of(columns)
        except (ValueError, IndexError, OverflowError):  # Arrow's errors of values are ValueErrors
            return None

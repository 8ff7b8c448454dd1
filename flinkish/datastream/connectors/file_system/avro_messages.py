"""Writes rows that are columns as messages of Avro, each a record without its schema, many at once.

Each field becomes a column of bytes, by a few steps of numpy; these are joined row by row.
Source of the format: the Avro specification, section Binary Encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkish.common.columns import Columns
from flinkish.common.kinds import INTEGER_BITS, part_names, shape_of
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.file_system.avro_columns import of_fields, why_one_by_one
from flinkish.datastream.connectors.file_system.avro_schema import LOGICAL, AvroSchema

#: Returns the bytes of the values of a column that has no nulls. Raises ValueError for values that must be written one by one.
_Write = Callable[[pa.Array], pa.Array]

_BYTES: Final = pa.large_binary()


def _check(valid: Any) -> None:
    if not np.all(valid):
        raise ValueError("a value does not fit the schema")  # never seen: each row is written once more, alone


def _joined(columns: Sequence[pa.Array]) -> pa.Array:
    return pc.binary_join_element_wise(*columns, pa.scalar(b"", _BYTES))


def _pieces(octets: Any, widths: Any) -> pa.Array:
    """Return the bytes of an array of numpy in pieces of these widths."""
    ends = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    return pa.Array.from_buffers(_BYTES, len(widths), [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(octets))])


def _numbers(values: Any) -> pa.Array:
    """Return integers with seven bits a byte, the lowest bits first; small negative ones are as short as small positive ones."""
    values = values.astype(np.int64)
    bits = ((values << 1) ^ (values >> 63)).view(np.uint64)
    widths = 1 + sum((bits >= np.uint64(1 << 7 * place)).astype(np.int64) for place in range(1, 10))
    places = np.arange(widths.max(initial=1))
    octets = (bits[:, None] >> (7 * places).astype(np.uint64)).astype(np.uint8) & 0x7F
    return _pieces((octets | (places < widths[:, None] - 1) * np.uint8(0x80))[places < widths[:, None]], widths)


def _whole(low: int, high: int, divided: int = 1) -> _Write:
    """Return the function that writes integers from `low` to below `high`, or times of as many microseconds over `divided`."""

    def write(column: pa.Array) -> pa.Array:
        if pa.types.is_temporal(column.type):
            column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
        values = column.to_numpy() // divided
        _check((low <= values) & (values < high))
        return _numbers(values)

    return write


def _long(column: pa.Array) -> pa.Array:
    return _numbers(column.to_numpy())


def _fixed_width(dtype: str) -> _Write:
    def write(column: pa.Array) -> pa.Array:
        values = column.to_numpy(zero_copy_only=False).astype(dtype)
        return _pieces(values.view(np.uint8), np.full(len(values), values.itemsize))

    return write


def _octets(column: pa.Array) -> pa.Array:
    column = column.cast(_BYTES)
    return _joined([_numbers(pc.binary_length(column).to_numpy()), column])


def _fixed(size: int) -> _Write:
    def write(column: pa.Array) -> pa.Array:
        _check(pc.binary_length(column).to_numpy() == size)
        return column.cast(_BYTES)

    return write


def _symbol(symbols: Sequence[str]) -> _Write:
    def write(column: pa.Array) -> pa.Array:
        positions = pc.index_in(column, pa.array(symbols, pa.string()))
        _check(positions.null_count == 0)
        return _numbers(positions.to_numpy())

    return write


def _present(write: _Write) -> _Write:
    """Return the function that refuses nulls."""

    def write_all(column: pa.Array) -> pa.Array:
        _check(column.null_count == 0)
        return write(column)

    return write_all


def _union(write: _Write, there: int, null: int | None) -> _Write:
    """Return the function that writes a union of one type, the branch `there`, and null, the branch `null` if there is one."""
    branches = [pa.scalar(_numbers(np.array([branch]))[0].as_py(), _BYTES) for branch in (there, there if null is None else null)]

    def write_union(column: pa.Array) -> pa.Array:
        values = column.drop_null()
        written = _joined([pa.repeat(branches[0], len(values)), write(values)])
        if len(values) == len(column):
            return written
        _check(null is not None)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        return written.take(pa.array(np.cumsum(valid) - 1, mask=~valid)).fill_null(branches[1])

    return write_union


def _row(writers: dict[str, _Write]) -> _Write:
    def write(column: pa.Array) -> pa.Array:
        names = [field.name for field in column.type]
        parts = column.flatten()
        return _joined([one(parts[names.index(name)]) for name, one in writers.items()])

    return write


def _blocks(column: pa.Array, items: pa.Array) -> pa.Array:
    """Return the bytes of arrays or maps: the items that are written one after the other, as one block, and a block of none."""
    ends = column.offsets.to_numpy()
    counts = np.diff(ends)
    _, places, octets = items.buffers()
    bounds = np.frombuffer(places, np.int64, len(items) + 1, 8 * items.offset) if len(items) else np.zeros(1, np.int64)
    inside = pa.py_buffer(np.ascontiguousarray(bounds[ends - ends[0]]))
    block = pa.Array.from_buffers(_BYTES, len(counts), [None, inside, octets or pa.py_buffer(b"")])
    last = counts > 0
    return _joined([_numbers(counts), block, _pieces(np.zeros(last.sum(), np.uint8), last)])


def _list(write: _Write) -> _Write:
    return lambda column: _blocks(column, write(column.flatten()))


def _map(write: _Write) -> _Write:
    def write_map(column: pa.Array) -> pa.Array:
        first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
        keys, values = (part.slice(first, last - first) for part in (column.keys, column.items))
        return _blocks(column, _joined([_octets(keys), write(values)]))

    return write_map


_PRIMITIVES: Final[dict[str, _Write]] = {
    "boolean": _fixed_width("u1"),
    "int": _whole(-(2**31), 2**31),
    "long": _long,
    "float": _fixed_width("<f4"),
    "double": _fixed_width("<f8"),
    "string": _octets,
    "bytes": _octets,
}
_LOGICAL: Final[dict[tuple[str, str], _Write]] = {
    ("int", "date"): _whole(-(2**31), 2**31),
    ("int", "time-millis"): _whole(-(2**31), 2**31, 1000),
    ("long", "time-micros"): _whole(-(2**63), 2**63),
    **{("long", f"{prefix}timestamp-millis"): _whole(-(2**63), 2**63, 1000) for prefix in ("", "local-")},
    **{("long", f"{prefix}timestamp-micros"): _whole(-(2**63), 2**63) for prefix in ("", "local-")},
}


def _writer(schema: Any, named: dict[str, Any]) -> _Write | None:
    """Return the function that writes a column of a schema's values; None if they must be written one by one."""
    if isinstance(schema, str) and schema in named:
        return _writer(named[schema], named)
    if isinstance(schema, list):
        others = [position for position, branch in enumerate(schema) if branch != "null"]
        write = _writer(schema[others[0]], named) if len(others) == 1 else None
        return None if write is None else _union(write, others[0], schema.index("null") if len(schema) == 2 else None)
    kind = schema if isinstance(schema, str) else schema["type"]
    logical = None if isinstance(schema, str) else schema.get("logicalType")
    write = _PRIMITIVES.get(kind)
    match kind:
        case _ if logical in LOGICAL:
            write = _LOGICAL.get((kind, logical))
        case "array" | "map":
            part = _writer(schema["items" if kind == "array" else "values"], named)
            write = None if part is None else _list(part) if kind == "array" else _map(part)
        case "enum":
            write = _symbol(schema["symbols"])
        case "fixed" if type(schema["size"]) is int:
            write = _fixed(schema["size"])
        case "record" if schema["fields"]:
            writers = of_fields(schema, named, _writer)
            found = {name: one for name, one in writers.items() if one is not None}
            write = _row(found) if len(found) == len(writers) else None
    return None if write is None else _present(write)


class AvroMessages:
    """Writes rows as messages of a record's schema, by columns."""

    def __init__(self, schema: AvroSchema, row_type: TypeInformation) -> None:
        """`row_type`: the type of the rows that the schema describes."""
        writers = of_fields(schema.parsed, schema.named, _writer) if isinstance(schema.parsed, dict) else {}
        types = dict(zip(part_names(row_type), shape_of(row_type)[1], strict=True))
        self._fields = [(name, types[name], write) for name, write in writers.items() if write is not None]
        #: Why rows cannot be written by columns; None if they can.
        self.why_records = why_one_by_one(writers, "written")

    def encode(self, columns: Columns) -> list[bytes] | None:
        """Return the messages of the rows; None if they must be written one by one, as when a value does not fit the schema."""
        layout = columns.layout
        if not layout.is_row or set(layout.names) != {name for name, _, _ in self._fields}:
            return None
        written = []
        try:
            for name, type_info, write in self._fields:
                position = layout.names.index(name)
                if not _is_alike(layout.types[position], type_info):
                    return None
                written.append(write(columns.column(position)))
        except ValueError:
            return None
        messages: list[bytes] = _joined(written).to_pylist()
        return messages


def _is_alike(have: TypeInformation, wanted: TypeInformation) -> bool:
    """Return whether values of a type can be written as those of another one, whose numbers of bits may differ."""
    (kind, parts), (other, others) = shape_of(have), shape_of(wanted)
    if kind in INTEGER_BITS and other in INTEGER_BITS:
        return True
    own, sought = dict(zip(part_names(have), parts, strict=True)), dict(zip(part_names(wanted), others, strict=True))
    return kind is other and own.keys() == sought.keys() and all(_is_alike(part, sought[name]) for name, part in own.items())

"""The elements of a channel, in order: runs of records or columns, with control elements between them; and their frames.

The sender encodes the elements of a channel as the bodies of frames and cuts large ones into pieces; the receiver decodes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, partial
from itertools import groupby
from typing import Any, NamedTuple

from flinkish.common import pickling
from flinkish.common.columns import Columns, concat
from flinkish.common.types import columns_of, rows_of
from flinkish.runtime.protocol import Barrier, Frame


class Records(NamedTuple):
    """A run of records as parallel lists. `timestamps` is None if no record has one, `keys` is None if the edge is not keyed."""

    values: list[Any]
    timestamps: list[int | None] | None
    keys: list[Any] | None


class PackedRows(NamedTuple):
    """A run of rows of kind INSERT with the same fields; pickling single rows takes over twice the time."""

    fields: tuple[Any, ...] | None
    #: The values of each field; one field at least.
    columns: Sequence[Sequence[Any]]
    timestamps: list[int | None] | None
    keys: list[Any] | None


class Watermark(NamedTuple):
    """States that no more records with a timestamp up to this one (milliseconds) are expected on this channel."""

    timestamp: int


class WatermarkStatus(NamedTuple):
    """States whether the channel is idle, and so ignored for the watermark."""

    idle: bool


class CheckpointBarrier(NamedTuple):
    """Separates the elements that belong to a checkpoint from later ones."""

    barrier: Barrier


class EndOfInput(NamedTuple):
    """The end of the channel's input; only barriers may follow it."""


Element = Records | Columns | Watermark | WatermarkStatus | CheckpointBarrier | EndOfInput

#: Emits a record with its timestamp.
Emit = Callable[[Any, int | None], None]
#: Emits a run of records as columns.
EmitColumns = Callable[[Columns], None]
#: Emits a run of records without timestamps. The values are created lazily, one after the other: each one passes the chain, and
#: is copied if it is mutable, before the next one is created.
EmitRun = Callable[[Iterable[Any]], None]


#: Maximum bytes of one row between slots; a larger frame is sent in several rows, because Spark copies rows several times.
_PIECE_BYTES = 4 << 20
#: First byte of a piece of a body: more pieces follow, or it is the last one; a whole body begins with pickle's 0x80.
_MORE, _LAST = b"\x01", b"\x02"


def encode_body(elements: list[Element | PackedRows]) -> bytes:
    return pickling.dumps(list(map(_packed, elements)))


#: Makes a named tuple of its values, in a fifth of the time that a call of its class takes.
_new: Any = tuple.__new__


def _packed(element: Element | PackedRows) -> Any:
    """Return what is pickled for an element: for watermarks a number, for records a tuple, as these take the least time."""
    if isinstance(element, Watermark):
        return element.timestamp
    if isinstance(element, PackedRows):
        return tuple(element)
    if not isinstance(element, Records):
        return element
    values, timestamps, keys = element
    kind = values[0].__class__
    if _is_named_tuple(kind):
        if {value.__class__ for value in values} == {kind}:
            return kind, list(map(tuple, values)), timestamps, keys
    elif (found := columns_of(values)) is not None:
        return *found, timestamps, keys
    return values, timestamps, keys


@lru_cache  # not for ever, as classes of a session's jobs come and go
def _is_named_tuple(kind: type) -> bool:
    """Tell whether a class is as collections.namedtuple makes it, so that its instances are their values and nothing else."""
    own = vars(kind)
    plain = kind.__bases__ == (tuple,) and own.get("__slots__") == () and not own.keys() & {"__reduce__", "__reduce_ex__"}
    return plain and "_make" in own


def _unpacked(packed: Any) -> Any:
    """Return the element of what `_packed` has returned."""
    if packed.__class__ is int:
        return _new(Watermark, (packed,))
    if packed.__class__ is not tuple:
        return packed
    if len(packed) == 4:
        fields, values, timestamps, keys = packed
        records = list(map(partial(_new, fields), values)) if isinstance(fields, type) else rows_of(fields, values)
        packed = records, timestamps, keys
    return _new(Records, packed)


def unpacked(columns: Columns) -> Records:
    """Return the records of columns, with their timestamps and keys."""
    return Records(columns.records(), columns.times(), columns.keys())


def joined(elements: Sequence[Element | PackedRows]) -> list[Element | PackedRows]:
    """Return the elements with columns that follow each other as one run."""
    found: list[Element | PackedRows] = []
    for combined, group in groupby(elements, lambda element: element.combined if isinstance(element, Columns) else None):
        run: list[Any] = list(group)
        found += run if combined is None else [concat(run)]
    return found


def cut_body(body: bytes) -> list[bytes]:
    """Cut a body that is too large for one row; each piece begins with a byte that says whether more follow."""
    if len(body) <= _PIECE_BYTES:
        return [body]
    view, starts = memoryview(body), range(0, len(body), _PIECE_BYTES)
    return [b"".join((_LAST if start == starts[-1] else _MORE, view[start : start + _PIECE_BYTES])) for start in starts]


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
    return list(map(_unpacked, pickling.loads(body)))


def decode(frames: Sequence[Frame]) -> list[Element]:
    """Return the elements of one channel's frames, which may be in any order."""
    return [element for body in in_order(frames) for element in decode_body(body)]

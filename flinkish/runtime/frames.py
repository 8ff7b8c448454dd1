"""The bodies of frames: the sender encodes the elements of a channel and cuts them into pieces; the receiver decodes them."""

from __future__ import annotations

from collections.abc import Sequence

from flinkish.common import pickling
from flinkish.runtime.elements import Element, PackedRows, Records, pack, unpack
from flinkish.runtime.protocol import Frame

#: Maximum bytes of one row between slots; a larger frame is sent in several rows, because Spark copies rows several times.
_PIECE_BYTES = 4 << 20
#: First byte of a piece of a body: more pieces follow, or it is the last one; a whole body begins with pickle's 0x80.
_MORE, _LAST = b"\x01", b"\x02"


def encode_body(elements: list[Element | PackedRows]) -> bytes:
    """Return the body of a frame with the given elements."""
    return pickling.dumps([pack(element) if element.__class__ is Records else element for element in elements])


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
    elements: list[Element | PackedRows] = pickling.loads(body)
    return [unpack(element) if isinstance(element, PackedRows) else element for element in elements]


def decode(frames: Sequence[Frame]) -> list[Element]:
    """Return the elements of one channel's frames, which may be in any order."""
    return [element for body in in_order(frames) for element in decode_body(body)]

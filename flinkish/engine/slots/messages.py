"""The messages on the socket between a shim and a slot host; they are sent with as few copies as possible.

A call is `Call` -> `Reply`. Each is sent as a small pickled header, followed by its parts as raw bytes (`send_bytes`).
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from flinkish.common import pickling
from flinkish.runtime.protocol import Frame

#: Maximum bytes of bodies in one part of a reply: Arrow binary columns have 32-bit offsets, and one batch is in memory at a time.
_PART_BYTES = 32 << 20
#: Bytes of one value of an int column.
WIDTH = 4
_INT_COLUMNS = 5


class PackedFrames(NamedTuple):
    """Frames as the buffers of Arrow columns.

    `columns` has slot, level, edge, channel and seq one after the other, with 32 bits per value; `offsets` has rows + 1 values.
    """

    rows: int
    columns: bytes
    offsets: bytes
    data: bytes

    def column(self, index: int) -> memoryview:
        """Return the buffer of an int column: 0 slot, 1 level, 2 edge, 3 channel, 4 seq."""
        size = self.rows * WIDTH
        return memoryview(self.columns)[index * size : (index + 1) * size]

    def ints(self, index: int) -> array[int]:
        """Return an int column as numbers."""
        values = array("i")
        values.frombytes(self.column(index))
        return values

    def bodies(self) -> list[bytes]:
        """Return the body of each frame."""
        offsets = array("i")
        offsets.frombytes(self.offsets)
        data = self.data
        return [data[start:end] for start, end in itertools.pairwise(offsets)]

    def select(self, chosen: Sequence[bool]) -> PackedFrames:
        """Return the chosen ones of the frames."""
        if all(chosen):
            return self
        columns = [list(itertools.compress(self.ints(index), chosen)) for index in range(_INT_COLUMNS)]
        return pack_columns(columns, list(itertools.compress(self.bodies(), chosen)))

    def frames(self, slot: int) -> list[Frame]:
        """Return the frames, all of them for one slot, given by its index."""
        levels, edges, channels, seqs = (self.ints(index) for index in range(1, _INT_COLUMNS))
        return [Frame(slot, *row) for row in zip(levels, edges, channels, seqs, self.bodies(), strict=True)]


def pack_columns(columns: Sequence[Sequence[int]], bodies: Sequence[bytes]) -> PackedFrames:
    """Pack five int columns and the bodies."""
    offsets = array("i", [0])
    end = 0
    for body in bodies:
        end += len(body)
        offsets.append(end)
    ints = b"".join([array("i", column).tobytes() for column in columns])
    return PackedFrames(len(bodies), ints, offsets.tobytes(), b"".join(bodies))


def pack(frames: Sequence[Frame], slot_values: Sequence[int], part_bytes: int = _PART_BYTES) -> Iterator[PackedFrames]:
    """Pack frames in parts of at most `part_bytes`, or of one frame; each slot index is replaced by the int of the slot."""
    for part in _parts(frames, part_bytes):
        slots, levels, edges, channels, seqs, bodies = zip(*part, strict=True)
        yield pack_columns(([slot_values[slot] for slot in slots], levels, edges, channels, seqs), bodies)


def _parts(frames: Sequence[Frame], part_bytes: int) -> Iterator[Sequence[Frame]]:
    start = size = 0
    for index, frame in enumerate(frames):
        if size and size + len(frame.body) > part_bytes:
            yield frames[start:index]
            start, size = index, 0
        size += len(frame.body)
    if start < len(frames):
        yield frames[start:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request to run a level of an epoch. The command is pickled bytes, or a file if it is large."""

    level: int
    command: bytes
    command_file: str | None = None
    state: bytes | None = None
    frames: Sequence[PackedFrames] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """The result of a call; `error` is the traceback of a defect in flinkish itself (errors of user code are in the report)."""

    state: bytes = b""
    report: bytes = b""
    frames: Sequence[PackedFrames] = ()
    error: str | None = None


def send_call(connection: Connection, call: Call) -> None:
    """Send a call; the other end uses `receive_call`."""
    header = (call.level, call.command_file, call.state is not None)
    _send(connection, header, (call.command, call.state or b""), call.frames)


def receive_call(connection: Connection) -> Call:
    """Receive a call; raises EOFError if the shim has ended."""
    (level, command_file, has_state), command, state, frames = _receive(connection)
    return Call(level=level, command=command, command_file=command_file, state=state if has_state else None, frames=frames)


def send_reply(connection: Connection, reply: Reply) -> None:
    """Send a reply; the other end uses `receive_reply`."""
    _send(connection, reply.error, (reply.state, reply.report), reply.frames)


def receive_reply(connection: Connection) -> Reply:
    """Receive a reply; raises EOFError or OSError if the slot host has ended."""
    error, state, report, frames = _receive(connection)
    return Reply(state=state, report=report, frames=frames, error=error)


def _send(connection: Connection, header: object, parts: tuple[bytes, bytes], frames: Sequence[PackedFrames]) -> None:
    connection.send_bytes(pickling.dumps((header, [packed.rows for packed in frames])))
    for part in parts:
        connection.send_bytes(part)
    for packed in frames:
        for buffer in packed[1:]:
            connection.send_bytes(buffer)


def _receive(connection: Connection) -> tuple[Any, bytes, bytes, list[PackedFrames]]:
    receive = connection.recv_bytes
    header, counts = pickling.loads(receive())
    return header, receive(), receive(), [PackedFrames(count, receive(), receive(), receive()) for count in counts]


def busy_file(program_file: str, slot: int | str) -> Path:
    """Return the file in which a host says which operator its call is in; it is empty if a call is short, or there is none."""
    return Path(program_file).with_name(f"busy-{slot}")

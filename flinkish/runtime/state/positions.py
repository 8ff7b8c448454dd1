"""The bytes that the engine keeps for one level of a slot: who owns them, at which position they stand, what the backend added.

On Spark they are the GroupState; at level 0 they travel with the commands. Layout: magic, length of the header, header
(MessagePack), then the backend's part.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import msgspec

from flinkish.common.errors import EngineError

_MAGIC = b"FKL4"
_LENGTH = struct.Struct("<I")

#: The end of an epoch: its number and a nonce, which makes each try of an epoch unique.
Position = tuple[int, str]


class Identity(msgspec.Struct, frozen=True, array_like=True, kw_only=True):
    """The owner of state: attempt, slot and level."""

    attempt_id: str
    slot: int
    level: int

    def __str__(self) -> str:
        return f"attempt {self.attempt_id}, slot {self.slot}, level {self.level}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a backend may keep files between the epochs of an attempt."""

    owner: Identity
    #: All executors can access it. It need not exist; names of files must be unique among all slots and levels.
    folder: Path
    #: A folder on disk, below which a backend may keep state that is larger than memory; None if the job has none.
    disk: Path | None = None
    #: Whether the process has nothing but this slot, so that a backend may fork it.
    own_process: bool = False


class _Header(msgspec.Struct, frozen=True, array_like=True):
    owner: Identity
    position: Position


_encode_header = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(_Header).decode


def pack(owner: Identity, position: Position, kept: bytes) -> bytes:
    """Return the bytes of a level at a position; `kept` is the backend's part."""
    header = _encode_header(_Header(owner, position))
    return b"".join((_MAGIC, _LENGTH.pack(len(header)), header, kept))


def unpack(blob: bytes, owner: Identity) -> tuple[Position, bytes]:
    """Return the position and the backend's part; raises EngineError if the bytes belong to another attempt, slot or level."""
    header, end = _parse(blob, owner)
    if header.owner != owner:
        raise EngineError(f"expected the state of {owner}; got that of {header.owner}")
    return header.position, blob[end:]


def position_of(blob: bytes, owner: Identity) -> Position | None:
    """Return the position of some bytes; None if they belong to another attempt, slot or level."""
    header, _ = _parse(blob, owner)
    return header.position if header.owner == owner else None


def _parse(blob: bytes, owner: Identity) -> tuple[_Header, int]:
    """Return the header and where the backend's part begins."""
    try:
        if blob[:4] != _MAGIC:
            raise ValueError("it does not begin with the magic bytes")
        end = 8 + _LENGTH.unpack_from(blob, 4)[0]
        header = _decode_header(blob[8:end])
    except (ValueError, struct.error) as error:
        raise EngineError(f"the state of slot {owner.slot}, level {owner.level} is not a change log: {error}") from error
    return header, end

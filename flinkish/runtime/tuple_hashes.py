"""CRC-32 of the canonical encodings of many keys that are tuples, computed by numpy instead of one by one.

CRC-32 is linear. The CRC of two joined strings is the CRC of the first, shifted by the length of the second, XOR the CRC of the
second. In the same way, three digits of a number change its CRC by a value that depends only on them and on their place; these
values are in tables.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_length = struct.Struct("<I").pack
#: Number of digits that are looked up together.
_DIGITS = 3
_CHUNKS = 10**_DIGITS
#: The longest integer has a sign and 19 digits.
_LONGEST = 20
#: Bytes before the text or the digits of an item: its length with its head, its tag, its length.
_HEAD = 9
_POWERS = np.array([10**digits for digits in range(1, _LONGEST)], np.uint64)


def crcs_of_tuples(columns: Sequence[pa.Array]) -> Any:
    """Return the CRC-32 of `canonical` of each tuple, as a numpy array; this takes 0.02 us for each integer, 0.1 us for a text.

    `columns` are the items: integers, texts or booleans without nulls.
    """
    crcs = np.full(len(columns[0]), crc32(b"("), np.uint32)
    for column in columns:
        if pa.types.is_string(column.type):
            crcs = np.fromiter(map(crc32, _encoded_texts(column), crcs.tolist()), np.uint32, len(crcs))
        else:
            crcs = _followed_by_integers(crcs, column.cast(pa.int64()).to_numpy())
    return crcs


def _encoded_texts(column: pa.Array) -> list[bytes]:
    texts = column.cast(pa.binary())
    heads = np.empty(len(texts), [("outer", "<u4"), ("tag", "S1"), ("inner", "<u4")])
    heads["tag"], heads["inner"] = b"s", pc.binary_length(texts)
    heads["outer"] = heads["inner"] + _HEAD - 4
    head = pa.FixedSizeBinaryArray.from_buffers(pa.binary(_HEAD), len(texts), [None, pa.py_buffer(heads)])
    encoded: list[bytes] = pc.binary_join_element_wise(head.cast(pa.binary()), texts, pa.scalar(b"")).to_pylist()
    return encoded


def _followed_by_integers(crcs: Any, numbers: Any) -> Any:
    """Return the CRCs of strings with these CRCs, each followed by an encoded integer."""
    negative = numbers < 0
    rest = np.abs(numbers).view(np.uint64)  # the absolute value of the least integer is one only without a sign
    digits = np.searchsorted(_POWERS, rest, side="right") + 1
    lengths = digits + negative
    found = _heads()[lengths]
    if negative.any():
        found ^= np.where(negative, _signs()[digits], np.uint32(0))
    place, ended = 0, np.zeros(len(numbers), bool)
    while not ended.all():
        rest, chunks = np.divmod(rest, np.uint64(_CHUNKS))
        last = rest == 0
        # In the table, chunks with digits before them come first, then those without, then nothing.
        rows = chunks.astype(np.int64) + np.where(last, _CHUNKS, 0)
        found ^= _digits(place)[np.where(ended, 2 * _CHUNKS, rows)]
        ended |= last
        place += 1
    shifts, shifted = _shifts(), lengths * (4 << 8)
    for byte in range(4):
        found ^= shifts[shifted + (byte << 8) + (crcs >> np.uint32(8 * byte) & np.uint32(255))]
    return found


def _part(text: bytes, behind: int) -> int:
    """Return by what the CRC of a string changes if its zeros are replaced by this text, with `behind` more bytes at the end."""
    return crc32(text + bytes(behind)) ^ crc32(bytes(len(text) + behind))


@functools.cache
def _heads() -> Any:
    """Return the CRC of an encoded integer by its length, with zeros in the place of sign and digits."""
    lengths = range(_LONGEST + 1)
    return np.array([crc32(_length(size + _HEAD - 4) + b"i" + _length(size) + bytes(size)) for size in lengths], np.uint32)


@functools.cache
def _signs() -> Any:
    return np.array([_part(b"-", digits) for digits in range(_LONGEST + 1)], np.uint32)


@functools.cache
def _digits(place: int) -> Any:
    behind = place * _DIGITS
    inner = [_part(b"%0*d" % (_DIGITS, chunk), behind) for chunk in range(_CHUNKS)]
    first = [_part(b"%d" % chunk, behind) for chunk in range(_CHUNKS)]
    return np.array([*inner, *first, 0], np.uint32)


@functools.cache
def _shifts() -> Any:
    """Return CRCs shifted by the encoding of an integer, by its length, and by the place and value of a byte of the CRC."""
    zeros = [bytes(size + _HEAD) for size in range(_LONGEST + 1)]
    parts = [value << place for place in (0, 8, 16, 24) for value in range(256)]
    return np.array([crc32(behind, part) ^ crc32(behind) for behind in zeros for part in parts], np.uint32)

"""Deletion vectors: the numbers of the rows of a file that are deleted from the table.

Source: Delta's protocol specification, "Deletion Vector Format", and the portable format of 32-bit Roaring bitmaps.
"""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from flinkish.common.errors import SourceError
from flinkish.datastream.connectors.delta.files import TableFiles

Rows = np.ndarray[Any, np.dtype[np.int64]]

_MAGIC: Final = 1681511377
_COOKIE: Final = 12346
_COOKIE_WITH_RUNS: Final = 12347
#: A bitmap with runs has offsets if it has at least this number of containers.
_OFFSETS_FROM: Final = 4
#: A container with more values is a bitmap.
_ARRAY_LIMIT: Final = 4096
#: The digits of base 85 in ZeroMQ's notation, and in Python's.
_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_PYTHON_DIGITS: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_PYTHON: Final = dict.fromkeys(map(ord, _PYTHON_DIGITS), "\0") | str.maketrans(_DIGITS, _PYTHON_DIGITS)
#: Length of a UUID in base 85.
_UUID: Final = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionVector:
    """The location of a list of deleted rows."""

    #: u: in a file named by a UUID; i: in `value` itself; p: in a file given by its path.
    storage: str
    value: str
    offset: int | None
    #: Bytes.
    size: int
    #: Number of deleted rows.
    cardinality: int

    def rows(self, files: TableFiles) -> Rows:
        """Return the numbers of the deleted rows of the file, from 0, in rising order; raises SourceError."""
        table = files.table
        try:
            data = _base85(self.value)[: self.size] if self.storage == "i" else self._read(files)
            rows = _bitmap_array(data)
        except (struct.error, IndexError, KeyError, ValueError, OverflowError) as error:
            raise SourceError(f"DeltaSource: a deletion vector of {table} is damaged: {error}") from error
        if len(rows) != self.cardinality:
            raise SourceError(
                f"DeltaSource: a deletion vector of {table} is damaged: it has {len(rows)} rows, the log says {self.cardinality}"
            )
        return rows

    def _read(self, files: TableFiles) -> bytes:
        table = files.table
        if self.storage != "u":
            raise SourceError(f"DeltaSource cannot read {table}: a deletion vector is in another folder ({self.value})")
        prefix, name = self.value[:-_UUID], uuid.UUID(bytes=_base85(self.value[-_UUID:]))
        if ".." in prefix or prefix.startswith("/"):
            raise SourceError(f"DeltaSource cannot read {table}: a deletion vector is in the folder {prefix!r}")
        inside = f"{prefix}/deletion_vector_{name}.bin" if prefix else f"deletion_vector_{name}.bin"
        path = files.path(inside)
        try:
            # The length, the vector, and its checksum.
            found = files.read_range(inside, self.offset or 0, self.size + 8)
            (size,) = struct.unpack_from(">I", found)
            if size != self.size:
                raise ValueError(f"it has {size} bytes, the log says {self.size}")
            data = found[4 : 4 + size]
            (checksum,) = struct.unpack(">I", found[4 + size :])
        except FileNotFoundError as error:
            raise SourceError(
                f"DeltaSource: {path}, the list of deleted rows of {table}, no longer exists",
                hint="was VACUUM run with a retention shorter than the job's delay? Start from the table as it is now.",
            ) from error
        except OSError as error:
            raise SourceError(f"DeltaSource cannot read {path}: {error.strerror or error}") from error
        if zlib.crc32(data) != checksum:
            raise ValueError(f"the checksum of {path} is wrong")
        return data


def _base85(text: str) -> bytes:
    """Decode ZeroMQ's base 85.

    >>> _base85("HelloWorld").hex()
    '864fd26fb559f75b'
    """
    return base64.b85decode(text.translate(_TO_PYTHON))


def _bitmap_array(data: bytes) -> Rows:
    magic, count = struct.unpack_from("<IQ", data)
    if magic != _MAGIC:
        raise ValueError(f"it begins with {magic}, not {_MAGIC}")
    position, found = 12, [np.empty(0, np.int64)]
    for _ in range(count):
        (high,) = struct.unpack_from("<I", data, position)
        values, position = _bitmap(data, position + 4)
        found.append(values + (high << 32))
    return np.concatenate(found)


def _bitmap(data: bytes, position: int) -> tuple[Rows, int]:
    """Return the values of a 32-bit Roaring bitmap and where it ends."""
    (cookie,) = struct.unpack_from("<I", data, position)
    position += 4
    runs = np.zeros(0, bool)
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        count = (cookie >> 16) + 1
        length = (count + 7) // 8
        runs = np.unpackbits(np.frombuffer(data, np.uint8, length, position), bitorder="little").astype(bool)
        position += length
    elif cookie == _COOKIE:
        (count,) = struct.unpack_from("<I", data, position)
        position += 4
    else:
        raise ValueError(f"{cookie} begins no bitmap")
    headers = np.frombuffer(data, "<u2", 2 * count, position).astype(np.int64).reshape(count, 2)
    position += 4 * count
    if not len(runs) or count >= _OFFSETS_FROM:
        position += 4 * count
    found = [np.empty(0, np.int64)]
    for index in range(count):
        size = int(headers[index, 1]) + 1
        values: Rows
        if len(runs) and runs[index]:
            (number,) = struct.unpack_from("<H", data, position)
            pairs = np.frombuffer(data, "<u2", 2 * number, position + 2).astype(np.int64).reshape(number, 2)
            values = np.concatenate([np.arange(start, start + more + 1, dtype=np.int64) for start, more in pairs])
            position += 2 + 4 * number
        elif size > _ARRAY_LIMIT:
            bits = np.unpackbits(np.frombuffer(data, np.uint8, 8192, position), bitorder="little")
            values = np.flatnonzero(bits).astype(np.int64)
            position += 8192
        else:
            values = np.frombuffer(data, "<u2", size, position).astype(np.int64)
            position += 2 * size
        found.append(values + (int(headers[index, 0]) << 16))
    return np.concatenate(found), position

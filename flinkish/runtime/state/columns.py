"""Converts batches of values to Arrow columns of encodings and back. Imported only for checkpoints, as it needs Arrow.

The encodings are those of codec.py. Numbers and text are encoded and split for a whole batch at once: MessagePack of a list is a
header followed by the encodings of its elements, so only their lengths have to be found (1 M longs: 60 ms instead of 200 ms).
"""

from __future__ import annotations

import contextlib
import struct
from array import array
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from flinkish.common.errors import CorruptCheckpointError
from flinkish.runtime.key_groups import key_group, key_groups
from flinkish.runtime.state.codec import Codec, decode_plain_list, encoded_to_json

_encode = msgspec.msgpack.Encoder().encode
_decode_list = msgspec.msgpack.Decoder(list[Any]).decode
_decode_raw = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode

#: Values with longer encodings have no readable form in a checkpoint, because it would double the size without any use.
JSON_LIMIT = 4_096


def _list_header(count: int) -> bytes:
    if count < 16:
        return bytes([0x90 | count])
    return struct.pack(">BH", 0xDC, count) if count < 1 << 16 else struct.pack(">BI", 0xDD, count)


def join_list(encodings: Sequence[bytes]) -> bytes:
    """Return the encoding of a list from those of its elements."""
    return _list_header(len(encodings)) + b"".join(encodings)


def split_list(data: bytes) -> list[bytes]:
    """Return the encodings of the elements of a list; raises CorruptCheckpointError if it is none."""
    try:
        return list(map(bytes, _decode_raw(data)))
    except msgspec.MsgspecError as error:
        raise CorruptCheckpointError(f"a list of a state file cannot be read: {error}") from error


def split_lists(column: pa.ChunkedArray, decode: Callable[[pa.ChunkedArray], list[Any]]) -> list[list[Any]]:
    """Return the lists of a column of encodings; `decode` returns the elements of such a column."""
    lists = list(map(split_list, column.to_pylist()))
    elements = iter(decode(pa.chunked_array([binary_column(list(chain.from_iterable(lists)))])))
    return [list(islice(elements, len(encodings))) for encodings in lists]


def binary_column(encodings: Sequence[bytes | None]) -> pa.Array:
    """Return a column of bytes."""
    return pa.array(encodings, pa.large_binary())


def _sliced(values: Sequence[Any], sizes: npt.NDArray[np.int64]) -> pa.Array | None:
    """Encode all values at once and cut at the sizes; None if these are not the sizes."""
    data = _encode(values)
    start = len(_list_header(len(values)))
    if start + int(sizes.sum()) != len(data):
        return None
    offsets = np.empty(len(values) + 1, dtype=np.int64)
    offsets[0] = start
    np.cumsum(sizes, out=offsets[1:])
    offsets[1:] += start
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(values), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


_LONG_BOUNDS = np.array([-(2**31), -(2**15), -(2**7), -(2**5), 2**7, 2**8, 2**16, 2**32], dtype=np.int64)
_LONG_SIZES = np.array([9, 5, 3, 2, 1, 2, 3, 5, 9], dtype=np.int64)
_TEXT_BOUNDS = np.array([2**5, 2**8, 2**16], dtype=np.int64)
_TEXT_SIZES = np.array([1, 2, 3, 5], dtype=np.int64)


def _encode_longs(values: Sequence[Any]) -> pa.Array | None:
    numbers = np.frombuffer(array("q", values), dtype=np.int64)
    return _sliced(values, _LONG_SIZES[np.searchsorted(_LONG_BOUNDS, numbers, side="right")])


def _encode_texts(values: Sequence[Any]) -> pa.Array | None:
    texts = pa.array(values, pa.large_string())
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int64, count=len(values) + 1)
    lengths = offsets[1:] - offsets[:-1]
    return _sliced(values, lengths + _TEXT_SIZES[np.searchsorted(_TEXT_BOUNDS, lengths, side="right")])


def _encode_doubles(values: Sequence[Any]) -> pa.Array | None:
    return _sliced(values, np.full(len(values), 9, dtype=np.int64))


_BATCH_ENCODERS: dict[str, Callable[[Sequence[Any]], pa.Array | None]] = {
    "long": _encode_longs,
    "string": _encode_texts,
    "double": _encode_doubles,
}


def _batch_of(codec: Codec, values: Sequence[Any]) -> str:
    """Return the kind of batch as which values can be encoded: by their type or, if untyped, by their class."""
    if codec.batch is not None or not codec.untyped:
        return codec.batch or ""
    kinds = set(map(type, values))
    return _BATCH_OF_CLASS.get(kinds.pop(), "") if len(kinds) == 1 else ""


_BATCH_OF_CLASS: dict[type, str] = {int: "long", str: "string", float: "double"}


def encode_all(codec: Codec, values: Sequence[Any], *, frozen: bool) -> pa.Array:
    """Return a column with the encodings of values, which are frozen or not."""
    encoder = _BATCH_ENCODERS.get(_batch_of(codec, values))
    if encoder is not None and values:
        try:
            column = encoder(values)
        except (TypeError, ValueError, OverflowError, pa.ArrowException):
            column = None  # values of another type than declared, such as a boolean key for a long, are encoded one by one
        if column is not None:
            return column
    return binary_column(list(map(codec.encode_frozen if frozen else codec.encode, values)))


def _offsets(column: pa.Array) -> Any:
    """Return where the values of a binary column begin and end in its buffer."""
    wide = pa.types.is_large_binary(column.type)
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int64 if wide else np.int32)
    return offsets[column.offset : column.offset + len(column) + 1]


def _contents(column: pa.Array) -> bytes:
    """Return the concatenated bytes of all values of a binary column."""
    if len(column) == 0:
        return b""
    offsets = _offsets(column)
    data: bytes = column.buffers()[2][int(offsets[0]) : int(offsets[-1])].to_pybytes()
    return data


def decode_all(codec: Codec, column: pa.ChunkedArray) -> list[Any]:
    """Return the values of a column of encodings.

    Raises CorruptCheckpointError if they do not decode.
    """
    if column.null_count:
        raise CorruptCheckpointError(f"{column.null_count} encodings of type {codec.type_info!r} are missing in a state file")
    try:
        if codec.ttl:
            return list(map(codec.decode, column.to_pylist()))
        values: list[Any] = []
        for chunk in column.chunks:
            values += _decode_chunk(codec, chunk)
        return values
    except CorruptCheckpointError:
        raise
    except Exception as error:
        raise CorruptCheckpointError(
            f"a state file has values that are not of type {codec.type_info!r}: {type(error).__name__}: {error}"
        ) from error


def _decode_chunk(codec: Codec, chunk: pa.Array) -> list[Any]:
    """Decode all values at once, as a list."""
    data = _list_header(len(chunk)) + _contents(chunk)
    if codec.untyped:
        try:
            plain = decode_plain_list(data)
        except CorruptCheckpointError:  # at least one is pickled
            return list(map(codec.decode, chunk.to_pylist()))
    else:
        plain = _decode_list(data)
    if len(plain) != len(chunk):
        raise ValueError(f"{len(plain)} values where {len(chunk)} were expected")
    return plain if codec.from_plain is None else list(map(codec.from_plain, plain))


def freeze_all(codec: Codec, column: pa.ChunkedArray) -> list[Any]:
    """Return the frozen forms of a column of encodings, decoding only values whose frozen form is not the encoding."""
    if codec.immutable:
        return decode_all(codec, column)
    if codec.untyped and all(_only_scalars(chunk) for chunk in column.chunks):
        return decode_all(codec, column)
    encodings: list[bytes] = column.to_pylist()
    if not codec.untyped:
        return encodings
    return [codec.decode(data) if _SCALAR_BYTES[data[0]] else data for data in encodings]


#: Whether an encoding that begins so is None, a boolean, a number or text.
_SCALAR_BYTES = np.zeros(256, dtype=bool)
for _first, _last in ((0x00, 0x7F), (0xA0, 0xC3), (0xCA, 0xD3), (0xD9, 0xDB), (0xE0, 0xFF)):
    _SCALAR_BYTES[_first : _last + 1] = True


def _only_scalars(chunk: pa.Array) -> bool:
    if len(chunk) == 0:
        return True
    starts = _offsets(chunk)[:-1]
    return bool(_SCALAR_BYTES[np.frombuffer(_contents(chunk), dtype=np.uint8)[starts - starts[0]]].all())


def json_column(codec: Codec, frozen: Sequence[Any], encoded: pa.Array) -> pa.Array:
    """Return the readable forms of values, null where there is none."""
    quick = _JSON_COLUMNS.get(_batch_of(codec, frozen))
    if quick is not None and frozen:
        try:
            column = quick(frozen)
        except (pa.ArrowException, OverflowError, TypeError, UnicodeError):
            column = None
        if column is not None:
            return column
    return pa.array([json_of(codec, data) for data in encoded.to_pylist()], pa.large_string())


def _longs_as_json(values: Sequence[Any]) -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.large_string())


def _texts_as_json(values: Sequence[Any]) -> pa.Array | None:
    """None if there are characters that JSON escapes, or long texts."""
    texts = pa.array(values, pa.large_string())
    if pc.max(pc.binary_length(texts)).as_py() > JSON_LIMIT - 5 or pc.any(pc.match_substring_regex(texts, _ESCAPED)).as_py():
        return None
    quote = pa.scalar('"', pa.large_string())
    return pc.binary_join_element_wise(quote, texts, quote, pa.scalar("", pa.large_string()))


#: Characters that JSON escapes in texts, as a regular expression.
_ESCAPED = r'["\\\x00-\x1f]'
_JSON_COLUMNS: dict[str, Callable[[Sequence[Any]], pa.Array | None]] = {"long": _longs_as_json, "string": _texts_as_json}


def json_of(codec: Codec, encoding: bytes) -> str | None:
    """Return the readable form of an encoding, None if it is long or has none."""
    return encoded_to_json(codec, encoding) if len(encoding) <= JSON_LIMIT else None


def key_groups_of(keys: Sequence[Any], max_parallelism: int) -> pa.Array:
    """Return the key group of each key."""
    if keys and keys[0].__class__ is int:
        with contextlib.suppress(TypeError, OverflowError):
            groups = key_groups(np.frombuffer(array("q", keys), dtype=np.int64), max_parallelism)
            return pa.array(groups.astype(np.int32))
    return pa.array([key_group(key, max_parallelism) for key in keys], pa.int32())


def in_range(column: pa.ChunkedArray, groups: range) -> pa.ChunkedArray:
    """Return a mask of the key groups that are in a range."""
    return pc.and_(pc.greater_equal(column, groups.start), pc.less(column, groups.stop))

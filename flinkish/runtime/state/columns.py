"""Converts batches of values to Arrow columns of encodings and back. Imported only for checkpoints, as it needs Arrow.

The encodings are those of codec.py. Numbers, texts and tuples of these are encoded and split for a whole batch at once:
MessagePack of a list is a header followed by the encodings of its elements, so only their lengths have to be found (1 M longs:
60 ms instead of 200 ms). Readable forms are made as lines of JSON, many at once, in a tenth to a quarter of the time.
"""

from __future__ import annotations

import contextlib
import functools
import math
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

from flinkish.common.columns import slices_of
from flinkish.common.errors import CorruptCheckpointError
from flinkish.runtime.key_groups import key_group, key_groups
from flinkish.runtime.state.codec import Codec, decode_plain_list, encode_json_lines, encoded_to_json
from flinkish.runtime.tuple_hashes import crcs_of_tuples

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


def _long_sizes(values: Sequence[Any]) -> npt.NDArray[np.int64]:
    numbers = np.frombuffer(array("q", values), dtype=np.int64)
    return _LONG_SIZES[np.searchsorted(_LONG_BOUNDS, numbers, side="right")]


def _text_sizes(values: Sequence[Any]) -> npt.NDArray[np.int64]:
    lengths: npt.NDArray[np.int64] = pc.binary_length(pa.array(values, pa.large_string())).to_numpy()
    return lengths + _TEXT_SIZES[np.searchsorted(_TEXT_BOUNDS, lengths, side="right")]


_SIZES: dict[type, Callable[[Sequence[Any]], npt.NDArray[np.int64]]] = {
    int: _long_sizes,
    str: _text_sizes,
    float: lambda values: np.full(len(values), 9, dtype=np.int64),
    bool: lambda values: np.ones(len(values), dtype=np.int64),
}


def _sizes(values: Sequence[Any]) -> npt.NDArray[np.int64] | None:
    """Return the number of bytes of each encoding of values that are all of one class; None if they have to be encoded for it."""
    kinds = set(map(type, values))
    kind = kinds.pop()
    if kinds:
        return None
    if kind is not tuple:
        return _SIZES[kind](values) if kind in _SIZES else None
    total = np.full(len(values), len(_list_header(len(values[0]))))
    for items in apart(values):
        sizes = _sizes(items)
        if sizes is None:
            return None
        total += sizes
    return total


def apart(tuples: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    """Return the items of tuples, at least one, by their position; raise ValueError if some have more of them than others.

    For many tuples, zip(*tuples) takes several times as long, as it makes an iterator for each.
    """
    if len(set(map(len, tuples))) > 1:
        raise ValueError("tuples of different lengths")
    return [[each[position] for each in tuples] for position in range(len(tuples[0]))]


def encode_all(codec: Codec, values: Sequence[Any], *, frozen: bool) -> pa.Array:
    """Return a column with the encodings of values, which are frozen or not."""
    if values and (codec.plain or (codec.untyped and values[0].__class__ in _SIZES)):
        with contextlib.suppress(ValueError, OverflowError, UnicodeError, pa.ArrowException):
            sizes = _sizes(values)
            column = None if sizes is None else _sliced(values, sizes)
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


#: Number of values whose objects exist at the same time: more would leave the cache.
_TOGETHER = 2_048


def json_column(codec: Codec, encoded: pa.Array) -> pa.Array:
    """Return the readable forms of encoded values, null where there is none."""
    decode = _shown_by(codec)
    if decode is not None and len(encoded) and pc.max(pc.binary_length(encoded)).as_py() <= JSON_LIMIT:
        # If a value has no JSON, all are made one by one below.
        with contextlib.suppress(
            TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError, CorruptCheckpointError
        ):
            parts = [encoded.slice(start, _TOGETHER) for start in range(0, len(encoded), _TOGETHER)]
            return _lines([encode_json_lines(_finite(decode(_list_header(len(part)) + _contents(part)))) for part in parts])
    return pa.array([json_of(codec, data) for data in encoded.to_pylist()], pa.large_string())


def _lines(texts: Sequence[bytes]) -> pa.Array:
    text = b"".join(texts)
    ends = np.flatnonzero(np.frombuffer(text, dtype=np.uint8) == ord("\n"))
    return slices_of(text, np.concatenate([[0], ends[:-1] + 1]), ends).cast(pa.large_string())


def _shown_by(codec: Codec) -> Callable[[bytes], list[Any]] | None:
    """Return the function that decodes the encoding of a list of values to what JSON shows of them; None if there is none."""
    if codec.untyped:
        return decode_plain_list
    if codec.shown or codec.pickles:
        return _decode_list
    if codec.shown_fields is None:
        return None
    decode, make = _row_decoder(codec.shown_fields)
    return lambda data: [make(*msgspec.structs.astuple(row)[1:]) for row in decode(data)]


def _finite(values: list[Any]) -> list[Any]:
    """Return the values; raise ValueError if one is NaN or infinite, whose names are shown."""
    if float in set(map(type, values)) and any(value.__class__ is float and not math.isfinite(value) for value in values):
        raise ValueError("not finite")
    return values


@functools.lru_cache(maxsize=256)
def _row_decoder(names: tuple[str, ...]) -> tuple[Callable[[bytes], list[Any]], Callable[..., Any]]:
    """Return the functions that decode a list of rows, which begin with their kind, and that make an object of a row's fields."""
    fields = [(f"f{position}", Any) for position in range(len(names))]
    row: Any = msgspec.defstruct("Row", [("kind", int), *fields], array_like=True, forbid_unknown_fields=True, gc=False)
    shown = msgspec.defstruct("Object", fields, rename={f"f{position}": name for position, name in enumerate(names)}, gc=False)
    return msgspec.msgpack.Decoder(list[row]).decode, shown


def json_of(codec: Codec, encoding: bytes) -> str | None:
    """Return the readable form of an encoding, None if it is long or has none."""
    return encoded_to_json(codec, encoding) if len(encoding) <= JSON_LIMIT else None


def key_groups_of(keys: Sequence[Any], max_parallelism: int) -> pa.Array:
    """Return the key group of each key."""
    kinds = set(map(type, keys))
    groups: Any = None
    with contextlib.suppress(ValueError, OverflowError, UnicodeError, pa.ArrowException):
        if kinds == {int}:
            groups = key_groups(np.frombuffer(array("q", keys), dtype=np.int64), max_parallelism)
        elif kinds == {tuple}:
            items = apart(keys)
            if items and all(set(map(type, each)) in _HASHED_BY_COLUMN for each in items):
                groups = crcs_of_tuples(list(map(pa.array, items))) % max_parallelism
    if groups is None:
        return pa.array([key_group(key, max_parallelism) for key in keys], pa.int32())
    return pa.array(groups.astype(np.int32))


_HASHED_BY_COLUMN = ({int}, {str}, {bool})


def in_range(column: pa.ChunkedArray, groups: range) -> pa.ChunkedArray:
    """Return a mask of the key groups that are in a range."""
    return pc.and_(pc.greater_equal(column, groups.start), pc.less(column, groups.stop))

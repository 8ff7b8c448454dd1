"""The canonical encoding of keys, which defines the keys that are equal and the key group of each.

Keys that are equal in Python (1, 1.0 and True; Decimal("0.5") and 0.5) have the same encoding.
"""

from __future__ import annotations

import copyreg
import dataclasses
import datetime
import decimal
import enum
import functools
import math
import numbers
import pathlib
import struct
import sys
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from flinkish.common.errors import FlinkishError, TypeMismatchError
from flinkish.common.types import Row

#: Classes whose objects are mutable, or may contain NaN.
CONTAINERS: frozenset[type] = frozenset({list, dict, set, frozenset, Row})


def canonical(key: Any) -> bytes:
    """Encode a key so that equal keys have equal bytes, and different keys different bytes, in every process and Python version.

    In addition to keys that are equal in Python, these are equal: NaN and NaN; times at the same moment; objects of classes with
    the same name whose compared fields (dataclasses) or pickled parts are equal. Raises TypeMismatchError for objects of other
    classes, because they may have caches in their attributes.
    """
    try:
        return _canonical(key)
    except FlinkishError:
        raise
    except RecursionError as error:
        raise TypeMismatchError("a key must not contain itself, nor be nested hundreds of times") from error


_length = struct.Struct("<I").pack


def _framed(tag: bytes, *parts: bytes) -> bytes:
    """Join parts so that no two sequences of parts give the same bytes."""
    return tag + b"".join([_length(len(part)) + part for part in parts])


def _canonical(value: Any) -> bytes:
    encode = _ENCODERS.get(value.__class__)
    if encode is not None:
        return encode(value)
    kind = value.__class__
    for base in (str, bytes, tuple):  # includes subclasses, such as named tuples, that are compared like the base
        if isinstance(value, base) and compares_as(kind, base):
            return _ENCODERS[base](value)
    if is_number(value):
        return _canonical_number(value)
    for container in CONTAINERS:
        if isinstance(value, container):
            return _ENCODERS[container](value)
    return _canonical_time(value) or _canonical_object(value)


def _canonical_items(tag: bytes) -> Callable[[Iterable[Any]], bytes]:
    return lambda items: _framed(tag, *map(_canonical, items))


def _canonical_set(value: Iterable[Any]) -> bytes:
    return _framed(b"{", *sorted(map(_canonical, value)))


def _canonical_entry(entry: tuple[Any, Any]) -> bytes:
    key, item = map(_canonical, entry)
    # The encodings of texts and numbers mark their own end; the encoding of a tuple does not.
    return key + item if key[:1] in (b"s", b"i") else _framed(b"=", key, item)


#: Numbers with more bits are not written in decimal digits, because that is slow and limited by Python.
_DECIMAL_BITS = 10_000


def _digits(number: int) -> bytes:
    return b"%d" % number if number.bit_length() <= _DECIMAL_BITS else b"%x" % number


def _canonical_number(number: Any) -> bytes:
    if isinstance(number, numbers.Complex) and not isinstance(number, numbers.Real):
        return _canonical_number(number.real) if number.imag == 0 else _framed(b"#", repr(complex(number)).encode())
    if is_nan(number):
        return b"nan"
    if number in (math.inf, -math.inf):
        return b"+inf" if number > 0 else b"-inf"
    if isinstance(number, decimal.Decimal) and number and abs(number.adjusted()) > _DECIMAL_BITS:
        raise TypeMismatchError(f"{number} is too large, or too near to zero, for a part of a key")
    whole = int(number)
    if whole == number:
        return _framed(b"i", _digits(whole))
    try:
        if float(number) == number:
            return _framed(b"f", struct.pack("<d", number))
    except OverflowError:  # a fraction beyond all floats
        pass
    return _framed(b"q", b"/".join(map(_digits, number.as_integer_ratio())))


def _canonical_row(row: Row) -> bytes:
    kind = row.get_row_kind().value.to_bytes(1, "little")
    names = row._fields
    if names is None:
        return _framed(b"r", kind, *map(_canonical, row))
    # Named rows are compared by name, whatever the order of their fields.
    values = list(map(_canonical, row))
    return _framed(b"R", kind, *[name + values[index] for name, index in _ordered(names) if index < len(values)])


@functools.lru_cache(maxsize=256)
def _ordered(names: tuple[Any, ...]) -> list[tuple[bytes, int]]:
    """Return the sorted encodings of the names of a Row, with their positions."""
    return sorted((_canonical(name), index) for index, name in enumerate(names))


def _canonical_time(value: Any) -> bytes | None:
    if isinstance(value, datetime.datetime):
        if value.tzinfo is not None and value.utcoffset() is not None:  # equal if they are the same point in time
            utc = value if value.tzinfo is datetime.UTC else value.astimezone(datetime.UTC)
            return _framed(b"z", utc.replace(tzinfo=None).isoformat().encode())
        return _framed(b"d", value.replace(tzinfo=None).isoformat().encode())
    if isinstance(value, datetime.date):
        return _framed(b"D", value.isoformat().encode())
    if isinstance(value, datetime.time):
        offset = value.utcoffset()
        minutes = datetime.timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
        return _framed(
            b"t" if offset is None else b"T", str((minutes - (offset or datetime.timedelta())).total_seconds()).encode()
        )
    if isinstance(value, datetime.timedelta):
        nanos = getattr(value, "nanoseconds", 0)  # of pandas
        text = str(value // datetime.timedelta(microseconds=1))
        return _framed(b"p", (f"{text}+{nanos}" if nanos else text).encode())
    if isinstance(value, uuid.UUID):
        return _framed(b"u", value.bytes)
    return None


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    str: lambda value: _framed(b"s", str.__str__(value).encode("utf-8", "surrogatepass")),
    int: lambda value: _framed(b"i", _digits(value)),
    bool: lambda value: _framed(b"i", b"1" if value else b"0"),
    float: _canonical_number,
    type(None): lambda value: b"N",
    bytes: lambda value: _framed(b"b", value),
    tuple: _canonical_items(b"("),
    list: _canonical_items(b"["),
    set: _canonical_set,
    frozenset: _canonical_set,
    dict: lambda value: _framed(b":", *sorted(map(_canonical_entry, value.items()))),
    Row: _canonical_row,
}


def _canonical_object(value: Any) -> bytes:
    kind: Any = type(value)
    name = kind.__qualname__.encode()
    if isinstance(value, enum.Enum):
        # A combination of flags may have no name.
        return _framed(b"E", name, _canonical(value.value) if value.name is None else value.name.encode())
    if isinstance(value, type):
        return _framed(b"c", value.__module__.encode(), value.__qualname__.encode())
    if isinstance(value, pathlib.PurePath):
        windows = isinstance(value, pathlib.PureWindowsPath)  # which ignore case
        return _framed(b"/", b"nt" if windows else b"posix", _canonical(str(value).lower() if windows else str(value)))
    if kind.__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
        return _canonical_numpy(value)
    if kind is bytearray:
        raise TypeMismatchError("a bytearray cannot be a part of a key", hint="make bytes of it.")
    fields = compared_fields(kind)
    if fields is not None:
        return _framed(b"@", name, *(_canonical(getattr(value, field)) for field in fields))
    if kind.__module__.partition(".")[0] == "flinkish":  # an Instant, a window: compared by all attributes
        slots = sorted(slot for base in kind.__mro__ for slot in base.__dict__.get("__slots__", ()))
        return _framed(b"o", name, *(_framed(b"=", slot.encode(), _canonical(getattr(value, slot))) for slot in slots))
    if _pickles_itself(kind):
        return _canonical_parts(value)
    raise TypeMismatchError(
        f"an object of class {kind.__module__}.{kind.__qualname__} cannot be a key, nor part of one: "
        "other processes cannot know when it is equal to another one",
        hint="return what identifies it, such as a text, a number or a tuple of these; or make the class a frozen dataclass, a "
        "NamedTuple or an enum, or give it a __reduce__ or __getstate__ that leaves out what it caches.",
    )


def _pickles_itself(kind: type) -> bool:
    """Tell whether a class defines what is pickled of its objects, instead of pickling all attributes including caches."""
    methods = ("__reduce_ex__", "__reduce__", "__getstate__")
    return kind in copyreg.dispatch_table or not all(inherits(kind, name, object) for name in methods)


def _canonical_parts(value: Any) -> bytes:
    reduce = copyreg.dispatch_table.get(type(value))
    reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
    if isinstance(reduced, str):
        return _framed(b"g", reduced.encode())
    function, arguments, *rest = reduced
    parts = [_canonical(list(part) if index else part) for index, part in enumerate(rest[:3]) if part is not None]
    return _framed(b"O", type(value).__qualname__.encode(), str(function.__qualname__).encode(), _canonical(arguments), *parts)


def compares_as(kind: type, base: type) -> bool:
    """Tell whether objects of a subclass are compared like those of the base, as numpy's texts and bytes are."""
    return (inherits(kind, "__eq__", base) and inherits(kind, "__hash__", base)) or kind.__module__ == "numpy"


def inherits(kind: type, name: str, base: type) -> bool:
    """Tell whether a class inherits a method from the base, or neither has it."""
    return getattr(kind, name, None) is getattr(base, name, None)


def is_number(value: Any) -> bool:
    """Tell whether a value is a number; numpy's durations, which are registered as numbers, are not."""
    return isinstance(value, numbers.Number) and value.__class__.__name__ != "timedelta64"


def is_nan(number: Any) -> bool:
    if isinstance(number, decimal.Decimal):
        return number.is_nan()  # a signaling one cannot be compared
    return bool(number != number)


@functools.lru_cache(maxsize=256)
def compared_fields(kind: Any) -> tuple[str, ...] | None:
    """Return the fields by which a dataclass compares its objects; None for other classes, and for one with its own `__eq__`."""
    owner = next(base for base in kind.__mro__ if "__eq__" in base.__dict__)
    if owner is object:
        if not dataclasses.is_dataclass(kind):
            return None
        # With eq=False, objects are compared by all fields.
        return tuple(field.name for field in dataclasses.fields(kind) if field.compare)
    made = "__dataclass_fields__" in owner.__dict__ and owner.__dict__["__eq__"].__code__.co_filename == "<string>"
    return tuple(field.name for field in dataclasses.fields(owner) if field.compare) if made else None


#: Numpy's units of time in attoseconds.
_ATTOSECONDS = {
    "W": 604_800 * 10**18,
    "D": 86_400 * 10**18,
    "h": 3_600 * 10**18,
    "m": 60 * 10**18,
    "s": 10**18,
    "ms": 10**15,
    "us": 10**12,
    "ns": 10**9,
    "ps": 10**6,
    "fs": 10**3,
    "as": 1,
}


def is_numpy_bool(value: Any) -> bool:
    """Tell whether a value is a numpy boolean, which Python does not consider a number."""
    return type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_")


def _canonical_numpy(value: Any) -> bytes:
    if value.dtype.kind in "mM":
        return _framed(b"[", *map(_canonical_numpy, value)) if value.ndim else _canonical_numpy_time(value)
    plain = value.tolist()
    encoded = _canonical(plain)
    # An array is equal to the list of its values. A value that is not a plain key must not be equal to one.
    return encoded if isinstance(plain, list) or is_numpy_bool(value) else _framed(b"n", encoded)


def _canonical_numpy_time(value: Any) -> bytes:
    numpy = sys.modules["numpy"]
    tag = b"M" if value.dtype.kind == "M" else b"m"
    if numpy.isnat(value):
        return _framed(tag, b"NaT")
    if tag == b"M" and numpy.datetime_data(value.dtype)[0] in "YM":
        value = value.astype("datetime64[D]")
    unit, count = numpy.datetime_data(value.dtype)
    number = int(value.astype("int64")) * count
    if unit in _ATTOSECONDS:
        return _framed(tag, _digits(number * _ATTOSECONDS[unit]))
    return _framed(tag, _digits(12 * number if unit == "Y" else number), b"months" if unit in "YM" else unit.encode())

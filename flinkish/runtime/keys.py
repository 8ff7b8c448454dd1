"""Keys as state and operators hold them: which keys are equal, and how keys are sorted.

Plain keys, for which Python's own comparison agrees with the canonical encoding, are looked up directly. All others (lists, Rows,
NaN, paths) are wrapped in a CanonicalKey, which is compared by its encoding. A key without an encoding is refused.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import fractions
import functools
import numbers
import uuid
from collections.abc import Callable
from typing import Any
from zlib import crc32

from flinkish.common.conversion import state_converter
from flinkish.common.errors import TypeMismatchError
from flinkish.common.time import Instant
from flinkish.common.typeinfo import BasicType, BasicTypeInfo, PickledBytesTypeInfo, TupleTypeInfo, TypeInformation
from flinkish.runtime.isolation import isolate
from flinkish.runtime.key_encoding import (
    CONTAINERS,
    canonical,
    compared_fields,
    compares_as,
    inherits,
    is_nan,
    is_number,
    is_numpy_bool,
)


class CanonicalKey:
    """Wraps a key that Python cannot hash, or for which Python's comparison differs from the canonical encoding.

    Examples are lists, Rows, NaN, paths and times with a zone. It has a copy of the key, so that it does not change if the record
    is changed later. Raises TypeMismatchError for a key without a canonical encoding.
    """

    __slots__ = ("_hash", "canonical", "value")

    def __init__(self, value: Any, encoded: bytes | None = None) -> None:
        self.canonical = canonical(value) if encoded is None else encoded
        self.value = isolate(value)
        self._hash = crc32(self.canonical)

    def __eq__(self, other: object) -> bool:
        return other.__class__ is CanonicalKey and self.canonical == other.canonical

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return _remade, (self.value, self.canonical)

    def __repr__(self) -> str:
        return f"CanonicalKey({self.value!r})"


def _remade(value: Any, encoded: bytes) -> CanonicalKey:
    """Create a CanonicalKey from its pickled parts, without encoding it again."""
    key = CanonicalKey.__new__(CanonicalKey)
    key.value, key.canonical, key._hash = value, encoded, crc32(encoded)
    return key


#: Classes for which Python's comparison and hash agree with the canonical encoding.
PLAIN: frozenset[type] = frozenset({int, str, bool, bytes, type(None)})
#: The same, if a value is equal to itself (NaN is not).
_PLAIN_NUMBERS = frozenset({float, complex, decimal.Decimal, fractions.Fraction})
#: The same, if a time has no zone: a zone may repeat an hour, which Python's comparison ignores.
_PLAIN_OBJECTS = frozenset({datetime.date, datetime.timedelta, uuid.UUID, Instant})


def as_key(key: Any, known: dict[bytes, CanonicalKey] | None = None) -> Any:
    """Return the key itself if it can be looked up in a dict directly, else a CanonicalKey; for a bytearray, its bytes.

    `known` is a cache of CanonicalKeys by their encoding; the caller limits its size. Raises TypeMismatchError for a key without
    a canonical encoding.
    """
    kind = key.__class__
    if kind in PLAIN or _is_plain(key):
        return key
    if kind is bytearray:
        return bytes(key)
    if known is None:
        return CanonicalKey(key)
    encoded = canonical(key)
    found = known.get(encoded)
    if found is None:
        found = known[encoded] = CanonicalKey(key, encoded)
    return found


def _is_plain(value: Any) -> bool:
    """Tell whether Python's comparison and hash of a value agree with its canonical encoding."""
    kind = value.__class__
    if kind is tuple:
        return PLAIN.issuperset(map(type, value)) or all(map(_is_plain, value))
    if kind in PLAIN or kind in _PLAIN_OBJECTS:
        return True
    if kind in CONTAINERS:
        return False
    if kind in _PLAIN_NUMBERS or is_number(value):
        return not is_nan(value)
    if isinstance(value, (datetime.datetime, datetime.time)):
        return value.tzinfo is None and bool(value == value)  # pandas.NaT is a datetime
    if isinstance(value, datetime.timedelta):
        return True
    if is_numpy_bool(value):
        return True
    if isinstance(value, (str, bytes)):
        return compares_as(kind, str if isinstance(value, str) else bytes)
    if isinstance(value, tuple):
        return compares_as(kind, tuple) and all(map(_is_plain, value))
    if isinstance(value, enum.Enum):
        return inherits(kind, "__eq__", object)
    if kind.__hash__ is None or not _is_frozen(kind):
        return False
    return all(_is_plain(getattr(value, name)) for name in compared_fields(kind) or ())


@functools.lru_cache(maxsize=256)
def _is_frozen(kind: Any) -> bool:
    """Tell whether a class is a frozen dataclass with the generated comparison."""
    parameters = getattr(kind, "__dataclass_params__", None)
    frozen: bool = parameters is not None and parameters.frozen
    return frozen and not inherits(kind, "__eq__", object) and compared_fields(kind) is not None


def original_key(key: Any) -> Any:
    """Return the user's key; for a CanonicalKey a copy, so that the original cannot be changed."""
    return isolate(key.value) if key.__class__ is CanonicalKey else key


def sort_key(key: Any) -> tuple[Any, ...]:
    """Return a sort key for keys of any kind: numbers, texts, times and tuples of these are sorted naturally, kind by kind.

    Sort keys are equal for equal keys only. Keys of other kinds come last, in an order that is the same in every process.
    """
    if key.__class__ is CanonicalKey:
        key = key.value
    kind = key.__class__
    if kind is int:
        return 1, key
    if kind is str:
        return 2, key
    if kind is tuple:
        return 9, tuple(map(sort_key, key))
    if key is None:
        return (0,)
    if is_number(key) and isinstance(key, numbers.Real | decimal.Decimal) and not is_nan(key):
        return 1, key
    if is_numpy_bool(key):
        return 1, bool(key)
    if isinstance(key, datetime.datetime) and key == key:
        return (4, key.replace(tzinfo=None)) if key.utcoffset() is None else (5, key.astimezone(datetime.UTC))
    if isinstance(key, str) and compares_as(kind, str):
        return 2, str.__str__(key)
    if isinstance(key, bytes) and compares_as(kind, bytes):
        return 3, key
    if kind is datetime.date:
        return 6, key
    if kind is datetime.time and key.tzinfo is None:
        return 7, key
    if isinstance(key, tuple) and compares_as(kind, tuple):
        return 9, tuple(map(sort_key, key))
    encoded = canonical(key)
    return 10, crc32(encoded), encoded


def may_be_wrapped(key_type: TypeInformation) -> bool:
    if isinstance(key_type, BasicTypeInfo):
        return key_type.basic_type in (BasicType.FLOAT, BasicType.DOUBLE, BasicType.BIG_DEC)
    return True


def is_stored_as_given(key_type: TypeInformation) -> bool:
    """Tell whether every key that the type accepts is equal to the key that a checkpoint restores, even if its class differs.

    This holds for texts and whole numbers: True as a LONG is restored as 1. It does not hold for Rows, because one without names
    is restored with the names of the type, nor for FLOAT and DOUBLE, which round what they are given.
    """
    if isinstance(key_type, BasicTypeInfo):
        return key_type.basic_type not in (BasicType.FLOAT, BasicType.DOUBLE, BasicType.BIG_DEC)
    if isinstance(key_type, TupleTypeInfo):
        return all(map(is_stored_as_given, key_type.get_field_types()))
    return isinstance(key_type, PickledBytesTypeInfo)


def unifier(key_type: TypeInformation) -> Callable[[Any], Any]:
    """Return a function that gives equal keys of a type one form, such as 1 for True as a LONG, so that they are encoded equally.

    It leaves keys of other types as they are. For types with `is_stored_as_given` only.
    """
    convert = state_converter(key_type)

    def unified(key: Any) -> Any:
        try:
            converted = key if convert is None else convert(key)
        except TypeMismatchError:
            return key
        return converted if converted == key else key

    return unified

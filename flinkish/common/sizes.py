"""Rough sizes of records: precise enough to limit the memory used."""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Iterable
from typing import Any

from flinkish.common.types import Row

#: In a container with more items than this, only a sample is measured.
_SAMPLE = 16
#: Maximum depth of nested containers that are measured.
_DEPTH = 4


def rough_size(value: Any, depth: int = _DEPTH) -> int:
    """Return approximately how many bytes a record takes; this takes less than a microsecond for a tuple of three scalars.

    The result is close to the pickled size for plain data, objects made of it, arrays and data frames. Other objects are measured
    without the objects that they refer to.

    >>> rough_size(("key", 1, 2.5)), rough_size([b"x" * 1000] * 1000)
    (43, 1008000)
    """
    kind = value.__class__
    if kind is str or kind is bytes:
        return len(value)
    if kind is int or kind is float or value is None:
        return 8
    if depth > 0:
        if isinstance(value, dict):
            return _of_items(value.keys(), len(value), depth) + _of_items(value.values(), len(value), depth)
        if isinstance(value, (tuple, list, set, frozenset, Row)):
            return _of_items(value, len(value), depth)
        attributes = getattr(value, "__dict__", None) or {name: getattr(value, name, None) for name in _slots(kind)}
        if attributes:
            return rough_size(attributes, depth - 1) + sys.getsizeof(value)
    return sys.getsizeof(value)


@functools.lru_cache(maxsize=256)
def _slots(kind: type) -> tuple[str, ...]:
    slots = getattr(kind, "__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _of_items(items: Iterable[Any], count: int, depth: int) -> int:
    size = 0
    for item in itertools.islice(items, _SAMPLE):
        kind = item.__class__
        size += 8 + (len(item) if kind is str or kind is bytes else rough_size(item, depth - 1))
    return size if count <= _SAMPLE else size * count // _SAMPLE

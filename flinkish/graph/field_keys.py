"""Recognizes key selectors that only read fields of a row or tuple, which the sending edge then reads without a call."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

from flinkish.common.kinds import field_keys, shape_of
from flinkish.common.typeinfo import BasicType, BasicTypeInfo, PickledBytesTypeInfo, TupleTypeInfo, TypeInformation
from flinkish.common.types import is_attribute, learn_names
from flinkish.udf.functions import NullByteKeySelector

#: Types whose values, once checked, are keys as they are (see `as_key`).
_KEY_TYPES = frozenset({BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.STRING, BasicType.BOOLEAN})

# Functions with the same bytecode do the same with another name or constant, in every version of Python.
_BY_ATTRIBUTE = (lambda row: row.field).__code__
_BY_ITEM = (lambda row: row["field"]).__code__


def field_read(select: Callable[[Any], Any], type_info: TypeInformation) -> int | None:
    """Return the position of the only field that `fields_of_key` finds; None if it finds several or none."""
    fields = fields_of_key(select, type_info, None)
    return fields[0] if fields is not None and len(fields) == 1 else None


def fields_of_key(
    select: Callable[[Any], Any], type_info: TypeInformation, key_type: TypeInformation | None
) -> tuple[int, ...] | None:
    """Return the positions of the fields of a row or tuple whose values a key selector returns: one value, or a tuple of several.

    Such selectors are those that key_by() makes of fields, `lambda row: row.k` and `lambda row: row["k"]`. That of window_all(),
    by which all records have the key 0, reads no fields. Returns None for any other selector, for fields whose values may not be
    keys as they are, and for several fields if their types are not those of `key_type`; None or a pickled type = any.
    """
    if isinstance(getattr(select, "__self__", None), NullByteKeySelector):
        return ()
    _, types = shape_of(type_info)
    known = field_keys(type_info)
    items = _items(select, known)
    if not items or not all(item in known for item in items):
        return None
    fields = tuple(map(known.index, items))
    read = [types[field] for field in fields]
    declared = key_type is not None and not isinstance(key_type, PickledBytesTypeInfo)
    if not all(map(_holds_keys, read)) or (len(fields) > 1 and declared and key_type != TupleTypeInfo(read)):
        return None
    return fields


def _holds_keys(type_info: TypeInformation) -> bool:
    return isinstance(type_info, BasicTypeInfo) and type_info.basic_type in _KEY_TYPES


def _items(select: Callable[[Any], Any], known: Sequence[Any]) -> tuple[Any, ...]:
    """Return the names or positions that a selector reads; none if it is not known to do only that."""
    if isinstance(select, operator.itemgetter):
        return tuple(select.__reduce__()[1])
    name = _named(select, known)
    return () if name is None else (name,)


def _named(select: Callable[[Any], Any], known: Sequence[Any]) -> str | None:
    name: Any = None
    code = select.__code__ if isinstance(select, FunctionType) else None
    # In the process of a slot there may be no row yet.
    learn_names(known)
    if code is None or code.co_argcount != 1:
        pass
    elif code.co_code == _BY_ATTRIBUTE.co_code and is_attribute(code.co_names[0]):
        name = code.co_names[0]
    elif code.co_code == _BY_ITEM.co_code:
        name = code.co_consts[_BY_ITEM.co_consts.index("field")]
    return name if isinstance(name, str) else None

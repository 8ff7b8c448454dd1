"""Recognizes key selectors that only read a field of a row, which the sending edge then reads without a call."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from flinkish.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo
from flinkish.common.types import is_attribute, learn_names

#: Types whose values, once checked, are keys as they are (see `as_key`).
_KEY_TYPES = frozenset({BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.STRING, BasicType.BOOLEAN})

# Functions with the same bytecode do the same with another name or constant, in every version of Python.
_BY_ATTRIBUTE = (lambda row: row.field).__code__
_BY_ITEM = (lambda row: row["field"]).__code__


def field_read(select: Callable[[Any], Any], type_info: RowTypeInfo) -> int | None:
    """Return the position of the field whose value a key selector returns: `lambda row: row.k` or `lambda row: row["k"]`.

    Returns None for any other selector, and for a field whose values may not be keys as they are.
    """
    code = select.__code__ if isinstance(select, FunctionType) else None
    if code is None or code.co_argcount != 1:
        return None
    # In the process of a slot there may be no row yet.
    learn_names(type_info.field_names)
    name: Any = None
    if code.co_code == _BY_ATTRIBUTE.co_code and is_attribute(code.co_names[0]):
        name = code.co_names[0]
    elif code.co_code == _BY_ITEM.co_code:
        name = code.co_consts[_BY_ITEM.co_consts.index("field")]
    if not isinstance(name, str) or name not in type_info.field_names:
        return None
    position = type_info.field_names.index(name)
    field_type = type_info.field_types[position]
    return position if isinstance(field_type, BasicTypeInfo) and field_type.basic_type in _KEY_TYPES else None

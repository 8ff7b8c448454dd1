"""Recognizes key selectors that only read a field of a row or tuple, which the sending edge then reads without a call."""

from __future__ import annotations

import operator
from collections.abc import Callable
from types import FunctionType
from typing import Any

from flinkish.common.kinds import Kind, shape_of
from flinkish.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation
from flinkish.common.types import is_attribute, learn_names

#: Types whose values, once checked, are keys as they are (see `as_key`).
_KEY_TYPES = frozenset({BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG, BasicType.STRING, BasicType.BOOLEAN})

# Functions with the same bytecode do the same with another name or constant, in every version of Python.
_BY_ATTRIBUTE = (lambda row: row.field).__code__
_BY_ITEM = (lambda row: row["field"]).__code__


def field_read(select: Callable[[Any], Any], type_info: TypeInformation) -> int | None:
    """Return the position of the field of a row or tuple whose value a key selector returns.

    Such selectors are those that key_by() makes of a field, `lambda row: row.k` and `lambda row: row["k"]`. Returns None for any
    other selector, and for a field whose values may not be keys as they are.
    """
    kind, types = shape_of(type_info)
    position: int | None = None
    if kind is Kind.TUPLE:
        item = _item(select)
        position = item if isinstance(item, int) and 0 <= item < len(types) else None
    elif isinstance(type_info, RowTypeInfo):
        position = _named(select, type_info)
    field_type = None if position is None else types[position]
    return position if isinstance(field_type, BasicTypeInfo) and field_type.basic_type in _KEY_TYPES else None


def _item(select: Callable[[Any], Any]) -> Any:
    """Return what an operator.itemgetter of one item gets; None for any other selector."""
    items: Any = select.__reduce__()[1] if isinstance(select, operator.itemgetter) else ()
    return items[0] if len(items) == 1 else None


def _named(select: Callable[[Any], Any], type_info: RowTypeInfo) -> int | None:
    name: Any = _item(select)
    code = select.__code__ if isinstance(select, FunctionType) else None
    # In the process of a slot there may be no row yet.
    learn_names(type_info.field_names)
    if code is None or code.co_argcount != 1:
        pass
    elif code.co_code == _BY_ATTRIBUTE.co_code and is_attribute(code.co_names[0]):
        name = code.co_names[0]
    elif code.co_code == _BY_ITEM.co_code:
        name = code.co_consts[_BY_ITEM.co_consts.index("field")]
    return type_info.field_names.index(name) if isinstance(name, str) and name in type_info.field_names else None

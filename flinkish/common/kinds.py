"""The kinds of types: what values are in Python, whichever class declares the type.

Code that answers per type is a table by kind, or a `match` of `shape_of`; a new type gets its kind here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

from flinkish.common import typeinfo
from flinkish.common.typeinfo import (
    BasicType,
    DecimalTypeInfo,
    ExternalTypeInfo,
    LocalTimeTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
)


class Kind(Enum):
    """What the values of a type are, unless it is basic: the kind of a basic type is its BasicType."""

    DATE = "datetime.date"
    TIME = "datetime.time"
    TIMESTAMP = "datetime.datetime"
    BYTES = "bytes"
    LIST = "list"
    MAP = "dict"
    ROW = "Row"
    TUPLE = "tuple"
    PICKLED = "any object"
    #: The kind of classes of the user's own.
    OTHER = "unknown"


#: A kind, and the types of the parts of the values: the element of a list, key and value of a map, the fields of a row or tuple.
Shape = tuple[BasicType | Kind, tuple[TypeInformation, ...]]

_LOCAL: Final = {
    LocalTimeTypeInfo.TimeType.LOCAL_DATE: Kind.DATE,
    LocalTimeTypeInfo.TimeType.LOCAL_TIME: Kind.TIME,
    LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME: Kind.TIMESTAMP,
}

_NAMES: Final[dict[BasicType | Kind, tuple[str, ...]]] = {Kind.LIST: ("element",), Kind.MAP: ("key", "value")}

#: Bits of the integer types with a limit.
INTEGER_BITS: Final[dict[BasicType | Kind, int]] = {BasicType.BYTE: 8, BasicType.SHORT: 16, BasicType.INT: 32, BasicType.LONG: 64}
#: Their least and greatest numbers.
BOUNDS: Final = {kind: (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) for kind, bits in INTEGER_BITS.items()}


def plain_type(type_info: TypeInformation) -> TypeInformation:
    """Return a type without the wrappers of the Table API."""
    return plain_type(type_info.type_info) if isinstance(type_info, ExternalTypeInfo) else type_info


def shape_of(type_info: TypeInformation) -> Shape:
    """Return the kind and the parts of a type.

    >>> from flinkish.common.typeinfo import Types
    >>> shape_of(Types.MAP(Types.STRING(), Types.LONG()))
    (<Kind.MAP: 'dict'>, (String, Long))
    """
    match type_info:
        case ExternalTypeInfo():
            return shape_of(type_info.type_info)
        case typeinfo.BasicTypeInfo():
            return type_info.basic_type, ()
        case typeinfo.DateTypeInfo():
            return Kind.DATE, ()
        case typeinfo.TimeTypeInfo():
            return Kind.TIME, ()
        case typeinfo.TimestampTypeInfo():
            return Kind.TIMESTAMP, ()
        case LocalTimeTypeInfo():
            return _LOCAL[type_info.time_type], ()
        case typeinfo.PrimitiveArrayTypeInfo() if kind_of(type_info.element_type) is BasicType.BYTE:
            return Kind.BYTES, ()
        case typeinfo.ArrayTypeInfo():
            return Kind.LIST, (type_info.element_type,)
        case typeinfo.MapTypeInfo():
            return Kind.MAP, (type_info.key_type, type_info.value_type)
        case RowTypeInfo():
            return Kind.ROW, type_info.field_types
        case TupleTypeInfo():
            return Kind.TUPLE, type_info.field_types
        case typeinfo.PickledBytesTypeInfo():
            return Kind.PICKLED, ()
        case _:
            return Kind.OTHER, ()


def kind_of(type_info: TypeInformation) -> BasicType | Kind:
    return shape_of(type_info)[0]


def is_declared(type_info: TypeInformation) -> bool:
    """Return whether a type says of all parts of its values what they are: none is pickled, or of a class of the user's own.

    Arrow has such values, and those that `conversion.converter` makes share no mutable objects with what it was given.

    >>> from flinkish.common.typeinfo import Types
    >>> is_declared(Types.ROW([Types.LONG(), Types.LIST(Types.STRING())])), is_declared(Types.LIST(Types.PICKLED_BYTE_ARRAY()))
    (True, False)
    """
    kind, parts = shape_of(type_info)
    return kind not in (Kind.PICKLED, Kind.OTHER) and all(map(is_declared, parts))


def part_names(type_info: TypeInformation) -> tuple[str, ...]:
    """Return the names of the parts of a type: f0, f1, ... for a tuple, `element` for a list, `key` and `value` for a map."""
    match plain_type(type_info):
        case RowTypeInfo(field_names=names):
            return names
        case TupleTypeInfo(field_types=types):
            return tuple(f"f{i}" for i in range(len(types)))
        case plain:
            return _NAMES.get(kind_of(plain), ())


def fields_of(type_info: TypeInformation) -> tuple[tuple[str, ...], tuple[TypeInformation, ...]] | None:
    """Return names and types of the fields of a row or tuple type (f0, f1, ... for a tuple); None for other types."""
    kind, parts = shape_of(type_info)
    return (part_names(type_info), parts) if kind in (Kind.ROW, Kind.TUPLE) else None


def field_keys(type_info: TypeInformation) -> Sequence[int | str]:
    """Return what programs call the fields of a type: their names in rows, their positions in tuples; other types have none."""
    kind, types = shape_of(type_info)
    return part_names(type_info) if kind is Kind.ROW else range(len(types)) if kind is Kind.TUPLE else ()


def named_alike(one: TypeInformation, other: TypeInformation) -> bool:
    """Return whether rows of two equal types have the same names in the same order, and their decimals the same digits."""

    def form(type_info: TypeInformation) -> tuple[Any, ...]:
        plain = plain_type(type_info)
        digits = (plain.precision, plain.scale) if isinstance(plain, DecimalTypeInfo) else None
        return part_names(plain), digits, tuple(map(form, shape_of(plain)[1]))

    return form(one) == form(other)


def integer_bounds(type_info: TypeInformation) -> tuple[int, int] | None:
    """Return the least and the greatest number of an integer type; None if it is not an integer type with bounds."""
    return BOUNDS.get(kind_of(type_info))


def range_check(kind: BasicType | Kind) -> Callable[[int], int]:
    """Return the function that returns the numbers that an integer type can hold, and raises ValueError for others."""
    low, high = BOUNDS.get(kind, (-math.inf, math.inf))

    def check(number: int) -> int:
        if low <= number <= high:
            return number
        raise ValueError(f"it does not fit into {INTEGER_BITS[kind]} bits")

    return check

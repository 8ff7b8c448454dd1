"""Types as plain data and back, so that a checkpoint says what its values are without the program that declared them.

A type without parts is the name of the method of `Types` that makes it; others are lists that begin with that name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from flinkish.common.errors import InvalidArgumentError
from flinkish.common.kinds import plain_type
from flinkish.common.typeinfo import (
    ArrayTypeInfo,
    BasicArrayTypeInfo,
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    DecimalTypeInfo,
    ListTypeInfo,
    LocalTimeTypeInfo,
    MapTypeInfo,
    ObjectArrayTypeInfo,
    PickledBytesTypeInfo,
    PrimitiveArrayTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)

#: A name, or a list of a name and the data of parts.
TypeData = Any

_ARRAYS: dict[str, type[ArrayTypeInfo]] = {
    "PRIMITIVE_ARRAY": PrimitiveArrayTypeInfo,
    "BASIC_ARRAY": BasicArrayTypeInfo,
    "OBJECT_ARRAY": ObjectArrayTypeInfo,
    "LIST": ListTypeInfo,
}
_SIMPLE: dict[str, type[TypeInformation]] = {
    "SQL_DATE": DateTypeInfo,
    "SQL_TIME": TimeTypeInfo,
    "SQL_TIMESTAMP": TimestampTypeInfo,
    "PICKLED_BYTE_ARRAY": PickledBytesTypeInfo,
}


def data_of(type_info: TypeInformation) -> TypeData:
    """Return a type as plain data.

    >>> data_of(Types.ROW_NAMED(["id", "tags"], [Types.LONG(), Types.LIST(Types.STRING())]))
    ['ROW_NAMED', ['id', 'tags'], ['LONG', ['LIST', 'STRING']]]
    """
    match plain_type(type_info):
        case DecimalTypeInfo(precision=precision, scale=scale):
            return ["DECIMAL", precision, scale]
        case BasicTypeInfo(basic_type=basic):
            return basic.name
        case LocalTimeTypeInfo(time_type=time_type):
            return time_type.name
        case ArrayTypeInfo(element_type=element) as array:
            return [_name_in(_ARRAYS, array), data_of(element)]
        case MapTypeInfo(key_type=key, value_type=value):
            return ["MAP", data_of(key), data_of(value)]
        case RowTypeInfo(field_types=types, field_names=names):
            parts = list(map(data_of, types))
            unnamed = names == tuple(f"f{position}" for position in range(len(types)))
            return ["ROW", parts] if unnamed else ["ROW_NAMED", list(names), parts]
        case TupleTypeInfo(field_types=types):
            return ["TUPLE", list(map(data_of, types))]
        case simple:
            return _name_in(_SIMPLE, simple)


def _name_in(classes: Mapping[str, type[TypeInformation]], type_info: TypeInformation) -> str:
    # A class of a connector or of the user may derive from one of ours; its values are stored in the same way.
    return next(name for name, of in classes.items() if isinstance(type_info, of))


def _types(parts: TypeData) -> list[TypeInformation]:
    return list(map(type_of_data, parts))


_MAKERS: dict[str, Callable[..., TypeInformation]] = {
    "DECIMAL": DecimalTypeInfo,
    "MAP": lambda key, value: Types.MAP(type_of_data(key), type_of_data(value)),
    "ROW_NAMED": lambda names, parts: Types.ROW_NAMED(names, _types(parts)),
    "ROW": lambda parts: Types.ROW(_types(parts)),
    "TUPLE": lambda parts: Types.TUPLE(_types(parts)),
    **{name: lambda part, make=make: make(type_of_data(part)) for name, make in _ARRAYS.items()},
    **{each.name: lambda each=each: LocalTimeTypeInfo(each) for each in LocalTimeTypeInfo.TimeType},
}
#: The types without parts.
_NAMES = frozenset({*_SIMPLE, *(basic.name for basic in BasicType)})


def type_of_data(data: TypeData) -> TypeInformation:
    """Return the type that `data_of` has described; raises InvalidArgumentError for other data.

    >>> type_of_data(["MAP", "STRING", ["DECIMAL", 10, 2]])
    MapTypeInfo<String, BigDecimal(10, 2)>
    """
    try:
        name, *parts = [data] if isinstance(data, str) else data
        if name in _NAMES and not parts:
            made: TypeInformation = getattr(Types, name)()
            return made
        return _MAKERS[name](*parts)
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{str(data)[:200]} describes no type of this version of flinkish") from error

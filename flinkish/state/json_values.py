"""Values of state from JSON, in the form in which `flinkish state show --json` prints them."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
from collections.abc import Callable
from typing import Any

from flinkish.common.conversion import lenient_converter, same
from flinkish.common.errors import TypeMismatchError
from flinkish.common.kinds import Kind, part_names, shape_of
from flinkish.common.time import Instant
from flinkish.common.typeinfo import BasicType, TypeInformation
from flinkish.common.types import make_row

_FROM_TEXT: dict[BasicType | Kind, Callable[[Any], Any]] = {
    BasicType.BIG_DEC: lambda data: decimal.Decimal(str(data)),
    BasicType.INSTANT: Instant.of_epoch_milli,
    Kind.DATE: datetime.date.fromisoformat,
    Kind.TIME: datetime.time.fromisoformat,
    Kind.TIMESTAMP: datetime.datetime.fromisoformat,
    Kind.BYTES: base64.b64decode,
}


def value_of_json(text: str, type_info: TypeInformation) -> Any:
    """Return a value of a type from JSON; a text that is no JSON is taken as it is for a STRING.

    Raises TypeMismatchError if it is not of the type.
    """
    try:
        data = json.loads(text, parse_float=decimal.Decimal if shape_of(type_info)[0] is BasicType.BIG_DEC else None)
    except ValueError:
        data = text
    if shape_of(type_info)[0] is BasicType.STRING and not isinstance(data, str):
        data = text
    try:
        value = _made(data, type_info)
    except (TypeError, ValueError, ArithmeticError, AttributeError, KeyError) as error:
        raise TypeMismatchError(f"{text!r} is no value of type {type_info!r}: {error}") from error
    convert = lenient_converter(type_info)
    return value if convert is None else convert(value)


def _made(data: Any, type_info: TypeInformation) -> Any:
    if data is None:
        return None
    kind, parts = shape_of(type_info)
    match kind:
        case Kind.LIST:
            return [_made(each, parts[0]) for each in data]
        case Kind.MAP:
            # Keys of JSON objects are texts.
            of_key = same if shape_of(parts[0])[0] is BasicType.STRING else json.loads
            return {_made(of_key(key), parts[0]): _made(value, parts[1]) for key, value in data.items()}
        case Kind.TUPLE:
            return tuple(_made(each, part) for each, part in zip(data, parts, strict=True))
        case Kind.ROW:
            names = part_names(type_info)
            if set(data) != set(names):
                raise ValueError(f"expected the fields {', '.join(names)}")
            return make_row(names, [_made(data[name], part) for name, part in zip(names, parts, strict=True)])
        case _ if kind in _FROM_TEXT:
            return _FROM_TEXT[kind](data)
        case _:
            return data

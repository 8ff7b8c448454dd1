"""Reads JSON texts as values of a type: one by one, or blocks of objects as columns."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Optional

import msgspec

from flinkish.common.errors import TypeMismatchError
from flinkish.common.kinds import BOUNDS, Kind, kind_of, part_names, plain_type, shape_of
from flinkish.common.typeinfo import BasicType, DecimalTypeInfo, PrimitiveArrayTypeInfo, TypeInformation
from flinkish.common.types import make_row
from flinkish.datastream.connectors.file_system.json_values import JsonConverter, JsonConverters, json_decoder

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkish.common.column_layout import Layout

#: The Python types that msgspec checks as `JsonConverters` do; what it refuses may still be converted.
_CHECKED: Final[dict[BasicType | Kind, Any]] = {
    BasicType.STRING: str,
    BasicType.BOOLEAN: bool,
    BasicType.DOUBLE: float,
    BasicType.BIG_INT: int,
    **{kind: Annotated[int, msgspec.Meta(ge=low, le=high)] for kind, (low, high) in BOUNDS.items()},
}
#: A decimal of no fixed scale would get 18 digits after the point in a column.
_ONE_BY_ONE: Final = (Kind.ROW, Kind.TUPLE, Kind.LIST, Kind.MAP, Kind.PICKLED, BasicType.BIG_DEC)

#: Number of texts whose objects exist at the same time: with 16,384, a text takes 30 % longer, as they leave the cache.
_TOGETHER: Final = 2_048


def _checked(type_info: TypeInformation) -> Any:
    """Return the Python type by which msgspec checks all that the converters of a type check; None if there is none."""
    kind, types = shape_of(type_info)
    if kind is not Kind.LIST:
        return _CHECKED.get(kind)
    element = _CHECKED.get(kind_of(types[0]))
    if element is None:
        return None
    return list[element if isinstance(plain_type(type_info), PrimitiveArrayTypeInfo) else Optional[element]]  # type: ignore[misc]  # noqa: UP045


def _check_text(text: bytes | str) -> None:
    """Raise UnicodeDecodeError for bytes that are not UTF-8: a typed decoder does not look at fields that it skips."""
    if isinstance(text, bytes) and not text.isascii():
        text.decode()


def fits_struct(names: Sequence[str]) -> bool:
    """Tell whether msgspec takes the names for a struct: it refuses quotes, backslashes and control characters."""
    return not any(character < " " or character in '"\\' for name in names for character in name)


def struct_of(names: Sequence[str], types: Sequence[Any], *default: Any) -> type[msgspec.Struct]:
    """Return a class whose JSON is an object with fields of any names; its attributes are f0, f1, ... ."""
    attributes = [f"f{position}" for position in range(len(names))]
    fields: Any = [(attribute, one, *default) for attribute, one in zip(attributes, types, strict=True)]
    return msgspec.defstruct("Object", fields, rename=dict(zip(attributes, names, strict=True)), gc=False)


class JsonReader:
    """Reads texts of JSON.

    Most objects of a row type are decoded by a decoder of this type, which skips the fields that the type lacks. What it refuses
    is decoded again as plain JSON, and goes through the converters: they know more forms of a value, and say what is wrong.
    """

    def __init__(self, type_info: TypeInformation, converters: JsonConverters) -> None:
        self._decoder = json_decoder(type_info)
        self._convert = converters.build(type_info)
        self._type_info = type_info
        self._typed: msgspec.json.Decoder[Any] | None = None
        kind, types = shape_of(type_info)
        self._names = part_names(type_info)
        if kind is not Kind.ROW or not types or not fits_struct(self._names):
            return
        checked = [_checked(part) for part in types]
        #: For each field its converter, None if its values are what the decoder returns.
        self._converters: list[JsonConverter | None] = [
            converters.build(part) if one is None else None for part, one in zip(types, checked, strict=True)
        ]
        self._converts = any(self._converters)
        decoded = struct_of(
            self._names,
            [Any if one is None else Optional[one] for one in checked],  # noqa: UP045
            *([] if converters.fail_on_missing_field else [None]),
        )
        self._typed = msgspec.json.Decoder(decoded, float_hook=self._decoder.float_hook)
        self._getters = list(map(operator.attrgetter, decoded.__struct_fields__))
        #: A field that cannot be read as a column; None if there is none.
        self._one_by_one = next(
            (
                name
                for name, part, one in zip(self._names, types, checked, strict=True)
                if one is None and kind_of(part) in _ONE_BY_ONE and not isinstance(plain_type(part), DecimalTypeInfo)
            ),
            None,
        )

    @functools.cached_property
    def _layout(self) -> Layout:
        from flinkish.common.column_layout import needed_layout  # it imports Arrow, which takes half a second

        return needed_layout(self._type_info, "a block of JSON objects")

    def read(self, text: bytes | str) -> Any:
        """Return the value of a text; raise ValueError, or RecursionError, if it has none."""
        if self._typed is not None:
            try:
                _check_text(text)
                values: Any = msgspec.structs.astuple(self._typed.decode(text))
                return make_row(self._names, self._converted(values) if self._converts else values)
            except (ValueError, RecursionError):
                pass  # the next lines find out
        return self._convert(self._decoder.decode(text), "")

    def _converted(self, values: Sequence[Any]) -> list[Any]:
        parts = zip(values, self._converters, self._names, strict=True)
        return [value if convert is None else convert(value, name) for value, convert, name in parts]

    @property
    def why_records(self) -> str | None:
        """Why blocks of texts cannot be columns; None if they can."""
        if self._typed is None:
            return "only JSON objects of a declared row type are read as columns"
        return None if self._one_by_one is None else f"the field {self._one_by_one!r} of JSON objects is read one by one"

    def batch(self, texts: Sequence[bytes]) -> pa.RecordBatch | None:
        """Return the values of one text or more as columns; None if they must be read one by one, as when one is malformed."""
        import pyarrow as pa

        try:
            return pa.concat_batches([self._few(texts[start : start + _TOGETHER]) for start in range(0, len(texts), _TOGETHER)])
        except (ValueError, RecursionError, TypeMismatchError):
            return None

    def _few(self, texts: Sequence[bytes]) -> pa.RecordBatch:
        assert self._typed is not None
        if not all(map(bytes.isascii, texts)):
            for text in texts:
                _check_text(text)
        objects = list(map(self._typed.decode, texts))
        columns = []
        for position, (get, convert, name) in enumerate(zip(self._getters, self._converters, self._names, strict=True)):
            values = list(map(get, objects))
            columns.append(
                self._layout.column(position, values if convert is None else [convert(value, name) for value in values])
            )
        return self._layout.batch(columns)

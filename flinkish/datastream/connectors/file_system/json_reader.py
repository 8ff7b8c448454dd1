"""Reads JSON texts as values of a type: one by one, or blocks of objects as columns."""

from __future__ import annotations

import functools
import itertools
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
    if kind not in (Kind.LIST, Kind.MAP):
        return _CHECKED.get(kind)
    *key, part = map(kind_of, types)
    element = _CHECKED.get(part)
    if element is None or key not in ([], [BasicType.STRING]):
        return None
    if not isinstance(plain_type(type_info), PrimitiveArrayTypeInfo):
        element = Optional[element]  # noqa: UP045
    return dict[str, element] if key else list[element]  # type: ignore[valid-type]


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


class _Objects:
    """The objects of a row type: how msgspec decodes them, and what they are as rows and as columns."""

    def __init__(self, type_info: TypeInformation, converters: JsonConverters) -> None:
        self._type_info = type_info
        self._names, types = part_names(type_info), shape_of(type_info)[1]
        #: For each field the objects in it, None if it is no row and no list of rows.
        self._inner: list[_Objects | _ListOfObjects | None] = [_objects(part, converters) for part in types]
        checked = [_checked(part) if inner is None else inner.decoded for part, inner in zip(types, self._inner, strict=True)]
        #: For each field its converter, None if its values are what the decoder returns.
        self._converters: list[JsonConverter | None] = [
            inner.row if inner is not None else converters.build(part) if one is None else None
            for part, inner, one in zip(types, self._inner, checked, strict=True)
        ]
        self._converts = any(self._converters)
        #: The class of what is decoded.
        self.decoded: Any = struct_of(
            self._names,
            [Any if one is None else Optional[one] for one in checked],  # noqa: UP045
            *([] if converters.fail_on_missing_field else [None]),
        )
        self._getters = list(map(operator.attrgetter, self.decoded.__struct_fields__))
        alone = map(_one_by_one, self._names, types, checked, self._inner)
        #: A field that cannot be read as a column, also one of a row within; None if there is none.
        self.one_by_one: str | None = next((name for name in alone if name is not None), None)

    @functools.cached_property
    def _layout(self) -> Layout:
        from flinkish.common.column_layout import needed_layout  # it imports Arrow, which takes half a second

        return needed_layout(self._type_info, "a block of JSON objects")

    def row(self, decoded: Any, _path: str = "") -> Any:
        """Return what was decoded as a row, as a JsonConverter does."""
        if decoded is None:
            return None
        values: Any = msgspec.structs.astuple(decoded)
        if self._converts:
            parts = zip(values, self._converters, self._names, strict=True)
            values = [value if convert is None else convert(value, name) for value, convert, name in parts]
        return make_row(self._names, values)

    def batch(self, decoded: Sequence[Any]) -> pa.RecordBatch:
        """Return what was decoded as columns."""
        columns = []
        for position, (get, convert, inner, name) in enumerate(
            zip(self._getters, self._converters, self._inner, self._names, strict=True)
        ):
            values = list(map(get, decoded))
            if inner is not None:
                columns.append(inner.column(values))
            else:
                converted = values if convert is None else [convert(value, name) for value in values]
                columns.append(self._layout.column(position, converted))
        return self._layout.batch(columns)

    def column(self, decoded: Sequence[Any]) -> pa.Array:
        """Return what was decoded, or None, as one column of rows."""
        import pyarrow as pa

        count = itertools.count()
        places = [None if one is None else next(count) for one in decoded]
        return self.batch([one for one in decoded if one is not None]).to_struct_array().take(pa.array(places, pa.int64()))


class _ListOfObjects:
    """The same for arrays of objects."""

    def __init__(self, inner: _Objects) -> None:
        self._inner = inner
        self.decoded: Any = list[Optional[inner.decoded]]  # type: ignore[name-defined]  # noqa: UP045
        self.one_by_one = inner.one_by_one

    def row(self, decoded: Any, _path: str = "") -> Any:
        return None if decoded is None else list(map(self._inner.row, decoded))

    def column(self, decoded: Sequence[Any]) -> pa.Array:
        import pyarrow as pa

        ends = [0, *itertools.accumulate(0 if some is None else len(some) for some in decoded)]
        # A list is null if its start is.
        starts = [None if some is None else start for some, start in zip(decoded, ends, strict=False)]
        items = self._inner.column([one for some in decoded if some is not None for one in some])
        return pa.ListArray.from_arrays(pa.array([*starts, ends[-1]], pa.int32()), items)


def _objects(type_info: TypeInformation, converters: JsonConverters) -> _Objects | _ListOfObjects | None:
    """Return how values of a type are decoded; None unless they are rows or lists of rows, with names that msgspec takes."""
    kind, types = shape_of(type_info)
    if kind is Kind.LIST:
        inner = _objects(types[0], converters)
        return _ListOfObjects(inner) if isinstance(inner, _Objects) else None
    return _Objects(type_info, converters) if kind is Kind.ROW and types and fits_struct(part_names(type_info)) else None


def _one_by_one(name: str, type_info: TypeInformation, checked: Any, inner: _Objects | _ListOfObjects | None) -> str | None:
    """Return the name of a field whose values are no column, or the name of such a field within its rows."""
    if inner is not None:
        return None if inner.one_by_one is None else f"{name}.{inner.one_by_one}"
    by_column = checked is not None or kind_of(type_info) not in _ONE_BY_ONE
    return None if by_column or isinstance(plain_type(type_info), DecimalTypeInfo) else name


class JsonReader:
    """Reads texts of JSON.

    Most objects of a row type are decoded by a decoder of this type, which skips the fields that the type lacks. What it refuses
    is decoded again as plain JSON, and goes through the converters: they know more forms of a value, and say what is wrong.
    """

    def __init__(self, type_info: TypeInformation, converters: JsonConverters) -> None:
        self._decoder = json_decoder(type_info)
        self._convert = converters.build(type_info)
        found = _objects(type_info, converters)
        self._objects = found if isinstance(found, _Objects) else None
        if self._objects is not None:
            self._typed = msgspec.json.Decoder(self._objects.decoded, float_hook=self._decoder.float_hook)

    def read(self, text: bytes | str) -> Any:
        """Return the value of a text; raise ValueError, or RecursionError, if it has none."""
        if self._objects is not None:
            try:
                _check_text(text)
                return self._objects.row(self._typed.decode(text))
            except (ValueError, RecursionError):
                pass  # the next line finds out
        return self._convert(self._decoder.decode(text), "")

    @property
    def why_records(self) -> str | None:
        """Why blocks of texts cannot be columns; None if they can."""
        if self._objects is None:
            return "only JSON objects of a declared row type are read as columns"
        name = self._objects.one_by_one
        return None if name is None else f"the field {name!r} of JSON objects is read one by one"

    def batch(self, texts: Sequence[bytes]) -> pa.RecordBatch | None:
        """Return the values of one text or more as columns; None if they must be read one by one, as when one is malformed."""
        import pyarrow as pa

        try:
            return pa.concat_batches([self._few(texts[start : start + _TOGETHER]) for start in range(0, len(texts), _TOGETHER)])
        except (ValueError, RecursionError, TypeMismatchError):
            return None

    def _few(self, texts: Sequence[bytes]) -> pa.RecordBatch:
        assert self._objects is not None
        if not all(map(bytes.isascii, texts)):
            b"\n".join(texts).decode()  # see _check_text
        return self._objects.batch(list(map(self._typed.decode, texts)))

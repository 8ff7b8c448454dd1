"""State as a table: rows, Arrow columns or a pandas DataFrame."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import call
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flinkish.common.arrow_types import RowsToArrow
from flinkish.common.conversion import nullable, same
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.kinds import Kind, part_names, shape_of
from flinkish.common.limits import LONG_MAX, LONG_MIN
from flinkish.common.time import Instant
from flinkish.common.typeinfo import RowTypeInfo, TypeInformation, Types
from flinkish.common.types import Row, rows_of
from flinkish.runtime.state.codec import to_json

if TYPE_CHECKING:
    import pandas as pd

#: A type that Arrow has, and the function that makes its values; None if they are the same.
_Shown = tuple[TypeInformation, Callable[[Any], Any] | None]

#: Types of untyped columns whose values all have one class.
_BY_CLASS: dict[type, Callable[[], TypeInformation]] = {
    bool: Types.BOOLEAN,
    int: Types.LONG,
    float: Types.DOUBLE,
    str: Types.STRING,
    bytes: lambda: Types.PRIMITIVE_ARRAY(Types.BYTE()),
    decimal.Decimal: Types.BIG_DEC,
    datetime.date: Types.SQL_DATE,
    datetime.time: Types.SQL_TIME,
    datetime.datetime: Types.SQL_TIMESTAMP,
    Instant: Types.INSTANT,
}


class StateTable:
    """The rows of a state, in no particular order.

    An iterable of `Row`, whose fields are the columns; `type_info` has their names and types. A pickled value is an opaque
    object, unless the reader unpickles.
    """

    def __init__(self, columns: Mapping[str, tuple[TypeInformation, Sequence[Any]]]) -> None:
        """Make a table of columns of equal length, given with their types."""
        self._columns = {name: values for name, (_, values) in columns.items()}
        #: The names and types of the columns.
        self.type_info: RowTypeInfo = Types.ROW_NAMED(list(columns), [type_info for type_info, _ in columns.values()])

    def __len__(self) -> int:
        return len(next(iter(self._columns.values())))

    def __iter__(self) -> Iterator[Row]:
        names = tuple(self._columns)
        return iter(rows_of(names, self._columns.values()))

    def column(self, name: str) -> Sequence[Any]:
        """Return the values of a column."""
        if name not in self._columns:
            raise InvalidArgumentError(f"there is no column {name!r}; the columns are {', '.join(self._columns)}")
        return self._columns[name]

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table; `spark.createDataFrame(table)` makes a DataFrame of Spark of it.

        A column without a declared type has the type of its values if they all have one class. Otherwise, and within other
        values, such a value is text: JSON if it is plain data, or a description of an opaque object.
        Raises TypeMismatchError for a value that its Arrow type cannot hold, such as a BIG_INT of more than 38 digits.
        """
        types, columns = [], []
        for part, values in zip(self.type_info.field_types, self._columns.values(), strict=True):
            shown, convert = _untyped_column(values) if shape_of(part)[0] is Kind.PICKLED else _shown(part)
            types.append(shown)
            columns.append(values if convert is None else [None if value is None else convert(value) for value in values])
        writer = RowsToArrow(list(self._columns), types, zoned=False)
        arrays = [writer.column(index, values) for index, values in enumerate(columns)]
        return pa.Table.from_arrays(arrays, schema=writer.schema)

    def to_pandas(self) -> pd.DataFrame:
        """Return a DataFrame of pandas with the Python values; columns with nulls keep them as None."""
        import pandas as pd

        # pandas turns the integers of a column with nulls into floats, which changes large ones.
        dtypes = {name: object if any(value is None for value in values) else None for name, values in self._columns.items()}
        return pd.DataFrame({name: pd.Series(values, dtype=dtypes[name]) for name, values in self._columns.items()})


def text_of(value: Any) -> str:
    """Return a value as text for people: JSON if it is plain data."""
    # JSON has no such numbers, and would show them as null.
    text = None if value.__class__ is float and not math.isfinite(value) else to_json(value)
    return repr(value) if text is None else text


def _untyped_column(values: Sequence[Any]) -> _Shown:
    classes = {value.__class__ for value in values if value is not None}
    make = _BY_CLASS.get(classes.pop()) if len(classes) == 1 else None
    if make is None or (make is Types.LONG and not all(value is None or LONG_MIN <= value <= LONG_MAX for value in values)):
        return Types.STRING(), text_of
    return make(), None


def _shown(type_info: TypeInformation) -> _Shown:
    """Return the type of which Arrow has values, for a type that may have untyped parts."""
    kind, parts = shape_of(type_info)
    if kind is Kind.PICKLED:
        return Types.STRING(), text_of
    shown = [_shown(part) for part in parts]
    if all(convert is None for _, convert in shown):
        return type_info, None
    types, converters = [each for each, _ in shown], [nullable(convert) or same for _, convert in shown]
    match kind:
        case Kind.LIST:
            return Types.LIST(types[0]), lambda values: list(map(converters[0], values))
        case Kind.MAP:
            of_key, of_value = converters
            return Types.MAP(*types), lambda entries: {of_key(key): of_value(value) for key, value in entries.items()}
        case _:
            names = part_names(type_info)
            return Types.ROW_NAMED(list(names), types), lambda row: tuple(map(call, converters, row))

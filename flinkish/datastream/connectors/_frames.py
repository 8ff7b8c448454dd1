"""The rows of a pandas DataFrame, for from_collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flinkish.common.errors import InvalidArgumentError
from flinkish.common.kinds import plain_type
from flinkish.common.typeinfo import RowTypeInfo, TupleTypeInfo, TypeInformation
from flinkish.common.types import rows_of


def rows_of_frame(frame: Any, type_info: TypeInformation | None) -> list[Any]:
    """Return the rows of a pandas DataFrame in their order, without its index: as tuples if the type is a TUPLE, else as Rows.

    The fields of a ROW are found in the columns by name. They are found by position if the ROW has the default names (f0, f1,
    ...) and the columns have other names. Without a type the rows have the names of the columns. Values are Python objects;
    missing values are None, except for NaN in columns of floats. Raises InvalidArgumentError if the columns do not fit the type.
    """
    labels = list(frame.columns)
    whole = None if type_info is None else plain_type(type_info)
    if whole is None:
        positions: Sequence[int] = range(len(labels))
        if len(set(labels)) < len(labels):
            raise InvalidArgumentError(f"from_collection: two columns of the DataFrame have the same name: {labels}.")
        names = tuple(labels) if all(isinstance(label, str) for label in labels) else None
    elif isinstance(whole, RowTypeInfo):
        names = tuple(whole.field_names)
        positions = _positions(labels, names)
    elif isinstance(whole, TupleTypeInfo):
        names = None
        positions = _by_position(labels, len(whole.field_types), whole)
    else:
        raise InvalidArgumentError(
            f"from_collection: the rows of a DataFrame are of type ROW or TUPLE, not {type_info!r}.",
            hint='for the values of one column: from_collection(frame["name"], type_info).',
        )
    columns = [_values(frame.iloc[:, position]) for position in positions]
    return list(zip(*columns, strict=True)) if isinstance(whole, TupleTypeInfo) else rows_of(names, columns)


def _positions(labels: list[Any], names: tuple[str, ...]) -> Sequence[int]:
    """Return the position of the column for each field of a row."""
    missing = [name for name in names if name not in labels]
    if not missing:
        twice = [name for name in names if labels.count(name) > 1]
        if twice:
            raise InvalidArgumentError(f"from_collection: several columns of the DataFrame have the names {twice}.")
        return [labels.index(name) for name in names]
    if names == tuple(f"f{position}" for position in range(len(names))):
        return _by_position(labels, len(names), f"a ROW of {len(names)} fields")
    raise InvalidArgumentError(
        f"from_collection: the DataFrame has no columns {missing} for the fields of the row; it has {labels}.",
        hint="frame.rename(columns={...}) renames them.",
    )


def _by_position(labels: list[Any], count: int, what: object) -> Sequence[int]:
    if len(labels) != count:
        raise InvalidArgumentError(
            f"from_collection: the DataFrame has {len(labels)} columns, {labels}; {what!r} needs {count}.",
            hint="frame[[...]] chooses columns.",
        )
    return range(count)


def _values(column: Any) -> list[Any]:
    """Return the values of a column as Python objects, missing values as None; NaN in a column of floats is a value."""
    values: list[Any] = column.tolist()
    if column.dtype.kind != "f":
        return [None if missing else _python_value(value) for value, missing in zip(values, column.isna(), strict=True)]
    if type(column.dtype).__module__.startswith("numpy"):
        return values
    # pandas' own types of floats, such as Float64, have a missing value in addition to NaN.
    return [value if isinstance(value, float) else None for value in values]


def _python_value(value: Any) -> Any:
    """Return the datetime or timedelta for its pandas class; nanoseconds are cut off."""
    if type(value).__module__.startswith("pandas."):
        if hasattr(value, "to_pydatetime"):
            return value.to_pydatetime(warn=False)
        if hasattr(value, "to_pytimedelta"):
            return value.to_pytimedelta()
    return value

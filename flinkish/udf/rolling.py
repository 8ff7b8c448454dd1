"""The rolling aggregations of keyed streams, as reduce functions.

Flink's rules: min and max change only the chosen field and keep the other fields of the first record; min_by and max_by keep
whole records, and the first one if several are equal.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from enum import Enum
from typing import Any

from flinkish.common.arguments import check
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, TypeMismatchError
from flinkish.common.kinds import INTEGER_BITS, Kind, kind_of, part_names, plain_type, shape_of
from flinkish.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    LocalTimeTypeInfo,
    RowTypeInfo,
    TupleTypeInfo,
    TypeInformation,
    Types,
)
from flinkish.common.types import Row
from flinkish.udf.functions import ReduceFunction
from flinkish.udf.totals import addition


class Aggregation(Enum):
    """The kinds of aggregation of the chosen field."""

    SUM = "sum"
    MIN = "min"
    MAX = "max"
    MIN_BY = "min_by"
    MAX_BY = "max_by"


_UNDECLARED = Types.PICKLED_BYTE_ARRAY()


class AggregatingReduceFunction(ReduceFunction):
    """Reduces records by one field, or by the whole record if it is a scalar.

    Differs from Flink: a Row or list is copied, not changed in place, so that emitted records do not change later.
    """

    def __init__(self, aggregation: Aggregation, position: int | str, record_type: TypeInformation = _UNDECLARED) -> None:
        self.aggregation = aggregation
        self.position: Any = position
        choose, _ = _CHOICES[aggregation]
        self._choose = choose or addition(self._chosen(record_type))
        #: Whether the result is one of the two records; otherwise it is the first one with another field.
        self._whole = aggregation in (Aggregation.MIN_BY, Aggregation.MAX_BY)

    def _chosen(self, record_type: TypeInformation) -> TypeInformation:
        """Return the type of the chosen field, or of the whole record if it has no fields."""
        kind, types = shape_of(record_type)
        if kind not in (Kind.ROW, Kind.TUPLE):
            return record_type
        names = part_names(record_type) if kind is Kind.ROW else ()
        return types[names.index(self.position) if self.position in names else self.position]

    def why_by_record(self, record_type: TypeInformation) -> str | None:
        """Return why columns of records cannot be reduced; None if they can, because numpy computes the same."""
        kind, types = shape_of(record_type)
        nested = [part for each in types for part in shape_of(each)[1]]
        if kind in (Kind.ROW, Kind.TUPLE) and any(map(cut_to_milliseconds, nested)):
            return "state cuts times in nested fields to milliseconds"
        if kind_of(self._chosen(record_type)) in (*INTEGER_BITS, BasicType.DOUBLE):
            return None
        return f"{self.aggregation.value}({self.position!r}) looks at each record"

    def reduce(self, value1: Any, value2: Any) -> Any:
        if value2.__class__ is not tuple and not isinstance(value2, (tuple, list, Row)):
            if self.position != 0:
                raise TypeMismatchError(
                    f"{self.aggregation.value}({self.position!r}) was called on records without fields, such as {value2!r}; "
                    "on these only position 0 is possible, which stands for the whole record."
                )
            return self._choose(value1, value2)
        position = self.position
        try:
            first, second = value1[position], value2[position]
        except (TypeError, IndexError) as error:
            raise TypeMismatchError(
                f"{self.aggregation.value}({position!r}): there is no such field in {value2!r} of type {type(value2).__name__}.",
                hint="give the position of the field, from 0 on; names are for Rows.",
            ) from error
        result = self._choose(first, second)
        if self._whole:
            return value1 if result is first else value2
        if value1.__class__ is tuple:
            if position < 0:
                position += len(value1)
            return value1[:position] + (result,) + value1[position + 1 :]  # noqa: RUF005 - half the time of unpacking
        if isinstance(value1, tuple):
            values = [*value1]
            values[position] = result
            # The result for named tuples is a named tuple.
            return getattr(value1, "_make", tuple)(values)
        value1 = copy.copy(value1)
        value1[position] = result
        return value1


def cut_to_milliseconds(type_info: TypeInformation) -> bool:
    """Tell whether checked values of a type have no microseconds, or have parts that have none."""
    kind, parts = shape_of(type_info)
    own = kind in (Kind.TIME, Kind.TIMESTAMP) and not isinstance(plain_type(type_info), LocalTimeTypeInfo)
    return own or any(map(cut_to_milliseconds, parts))


def _least(first: Any, second: Any) -> Any:
    return second if second < first else first


def _greatest(first: Any, second: Any) -> Any:
    return second if second > first else first


#: How each aggregation combines two values, None if that depends on their type, and the same as an expression for reduce().
_CHOICES: dict[Aggregation, tuple[Callable[[Any, Any], Any] | None, str]] = {
    Aggregation.SUM: (None, "one + other"),
    Aggregation.MIN: (_least, "min(one, other)"),
    Aggregation.MAX: (_greatest, "max(one, other)"),
    Aggregation.MIN_BY: (_least, "min(one, other, key=f)"),
    Aggregation.MAX_BY: (_greatest, "max(one, other, key=f)"),
}


def aggregating_function(aggregation: Aggregation, position: object, record_type: TypeInformation) -> AggregatingReduceFunction:
    """Check the position against the type of the records, and return the reduce function of an aggregation.

    Raises InvalidArgumentError for a position that is neither int nor str, and InvalidProgramError for a field that does not
    exist. Records without a declared type are checked when the second record of a key arrives.
    """
    method = aggregation.value
    if isinstance(position, bool) or not isinstance(position, (int, str)):
        raise InvalidArgumentError(
            f"{method}() needs the position of a field (int) or its name (str); got {position!r} of type "
            f"{type(position).__name__}.",
            hint=f"use reduce() for computed values, such as reduce(lambda one, other: {_CHOICES[aggregation][1]}).",
        )
    match record_type:
        case RowTypeInfo():
            names = record_type.get_field_names()
            if isinstance(position, str):
                check(position in names, f"{method}({position!r}): there is no such field; the records have {names}.")
            else:
                _check_index(method, position, len(names), record_type)
        case TupleTypeInfo():
            if isinstance(position, str):
                raise InvalidProgramError(
                    f"{method}({position!r}): the records are tuples ({record_type!r}), whose fields have no names.",
                    hint="give the position of the field, from 0 on.",
                )
            _check_index(method, position, len(record_type.get_field_types()), record_type)
        case BasicTypeInfo():
            check(
                position == 0,
                f"{method}({position!r}): the records are of type {record_type!r}, without fields.",
                hint="on these only position 0 is possible, which stands for the whole record.",
            )
    return AggregatingReduceFunction(aggregation, position, record_type)


def _check_index(method: str, position: int, fields: int, record_type: TypeInformation) -> None:
    known = -fields <= position < fields
    check(known, f"{method}({position}): the records have {fields} fields, 0 to {fields - 1}: {record_type!r}.")

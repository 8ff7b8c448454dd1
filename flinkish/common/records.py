"""Checks of the results of user functions: one record, or an iterable of records."""

from __future__ import annotations

from types import GeneratorType
from typing import Any

from flinkish.common.errors import TypeMismatchError
from flinkish.common.text import shortened
from flinkish.common.types import Row

HINT_OF_SPARK_ROWS = (
    "rows of streams are flinkish.common.Row, not pyspark.sql.Row: import that one, or make one as Row(**row.asDict())."
)
_ONE_RECORD = (str, bytes, bytearray, memoryview, dict, Row)


def is_one_record(value: Any) -> bool:
    """Return whether a value, where an iterable of records is expected, is a single record or a table.

    Iteration over a str yields letters, over bytes numbers, over a dict keys, over a Row or a named tuple fields, and over a
    table columns or their names: never records.

    >>> is_one_record("abc"), is_one_record(["abc"])
    (True, False)
    """
    return isinstance(value, _ONE_RECORD) or (isinstance(value, tuple) and type(value) is not tuple) or is_table(value)


def is_row_of_spark(value: Any) -> bool:
    """Return whether a value is a Row of pyspark, a tuple whose fields have names."""
    return type(value).__module__ == "pyspark.sql.types" and type(value).__name__ == "Row"


def is_table(value: Any) -> bool:
    """Return whether a value is a table of columns: a DataFrame of pandas or Polars, a Table of Arrow, ..."""
    # All of them implement the dataframe interchange protocol, so none has to be imported.
    return hasattr(type(value), "__dataframe__")


def check_results(results: Any, what: str, *, tuple_is_record: bool = True) -> None:
    """Raise TypeMismatchError unless a function returned an iterable of records.

    The message begins with `what`, a clause that says what the function must return.

    A str, bytes, a dict, a Row, a named tuple or a table counts as one record, although Python could iterate over its parts; with
    `tuple_is_record` so does a plain tuple that is not empty.

    Differs from Flink: PyFlink emits these parts.
    """
    is_tuple = tuple_is_record and type(results) is tuple and results != ()
    if is_tuple or is_one_record(results) or not _can_be_iterated(results):
        hint = "use `yield value`, or return a list: [value] for one record, [] for none."
        if is_tuple:
            hint = "a tuple is one record here: use `yield a, b`, or return records in a list: [(a, b)]."
        if is_row_of_spark(results):
            hint = f"use `yield`, or return it in a list. {HINT_OF_SPARK_ROWS}"
        if hasattr(results, "close") and hasattr(results, "cr_code"):
            results.close()  # otherwise Python would warn that it was never awaited
            hint = "an `async def` is called by AsyncDataStream only, as async_invoke of an AsyncFunction."
        raise TypeMismatchError(f"{what}; got {shortened(repr(results))} of type {type(results).__name__}", hint=hint)


def check_record(result: Any, what: str) -> None:
    """Raise TypeMismatchError if a function returned a generator instead of one record.

    The message begins with `what`, a clause that says what the function must return.
    """
    if result.__class__ is GeneratorType:
        raise TypeMismatchError(
            f"{what}; got {result!r} of type generator",
            hint="to emit many records, or none, use flat_map() with the same function.",
        )


def _can_be_iterated(value: Any) -> bool:
    try:
        iter(value)
    except TypeError:
        return False
    return True

"""What user functions may return: one record, or records one by one."""

from __future__ import annotations

from types import GeneratorType
from typing import Any

from flinkish.common.errors import TypeMismatchError
from flinkish.common.types import Row

__all__ = ["ITERABLES", "check_record", "check_results", "is_one_record", "is_table"]

#: Classes of which `check_results` need not be asked: what it let pass once. The check takes 1.4 us, the look-up 20 ns.
ITERABLES: set[type] = {GeneratorType, list, tuple}
_MOST_CLASSES = 1_000

_ONE_RECORD = (str, bytes, bytearray, memoryview, dict, Row)


def is_one_record(value: Any) -> bool:
    """Return whether a value is a single record, or a table, where records are expected one by one.

    Iterated over, a str gives its letters, bytes numbers, a dict its keys, a Row its fields, and a table its columns or their
    names: never records.

    >>> is_one_record("abc"), is_one_record(["abc"])
    (True, False)
    """
    return isinstance(value, _ONE_RECORD) or is_table(value)


def is_table(value: Any) -> bool:
    """Return whether a value is a table of columns: a DataFrame of pandas or Polars, a Table of Arrow, ..."""
    # The dataframe interchange protocol, which all of them implement, tells them without importing any.
    return hasattr(type(value), "__dataframe__")


def check_results(results: Any, what: str) -> None:
    """Raise TypeMismatchError, which begins with `what` must be returned, unless a function returned an iterable of records.

    A str, bytes, a dict, a Row or a table is one record, although Python would iterate over its parts.

    Differs from Flink: PyFlink emits these parts.
    """
    if is_one_record(results) or not _can_be_iterated(results):
        shown = repr(results)
        if len(shown) > 200:
            shown = shown[:200] + "..."
        hint = "use `yield value`, or return a list: [value] for one record, [] for none."
        if hasattr(results, "close") and hasattr(results, "cr_code"):
            results.close()  # else Python warns that it was never awaited
            hint = "an `async def` is called by AsyncDataStream only, as async_invoke of an AsyncFunction."
        raise TypeMismatchError(f"{what}; got {shown} of type {type(results).__name__}", hint=hint)
    if len(ITERABLES) < _MOST_CLASSES:  # a program that makes classes without end should not fill the memory
        ITERABLES.add(results.__class__)


def check_record(result: Any, what: str) -> None:
    """Raise TypeMismatchError, which begins with `what` must be returned, if a function returned a generator for one record."""
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

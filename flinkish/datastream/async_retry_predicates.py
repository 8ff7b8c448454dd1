"""Predicates for AsyncRetryStrategy, with PyFlink's names."""

from __future__ import annotations

from typing import Any

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]


def empty_result_predicate(result: list[Any] | None) -> bool:
    """Return whether a call returned no results.

    >>> empty_result_predicate([]), empty_result_predicate([1])
    (True, False)
    """
    return result is None or len(result) == 0


def has_exception_predicate(error: Exception | None) -> bool:
    """Return whether a call failed with any error."""
    return error is not None


def exception_type_predicate(error: Exception, expected_error_type: type[Exception]) -> bool:
    """Return whether a call failed with an error of a given type; use it with `functools.partial` or a lambda.

    >>> exception_type_predicate(ConnectionResetError(), OSError)
    True
    """
    return isinstance(error, expected_error_type)

"""Checks of arguments. Each raises an error that names the argument, says what it must be, and what it is.

`what` is an argument, such as "parallelism" or "the path of read_text_file()", which must be something, or a method, such as
"sink_to()", which needs something.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError

KindT = TypeVar("KindT")


def check(condition: bool, message: str, *, hint: str | None = None) -> None:
    """Raise InvalidProgramError unless the condition holds."""
    if not condition:
        raise InvalidProgramError(message, hint=hint)


def instance_of(what: str, value: object, kind: type[KindT], *, hint: str | None = None) -> KindT:
    """Return a value; raise InvalidArgumentError unless it is an instance of `kind`.

    >>> instance_of("side_output()", 3, str)
    Traceback (most recent call last):
    flinkish.common.errors.InvalidArgumentError: side_output() needs a str; got 3 of type int.
    """
    if not isinstance(value, kind):
        article = "an" if kind is int or kind.__name__[0] in "AEIOU" else "a"
        raise InvalidArgumentError(_message(what, f"{article} {kind.__name__}", value), hint=hint)
    return value


def text_of(what: str, value: object, *, empty: bool = False, hint: str | None = None) -> str:
    """Return a str; raise InvalidArgumentError for other values, and for the empty str unless `empty`."""
    if not isinstance(value, str) or not (value or empty):
        raise InvalidArgumentError(_message(what, "a str" if empty else "a non-empty str", value), hint=hint)
    return value


def int_of(what: str, value: object, *, minimum: int | None = None, maximum: int | None = None) -> int:
    """Return an int; raise InvalidArgumentError for other values, among them bools, and for numbers beyond the limits.

    >>> int_of("parallelism", 0, minimum=1)
    Traceback (most recent call last):
    flinkish.common.errors.InvalidArgumentError: parallelism must be an int of at least 1; got 0 of type int.
    """
    if isinstance(value, bool) or not isinstance(value, int) or not _within(value, minimum, maximum):
        raise InvalidArgumentError(_message(what, f"an int{_limits(minimum, maximum)}", value))
    return value


def number_of(what: str, value: object, *, above: float | None = None) -> float:
    """Return an int or a float; raise InvalidArgumentError for other values, among them bools, and unless it exceeds `above`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or (above is not None and not value > above):
        raise InvalidArgumentError(_message(what, "a number" if above is None else f"a number greater than {above}", value))
    return value


def bytes_of(what: str, value: object) -> bytes:
    """Return bytes or a bytearray as bytes; raise InvalidArgumentError for other values."""
    if not isinstance(value, (bytes, bytearray)):
        raise InvalidArgumentError(_message(what, "bytes", value))
    return bytes(value)


def callable_of(what: str, value: object, expected: str = "a function") -> Callable[..., Any]:
    """Return a function or other callable; raise InvalidArgumentError, which says what is expected, for other values."""
    if not callable(value):
        raise InvalidArgumentError(_message(what, expected, value))
    return value


def names_of(what: str, value: object) -> tuple[str, ...]:
    """Return names as a tuple; raise InvalidArgumentError for other values, among them a single str."""
    if not isinstance(value, Collection) or isinstance(value, str) or not all(isinstance(name, str) for name in value):
        raise InvalidArgumentError(_message(what, "a list of names (str)", value))
    return tuple(value)


def charset_of(what: str, value: str) -> str:
    """Return Python's name of a character set; raise InvalidArgumentError for other values."""
    try:
        name = codecs.lookup(value).name
        # Codecs such as "hex" have a name, too, but do not encode text.
        "\n".encode(name)
    except (LookupError, TypeError):
        hint = "use a name that Python's codecs know, such as 'UTF-8' or 'ISO-8859-1'."
        raise InvalidArgumentError(f"{what} {value!r} is not a character set that is known here", hint=hint) from None
    return name


def bool_of(what: str, value: object) -> bool:
    """Return a bool; raise InvalidArgumentError for other values."""
    return instance_of(what, value, bool)


def _within(value: int, minimum: int | None, maximum: int | None) -> bool:
    return (minimum is None or value >= minimum) and (maximum is None or value <= maximum)


def _limits(minimum: int | None, maximum: int | None) -> str:
    if maximum is None:
        return "" if minimum is None else f" of at least {minimum}"
    return f" of at most {maximum}" if minimum is None else f" from {minimum} to {maximum}"


def _message(what: str, expected: str, value: object) -> str:
    verb = "needs" if what.endswith(")") and " " not in what else "must be"
    got = f"the class {value.__qualname__}" if isinstance(value, type) else f"{value!r} of type {type(value).__name__}"
    return f"{what} {verb} {expected}; got {got}."

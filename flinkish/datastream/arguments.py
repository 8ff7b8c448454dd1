"""Checks of the arguments of API methods; each raises an error that names the argument."""

from __future__ import annotations

from datetime import timedelta

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.pickling import check_serializable
from flinkish.common.time import Time, milliseconds_of
from flinkish.common.typeinfo import HINT_OF_DATA_TYPES, RowTypeInfo, TypeInformation, Types
from flinkish.common.watermark_strategy import WatermarkStrategy
from flinkish.datastream.function_wrappers import check_returns, describe

#: Methods whose plain callable returns an iterable of records.
_MANY_RECORDS = frozenset({"flat_map", "apply"})


def check(condition: bool, message: str, *, hint: str | None = None) -> None:
    """Raise InvalidProgramError unless the condition holds."""
    if not condition:
        raise InvalidProgramError(message, hint=hint)


def milliseconds(value: object, argument: str) -> int:
    """Return an amount of time in milliseconds; raise InvalidArgumentError unless it is a Time, Duration or timedelta."""
    return milliseconds_of(value, argument, hint="for example Time.seconds(5), or Time.milliseconds(-100).")


def type_of(given: object, method: str, argument: str = "output_type") -> TypeInformation:
    """Return a type argument as a TypeInformation: None stands for any object, a list for a row."""
    if given is None:
        return Types.PICKLED_BYTE_ARRAY()
    if isinstance(given, list):
        return RowTypeInfo(given)
    if isinstance(given, TypeInformation):
        return given
    raise InvalidArgumentError(
        f"{argument} of {method}() must be None, a list of TypeInformation or a TypeInformation; got {given!r}.",
        hint=HINT_OF_DATA_TYPES
        if isinstance(getattr(given, "type_info", None), TypeInformation)
        else "take one from Types and call it: Types.STRING().",
    )


def check_function(function: object, method: str, argument: str = "function") -> None:
    """Raise NotSerializableError, which names the attribute at fault, for a function that cannot be pickled.

    Raises InvalidArgumentError for a function whose results can never be valid: an `async def`, or a generator function that
    should return one value.
    """
    check_returns(function, method, many=method in _MANY_RECORDS)
    check_serializable(function, f"the {argument} of {method}(), {describe(function)},")


def check_kind(function: object, kind: type, method: str, *, hint: str | None = None) -> None:
    """Raise InvalidArgumentError unless a function is an instance of `kind`, and check it as `check_function` does."""
    if isinstance(function, type) and issubclass(function, kind):
        raise InvalidArgumentError(
            f"{method}() needs a {kind.__name__}; got the class {function.__qualname__} itself.",
            hint=f"pass an instance: {function.__name__}().",
        )
    if not isinstance(function, kind):
        raise InvalidArgumentError(f"{method}() needs a {kind.__name__}; got {describe(function)}.", hint=hint)
    check_function(function, method)


def check_strategy(strategy: object, method: str) -> None:
    """Raise an error unless the argument is a WatermarkStrategy that can be pickled."""
    if not isinstance(strategy, WatermarkStrategy):
        raise InvalidArgumentError(
            f"{method}() needs a WatermarkStrategy; got {strategy!r} of type {type(strategy).__name__}.",
            hint="for example WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)), or no_watermarks().",
        )
    check_serializable(strategy, f"the watermark strategy of {method}()")


def text_of(value: object, argument: str) -> str:
    """Return a str; raise an error if it is none, or is empty and no description."""
    if not isinstance(value, str) or (not value and argument != "description"):
        raise InvalidArgumentError(f"{argument} must be a non-empty str; got {value!r}.")
    return value


def int_of(value: object, argument: str) -> int:
    """Return an int; raise InvalidArgumentError for other values."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidArgumentError(f"{argument} must be an int; got {value!r} of type {type(value).__name__}.")
    return value


def size_in_ms(time: object, argument: str, method: str) -> int:
    """Return a size in milliseconds; raise InvalidArgumentError unless it is a Time or timedelta."""
    return milliseconds_of(
        time, f"{argument} of {method}()", kinds=(Time,), rule="must be a Time", hint="for example Time.seconds(5)."
    )


def sizes_in_ms(method: str, **times: Time | timedelta | None) -> list[int]:
    """Return sizes in milliseconds; an `offset` of None is 0."""
    return [0 if name == "offset" and time is None else size_in_ms(time, name, method) for name, time in times.items()]


def record_count(number: object, what: str) -> int:
    """Return a number of records; raise an error unless it is an int of at least 1."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise InvalidArgumentError(f"{what} needs an int; got {number!r} of type {type(number).__name__}.")
    if number < 1:
        raise InvalidProgramError(f"{what} needs at least 1 record; got {number}.")
    return number

"""Function objects around plain callables, so that what follows deals with one kind of thing.

Each wrapper shadows its method with the callable itself: calling `function.map` costs one Python call, not two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flinkish.common.errors import InvalidArgumentError
from flinkish.datastream.functions import (
    FilterFunction,
    FlatMapFunction,
    Function,
    KeySelector,
    MapFunction,
    Partitioner,
    ReduceFunction,
)


class MapFunctionWrapper(MapFunction):
    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.map = function  # type: ignore[method-assign, assignment]

    def map(self, value: Any) -> Any:
        raise AssertionError("replaced by the constructor")


class FlatMapFunctionWrapper(FlatMapFunction):
    def __init__(self, function: Callable[[Any], Iterable[Any]]) -> None:
        self.flat_map = function  # type: ignore[method-assign, assignment]

    def flat_map(self, value: Any) -> Iterable[Any]:
        raise AssertionError("replaced by the constructor")


class FilterFunctionWrapper(FilterFunction):
    def __init__(self, function: Callable[[Any], bool]) -> None:
        self.filter = function  # type: ignore[method-assign, assignment]

    def filter(self, value: Any) -> bool:
        raise AssertionError("replaced by the constructor")


class ReduceFunctionWrapper(ReduceFunction):
    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        self.reduce = function  # type: ignore[method-assign, assignment]

    def reduce(self, value1: Any, value2: Any) -> Any:
        raise AssertionError("replaced by the constructor")


def map_function(function: object, method: str) -> MapFunction:
    """Return `function` as a MapFunction; `method` names the caller in the error."""
    if isinstance(function, MapFunction):
        return function
    return MapFunctionWrapper(_callable(function, "a MapFunction", method))


def flat_map_function(function: object, method: str) -> FlatMapFunction:
    """Return `function` as a FlatMapFunction."""
    if isinstance(function, FlatMapFunction):
        return function
    return FlatMapFunctionWrapper(_callable(function, "a FlatMapFunction", method))


def filter_function(function: object, method: str) -> FilterFunction:
    """Return `function` as a FilterFunction."""
    if isinstance(function, FilterFunction):
        return function
    return FilterFunctionWrapper(_callable(function, "a FilterFunction", method))


def reduce_function(function: object, method: str) -> ReduceFunction:
    """Return `function` as a ReduceFunction."""
    if isinstance(function, ReduceFunction):
        return function
    return ReduceFunctionWrapper(_callable(function, "a ReduceFunction", method))


def key_selector(selector: object, method: str) -> Callable[[Any], Any]:
    """Return what computes keys: the callable itself, or the bound `get_key` of a KeySelector (see `function_behind`)."""
    if isinstance(selector, KeySelector):
        return selector.get_key
    return _callable(selector, "a KeySelector", method)


def partitioner(function: object, method: str) -> Callable[[Any, int], int]:
    """Return what chooses partitions: the callable itself, or the bound `partition` of a Partitioner."""
    if isinstance(function, Partitioner):
        return function.partition
    return _callable(function, "a Partitioner", method)


def function_behind(function: Callable[..., Any] | None) -> Function | None:
    """Return the Function object that a selector or partitioner is a method of, for `open` and `close`; None if there is none."""
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, Function) else None


def _callable(function: object, kind: str, method: str) -> Callable[..., Any]:
    if isinstance(function, Function):
        raise InvalidArgumentError(f"{method}() needs {kind} or a callable; got {describe(function)}, another kind of function.")
    if isinstance(function, type) and issubclass(function, Function):
        raise InvalidArgumentError(
            f"{method}() needs {kind} or a callable; got the class {function.__qualname__} itself.",
            hint=f"pass an instance: {function.__name__}().",
        )
    if not callable(function):
        raise InvalidArgumentError(f"{method}() needs {kind} or a callable; got {function!r}.")
    return function


def describe(function: object) -> str:
    """Name a user function by where it is written: `module.qualname line N`, or its class."""
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is not None:
        return f"{function.__module__}.{getattr(function, '__qualname__', '?')} line {code.co_firstlineno}"
    return f"an instance of {type(function).__module__}.{type(function).__qualname__}"

"""Function objects that wrap plain callables, so that later code handles function objects only.

Each wrapper replaces its method by the callable itself, so that `function.map(value)` costs one Python call, not two.
"""

from __future__ import annotations

import dis
import inspect
import itertools
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from flinkish.common.absent import AbsentMember
from flinkish.common.arguments import instance_of
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.pickling import check_serializable
from flinkish.common.typeinfo import TypeInformation
from flinkish.common.watermark_strategy import WatermarkStrategy
from flinkish.udf.functions import (
    AggregateFunction,
    AsyncFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeySelector,
    MapFunction,
    Partitioner,
    ReduceFunction,
)

FunctionT = TypeVar("FunctionT", bound=Function)

#: Methods whose plain callable returns an iterable of records.
_MANY_RECORDS = frozenset({"flat_map", "apply"})


def _wrapper(kind: type[FunctionT], method: str) -> Callable[[Callable[..., Any]], FunctionT]:
    """Return a class of function objects whose method is the callable that they are made of."""

    def __init__(self: Any, function: Callable[..., Any]) -> None:
        setattr(self, method, function)

    # The class needs the method, because its base has an abstract one.
    members = {"__init__": __init__, method: None, "__module__": __name__}
    return type(f"{kind.__name__}Wrapper", (kind,), members)


MapFunctionWrapper = _wrapper(MapFunction, "map")
FlatMapFunctionWrapper = _wrapper(FlatMapFunction, "flat_map")
FilterFunctionWrapper = _wrapper(FilterFunction, "filter")
ReduceFunctionWrapper = _wrapper(ReduceFunction, "reduce")


def map_function(function: object, method: str) -> MapFunction:
    """Return `function` as a MapFunction; `method` is the name of the API method in error messages."""
    return _as(MapFunction, MapFunctionWrapper, function, method)


def flat_map_function(function: object, method: str) -> FlatMapFunction:
    """Return `function` as a FlatMapFunction."""
    return _as(FlatMapFunction, FlatMapFunctionWrapper, function, method)


def filter_function(function: object, method: str) -> FilterFunction:
    """Return `function` as a FilterFunction."""
    return _as(FilterFunction, FilterFunctionWrapper, function, method)


def reduce_function(function: object, method: str) -> ReduceFunction:
    """Return `function` as a ReduceFunction."""
    return _as(ReduceFunction, ReduceFunctionWrapper, function, method)


def _as(kind: type[FunctionT], wrapper: Callable[[Callable[..., Any]], FunctionT], function: object, method: str) -> FunctionT:
    return function if isinstance(function, kind) else wrapper(_callable(function, f"a {kind.__name__}", method))


def key_selector(selector: object, method: str) -> Callable[[Any], Any]:
    """Check a key selector; return its function: the callable, or the bound `get_key` of a KeySelector."""
    found = selector.get_key if isinstance(selector, KeySelector) else _callable(selector, "a KeySelector", method)
    check_function(selector, method, "key_selector")
    return found


def partitioner(function: object, method: str) -> Callable[[Any, int], int]:
    """Check a partitioner; return its function: the callable, or the bound `partition` of a Partitioner."""
    found = function.partition if isinstance(function, Partitioner) else _callable(function, "a Partitioner", method)
    check_function(function, method, "partitioner")
    return found


def function_behind(function: Callable[..., Any] | None) -> Function | None:
    """Return the object whose bound method a selector or partitioner is, for `open` and `close`; None for a plain callable."""
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, Function) else None


def _callable(function: object, kind: str, method: str) -> Callable[..., Any]:
    if isinstance(function, Function):
        raise InvalidArgumentError(f"{method}() needs {kind} or a callable; got {describe(function)}, another kind of function.")
    _refuse_class(function, Function, f"{method}() needs {kind} or a callable")
    if not callable(function):
        raise InvalidArgumentError(f"{method}() needs {kind} or a callable; got {function!r}.", hint=_meant(function, kind))
    return function


def _refuse_class(function: object, kind: type, needed: str) -> None:
    if isinstance(function, type) and issubclass(function, kind):
        raise InvalidArgumentError(
            f"{needed}; got the class {function.__qualname__} itself.", hint=f"pass an instance: {function.__name__}()."
        )


def _meant(given: object, kind: str) -> str | None:
    """Return a hint for an argument that is no function, such as a field name, which SQL, Flink's Java API and pandas accept."""
    if given is None:
        return "pass the function itself: f, not f()."
    if isinstance(given, TypeInformation):
        return "the function comes first, and its type after it."
    if kind == "a Partitioner":
        return "for example lambda key, subtasks: key % subtasks."
    if kind == "a ReduceFunction":
        return "for example lambda one, other: one + other; a KeyedStream has sum(), min() and max(), which take a field."
    if kind == "a FilterFunction":
        return "write the condition as a function, such as lambda row: row.price > 10."
    fields = given if isinstance(given, (list, tuple)) else [given]
    if not fields or not all(isinstance(field, int) or (isinstance(field, str) and field.strip()) for field in fields):
        return None
    read = ", ".join(f"row.{field}" if str(field).isidentifier() else f"row[{field!r}]" for field in fields)
    return f"write it as a function: lambda row: {f'({read})' if len(fields) > 1 else read}."


#: The methods of functions that return one value; all others return many records, or nothing.
_ONE_VALUE: tuple[tuple[type[Function], tuple[str, ...]], ...] = (
    (MapFunction, ("map",)),
    (CoMapFunction, ("map1", "map2")),
    (FilterFunction, ("filter",)),
    (ReduceFunction, ("reduce",)),
    (AggregateFunction, ("create_accumulator", "add", "get_result", "merge")),
    (KeySelector, ("get_key",)),
    (Partitioner, ("partition",)),
)


def check_returns(function: object, method: str, *, many: bool) -> None:
    """Raise InvalidArgumentError for an `async def`, and for a generator function that must return one value.

    With `many`, a plain callable must return an iterable of records.
    """
    if not isinstance(function, Function):
        _check_call(function, function, method, many)
        return
    if isinstance(function, AsyncFunction):
        return
    single = {name for kind, names in _ONE_VALUE if isinstance(function, kind) for name in names}
    # Check only the methods that flinkish calls; the user's own methods may be of any kind.
    called = {
        name
        for kind in type(function).__mro__
        if kind.__module__.startswith("flinkish.")
        for name, member in vars(kind).items()
        if not isinstance(member, AbsentMember)
    }
    for name in sorted(called):
        if not name.startswith("_"):
            _check_call(getattr(type(function), name), function, method, name not in single)


def _check_call(call: object, function: object, method: str, many: bool) -> None:
    column_function = _column_function(call)
    if column_function is not None:
        raise InvalidArgumentError(
            f"{method}() cannot call pyspark.sql.functions.{column_function}, which makes a Column of a DataFrame; "
            f"in {describe(function)}.",
            hint="write it in Python, such as str.upper or lambda row: row.name.upper(), or apply it to the DataFrame before "
            "from_data_frame(df).",
        )
    # inspect does not look at the __call__ method of an object.
    calls = call, type(call).__call__
    if any(inspect.iscoroutinefunction(part) or inspect.isasyncgenfunction(part) for part in calls):
        raise InvalidArgumentError(
            f"{method}() cannot call an `async def`: {describe(call)}, in {describe(function)}.",
            hint="AsyncDataStream.unordered_wait(stream, function, timeout) calls the async_invoke of an AsyncFunction.",
        )
    if not many and any(map(inspect.isgeneratorfunction, calls)):
        raise InvalidArgumentError(
            f"{method}() needs a function that returns one value; got a generator function, which has `yield`: {describe(call)}.",
            hint="return the value; to emit many records, or none, use flat_map().",
        )


def _column_function(call: object) -> str | None:
    """Return the name of the function of columns that a callable is or calls, such as F.upper; None if there is none."""
    if _is_of_columns(call):
        return str(getattr(call, "__name__", call))
    code = getattr(call, "__code__", None)
    if code is None or "pyspark.sql.functions" not in sys.modules:
        return None
    # Only what is loaded as a variable: `text.upper()` has the name of a function, too.
    for loads, follows in itertools.pairwise(dis.get_instructions(code)):
        if loads.opname == "LOAD_GLOBAL":
            value = getattr(call, "__globals__", {}).get(loads.argval)
            if _is_of_columns(value):
                return str(loads.argval)
            if inspect.ismodule(value) and value.__name__.startswith("pyspark.sql.functions"):
                return str(follows.argval)
    return None


def _is_of_columns(value: object) -> bool:
    return inspect.isfunction(value) and (value.__module__ or "").startswith("pyspark.sql.functions")


def describe(function: object) -> str:
    """Return a name for a user function: `module.qualname line N`, or the class of the object.

    >>> describe(dict), describe({})
    ('the class builtins.dict', 'an instance of builtins.dict')
    """
    if isinstance(function, type):
        return f"the class {function.__module__}.{function.__qualname__}"
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is not None:
        return f"{function.__module__}.{getattr(function, '__qualname__', '?')} line {code.co_firstlineno}"
    return f"an instance of {type(function).__module__}.{type(function).__qualname__}"


def check_function(function: object, method: str, argument: str = "function") -> None:
    """Raise NotSerializableError, which names the attribute at fault, for a function that cannot be pickled.

    Raises InvalidArgumentError for a function whose results can never be valid: an `async def`, or a generator function that
    should return one value.
    """
    check_returns(function, method, many=method in _MANY_RECORDS)
    check_serializable(function, f"the {argument} of {method}(), {describe(function)},")


def check_kind(function: object, kind: type, method: str, *, hint: str | None = None) -> None:
    """Raise InvalidArgumentError unless a function is an instance of `kind`, and check it as `check_function` does."""
    _refuse_class(function, kind, f"{method}() needs a {kind.__name__}")
    if not isinstance(function, kind):
        raise InvalidArgumentError(f"{method}() needs a {kind.__name__}; got {describe(function)}.", hint=hint)
    check_function(function, method)


def check_strategy(strategy: object, method: str) -> None:
    """Raise an error unless the argument is a WatermarkStrategy that can be pickled."""
    hint = "for example WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_seconds(5)), or no_watermarks()."
    instance_of(f"{method}()", strategy, WatermarkStrategy, hint=hint)
    check_serializable(strategy, f"the watermark strategy of {method}()")

"""Emits the results of user functions to the main output and side outputs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import GeneratorType
from typing import Any

from flinkish.common.kinds import Kind, kind_of
from flinkish.common.records import check_results
from flinkish.runtime.elements import Emit
from flinkish.runtime.operators.base import converting, discard
from flinkish.runtime.operators.function import FunctionOperator
from flinkish.runtime.protocol import WARNING
from flinkish.udf.function_wrappers import describe
from flinkish.udf.output_tag import OutputTag

EmitResults = Callable[[Any, int | None], None]

#: Maximum number of accepted classes, as a program may create classes without end.
_MOST_CLASSES = 1_000
#: The methods of functions that return an iterable of records.
_METHODS = (
    *("flat_map", "flat_map1", "flat_map2", "process_element", "process_element1", "process_element2", "on_timer"),
    *("process_broadcast_element", "apply", "process", "async_invoke", "timeout"),
)


class ResultsCheck:
    """Checks that a function returned an iterable of records, once for each class of results.

    Callers first look for the class in `accepted`, which takes 20 ns; a check takes 1.4 us.

    A plain tuple may be one record or several. If the operator's declared type is a tuple or row, it is refused. If none is
    declared, its elements are records, as in PyFlink, and the driver logs one warning.
    """

    def __init__(self, operator: FunctionOperator[Any], what: str) -> None:
        self.accepted: set[type] = {GeneratorType, list}
        self._operator = operator
        self._what = what
        self._kind = kind_of(operator.node.output_type)

    def __call__(self, results: Any) -> None:
        # A pair of a tag and a value is one record, whatever the type of the main output is.
        is_record = self._kind in (Kind.TUPLE, Kind.ROW) or is_tagged(results)
        check_results(results, self._what, tuple_is_record=is_record)
        if results.__class__ is tuple:
            if not results:
                return
            if self._kind is Kind.PICKLED:
                self._warn()
        if len(self.accepted) < _MOST_CLASSES:
            self.accepted.add(results.__class__)

    def _warn(self) -> None:
        node = self._operator.node
        text = (
            f"{_returning(self._operator.function)}, of operator {node.name!r} (uid {node.uid}), returned a tuple, and each of "
            "its elements became a record. If the tuple is one record, `yield` it or return it in a list; if its elements are "
            "records, return a list of them."
        )
        self._operator.context.to_driver(node.uid, WARNING, [text], None)


def _returning(function: Any) -> str:
    """Return the names and lines of the user's methods that can have returned a tuple."""
    methods = [getattr(function, name, None) for name in _METHODS]
    own = [method for method in methods if inspect.isroutine(method) and not method.__module__.startswith("flinkish.")]
    return " or ".join(describe(method) for method in own if not inspect.isgeneratorfunction(method)) or describe(function)


def is_tagged(result: Any) -> bool:
    """Return whether a result is a pair of the tag of a side output and a value."""
    return result.__class__ is tuple and len(result) == 2 and isinstance(result[0], OutputTag)


def tagged_emit(operator: FunctionOperator[Any]) -> Emit:
    """Return an `emit` for one result of an operator that also takes pairs (OutputTag, value).

    For operators whose side outputs are seldom read: they use it only where one is.
    """
    emit, side = operator.emit, _side_outputs(operator)

    def emit_tagged(result: Any, timestamp: int | None) -> None:
        if is_tagged(result):
            side.get(result[0].tag_id, discard)(result[1], timestamp)
        else:
            emit(result, timestamp)

    return emit_tagged


def results_emitter(operator: FunctionOperator[Any]) -> EmitResults:
    """Return a function that emits all results of a user function: an iterable of values and of (OutputTag, value) pairs.

    Differs from Flink: a pair whose tag has no reader is dropped instead of becoming a record of the main output.
    """
    emit, side = operator.emit, _side_outputs(operator)
    check = ResultsCheck(operator, f"{operator.node.name} must return None or an iterable of results")
    accepted = check.accepted

    def emit_results(results: Any, timestamp: int | None) -> None:
        if results.__class__ not in accepted:
            check(results)
        for result in results:
            if result.__class__ is tuple and len(result) == 2 and isinstance(result[0], OutputTag):
                side.get(result[0].tag_id, discard)(result[1], timestamp)
            else:
                emit(result, timestamp)

    return emit_results


def _side_outputs(operator: FunctionOperator[Any]) -> dict[str, Emit]:
    """Return the `emit` of each side output that is read, by the id of its tag."""
    types = operator.side_types()
    return {
        tag: converting(target, type_info) if (type_info := types.get(tag)) else target
        for tag, target in operator.output.side.items()
    }

"""The base classes of operators that have a user function, and how the function's results are emitted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import GeneratorType
from typing import Any, Generic, TypeVar, cast

from flinkish.common.kinds import Kind, kind_of
from flinkish.common.records import check_results
from flinkish.runtime.elements import Emit, Records
from flinkish.runtime.operators.base import Operator, OperatorContext, converting, discard
from flinkish.runtime.operators.runtime_context import TaskRuntimeContext, initialize_state
from flinkish.runtime.protocol import WARNING
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.udf.function_wrappers import describe
from flinkish.udf.functions import Function
from flinkish.udf.output_tag import OutputTag

ConfigT = TypeVar("ConfigT", bound=Any)


class _NoScope:
    current_key: Any = None


class FunctionOperator(Operator, Generic[ConfigT]):
    """Opens and closes a user function; gives it keyed state if the operator's input is keyed."""

    def __init__(self, context: OperatorContext) -> None:
        super().__init__(context)
        self.config = cast("ConfigT", context.node.operator)
        self.function: Any = self.config.function
        self.backend: KeyedStateBackend | None = None
        #: Gets the key of each record: the backend if there is one.
        self.scope: Any = _NoScope()
        if context.node.key_type is not None:
            self.scope = self.backend = KeyedStateBackend(
                context.state, context.node.key_type, context.vertex.max_parallelism, context.time.now
            )
        self._opened = False

    def open(self) -> None:
        self._opened = True
        runtime_context = TaskRuntimeContext(self.context, self.backend)
        initialize_state(self.function, self.context, runtime_context)
        self.function.open(runtime_context)

    def close(self) -> None:
        if self._opened:
            self._opened = False
            self.function.close()

    def closes(self) -> bool:
        return self._opened and type(self.function).close is not Function.close

    def expect(self, keys: Sequence[Any]) -> None:
        if self.backend is not None:
            self.backend.expect(keys)

    def process_records(self, input_index: int, records: Records) -> None:
        backend = self.backend
        if backend is None:
            super().process_records(input_index, records)
            return
        process = self.process
        for value, timestamp, key in keyed(records):
            backend.current_key = key
            process(value, timestamp)


def keyed(records: Records) -> zip[tuple[Any, int | None, Any]]:
    """Return (value, timestamp, key) of each record of a run; None for timestamps and keys that there are not."""
    values, timestamps, keys = records
    nothing = [None] * len(values)
    return zip(values, nothing if timestamps is None else timestamps, nothing if keys is None else keys, strict=True)


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
    emit, side = operator.emit, side_outputs(operator)

    def emit_tagged(result: Any, timestamp: int | None) -> None:
        if is_tagged(result):
            side.get(result[0].tag_id, discard)(result[1], timestamp)
        else:
            emit(result, timestamp)

    return emit_tagged


def results_emitter(operator: FunctionOperator[Any]) -> Emit:
    """Return a function that emits all results of a user function: an iterable of values and of (OutputTag, value) pairs.

    Differs from Flink: a pair whose tag has no reader is dropped instead of becoming a record of the main output.
    """
    emit, side = operator.emit, side_outputs(operator)
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


class ResultsOperator(FunctionOperator[ConfigT]):
    """An operator whose function returns iterables of results, which may be for side outputs."""

    emit_results: Emit

    def open(self) -> None:
        self.emit_results = results_emitter(self)
        super().open()

    def process_each(self, method: Callable[[Any, Any], Any], context: Any, records: Records) -> None:
        """Call a method of the user function for each record of a run, and emit its results."""
        scope, emit_results = self.scope, self.emit_results
        for value, timestamp, key in keyed(records):
            scope.current_key = key
            context.element_timestamp = timestamp
            results = method(value, context)
            if results is not None:
                emit_results(results, timestamp)


def side_outputs(operator: FunctionOperator[Any]) -> dict[str, Emit]:
    """Return the `emit` of each side output that is read, by the id of its tag: records have the type with which it is read."""
    side = operator.output.side
    return {tag.tag_id: converting(side[tag.tag_id], tag.type_info) for tag in operator.context.side_outputs}

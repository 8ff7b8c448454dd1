"""Operators that call a function for each record: map, flat_map, filter, process and reduce, with one input and with two.

An operator has one context object for its function, which is updated for each record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import GeneratorType
from typing import TYPE_CHECKING, Any

from flinkish.common.columns import Columns
from flinkish.common.conversion import converter, mapping, shortest_floats
from flinkish.common.errors import StateError, TypeMismatchError
from flinkish.common.records import check_record
from flinkish.program.operators import (
    CoFlatMapConfig,
    CoMapConfig,
    CoProcessConfig,
    FilterConfig,
    FlatMapConfig,
    KeyedCoProcessConfig,
    KeyedProcessConfig,
    MapConfig,
    ProcessConfig,
    ReduceConfig,
)
from flinkish.runtime.elements import Emit, Records
from flinkish.runtime.keys import CanonicalKey, original_key
from flinkish.runtime.operators.base import Operator, Output, discard
from flinkish.runtime.operators.function import ConfigT, FunctionOperator, ResultsCheck, ResultsOperator, keyed, tagged_emit
from flinkish.runtime.operators.timed import UserTimerOperator
from flinkish.runtime.operators.timestamps import timer_time
from flinkish.runtime.operators.waiting import GatheringOperator
from flinkish.runtime.protocol import MIN_WATERMARK
from flinkish.runtime.state.handles import Fold
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.udf.functions import CoProcessFunction, KeyedCoProcessFunction, KeyedProcessFunction, ProcessFunction
from flinkish.udf.state import ValueStateDescriptor
from flinkish.udf.time_domain import TimeDomain
from flinkish.udf.timerservice import TimerService

if TYPE_CHECKING:
    from flinkish.runtime.operators.column_reduce import ColumnReduce


class _TimesOnly(TimerService):
    """The timer service of operators without keys, which returns times but refuses timers."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._now = operator.context.time.now

    def current_processing_time(self) -> int:
        return self._now()

    def current_watermark(self) -> int:
        return self._operator.current_watermark

    def register_event_time_timer(self, timestamp: int) -> None:
        self._refuse("register_event_time_timer")

    def register_processing_time_timer(self, timestamp: int) -> None:
        self._refuse("register_processing_time_timer")

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._refuse("delete_event_time_timer")

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._refuse("delete_processing_time_timer")

    def _refuse(self, method: str) -> None:
        raise StateError(
            f"{method}() of operator {self._operator.node.name!r}: timers can only be set on keyed streams",
            hint="put key_by(...) before this operator.",
        )


class _KeyedTimers(_TimesOnly):
    """Timers of the current key."""

    def __init__(self, operator: Operator, backend: KeyedStateBackend) -> None:
        super().__init__(operator)
        self._backend = backend
        timers = backend.timers()
        self._event_time, self._processing_time = timers.event_time, timers.processing_time

    def register_event_time_timer(self, timestamp: int) -> None:
        if not self._operator.quiesced:
            self._event_time.register(timer_time(timestamp, "register_event_time_timer"), self._backend.current_key)

    def register_processing_time_timer(self, timestamp: int) -> None:
        if not self._operator.quiesced:
            self._processing_time.register(timer_time(timestamp, "register_processing_time_timer"), self._backend.current_key)

    def delete_event_time_timer(self, timestamp: int) -> None:
        self._event_time.delete(timer_time(timestamp, "delete_event_time_timer"), self._backend.current_key)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        self._processing_time.delete(timer_time(timestamp, "delete_processing_time_timer"), self._backend.current_key)


class ElementContext:
    """Has the timestamp of the current record; None is shown as Long.MIN, as in PyFlink."""

    def __init__(self, operator: Operator) -> None:
        self.element_timestamp: int | None = None
        self._timer_service: TimerService = _TimesOnly(operator)

    def timestamp(self) -> int:
        timestamp = self.element_timestamp
        return MIN_WATERMARK if timestamp is None else timestamp

    def timer_service(self) -> TimerService:
        return self._timer_service


class KeyedContext(ElementContext):
    def __init__(self, operator: Operator, backend: KeyedStateBackend) -> None:
        super().__init__(operator)
        self._backend = backend
        self._timer_service = _KeyedTimers(operator, backend)
        self.domain = TimeDomain.EVENT_TIME

    def get_current_key(self) -> Any:
        key = self._backend.current_key
        return original_key(key) if key.__class__ is CanonicalKey else key

    def time_domain(self) -> TimeDomain:
        return self.domain


class ProcessContext(ElementContext, ProcessFunction.Context):
    """The context of ProcessFunction."""


class CoProcessContext(ElementContext, CoProcessFunction.Context):
    """The context of CoProcessFunction."""


class KeyedProcessContext(KeyedContext, KeyedProcessFunction.OnTimerContext):
    """The context of process_element and on_timer of KeyedProcessFunction."""


class KeyedCoProcessContext(KeyedContext, KeyedCoProcessFunction.OnTimerContext):
    """The context of process_element1, process_element2 and on_timer of KeyedCoProcessFunction."""


def _unconverted(self: object, function: Callable[[Any], Any], values: Iterable[Any]) -> Iterator[Any]:
    """Like a function made by `mapping`, but the edge converts the results."""
    for record in values:
        yield function(record)


class MapOperator(FunctionOperator[MapConfig]):
    def connect(self, output: Output) -> None:
        super().connect(output)
        emit, function = output.main, self.function
        convert = None if output.converts else converter(self.node.output_type)
        if output.side:
            emit, convert = tagged_emit(self), None
        what = f"map of {self.node.name!r} must return a record"

        # `function.map` is looked up for each record, because open() may set it.
        def process(value: Any, timestamp: int | None, self: MapOperator = self) -> None:
            result = function.map(value)
            if result.__class__ is GeneratorType:
                check_record(result, what)
            emit(result, timestamp)

        def process_and_convert(value: Any, timestamp: int | None, self: MapOperator = self) -> None:
            emit(convert(function.map(value)), timestamp)  # type: ignore[misc]

        self.process = process if convert is None else process_and_convert
        self._mapping = _unconverted if output.converts else mapping(self.node.output_type, what)

    def process_run(self, values: Iterable[Any]) -> None:
        if self.output.side:
            super().process_run(values)
        else:
            self.output.main_run(self._mapping(self, self.function.map, values))


class FlatMapOperator(FunctionOperator[FlatMapConfig]):
    def open(self) -> None:
        super().open()
        self._flat_map = self.function.flat_map
        self._check = ResultsCheck(self, f"flat_map of {self.node.name!r} must return an iterable of results")
        self._accepted = self._check.accepted
        if self.output.side:
            self.emit = tagged_emit(self)

    def process(self, value: Any, timestamp: int | None) -> None:
        emit = self.emit
        results = self._flat_map(value)
        if results.__class__ not in self._accepted:
            self._check(results)
        for result in results:
            emit(result, timestamp)


class FilterOperator(FunctionOperator[FilterConfig]):
    passes_through = True

    def process_run(self, values: Iterable[Any]) -> None:
        self.emit_run(self._passing(values))

    def _passing(self, values: Iterable[Any]) -> Iterator[Any]:
        passes = self.function.filter
        for value in values:
            if passes(value):
                yield value

    def connect(self, output: Output) -> None:
        super().connect(output)
        emit, function = self.emit, self.function

        def process(value: Any, timestamp: int | None, self: FilterOperator = self) -> None:
            if function.filter(value):
                emit(value, timestamp)

        self.process = process


class DeduplicateOperator(GatheringOperator, FilterOperator):
    """Passes the first record of each key."""

    backend: KeyedStateBackend

    def process_gathered(self, columns: Columns) -> bool:
        import numpy as np

        table, _ = self.backend.table_of(self.function.seen)
        codes, keys = columns.groups()
        self.expect(keys)
        first = np.empty(len(keys), np.int64)
        first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)
        fresh = [number for number, seen in enumerate(table.get_all(keys)) if not seen]
        table.put_all([keys[number] for number in fresh], [True] * len(fresh))
        self.output.columns(columns.take(np.sort(first[fresh])))
        return True


class TopNOperator(GatheringOperator, FlatMapOperator):
    """Emits the changes of the first records of each key; in batch mode, only the records in the end, without timestamps."""

    backend: KeyedStateBackend

    def open(self) -> None:
        super().open()
        self._emit_last = self.emit
        if self.context.batch:
            self.emit = discard

    def process_gathered(self, columns: Columns) -> bool:
        """Drop the records that were not among the first even before this run; take the others one by one."""
        import pyarrow as pa
        import pyarrow.compute as pc

        bounds, _ = self.backend.table_of(self.function.bound)
        codes, keys = columns.groups()
        self.expect(keys)
        position = columns.layout.names.index(self.function.field)
        try:
            bound = columns.layout.column(position, list(map(bounds.get, keys)))
        except TypeMismatchError:  # a value that no column can hold
            return False
        stays_out = pc.greater_equal if self.function.ascending else pc.less_equal
        out = stays_out(columns.column(position), bound.take(pa.array(codes)))
        Operator.process_columns(self, columns.filter(pc.invert(out.fill_null(False))))
        return True

    def end_key(self) -> None:
        for record in self.function.records():
            self._emit_last(record, None)


class ProcessOperator(ResultsOperator[ProcessConfig]):
    def open(self) -> None:
        super().open()
        self._process_element = self.function.process_element
        self._context = ProcessContext(self)

    def process(self, value: Any, timestamp: int | None) -> None:
        self._context.element_timestamp = timestamp
        results = self._process_element(value, self._context)
        if results is not None:
            self.emit_results(results, timestamp)


class KeyedProcessOperator(UserTimerOperator[KeyedProcessConfig]):
    def open(self) -> None:
        self.timer_context = KeyedProcessContext(self, self.backend)
        super().open()

    def process_records(self, input_index: int, records: Records) -> None:
        self.process_each(self.function.process_element, self.timer_context, records)


class ReduceOperator(GatheringOperator, FunctionOperator[ReduceConfig]):
    """Emits the new value for every record; in batch mode, only the last value of each key, without a timestamp."""

    backend: KeyedStateBackend

    def open(self) -> None:
        super().open()
        output_type = self.node.output_type
        self._table, self._convert = self.backend.table_of(ValueStateDescriptor("_reduce_state", output_type))
        self._reduce = self.function.reduce
        self._fold = Fold(self.function, repr(self.node.name))
        # A value converted for the state needs no second conversion for the output, unless it could be changed there, or has a
        # FLOAT, which only the output rounds.
        converted = self._table.codec.immutable and shortest_floats(output_type) is None
        emit = self.output.main if converted else self.emit
        self._emit_reduced = discard if self.context.batch else emit
        #: What reduces columns; made with the first ones, so that only jobs that have some import Arrow.
        self._columns: ColumnReduce | None = None

    def process_records(self, input_index: int, records: Records) -> None:
        self.flush()
        table, reduce, convert, emit = self._table, self._reduce, self._convert, self._emit_reduced
        backend = self.backend
        for value, timestamp, key in keyed(records):
            backend.current_key = key
            reduced = table.get(key)
            reduced = value if reduced is None else reduce(reduced, value)
            if reduced is None:
                self._fold.refuse_nothing(value)
            if convert is not None:
                reduced = convert(reduced)
            table.put(key, reduced)
            emit(reduced, timestamp)

    def process_gathered(self, columns: Columns) -> bool:
        if self._columns is None:
            from flinkish.runtime.operators.column_reduce import ColumnReduce

            self._columns = ColumnReduce(self.function, columns.layout)
        codes, keys = columns.groups()
        self.expect(keys)
        table = self._table
        found = self._columns.reduce(codes, list(map(table.get, keys)), columns)
        if found is None:
            return False
        reduced, last = found
        for key, record in zip(keys, last, strict=True):
            table.put(key, record)
        self.output.columns(Columns(columns.layout, reduced, columns.timestamps))
        return True

    def end_key(self) -> None:
        self.emit(self._table.get(self.backend.current_key), None)


class _TwoInputOperator(FunctionOperator[ConfigT]):
    _inputs: tuple[Emit, Emit]

    def process_records(self, input_index: int, records: Records) -> None:
        process, scope = self._inputs[input_index], self.scope
        for value, timestamp, key in keyed(records):
            scope.current_key = key
            process(value, timestamp)


class CoMapOperator(_TwoInputOperator[CoMapConfig]):
    """Calls map1 and map2; a result of None is not emitted."""

    def open(self) -> None:
        super().open()
        self._inputs = (self._mapping(self.function.map1), self._mapping(self.function.map2))

    def _mapping(self, function: Callable[[Any], Any]) -> Emit:
        emit, what = self.emit, f"map of {self.node.name!r} must return a record or None"
        if self.output.side:
            emit = tagged_emit(self)

        def process(value: Any, timestamp: int | None, self: CoMapOperator = self) -> None:
            result = function(value)
            if result is not None:
                if result.__class__ is GeneratorType:
                    check_record(result, what)
                emit(result, timestamp)

        return process


class CoFlatMapOperator(_TwoInputOperator[CoFlatMapConfig]):
    def open(self) -> None:
        super().open()
        self._inputs = (self._flattening(self.function.flat_map1), self._flattening(self.function.flat_map2))

    def _flattening(self, function: Callable[[Any], Any]) -> Emit:
        emit = self.emit
        check = ResultsCheck(self, f"flat_map of {self.node.name!r} must return None or an iterable of results")
        accepted = check.accepted
        if self.output.side:
            emit = tagged_emit(self)

        def process(value: Any, timestamp: int | None, self: CoFlatMapOperator = self) -> None:
            results = function(value)
            if results is not None:
                if results.__class__ not in accepted:
                    check(results)
                for result in results:
                    emit(result, timestamp)

        return process


class CoProcessOperator(ResultsOperator[CoProcessConfig]):
    def open(self) -> None:
        super().open()
        self._context = CoProcessContext(self)
        self._functions = (self.function.process_element1, self.function.process_element2)

    def process_records(self, input_index: int, records: Records) -> None:
        self.process_each(self._functions[input_index], self._context, records)


class KeyedCoProcessOperator(UserTimerOperator[KeyedCoProcessConfig]):
    def open(self) -> None:
        self.timer_context = KeyedCoProcessContext(self, self.backend)
        super().open()
        self._functions = (self.function.process_element1, self.function.process_element2)

    def process_records(self, input_index: int, records: Records) -> None:
        self.process_each(self._functions[input_index], self.timer_context, records)

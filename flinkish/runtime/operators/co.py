"""Operators with two inputs."""

from __future__ import annotations

from collections.abc import Callable
from types import GeneratorType
from typing import Any

from flinkish.common.records import check_record
from flinkish.program.operators import (
    CoFlatMapConfig,
    CoMapConfig,
    CoProcessConfig,
    KeyedCoProcessConfig,
)
from flinkish.runtime.elements import Records
from flinkish.runtime.operators.contexts import CoProcessContext, KeyedCoProcessContext
from flinkish.runtime.operators.function import ConfigT, FunctionOperator, keyed
from flinkish.runtime.operators.results import ResultsCheck, results_emitter, tagged_emit
from flinkish.runtime.operators.timed import UserTimerOperator

ProcessInput = Callable[[Any, int | None], None]


def process_run(operator: FunctionOperator[Any], process: ProcessInput, records: Records) -> None:
    """Pass a run of records to one input; if the operator is keyed, set the key of each record."""
    backend = operator.backend
    if backend is not None:
        for value, timestamp, key in keyed(records):
            backend.current_key = key
            process(value, timestamp)
    else:
        timestamps = records.timestamps if records.timestamps is not None else [None] * len(records.values)
        for value, timestamp in zip(records.values, timestamps, strict=True):
            process(value, timestamp)


class _TwoInputOperator(FunctionOperator[ConfigT]):
    _inputs: tuple[ProcessInput, ProcessInput]

    def process_records(self, input_index: int, records: Records) -> None:
        process_run(self, self._inputs[input_index], records)


class CoMapOperator(_TwoInputOperator[CoMapConfig]):
    """Calls map1 and map2; a result of None is not emitted."""

    def open(self) -> None:
        super().open()
        self._inputs = (self._mapping(self.function.map1), self._mapping(self.function.map2))

    def _mapping(self, function: Callable[[Any], Any]) -> ProcessInput:
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

    def _flattening(self, function: Callable[[Any], Any]) -> ProcessInput:
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


class CoProcessOperator(_TwoInputOperator[CoProcessConfig]):
    def open(self) -> None:
        super().open()
        self._context = CoProcessContext(self)
        self._emit_results = results_emitter(self)
        self._inputs = (self._processing(self.function.process_element1), self._processing(self.function.process_element2))

    def _processing(self, function: Callable[[Any, Any], Any]) -> ProcessInput:
        context, emit_results = self._context, self._emit_results

        def process(value: Any, timestamp: int | None, self: CoProcessOperator = self) -> None:
            context.element_timestamp = timestamp
            results = function(value, context)
            if results is not None:
                emit_results(results, timestamp)

        return process


class KeyedCoProcessOperator(UserTimerOperator[KeyedCoProcessConfig]):
    def open(self) -> None:
        self.timer_context = KeyedCoProcessContext(self, self.backend, self.timers)
        self.emit_results = results_emitter(self)
        super().open()
        self._functions = (self.function.process_element1, self.function.process_element2)

    def process_records(self, input_index: int, records: Records) -> None:
        self.process_keyed(self._functions[input_index], records)

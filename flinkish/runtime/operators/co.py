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
from flinkish.runtime.operators.function import ConfigT, FunctionOperator, ResultsCheck, ResultsOperator, keyed, tagged_emit
from flinkish.runtime.operators.timed import UserTimerOperator

ProcessInput = Callable[[Any, int | None], None]


class _TwoInputOperator(FunctionOperator[ConfigT]):
    _inputs: tuple[ProcessInput, ProcessInput]

    def process_records(self, input_index: int, records: Records) -> None:
        process, backend = self._inputs[input_index], self.backend
        for value, timestamp, key in keyed(records):
            if backend is not None:
                backend.current_key = key
            process(value, timestamp)


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

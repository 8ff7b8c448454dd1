"""Operators for map, flat_map, filter and process without keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import GeneratorType
from typing import Any

from flinkish.common.conversion import converter, mapping
from flinkish.common.records import check_record
from flinkish.program.operators import (
    FilterConfig,
    FlatMapConfig,
    MapConfig,
    ProcessConfig,
)
from flinkish.runtime.operators.base import Output
from flinkish.runtime.operators.contexts import ProcessContext
from flinkish.runtime.operators.function import FunctionOperator, ResultsCheck, ResultsOperator, tagged_emit


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

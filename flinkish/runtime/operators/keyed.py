"""Operators for process and reduce on keyed streams."""

from __future__ import annotations

from typing import Any

from flinkish.datastream.state import ValueStateDescriptor
from flinkish.program.operators import KeyedProcessConfig, ReduceConfig
from flinkish.runtime.elements import Records
from flinkish.runtime.operators.contexts import KeyedProcessContext
from flinkish.runtime.operators.function import FunctionOperator, keyed
from flinkish.runtime.operators.results import results_emitter
from flinkish.runtime.operators.timed import UserTimerOperator
from flinkish.runtime.state.handles import refuse_nothing


class KeyedProcessOperator(UserTimerOperator[KeyedProcessConfig]):
    def open(self) -> None:
        self.timer_context = KeyedProcessContext(self, self.backend, self.timers)
        self.emit_results = results_emitter(self.output, self.emit, self.side_types(), self.node.name)
        super().open()

    def process_records(self, input_index: int, records: Records) -> None:
        backend, context = self.backend, self.timer_context
        process_element, emit_results = self.function.process_element, self.emit_results
        for value, timestamp, key in keyed(records):
            backend.current_key = key
            context.element_timestamp = timestamp
            results = process_element(value, context)
            if results is not None:
                emit_results(results, timestamp)


class ReduceOperator(FunctionOperator[ReduceConfig]):
    """Emits the new value for every record; in batch mode, only the last value of each key, without a timestamp."""

    def open(self) -> None:
        super().open()
        assert self.backend is not None
        self._state = self.backend.get_state(ValueStateDescriptor("_reduce_state", self.node.output_type))
        self._reduce = self.function.reduce
        if self.context.batch:
            self.process = self._accumulate  # type: ignore[method-assign]

    def process(self, value: Any, timestamp: int | None) -> None:
        state = self._state
        reduced = state.value()
        reduced = value if reduced is None else self._reduce(reduced, value)
        if reduced is None:
            refuse_nothing(repr(self.node.name), self.function, value)
        state.update(reduced)
        self.emit(reduced, timestamp)

    def _accumulate(self, value: Any, timestamp: int | None) -> None:
        reduced = self._state.value()
        reduced = value if reduced is None else self._reduce(reduced, value)
        if reduced is None:
            refuse_nothing(repr(self.node.name), self.function, value)
        self._state.update(reduced)

    def end_key(self) -> None:
        self.emit(self._state.value(), None)

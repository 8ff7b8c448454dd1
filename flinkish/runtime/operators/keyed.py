"""Operators for process and reduce on keyed streams."""

from __future__ import annotations

from flinkish.common.conversion import shortest_floats
from flinkish.program.operators import KeyedProcessConfig, ReduceConfig
from flinkish.runtime.elements import Records
from flinkish.runtime.operators.base import discard
from flinkish.runtime.operators.contexts import KeyedProcessContext
from flinkish.runtime.operators.function import FunctionOperator, keyed
from flinkish.runtime.operators.timed import UserTimerOperator
from flinkish.runtime.state.handles import Fold
from flinkish.udf.state import ValueStateDescriptor


class KeyedProcessOperator(UserTimerOperator[KeyedProcessConfig]):
    def open(self) -> None:
        self.timer_context = KeyedProcessContext(self, self.backend)
        super().open()

    def process_records(self, input_index: int, records: Records) -> None:
        self.process_each(self.function.process_element, self.timer_context, records)


class ReduceOperator(FunctionOperator[ReduceConfig]):
    """Emits the new value for every record; in batch mode, only the last value of each key, without a timestamp."""

    def open(self) -> None:
        super().open()
        assert self.backend is not None
        output_type = self.node.output_type
        self._table, self._convert = self.backend.table_of(ValueStateDescriptor("_reduce_state", output_type))
        self._reduce = self.function.reduce
        self._fold = Fold(self.function, repr(self.node.name))
        # A value converted for the state needs no second conversion for the output, unless it could be changed there, or has a
        # FLOAT, which only the output rounds.
        converted = self._table.codec.immutable and shortest_floats(output_type) is None
        emit = self.output.main if converted else self.emit
        self._emit_reduced = discard if self.context.batch else emit

    def process_records(self, input_index: int, records: Records) -> None:
        table, reduce, convert, emit = self._table, self._reduce, self._convert, self._emit_reduced
        backend = self.backend
        assert backend is not None
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

    def end_key(self) -> None:
        assert self.backend is not None
        self.emit(self._table.get(self.backend.current_key), None)

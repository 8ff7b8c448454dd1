"""Operators that work on runs of columns: batches for functions, expressions, rolling aggregates by field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkish.common.column_layout import evaluated, frame_of, needed_layout
from flinkish.common.columns import Columns
from flinkish.common.errors import TypeMismatchError
from flinkish.program.operators import AggregateConfig, FilterColumnsConfig, MapBatchesConfig, SelectColumnsConfig
from flinkish.runtime.elements import Records
from flinkish.runtime.keys import original_key
from flinkish.runtime.operators.base import OperatorContext, Output
from flinkish.runtime.operators.column_fold import ColumnFold
from flinkish.runtime.operators.function import FunctionOperator, keyed
from flinkish.runtime.operators.waiting import GatheringOperator, WaitingOperator
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.udf.state import ValueStateDescriptor

#: Maximum number of records that are put into a batch.
_BATCH_RECORDS = 1 << 14


class _ColumnsOperator(WaitingOperator):
    """Gets columns, or makes columns of records."""

    def __init__(self, context: OperatorContext) -> None:
        super().__init__(context)
        self._input = needed_layout(context.node.input_types[0], context.node.name)
        self._output = needed_layout(context.node.output_type, context.node.name)
        self._values: list[Any] = []
        self._times: list[int | None] = []

    def connect(self, output: Output) -> None:
        super().connect(output)
        values, times, flush = self._values, self._times, self.flush

        def process(value: Any, timestamp: int | None) -> None:
            values.append(value)
            times.append(timestamp)
            if len(values) >= _BATCH_RECORDS:
                flush()

        self.process = process

    def makes_new(self) -> bool:
        return True

    def process_columns(self, columns: Columns, input_index: int = 0) -> None:
        self.flush()
        self.apply(columns)

    def flush(self) -> None:
        if self._values:
            columns = self._input.columns_of(self._values, self._times)
            self._values.clear()
            self._times.clear()
            self.apply(columns)

    def apply(self, columns: Columns) -> None:
        """Process a run of columns, at least one record."""
        raise NotImplementedError


class _ExpressionsOperator(_ColumnsOperator):
    """Computes expressions instead of calling a function."""

    def evaluate(self, columns: Columns, expressions: Sequence[pc.Expression]) -> list[pa.Array]:
        """Return one column for each expression."""
        try:
            return evaluated(columns.batch, expressions)
        except pa.ArrowException as error:
            raise TypeMismatchError(f"the expression of {self.node.name!r} cannot be computed: {error}") from error


class FilterColumnsOperator(_ExpressionsOperator):
    passes_through = True

    def apply(self, columns: Columns) -> None:
        config = self.node.operator
        assert isinstance(config, FilterColumnsConfig)
        (mask,) = self.evaluate(columns, [config.expression])
        self.output.columns(columns.filter(mask))


class SelectColumnsOperator(_ExpressionsOperator):
    def apply(self, columns: Columns) -> None:
        config = self.node.operator
        assert isinstance(config, SelectColumnsConfig)
        arrays = self.evaluate(columns, config.expressions)
        batch = pa.RecordBatch.from_arrays(arrays, list(self._output.names))
        self.output.columns(Columns(self._output, self._output.checked(batch, self.node.name), columns.timestamps))


class MapBatchesOperator(_ColumnsOperator, FunctionOperator[MapBatchesConfig]):
    """Calls the function with a batch; the results keep the event times if there are as many as records."""

    def apply(self, columns: Columns) -> None:
        batch: Any = columns.batch
        result = self.function.map(frame_of(batch) if self.config.pandas else batch)
        results = self._output.checked(result, f"the function of {self.node.name!r}")
        times = columns.timestamps
        if times is not None and len(results) != len(columns):
            raise TypeMismatchError(
                f"the function of {self.node.name!r} returned {len(results)} rows for {len(columns)}, which have event times: "
                "it is not known which time each result has",
                hint="return as many rows, in the same order; filter before or after with filter(expression), or call "
                "assign_timestamps_and_watermarks() after this operator instead of before.",
            )
        self.output.columns(Columns(self._output, results, times))


class AggregateOperator(GatheringOperator, FunctionOperator[AggregateConfig]):
    """Rolling aggregates of each key, with a result for each record or, with `per_epoch`, for each key and epoch.

    In batch mode each key has one result, without a timestamp, when its records have ended.
    """

    backend: KeyedStateBackend

    def __init__(self, context: OperatorContext) -> None:
        super().__init__(context)
        self._aggregates = self.config.function
        self._table, self._convert = self.backend.table_of(ValueStateDescriptor("_aggregates", self._aggregates.accumulator_type))
        self._columns: ColumnFold | None = None
        if self._aggregates.why_by_record is None:
            self._columns = ColumnFold(self._aggregates)
            self._layout = needed_layout(context.node.output_type, context.node.name)
        #: Keys with a result to show before the next watermark or the end of the epoch, with the time of their last record.
        self._touched: dict[Any, int | None] = {}

    def process_records(self, input_index: int, records: Records) -> None:
        self.flush()
        table, convert, add, empty = self._table, self._convert, self._aggregates.add, self._aggregates.create_accumulator()
        per_epoch, batch = self.config.per_epoch, self.context.batch
        for value, timestamp, key in keyed(records):
            accumulator = add(value, table.get(key) or empty)
            if convert is not None:
                accumulator = convert(accumulator)
            table.put(key, accumulator)
            if batch:
                continue  # see end_key
            if per_epoch:
                self._touched[key] = timestamp
            else:
                self.emit(self._aggregates.row(accumulator, original_key(key)), timestamp)

    def process_gathered(self, columns: Columns) -> bool:
        assert self._columns is not None
        codes, keys = columns.groups()
        self.expect(keys)
        before = self._table.get_all(keys)
        if self.config.per_epoch:
            folded = self._columns.fold(codes, before, columns)
            if folded is None:
                return False
            self._table.put_all(keys, folded)
            self._note(keys, codes, columns)
            return True
        found = self._columns.rolled(codes, before, columns, self._layout)
        if found is None:
            return False
        results, after = found
        self._table.put_all(keys, after)
        self.output.columns(Columns(self._layout, results, columns.timestamps))
        return True

    def _note(self, keys: list[Any], codes: Any, columns: Columns) -> None:
        times: list[Any] = [None] * len(keys)
        if columns.timestamps is not None:
            last = np.empty(len(keys), np.int64)
            last[codes] = np.arange(len(codes))
            times = columns.timestamps.take(pa.array(last)).to_pylist()
        self._touched.update(zip(keys, times, strict=True))

    def settle(self) -> None:
        # Results of an epoch have the times of its records, so behind the watermark they would be late.
        super().settle()
        if self._touched:
            touched, self._touched = self._touched, {}
            self._show(list(touched), list(touched.values()))

    def _show(self, keys: list[Any], times: list[int | None]) -> None:
        accumulators = list(map(self._table.get, keys))
        if self._columns is not None and self.output.takes_columns:
            slots, outer = self._columns.arrays(accumulators), self._columns.shown_keys(keys, self._layout)
            results = None if outer is None else self._columns.results(slots, outer, self._layout)
            if results is not None:
                stamps = pa.array(times, pa.int64())
                self.output.columns(Columns(self._layout, results, None if stamps.null_count == len(stamps) else stamps))
                return
        for key, accumulator, time in zip(keys, accumulators, times, strict=True):
            self.emit(self._aggregates.row(accumulator, original_key(key)), time)

    def end_key(self) -> None:
        key = self.backend.current_key
        self.emit(self._aggregates.row(self._table.get(key), original_key(key)), None)

"""A bounded source that makes many rows in one call, as a batch of Arrow, for load tests and demonstrations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from flinkish.common.arguments import callable_of, int_of
from flinkish.common.errors import InvalidArgumentError, TypeMismatchError
from flinkish.common.kinds import plain_type
from flinkish.common.pickling import check_serializable
from flinkish.common.typeinfo import RowTypeInfo
from flinkish.common.types import RowColumns
from flinkish.datastream.connectors.datagen import DataGeneratorReader, DataGeneratorSource
from flinkish.program.sources import ReaderOutput, SourceReaderContext

if TYPE_CHECKING:
    import pyarrow as pa

BatchFunction = Callable[[int, int], "pa.RecordBatch"]


class BatchGeneratorSource(DataGeneratorSource):
    """Emits the rows 0 to count - 1 that `function` makes in batches, divided into one range for each reader.

    `function(first, count)` returns the rows with the numbers first to first + count - 1 as a pyarrow.RecordBatch, whose columns
    have the names, order and Arrow types of `type_info`, a `Types.ROW_NAMED`; otherwise the job fails with a TypeMismatchError.
    How the numbers are cut into batches is not defined and is another one after a restart, so each row must depend on its number
    only. `records_per_second` limits the total rate of all readers, as in DataGeneratorSource. Raises InvalidArgumentError for
    values of a wrong type, and InvalidProgramError for values out of range.

    Not in Flink.

    >>> import numpy as np, pyarrow as pa
    >>> from flinkish.common import Types
    >>> def squares(first, count):
    ...     return pa.record_batch({"square": np.arange(first, first + count) ** 2})
    >>> source = BatchGeneratorSource(squares, 1_000_000, Types.ROW_NAMED(["square"], [Types.LONG()]))
    >>> source.boundedness.value
    'BOUNDED'
    """

    why_records = None

    def __init__(
        self, function: BatchFunction, count: int, type_info: RowTypeInfo, records_per_second: float | None = None
    ) -> None:
        callable_of("function", function, "a callable of a number and a count")
        if not isinstance(plain_type(type_info), RowTypeInfo):
            raise InvalidArgumentError(f"type_info of BatchGeneratorSource must be a Types.ROW_NAMED; got {type_info!r}")
        int_of("count", count, minimum=0)
        super().__init__(cast("Any", function), count, records_per_second, type_info)
        self._function = function
        self._row_type = type_info

    def create_reader(self, context: SourceReaderContext) -> _BatchGeneratorReader:
        return _BatchGeneratorReader(self._function, self._row_type, self._records_per_second, context)

    def validate(self) -> None:
        from flinkish.common.column_layout import needed_layout

        check_serializable(self._function, "the function of BatchGeneratorSource")
        needed_layout(self._row_type, "BatchGeneratorSource")


class _BatchGeneratorReader(DataGeneratorReader):
    def __init__(
        self, function: BatchFunction, row_type: RowTypeInfo, records_per_second: float | None, context: SourceReaderContext
    ) -> None:
        from flinkish.common.arrow_types import read_converter
        from flinkish.common.column_layout import needed_layout

        super().__init__(cast("Any", function), records_per_second, context)
        self._make = function
        self._layout = needed_layout(row_type, "BatchGeneratorSource")
        self._converters = [read_converter(part) for part in self._layout.types]

    def _emit_records(self, numbers: range, output: ReaderOutput[Any]) -> None:
        batch = self._checked(self._make(numbers.start, len(numbers)), numbers)
        if output.wants_columns:
            output.collect_columns(batch)
        else:
            output.collect_all(self._rows(batch))

    def _rows(self, batch: pa.RecordBatch) -> RowColumns:
        from flinkish.common.arrow_types import plain_column

        columns = [
            plain_column(column) if convert is None else list(map(convert, column.to_pylist()))
            for column, convert in zip(batch.columns, self._converters, strict=True)
        ]
        return RowColumns(self._layout.names, columns)

    def _checked(self, batch: Any, numbers: range) -> pa.RecordBatch:
        import pyarrow as pa

        what = f"the function of BatchGeneratorSource, called with first={numbers.start}, count={len(numbers)},"
        if not isinstance(batch, pa.RecordBatch):
            raise TypeMismatchError(f"{what} must return a pyarrow.RecordBatch; got an instance of {type(batch).__name__}")
        if not batch.schema.equals(self._layout.schema):
            raise TypeMismatchError(
                f"{what} must return the columns {_described(self._layout.schema)}; got {_described(batch.schema)}",
                hint="pyarrow.record_batch(columns, schema=...) and array.cast(type) make columns of the declared types.",
            )
        if batch.num_rows != len(numbers):
            raise TypeMismatchError(f"{what} must return {len(numbers)} rows; got {batch.num_rows}")
        try:
            self._layout.batch_of(batch.columns)
        except (ValueError, OverflowError) as error:
            raise TypeMismatchError(f"{what} returned a value that no record has: {error}") from error
        return batch


def _described(schema: pa.Schema) -> str:
    return "(" + ", ".join(f"{field.name} {field.type}" for field in schema) + ")"

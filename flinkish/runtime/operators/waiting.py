"""Operators that hold records back for a short time, to process many of them together."""

from __future__ import annotations

from flinkish.common.columns import Columns, concat
from flinkish.runtime.elements import Records
from flinkish.runtime.operators.base import Operator, OperatorContext


class WaitingOperator(Operator):
    """Holds records back; `flush` passes them on before anything that follows them."""

    def flush(self) -> None:
        """Process what waits."""
        raise NotImplementedError

    def settle(self) -> None:
        """Emit everything that must precede a watermark, a change of the status, or the end of the epoch."""
        self.flush()

    def watermark(self, timestamp: int) -> None:
        self.settle()
        super().watermark(timestamp)

    def status(self, idle: bool) -> None:
        self.settle()
        super().status(idle)

    def before_barrier(self) -> None:
        self.settle()
        super().before_barrier()

    def finish(self) -> None:
        self.before_barrier()
        super().finish()


class GatheringOperator(WaitingOperator):
    """Gathers runs of columns with keys, so that each is looked up once; an override of `process_records` must flush first."""

    #: Number of records from which on they are processed and wait no longer.
    enough = 1 << 19

    def __init__(self, context: OperatorContext) -> None:
        super().__init__(context)
        self._by_columns = self.takes_columns()
        self._runs: list[Columns] = []
        self._waiting = 0

    def process_columns(self, columns: Columns, input_index: int = 0) -> None:
        if columns.key_fields is None or not self._by_columns:
            super().process_columns(columns, input_index)
            return
        self._runs.append(columns)
        self._waiting += len(columns)
        if self._waiting >= self.enough:
            self.flush()

    def process_records(self, input_index: int, records: Records) -> None:
        self.flush()
        super().process_records(input_index, records)

    def flush(self) -> None:
        if self._runs:
            runs, self._runs, self._waiting = self._runs, [], 0
            columns = concat(runs)
            if not self.process_gathered(columns):
                super().process_columns(columns)

    def process_gathered(self, columns: Columns) -> bool:
        """Process a run as columns; return False, with nothing changed, if it must be taken record by record."""
        raise NotImplementedError

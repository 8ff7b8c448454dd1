"""Batch mode: the input of keyed operators is sorted, and broadcast input comes first.

As in Flink, a keyed operator gets its records key by key, sorted by timestamp within a key, with the watermark at Long.MIN. After
the last record of a key, its timers fire with the watermark at Long.MAX, and its state is cleared. Two keyed inputs are merged.
If an operator without keys has a broadcast input, other records wait until all of that input was read. All other operators get
records as they arrive, and one watermark at the end.

Records wait in memory and on disk (runtime/spilling.py). They are released in parts, over several epochs, because the output must
fit into memory, too. The watermark and the end of the input are passed on after the last record.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Generic, TypeVar

from flinkish.common import options
from flinkish.common.columns import Columns
from flinkish.program.operators import BroadcastProcessConfig, KeyedBroadcastProcessConfig
from flinkish.runtime.elements import Records, unpacked
from flinkish.runtime.operators.base import Operator
from flinkish.runtime.operators.broadcast import BROADCAST_INPUT
from flinkish.runtime.operators.function import FunctionOperator
from flinkish.runtime.protocol import MAX_WATERMARK, MIN_WATERMARK
from flinkish.runtime.spilling import HeldRecords, Piece, QueuedRecords, SortedRecords, Waiting

#: Number of records to release between two checks of the output size.
_LOOK_RECORDS = 256
_READ = "broadcast read"

HeldT = TypeVar("HeldT", bound=HeldRecords)


class HeadInput:
    """The step between the gate of a vertex and its first operator; this base class passes everything on."""

    def __init__(self, head: Operator) -> None:
        self._head = head

    def process_records(self, input_index: int, records: Records) -> None:
        self._head.process_records(input_index, records)

    def process_columns(self, input_index: int, columns: Columns) -> None:
        self._head.process_columns(columns, input_index)

    def watermark(self, timestamp: int) -> None:
        self._head.watermark(timestamp)

    def end_of_input(self, input_index: int) -> None:
        """Handle the end of one of the inputs."""

    @property
    def holds(self) -> bool:
        """Whether there are waiting records."""
        return False

    def release(self, most: int | None, *, ended: bool) -> int:
        """Pass on at most about `most` records that are ready (None = no limit); return how many. `ended` = all inputs have."""
        return 0

    def finish(self) -> None:
        """Pass on the final watermark, because all inputs have ended and no records wait."""


class _HoldingInput(HeadInput, Generic[HeldT]):
    """Holds back records, and the final watermark until all of them have been passed on."""

    def __init__(self, head: Operator, held: type[HeldT]) -> None:
        super().__init__(head)
        context = head.context
        memory: int = context.program.configuration.get(options.SORTED_INPUTS_MEMORY)
        self._held = held(context.state.internal("batch"), context.program.disk, memory)
        self._max_bytes = context.program.configuration.get(options.EPOCH_MAX_BYTES)

    def process_columns(self, input_index: int, columns: Columns) -> None:
        self.process_records(input_index, unpacked(columns))

    @property
    def holds(self) -> bool:
        return bool(self._held)

    def watermark(self, timestamp: int) -> None:
        """Ignore the watermark: a batch has only the final one, which `finish` passes on."""

    def finish(self) -> None:
        self._head.watermark(MAX_WATERMARK)

    def _room(self, released: int, most: int | None) -> bool:
        """Whether more may be released in this epoch."""
        return (most is None or released < most) and self._head.context.outflow() < self._max_bytes


class BroadcastFirstInput(_HoldingInput[QueuedRecords]):
    """Holds back the records of an operator without keys until its broadcast input has been read."""

    def __init__(self, head: Operator) -> None:
        super().__init__(head, QueuedRecords)
        self._progress = head.context.state.internal("broadcast")

    def process_records(self, input_index: int, records: Records) -> None:
        if input_index == BROADCAST_INPUT or (_READ in self._progress and not self._held):
            self._head.process_records(input_index, records)
        else:
            self._held.add(input_index, records)

    def end_of_input(self, input_index: int) -> None:
        if input_index == BROADCAST_INPUT:
            self._progress[_READ] = True

    def release(self, most: int | None, *, ended: bool) -> int:
        released = 0
        while _READ in self._progress and self._held and self._room(released, most):
            input_index, records = self._held.take()
            self._head.process_records(input_index, records)
            released += len(records.values)
        return released


class SortedInput(_HoldingInput[SortedRecords]):
    """Passes records to a keyed operator key by key when the input has ended; broadcast elements at once."""

    def __init__(self, head: FunctionOperator[Any]) -> None:
        assert head.backend is not None
        super().__init__(head, SortedRecords)
        self._backend = head.backend
        self._pieces: Iterator[Piece] | None = None
        self._broadcast = isinstance(head.node.operator, KeyedBroadcastProcessConfig)

    def process_records(self, input_index: int, records: Records) -> None:
        if self._broadcast and input_index == BROADCAST_INPUT:
            self._head.process_records(input_index, records)
        else:
            self._held.add(input_index, records)

    def release(self, most: int | None, *, ended: bool) -> int:
        if not ended or not self._held or most == 0:
            return 0
        if self._pieces is None:
            self._pieces = self._held.pieces()
        self._head.current_watermark = MIN_WATERMARK
        released = looked = 0
        logged = False
        for pieces, piece in enumerate(self._pieces, 1):
            # A key that continues from the epoch before has state in the log, so its end must be logged.
            logged = logged or (pieces == 1 and not piece.first)
            self._process(piece, logged=logged)
            released += len(piece.waiting)
            if released >= looked:
                looked = released + _LOOK_RECORDS
                if not self._room(released, most):
                    self._held.released += pieces
                    return released
        self._held.clear()
        return released

    def _process(self, piece: Piece, *, logged: bool) -> None:
        head, backend = self._head, self._backend
        for input_index, records in _runs(piece):
            head.process_records(input_index, records)
        if piece.last:
            backend.current_key = piece.key
            head.end_key()
            backend.forget(logged=logged)


def _runs(piece: Piece) -> Iterator[tuple[int, Records]]:
    for input_index, group in itertools.groupby(piece.waiting, key=itemgetter(1)):
        run: list[Waiting] = list(group)
        yield input_index, Records(list(map(itemgetter(2), run)), list(map(itemgetter(0), run)), [piece.key] * len(run))


def input_of(head: Operator) -> HeadInput:
    """Return the step before the first operator of a vertex."""
    if head.context.batch:
        if isinstance(head, FunctionOperator) and head.backend is not None:
            return SortedInput(head)
        if isinstance(head.node.operator, BroadcastProcessConfig):
            return BroadcastFirstInput(head)
    return HeadInput(head)

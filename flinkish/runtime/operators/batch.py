"""Batch mode: the input of keyed operators is sorted, and broadcast input comes first.

As in Flink, a keyed operator gets its records key by key, those of a key by their timestamps, with the watermark at Long.MIN.
When a key has no more, its timers fire with the watermark at Long.MAX, and its state is forgotten. Two keyed inputs are merged.
Beside a broadcast input, records wait until all of that was read. All else sees its records as they come, and one watermark at
the end.

Records wait in the state of their subtask, so that a lost process costs nothing; they must fit into its memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from flinkish.datastream.operators import BroadcastProcessConfig, KeyedBroadcastProcessConfig
from flinkish.runtime.elements import Records
from flinkish.runtime.key_groups import key_group, stable_hash
from flinkish.runtime.operators.base import Operator
from flinkish.runtime.operators.broadcast import BROADCAST_INPUT
from flinkish.runtime.operators.function import FunctionOperator, keyed
from flinkish.runtime.protocol import MAX_WATERMARK, MIN_WATERMARK
from flinkish.runtime.state.tables import InternalTable

_BROADCAST_READ = "broadcast read"

#: Timestamp, input, value.
_Waiting = tuple[int | None, int, Any]


class HeadInput:
    """What stands between the gate of a vertex and its first operator: here nothing."""

    def __init__(self, head: Operator) -> None:
        self._head = head

    def process_records(self, input_index: int, records: Records) -> None:
        """Take a run of records."""
        self._head.process_records(input_index, records)

    def watermark(self, timestamp: int) -> None:
        """Take a watermark."""
        self._head.watermark(timestamp)

    def end_of_input(self, input_index: int) -> None:
        """Learn that one of the inputs has ended."""


class BroadcastFirstInput(HeadInput):
    """Holds back the records of an operator without keys until its broadcast input was read."""

    def __init__(self, head: Operator, table: InternalTable) -> None:
        super().__init__(head)
        self._table = table

    def process_records(self, input_index: int, records: Records) -> None:
        if input_index == BROADCAST_INPUT or _BROADCAST_READ in self._table:
            self._head.process_records(input_index, records)
        else:
            self._table[len(self._table)] = (input_index, records)

    def watermark(self, timestamp: int) -> None:
        if timestamp == MAX_WATERMARK:
            self._release()
        self._head.watermark(timestamp)

    def end_of_input(self, input_index: int) -> None:
        if input_index == BROADCAST_INPUT:
            self._release()

    def _release(self) -> None:
        table = self._table
        if _BROADCAST_READ not in table:
            waiting = list(table.values())
            table.clear()
            table[_BROADCAST_READ] = True
            for input_index, records in waiting:
                self._head.process_records(input_index, records)


class SortedInput(HeadInput):
    """Gives a keyed operator its records key by key when the input has ended; broadcast elements at once."""

    def __init__(self, head: FunctionOperator[Any], table: InternalTable) -> None:
        assert head.backend is not None
        super().__init__(head)
        self._backend = head.backend
        self._table = table
        self._broadcast = isinstance(head.node.operator, KeyedBroadcastProcessConfig)

    def process_records(self, input_index: int, records: Records) -> None:
        if self._broadcast and input_index == BROADCAST_INPUT:
            self._head.process_records(input_index, records)
        else:
            self._table[len(self._table)] = (input_index, records)

    def watermark(self, timestamp: int) -> None:
        if timestamp == MAX_WATERMARK:
            self._replay()
        self._head.watermark(timestamp)

    def _replay(self) -> None:
        head, backend = self._head, self._backend
        by_key = _by_key(self._table.values())
        self._table.clear()
        head.current_watermark = MIN_WATERMARK
        for key in _ordered(by_key, head.context.max_parallelism):
            for input_index, records in _runs(key, by_key.pop(key)):
                head.process_records(input_index, records)
            backend.current_key = key
            head.end_key()
            backend.forget()


def _by_key(runs: Iterable[tuple[int, Records]]) -> dict[Any, list[_Waiting]]:
    by_key: dict[Any, list[_Waiting]] = {}
    for input_index, records in runs:
        for value, timestamp, key in keyed(records):
            waiting = by_key.get(key)
            if waiting is None:
                by_key[key] = [(timestamp, input_index, value)]
            else:
                waiting.append((timestamp, input_index, value))
    return by_key


def _ordered(keys: Iterable[Any], max_parallelism: int) -> list[Any]:
    """Return keys in an order that does not depend on that of the records: their own if they have one, else that of a hash."""
    given = list(keys)
    try:
        return sorted(given)
    except TypeError:
        return sorted(given, key=lambda key: (key_group(key, max_parallelism), stable_hash(key)))


def _runs(key: Any, waiting: list[_Waiting]) -> Iterable[tuple[int, Records]]:
    """Sort the records of a key by timestamp, then input, then arrival; cut them into runs of one input."""
    waiting.sort(key=_order)
    start = 0
    while start < len(waiting):
        input_index = waiting[start][1]
        end = start + 1
        while end < len(waiting) and waiting[end][1] == input_index:
            end += 1
        run = waiting[start:end]
        yield input_index, Records(list(map(itemgetter(2), run)), list(map(itemgetter(0), run)), [key] * len(run))
        start = end


def _order(waiting: _Waiting) -> tuple[int, int]:
    timestamp, input_index, _ = waiting
    return (MIN_WATERMARK if timestamp is None else timestamp), input_index


def input_of(head: Operator) -> HeadInput:
    """Return what stands before the first operator of a vertex."""
    if head.context.batch:
        table = head.context.state.internal("batch")
        if isinstance(head, FunctionOperator) and head.backend is not None:
            return SortedInput(head, table)
        if isinstance(head.node.operator, BroadcastProcessConfig):
            return BroadcastFirstInput(head, table)
    return HeadInput(head)

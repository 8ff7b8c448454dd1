"""Timers on disk, in rows that are sorted by time: which are due is found by a range scan."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flinkish.runtime.state.backend import Fire
from flinkish.runtime.state.disk.form import Facts, Form, Members, Times
from flinkish.runtime.state.disk.stored import StoredGroups
from flinkish.runtime.state.disk.tables import DiskTable, Rows, TableStore
from flinkish.runtime.state.heap.timers import HeapTimerQueue, HeapTimerTable
from flinkish.runtime.state.rows import TIMER_EVENT, TIMER_PROCESSING, TableRows
from flinkish.runtime.state.tables import Address, TableMeta, key_of, namespace_of

#: A timer's row has no value.
_NOTHING = (lambda value: b""), (lambda row: None)


class DiskTimerQueue(HeapTimerQueue):
    """See TimerQueue. The heap has the timestamps that were used in this epoch, and the first ones of the store."""

    __slots__ = ("_in_heap", "_stored", "_stored_is_known")

    by_time: Any

    def __init__(self, form: Form, size: int) -> None:
        super().__init__()
        self.by_time = StoredGroups(form)
        self.size = size
        self._in_heap: set[int] = set()
        #: The first timestamp of the store that has not been put into the heap; None if there is none.
        self._stored: int | None = None
        self._stored_is_known = False

    def _push(self, timestamp: int) -> None:
        if timestamp not in self._in_heap:
            self._in_heap.add(timestamp)
            heapq.heappush(self._heap, timestamp)

    def register(self, timestamp: int, address: Address) -> None:
        timers = self.by_time[timestamp]
        if address not in timers:
            timers[address] = None
            self._push(timestamp)
            self.size += 1
            self._changes.append((True, timestamp, address))

    def delete(self, timestamp: int, address: Address) -> None:
        timers = self.by_time[timestamp]
        if address in timers:
            timers.discard(address)
            self.size -= 1
            self._changes.append((False, timestamp, address))

    def next(self) -> int | None:
        heap = self._heap
        while True:
            while heap and not self.by_time[heap[0]]:
                self._in_heap.remove(heapq.heappop(heap))
            if not self._stored_is_known:
                self._stored, self._stored_is_known = self.by_time.first(), True
            if self._stored is None or (heap and heap[0] < self._stored):
                return heap[0] if heap else None
            self._push(self._stored)
            self._stored = self.by_time.first(self._stored)

    def _fire_all(self, due: int, fire: Fire) -> int:
        timers, fired = self.by_time[due], 0
        for address in list(timers):
            if address in timers:
                self.delete(due, address)
                fired += 1
                fire(due, key_of(address), namespace_of(address))
                if self._heap[0] < due:  # an earlier one was registered
                    break
        return fired

    def forget(self, *, logged: bool) -> None:
        for timestamp, address in list(self):
            self.delete(timestamp, address)

    def __iter__(self) -> Iterator[tuple[int, Address]]:
        return iter(sorted(((timestamp, address) for timestamp, address, _ in self.by_time.scan()), key=lambda timer: timer[0]))

    def load(self, by_time: Mapping[int, Iterable[Address]]) -> None:
        timers = [(timestamp, address, None) for timestamp, addresses in by_time.items() for address in addresses]
        self.by_time.ingest(timers)
        self.size += len(timers)
        for timestamp in by_time:
            self._push(timestamp)

    def take_rows(self, rows: Rows, before: Rows) -> None:
        """See DiskTable."""
        self.by_time.take_rows(rows, before)
        self._heap.clear()
        self._in_heap.clear()
        self._stored_is_known = False


class DiskTimerTable(DiskTable, HeapTimerTable):
    """See TimerTable."""

    def __init__(self, meta: TableMeta, part: TableStore) -> None:
        super().__init__(meta)
        self.part = part
        facts: Facts = part.facts
        members = Members(meta.key_type)
        forms = [part.form(Times(None), members, _NOTHING, ordered=True, section=section) for section in (1, 2)]
        self._disk_queues = [DiskTimerQueue(form, size) for form, size in zip(forms, facts.sizes, strict=True)]
        self.event_time, self.processing_time = self._queues = self._disk_queues[0], self._disk_queues[1]

    def take_changes(self) -> None:
        self.note_keys({None: [timer for queue in self._queues for _, *timer in queue._changes]})
        super().take_changes()

    def take_rows(self, rows: Rows, before: Rows) -> None:
        for queue in self._disk_queues:
            queue.take_rows(rows, before)
        self.part.facts.sizes = self.event_time.size, self.processing_time.size
        self.part.take_rows(rows, before)

    def frozen_data(self) -> Any:
        snapshot = self.part.store.snapshot()
        return [queue.by_time.frozen(queue.by_time.form.on(snapshot)) for queue in self._disk_queues]

    def frozen(self) -> TableRows:
        event_time, processing_time = (((at, address) for at, address, _ in queue.by_time.scan()) for queue in self._disk_queues)
        return TableRows(self.meta, {TIMER_EVENT: event_time, TIMER_PROCESSING: processing_time})

"""Timers on the heap: in time order, one for each (time, key, namespace); they are in the log and in checkpoints."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from flinkish.runtime.state.backend import Fire, Look, TimerQueue
from flinkish.runtime.state.heap.changes import GONE, NEW, Changes, note, split
from flinkish.runtime.state.heap.tables import HeapTable
from flinkish.runtime.state.rows import TIMER_EVENT, TIMER_PROCESSING, TableRows
from flinkish.runtime.state.tables import Address, TableMeta, key_of, namespace_of

#: Number of timers that fire between two calls of the check.
_LOOK = 1_000

#: One change: registered or not, timestamp, address.
_Change = tuple[bool, int, Address]
#: The timers of an empty queue, and changes after them.
_Timers = tuple[dict[int, list[Address]], list[_Change]]
#: The kinds of rows of the two queues.
_KINDS = (TIMER_EVENT, TIMER_PROCESSING)


def _go_on(fired: int) -> None:
    pass


class HeapTimerQueue(TimerQueue):
    """See TimerQueue: a set of addresses for each timestamp, and a heap of the timestamps.

    A timestamp without timers stays in the heap until its time comes, or until the heap is twice as large as necessary.
    """

    __slots__ = ("_changes", "_heap", "by_time", "size")

    def __init__(self) -> None:
        self.by_time: dict[int, dict[Address, None]] = {}
        self.size = 0
        self._heap: list[int] = []
        self._changes: list[_Change] = []

    def register(self, timestamp: int, address: Address) -> None:
        timers = self.by_time.get(timestamp)
        if timers is None:
            self.by_time[timestamp] = {address: None}
            heapq.heappush(self._heap, timestamp)
        elif address in timers:
            return
        else:
            timers[address] = None
        self.size += 1
        self._changes.append((True, timestamp, address))

    def delete(self, timestamp: int, address: Address) -> None:
        timers = self.by_time.get(timestamp)
        if timers is not None and address in timers:
            self._remove(timestamp, timers, address)
            if len(self._heap) > 2 * len(self.by_time) + 1_000:
                self._heap = sorted(self.by_time)

    def _remove(self, timestamp: int, timers: dict[Address, None], address: Address) -> None:
        del timers[address]
        if not timers:
            del self.by_time[timestamp]
        self.size -= 1
        self._changes.append((False, timestamp, address))

    def next(self) -> int | None:
        heap, by_time = self._heap, self.by_time
        while heap and heap[0] not in by_time:
            heapq.heappop(heap)
        return heap[0] if heap else None

    def advance(self, timestamp: int, fire: Fire, look: Look = _go_on) -> None:
        fired = looked = 0
        while (due := self.next()) is not None and due <= timestamp:
            fired += self._fire_all(due, fire)
            if fired - looked >= _LOOK:
                looked = fired
                look(fired)

    def _fire_all(self, due: int, fire: Fire) -> int:
        """Fire the timers of one timestamp until there are none, or an earlier one was registered; return how many fired."""
        timers = self.by_time[due]
        fired = 0
        for address in list(islice(timers, _LOOK)):
            if address in timers:
                self._remove(due, timers, address)
                fired += 1
                fire(due, key_of(address), namespace_of(address))
                if self.by_time.get(due) is not timers or self._heap[0] < due:
                    # All timers were deleted, and perhaps registered again, or an earlier one is due: start again.
                    break
        return fired

    def advance_clock(self, now: int, fire: Fire, look: Look = _go_on) -> None:
        present = list(self.by_time.get(now, ()))
        self.advance(now - 1, fire, look)
        timers = self.by_time.get(now, {})
        for fired, address in enumerate(present):
            if address in timers:
                self._remove(now, timers, address)
                fire(now, key_of(address), namespace_of(address))
                timers = self.by_time.get(now, {})
            if fired % _LOOK == _LOOK - 1:
                look(fired)

    def forget(self, *, logged: bool) -> None:
        if logged:
            self._changes += [(False, timestamp, address) for timestamp, address in self]
        else:
            self._changes.clear()
        self.by_time.clear()
        self._heap.clear()
        self.size = 0

    def __iter__(self) -> Iterator[tuple[int, Address]]:
        for timestamp in sorted(self.by_time):
            for address in self.by_time[timestamp]:
                yield timestamp, address

    def take_changes(self) -> list[_Change]:
        """Return the changes since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def apply(self, changes: list[_Change]) -> None:
        """Apply changes that `take_changes` returned."""
        for registered, timestamp, address in changes:
            if registered:
                self.register(timestamp, address)
            else:
                self.delete(timestamp, address)
        self._changes.clear()

    def load(self, by_time: Mapping[int, Iterable[Address]]) -> None:
        for timestamp, addresses in by_time.items():
            timers = self.by_time.setdefault(timestamp, {})
            before = len(timers)
            timers.update(dict.fromkeys(addresses))
            self.size += len(timers) - before
        if by_time:
            self._heap = sorted(self.by_time)


class HeapTimerTable(HeapTable):
    """See TimerTable."""

    def __init__(self, meta: TableMeta) -> None:
        super().__init__(meta)
        self._queues = self.event_time, self.processing_time = HeapTimerQueue(), HeapTimerQueue()

    def take_changes(self) -> list[_Timers] | None:
        changes: list[_Timers] = [({}, queue.take_changes()) for queue in self._queues]
        if self.since is not None:
            for kind, (_, changed) in zip(_KINDS, changes, strict=True):
                known = self.since.setdefault(kind, {})
                for registered, timestamp, address in changed:
                    note(known, (timestamp, address), NEW if registered else GONE)
        return changes if any(changed for _, changed in changes) else None

    def apply(self, changes: list[_Timers]) -> None:
        for queue, (by_time, changed) in zip(self._queues, changes, strict=True):
            queue.load(by_time)
            queue.apply(changed)

    def dump(self) -> list[_Timers]:
        return [({timestamp: list(timers) for timestamp, timers in queue.by_time.items()}, []) for queue in self._queues]

    def frozen(self) -> TableRows:
        return TableRows(self.meta, {TIMER_EVENT: list(self.event_time), TIMER_PROCESSING: list(self.processing_time)})

    @property
    def data(self) -> list[Any]:
        """The timers of both queues by time."""
        return [queue.by_time for queue in self._queues]

    def rows_of(self, changes: Changes, data: Any) -> TableRows:
        by_kind, removed = {}, {}
        for kind, by_time in zip(_KINDS, data, strict=True):
            known = changes.get(kind, {})
            there = {timer: None for timer in known if timer[1] in by_time.get(timer[0], ())}
            put, gone = split({kind: known}, {kind: there})
            by_kind[kind], removed[kind] = [timer for _, timer, _ in put], [timer for _, timer in gone]
        return TableRows(self.meta, by_kind, removed)

    def members_by_group(self) -> Mapping[Any, Iterable[Any]]:
        return {kind: list(queue) for kind, queue in zip(_KINDS, self._queues, strict=True)}

    def have_one_encoding(self, members: Mapping[Any, Iterable[Any]]) -> bool:
        return super().have_one_encoding({None: [address for timers in members.values() for _, address in timers]})

    def is_empty(self) -> bool:
        return not any(queue.size for queue in self._queues)

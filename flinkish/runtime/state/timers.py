"""Timers of a keyed operator: in time order, one for each (time, key, namespace), in log and checkpoints."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from flinkish.runtime.state.tables import (
    Address,
    Namespaced,
    Table,
    TableMeta,
    key_of,
    namespace_of,
)

#: timestamp (ms), key, namespace
Fire = Callable[[int, Any, Any], None]

#: Called now and then while timers fire, with how many have fired so far; raises to stop.
Look = Callable[[int], None]

#: Timers that fire between two looks.
_LOOK = 1_000

#: One change: registered or not, timestamp, address.
_Change = tuple[bool, int, Address]


def _go_on(fired: int) -> None:
    pass


class TimerQueue:
    """The timers of one time domain: a set of addresses for each timestamp, and a heap of the timestamps.

    Timers of one timestamp fire in the order in which they were registered. A timestamp whose timers were all deleted stays in
    the heap until it comes up, or the heap is twice as large as it need be.
    """

    __slots__ = ("_changes", "_heap", "by_time", "size")

    def __init__(self) -> None:
        self.by_time: dict[int, dict[Address, None]] = {}
        self.size = 0
        self._heap: list[int] = []
        self._changes: list[_Change] = []

    def register(self, timestamp: int, address: Address) -> None:
        """Add a timer, unless there is the same already."""
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
        """Remove a timer if there is such a one."""
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
        """Return the earliest timestamp that has a timer."""
        heap, by_time = self._heap, self.by_time
        while heap and heap[0] not in by_time:
            heapq.heappop(heap)
        return heap[0] if heap else None

    def advance(self, timestamp: int, fire: Fire, look: Look) -> None:
        """Fire all timers up to a timestamp, in time order, also those that are registered meanwhile.

        A timer is removed before it fires, so that the function called can register it again.
        """
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
                    # All deleted, and perhaps registered anew; or an earlier one is due: look again.
                    break
        return fired

    def advance_clock(self, now: int, fire: Fire, look: Look) -> None:
        """Fire all timers up to the present, as `advance`; one that a timer sets for the present itself waits for the next call.

        The present stands still until then: a function that sets a timer for now whenever one fires would go on for ever.
        """
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
        """Drop all timers: with what changed, or, where some are in the log already, as a change."""
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
        """Return what changed since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def apply(self, changes: list[_Change]) -> None:
        """Do again what `take_changes` gave."""
        for registered, timestamp, address in changes:
            if registered:
                self.register(timestamp, address)
            else:
                self.delete(timestamp, address)
        self._changes.clear()

    def fill(self, by_time: dict[int, list[Address]]) -> None:
        """Add timers without logging them."""
        for timestamp, addresses in by_time.items():
            timers = self.by_time.setdefault(timestamp, {})
            before = len(timers)
            timers.update(dict.fromkeys(addresses))
            self.size += len(timers) - before
        self._heap = sorted(self.by_time)


class TimerTable(Table):
    """Timers of both time domains."""

    def __init__(self, meta: TableMeta) -> None:
        super().__init__(meta)
        self.event_time = TimerQueue()
        self.processing_time = TimerQueue()

    def take_changes(self) -> tuple[list[_Change], list[_Change]] | None:
        event_time, processing_time = self.event_time.take_changes(), self.processing_time.take_changes()
        return (event_time, processing_time) if event_time or processing_time else None

    def apply(self, changes: tuple[list[_Change], list[_Change]]) -> None:
        self.event_time.apply(changes[0])
        self.processing_time.apply(changes[1])

    def dump(self) -> tuple[dict[int, list[Address]], dict[int, list[Address]]]:
        return _dump(self.event_time), _dump(self.processing_time)

    def fill(self, dumped: tuple[dict[int, list[Address]], dict[int, list[Address]]]) -> None:
        self.event_time.fill(dumped[0])
        self.processing_time.fill(dumped[1])

    def is_empty(self) -> bool:
        return not self.event_time.size and not self.processing_time.size


def _dump(queue: TimerQueue) -> dict[int, list[Address]]:
    return {timestamp: list(timers) for timestamp, timers in queue.by_time.items()}


class InternalTimerService:
    """Registers, deletes and fires the timers of one keyed operator.

    Timestamps are milliseconds. A namespace of None is the void one.
    """

    __slots__ = ("_event_time", "_processing_time")

    def __init__(self, table: TimerTable) -> None:
        self._event_time = table.event_time
        self._processing_time = table.processing_time

    def register_event_time_timer(self, key: Any, namespace: Any, timestamp: int) -> None:
        """Have the timer fire when the watermark reaches `timestamp`, or at the next watermark if it has already."""
        self._event_time.register(timestamp, key if namespace is None else Namespaced(key, namespace))

    def delete_event_time_timer(self, key: Any, namespace: Any, timestamp: int) -> None:
        """Remove the timer if there is such a one."""
        self._event_time.delete(timestamp, key if namespace is None else Namespaced(key, namespace))

    def register_processing_time_timer(self, key: Any, namespace: Any, timestamp: int) -> None:
        """Have the timer fire when processing time reaches `timestamp`."""
        self._processing_time.register(timestamp, key if namespace is None else Namespaced(key, namespace))

    def delete_processing_time_timer(self, key: Any, namespace: Any, timestamp: int) -> None:
        """Remove the timer if there is such a one."""
        self._processing_time.delete(timestamp, key if namespace is None else Namespaced(key, namespace))

    def advance_watermark(self, timestamp: int, fire: Fire, look: Look = _go_on) -> None:
        """Fire all event-time timers up to `timestamp`, in time order, also those that are registered meanwhile."""
        self._event_time.advance(timestamp, fire, look)

    def advance_processing_time(self, timestamp: int, fire: Fire, look: Look = _go_on) -> None:
        """Fire all processing-time timers up to `timestamp`, in time order, also those that are registered meanwhile.

        Those that are registered meanwhile for `timestamp` itself wait for the next call.
        """
        self._processing_time.advance_clock(timestamp, fire, look)

    def next_event_time(self) -> int | None:
        """Return when the earliest event-time timer is due."""
        return self._event_time.next()

    def next_processing_time(self) -> int | None:
        """Return when the earliest processing-time timer is due."""
        return self._processing_time.next()

    def num_event_time_timers(self) -> int:
        """Return how many event-time timers there are."""
        return self._event_time.size

    def num_processing_time_timers(self) -> int:
        """Return how many processing-time timers there are."""
        return self._processing_time.size

    def forget(self, *, logged: bool) -> None:
        """Drop all timers, with what changed, as if they had never been."""
        self._event_time.forget(logged=logged)
        self._processing_time.forget(logged=logged)

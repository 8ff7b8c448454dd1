"""Interval joins: Flink's IntervalJoinOperator."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from flinkish.common.errors import InvalidProgramError
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.functions import ProcessJoinFunction
from flinkish.datastream.operators import IntervalJoinConfig
from flinkish.datastream.output_tag import OutputTag
from flinkish.datastream.state import ListState, ListStateDescriptor
from flinkish.datastream.time_domain import TimeDomain
from flinkish.runtime.elements import Records
from flinkish.runtime.operators.base import OperatorContext
from flinkish.runtime.operators.co import ProcessInput, process_run
from flinkish.runtime.operators.results import results_emitter
from flinkish.runtime.operators.timed import TimedOperator
from flinkish.runtime.protocol import MAX_WATERMARK
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.runtime.state.timers import InternalTimerService

_LEFT, _RIGHT = 0, 1


class _JoinContext(ProcessJoinFunction.Context):
    """One object for all pairs, filled anew for each."""

    def __init__(self) -> None:
        self.left_timestamp = 0
        self.right_timestamp = 0

    def get_left_timestamp(self) -> int:
        return self.left_timestamp

    def get_right_timestamp(self) -> int:
        return self.right_timestamp

    def get_timestamp(self) -> int:
        return max(self.left_timestamp, self.right_timestamp)


class _Buffer:
    """The records of one side that may still find a partner: a list for each key and timestamp, which is the namespace.

    `times` are the timestamps of each key, in order: a view of the state, so that only those within the interval are looked at.
    The first of each key has a timer, which removes all that is over and goes on to the next: fewer timers than one for each.
    """

    def __init__(
        self,
        side: int,
        backend: KeyedStateBackend,
        timers: InternalTimerService,
        record_type: TypeInformation,
        cleanup_delay: int,
    ) -> None:
        name = "_left_buffer" if side == _LEFT else "_right_buffer"
        self.state: ListState[Any] = backend.get_list_state(ListStateDescriptor(name, record_type))
        self._side = side
        self._backend = backend
        self._timers = timers
        #: How long after its timestamp a record may find partners.
        self._cleanup_delay = cleanup_delay
        self.times: dict[Any, list[int]] = {}
        for key, timestamp in backend.keys_and_namespaces(name):
            self.times.setdefault(key, []).append(timestamp)
        for times in self.times.values():
            times.sort()

    def add(self, key: Any, timestamp: int, value: Any) -> None:
        """Keep a record of the current key, until no partner of it can come."""
        times = self.times.get(key)
        if times is None:
            self.times[key] = [timestamp]
            self._set_timer(key, timestamp)
        elif times[-1] < timestamp:
            times.append(timestamp)
        else:
            position = bisect_left(times, timestamp)
            if times[position] != timestamp:
                times.insert(position, timestamp)
                if position == 0:
                    self._timers.delete_event_time_timer(key, self._side, self._over(times[1]))
                    self._set_timer(key, timestamp)
        self._backend.current_namespace = timestamp
        self.state.add(value)
        self._backend.current_namespace = None

    def clean(self, key: Any, watermark: int) -> None:
        """Remove what can find no partner any more."""
        backend, times = self._backend, self.times.get(key, [])
        count = len(times) if watermark == MAX_WATERMARK else bisect_right(times, watermark - self._cleanup_delay)
        for timestamp in times[:count]:
            backend.current_namespace = timestamp
            self.state.clear()
        backend.current_namespace = None
        if count < len(times):
            del times[:count]
            self._set_timer(key, times[0])
        else:
            self.times.pop(key, None)

    def _set_timer(self, key: Any, timestamp: int) -> None:
        self._timers.register_event_time_timer(key, self._side, self._over(timestamp))

    def _over(self, timestamp: int) -> int:
        """Return the watermark at which a record can find no partner any more."""
        return min(timestamp + self._cleanup_delay, MAX_WATERMARK)


class IntervalJoinOperator(TimedOperator[IntervalJoinConfig]):
    """Keeps the records of both sides for as long as a partner may come, and joins each new one with those of the other side.

    Partners come in the order of their timestamps, then of arrival. A record before the watermark is late: it joins nothing, as
    its partners may be gone.

    Differs from Flink: that visits all records of the key for each new one; here only those within the interval.
    """

    def __init__(self, context: OperatorContext) -> None:
        super().__init__(context)
        config, types = self.config, self.node.input_types
        self._left = _Buffer(_LEFT, self.backend, self.timers, types[_LEFT], max(config.upper_bound, 0))
        self._right = _Buffer(_RIGHT, self.backend, self.timers, types[_RIGHT], max(-config.lower_bound, 0))
        self._context = _JoinContext()

    def open(self) -> None:
        super().open()
        config = self.config
        self._emit_results = results_emitter(self.output, self.emit, self.side_types(), self.node.name)
        self._late_dropped = self.context.metrics.counter("numLateRecordsDropped")
        self._inputs = (
            self._joining(_LEFT, config.lower_bound, config.upper_bound, config.left_late),
            self._joining(_RIGHT, -config.upper_bound, -config.lower_bound, config.right_late),
        )

    def process_records(self, input_index: int, records: Records) -> None:
        process_run(self, self._inputs[input_index], records)

    def _joining(self, side: int, lower: int, upper: int, late: OutputTag | None) -> ProcessInput:
        """Return what takes the records of one side; partners are from `lower` to `upper` after them."""
        ours, others = (self._left, self._right) if side == _LEFT else (self._right, self._left)
        add, times_of_others, get_others = ours.add, others.times, others.state.get
        backend, context = self.backend, self._context
        process_element, emit_results = self.function.process_element, self._emit_results

        def process(value: Any, timestamp: int | None, self: IntervalJoinOperator = self) -> None:
            if timestamp is None:
                raise InvalidProgramError(
                    f"a record of {self.node.name!r} has no event time (Flink: Long.MIN_VALUE timestamp)",
                    hint="call assign_timestamps_and_watermarks() with a timestamp assigner before key_by().",
                )
            if timestamp < self.current_watermark:
                self._late(value, timestamp, late)
                return
            key = backend.current_key
            add(key, timestamp, value)
            times = times_of_others.get(key)
            if times is not None:
                for other_timestamp in times[bisect_left(times, timestamp + lower) : bisect_right(times, timestamp + upper)]:
                    backend.current_namespace = other_timestamp
                    partners = get_others()
                    backend.current_namespace = None
                    if side == _LEFT:
                        context.left_timestamp, context.right_timestamp = timestamp, other_timestamp
                    else:
                        context.left_timestamp, context.right_timestamp = other_timestamp, timestamp
                    joined = timestamp if timestamp > other_timestamp else other_timestamp
                    for partner in partners:
                        results = (
                            process_element(value, partner, context)
                            if side == _LEFT
                            else process_element(partner, value, context)
                        )
                        if results is not None:
                            emit_results(results, joined)

        return process

    def _late(self, value: Any, timestamp: int, tag: OutputTag | None) -> None:
        if tag is None:
            self._late_dropped.inc()
        else:
            self._emit_results(((tag, value),), timestamp)

    def fire(self, timestamp: int, key: Any, namespace: Any, domain: TimeDomain) -> None:
        self.backend.current_key = key
        (self._left if namespace == _LEFT else self._right).clean(key, self.current_watermark)

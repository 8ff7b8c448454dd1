"""Interval joins: Flink's IntervalJoinOperator."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Any

from flinkish.common.errors import InvalidProgramError
from flinkish.common.typeinfo import TypeInformation
from flinkish.program.operators import IntervalJoinConfig
from flinkish.runtime.elements import Records
from flinkish.runtime.operators.base import LATE_RECORDS, OperatorContext
from flinkish.runtime.operators.function import keyed
from flinkish.runtime.operators.timed import TimedOperator
from flinkish.runtime.protocol import MAX_WATERMARK
from flinkish.runtime.state.backend import TimerQueue
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.runtime.state.tables import Namespaced
from flinkish.udf.functions import ProcessJoinFunction
from flinkish.udf.output_tag import OutputTag
from flinkish.udf.state import ListStateDescriptor
from flinkish.udf.time_domain import TimeDomain

_LEFT, _RIGHT = 0, 1
_LATE = "the watermark has passed the record's time, so its partners may be gone"


class _JoinContext(ProcessJoinFunction.Context):
    """The context of ProcessJoinFunction; one object is updated for each pair."""

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

    `times` has the sorted timestamps of each key, so that only records within the interval are read. Only the first timestamp of
    a key has a timer, which removes expired records and is set again for the next timestamp; this needs fewer timers.
    """

    def __init__(
        self,
        side: int,
        backend: KeyedStateBackend,
        timers: TimerQueue,
        record_type: TypeInformation,
        cleanup_delay: int,
    ) -> None:
        name = "_left_buffer" if side == _LEFT else "_right_buffer"
        self.table, self._convert = backend.grouped_table_of(ListStateDescriptor(name, record_type), "key")
        self._freeze = self.table.codec.freeze
        self._side = side
        self._timers = timers
        #: Milliseconds after its timestamp in which a record may find partners.
        self._cleanup_delay = cleanup_delay
        self.times: dict[Any, list[int]] = {key: sorted(self.table.members(key)) for key in self.table.groups()}

    def add(self, key: Any, timestamp: int, value: Any) -> None:
        """Keep a record of the current key until no partner for it can arrive."""
        times = self.times.get(key)
        if times is None:
            self.times[key] = [timestamp]
            self._set_timer(key, timestamp)
        elif times[-1] < timestamp:
            times.append(timestamp)
        elif times[-1] > timestamp:
            position = bisect_left(times, timestamp)
            if times[position] != timestamp:
                times.insert(position, timestamp)
                if position == 0:
                    self._timers.delete(self._over(times[1]), Namespaced(key, self._side))
                    self._set_timer(key, timestamp)
        self.table.append(key, timestamp, self._freeze(value if self._convert is None else self._convert(value)))

    def clean(self, key: Any, watermark: int) -> None:
        """Remove records that can no longer find a partner."""
        times = self.times.get(key, [])
        count = len(times) if watermark == MAX_WATERMARK else bisect_right(times, watermark - self._cleanup_delay)
        if count == len(times):
            self.table.clear(key)
            self.times.pop(key, None)
            return
        for timestamp in times[:count]:
            self.table.remove(key, timestamp)
        del times[:count]
        self._set_timer(key, times[0])

    def _set_timer(self, key: Any, timestamp: int) -> None:
        self._timers.register(self._over(timestamp), Namespaced(key, self._side))

    def _over(self, timestamp: int) -> int:
        """Return the watermark at which a record can no longer find a partner."""
        return min(timestamp + self._cleanup_delay, MAX_WATERMARK)


class IntervalJoinOperator(TimedOperator[IntervalJoinConfig]):
    """Keeps the records of both sides as long as a partner may arrive, and joins each new one with those of the other side.

    Partners are ordered by timestamp, then by arrival. A record before the watermark is late and is not joined, because its
    partners may have been removed.

    Differs from Flink, which visits all records of the key for each new one: here only those within the interval are visited.
    """

    def __init__(self, context: OperatorContext) -> None:
        super().__init__(context)
        config, types = self.config, self.node.input_types
        self._left = _Buffer(_LEFT, self.backend, self.timers.event_time, types[_LEFT], max(config.upper_bound, 0))
        self._right = _Buffer(_RIGHT, self.backend, self.timers.event_time, types[_RIGHT], max(-config.lower_bound, 0))
        lower, upper = config.lower_bound, config.upper_bound
        #: For each side: its buffer, the other's, the tag for its late records, and the interval of its partners.
        self._sides = (
            (self._left, self._right, config.left_late, lower, upper),
            (self._right, self._left, config.right_late, -upper, -lower),
        )
        self._context = _JoinContext()

    def open(self) -> None:
        super().open()
        self._late_dropped = self.context.metrics.counter(LATE_RECORDS)

    def process_records(self, input_index: int, records: Records) -> None:
        backend = self.backend
        ours, others, late, lower, upper = self._sides[input_index]
        add, times_of_others = ours.add, others.times
        for value, timestamp, key in keyed(records):
            backend.current_key = key
            if timestamp is None:
                raise InvalidProgramError(
                    f"a record of {self.node.name!r} has no event time (Flink: Long.MIN_VALUE timestamp)",
                    hint="call assign_timestamps_and_watermarks() with a timestamp assigner before key_by().",
                )
            if timestamp < self.current_watermark:
                self._late(value, timestamp, late)
                continue
            add(key, timestamp, value)
            times = times_of_others.get(key)
            if times is not None:
                for other in times[bisect_left(times, timestamp + lower) : bisect_right(times, timestamp + upper)]:
                    partners = others.table.get(key, other)
                    if input_index == _LEFT:
                        self._join([value], partners, timestamp, other)
                    else:
                        self._join(partners, [value], other, timestamp)

    def _join(self, lefts: list[Any], rights: list[Any], left_timestamp: int, right_timestamp: int) -> None:
        context, process_element, emit_results = self._context, self.function.process_element, self.emit_results
        context.left_timestamp, context.right_timestamp = left_timestamp, right_timestamp
        timestamp = max(left_timestamp, right_timestamp)
        for left in lefts:
            for right in rights:
                results = process_element(left, right, context)
                if results is not None:
                    emit_results(results, timestamp)

    def _late(self, value: Any, timestamp: int, tag: OutputTag | None) -> None:
        if tag is not None and tag.tag_id in self.output.side:
            self.emit_results([(tag, value)], timestamp)
            return
        self._late_dropped.inc()
        self.context.dead_letters.late(value, timestamp, self.current_watermark, _LATE)

    def fire(self, timestamp: int, key: Any, namespace: Any, domain: TimeDomain) -> None:
        self.backend.current_key = key
        (self._left if namespace == _LEFT else self._right).clean(key, self.current_watermark)

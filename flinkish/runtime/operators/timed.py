"""Keyed operators with timers."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from flinkish.common import options
from flinkish.common.errors import InvalidProgramError
from flinkish.runtime.operators.base import OperatorContext
from flinkish.runtime.operators.function import ConfigT, ResultsOperator
from flinkish.runtime.operators.window.restored import refuse_windows
from flinkish.runtime.protocol import MAX_WATERMARK, MIN_WATERMARK
from flinkish.runtime.state.backend import Look
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.udf.time_domain import TimeDomain


class TimerContext(Protocol):
    """The attributes of an OnTimerContext that are updated for each timer."""

    element_timestamp: int | None
    domain: TimeDomain


class TimedOperator(ResultsOperator[ConfigT]):
    """Fires timers: event-time timers when the watermark passes them, processing-time timers at start and end of each epoch.

    At the end of the input, event-time timers fire with the MAX watermark, and pending processing-time timers are dropped, as in
    Flink.
    """

    backend: KeyedStateBackend

    def __init__(self, context: OperatorContext) -> None:
        super().__init__(context)
        self.timers = self.backend.timers()
        self._fire_event_time = partial(self.fire, domain=TimeDomain.EVENT_TIME)
        self._fire_processing_time = partial(self.fire, domain=TimeDomain.PROCESSING_TIME)
        self._chain_limit: int = context.program.configuration.get(options.TIMERS_AFTER_END)

    def fire(self, timestamp: int, key: Any, namespace: Any, domain: TimeDomain) -> None:
        """Call the user's on_timer."""
        raise NotImplementedError

    def after_timers(self) -> None:
        """Emit what `fire` has kept of the timers that were due."""

    def watermark(self, timestamp: int) -> None:
        self.current_watermark = timestamp
        look: Look = self._check_interrupted
        if timestamp == MAX_WATERMARK:
            look = self._bounded_by(self.timers.event_time.size + self._chain_limit)
        self.timers.event_time.advance(timestamp, self._fire_event_time, look)
        self.after_timers()
        self.output.watermark(timestamp)

    def _check_interrupted(self, fired: int) -> None:
        self.context.time.check_interrupted()

    def _bounded_by(self, most: int) -> Look:
        """Return a check that stops timers from firing for ever, because at the end of event time every new timer is due."""

        def look(fired: int) -> None:
            self.context.time.check_interrupted()
            if fired > most:
                raise InvalidProgramError(
                    f"the timers of {self.node.name} (uid {self.node.uid}) do not come to an end: after the end of the input, "
                    f"timers of subtask {self.context.subtask_index} have set more than {self._chain_limit:,} timers, all due.",
                    hint="do not set a timer again when current_watermark() is 2**63 - 1, the end of the input (a continuous "
                    "trigger needs windows that end); if there are that many, raise "
                    f"{options.TIMERS_AFTER_END.key}.",
                )

        return look

    def end_key(self) -> None:
        """Fire all timers, also processing-time timers; timers that they register are ignored (as Flink does in batch mode)."""
        self.current_watermark = MAX_WATERMARK
        self.quiesced = True
        self.timers.event_time.advance(MAX_WATERMARK, self._fire_event_time, self._check_interrupted)
        self.timers.processing_time.advance_clock(MAX_WATERMARK, self._fire_processing_time, self._check_interrupted)
        self.quiesced = False
        self.current_watermark = MIN_WATERMARK

    def begin_epoch(self) -> None:
        # In batch mode, timers fire when their key has ended.
        if not self.ended and not self.context.batch:
            now = self.context.time.processing_time
            self.timers.processing_time.advance_clock(now, self._fire_processing_time, self._check_interrupted)
            self.after_timers()

    def before_barrier(self) -> None:
        self.begin_epoch()

    def next_timer(self) -> int | None:
        due = not self.ended and not self.context.batch
        return self.timers.processing_time.next() if due else None


class UserTimerOperator(TimedOperator[ConfigT]):
    """Fires timers by calling the user function's on_timer; the results have the timer's time as timestamp.

    Differs from Flink: an on_timer that returns None has no output (PyFlink 2.3 raises a TypeError).
    """

    timer_context: TimerContext

    def open(self) -> None:
        super().open()
        if self.context.restored_checkpoint is not None:
            refuse_windows(self.context.state, self.timers)

    def fire(self, timestamp: int, key: Any, namespace: Any, domain: TimeDomain) -> None:
        self.backend.current_key = key
        context = self.timer_context
        context.element_timestamp = timestamp
        context.domain = domain
        results = self.function.on_timer(timestamp, context)
        if results is not None:
            self.emit_results(results, timestamp)

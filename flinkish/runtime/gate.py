"""The receiving side of a vertex: takes channels in a fixed order, combines watermarks, aligns barriers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, assert_never

from flinkish.common.clock import Clock, SystemClock
from flinkish.common.columns import Columns
from flinkish.runtime.elements import (
    CheckpointBarrier,
    Element,
    EndOfInput,
    Records,
    Watermark,
    WatermarkStatus,
    decode_body,
)
from flinkish.runtime.protocol import MIN_WATERMARK, Barrier
from flinkish.runtime.watermarks import combine


class GateListener(Protocol):
    """The events that a gate reports to its vertex.

    They are: records, or columns; a rise of the combined watermark; all channels became idle, or one active again; a barrier
    that all channels have delivered; the end of all channels of an input, whose `input_index` is 0 or 1.
    """

    def on_records(self, input_index: int, records: Records) -> None: ...

    def on_columns(self, input_index: int, columns: Columns) -> None: ...

    def on_watermark(self, timestamp: int) -> None: ...

    def on_status(self, idle: bool) -> None: ...

    def on_barrier(self, barrier: Barrier) -> None: ...

    def on_end_of_input(self, input_index: int) -> None: ...


@dataclass(slots=True)
class InputChannel:
    """State of one channel; `watermark` and the flags are kept from epoch to epoch, the rest is valid within one epoch."""

    edge: int
    sender: int
    input_index: int
    watermark: int = MIN_WATERMARK
    idle: bool = False
    ended: bool = False
    blocked: bool = False
    #: Elements, and bodies of frames that are not decoded yet.
    elements: deque[Element | bytes] = field(default_factory=deque)


class InputGate:
    """All channels of a vertex in one subtask.

    Among the channels that have elements and are not blocked, the one with the lowest watermark is processed first, then by edge
    and sender. So inputs advance together in event time, and the order is the same in every try.

    The combined watermark is the minimum of the active channels and never decreases; idle channels are ignored. If all are idle,
    the gate is idle and keeps its watermark (Flink's StatusWatermarkValve).
    """

    def __init__(self, channels: Iterable[InputChannel], *, clock: Clock | None = None) -> None:
        self.channels = sorted(channels, key=lambda channel: (channel.edge, channel.sender))
        self._by_address = {(channel.edge, channel.sender): channel for channel in self.channels}
        self._clock = clock or SystemClock()
        self._barrier: Barrier | None = None
        self._first_barrier = 0
        #: Milliseconds between the first and the last barrier of the last checkpoint.
        self.alignment_ms = 0
        self.watermark = MIN_WATERMARK
        self._idle = False

    @property
    def ended(self) -> bool:
        return all(channel.ended for channel in self.channels)

    def dump(self) -> list[tuple[int, int, int, bool, bool]]:
        """Return the state that is kept from epoch to epoch, as plain data."""
        return [(c.edge, c.sender, c.watermark, c.idle, c.ended) for c in self.channels]

    def load(self, dumped: list[tuple[int, int, int, bool, bool]], watermark: int) -> None:
        """Continue from the result of `dump` in an earlier epoch."""
        for edge, sender, channel_watermark, idle, ended in dumped:
            channel = self._by_address[edge, sender]
            channel.watermark, channel.idle, channel.ended = channel_watermark, idle, ended
        self.watermark = watermark
        self._idle = all(channel.idle for channel in self.channels)

    def offer(self, edge: int, sender: int, elements: Iterable[Element | bytes]) -> None:
        """Add a channel's input: elements, or bodies of frames, which are decoded only when they are processed."""
        self._by_address[edge, sender].elements.extend(elements)

    def process(self, listener: GateListener) -> None:
        """Pass on all elements, except those that wait behind a barrier."""
        channels = self.channels
        while True:
            chosen: InputChannel | None = None
            for channel in channels:
                if channel.elements and not channel.blocked and (chosen is None or channel.watermark < chosen.watermark):
                    chosen = channel
            if chosen is None:
                return
            element = chosen.elements.popleft()
            if isinstance(element, bytes):
                chosen.elements.extendleft(reversed(decode_body(element)))
            elif isinstance(element, Records):
                listener.on_records(chosen.input_index, element)
            elif isinstance(element, Columns):
                listener.on_columns(chosen.input_index, element)
            else:
                self._control(chosen, element, listener)

    def unaligned(self) -> list[Any]:
        """Return the addresses of channels that still hold elements; empty after a complete epoch."""
        return [(channel.edge, channel.sender) for channel in self.channels if channel.elements or channel.blocked]

    def _control(self, channel: InputChannel, element: Element, listener: GateListener) -> None:
        match element:
            case Watermark(timestamp):
                if timestamp > channel.watermark:
                    channel.watermark = timestamp
                    if channel.idle:  # a watermark on an idle channel makes it active, as in Flink
                        channel.idle = False
                    self._combine(listener)
            case WatermarkStatus(idle):
                if idle != channel.idle:
                    channel.idle = idle
                    self._combine(listener)
            case CheckpointBarrier(barrier):
                channel.blocked = True
                self._align(barrier, listener)
            case EndOfInput():
                news, channel.ended = not channel.ended, True
                if news and all(other.ended for other in self.channels if other.input_index == channel.input_index):
                    listener.on_end_of_input(channel.input_index)
            case Records() | Columns():
                raise AssertionError("records are handed over by process()")
            case _:
                assert_never(element)

    def _combine(self, listener: GateListener) -> None:
        least, idle = combine(self.channels)
        changed, self._idle = idle != self._idle, idle
        if changed and not idle:
            listener.on_status(False)
        # When the last channel becomes idle, no channel holds the watermark back, so it rises to the maximum.
        if least > self.watermark and (changed or not idle):
            self.watermark = least
            listener.on_watermark(least)
        if changed and idle:
            listener.on_status(True)

    def _align(self, barrier: Barrier, listener: GateListener) -> None:
        if self._barrier is None:
            self._first_barrier = self._clock.monotonic()
        if self._barrier is None or barrier.checkpoint_id > self._barrier.checkpoint_id:
            self._barrier = barrier
        if all(channel.blocked for channel in self.channels):
            aligned, self._barrier = self._barrier, None
            self.alignment_ms = self._clock.monotonic() - self._first_barrier
            listener.on_barrier(aligned)
            for channel in self.channels:
                channel.blocked = False

"""Runs watermark generators: one for each split, combined into the watermark of one subtask.

Idleness is measured by the steady time of an attempt, so changes of the clock and the time between two attempts have no effect.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from flinkish.common.watermark_strategy import WatermarkGenerator, WatermarkStrategy
from flinkish.runtime.protocol import MIN_WATERMARK


class SplitWatermarks:
    """A watermark generator and its output, for one split; implements WatermarkOutput."""

    def __init__(self, generator: WatermarkGenerator, now: int, combined: CombinedWatermarks) -> None:
        self.generator = generator
        self.on_event = generator.on_event
        self.watermark = MIN_WATERMARK
        self.idle = False
        self.last_event = now
        self._events = False
        self._combined = combined

    @property
    def has_begun(self) -> bool:
        return self._events or self.watermark != MIN_WATERMARK

    def emit_watermark(self, timestamp: int) -> None:
        if timestamp > self.watermark:
            self.watermark = timestamp
            self._combined.changed = True

    def mark_idle(self) -> None:
        """Mark the split as idle because its generator or source says so, even if it had records in this epoch."""
        self.idle = True
        self._events = False
        self._combined.changed = True

    def mark_active(self) -> None:
        """Mark the split as active because its source says so."""
        if self.idle:
            self.idle = False
            self._combined.changed = True

    def event(self, value: Any, timestamp: int | None) -> None:
        """Pass a record to the generator."""
        self._events = True
        self.on_event(value, MIN_WATERMARK if timestamp is None else timestamp, self)

    def check_idleness(self, now: int, timeout: int | None) -> None:
        """Update the idleness at the end of an epoch, by the time since the last event."""
        if self._events:
            self._events = False
            self.last_event = now
            if self.idle:
                self.idle = False
                self._combined.changed = True
        elif timeout is not None and not self.idle and now - self.last_event >= timeout:
            self.mark_idle()

    def idle_at(self, timeout: int) -> int | None:
        """Return when the split becomes idle if no record arrives; None if it is already idle."""
        return None if self.idle else self.last_event + timeout

    def get_state(self) -> Any:
        """Return the state as plain data."""
        return [self.watermark, self.idle, [self._combined.attempt, self.last_event], self.generator.get_state()]

    def set_state(self, state: Any, timeout: int | None) -> None:
        """Continue from a result of `get_state`, perhaps of another process; a new attempt restarts the idleness timeout."""
        self.watermark, idle, since, inner = state
        # A split that became idle by the timeout may have records by now, which would be late if it stayed idle.
        self.idle = idle and timeout is None
        if since.__class__ is list and since[0] == self._combined.attempt:
            self.idle, self.last_event = idle, since[1]
        self.generator.set_state(inner)


class CombinedWatermarks:
    """The minimum watermark of the splits that are not idle, which one subtask of a source emits."""

    def __init__(self, strategy: WatermarkStrategy, periodic: bool, attempt: str = "") -> None:
        self._strategy = strategy
        self._periodic = periodic
        self.attempt = attempt
        #: The watermark of finished splits, and whether it is used, because nothing is left to read.
        self._ended = MIN_WATERMARK
        self._drained = False
        #: Since when there has been no split, and whether this exceeds the timeout, so that the subtask is idle.
        self._without_splits: int | None = None
        self._idle_without_splits = False
        self._splits: dict[str, SplitWatermarks] = {}
        #: Whether a split's watermark or idleness has changed since the last `take`.
        self.changed = False
        self.watermark = MIN_WATERMARK
        self.idle = False

    def split(self, split_id: str, now: int, state: Any = None) -> SplitWatermarks:
        """Return the generator of a split; the first call creates it, from `state` if there is one."""
        split = self._splits.get(split_id)
        if split is None:
            split = self._splits[split_id] = SplitWatermarks(self._strategy.create_generator(), now, self)
            if state is not None:
                split.set_state(state, self._strategy.idleness_ms)
            self._without_splits, self._idle_without_splits, self._drained = None, False, False
            self.changed = True
        return split

    def remove(self, split_id: str, *, last_word: bool = False) -> None:
        """Remove a split that has been read to its end.

        With `last_word`, its final watermark is used when the subtask has nothing left to read, so that splits that are read one
        after the other do not hold each other back.
        """
        split = self._splits.get(split_id)
        if split is None:
            return
        if last_word and split.has_begun:
            if self._periodic:
                split.generator.on_periodic_emit(split)
            # Splits that come after this one have said nothing yet.
            self._ended = max(self._ended, combine([other for other in self._splits.values() if other.has_begun])[0])
        del self._splits[split_id]
        self.changed = True

    def state_of(self, split_id: str) -> Any:
        """Return the state of a split's generator; None if it has none yet."""
        split = self._splits.get(split_id)
        return None if split is None else split.get_state()

    def take(self) -> tuple[int | None, bool | None]:
        """Return the new watermark if it rose, and the new idleness if it changed, since the last call."""
        self.changed = False
        if self._splits:
            least, idle = combine(self._splits.values())
        else:
            idle = self._idle_without_splits
            least = self._ended if self._drained else MIN_WATERMARK
        changed = idle if idle != self.idle else None
        self.idle = idle
        if least > self.watermark:
            self.watermark = least
            return least, changed
        return None, changed

    def emit_periodic(self) -> None:
        if self._periodic:
            for split in self._splits.values():
                split.generator.on_periodic_emit(split)

    def splits_after(self, timestamp: int) -> dict[str, int]:
        """Return the watermarks of the splits whose watermark is after `timestamp`, by the splits' ids."""
        return {name: split.watermark for name, split in self._splits.items() if split.watermark > timestamp}

    def end_epoch(self, now: int, *, held_back: bool = False, paused: Collection[str] = (), drained: bool = False) -> None:
        """Let periodic generators emit, and check which splits became idle, unless they or the whole source were held back.

        `paused` = ids of splits. `drained` = there is nothing left to read. A subtask without splits also becomes idle after the
        timeout.
        """
        self.emit_periodic()
        timeout = self._strategy.idleness_ms
        if not self._splits:
            self._drained = drained
            if self._without_splits is None:
                self._without_splits = now
            if timeout is not None and now - self._without_splits >= timeout:
                self._idle_without_splits = True
        for name, split in self._splits.items():
            if held_back or name in paused:
                # Nothing was read, although there may be records: the timeout begins again.
                split.last_event = now
            split.check_idleness(now, timeout)


def combine(members: Collection[Any]) -> tuple[int, bool]:
    """Return the minimum `watermark` of the members that are not `idle`, the maximum if all are; and whether all are."""
    active = [member.watermark for member in members if not member.idle]
    return min(active) if active else max(member.watermark for member in members), not active

"""Runs watermark generators: one for each split, combined into the watermark of one subtask.

Idleness is counted by the steady time of an attempt: no setting of a clock counts, nor the time between two attempts.
"""

from __future__ import annotations

from typing import Any

from flinkish.common.watermark_strategy import WatermarkGenerator, WatermarkStrategy
from flinkish.runtime.protocol import MIN_WATERMARK


class SplitWatermarks:
    """A generator with what it said: the WatermarkOutput of one split."""

    def __init__(self, generator: WatermarkGenerator, now: int, combined: CombinedWatermarks) -> None:
        self.generator = generator
        self.on_event = generator.on_event
        self.watermark = MIN_WATERMARK
        self.idle = False
        self._last_event = now
        self._events = False
        self._combined = combined

    def emit_watermark(self, timestamp: int) -> None:
        """Take a watermark from the generator."""
        if timestamp > self.watermark:
            self.watermark = timestamp
            self._combined.changed = True

    def mark_idle(self) -> None:
        """Take the generator's word, or the source's, that the split is idle, whatever records it gave in this epoch."""
        self.idle = True
        self._events = False
        self._combined.changed = True

    def mark_active(self) -> None:
        """Take the source's word that the split is idle no longer."""
        if self.idle:
            self.idle = False
            self._combined.changed = True

    def event(self, value: Any, timestamp: int | None) -> None:
        """Show a record to the generator."""
        self._events = True
        self.on_event(value, MIN_WATERMARK if timestamp is None else timestamp, self)

    def check_idleness(self, now: int, timeout: int | None) -> None:
        """Set idleness by how long ago the last event was, at the end of an epoch."""
        if self._events:
            self._events = False
            self._last_event = now
            if self.idle:
                self.idle = False
                self._combined.changed = True
        elif timeout is not None and not self.idle and now - self._last_event >= timeout:
            self.mark_idle()

    def idle_at(self, timeout: int) -> int | None:
        """Return when the split falls idle if no record comes; None if it is idle."""
        return None if self.idle else self._last_event + timeout

    def keep_from_idleness(self, now: int) -> None:
        """Count idleness from now on: nothing was read, though there may be something."""
        self._last_event = now

    def get_state(self) -> Any:
        """Return plain data to go on from."""
        return [self.watermark, self.idle, [self._combined.attempt, self._last_event], self.generator.get_state()]

    def set_state(self, state: Any, timeout: int | None) -> None:
        """Go on from what `get_state` gave, perhaps in another process; in another attempt idleness is counted from now on."""
        self.watermark, idle, since, inner = state
        # What was fallen idle for want of records may have some waiting; it would find them late.
        self.idle = idle and timeout is None
        if since.__class__ is list and since[0] == self._combined.attempt:
            self.idle, self._last_event = idle, since[1]
        self.generator.set_state(inner)


class CombinedWatermarks:
    """The least watermark of the splits that are not idle; what one subtask of a source emits."""

    def __init__(self, strategy: WatermarkStrategy, periodic: bool, attempt: str = "") -> None:
        self._strategy = strategy
        self._periodic = periodic
        self.attempt = attempt
        #: What the splits that are read to their ends have come to, and whether it counts: nothing is left to read.
        self._ended = MIN_WATERMARK
        self._drained = False
        #: Since when there has been no split, and whether for so long that the subtask is idle.
        self._without_splits: int | None = None
        self._idle_without_splits = False
        self._splits: dict[str, SplitWatermarks] = {}
        #: A split's watermark or idleness changed since the last `take`.
        self.changed = False
        self.watermark = MIN_WATERMARK
        self.idle = False

    def split(self, split_id: str, now: int, state: Any = None) -> SplitWatermarks:
        """Return the generator of a split, made on first use, from `state` if there is one."""
        split = self._splits.get(split_id)
        if split is None:
            split = self._splits[split_id] = SplitWatermarks(self._strategy.create_generator(), now, self)
            if state is not None:
                split.set_state(state, self._strategy.idleness_ms)
            self._without_splits, self._idle_without_splits, self._drained = None, False, False
            self.changed = True
        return split

    def remove(self, split_id: str, *, last_word: bool = False) -> None:
        """Forget a split that is read to its end.

        With `last_word` the watermark that it has come to counts once the subtask has nothing left to read: splits that are read
        one after the other are not held against each other.
        """
        split = self._splits.get(split_id)
        if split is None:
            return
        if last_word:
            if self._periodic:
                split.generator.on_periodic_emit(split)
            self._ended = max(self._ended, self._least())
        del self._splits[split_id]
        self.changed = True

    def _least(self) -> int:
        """Return the least watermark of those splits that are not idle; the highest if all are."""
        active = [split.watermark for split in self._splits.values() if not split.idle]
        return min(active) if active else max(split.watermark for split in self._splits.values())

    def state_of(self, split_id: str) -> Any:
        """Return the state of a split's generator; None if it has none yet."""
        split = self._splits.get(split_id)
        return None if split is None else split.get_state()

    def take(self) -> tuple[int | None, bool | None]:
        """Return the new watermark if it rose, and the new idleness if it changed, since the last call."""
        self.changed = False
        if self._splits:
            idle = all(split.idle for split in self._splits.values())
            least = self._least()
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
        """Let periodic generators emit."""
        if self._periodic:
            for split in self._splits.values():
                split.generator.on_periodic_emit(split)

    def end_epoch(self, now: int, *, held_back: bool = False, drained: bool = False) -> None:
        """Let periodic generators emit and see which splits fell idle; none that was held back.

        `drained`: there is nothing left to read. A subtask without splits is idle after the timeout, too.
        """
        self.emit_periodic()
        timeout = self._strategy.idleness_ms
        if not self._splits:
            self._drained = drained
            if self._without_splits is None:
                self._without_splits = now
            if timeout is not None and now - self._without_splits >= timeout:
                self._idle_without_splits = True
        for split in self._splits.values():
            if held_back:
                split.keep_from_idleness(now)
            split.check_idleness(now, timeout)

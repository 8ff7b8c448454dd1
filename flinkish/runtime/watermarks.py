"""Runs watermark generators: one for each split, combined into the watermark of one subtask."""

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

    def keep_from_idleness(self, now: int) -> None:
        """Count idleness from now on: nothing was read, though there may be something."""
        self._last_event = now

    def get_state(self) -> Any:
        """Return plain data to go on from."""
        return [self.watermark, self.idle, self._last_event, self.generator.get_state()]

    def set_state(self, state: Any) -> None:
        """Go on from what `get_state` gave, perhaps in another process."""
        self.watermark, self.idle, self._last_event, inner = state
        self.generator.set_state(inner)


class CombinedWatermarks:
    """The least watermark of the splits that are not idle; what one subtask of a source emits."""

    def __init__(self, strategy: WatermarkStrategy, periodic: bool) -> None:
        self._strategy = strategy
        self._periodic = periodic
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
                split.set_state(state)
            self.changed = True
        return split

    def remove(self, split_id: str) -> None:
        """Forget a split that is read to its end."""
        if self._splits.pop(split_id, None) is not None:
            self.changed = True

    def state_of(self, split_id: str) -> Any:
        """Return the state of a split's generator; None if it has none yet."""
        split = self._splits.get(split_id)
        return None if split is None else split.get_state()

    def take(self) -> tuple[int | None, bool | None]:
        """Return the new watermark if it rose, and the new idleness if it changed, since the last call."""
        self.changed = False
        if not self._splits:
            return None, None
        active = [split.watermark for split in self._splits.values() if not split.idle]
        idle = not active
        changed = idle if idle != self.idle else None
        self.idle = idle
        least = min(active) if active else max(split.watermark for split in self._splits.values())
        if least > self.watermark:
            self.watermark = least
            return least, changed
        return None, changed

    def emit_periodic(self) -> None:
        """Let periodic generators emit."""
        if self._periodic:
            for split in self._splits.values():
                split.generator.on_periodic_emit(split)

    def end_epoch(self, now: int, *, held_back: bool = False) -> None:
        """Let periodic generators emit and see which splits fell idle; none that was held back."""
        self.emit_periodic()
        for split in self._splits.values():
            if held_back:
                split.keep_from_idleness(now)
            split.check_idleness(now, self._strategy.idleness_ms)

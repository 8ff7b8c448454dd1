"""Which windows depend on times only, so that all keys of a window begin and fire together."""

from __future__ import annotations

from typing import Any

from flinkish.program.operators import WindowConfig
from flinkish.udf.window import (
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

_TUMBLING = (TumblingEventTimeWindows, TumblingProcessingTimeWindows)
SLIDING = (SlidingEventTimeWindows, SlidingProcessingTimeWindows)
#: The assigners of sessions, whose windows are merged in the same way.
_FIXED_GAP = (EventTimeSessionWindows, ProcessingTimeSessionWindows)
SESSIONS = (*_FIXED_GAP, DynamicEventTimeSessionWindows, DynamicProcessingTimeSessionWindows)
#: Allowed lateness (ms) with which windows outlive the end of the input; only the general operator knows which have fired then.
_FOREVER = 2**62


def fire_by_default(config: WindowConfig) -> bool:
    """Tell whether windows fire when they end: there is no evictor, nor another trigger than the assigner's default one.

    A subclass of a trigger may behave differently, so it is not treated like its base class.
    """
    trigger = EventTimeTrigger if config.assigner.is_event_time() else ProcessingTimeTrigger
    return config.evictor is None and type(config.trigger) is trigger and config.allowed_lateness < _FOREVER


def are_aligned(config: WindowConfig) -> bool:
    """Tell whether windows begin at the same times for all keys, without gaps between them, and fire when they end."""
    assigner: Any = config.assigner
    if not fire_by_default(config):
        return False
    return type(assigner) in _TUMBLING or (type(assigner) in SLIDING and assigner._slide <= assigner._size)


def are_folded_counts(config: WindowConfig) -> bool:
    """Tell whether windows have a number of records each, fold these and fire when they are full."""
    assigner: Any = config.assigner
    trigger: Any = config.trigger
    folded = config.fold is not None and config.evictor is None
    counted = type(assigner) in (CountTumblingWindowAssigner, CountSlidingWindowAssigner) and type(trigger) is CountTrigger
    return folded and counted and trigger._window_size == assigner._window_size


def are_global_counts(config: WindowConfig) -> bool:
    """Tell whether windows never end, fold their records and fire at every n-th one."""
    folded = config.fold is not None and config.evictor is None
    return folded and type(config.assigner) is GlobalWindows and type(config.trigger) is CountTrigger


def are_folded_sessions(config: WindowConfig, *, fixed_gap: bool = False) -> bool:
    """Tell whether windows are sessions, with a gap that no record changes if `fixed_gap`, which fold their records and fire when
    they end.
    """
    assigner = type(config.assigner)
    folded = config.fold is not None and config.allowed_lateness == 0
    return folded and fire_by_default(config) and assigner in (_FIXED_GAP if fixed_gap else SESSIONS)

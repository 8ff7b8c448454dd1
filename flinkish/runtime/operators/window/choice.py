"""Which operator runs windows."""

from __future__ import annotations

from typing import Any

from flinkish.common import options
from flinkish.datastream.operators import WindowConfig
from flinkish.datastream.window import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessingTimeSessionWindows,
    ProcessingTimeTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flinkish.runtime.operators.base import Operator, OperatorContext
from flinkish.runtime.operators.window.aligned import FoldedWindowsOperator, ListedWindowsOperator
from flinkish.runtime.operators.window.operator import WindowOperator, clear_of
from flinkish.runtime.operators.window.sessions import SessionWindowsOperator

_TUMBLING = (TumblingEventTimeWindows, TumblingProcessingTimeWindows)
_SLIDING = (SlidingEventTimeWindows, SlidingProcessingTimeWindows)
_SESSIONS = (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
)
#: Windows that outlive the end of the input (292 million years), of which the general operator alone knows which have fired.
_FOREVER = 2**62


def window_operator(context: OperatorContext) -> Operator:
    """Make the operator for windows as configured.

    Subclasses of assigners and triggers may do anything, so they do not count as what they derive from.
    """
    config = context.node.operator
    assert isinstance(config, WindowConfig)
    assigner = type(config.assigner)
    trigger = EventTimeTrigger if config.assigner.is_event_time() else ProcessingTimeTrigger
    if config.evictor is not None or type(config.trigger) is not trigger or config.allowed_lateness >= _FOREVER:
        return WindowOperator(context)
    if assigner in _TUMBLING:
        return ListedWindowsOperator(context) if config.fold is None else FoldedWindowsOperator(context)
    if assigner in _SLIDING and _can_share_panes(context, config):
        return FoldedWindowsOperator(context)
    if assigner in _SESSIONS and config.fold is not None and config.allowed_lateness == 0:
        return SessionWindowsOperator(context)
    return WindowOperator(context)


def _can_share_panes(context: OperatorContext, config: WindowConfig) -> bool:
    assigner: Any = config.assigner
    overlapping = assigner._slide < assigner._size
    # A function that clears state of windows has to be told of each one; with lateness only the general operator knows.
    clears = config.allowed_lateness > 0 and clear_of(config.function) is not None
    wanted = config.share_panes and context.configuration.get(options.SHARE_PANES)
    return config.fold is not None and wanted and overlapping and not clears

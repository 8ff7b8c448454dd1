"""Which operator runs windows."""

from __future__ import annotations

from typing import Any

from flinkish.common import options
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
from flinkish.program.operators import WindowConfig
from flinkish.runtime.operators.base import Operator, OperatorContext
from flinkish.runtime.operators.window.aligned import (
    FoldedWindowsOperator,
    ListedWindowsOperator,
    OverlappingWindowsOperator,
    SharedPanesOperator,
)
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
    if assigner in _TUMBLING or (assigner in _SLIDING and _overlap(config.assigner)):
        if config.fold is None:
            return ListedWindowsOperator(context)
        if assigner in _TUMBLING:
            return FoldedWindowsOperator(context)
        return SharedPanesOperator(context) if _may_share_panes(context, config) else OverlappingWindowsOperator(context)
    if assigner in _SESSIONS and config.fold is not None and config.allowed_lateness == 0:
        return SessionWindowsOperator(context)
    return WindowOperator(context)


def _overlap(assigner: Any) -> bool:
    overlap: bool = assigner._slide <= assigner._size
    return overlap


def _may_share_panes(context: OperatorContext, config: WindowConfig) -> bool:
    """Return whether windows may be put together from panes: if the user has declared that this cannot be seen in the results."""
    # A function that clears state of windows has to be told of each one; with lateness nothing tells which windows a pane had.
    clears = config.allowed_lateness > 0 and clear_of(config.function) is not None
    return context.configuration.get(options.SHARE_PANES) and not clears

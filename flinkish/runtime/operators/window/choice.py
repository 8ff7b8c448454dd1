"""Chooses the operator that runs windows."""

from __future__ import annotations

from typing import Any

from flinkish.common import options
from flinkish.program.operators import WindowConfig
from flinkish.runtime.operators.base import Operator, OperatorContext
from flinkish.runtime.operators.window.aligned import (
    FoldedWindowsOperator,
    ListedWindowsOperator,
    OverlappingWindowsOperator,
    SharedPanesOperator,
)
from flinkish.runtime.operators.window.merging import SESSIONS
from flinkish.runtime.operators.window.operator import WindowOperator, clear_of
from flinkish.runtime.operators.window.sessions import SessionWindowsOperator
from flinkish.udf.window import (
    EventTimeTrigger,
    ProcessingTimeTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

_TUMBLING = (TumblingEventTimeWindows, TumblingProcessingTimeWindows)
_SLIDING = (SlidingEventTimeWindows, SlidingProcessingTimeWindows)
#: Allowed lateness (ms) with which windows outlive the end of the input; only the general operator knows which have fired then.
_FOREVER = 2**62


def window_operator(context: OperatorContext) -> Operator:
    """Create the operator for the configured windows.

    A subclass of an assigner or trigger may behave differently, so it is not treated like its base class.
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
    if assigner in SESSIONS and config.fold is not None and config.allowed_lateness == 0:
        return SessionWindowsOperator(context)
    return WindowOperator(context)


def _overlap(assigner: Any) -> bool:
    overlap: bool = assigner._slide <= assigner._size
    return overlap


def _may_share_panes(context: OperatorContext, config: WindowConfig) -> bool:
    """Tell whether windows may be combined from panes: the user has declared that this does not change the results."""
    # A function that clears state must be called for each window; with lateness, the windows of a pane cannot be determined.
    clears = config.allowed_lateness > 0 and clear_of(config.function) is not None
    return context.configuration.get(options.SHARE_PANES) and not clears

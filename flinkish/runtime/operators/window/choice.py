"""Which operator runs windows."""

from __future__ import annotations

from typing import Any

from flinkish.datastream.operators import WindowConfig
from flinkish.datastream.window import (
    EventTimeTrigger,
    ProcessingTimeTrigger,
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from flinkish.runtime.operators.base import Operator, OperatorContext
from flinkish.runtime.operators.window.aligned import SharedPanesOperator, TumblingWindowOperator
from flinkish.runtime.operators.window.operator import WindowOperator, clear_of


def window_operator(context: OperatorContext) -> Operator:
    """Make the operator for windows as configured.

    Subclasses of assigners and triggers may do anything, so they do not count as what they derive from.
    """
    config = context.node.operator
    assert isinstance(config, WindowConfig)
    trigger = EventTimeTrigger if config.assigner.is_event_time() else ProcessingTimeTrigger
    if config.evictor is not None or type(config.trigger) is not trigger:
        return WindowOperator(context)
    if type(config.assigner) in (TumblingEventTimeWindows, TumblingProcessingTimeWindows):
        return TumblingWindowOperator(context)
    if type(config.assigner) in (SlidingEventTimeWindows, SlidingProcessingTimeWindows) and _can_share_panes(config):
        return SharedPanesOperator(context)
    return WindowOperator(context)


def _can_share_panes(config: WindowConfig) -> bool:
    assigner: Any = config.assigner
    overlapping = assigner._slide < assigner._size
    # A function that clears state of windows has to be told of each one; with lateness only the general operator knows.
    clears = config.allowed_lateness > 0 and clear_of(config.function) is not None
    return config.fold is not None and config.share_panes and overlapping and not clears

"""The table that maps operator configurations to the operators that run them, and the choice of the operator of windows."""

from __future__ import annotations

from collections.abc import Callable

from flinkish.common import options
from flinkish.common.errors import UnsupportedError
from flinkish.graph.windows import SLIDING, are_aligned, are_folded_counts, are_folded_sessions, are_global_counts
from flinkish.program import operators as configs
from flinkish.runtime.operators.async_wait import AsyncWaitOperator
from flinkish.runtime.operators.base import Operator, OperatorContext
from flinkish.runtime.operators.basic import (
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    DeduplicateOperator,
    FilterOperator,
    FlatMapOperator,
    KeyedCoProcessOperator,
    KeyedProcessOperator,
    MapOperator,
    ProcessOperator,
    ReduceOperator,
    TopNOperator,
)
from flinkish.runtime.operators.broadcast import BroadcastProcessOperator, KeyedBroadcastProcessOperator
from flinkish.runtime.operators.interval_join import IntervalJoinOperator
from flinkish.runtime.operators.sink import SinkOperator, SinkWriterOperator
from flinkish.runtime.operators.source import SourceOperator
from flinkish.runtime.operators.timestamps import TimestampsAndWatermarksOperator
from flinkish.runtime.operators.window.aligned import (
    FoldedWindowsOperator,
    ListedWindowsOperator,
    SharedPanesOperator,
)
from flinkish.runtime.operators.window.counts import CountWindowsOperator
from flinkish.runtime.operators.window.global_counts import GlobalCountsOperator
from flinkish.runtime.operators.window.operator import WindowOperator, clear_of
from flinkish.runtime.operators.window.sessions import SessionWindowsOperator


def window_operator(context: OperatorContext) -> Operator:
    """Create the operator for the configured windows.

    A subclass of an assigner or trigger may behave differently, so it is not treated like its base class.
    """
    config = context.node.operator
    assert isinstance(config, configs.WindowConfig)
    if are_aligned(config):
        if config.fold is None:
            return ListedWindowsOperator(context)
        shared = type(config.assigner) in SLIDING and _may_share_panes(context, config)
        return SharedPanesOperator(context) if shared else FoldedWindowsOperator(context)
    if are_folded_counts(config):
        return CountWindowsOperator(context)
    if are_global_counts(config):
        return GlobalCountsOperator(context)
    return SessionWindowsOperator(context) if are_folded_sessions(config) else WindowOperator(context)


def _may_share_panes(context: OperatorContext, config: configs.WindowConfig) -> bool:
    """Tell whether windows may be combined from panes: the user has declared that this does not change the results."""
    # A function that clears state must be called for each window; with lateness, the windows of a pane cannot be determined.
    clears = config.allowed_lateness > 0 and clear_of(config.function) is not None
    return context.program.configuration.get(options.SHARE_PANES) and not clears


def on_columns(name: str) -> Callable[[OperatorContext], Operator]:
    """Return what creates an operator on columns, whose module imports Arrow: only jobs that have one pay for it."""

    def create(context: OperatorContext) -> Operator:
        from flinkish.runtime.operators import columns

        operator: Operator = getattr(columns, name)(context)
        return operator

    return create


#: What runs each kind of operator.
OPERATORS: dict[type[configs.OperatorConfig], Callable[[OperatorContext], Operator]] = {
    configs.SourceConfig: SourceOperator,
    configs.MapConfig: MapOperator,
    configs.FlatMapConfig: FlatMapOperator,
    configs.FilterConfig: FilterOperator,
    configs.ProcessConfig: ProcessOperator,
    configs.KeyedProcessConfig: KeyedProcessOperator,
    configs.ReduceConfig: ReduceOperator,
    configs.DeduplicateConfig: DeduplicateOperator,
    configs.TopNConfig: TopNOperator,
    configs.MapBatchesConfig: on_columns("MapBatchesOperator"),
    configs.FilterColumnsConfig: on_columns("FilterColumnsOperator"),
    configs.SelectColumnsConfig: on_columns("SelectColumnsOperator"),
    configs.AggregateConfig: on_columns("AggregateOperator"),
    configs.CoMapConfig: CoMapOperator,
    configs.CoFlatMapConfig: CoFlatMapOperator,
    configs.CoProcessConfig: CoProcessOperator,
    configs.KeyedCoProcessConfig: KeyedCoProcessOperator,
    configs.BroadcastProcessConfig: BroadcastProcessOperator,
    configs.KeyedBroadcastProcessConfig: KeyedBroadcastProcessOperator,
    configs.AsyncWaitConfig: AsyncWaitOperator,
    configs.IntervalJoinConfig: IntervalJoinOperator,
    configs.TimestampsAndWatermarksConfig: TimestampsAndWatermarksOperator,
    configs.WindowConfig: window_operator,
    configs.SinkConfig: SinkOperator,
    configs.SinkWriterConfig: SinkWriterOperator,
}


def make_operator(context: OperatorContext) -> Operator:
    """Create the operator for a configuration.

    Raises UnsupportedError if there is none for this kind of configuration.
    """
    operator = OPERATORS.get(type(context.node.operator))
    if operator is None:
        raise UnsupportedError(f"operator {context.node.name!r}: nothing runs a {type(context.node.operator).__name__}")
    return operator(context)

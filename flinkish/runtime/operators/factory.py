"""The table that maps operator configurations to the operators that run them."""

from __future__ import annotations

from collections.abc import Callable

from flinkish.common.errors import UnsupportedError
from flinkish.program import operators as configs
from flinkish.runtime.operators.async_wait import AsyncWaitOperator
from flinkish.runtime.operators.base import Operator, OperatorContext
from flinkish.runtime.operators.broadcast import BroadcastProcessOperator, KeyedBroadcastProcessOperator
from flinkish.runtime.operators.co import (
    CoFlatMapOperator,
    CoMapOperator,
    CoProcessOperator,
    KeyedCoProcessOperator,
)
from flinkish.runtime.operators.interval_join import IntervalJoinOperator
from flinkish.runtime.operators.keyed import KeyedProcessOperator, ReduceOperator
from flinkish.runtime.operators.sink import SinkOperator, SinkWriterOperator
from flinkish.runtime.operators.source import SourceOperator
from flinkish.runtime.operators.stateless import (
    FilterOperator,
    FlatMapOperator,
    MapOperator,
    ProcessOperator,
)
from flinkish.runtime.operators.timestamps import TimestampsAndWatermarksOperator
from flinkish.runtime.operators.window.choice import window_operator

#: What runs each kind of operator.
OPERATORS: dict[type[configs.OperatorConfig], Callable[[OperatorContext], Operator]] = {
    configs.SourceConfig: SourceOperator,
    configs.MapConfig: MapOperator,
    configs.FlatMapConfig: FlatMapOperator,
    configs.FilterConfig: FilterOperator,
    configs.ProcessConfig: ProcessOperator,
    configs.KeyedProcessConfig: KeyedProcessOperator,
    configs.ReduceConfig: ReduceOperator,
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

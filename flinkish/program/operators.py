"""Operator configurations: immutable and picklable; the runtime builds the working operators from them.

Each kind of operator has a class. The table in `runtime.operators` maps these classes to the classes that run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkish.common.typeinfo import TypeInformation
from flinkish.common.watermark_strategy import WatermarkStrategy
from flinkish.program.sinks import Sink
from flinkish.program.sources import AnySource
from flinkish.udf import functions
from flinkish.udf.aggregates import FieldAggregates
from flinkish.udf.async_retry_strategies import AsyncRetryStrategy
from flinkish.udf.deduplication import FirstOfKey
from flinkish.udf.evictors import Evictor
from flinkish.udf.output_tag import OutputTag
from flinkish.udf.state import MapStateDescriptor
from flinkish.udf.top_n import TopN
from flinkish.udf.window import Trigger, WindowAssigner


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorConfig:
    """Base of all operator configurations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig(OperatorConfig):
    """Reads a source and generates its watermarks; `watermarks` is None for WatermarkStrategy.no_watermarks()."""

    source: AnySource
    watermarks: WatermarkStrategy | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MapConfig(OperatorConfig):
    function: functions.MapFunction
    #: Whether this is a projection, which runs like any map, but is shown in the plan as in Flink.
    projects: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FlatMapConfig(OperatorConfig):
    function: functions.FlatMapFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterConfig(OperatorConfig):
    function: functions.FilterFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessConfig(OperatorConfig):
    function: functions.ProcessFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedProcessConfig(OperatorConfig):
    function: functions.KeyedProcessFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceConfig(OperatorConfig):
    """Rolling reduce over a keyed stream; also behind sum, min, max, min_by and max_by."""

    function: functions.ReduceFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class DeduplicateConfig(OperatorConfig):
    """Keeps the first record of each key."""

    function: FirstOfKey


@dataclass(frozen=True, slots=True, kw_only=True)
class TopNConfig(OperatorConfig):
    """Keeps the first records of each key in the order of a field."""

    function: TopN


@dataclass(frozen=True, slots=True, kw_only=True)
class MapBatchesConfig(OperatorConfig):
    """Calls a function with batches of records, which it gets and returns as Arrow or, with `pandas`, as frames."""

    function: functions.MapFunction
    pandas: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterColumnsConfig(OperatorConfig):
    """Keeps the records for which an expression, a pyarrow.compute.Expression, is true."""

    expression: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectColumnsConfig(OperatorConfig):
    """Computes each field of the result by an expression, a pyarrow.compute.Expression."""

    expressions: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AggregateConfig(OperatorConfig):
    """Rolling aggregates over a keyed stream: a result for each record or, with `per_epoch`, for each key and epoch."""

    function: FieldAggregates
    per_epoch: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CoMapConfig(OperatorConfig):
    function: functions.CoMapFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class CoFlatMapConfig(OperatorConfig):
    function: functions.CoFlatMapFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class CoProcessConfig(OperatorConfig):
    function: functions.CoProcessFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedCoProcessConfig(OperatorConfig):
    function: functions.KeyedCoProcessFunction


@dataclass(frozen=True, slots=True, kw_only=True)
class BroadcastProcessConfig(OperatorConfig):
    """Reads a stream (input 0) and a broadcast stream (input 1), which fills the described states."""

    function: functions.BroadcastProcessFunction
    state_descriptors: tuple[MapStateDescriptor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedBroadcastProcessConfig(OperatorConfig):
    """Like BroadcastProcessConfig, but input 0 is keyed."""

    function: functions.KeyedBroadcastProcessFunction
    state_descriptors: tuple[MapStateDescriptor, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AsyncWaitConfig(OperatorConfig):
    """Makes an asynchronous call for each record, at most `capacity` at a time; `timeout` in milliseconds, 0 = none."""

    function: functions.AsyncFunction
    timeout: int
    capacity: int
    retry_strategy: AsyncRetryStrategy
    #: Whether results are emitted in the order of the records.
    ordered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalJoinConfig(OperatorConfig):
    """Joins two keyed inputs where left + lower_bound <= right <= left + upper_bound; milliseconds, both inclusive."""

    function: functions.ProcessJoinFunction
    lower_bound: int
    upper_bound: int
    #: Side outputs for late records; None = they are dropped.
    left_late: OutputTag | None
    right_late: OutputTag | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestampsAndWatermarksConfig(OperatorConfig):
    strategy: WatermarkStrategy


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkConfig(OperatorConfig):
    """Writes to a sink; commit requests go to the sink's committer on the driver."""

    sink: Sink[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkWriterConfig(OperatorConfig):
    """Writes to a sink; commit requests are emitted as records, for a second stage before the committer."""

    sink: Sink[Any, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowConfig(OperatorConfig):
    """Groups the records of each key into windows.

    `function` is a WindowFunction, a ProcessWindowFunction, or the variant of either for all windows. `fold` is a ReduceFunction
    or AggregateFunction that combines the records as they arrive, with the type of its result; without it the records are kept.
    """

    assigner: WindowAssigner[Any, Any]
    trigger: Trigger[Any, Any]
    function: functions.Function
    input_type: TypeInformation
    fold: functions.ReduceFunction | functions.AggregateFunction | None = None
    fold_type: TypeInformation | None = None
    evictor: Evictor[Any, Any] | None = None
    #: Milliseconds.
    allowed_lateness: int = 0
    late_data_tag: OutputTag | None = None

"""The DataStream API; the names of pyflink.datastream."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flinkish.common.absent import names_of
from flinkish.datastream.async_data_stream import AsyncDataStream
from flinkish.datastream.broadcast_stream import BroadcastConnectedStream, BroadcastStream
from flinkish.datastream.cached_stream import CachedDataStream
from flinkish.datastream.checkpoint_config import CheckpointConfig
from flinkish.datastream.checkpoint_storage import (
    CheckpointStorage,
    CustomCheckpointStorage,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from flinkish.datastream.checkpointing_mode import CheckpointingMode
from flinkish.datastream.closeable_iterator import CloseableIterator
from flinkish.datastream.connected_streams import ConnectedStreams
from flinkish.datastream.data_stream import DataStream, DataStreamSink
from flinkish.datastream.externalized_checkpoint_retention import ExternalizedCheckpointRetention
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.slot_sharing_group import MemorySize, SlotSharingGroup
from flinkish.datastream.state_backend import (
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    PredefinedOptions,
    StateBackend,
)
from flinkish.datastream.stream_execution_environment import StreamExecutionEnvironment
from flinkish.datastream.windowed_stream import AllWindowedStream, WindowedStream
from flinkish.program.execution_mode import RuntimeExecutionMode
from flinkish.udf.async_retry_strategies import AsyncRetryPredicate, AsyncRetryStrategy
from flinkish.udf.checkpoint import (
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
)
from flinkish.udf.functions import (
    AggregateFunction,
    AllWindowFunction,
    AsyncFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    KeySelector,
    MapFunction,
    Partitioner,
    ProcessAllWindowFunction,
    ProcessFunction,
    ProcessJoinFunction,
    ProcessWindowFunction,
    ReduceFunction,
    RuntimeContext,
    SinkFunction,
    SourceFunction,
    WindowFunction,
)
from flinkish.udf.output_tag import OutputTag
from flinkish.udf.time_domain import TimeDomain
from flinkish.udf.timerservice import TimerService
from flinkish.udf.window import (
    CountWindow,
    GlobalWindow,
    MergingWindowAssigner,
    TimeWindow,
    Trigger,
    TriggerResult,
    Window,
    WindowAssigner,
)

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AllWindowedStream",
    "AsyncDataStream",
    "AsyncFunction",
    "AsyncRetryPredicate",
    "AsyncRetryStrategy",
    "BroadcastConnectedStream",
    "BroadcastProcessFunction",
    "BroadcastStream",
    "CachedDataStream",
    "CheckpointConfig",
    "CheckpointListener",
    "CheckpointStorage",
    "CheckpointedFunction",
    "CheckpointingMode",
    "CloseableIterator",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "ConnectedStreams",
    "CountWindow",
    "CustomCheckpointStorage",
    "CustomStateBackend",
    "DataStream",
    "DataStreamSink",
    "EmbeddedRocksDBStateBackend",
    "ExternalizedCheckpointRetention",
    "FileSystemCheckpointStorage",
    "FilterFunction",
    "FlatMapFunction",
    "FunctionInitializationContext",
    "FunctionSnapshotContext",
    "GlobalWindow",
    "HashMapStateBackend",
    "JobManagerCheckpointStorage",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStream",
    "MapFunction",
    "MemorySize",
    "MergingWindowAssigner",
    "OutputTag",
    "Partitioner",
    "PredefinedOptions",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "RuntimeExecutionMode",
    "SinkFunction",
    "SlotSharingGroup",
    "SourceFunction",
    "StateBackend",
    "StreamExecutionEnvironment",
    "TimeDomain",
    "TimeWindow",
    "TimerService",
    "Trigger",
    "TriggerResult",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "WindowedStream",
]

if not TYPE_CHECKING:
    # Absent names of PyFlink; hidden from type checkers, which would accept any name otherwise.
    __getattr__ = names_of(__name__)

"""The DataStream API; the names of pyflink.datastream."""

from flinkish.common.absent import add_getattr as _add_getattr
from flinkish.datastream.async_data_stream import AsyncDataStream as AsyncDataStream
from flinkish.datastream.cached_stream import CachedDataStream as CachedDataStream
from flinkish.datastream.checkpoint_config import CheckpointConfig as CheckpointConfig
from flinkish.datastream.checkpoint_storage import CheckpointStorage as CheckpointStorage
from flinkish.datastream.checkpoint_storage import CustomCheckpointStorage as CustomCheckpointStorage
from flinkish.datastream.checkpoint_storage import FileSystemCheckpointStorage as FileSystemCheckpointStorage
from flinkish.datastream.checkpoint_storage import JobManagerCheckpointStorage as JobManagerCheckpointStorage
from flinkish.datastream.checkpointing_mode import CheckpointingMode as CheckpointingMode
from flinkish.datastream.closeable_iterator import CloseableIterator as CloseableIterator
from flinkish.datastream.connected_streams import BroadcastConnectedStream as BroadcastConnectedStream
from flinkish.datastream.connected_streams import BroadcastStream as BroadcastStream
from flinkish.datastream.connected_streams import ConnectedStreams as ConnectedStreams
from flinkish.datastream.data_stream import DataStream as DataStream
from flinkish.datastream.data_stream import DataStreamSink as DataStreamSink
from flinkish.datastream.externalized_checkpoint_retention import (
    ExternalizedCheckpointRetention as ExternalizedCheckpointRetention,
)
from flinkish.datastream.keyed_stream import KeyedStream as KeyedStream
from flinkish.datastream.slot_sharing_group import MemorySize as MemorySize
from flinkish.datastream.slot_sharing_group import SlotSharingGroup as SlotSharingGroup
from flinkish.datastream.state_backend import CustomStateBackend as CustomStateBackend
from flinkish.datastream.state_backend import EmbeddedRocksDBStateBackend as EmbeddedRocksDBStateBackend
from flinkish.datastream.state_backend import HashMapStateBackend as HashMapStateBackend
from flinkish.datastream.state_backend import PredefinedOptions as PredefinedOptions
from flinkish.datastream.state_backend import StateBackend as StateBackend
from flinkish.datastream.stream_execution_environment import StreamExecutionEnvironment as StreamExecutionEnvironment
from flinkish.datastream.windowed_stream import AllWindowedStream as AllWindowedStream
from flinkish.datastream.windowed_stream import WindowedStream as WindowedStream
from flinkish.program.execution_mode import RuntimeExecutionMode as RuntimeExecutionMode
from flinkish.udf.async_retry_strategies import AsyncRetryPredicate as AsyncRetryPredicate
from flinkish.udf.async_retry_strategies import AsyncRetryStrategy as AsyncRetryStrategy
from flinkish.udf.checkpoint import CheckpointedFunction as CheckpointedFunction
from flinkish.udf.checkpoint import CheckpointListener as CheckpointListener
from flinkish.udf.checkpoint import FunctionInitializationContext as FunctionInitializationContext
from flinkish.udf.checkpoint import FunctionSnapshotContext as FunctionSnapshotContext
from flinkish.udf.functions import AggregateFunction as AggregateFunction
from flinkish.udf.functions import AllWindowFunction as AllWindowFunction
from flinkish.udf.functions import AsyncFunction as AsyncFunction
from flinkish.udf.functions import BroadcastProcessFunction as BroadcastProcessFunction
from flinkish.udf.functions import CoFlatMapFunction as CoFlatMapFunction
from flinkish.udf.functions import CoMapFunction as CoMapFunction
from flinkish.udf.functions import CoProcessFunction as CoProcessFunction
from flinkish.udf.functions import FilterFunction as FilterFunction
from flinkish.udf.functions import FlatMapFunction as FlatMapFunction
from flinkish.udf.functions import KeyedBroadcastProcessFunction as KeyedBroadcastProcessFunction
from flinkish.udf.functions import KeyedCoProcessFunction as KeyedCoProcessFunction
from flinkish.udf.functions import KeyedProcessFunction as KeyedProcessFunction
from flinkish.udf.functions import KeySelector as KeySelector
from flinkish.udf.functions import MapFunction as MapFunction
from flinkish.udf.functions import Partitioner as Partitioner
from flinkish.udf.functions import ProcessAllWindowFunction as ProcessAllWindowFunction
from flinkish.udf.functions import ProcessFunction as ProcessFunction
from flinkish.udf.functions import ProcessJoinFunction as ProcessJoinFunction
from flinkish.udf.functions import ProcessWindowFunction as ProcessWindowFunction
from flinkish.udf.functions import ReduceFunction as ReduceFunction
from flinkish.udf.functions import RuntimeContext as RuntimeContext
from flinkish.udf.functions import SinkFunction as SinkFunction
from flinkish.udf.functions import SourceFunction as SourceFunction
from flinkish.udf.functions import WindowFunction as WindowFunction
from flinkish.udf.output_tag import OutputTag as OutputTag
from flinkish.udf.time_domain import TimeDomain as TimeDomain
from flinkish.udf.timerservice import TimerService as TimerService
from flinkish.udf.window import CountWindow as CountWindow
from flinkish.udf.window import GlobalWindow as GlobalWindow
from flinkish.udf.window import MergingWindowAssigner as MergingWindowAssigner
from flinkish.udf.window import TimeWindow as TimeWindow
from flinkish.udf.window import Trigger as Trigger
from flinkish.udf.window import TriggerResult as TriggerResult
from flinkish.udf.window import Window as Window
from flinkish.udf.window import WindowAssigner as WindowAssigner

__all__ = sorted(name for name in globals() if name[0].isupper())

_add_getattr(__name__)

"""Interfaces of user functions, and of the contexts with which they are called; programs import `datastream.functions`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JAVA_OBJECT
from flinkish.common.errors import UnsupportedError
from flinkish.udf.time_domain import TimeDomain
from flinkish.udf.timerservice import TimerService

if TYPE_CHECKING:
    from flinkish.metrics import MetricGroup
    from flinkish.udf.state import (
        AggregatingState,
        AggregatingStateDescriptor,
        BroadcastState,
        ListState,
        ListStateDescriptor,
        MapState,
        MapStateDescriptor,
        ReadOnlyBroadcastState,
        ReducingState,
        ReducingStateDescriptor,
        State,
        StateDescriptor,
        ValueState,
        ValueStateDescriptor,
    )

__all__ = [
    "AggregateFunction",
    "AllWindowFunction",
    "AsyncFunction",
    "BaseBroadcastProcessFunction",
    "BroadcastProcessFunction",
    "CoFlatMapFunction",
    "CoMapFunction",
    "CoProcessFunction",
    "FilterFunction",
    "FlatMapFunction",
    "Function",
    "KeySelector",
    "KeyedBroadcastProcessFunction",
    "KeyedCoProcessFunction",
    "KeyedProcessFunction",
    "KeyedStateFunction",
    "KeyedStateStore",
    "MapFunction",
    "NullByteKeySelector",
    "Partitioner",
    "PassThroughAllWindowFunction",
    "PassThroughWindowFunction",
    "ProcessAllWindowFunction",
    "ProcessFunction",
    "ProcessJoinFunction",
    "ProcessWindowFunction",
    "ReduceFunction",
    "RuntimeContext",
    "SinkFunction",
    "SourceFunction",
    "WindowFunction",
]

IN = TypeVar("IN")
OUT = TypeVar("OUT")
KEY = TypeVar("KEY")
W = TypeVar("W")
W2 = TypeVar("W2")


class KeyedStateStore(ABC):
    """Gives access to the state of the current key; only on keyed streams; elsewhere each method raises StateError.

    Get state in `open`; the returned handle always refers to the key of the current record (or timer).
    """

    @abstractmethod
    def get_state(self, state_descriptor: ValueStateDescriptor) -> ValueState[Any]:
        """Return the state that holds one value for each key."""

    @abstractmethod
    def get_list_state(self, state_descriptor: ListStateDescriptor) -> ListState[Any]:
        """Return the state that holds a list for each key; adding to it is cheap, however long it is."""

    @abstractmethod
    def get_map_state(self, state_descriptor: MapStateDescriptor) -> MapState[Any, Any]:
        """Return the state that holds a map for each key; entries are read and written one by one."""

    @abstractmethod
    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor) -> ReducingState[Any]:
        """Return the state that reduces the values added to it to one value of the same type."""

    @abstractmethod
    def get_aggregating_state(self, state_descriptor: AggregatingStateDescriptor) -> AggregatingState[Any, Any]:
        """Return the state that aggregates the values added to it into an accumulator."""


class RuntimeContext(KeyedStateStore):
    """Information about the subtask in which a function runs; passed to `open`."""

    @abstractmethod
    def get_task_name(self) -> str:
        """Return the name of the task: the names of its chained operators."""

    @abstractmethod
    def get_number_of_parallel_subtasks(self) -> int:
        """Return the parallelism of the task."""

    @abstractmethod
    def get_max_number_of_parallel_subtasks(self) -> int:
        """Return the max parallelism of the task: the number of its key groups."""

    @abstractmethod
    def get_index_of_this_subtask(self) -> int:
        """Return the index of this subtask, from 0 on."""

    @abstractmethod
    def get_attempt_number(self) -> int:
        """Return how often the job was restarted: 0 in the first attempt."""

    def get_task_name_with_subtasks(self) -> str:
        """Return the task's name with subtask (from 1 on) and attempt, such as `Map (2/4)#0`."""
        subtask = f"{self.get_index_of_this_subtask() + 1}/{self.get_number_of_parallel_subtasks()}"
        return f"{self.get_task_name()} ({subtask})#{self.get_attempt_number()}"

    @abstractmethod
    def get_job_parameter(self, key: str, default_value: str) -> str:
        """Return a global job parameter (ExecutionConfig.set_global_job_parameters), or the default."""

    @abstractmethod
    def get_metrics_group(self) -> MetricGroup:
        """Return the group in which this operator's metrics are registered."""


class Function(ABC):  # noqa: B024 - a common base, as in PyFlink
    """Base class of all functions that users write."""

    def open(self, runtime_context: RuntimeContext) -> None:  # noqa: B027 - optional
        """Set up, in the task, before the first record: connections, state handles, metrics."""

    def close(self) -> None:  # noqa: B027 - optional
        """Clean up, in the task, after the last record or when the job fails or is cancelled."""


class MapFunction(Function):
    """Returns one record for each record."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Return the record to emit for `value`."""


class CoMapFunction(Function):
    """Returns at most one record for each record of two connected streams."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Return the record to emit for a record of the first stream; None emits nothing."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Return the record to emit for a record of the second stream; None emits nothing."""


class FlatMapFunction(Function):
    """Returns none, one or many records for each record."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any]:
        """Return, or yield, the records to emit for `value`. Must be an iterable, None is an error."""


class CoFlatMapFunction(Function):
    """Returns none, one or many records for each record of two connected streams."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | None:
        """Return, or yield, the records to emit for a record of the first stream; None emits nothing."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | None:
        """Return, or yield, the records to emit for a record of the second stream; None emits nothing."""


class ReduceFunction(Function):
    """Combines two records into one of the same type."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Return the combination of the value reduced so far and a new record."""


class AggregateFunction(Function):
    """Aggregates records into an accumulator, from which the result is computed.

    The type of the records, of the accumulator and of the result may all be different.
    """

    @abstractmethod
    def create_accumulator(self) -> Any:
        """Return a new, empty accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """Return the accumulator with a record added; this may be the same object, modified."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """Return the result computed from the accumulator."""

    @abstractmethod
    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """Return an accumulator for the records of both; needed if windows are merged."""


class KeySelector(Function):
    """Extracts the key of a record."""

    @abstractmethod
    def get_key(self, value: Any) -> Any:
        """Return the key; it must always be the same for the same record."""


class NullByteKeySelector(KeySelector):
    """Gives all records the same key."""

    def get_key(self, value: Any) -> int:
        return 0


class FilterFunction(Function):
    """Decides which records to keep."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Return whether the record is kept."""


class Partitioner(Function):
    """Chooses the subtask that a record goes to."""

    @abstractmethod
    def partition(self, key: Any, num_partitions: int) -> int:
        """Return an index from 0 to `num_partitions` - 1 for a key."""


class ProcessFunction(Function):
    """Handles each record of a stream that is not keyed, and may emit any number of records, also to side outputs."""

    class Context(ABC):
        """Information about the current record; valid during the call only."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the service that gives the time; timers cannot be registered without keys."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the event time of the record in milliseconds, -2**63 if it has none."""

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Return, or yield, the records to emit for `value`; `(OutputTag, record)` goes to that side output."""


class KeyedProcessFunction(Function):
    """Handles each record of a keyed stream, with state and timers of its key."""

    class Context(ABC):
        """Information about the current record; valid during the call only."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """Return the key of the record, or of the timer."""

        @abstractmethod
        def timer_service(self) -> TimerService:
            """Return the service that gives the time and registers timers of the current key."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the event time of the record in milliseconds (-2**63 if it has none), or the time of the timer."""

    class OnTimerContext(Context):
        """Information about the timer that fires; valid during the call only."""

        @abstractmethod
        def time_domain(self) -> TimeDomain:
            """Return whether the timer was registered in event time or in processing time."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterable[Any] | None:
        """Return, or yield, the records to emit for `value`; `(OutputTag, record)` goes to that side output."""

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Return, or yield, the records to emit when a timer fires.

        Differs from Flink: None is allowed, as it is in `process_element`; PyFlink fails with a TypeError.
        """
        return None


class CoProcessFunction(Function):
    """Handles each record of two connected streams that are not both keyed."""

    class Context(ProcessFunction.Context):
        """Information about the current record; valid during the call only."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Return, or yield, the records to emit for a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: CoProcessFunction.Context) -> Iterable[Any] | None:
        """Return, or yield, the records to emit for a record of the second stream."""


class KeyedCoProcessFunction(Function):
    """Handles each record of two connected keyed streams, with state and timers that both share for a key."""

    class Context(KeyedProcessFunction.Context):
        """Information about the current record; valid during the call only."""

    class OnTimerContext(Context, KeyedProcessFunction.OnTimerContext):
        """Information about the timer that fires; valid during the call only."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Return, or yield, the records to emit for a record of the first stream."""

    @abstractmethod
    def process_element2(self, value: Any, ctx: KeyedCoProcessFunction.Context) -> Iterable[Any] | None:
        """Return, or yield, the records to emit for a record of the second stream."""

    def on_timer(self, timestamp: int, ctx: KeyedCoProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Return, or yield, the records to emit when a timer fires; None is allowed, see KeyedProcessFunction."""
        return None


class BaseBroadcastProcessFunction(Function):
    """Common base of BroadcastProcessFunction and KeyedBroadcastProcessFunction, with their contexts.

    A broadcast element is processed once in each subtask. Its processing must depend only on the element and the broadcast
    state, so that the copies of all subtasks stay the same.
    """

    class BaseContext(ABC):
        """Information about the current record; valid during the call only. Times are milliseconds."""

        @abstractmethod
        def timestamp(self) -> int:
            """Return the event time of the record, -2**63 if it has none."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time; it stands still within one epoch."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the current event-time watermark, the lesser one of both streams."""

    class Context(BaseContext):
        """Context of broadcast elements: it can change the broadcast state."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> BroadcastState[Any, Any]:
            """Return a broadcast state; its descriptor must have been given to `broadcast`."""

    class ReadOnlyContext(BaseContext):
        """Context of the other stream's records: it can read the broadcast state."""

        @abstractmethod
        def get_broadcast_state(self, state_descriptor: MapStateDescriptor) -> ReadOnlyBroadcastState[Any, Any]:
            """Return a broadcast state for reading; values that it returns must not be changed in place either."""


class BroadcastProcessFunction(BaseBroadcastProcessFunction):
    """Handles the records of a stream without keys, and the elements of a broadcast stream."""

    class Context(BaseBroadcastProcessFunction.Context):
        """Context of broadcast elements."""

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext):
        """Context of the other stream's records."""

    @abstractmethod
    def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any] | None:
        """Return, or yield, the records to emit for a record of the stream that is not broadcast."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Iterable[Any] | None:
        """Return, or yield, the records to emit for a broadcast element."""


class KeyedStateFunction(ABC):
    """The function that `apply_to_keyed_state` calls for each key; from Flink's Java API."""

    @abstractmethod
    def process(self, key: Any, state: Any) -> None:
        """Read or change the state of a key."""


class KeyedBroadcastProcessFunction(BaseBroadcastProcessFunction):
    """Handles the records of a keyed stream, with state and timers of their keys, and the elements of a broadcast stream."""

    class Context(BaseBroadcastProcessFunction.Context):
        """Context of broadcast elements, which have no key: only `apply_to_keyed_state` gives access to keyed state."""

        @abstractmethod
        def apply_to_keyed_state(
            self, state_descriptor: StateDescriptor, function: KeyedStateFunction | Callable[[Any, State], None]
        ) -> None:
            """Call a function with (key, state) for every key of this subtask that has a value in a state.

            From Flink's Java API; PyFlink does not have it. The order of the keys is not defined.
            """

    class ReadOnlyContext(BaseBroadcastProcessFunction.ReadOnlyContext, KeyedProcessFunction.Context):
        """Context of the keyed stream's records."""

    class OnTimerContext(ReadOnlyContext, KeyedProcessFunction.OnTimerContext):
        """Context of timers; `timestamp` is the time of the timer."""

    @abstractmethod
    def process_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Iterable[Any] | None:
        """Return, or yield, the records to emit for a record of the keyed stream."""

    @abstractmethod
    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Iterable[Any] | None:
        """Return, or yield, the records to emit for a broadcast element."""

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Iterable[Any] | None:
        """Return, or yield, the records to emit when a timer fires; None is allowed, see KeyedProcessFunction."""
        return None


class AsyncFunction(Function):
    """Calls a service for each record, without waiting for the previous call; see AsyncDataStream.

    All calls of a subtask run in one event loop, in a thread of its own; shared data needs no lock, but calls must not block.
    `open` and `close` are called outside of it.
    """

    @abstractmethod
    async def async_invoke(self, value: Any) -> list[Any]:
        """Return the records to emit for `value`, as a list; an error fails the job, unless it is tried again."""

    def timeout(self, value: Any) -> list[Any]:
        """Return the records to emit for `value` if its call timed out; by default raises TimeoutError."""
        raise TimeoutError(f"Async function call has timed out for input: {value}")


class ProcessJoinFunction(Function):
    """Handles each pair of records that an interval join finds; from Flink's Java API."""

    class Context(ABC):
        """Information about the current pair; valid during the call only. Timestamps are milliseconds."""

        @abstractmethod
        def get_left_timestamp(self) -> int:
            """Return the event time of the left record."""

        @abstractmethod
        def get_right_timestamp(self) -> int:
            """Return the event time of the right record."""

        @abstractmethod
        def get_timestamp(self) -> int:
            """Return the event time of the pair, and of records emitted for it: the later of the two."""

    @abstractmethod
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Iterable[Any] | None:
        """Return, or yield, the records to emit for a pair; `(OutputTag, record)` goes to that side output."""


class WindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Returns results for the contents of a window of one key."""

    @abstractmethod
    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Return, or yield, the results of a window; must be an iterable, None is an error.

        `inputs` are the window's records; after reduce or aggregate, the single result.
        """


class AllWindowFunction(Function, Generic[IN, OUT, W]):
    """Returns results for the contents of a window of a whole stream."""

    @abstractmethod
    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[OUT]:
        """Return, or yield, the results of a window; must be an iterable, None is an error."""


class ProcessAllWindowFunction(Function, Generic[IN, OUT, W]):
    """Returns results for the contents of a window of a whole stream, with access to state."""

    class Context(ABC, Generic[W2]):
        """Information about the window, and its state."""

        @abstractmethod
        def window(self) -> W2:
            """Return the window."""

        @abstractmethod
        def window_state(self) -> KeyedStateStore:
            """Return the state of this window (and key), to be cleared in `clear`; not for windows that are merged."""

        @abstractmethod
        def global_state(self) -> KeyedStateStore:
            """Return the state of all windows of this key, or of the stream if it has no keys."""

    @abstractmethod
    def process(self, context: ProcessAllWindowFunction.Context[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """Return, or yield, the results of a window; must be an iterable, None is an error."""

    def clear(self, context: ProcessAllWindowFunction.Context[W]) -> None:
        """Clear the state of a window that is removed."""


class ProcessWindowFunction(Function, Generic[IN, OUT, KEY, W]):
    """Returns results for the contents of a window of one key, with access to times and state."""

    class Context(ProcessAllWindowFunction.Context[W2]):
        """Information about the window, its times, and its state."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in milliseconds."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the operator's watermark in milliseconds."""

    @abstractmethod
    def process(self, key: KEY, context: ProcessWindowFunction.Context[W], elements: Iterable[IN]) -> Iterable[OUT]:
        """Return, or yield, the results of a window; must be an iterable, None is an error."""

    def clear(self, context: ProcessWindowFunction.Context[W]) -> None:
        """Clear the state of a window that is removed."""


class PassThroughWindowFunction(WindowFunction[IN, IN, KEY, W]):
    """Emits the contents of the window."""

    def apply(self, key: KEY, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        return inputs


class PassThroughAllWindowFunction(AllWindowFunction[IN, IN, W]):
    """Emits the contents of the window."""

    def apply(self, window: W, inputs: Iterable[IN]) -> Iterable[IN]:
        return inputs


class SourceFunction(Function):
    """A simple source, in Flink 1.x style: `run` emits until it returns or `cancel` is called.

    It runs in one thread on the driver and cannot be read again: records in flight when the job fails are lost. If that
    matters, write a `flinkish.datastream.connectors.base.Source` instead.

    Differs from Flink: PyFlink can only wrap a Java source function here; this one is written in Python.
    """

    get_java_function = AbsentMember(JAVA_OBJECT)

    class SourceContext(ABC):
        """The object with which `run` emits records."""

        @abstractmethod
        def collect(self, value: Any) -> None:
            """Emit a record; blocks while the job cannot keep up."""

        @abstractmethod
        def is_cancelled(self) -> bool:
            """Return whether the job is about to stop, so that `run` must return."""

    def __init__(self, source_func: str | None = None) -> None:
        if source_func is not None:
            _refuse_java("SourceFunction", source_func)

    @abstractmethod
    def run(self, ctx: SourceFunction.SourceContext) -> None:
        """Emit records with `ctx.collect`; the source has ended when this returns."""

    def cancel(self) -> None:
        """Make `run` return soon; called from another thread."""


class SinkFunction(Function):
    """A simple sink, in Flink 1.x style: `invoke` is called for each record, at least once after a failure.

    `open` is called in the task before the first record: make clients and connections there. `close` is called when the job ends
    or fails. A function that buffers must also be a CheckpointedFunction and send in `snapshot_state`, which is called for each
    checkpoint, and in `close`, for the end of a job without checkpoints.

    If each record must take effect exactly once, write a `flinkish.datastream.connectors.base.Sink` instead.

    Differs from Flink: PyFlink can only wrap a Java sink function here; this one is written in Python.
    """

    get_java_function = AbsentMember(JAVA_OBJECT)

    class Context(ABC):
        """Information about the current record."""

        @abstractmethod
        def current_processing_time(self) -> int:
            """Return the processing time in milliseconds."""

        @abstractmethod
        def current_watermark(self) -> int:
            """Return the current watermark in milliseconds."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """Return the event time of the record in milliseconds, None if it has none."""

    def __init__(self, sink_func: str | None = None) -> None:
        if sink_func is not None:
            _refuse_java("SinkFunction", sink_func)

    @abstractmethod
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        """Write one record."""


def _refuse_java(kind: str, what: object) -> NoReturn:
    raise UnsupportedError(
        f"{kind}({what!r}): there are no Java functions here.",
        hint=f"subclass {kind} in Python, or use a connector of flinkish.datastream.connectors.",
    )

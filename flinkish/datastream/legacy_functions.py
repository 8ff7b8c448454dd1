"""Adapters that run the SourceFunction and SinkFunction of Flink 1.x as a source and a sink."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NoReturn

from flinkish.common import options
from flinkish.common.clock import SystemClock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import SourceError, StateError
from flinkish.common.pickling import dumps, loads
from flinkish.common.sizes import rough_size
from flinkish.metrics import MetricGroup, MetricRegistry
from flinkish.program.sinks import Sink, SinkWriter, SinkWriterContext, WriteContext
from flinkish.program.sources import Boundedness, DriverReader, DriverSource
from flinkish.program.threaded_reader import ThreadedReader
from flinkish.udf.functions import RuntimeContext, SinkFunction, SourceFunction

#: How many records and bytes `collect` buffers before it blocks: enough small records for a few epochs.
_QUEUE_SIZE: Final = 100_000
_QUEUE_BYTES: Final = 64 << 20
#: How long the job waits for a cancelled `run` before it abandons the thread, in seconds.
_STOP_TIMEOUT: Final = 2.0


@dataclass(frozen=True, kw_only=True)
class _FunctionContext(RuntimeContext):
    """The runtime context of such a function, without state."""

    _name: str
    _subtask_index: int
    _parallelism: int
    _configuration: Configuration
    _metrics: MetricGroup

    def get_task_name(self) -> str:
        return self._name

    def get_number_of_parallel_subtasks(self) -> int:
        return self._parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        return max(self._configuration.get(options.MAX_PARALLELISM), self._parallelism)

    def get_index_of_this_subtask(self) -> int:
        return self._subtask_index

    def get_attempt_number(self) -> int:
        return 0

    def get_job_parameter(self, key: str, default_value: str) -> str:
        return (self._configuration.get(options.GLOBAL_JOB_PARAMETERS) or {}).get(key, default_value)

    def get_metrics_group(self) -> MetricGroup:
        return self._metrics

    def get_state(self, state_descriptor: Any) -> NoReturn:
        raise StateError(f"{self._name} asked for keyed state, which only functions on a KeyedStream have.")

    get_list_state = get_map_state = get_reducing_state = get_aggregating_state = get_state


@dataclass(frozen=True)
class SourceFunctionSource(DriverSource[Any]):
    """Runs a SourceFunction in a thread on the driver."""

    function: SourceFunction
    # Nobody can know in advance whether `run` ever returns.
    boundedness = Boundedness.CONTINUOUS_UNBOUNDED

    def create_driver_reader(self, configuration: Configuration) -> DriverReader:
        # A copy, so that each attempt starts from the function as it was when the job was built.
        return _FunctionReader(loads(dumps(self.function)), configuration)


class _FunctionReader(ThreadedReader, SourceFunction.SourceContext):
    """Buffers the records that `run` has collected until the job reads them."""

    def __init__(self, function: SourceFunction, configuration: Configuration) -> None:
        self._function = function
        name = type(function).__name__
        metrics = MetricRegistry(SystemClock()).root
        self._context = _FunctionContext(
            _name=name, _subtask_index=0, _parallelism=1, _configuration=configuration, _metrics=metrics
        )
        super().__init__(f"source function {name}", rough_size, _QUEUE_SIZE, _QUEUE_BYTES)

    def _read(self) -> None:
        try:
            self._function.open(self._context)
            try:
                self._function.run(self)
            finally:
                self._function.close()
        # SystemExit is an error of the function, too.
        except BaseException as error:
            name = self._context.get_task_name()
            raise SourceError(f"the source function {name} failed: {type(error).__name__}: {error}") from error

    def collect(self, value: Any) -> None:
        self._add((value,))

    def is_cancelled(self) -> bool:
        return self._closed

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._function.cancel()
        self._thread.join(_STOP_TIMEOUT)


@dataclass(frozen=True)
class SinkFunctionSink(Sink[Any, None]):
    """Calls a SinkFunction for each record; after a failure it gets the records of the last epochs again."""

    function: SinkFunction

    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, None]:
        # A copy, as subtasks in one process must not share attributes.
        return _FunctionWriter(loads(dumps(self.function)), context)


class _FunctionWriter(SinkWriter[Any, None], SinkFunction.Context):
    def __init__(self, function: SinkFunction, context: SinkWriterContext) -> None:
        self._function = function
        self._context = context
        self._record: WriteContext | None = None
        context.initialize_function(function)
        function.open(
            _FunctionContext(
                _name=type(function).__name__,
                _subtask_index=context.subtask_index,
                _parallelism=context.parallelism,
                _configuration=context.configuration,
                _metrics=context.metric_group,
            )
        )

    def write(self, value: Any, context: WriteContext) -> None:
        self._record = context
        self._function.invoke(value, self)

    def close(self) -> None:
        self._function.close()

    def current_processing_time(self) -> int:
        return self._context.processing_time()

    def current_watermark(self) -> int:
        assert self._record is not None
        return self._record.watermark

    def timestamp(self) -> int | None:
        assert self._record is not None
        return self._record.timestamp

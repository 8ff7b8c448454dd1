"""Sink writers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from flinkish.common.columns import Columns
from flinkish.common.configuration import Configuration
from flinkish.common.errors import RecordRefusedError
from flinkish.common.typeinfo import TypeInformation
from flinkish.metrics import MetricGroup
from flinkish.program.operators import SinkConfig, SinkWriterConfig
from flinkish.program.refused_records import RefusedRecord, refusal
from flinkish.program.sinks import SinkWriter, SinkWriterContext, WriteContext
from flinkish.runtime.isolation import SCALARS, isolate
from flinkish.runtime.operators.base import Operator, OperatorContext, Output
from flinkish.runtime.operators.runtime_context import TaskRuntimeContext, initialize_state
from flinkish.runtime.protocol import MIN_WATERMARK
from flinkish.udf.functions import Function
from flinkish.udf.state import ListState, ListStateDescriptor


class WriterContext(SinkWriterContext):
    """The context of a writer; `operator` gets the function that the writer registers."""

    def __init__(self, context: OperatorContext, operator: SinkOperator | None = None) -> None:
        self.configuration: Configuration = context.program.configuration
        self.job_id = context.program.job_id
        self.lineage = str(context.program.lineage)
        self.sink_uid = str(context.node.uid)
        self.subtask_index = context.subtask_index
        self.parallelism = context.vertex.parallelism
        self.attempt_id = str(context.program.attempt_id)
        self.metric_group: MetricGroup = context.metrics
        self.input_type: TypeInformation = context.node.input_types[0]
        self._operator = operator
        self._context = context

    def initialize_function(self, function: Function) -> None:
        assert self._operator is not None, "this table calls no user functions"
        self._operator.function = function
        initialize_state(function, self._context, TaskRuntimeContext(self._context, None))

    def get_list_state(self, descriptor: ListStateDescriptor) -> ListState[Any]:
        return self._context.state.list_state(descriptor)

    def processing_time(self) -> int:
        return self._context.time.processing_time

    def emit_to_driver(self, destination: str, values: Sequence[Any], watermark: int | None = None) -> None:
        self._context.to_driver(self._context.node.uid, destination, list(values), watermark)

    def put_aside(self, value: Any, reason: str) -> None:
        dead_letters = self._context.dead_letters
        if not dead_letters.on:
            raise refusal([RefusedRecord(reason=reason, subtask=self.subtask_index, value=value)])
        dead_letters.refused(value, None, MIN_WATERMARK, reason)


def _not_open(value: Any, context: WriteContext) -> None:
    raise AssertionError("a record came before the sink was opened")


class SinkOperator(Operator):
    """Passes records to a writer; copies them first if user code may still change them."""

    def __init__(self, context: OperatorContext) -> None:
        super().__init__(context)
        config = context.node.operator
        assert isinstance(config, SinkConfig | SinkWriterConfig)
        self._sink = config.sink
        self._writer: SinkWriter[Any, Any] | None = None
        self._owns = False
        self._written_columns = 0
        #: Returns the number of records since the last call.
        self.take_written: Callable[[], int] = lambda: 0
        self._bind: Callable[[Callable[[Any, WriteContext], None]], None] = lambda write: None

    def take_over(self) -> None:
        self._owns = True

    def connect(self, output: Output) -> None:
        super().connect(output)
        # Closures with local variables are faster than attributes; that makes up for the cost of counting.
        written, owns = 0, False
        context = WriteContext(timestamp=None, watermark=self.current_watermark)
        write: Callable[[Any, WriteContext], None] = _not_open

        def process(value: Any, timestamp: int | None) -> None:
            nonlocal written, context
            written += 1
            own = context
            if timestamp is not None:
                own = WriteContext(timestamp=timestamp, watermark=self.current_watermark)
            elif context.watermark != self.current_watermark:
                own = context = WriteContext(timestamp=None, watermark=self.current_watermark)
            try:
                write(value if owns or value.__class__ in SCALARS else isolate(value), own)
            except RecordRefusedError as error:
                self._put_aside(value, own, error)

        def process_run(values: Iterable[Any]) -> None:
            nonlocal written, context
            count = 0
            for count, value in enumerate(values, 1):  # noqa: B007 - the last count is what is wanted
                if context.watermark != self.current_watermark:
                    context = WriteContext(timestamp=None, watermark=self.current_watermark)
                try:
                    write(value if owns or value.__class__ in SCALARS else isolate(value), context)
                except RecordRefusedError as error:
                    self._put_aside(value, context, error)
            written += count

        def take_written() -> int:
            nonlocal written
            taken, written = written + self._written_columns, 0
            self._written_columns = 0
            return taken

        def bind(to: Callable[[Any, WriteContext], None]) -> None:
            nonlocal write, owns
            write, owns = to, self._owns

        self.process, self.process_run = process, process_run  # type: ignore[method-assign]
        self.take_written, self._bind = take_written, bind

    def process_columns(self, columns: Columns, input_index: int = 0) -> None:
        if self._sink.why_records is None and self._opened.write_columns(columns):
            self._written_columns += len(columns)
        else:
            super().process_columns(columns, input_index)

    def _put_aside(self, value: Any, context: WriteContext, error: RecordRefusedError) -> None:
        """Make a dead letter of a record that the writer refuses; raise the error again if the job keeps none."""
        if not self.context.dead_letters.on:
            raise error
        self.context.dead_letters.refused(value, context.timestamp, context.watermark, str(error))

    def open(self) -> None:
        self._writer = self._sink.create_writer(WriterContext(self.context, self))
        self._bind(self._writer.write)

    @property
    def _opened(self) -> SinkWriter[Any, Any]:
        assert self._writer is not None
        return self._writer

    def prepare_snapshot(self) -> None:
        self._opened.flush(False)

    def finish(self) -> None:
        self._opened.flush(True)

    def prepare_commit(self) -> tuple[bytes, ...]:
        return tuple(msgspec.msgpack.encode(committable) for committable in self._opened.prepare_commit())

    def next_timer(self) -> int | None:
        return None if self._writer is None else self._writer.next_timer()

    def buffered_bytes(self) -> int:
        """Return the approximate number of bytes that the writer buffers until the end of the epoch."""
        return 0 if self._writer is None else self._writer.buffered_bytes()

    def end_epoch(self) -> None:
        self._opened.end_epoch()

    def close(self) -> None:
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()

    def closes(self) -> bool:
        return self._writer is not None and type(self._writer).close is not SinkWriter.close


class SinkWriterOperator(SinkOperator):
    """Emits its writer's committables as records, ahead of the barrier."""

    def prepare_snapshot(self) -> None:
        super().prepare_snapshot()
        self._pass_on()

    def finish(self) -> None:
        super().finish()
        self._pass_on()

    def prepare_commit(self) -> tuple[bytes, ...]:
        return ()

    def _pass_on(self) -> None:
        for committable in self._opened.prepare_commit():
            self.emit(committable, None)

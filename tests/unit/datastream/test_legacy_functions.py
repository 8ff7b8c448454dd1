"""SourceFunction and SinkFunction as a source and a sink."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from flinkish.common import Configuration
from flinkish.common.clock import SystemClock
from flinkish.common.errors import SourceError, StateError
from flinkish.datastream import RuntimeContext, SinkFunction, SourceFunction
from flinkish.datastream.connectors.base import Boundedness, DriverReader, WriteContext
from flinkish.datastream.legacy_functions import SinkFunctionSink, SourceFunctionSource
from flinkish.metrics import MetricRegistry
from tests.kit.waiting import wait_until


class Counting(SourceFunction):
    def __init__(self, count: int) -> None:
        self.count = count

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        for number in range(self.count):
            ctx.collect(number)


class Failing(SourceFunction):
    def run(self, ctx: SourceFunction.SourceContext) -> None:
        ctx.collect(1)
        raise ValueError("boom")


class Leaving(SourceFunction):
    def run(self, ctx: SourceFunction.SourceContext) -> None:
        ctx.collect(1)
        sys.exit("no more")


class Endless(SourceFunction):
    def __init__(self) -> None:
        self.cancelled = False

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        number = 0
        while not ctx.is_cancelled():
            ctx.collect(number)
            number += 1

    def cancel(self) -> None:
        self.cancelled = True


class Asking(SourceFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.context = runtime_context

    def run(self, ctx: SourceFunction.SourceContext) -> None:
        context = self.context
        ctx.collect(context.get_task_name_with_subtasks())
        ctx.collect(context.get_job_parameter("a", "none"))
        ctx.collect(context.get_number_of_parallel_subtasks())
        context.get_metrics_group().counter("seen").inc()
        context.get_state(None)  # type: ignore[arg-type]


class Writing(SinkFunction):
    def __init__(self) -> None:
        self.written: list[Any] = []

    def open(self, runtime_context: RuntimeContext) -> None:
        self.written.append(("open", runtime_context.get_index_of_this_subtask()))

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        self.written.append((value, context.timestamp(), context.current_watermark(), context.current_processing_time()))

    def close(self) -> None:
        self.written.append("closed")


def _read_to_end(reader: DriverReader) -> list[Any]:
    records: list[Any] = []
    _read_into(records, reader)
    return records


def _read_into(records: list[Any], reader: DriverReader) -> None:
    for _ in range(10_000):
        some, ended = reader.poll(1000)
        records.extend(some)
        if ended:
            return
        reader.wait(10_000)
    raise AssertionError(f"no end after {len(records)} records")


def test_a_source_function_is_read_to_its_end() -> None:
    source = SourceFunctionSource(Counting(2500))
    reader = source.create_driver_reader(Configuration())

    assert _read_to_end(reader) == list(range(2500))
    assert source.boundedness is Boundedness.CONTINUOUS_UNBOUNDED
    reader.close()


def test_no_more_records_are_taken_than_asked_for() -> None:
    reader = SourceFunctionSource(Counting(10)).create_driver_reader(Configuration())
    reader.wait(10_000)

    records, ended = reader.poll(1)

    assert (list(records), ended) == ([0], False)
    reader.close()


@pytest.mark.parametrize(
    ("function", "error"), [(Failing(), "Failing failed: ValueError: boom"), (Leaving(), "Leaving failed: SystemExit: no more")]
)
def test_an_error_of_the_function_even_the_end_of_the_program_comes_after_its_records(
    function: SourceFunction, error: str
) -> None:
    reader = SourceFunctionSource(function).create_driver_reader(Configuration())
    records: list[Any] = []

    with pytest.raises(SourceError, match=f"source function {error}"):
        _read_into(records, reader)

    assert records == [1]
    reader.close()


def test_closing_stops_an_endless_function_even_if_it_is_blocked() -> None:
    reader = SourceFunctionSource(Endless()).create_driver_reader(Configuration())
    reader.wait(10_000)

    reader.close()

    # close() does not wait for ever for a function that goes on.
    wait_until("the function's end", lambda: not any("Endless" in thread.name for thread in threading.enumerate()))


def test_each_reader_has_a_function_of_its_own() -> None:
    function = Endless()
    reader = SourceFunctionSource(function).create_driver_reader(Configuration())

    reader.close()

    assert function.cancelled is False


def test_a_source_function_has_a_runtime_context_without_state() -> None:
    configuration = Configuration.from_dict({"pipeline.global-job-parameters": "a:b"})
    reader = SourceFunctionSource(Asking()).create_driver_reader(configuration)

    records: list[Any] = []
    with pytest.raises(SourceError, match="keyed state, which only functions on a KeyedStream have") as caught:
        _read_into(records, reader)

    assert records == ["Asking (1/1)#0", "b", 1]
    assert isinstance(caught.value.__cause__, StateError)
    reader.close()


class _WriterContext:
    configuration = Configuration()
    job_id = "job"
    sink_uid = "sink"
    subtask_index = 1
    parallelism = 2
    attempt_id = "attempt"
    metric_group = MetricRegistry(SystemClock()).root
    input_type: Any = None

    def get_list_state(self, descriptor: Any) -> Any:
        raise NotImplementedError

    def initialize_function(self, function: Any) -> None:
        assert function.written == []

    def processing_time(self) -> int:
        return 77

    def emit_to_driver(self, destination: str, values: Any, watermark: int | None = None) -> None:
        raise NotImplementedError


def test_a_sink_function_is_called_for_each_record_in_a_copy_of_its_own() -> None:
    function = Writing()
    writer: Any = SinkFunctionSink(function).create_writer(_WriterContext())

    writer.write("a", WriteContext(timestamp=5, watermark=3))
    writer.write("b", WriteContext(timestamp=None, watermark=4))
    writer.close()

    assert writer._function.written == [("open", 1), ("a", 5, 3, 77), ("b", None, 4, 77), "closed"]
    assert function.written == []

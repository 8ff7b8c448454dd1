"""Mistakes of those who come from Spark, or give a name where an object is needed: the error says what to use instead."""

from __future__ import annotations

import bdb
from typing import Any

import pytest
from pyspark.sql import Row as SparkRow
from pyspark.sql import functions as F
from pyspark.sql.functions import upper

from flinkish.common import Types
from flinkish.common.errors import InvalidArgumentError, NotSerializableError, TypeMismatchError
from flinkish.common.job_execution_result import JobExecutionResult
from flinkish.common.job_id import JobID
from flinkish.datastream import BroadcastProcessFunction, KeyedProcessFunction, MapFunction, ProcessFunction
from flinkish.datastream.state import MapStateDescriptor
from tests.behaviour.test_bad_input import failure_of
from tests.kit.environments import env_of

PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
BOTH_MODULES = r"flinkish\.common\.Row, not pyspark\.sql\.Row"


class _Getting(KeyedProcessFunction):
    def __init__(self, method: str) -> None:
        self.method = method

    def open(self, runtime_context: Any) -> None:
        getattr(runtime_context, self.method)("total")

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield value


class _Broadcast(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield ctx.get_broadcast_state("rules").get(value)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state("rules").put(value, value)


@pytest.mark.parametrize(
    ("method", "descriptor"),
    [
        ("get_state", "ValueStateDescriptor('total', Types.LONG())"),
        ("get_list_state", "ListStateDescriptor('total', Types.LONG())"),
        ("get_map_state", "MapStateDescriptor('total', Types.STRING(), Types.LONG())"),
        ("get_reducing_state", "ReducingStateDescriptor"),
        ("get_aggregating_state", "AggregatingStateDescriptor"),
    ],
)
def test_the_name_of_a_state_is_refused_where_its_descriptor_is_needed(method: str, descriptor: str) -> None:
    text = failure_of(env_of().from_collection([1]).key_by(lambda value: value).process(_Getting(method)))
    assert f"{method}() needs a" in text
    assert descriptor in text
    assert "got 'total' of type str" in text


def test_the_name_of_a_broadcast_state_is_refused() -> None:
    one = env_of().from_collection([1])
    rules = MapStateDescriptor("rules", Types.INT(), Types.INT())
    assert "get_broadcast_state() needs a MapStateDescriptor" in failure_of(
        one.connect(one.broadcast(rules)).process(_Broadcast())
    )


class _Returning(ProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return SparkRow(name="ann", age=value)


def test_a_row_of_pyspark_is_refused_with_both_modules() -> None:
    numbers = env_of().from_collection([1])
    for stream in (numbers.map(lambda age: SparkRow(name="ann", age=age), PERSON), numbers.process(_Returning())):
        text = failure_of(stream)
        assert "flinkish.common.Row, not pyspark.sql.Row" in text
    with pytest.raises(TypeMismatchError, match=BOTH_MODULES):
        # By position, its fields would come into the wrong ones.
        env_of().from_collection([SparkRow(age=1, name="ann")], PERSON)


def test_an_object_of_sparks_driver_in_a_closure_is_named_with_the_way_to_go() -> None:
    class SparkSession:
        __module__ = "pyspark.sql.session"

        def __reduce__(self) -> Any:
            raise TypeError("CONTEXT_ONLY_VALID_ON_DRIVER")

    spark = SparkSession()
    with pytest.raises(NotSerializableError, match=r"attribute `spark` .*pyspark(.|\n)*from_data_frame\(df\)"):
        env_of().from_collection([1]).map(lambda value: (spark, value))


def _of_a_method_named_like_one(text: str) -> str:
    return text.upper() + str(max(1, 2))


class _Upper(MapFunction):
    def map(self, value: Any) -> Any:
        return F.upper(value)


@pytest.mark.parametrize("function", [F.upper, lambda text: F.upper(text), lambda text: upper(text), _Upper()])
def test_a_function_of_columns_is_refused_when_the_job_is_built(function: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"pyspark\.sql\.functions\.upper, which makes a Column"):
        env_of().from_collection(["a"]).map(function)


def test_a_method_with_the_name_of_a_function_of_columns_is_not_one() -> None:
    env_of().from_collection(["a"]).map(_of_a_method_named_like_one)
    env_of().from_collection(["a"]).map(lambda value: value.upper())


def _debugged(value: Any) -> Any:
    raise bdb.BdbQuit


def test_a_debugger_without_a_terminal_is_told_of_the_local_engine() -> None:
    assert "-Dexecution.engine=local" in failure_of(env_of().from_collection([1]).map(_debugged))


def test_the_message_of_an_error_without_frames_of_the_program_comes_once() -> None:
    text = failure_of(env_of().from_collection([1]).map(lambda value: str(value), Types.INT()))
    assert text.count("a value does not have its declared type") == 1


def test_results_and_streams_show_what_they_are() -> None:
    stream = env_of().from_collection([1], Types.INT())
    assert repr(stream) == "<DataStream of 'Collection Source': Integer>"
    assert repr(stream.print()) == "<DataStreamSink of 'Print to Std. Out': Integer>"
    result = JobExecutionResult(JobID("a" * 32), 12, {"seen": 3})
    assert repr(result) == f"<JobExecutionResult of job {'a' * 32}: ran 12 ms, seen=3>"

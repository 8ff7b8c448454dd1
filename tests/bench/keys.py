"""Counts by key where many keys are new, over numbers and over the rows of a DataFrame; sum() beside a process function."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream import DataStream, RuntimeExecutionMode
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import ValueStateDescriptor
from tests.bench.functions import KEYS
from tests.bench.keyed_count import CountPerKey, environment

_PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


class _Sum(KeyedProcessFunction):
    """Does what sum(1) does."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context) -> Iterator[tuple[int, int]]:
        total = (self._sum.value() or 0) + value[1]
        self._sum.update(total)
        yield value[0], total


def _numbers(env: Any, records: int) -> DataStream[int]:
    source = NumberSequenceSource(0, records - 1)
    numbers: DataStream[int] = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    return numbers


def _rate(env: Any, results: DataStream[Any], records: int) -> float:
    """Run the job once and return the records per second from end to end."""
    results.sink_to(DiscardingSink())
    started = time.perf_counter()
    env.execute("keys")
    return records / (time.perf_counter() - started)


def of_numbers(engine: str, records: int, keys: int) -> float:
    """Return the records per second of a count over a number sequence."""
    env = environment(engine)
    keyed = _numbers(env, records).key_by(lambda value: value % keys, key_type=Types.LONG())
    return _rate(env, keyed.process(CountPerKey(), Types.LONG()), records)


def of_rows(spark: SparkSession, records: int, keys: int) -> float:
    """Return the records per second of a count over a bounded DataFrame, with the time in which Spark computes it."""
    env = environment("spark")
    rows = env.from_data_frame(spark.range(records).selectExpr(f"id % {keys} key", "id value"))
    keyed = rows.key_by(lambda row: row.key, key_type=Types.LONG())
    return _rate(env, keyed.process(CountPerKey(), Types.LONG()), records)


def handed_over(spark: SparkSession, records: int, keys: int) -> float:
    """Return the rows per second that Spark computes and hands to Python functions by mapInPandas, which do nothing with them."""

    def none(frames: Iterator[Any]) -> Iterator[Any]:
        return (frame.iloc[:0] for frame in frames)

    rows = spark.range(records).selectExpr(f"id % {keys} key", "id value")
    started = time.perf_counter()
    rows.mapInPandas(none, rows.schema).write.format("noop").mode("overwrite").save()
    return records / (time.perf_counter() - started)


def summed(records: int, *, by_sum: bool) -> float:
    """Return the records per second of sum(1) over pairs, or of a process function, on the local engine."""
    env = environment("local")
    pairs = _numbers(env, records).map(lambda value: (value % KEYS, 1), _PAIR)
    keyed = pairs.key_by(lambda pair: pair[0], key_type=Types.LONG())
    return _rate(env, keyed.sum(1) if by_sum else keyed.process(_Sum(), _PAIR), records)


def slowly(spark: SparkSession, records: int, mode: RuntimeExecutionMode) -> float:
    """Return the rows per second of a DataFrame into a subtask that takes half a millisecond for each."""

    def wait(value: int) -> int:
        time.sleep(0.0005)
        return value

    env = environment("spark", 1)
    env.set_runtime_mode(mode)
    rows = env.from_data_frame(spark.range(records).selectExpr("id % 1000 key", "id value"))
    keyed = rows.key_by(lambda row: row.key, key_type=Types.LONG())
    return _rate(env, keyed.map(lambda row: wait(row.value), Types.LONG()), records)

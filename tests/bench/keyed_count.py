"""The keyed count as a flinkish program: number sequence -> map -> key_by -> process with ValueState -> discard."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from flinkish.common import Row, TypeInformation, Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import ValueStateDescriptor
from tests.bench.functions import KEYS, Count, add_one, key_of
from tests.kit.environments import env_of


class CountPerKey(KeyedProcessFunction):
    """The shared counting function over ValueState."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._process = Count(runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))).process

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> None:
        self._process(value)


class CountEach(KeyedProcessFunction):
    """Counts the records of each key, with a result for each: its first field, which is the key, and the number so far."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.state: Any = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context | None) -> Iterator[tuple[int, int]]:
        count = (self.state.value() or 0) + 1
        self.state.update(count)
        yield value[0], count


def environment(engine: str, parallelism: int = 2, settings: dict[str, str] | None = None) -> StreamExecutionEnvironment:
    """Make an environment for a benchmark."""
    return env_of({"execution.engine": engine, **(settings or {})}, parallelism)


#: What the records are, the function that makes them of numbers, their type, and the key selector.
SHAPES: dict[str, tuple[Callable[[int], Any], TypeInformation, Callable[[Any], int]]] = {
    "longs": (add_one, Types.LONG(), key_of),
    "tuples": (lambda value: (value % KEYS, value), Types.TUPLE([Types.LONG(), Types.LONG()]), lambda pair: pair[0]),
    "rows": (
        lambda value: Row(key=value % KEYS, value=value),
        Types.ROW_NAMED(["key", "value"], [Types.LONG(), Types.LONG()]),
        lambda row: row.key,
    ),
}


def build(env: StreamExecutionEnvironment, records: int, shape: str = "longs") -> None:
    """Add the job to an environment."""
    make, record_type, key = SHAPES[shape]
    numbers = env.from_source(NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers")
    counted = numbers.map(make, record_type).key_by(key, key_type=Types.LONG()).process(CountPerKey(), Types.LONG())
    counted.sink_to(DiscardingSink())


def seconds(engine: str, records: int, settings: dict[str, str] | None = None, shape: str = "longs") -> float:
    """Run the job once and return how long it took from end to end."""
    env = environment(engine, settings=settings)
    build(env, records, shape)
    started = time.perf_counter()
    env.execute("keyed count")
    return time.perf_counter() - started


def seconds_with_results(records: int, shape: str) -> float:
    """Run the job on Spark with a result for each record and a checkpoint every 10 s; return how long it took."""
    make, record_type, key = SHAPES[shape]
    env = environment("spark")
    env.enable_checkpointing(10_000)
    numbers = env.from_source(NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers")
    keyed = numbers.map(make, record_type).key_by(key, key_type=Types.LONG())
    keyed.process(CountEach(), Types.TUPLE([Types.LONG(), Types.LONG()])).sink_to(DiscardingSink())
    started = time.perf_counter()
    env.execute("keyed count with results")
    return time.perf_counter() - started


def records_per_second(engine: str, small: int, large: int, settings: dict[str, str] | None = None) -> tuple[float, float]:
    """Return the rate after warm-up (by the difference of two runs) and that of the large run from end to end."""
    short = seconds(engine, small, settings)
    long = seconds(engine, large, settings)
    return (large - small) / (long - short), large / long

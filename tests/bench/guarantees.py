"""What a guarantee costs: a keyed count without one, with barriers, and with an acknowledgement for each record as in Storm.

Storm's way is written as a flinkish program, so that only the way differs. The source and the operator that has processed a
record each send (number of the record, id of its edge) to an acker, which is keyed by the number and XORs the ids: zero says that
the record has been processed. Storm's own acker has the same rule; timeouts and repeated sending are left out, so the figure is
what the messages alone cost.
"""

from __future__ import annotations

import tempfile
import time
from typing import Any

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream import DataStream, StreamExecutionEnvironment
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import ValueStateDescriptor
from tests.bench import keyed_count
from tests.bench.functions import Count, key_of
from tests.bench.keyed_count import environment

_EDGE = Types.TUPLE([Types.LONG(), Types.LONG()])
_GOLDEN = 0x9E37_79B9_7F4A_7C15
_LONG = 0x7FFF_FFFF_FFFF_FFFF


def edge_of(value: int) -> tuple[int, int]:
    """Return the record and the id of the edge it takes: 63 bits that differ from number to number."""
    return value, (value + 1) * _GOLDEN & _LONG


class CountAndAcknowledge(KeyedProcessFunction):
    """Counts the records of each key, and acknowledges each of them."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._process = Count(runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))).process

    def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context) -> Any:
        self._process(value[0])
        yield value


class Acker(KeyedProcessFunction):
    """XORs the edges of a record; zero: the record has been processed, and is forgotten."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self._open = runtime_context.get_state(ValueStateDescriptor("open edges", Types.LONG()))

    def process_element(self, value: tuple[int, int], ctx: KeyedProcessFunction.Context) -> Any:
        left = (self._open.value() or 0) ^ value[1]
        if left:
            self._open.update(left)
        else:
            self._open.clear()
            yield value[0]


def acknowledged(env: StreamExecutionEnvironment, records: int) -> DataStream[int]:
    """Return the stream of the records that have been counted and acknowledged."""
    numbers = env.from_source(NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers")
    emitted = numbers.map(edge_of, _EDGE)
    counted = emitted.key_by(lambda pair: key_of(pair[0]), Types.LONG()).process(CountAndAcknowledge(), _EDGE)
    return emitted.union(counted).key_by(lambda pair: pair[0], Types.LONG()).process(Acker(), Types.LONG())


def seconds(engine: str, records: int, guarantee: str) -> float:
    """Run the count with "none", "barriers each 1 s" or "acknowledgements"; return how long it took."""
    with tempfile.TemporaryDirectory() as folder:
        settings = {}
        if guarantee.startswith("barriers"):
            interval = guarantee.removeprefix("barriers each ")
            settings = {"execution.checkpointing.interval": interval, "execution.checkpointing.dir": folder}
        env = environment(engine, settings=settings)
        if guarantee == "acknowledgements":
            acknowledged(env, records).sink_to(DiscardingSink())
        else:
            keyed_count.build(env, records)
        started = time.perf_counter()
        env.execute(guarantee)
        return time.perf_counter() - started


GUARANTEES = ("none", "barriers each 1 s", "acknowledgements")

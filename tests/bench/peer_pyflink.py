"""The keyed count on PyFlink; run by PyFlink's own Python: peer_pyflink.py process|thread RECORDS. Prints seconds."""

from __future__ import annotations

import sys
import time
from typing import Any

from pyflink.common import Configuration, Types, WatermarkStrategy  # type: ignore[import-not-found, unused-ignore]
from pyflink.datastream import StreamExecutionEnvironment  # type: ignore[import-not-found, unused-ignore]
from pyflink.datastream.connectors.number_seq import NumberSequenceSource  # type: ignore[import-not-found, unused-ignore]
from pyflink.datastream.functions import KeyedProcessFunction  # type: ignore[import-not-found, unused-ignore]
from pyflink.datastream.state import ValueStateDescriptor  # type: ignore[import-not-found, unused-ignore]

KEYS = 100_000


class CountPerKey(KeyedProcessFunction):  # type: ignore[misc, unused-ignore]
    def open(self, runtime_context: Any) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: Any) -> Any:
        count = self.count.value()
        self.count.update(1 if count is None else count + 1)
        if value < 0:
            yield value


def main() -> None:
    mode, records = sys.argv[1], int(sys.argv[2])
    configuration = Configuration()
    configuration.set_string("python.execution-mode", mode)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    numbers = env.from_source(NumberSequenceSource(0, records - 1), WatermarkStrategy.no_watermarks(), "numbers")
    mapped = numbers.map(lambda value: value + 1, Types.LONG())
    mapped.key_by(lambda value: value % KEYS, Types.LONG()).process(CountPerKey(), Types.LONG()).print()
    started = time.perf_counter()
    env.execute("keyed count")
    print("SECONDS", time.perf_counter() - started)


if __name__ == "__main__":
    main()

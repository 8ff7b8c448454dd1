"""A job of three levels for the cluster: numbers are counted for each of 13 keys, then for each of 5 other keys.

Arguments: the table to write, the number of records, a folder for marker files.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from flinkish.common import Row, Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors import DeltaSink
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import ValueStateDescriptor

#: Records in a second: an epoch has some hundreds.
RATE = 400
KEYS, OTHER_KEYS = 13, 5
ROW = Types.ROW_NAMED(["v", "n", "m"], [Types.LONG(), Types.LONG(), Types.LONG()])


#: Seconds after which a task that lingers gives up.
LONGEST = 600.0


class Count(KeyedProcessFunction):
    """Adds the number of the record among those of its key.

    One task lingers at the moment that a marker file `<name>-<moment>.wanted` names, as long as this file is there. It writes the
    name of its machine to the file `<name>-<moment>`.
    """

    def __init__(self, name: str, markers: str) -> None:
        self.name = name
        self.markers = markers

    def _linger(self, moment: str) -> None:
        marker = Path(self.markers, f"{self.name}-{moment}")
        wanted = Path(f"{marker}.wanted")
        if not wanted.exists() or marker.exists():
            return
        own = marker.with_suffix(f".{os.getpid()}")
        own.write_text(Path(os.environ["HOME"]).parent.name)
        try:
            os.link(own, marker)
        except FileExistsError:
            return
        deadline = time.monotonic() + LONGEST
        while wanted.exists() and time.monotonic() < deadline:
            time.sleep(0.02)

    def open(self, context: RuntimeContext) -> None:
        self.count = context.get_state(ValueStateDescriptor("count", Types.LONG()))
        if context.get_attempt_number() > 0:
            self._linger("restore")

    def process_element(self, row: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self._linger("record")
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield Row(v=row.v, n=row.n or count, m=count if row.n else None)


def main(table: str, records: int, markers: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    source = DataGeneratorSource(lambda index: Row(v=index, n=None, m=None), records, records_per_second=RATE, type_info=ROW)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    first = numbers.key_by(lambda row: row.v % KEYS, Types.LONG()).process(Count("first", markers), ROW).uid("first")
    second = first.key_by(lambda row: row.v % OTHER_KEYS, Types.LONG()).process(Count("second", markers), ROW).uid("second")
    second.sink_to(DeltaSink(table)).uid("table")
    env.execute("levels")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3])

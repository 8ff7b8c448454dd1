"""A job for sessions: it writes each number with the sum of all so far that are odd, or even, into files.

It is slow until a file `go` exists.

Arguments: a folder, how many numbers, and the engine if it is not the local one.
Tasks use a module `session_marks`, if it was sent with the script.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from flinkish.common import Configuration, Encoder, Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.file_system import FileSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource

try:
    import session_marks  # type: ignore[import-not-found]
except ModuleNotFoundError:
    session_marks = None


def main(folder: str, count: int, engine: str = "local") -> None:
    settings = {
        "execution.engine": engine,
        "execution.epoch.target-duration": "50 ms",
        # An epoch takes longer on Spark.
        "execution.epoch.max-records": "20" if engine == "local" else "100",
        "execution.checkpointing.interval": "200 ms",
        "execution.checkpointing.savepoint-dir": f"{folder}/savepoints",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings)).set_parallelism(2)
    go = Path(folder, "go")

    def slowly(value: int) -> int:
        if not go.exists():
            time.sleep(0.02)
        return value if session_marks is None else session_marks.same(value)

    numbers = env.from_source(NumberSequenceSource(1, count), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    slow = numbers.map(slowly, Types.LONG()).uid("slow")
    pairs = slow.map(lambda v: (v, v), Types.TUPLE([Types.LONG(), Types.LONG()])).uid("pairs")
    sums = pairs.key_by(lambda p: p[0] % 2, Types.LONG()).reduce(lambda a, b: (b[0], a[1] + b[1])).uid("sums")
    sums.map(lambda p: f"{p[0]} {p[1]}", Types.STRING()).uid("text").sink_to(
        FileSink.for_row_format(f"{folder}/out", Encoder.simple_string_encoder()).build()
    ).uid("out")
    env.execute("session job")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])

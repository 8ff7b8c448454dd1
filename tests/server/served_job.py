"""A job with a server, on the local engine: it counts numbers until it is stopped. Argument: a folder for its checkpoints."""

from __future__ import annotations

import sys
import time

from flinkish.common import Configuration, Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource


def slowly(value: int) -> int:
    time.sleep(0.0005)
    return value


def main(folder: str) -> None:
    settings = {
        "execution.engine": "local",
        "execution.epoch.target-duration": "50 ms",
        "execution.epoch.max-records": "100",
        "execution.checkpointing.interval": "300 ms",
        "execution.checkpointing.dir": f"{folder}/checkpoints",
        "execution.checkpointing.savepoint-dir": f"{folder}/savepoints",
        "security.checkpoint.hmac-key-file": f"{folder}/key",
        "rest.port": "0",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    numbers = env.from_source(NumberSequenceSource(0, 10**12), WatermarkStrategy.no_watermarks(), "numbers")
    slow = numbers.map(slowly, Types.LONG()).name("slow").uid("slow")
    counts = slow.key_by(lambda v: v % 10, Types.LONG()).reduce(lambda a, b: a + b).name("sum").uid("sum")
    counts.sink_to(DiscardingSink()).name("out").uid("out")
    env.execute("served job")


if __name__ == "__main__":
    main(sys.argv[1])

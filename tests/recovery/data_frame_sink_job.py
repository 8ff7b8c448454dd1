"""Numbers without an end into a DataFrameSink, whose function notes the rows that it gets, and their files.

Argument: folder. Each line of `written` there is the JSON of a call: checkpoint, rows, names of files.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from flinkish.common import Configuration, Row, Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors import DataFrameSink, NumberSequenceSource

NUMBER = Types.ROW_NAMED(["n"], [Types.LONG()])
RETAINED = 2


def main(folder: Path) -> None:
    settings = {
        "execution.engine": "spark",
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": folder / "checkpoints",
        "execution.checkpointing.num-retained": RETAINED,
        "execution.epoch.max-records": 100,
        "high-availability.cluster-id": "rows",
        "restart-strategy.type": "none",
    }
    configuration = Configuration.from_dict({key: str(value) for key, value in settings.items()})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)

    def write(df: Any, checkpoint_id: int) -> None:
        files = [Path(unquote(name)).name for name in df.inputFiles()]
        rows = sorted(row.n for row in df.collect())
        with (folder / "written").open("a") as file:
            file.write(json.dumps([checkpoint_id, rows, files]) + "\n")

    numbers = env.from_source(NumberSequenceSource(0, 10**9), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.map(lambda n: Row(n=n), NUMBER).uid("rows").sink_to(DataFrameSink(write)).uid("out")
    env.execute("rows")


if __name__ == "__main__":
    main(Path(sys.argv[1]))

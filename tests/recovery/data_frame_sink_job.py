"""Numbers without an end into a DataFrameSink, whose function notes the rows that it gets, and their files.

Each line of `written` in the output is the JSON of a call: checkpoint, rows, names of files.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from flinkish.common import Row, Types, WatermarkStrategy
from flinkish.datastream.connectors import DataFrameSink, NumberSequenceSource
from tests.recovery.mains import job_environment, job_parser

NUMBER = Types.ROW_NAMED(["n"], [Types.LONG()])
RETAINED = 2


def main(arguments: Sequence[str] | None = None) -> None:
    given = job_parser().parse_args(arguments)
    settings = {"execution.checkpointing.num-retained": RETAINED, "high-availability.cluster-id": "rows"}
    env = job_environment(given, 100, settings)

    def write(df: Any, checkpoint_id: int) -> None:
        files = [Path(unquote(name)).name for name in df.inputFiles()]
        rows = sorted(row.n for row in df.collect())
        with (given.output / "written").open("a") as file:
            file.write(json.dumps([checkpoint_id, rows, files]) + "\n")

    numbers = env.from_source(NumberSequenceSource(0, 10**9), WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    numbers.map(lambda n: Row(n=n), NUMBER).uid("rows").sink_to(DataFrameSink(write)).uid("out")
    env.execute("rows")


if __name__ == "__main__":
    main()

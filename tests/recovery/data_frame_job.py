"""A job script that does not end: a streaming DataFrame of JSON files, counted by key, into a Delta table.

Arguments: folder, parallelism. Each row of the table has the row's id and how many rows of its key there were so far.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from flinkish.common import Configuration, Row, Types
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors import DeltaSink
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import ValueStateDescriptor

COUNTED = Types.ROW_NAMED(["id", "key", "number"], [Types.LONG(), Types.STRING(), Types.LONG()])


class Count(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Row, ctx: KeyedProcessFunction.Context) -> Iterator[Row]:
        number = (self.count.value() or 0) + 1
        self.count.update(number)
        yield Row(id=value.id, key=value.key, number=number)


def build(spark: SparkSession, folder: Path, parallelism: int) -> StreamExecutionEnvironment:
    """Return the environment with the job."""
    settings = {
        "execution.engine": "spark",
        "execution.checkpointing.interval": "300 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "high-availability.cluster-id": "data-frames",
        "pipeline.max-parallelism": "16",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.attempts": "20",
        "restart-strategy.fixed-delay.delay": "100 ms",
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(settings))
    env.set_parallelism(parallelism)
    files = spark.readStream.schema("id long, key string").option("maxFilesPerTrigger", 2).json(str(folder / "input"))
    (
        env.from_data_frame(files, name="files")
        .uid("files")
        .key_by(lambda row: row.key, key_type=Types.STRING())
        .process(Count(), COUNTED)
        .uid("count")
        .sink_to(DeltaSink(str(folder / "table")))
        .uid("table")
    )
    return env


def main(folder: Path, parallelism: int) -> None:
    spark = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1")
        .getOrCreate()
    )
    build(spark, folder, parallelism).execute("data-frames")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

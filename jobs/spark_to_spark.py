"""Spells of knock-on delays: Spark reads a Delta table as a stream, flinkish finds sessions, Spark merges them into a table.

The first table is one that flight_delays.py writes. The job follows it until Ctrl-C:

    python jobs/spark_to_spark.py out/flight_delays/aircraft_events out/spells

A spell is a stretch of knock-on delays at one airport with less than an hour between departures. With a name and a folder for
checkpoints a killed run goes on exactly once: -Dhigh-availability.cluster-id=spells -Dexecution.checkpointing.dir=out/checkpoints
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from delta import DeltaTable, configure_spark_with_delta_pip
from pyspark.sql import DataFrame, SparkSession

from flinkish.common import Duration, Instant, Row, Time, Types, WatermarkStrategy
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import ProcessWindowFunction, StreamExecutionEnvironment, TimeWindow
from flinkish.datastream.connectors import DataFrameSink
from flinkish.datastream.window import EventTimeSessionWindows

SPELL = Types.ROW_NAMED(
    ["origin", "first", "last", "delays", "minutes"],
    [Types.STRING(), Types.INSTANT(), Types.INSTANT(), Types.LONG(), Types.LONG()],
)


class Departure(TimestampAssigner):
    def extract_timestamp(self, value: Row, record_timestamp: int) -> int:
        return value.departure.to_epoch_milli()


class Spell(ProcessWindowFunction[Row, Row, str, TimeWindow]):
    def process(self, key: str, context: ProcessWindowFunction.Context[TimeWindow], elements: Iterable[Row]) -> Iterator[Row]:
        times = [delay.departure.to_epoch_milli() for delay in elements]
        first, last = Instant.of_epoch_milli(min(times)), Instant.of_epoch_milli(max(times))
        yield Row(origin=key, first=first, last=last, delays=len(times), minutes=sum(delay.late_out for delay in elements))


def main(source: str, target: str) -> None:
    builder = SparkSession.builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
    builder.config("spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog")
    spark = configure_spark_with_delta_pip(builder).getOrCreate()
    if not DeltaTable.isDeltaTable(spark, source):
        sys.exit(
            f"spark_to_spark.py: there is no Delta table {source}; `make run` writes one to out/flight_delays/aircraft_events"
        )
    spark.sql(
        f"CREATE TABLE IF NOT EXISTS delta.`{target}` (origin STRING, first TIMESTAMP, last TIMESTAMP, delays LONG, minutes LONG)"
        " USING delta"
    )

    def merge(spells: DataFrame, checkpoint_id: int) -> None:
        """Write the spells of a checkpoint; a second call, which a crash can cause, changes nothing."""
        table = DeltaTable.forPath(spells.sparkSession, target).alias("t")
        matched = table.merge(spells.alias("s"), "t.origin = s.origin AND t.first = s.first")
        matched.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    env = StreamExecutionEnvironment.get_execution_environment()
    if not env.get_checkpoint_config().is_checkpointing_enabled():
        env.enable_checkpointing(5_000)
    delays = spark.readStream.format("delta").load(source).where("kind = 'knock-on'").select("origin", "departure", "late_out")
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_hours(1)).with_timestamp_assigner(Departure())
    (
        env.from_data_frame(delays, strategy, "Delays")
        .uid("delays")
        .key_by(lambda delay: delay.origin, key_type=Types.STRING())
        .window(EventTimeSessionWindows.with_gap(Time.hours(1)))
        .process(Spell(), SPELL)
        .uid("spells")
        .sink_to(DataFrameSink(merge))
        .uid("merge")
    )
    with contextlib.suppress(KeyboardInterrupt):
        env.execute("Spells of knock-on delays")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=lambda path: str(Path(path).resolve()), help="table of aircraft_events")
    parser.add_argument("target", type=lambda path: str(Path(path).resolve()), help="table of spells, created if it is missing")
    parser.add_argument("-D", metavar="KEY=VALUE", action="append", help="set a configuration key, without a blank after -D")
    arguments = parser.parse_args()
    main(arguments.source, arguments.target)

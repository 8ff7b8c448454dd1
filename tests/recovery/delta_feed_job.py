"""A job that follows the change data feed of a Delta table into a copy of it, by MERGE, and into a log of all changes.

Run as a process of its own; it never ends by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flinkish.common import Row, Types, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.delta import DeltaSink, DeltaSource
from tests.recovery.mains import job_environment, job_parser

CHANGE = Types.ROW_NAMED(["kind", "id", "n"], [Types.STRING(), Types.LONG(), Types.LONG()])


def build(env: StreamExecutionEnvironment, folder: Path) -> None:
    """Add the job to an environment."""
    builder = DeltaSource.for_continuous_row_data(str(folder / "source")).version_as_of(0).read_change_feed()
    source = builder.update_check_interval_millis(10).build()
    changes = env.from_source(source, WatermarkStrategy.no_watermarks(), "changes").uid("changes")
    copy = DeltaSink.for_table(str(folder / "copy")).with_upsert_keys("id").with_compaction(5).build()
    changes.sink_to(copy).uid("copy")
    log = changes.map(lambda row: Row(kind=str(row.get_row_kind()), id=row.id, n=row.n), CHANGE).uid("log rows")
    log.sink_to(DeltaSink(str(folder / "log"))).uid("log")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = job_parser()
    parser.add_argument("--records", type=int, default=50, help="the most records in an epoch")
    given = parser.parse_args(arguments)
    settings = {"execution.checkpointing.interval": "20 ms", "high-availability.cluster-id": "feed"}
    env = job_environment(given, given.records, settings)
    build(env, given.output)
    env.execute("feed")


if __name__ == "__main__":
    main()

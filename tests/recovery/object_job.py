"""A job that follows the objects below a path in S3 and writes their lines to objects below another; checkpoints are there, too.

Run as a process of its own; it never ends by itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from flinkish.common import Duration, Encoder, WatermarkStrategy
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.file_system import (
    BucketAssigner,
    FileEnumeratorProvider,
    FileSink,
    FileSource,
    RollingPolicy,
    StreamFormat,
)
from tests.recovery.mains import job_environment, job_parser


def build(env: StreamExecutionEnvironment, place: str) -> None:
    """Add the job to an environment."""
    source = (
        FileSource.for_record_stream_format(StreamFormat.text_line_format(), f"{place}/in")
        .set_file_enumerator(FileEnumeratorProvider.default_splittable_file_enumerator(200))
        .monitor_continuously(Duration.of_millis(100))
        .build()
    )
    sink = (
        FileSink.for_row_format(f"{place}/out", Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.default_rolling_policy(500, 1_000, 1_000))
        .with_bucket_check_interval(200)
        .build()
    )
    env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").uid("lines").sink_to(sink).uid("sink")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = job_parser(str)
    parser.add_argument("--records", type=int, default=20, help="the most records in an epoch")
    given = parser.parse_args(arguments)
    settings = {
        "execution.checkpointing.interval": "50 ms",
        "high-availability.storageDir": f"{given.output}/records",
        "high-availability.cluster-id": "objects",
    }
    env = job_environment(given, given.records, settings)
    build(env, given.output)
    env.execute("objects")


if __name__ == "__main__":
    main()

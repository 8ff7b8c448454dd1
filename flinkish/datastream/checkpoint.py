"""Functions that take part in checkpoints: Flink's org.apache.flink.streaming.api.checkpoint, which PyFlink does not have."""

from flinkish.udf.checkpoint import *  # noqa: F403

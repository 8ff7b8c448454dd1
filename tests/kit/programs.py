"""What environments and streams have recorded, which programs do not see."""

from __future__ import annotations

from typing import Any

from flinkish.datastream import StreamExecutionEnvironment
from flinkish.program.program import Program
from flinkish.program.transformations import Transformation, TransformationId


def program_of(env: StreamExecutionEnvironment, job_name: str | None = None) -> Program:
    """Return the program that the environment would run now."""
    return env._program(job_name)


def id_of(stream: Any) -> TransformationId:
    """Return the number of the transformation behind a stream or sink."""
    number: TransformationId = stream._id
    return number


def last(stream: Any) -> Transformation:
    """Return the transformation behind a stream or sink."""
    transformation: Transformation = stream._transformation
    return transformation

"""RuntimeExecutionMode: whether a job processes its input as a stream or as one bounded batch."""

from flinkish.program.execution_mode import RuntimeExecutionMode as RuntimeExecutionMode

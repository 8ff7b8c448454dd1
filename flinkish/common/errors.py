"""The one tree of errors.

Each text says what happened and where, what was expected and what was got, and ends with a hint. Every class pickles: errors
travel from slot hosts to the driver.
"""

from __future__ import annotations


class FlinkishError(Exception):
    """Root of all errors raised by flinkish."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}\nHint: {hint}")


class InvalidProgramError(FlinkishError, ValueError):
    """The program cannot be run as it is written; raised while the job is built."""


class InvalidArgumentError(InvalidProgramError, TypeError):
    """An argument of an API method is not what it must be."""


class NotSerializableError(InvalidProgramError):
    """A user function, or something it holds, cannot be pickled."""


class UnsupportedError(FlinkishError, NotImplementedError):
    """A Flink feature that flinkish does not offer; the text says why and what to use instead."""


class AbsentMemberError(UnsupportedError, AttributeError):
    """A name of a PyFlink module or class that flinkish does not have; `hasattr` is False for it."""


class AbsentImportError(UnsupportedError, ImportError):
    """A name of a PyFlink module that flinkish does not have was imported by `from module import name`."""


class AbsentModuleError(AbsentImportError, ModuleNotFoundError):
    """A module of PyFlink that flinkish does not have was imported; `name` is the module."""

    def __init__(self, message: str, *, hint: str | None = None, name: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.name = name


class ConfigurationError(FlinkishError, ValueError):
    """A configuration value is missing, malformed or contradicts another."""


class DependencyError(FlinkishError, RuntimeError):
    """What a program brings along for its tasks could not be made ready, such as packages that pip cannot install."""


class MissingPackageError(FlinkishError, ModuleNotFoundError):
    """A Python package is not there: one that flinkish needs, or one that a part of it needs and that is an extra."""


class JobExecutionError(FlinkishError, RuntimeError):
    """The job failed; the text holds the failing operator and the user's traceback."""


class JobCancelledError(FlinkishError, RuntimeError):
    """The job was cancelled before it ended by itself."""


class JobNotFoundError(FlinkishError, LookupError):
    """No job with the given id runs."""


class SourceError(FlinkishError, RuntimeError):
    """A source could not read: missing file, missing column, undecodable record."""


class DeserializationError(FlinkishError, ValueError):
    """Bytes are not a record of the declared format and type."""


class SinkError(FlinkishError, RuntimeError):
    """A sink could not write or commit."""


class TypeMismatchError(FlinkishError, TypeError):
    """A record or state value does not have the declared type."""


class StateError(FlinkishError, RuntimeError):
    """Keyed or operator state was used in a way that is not possible."""


class AsyncFunctionError(FlinkishError, RuntimeError):
    """A call of an AsyncFunction failed, or returned what it must not."""


class CheckpointError(FlinkishError, RuntimeError):
    """Root of everything that goes wrong with checkpoints and savepoints."""


class CorruptCheckpointError(CheckpointError):
    """A file of a checkpoint is truncated, changed or missing; nothing of it was restored."""


class ForeignCheckpointError(CheckpointError):
    """What was found is not a checkpoint of flinkish, of this format, or of a job that fits this program."""


class StaleGenerationError(CheckpointError):
    """Another, newer driver process has taken over this job; this one must stop without visible effect."""


class CommitOutcomeUnknownError(CheckpointError):
    """A commit to the checkpoint storage failed in a way that leaves open whether it took effect; nothing may be deleted."""


class EngineError(FlinkishError, RuntimeError):
    """The engine could not start or lost what it runs on: Java, Spark session, slot host."""


class CloseTimeoutError(EngineError, TimeoutError):
    """At the end of a job a close() has not returned within task.cancellation.timeout."""

"""All error classes, in one tree below FlinkishError.

Each message says what happened and where, what was expected and what was found, and ends with a hint. Every class can be pickled,
as errors travel from slot hosts to the driver.
"""

from __future__ import annotations


class FlinkishError(Exception):
    """Root of all errors raised by flinkish."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}\nHint: {hint}")


class InvalidProgramError(FlinkishError, ValueError):
    """The program cannot be run as it is written; raised while the job is built."""


class InvalidArgumentError(InvalidProgramError, TypeError):
    """An argument of an API method has a wrong type or value."""


class NotSerializableError(InvalidProgramError):
    """A user function, or something it holds, cannot be pickled."""


class UnsupportedError(FlinkishError, NotImplementedError):
    """A Flink feature is used that flinkish does not offer; the message says why and what to use instead."""


class AbsentMemberError(UnsupportedError, AttributeError):
    """A name of a PyFlink module or class is used that flinkish does not have; `hasattr` returns False for it."""


class AbsentImportError(UnsupportedError, ImportError):
    """`from module import name` was used for a name of a PyFlink module that flinkish does not have."""


class AbsentModuleError(AbsentImportError, ModuleNotFoundError):
    """A PyFlink module was imported that flinkish does not have; the attribute `name` is its name."""

    def __init__(self, message: str, *, hint: str | None = None, name: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.name = name


class ConfigurationError(FlinkishError, ValueError):
    """A configuration value is missing, malformed or contradicts another."""


class DependencyError(FlinkishError, RuntimeError):
    """A dependency of the program could not be prepared for its tasks, such as packages that pip cannot install."""


class MissingPackageError(FlinkishError, ModuleNotFoundError):
    """A Python package is not installed: one that flinkish requires, or one of an extra that the feature used requires."""


class JobExecutionError(FlinkishError, RuntimeError):
    """The job failed; the message names the failing operator and shows the traceback of the user's code."""


class JobCancelledError(FlinkishError, RuntimeError):
    """The job was cancelled before it finished."""


class JobNotFoundError(FlinkishError, LookupError):
    """There is no running job with the given id."""


class ServerError(FlinkishError, ConnectionError):
    """A server of jobs cannot be reached, refused a request, or did not answer as it should; raised by clients of its API."""


class SourceError(FlinkishError, RuntimeError):
    """A source could not read: missing file, missing column, undecodable record."""


class SourceChangedError(SourceError):
    """The input of a source, such as the schema of a table, was changed so that the job cannot go on; restarts do not help."""


class DeserializationError(FlinkishError, ValueError):
    """Bytes cannot be decoded as a record of the declared format and type."""


class SinkError(FlinkishError, RuntimeError):
    """A sink could not write or commit."""


class SinkChangedError(SinkError):
    """The target of a sink was changed so that the job cannot go on: it lost rows or takes none; restarts do not help."""


class TargetRefusedError(SinkError):
    """The target of a sink cannot hold some records; the job is not restarted, as it would meet the same records again."""


class RecordRefusedError(TargetRefusedError):
    """A sink's writer does not take the record that it was called with; with dead letters on, the job goes on without it."""


class TypeMismatchError(FlinkishError, TypeError):
    """A record or state value does not have the declared type."""


class StateError(FlinkishError, RuntimeError):
    """Keyed or operator state was used in an invalid way."""


class AsyncFunctionError(FlinkishError, RuntimeError):
    """A call of an AsyncFunction failed or returned an invalid result."""


class CheckpointError(FlinkishError, RuntimeError):
    """Root of all errors of checkpoints and savepoints."""


class CorruptCheckpointError(CheckpointError):
    """A file of a checkpoint is truncated, changed or missing; nothing of it was restored."""


class ForeignCheckpointError(CheckpointError):
    """The data is not a checkpoint of flinkish, has another format version, or is from a job that does not fit this program."""


class StaleGenerationError(CheckpointError):
    """A newer driver process has taken over this job; this process must stop without visible effect."""


class CommitOutcomeUnknownError(CheckpointError):
    """A commit to the checkpoint storage failed, but may have taken effect; no files may be deleted."""


class RegistryError(FlinkishError, RuntimeError):
    """The registry of a session could not be read or written, so that nothing was started or changed."""


class EngineError(FlinkishError, RuntimeError):
    """The engine could not start, or lost a part that it runs on: Java, the Spark session or a slot host."""


class CloseTimeoutError(EngineError, TimeoutError):
    """At the end of a job, a close() method did not return within task.cancellation.timeout."""


def without_hint(error: Exception) -> str:
    """Return the message of an error without its hint."""
    return str(error).partition("\nHint: ")[0]

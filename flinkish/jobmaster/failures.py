"""Describes why an attempt failed and whether a restart can help, and makes the error that the user sees."""

from __future__ import annotations

import bdb
from dataclasses import dataclass

from flinkish.common import redaction, tracebacks
from flinkish.common.errors import (
    CloseTimeoutError,
    CorruptCheckpointError,
    ForeignCheckpointError,
    JobExecutionError,
    SinkChangedError,
    SourceChangedError,
    StaleGenerationError,
    TargetRefusedError,
)
from flinkish.common.notices import is_interactive
from flinkish.graph.job_graph import VertexId
from flinkish.jobmaster.delivery import PrintError
from flinkish.runtime.protocol import TaskFailure

#: Errors that a restart would meet again: the checkpoint to restore is damaged or foreign, or another process has taken over the
#: job. Flink marks such errors with SuppressRestartsException. An older checkpoint never replaces a damaged one. In addition, a
#: closed standard output does not open again, and when a close() hangs, everything else is already done. If the data that a
#: source reads has changed incompatibly, what a sink had written is lost, or a target cannot hold a record, its owner must decide
#: what to do.
_UNRECOVERABLE = (
    CorruptCheckpointError,
    ForeignCheckpointError,
    StaleGenerationError,
    SourceChangedError,
    SinkChangedError,
    TargetRefusedError,
    PrintError,
    CloseTimeoutError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFailure:
    """One failure of an attempt; `where` names the part that failed.

    `details` is the traceback as text, `shown` the same with the program's own frames only, `circumstances` has lines about the
    operator and the record. The texts are for logs, errors and the server: secrets in them are hidden.
    """

    where: str
    summary: str
    details: str
    shown: str
    circumstances: tuple[str, ...] = ()
    recoverable: bool
    #: Why there is no further attempt, if the failure is not recoverable.
    why_final: str = "starting again would meet the same"
    error: BaseException | None = None
    vertex: VertexId | None = None
    subtask: int | None = None

    @property
    def message(self) -> str:
        """Return one line: what failed and why."""
        return redaction.redact(f"{self.where}: {self.summary}")

    def text(self, *, full_traceback: bool) -> str:
        """Return the details that the message does not have: operator, record, traceback."""
        traceback = self.details if full_traceback else self.shown
        # Without a frame of the program it says no more than the message.
        says_more = full_traceback or "Traceback" in traceback or tracebacks.NO_FRAMES in traceback
        return redaction.redact("\n".join([*self.circumstances, *([traceback.rstrip()] if says_more else [])]))


def from_task(failure: TaskFailure, parallelism: int) -> JobFailure:
    error = failure.error
    summary = _summary(error) if error is not None else _last_line(failure.traceback)
    # There is no operator if the tasks of a level could not be built, for instance because the state to restore is damaged.
    operator = f"operator {failure.operator_name!r} (uid {failure.operator_uid})"
    what = operator if failure.operator_uid else f"the tasks of {failure.operator_name}"
    made = () if failure.made_at is None else (f"Operator made in {tracebacks.with_source(failure.made_at)}",)
    return JobFailure(
        where=f"{what}, subtask {failure.subtask + 1}/{parallelism}",
        summary=summary,
        details=failure.traceback,
        shown=failure.shown or failure.traceback,
        circumstances=(*made, *((failure.at,) if failure.at else ())),
        recoverable=not isinstance(error, _UNRECOVERABLE),
        error=error,
        vertex=failure.vertex,
        subtask=failure.subtask,
    )


def from_error(error: BaseException, where: str, *, recoverable: bool = True) -> JobFailure:
    """Describe an error that was raised on the driver; `where` names the part, as "the enumerator of source 'A' (uid a)"."""
    details, shown = tracebacks.full(error), tracebacks.shown(error)
    return JobFailure(
        where=where,
        summary=_summary(error),
        details=details,
        # If no frame is the program's, it is a defect of flinkish or of a library, which needs the whole traceback.
        shown=details if tracebacks.NO_FRAMES in shown else shown,
        recoverable=recoverable and not isinstance(error, _UNRECOVERABLE),
        error=error,
    )


def to_error(
    failure: JobFailure, job_name: str, job_id: str, why_final: str, *, full_traceback: bool = False
) -> JobExecutionError:
    """Return the error of the whole job; `why_final` says why there is no further attempt."""
    error = JobExecutionError(
        f"Job {job_name!r} ({job_id}) failed in {failure.message}\n"
        f"It was not started again: {why_final}.\n\n{failure.text(full_traceback=full_traceback)}"
    )
    if failure.error is not None:
        if not is_interactive():
            # The text above has the traceback, and Python prints that of the cause, too.
            tracebacks.remove(failure.error)
        elif not full_traceback:
            # A debugger needs the frames.
            tracebacks.cut(failure.error)
    error.__cause__ = failure.error
    error.__suppress_context__ = True
    return error


def _summary(error: BaseException) -> str:
    if isinstance(error, bdb.BdbQuit):
        return (
            "BdbQuit: the debugger was quit, or found no terminal, as in the processes of Spark's tasks\n"
            "Hint: run the program with -Dexecution.engine=local, where functions run in the program's own process."
        )
    text = str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "unknown error"

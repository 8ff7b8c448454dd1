"""The last failures of a job, kept for people to read."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from flinkish.common.clock import Clock
from flinkish.jobmaster.execution_graph import Execution
from flinkish.jobmaster.failures import JobFailure
from flinkish.jobmaster.job_metrics import SlotProcess

#: Failures with at most this time between them are one series, in milliseconds. A job that has run longer without a failure is
#: taken to run again; Flink's default for the longest delay before a restart is a tenth of it.
_QUIET_MS = 10 * 60_000
#: Maximum length of a failure's line.
_LONGEST_LINE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """One failure; `timestamp` is milliseconds since the epoch."""

    timestamp: int
    #: Name of the class of the error.
    error: str
    #: The message, the operator, the record and the traceback.
    text: str
    #: The message in one line, shortened if it is long.
    line: str
    #: When the series of failures began to which this one belongs, in milliseconds since the epoch.
    series_began: int
    #: The subtask in which it happened, as Flink writes it; None if it happened on the driver.
    task: str | None = None
    #: The process of the slot; None if it is not known.
    process: SlotProcess | None = None
    #: Why the job was not started again after this failure; None if it was.
    why_final: str | None = None

    def restarting_since(self, now: int) -> int | None:
        """Return since when the job fails again and again; None if this failure came alone, or the job has run since then.

        Times are milliseconds since the epoch. The record must describe the last failure.
        """
        lasts = self.series_began < self.timestamp and now - self.timestamp <= _QUIET_MS
        return self.series_began if lasts and self.why_final is None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRestarts:
    """The restarts of a job before its current process."""

    count: int
    last_failure: FailureRecord


def series_began(began: int, last: int, now: int) -> int:
    """Return the start of the series that a failure at `now` belongs to, in milliseconds since the epoch.

    The failure before it was at `last`, in a series that began at `began`.
    """
    return now if now - last > _QUIET_MS else began


class ExceptionHistory:
    """Collects failures; the JobMaster's thread adds them, any thread may read them."""

    def __init__(self, clock: Clock, size: int, earlier: EarlierRestarts | None = None) -> None:
        """Begin with the last failure before this process, if any; `size` is the number of failures to keep."""
        self._clock = clock
        self._lock = threading.Lock()
        self._records: deque[FailureRecord] = deque([] if earlier is None else [earlier.last_failure], maxlen=size)
        self._count = 0 if earlier is None else earlier.count

    def add(
        self,
        failure: JobFailure,
        execution: Execution | None,
        *,
        full_traceback: bool,
        process: SlotProcess | None = None,
        why_final: str | None = None,
    ) -> None:
        """Record a failure of an attempt; `execution` is the execution in which it happened."""
        error, now = failure.error, self._clock.wall_time()
        last = self.last()
        record = FailureRecord(
            timestamp=now,
            error=failure.summary.partition(":")[0] if error is None else type(error).__name__,
            text=f"{failure.message}\n{failure.text(full_traceback=full_traceback)}",
            line=_line(failure.message),
            series_began=now if last is None else series_began(last.series_began, last.timestamp, now),
            task=None if execution is None else execution.flink_label,
            process=process,
            why_final=why_final,
        )
        with self._lock:
            self._records.appendleft(record)
            self._count += 1

    def last(self) -> FailureRecord | None:
        """Return the last failure; None if nothing has failed, or no failures are kept."""
        with self._lock:
            return self._records[0] if self._records else None

    def records(self) -> tuple[tuple[FailureRecord, ...], int]:
        """Return the last failures, newest first, and the number of all failures."""
        with self._lock:
            return tuple(self._records), self._count


def _line(message: str) -> str:
    """Return a message in one line, and only its begin if it is long."""
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..."

"""The history of a job's failures, of which the last ones are kept for people."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass

from flinkish.common.clock import Clock
from flinkish.jobmaster.execution_graph import Execution
from flinkish.jobmaster.failures import JobFailure
from flinkish.jobmaster.job_metrics import SlotProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureRecord:
    """One failure; `timestamp` is milliseconds since the epoch."""

    timestamp: int
    #: Name of the class of the error.
    error: str
    #: The message, the operator, the record and the traceback.
    text: str
    #: The subtask in which it happened, as Flink writes it; None if it happened on the driver.
    task: str | None = None
    slot: int | None = None
    #: The process of the slot; None if it is not known.
    process: SlotProcess | None = None
    #: Why the job was not started again after this failure; None if it was.
    why_final: str | None = None


class ExceptionHistory:
    """Collects failures; the JobMaster's thread adds them, any thread may read them."""

    def __init__(self, clock: Clock, size: int) -> None:
        """Begin with none; `size` is the number of failures to keep."""
        self._clock = clock
        self._lock = threading.Lock()
        self._records: deque[FailureRecord] = deque(maxlen=size)
        self._count = 0

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
        error = failure.error
        record = FailureRecord(
            timestamp=self._clock.wall_time(),
            error=failure.summary.partition(":")[0] if error is None else type(error).__name__,
            text=f"{failure.message}\n{failure.text(full_traceback=full_traceback)}",
            task=None if execution is None else execution.flink_label,
            slot=None if execution is None else execution.slot,
            process=process,
            why_final=why_final,
        )
        with self._lock:
            self._records.appendleft(record)
            self._count += 1

    def records(self) -> tuple[tuple[FailureRecord, ...], int]:
        """Return the last failures, newest first, and the number of all failures."""
        with self._lock:
            return tuple(self._records), self._count

"""What sinks send to the driver: printed lines, and the results of execute_and_collect."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flinkish.common.errors import FlinkishError, JobExecutionError
from flinkish.program.sinks import COLLECT, PRINT
from flinkish.runtime.protocol import DriverValues, EpochReport

_log = logging.getLogger("flinkish.jobmaster.delivery")

#: Takes what one subtask sent to a destination in one epoch; called in the job's thread.
Taker = Callable[[DriverValues], None]

#: Results that may wait for the client before the sources are held back; at 100 bytes each 10 MB.
_MOST_WAITING = 100_000


class Results:
    """Results on their way to the client of execute_and_collect.

    With checkpoints a value is handed out when a checkpoint that covers it is complete (or the job has finished), so that the
    values that a restarted job computes again are not seen twice. Without, a value is handed out at once, and a restart that
    would repeat values already handed out ends the iteration with an error instead.
    """

    def __init__(self, *, checkpointed: bool) -> None:
        self._checkpointed = checkpointed
        self._condition = threading.Condition()
        self._uncommitted: list[Any] = []
        #: How many of the uncommitted values each checkpoint in progress covers, by its id.
        self._covered: dict[int, int] = {}
        self._ready: deque[Any] = deque()
        self._delivered_any = False
        self._ended = False
        self._error: BaseException | None = None
        self._space_wanted = False
        #: Called when the client has made room; set by the JobMaster.
        self.on_space: Callable[[], None] = lambda: None

    def add(self, values: Iterable[Any]) -> None:
        """Take the values of one subtask in one epoch."""
        with self._condition:
            if self._checkpointed:
                self._uncommitted.extend(values)
            else:
                self._ready.extend(values)
                self._condition.notify_all()

    def mark(self, checkpoint_id: int) -> None:
        """All values so far are covered by a checkpoint, if that completes."""
        with self._condition:
            self._covered[checkpoint_id] = len(self._uncommitted)

    def commit(self, checkpoint_id: int) -> None:
        """A checkpoint is complete: hand out what it covers."""
        with self._condition:
            self._commit(self._covered.get(checkpoint_id, 0))
            self._covered = {later: count for later, count in self._covered.items() if later > checkpoint_id}

    def commit_all(self) -> None:
        """The job has finished."""
        with self._condition:
            self._commit(len(self._uncommitted))

    def _commit(self, count: int) -> None:
        self._ready.extend(self._uncommitted[:count])
        del self._uncommitted[:count]
        self._covered = {checkpoint_id: covered - count for checkpoint_id, covered in self._covered.items()}
        self._condition.notify_all()

    def check_restart(self) -> None:
        """Raise JobExecutionError if a restart would repeat values that have been handed out; else hand out none until then."""
        with self._condition:
            if self._checkpointed:
                return
            if self._delivered_any:
                raise JobExecutionError(
                    "The job has to start anew, but some of its results have been handed out already and would come again",
                    hint="enable checkpoints (env.enable_checkpointing) where a job with execute_and_collect may be restarted.",
                )
            self._ready.clear()

    def restart(self, checkpoint_id: int | None) -> None:
        """The job goes back to a checkpoint (None: to its start): drop what is computed again.

        The checkpoint may be one that was not known to be complete: then what it covers is handed out now.
        """
        if checkpoint_id is not None:
            self.commit(checkpoint_id)
        with self._condition:
            self._uncommitted.clear()
            self._covered.clear()

    @property
    def full(self) -> bool:
        """Whether the sources have to wait until the client has taken some; `on_space` is called then."""
        with self._condition:
            self._space_wanted = len(self._ready) >= _MOST_WAITING
            return self._space_wanted

    def end(self, error: BaseException | None) -> None:
        """The job has ended; with an error the iteration raises it behind the last value."""
        with self._condition:
            self._uncommitted.clear()
            self._ended = True
            self._error = error
            self._condition.notify_all()

    def __iter__(self) -> Iterator[Any]:
        while True:
            with self._condition:
                while not self._ready and not self._ended:
                    self._condition.wait()
                if not self._ready:
                    if self._error is not None:
                        raise self._error
                    return
                value = self._ready.popleft()
                self._delivered_any = True
                space = self._space_wanted and len(self._ready) <= _MOST_WAITING // 2
                if space:
                    self._space_wanted = False
            if space:
                self.on_space()
            yield value


class Delivery:
    """Sorts what came with the reports of an epoch to where it belongs; `takers` are those of further destinations, by name."""

    def __init__(
        self, results: Results, print_lines: Callable[[tuple[str, ...]], None], takers: Mapping[str, Taker] | None = None
    ) -> None:
        #: The results of execute_and_collect.
        self.results = results
        self._print = print_lines
        self._takers = takers or {}
        self._unknown: set[str] = set()

    def deliver(self, reports: Iterable[EpochReport]) -> None:
        """Print and collect in the order of the slots, whatever the order of the reports."""
        for report in sorted(reports, key=lambda report: (report.level, report.slot)):
            for values in report.driver_values:
                self._deliver(values)

    def _deliver(self, values: DriverValues) -> None:
        match values.destination:
            case destination if destination == PRINT:
                self._print(values.values)
            case destination if destination == COLLECT:
                self.results.add(values.values)
            case destination if destination in self._takers:
                self._takers[destination](values)
            case destination:
                if destination not in self._unknown:
                    self._unknown.add(destination)
                    _log.warning("Operator %s sends values on channel %r, which nobody takes.", values.operator_uid, destination)


class PrintError(FlinkishError, OSError):
    """Standard output is gone, so that printed lines would be lost."""

"""Handles values that sinks send to the driver: printed lines, and the results of execute_and_collect."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flinkish.common import options
from flinkish.common.completable_future import LONGEST_WAIT_S
from flinkish.common.errors import FlinkishError, JobExecutionError
from flinkish.common.ids import OperatorUid
from flinkish.program.dead_letters import DROPPED, LATE
from flinkish.program.sinks import COLLECT, PRINT
from flinkish.runtime.protocol import MIN_WATERMARK, WARNING, DriverValues, EpochReport

_log = logging.getLogger("flinkish.jobmaster.delivery")

#: Takes the values that one subtask sent to a destination in one epoch; called in the job's thread.
Taker = Callable[[DriverValues], None]


class Results:
    """Results on their way to the client of execute_and_collect.

    With checkpoints, a value is handed out when a checkpoint that covers it is complete (or the job has finished), so that the
    client never sees a value twice if a restarted job computes it again. Without checkpoints, a value is handed out at once, and
    a restart that would repeat values ends the iteration with an error instead. Sources are held back when `most_waiting` results
    wait for the client; with 100 bytes each, the default takes 10 MB.
    """

    def __init__(self, *, checkpointed: bool, most_waiting: int = 100_000) -> None:
        self._checkpointed = checkpointed
        self._most_waiting = most_waiting
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
        """Note that a checkpoint, if it completes, covers all values so far."""
        with self._condition:
            self._covered[checkpoint_id] = len(self._uncommitted)

    def commit(self, checkpoint_id: int) -> None:
        """Hand out the values that a completed checkpoint covers."""
        with self._condition:
            self._commit(self._covered.get(checkpoint_id, 0))
            self._covered = {later: count for later, count in self._covered.items() if later > checkpoint_id}

    def commit_all(self) -> None:
        """Hand out all values, because the job has finished."""
        with self._condition:
            self._commit(len(self._uncommitted))

    def _commit(self, count: int) -> None:
        self._ready.extend(self._uncommitted[:count])
        del self._uncommitted[:count]
        self._covered = {checkpoint_id: covered - count for checkpoint_id, covered in self._covered.items()}
        self._condition.notify_all()

    def check_restart(self) -> None:
        """Raise JobExecutionError if a restart would repeat handed-out values; otherwise hand out nothing until the restart."""
        with self._condition:
            if self._checkpointed:
                return
            if self._delivered_any:
                raise JobExecutionError(
                    "The job has to start again from the beginning, but some of its results have been handed out already and "
                    "would be repeated",
                    hint="enable checkpoints (env.enable_checkpointing) if a job with execute_and_collect may be restarted.",
                )
            self._ready.clear()

    def restart(self, checkpoint_id: int | None) -> None:
        """Drop values that will be computed again, because the job goes back to a checkpoint (None = to its start).

        If the checkpoint was not known to be complete before, the values that it covers are handed out now.
        """
        if checkpoint_id is not None:
            self.commit(checkpoint_id)
        with self._condition:
            self._uncommitted.clear()
            self._covered.clear()

    @property
    def full(self) -> bool:
        """Whether sources must wait until the client has taken some results; `on_space` is called when it has."""
        with self._condition:
            self._space_wanted = len(self._ready) >= self._most_waiting
            return self._space_wanted

    def end(self, error: BaseException | None) -> None:
        """End the iteration after the last value, because the job has ended; the iteration then raises the error, if any."""
        with self._condition:
            self._uncommitted.clear()
            self._ended = True
            self._error = error
            self._condition.notify_all()

    def __iter__(self) -> Iterator[Any]:
        while True:
            with self._condition:
                while not self._ready and not self._ended:
                    self._condition.wait(LONGEST_WAIT_S)
                if not self._ready:
                    if self._error is not None:
                        raise self._error
                    return
                value = self._ready.popleft()
                self._delivered_any = True
                space = self._space_wanted and len(self._ready) <= self._most_waiting // 2
                if space:
                    self._space_wanted = False
            if space:
                self.on_space()
            yield value


class Delivery:
    """Passes the values in the reports of an epoch to their destinations; `takers` has further destinations by name."""

    def __init__(
        self, results: Results, print_lines: Callable[[tuple[str, ...]], None], takers: Mapping[str, Taker] | None = None
    ) -> None:
        #: The results of execute_and_collect.
        self.results = results
        self._takers: dict[str, Taker] = {
            **(takers or {}),
            PRINT: lambda values: print_lines(values.values),
            COLLECT: lambda values: results.add(values.values),
            DROPPED: self._tell_dropped,
            WARNING: self._warn,
        }
        #: Destinations and operators about which a line was logged.
        self._told: set[tuple[str, OperatorUid | None]] = set()

    def deliver(self, reports: Iterable[EpochReport]) -> None:
        """Print and collect the values in the order of the slots, whatever the order of the reports.

        Collected values come in the order in which one subtask that reads from all would take them: by the watermark before them.
        """
        ordered = sorted(reports, key=lambda report: (report.level, report.slot))
        sent = [values for report in ordered for values in report.driver_values]
        for values in sorted(sent, key=lambda values: MIN_WATERMARK if values.watermark is None else values.watermark):
            self._takers.get(values.destination, self._not_taken)(values)

    def _first(self, destination: str, operator: OperatorUid | None = None) -> bool:
        known = (destination, operator) in self._told
        self._told.add((destination, operator))
        return not known

    def _not_taken(self, values: DriverValues) -> None:
        if self._first(values.destination):
            text = "Operator %s sends values on channel %r, which nobody takes."
            _log.warning(text, values.operator_uid, values.destination)

    def _warn(self, values: DriverValues) -> None:
        """Log a warning about an operator, once for all its subtasks and attempts."""
        if self._first(WARNING, values.operator_uid):
            for text in values.values:
                _log.warning("%s", text)

    def _tell_dropped(self, values: DriverValues) -> None:
        """Log, once for each operator, that it drops records; a table of dead letters would keep them."""
        for name, kind in values.values if self._first(DROPPED, values.operator_uid) else ():
            what = "a late record" if kind == LATE else "a record that it could not decode"
            _log.warning(
                "Operator %r (uid %s) has dropped %s. It will drop others without another message; its metrics count them. "
                "Set %s to keep them in a table.",
                name, values.operator_uid, what, options.DEAD_LETTERS_DIR.key,
            )  # fmt: skip


class PrintError(FlinkishError, OSError):
    """Standard output is closed, so printed lines would be lost."""

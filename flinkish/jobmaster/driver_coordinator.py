"""Reads sources on the driver that cannot be read again, such as a socket."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from flinkish.checkpoint.manifest import SourceState
from flinkish.common.clock import Clock
from flinkish.common.configuration import Configuration
from flinkish.common.sizes import rough_size
from flinkish.jobmaster.admission import AdmissionSettings
from flinkish.jobmaster.program_parts import SourceNode
from flinkish.jobmaster.source_coordinator import SourceCoordinator
from flinkish.jobmaster.wakeup import AsyncCalls, Post
from flinkish.program.sources import DriverReader, DriverSource
from flinkish.runtime.protocol import ReaderCommand, ReaderReport

_log = logging.getLogger("flinkish.jobmaster.sources")

#: Longest single wait of the thread that waits for a driver-side reader; the thread can be stopped only between two waits.
_DRIVER_WAIT_MS = 500

#: Number of records that are taken from a driver-side source before their size is known.
_FIRST_POLL = 100

#: The enumerator state of a driver-side source whose input has ended.
_ENDED = msgspec.msgpack.encode({"ended": True})


class DriverSourceCoordinator(SourceCoordinator):
    """Coordinates a source that is read on the driver: its records are sent to subtask 0 with the commands."""

    def __init__(
        self, node: SourceNode, configuration: Configuration, clock: Clock, post: Post, limit: AdmissionSettings
    ) -> None:
        assert isinstance(node.source, DriverSource)
        self.node = node
        self._source: DriverSource[Any] = node.source
        self._configuration = configuration
        self._limit = limit
        self._clock = clock
        #: Its thread waits for the reader, but never while this object polls it.
        self._waiter = AsyncCalls(f"flinkish-driver-source-{node.name}", clock, post)
        #: None before the start and when the attempt ends.
        self._reader: DriverReader | None = None
        self._records: deque[Any] = deque()
        #: Number of records to poll at once: small at first, then adapted to their size.
        self._most = min(_FIRST_POLL, limit.max_records)
        self._ended = False
        self._poll_again = True
        #: The last report of each subtask; the state of its watermark generator is a pseudo-split.
        self._reports = [ReaderReport()] * node.parallelism
        #: Whether the readers know of the end.
        self._told_end = False

    def start(self, restored: SourceState | None, *, trusted: bool = True) -> None:
        if restored is not None:
            self._reports[0] = ReaderReport(splits=restored.splits[:1])
            if restored.enumerator is not None:
                self._ended = True  # it had ended before the checkpoint; reading it again would give other records
                return
        self._reader = self._source.create_driver_reader(self._configuration)

    def refresh(self) -> None:
        """Poll the reader, unless records are still waiting or the waiting thread has seen no new ones."""
        if self._records or self._ended or not self._poll_again:
            return
        assert self._reader is not None
        records, self._ended = self._reader.poll(self._most)
        self._records.extend(records)
        self._poll_again = len(records) >= self._most and not self._ended
        if records:
            by_bytes = len(records) * self._limit.max_bytes // max(1, sum(map(rough_size, records)))
            self._most = max(1, min(self._limit.max_records, 100 * self._most, by_bytes))
        if not self._poll_again and not self._ended:
            self._waiter.call(self._wait, self._waited)

    def _wait(self) -> None:
        """Wait until the reader may have records, or the attempt ends."""
        while (reader := self._reader) is not None:
            started = self._clock.monotonic()
            reader.wait(_DRIVER_WAIT_MS)
            if self._clock.monotonic() - started < _DRIVER_WAIT_MS:
                return

    def _waited(self, _: None, error: BaseException | None) -> None:
        if error is not None:
            # The poll that follows raises the same error in a thread that can fail the job.
            _log.debug("Waiting for a driver-side reader failed.", exc_info=error)
        self._poll_again = True

    @property
    def input_ready(self) -> bool:
        return bool(self._records) or (self._ended and not self._told_end)

    @property
    def wants_poll(self) -> bool:
        return any(report.awaits_idleness for report in self._reports)

    def commands(self, credit: int) -> dict[int, ReaderCommand]:
        records = tuple(self._take(credit))
        end = self._ended and not self._records
        self._told_end = self._told_end or end
        return {
            subtask: ReaderCommand(
                splits=report.splits,
                credit=credit,
                no_more_splits=True,
                finished=report.finished,
                records=records if subtask == 0 else (),
                end_of_records=end,
            )
            for subtask, report in enumerate(self._reports)
        }

    def _take(self, credit: int) -> Iterator[Any]:
        room = self._limit.max_bytes
        while self._records and credit > 0 and room > 0:
            record = self._records.popleft()
            credit -= 1
            room -= rough_size(record)
            yield record

    def apply(self, subtask: int, report: ReaderReport) -> None:
        # A reader that has ended has no splits, but its last ones are in checkpoints.
        self._reports[subtask] = replace(report, splits=self._reports[subtask].splits) if report.finished else report

    def snapshot(self, checkpoint_id: int) -> SourceState:
        ended = _ENDED if self._ended and not self._records else None
        return SourceState(uid=self.node.uid, enumerator=ended, splits=self._reports[0].splits)

    def close(self) -> None:
        reader, self._reader = self._reader, None
        # The reader must not be closed during a wait. A reader that waits longer than its timeout is not waited for.
        self._waiter.close(wait=4 * _DRIVER_WAIT_MS)
        if reader is not None:
            reader.close()

"""Readers on the driver that read in a thread of their own, so that input that hangs does not block the job."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from flinkish.common.closing import raised_by


class ThreadedReader(ABC):
    """A `DriverReader` whose thread reads ahead, and pauses while the buffer is full."""

    def __init__(self, name: str, size_of: Callable[[Any], int], most_records: int, most_size: int) -> None:
        """Start a thread with this name. The buffer is full at this many records, or if their sizes have this sum."""
        self._size_of = size_of
        self._most_records = most_records
        self._most_size = most_size
        #: Guards all attributes below.
        self._changed = threading.Condition()
        self._records: deque[Any] = deque()
        self._size = 0
        self._ended = False
        self._error: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @abstractmethod
    def _read(self) -> None:
        """Read to the end of the input, in the thread; `poll` raises its error, after the records before it."""

    def _run(self) -> None:
        error = raised_by(self._read)
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def _add(self, records: Sequence[Any]) -> bool:
        """Wait until there is room and add records; return False if the reader was closed."""
        with self._changed:
            while not self._closed and (len(self._records) >= self._most_records or self._size >= self._most_size):
                self._changed.wait()
            self._records.extend(records)
            self._size += sum(map(self._size_of, records))
            self._changed.notify_all()
            return not self._closed

    def poll(self, limit: int) -> tuple[Sequence[Any], bool]:
        """Return up to `limit` records, and whether the input has ended; raise the error of the thread if there are none."""
        with self._changed:
            records = [self._records.popleft() for _ in range(min(limit, len(self._records)))]
            # Others may have changed records since they were measured.
            self._size = max(0, self._size - sum(map(self._size_of, records))) if self._records else 0
            self._changed.notify_all()
            ended = self._ended and not self._records
            if ended and not records and self._error is not None and not self._closed:
                raise self._error
            return records, ended and (self._error is None or self._closed)

    def wait(self, timeout: int) -> None:
        """Block until there are records or the input has ended, for at most `timeout` milliseconds."""
        with self._changed:
            self._changed.wait_for(lambda: bool(self._records) or self._ended or self._closed, timeout / 1000)

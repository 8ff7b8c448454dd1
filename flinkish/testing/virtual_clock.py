"""The clock of a job under test: only the test advances it, and it detects when the job has nothing more to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from flinkish.common.clock import SystemClock
from flinkish.engine.launcher import JOB_THREAD
from flinkish.jobmaster.enumerator_coordinator import worker_thread

#: Number of rounds if sources work in threads, because the job may have to respond to the results of a thread.
_ROUNDS = 3
_LOOK_S = 0.05
_SYSTEM = SystemClock()


@dataclass(slots=True)
class _Waiter:
    condition: threading.Condition
    #: When the clock must wake it, in milliseconds; None = never.
    deadline: int | None
    #: Whether it was woken and has not begun to run yet.
    woken: bool = False


class VirtualClock:
    """A Clock for one job. The job's threads wait on it; the test's thread advances it and waits until they all wait again."""

    def __init__(self, job_id: str, now: int = 0) -> None:
        self._job_thread = f"{JOB_THREAD}{job_id[:8]}"
        self._worker_thread = worker_thread(job_id)
        self._now = now
        #: Guards the fields below. A thread may take it while it has the condition it waits on, but never the other way round.
        self._changed = threading.Condition()
        self._waiters: dict[threading.Thread, _Waiter] = {}

    def wall_time(self) -> int:
        return self._now

    monotonic = wall_time

    def wait(self, condition: threading.Condition, timeout: int | None) -> None:
        if timeout is not None and timeout <= 0:
            return
        thread = threading.current_thread()
        with self._changed:
            self._waiters[thread] = _Waiter(condition, None if timeout is None else self._now + timeout)
            self._changed.notify_all()
        condition.wait()
        with self._changed:
            del self._waiters[thread]

    def move_to(self, time: int) -> None:
        """Set the time in milliseconds; call `settle` afterwards."""
        self._now = time

    def next_deadline(self) -> int | None:
        """Return the earliest time at which a waiting thread must be woken."""
        with self._changed:
            return min((waiter.deadline for waiter in self._waiters.values() if waiter.deadline is not None), default=None)

    def wake_test(self) -> None:
        """Make `settle` check again whether it is over; may be called from any thread."""
        with self._changed:
            self._changed.notify_all()

    def settle(self, over: Callable[[], bool], timeout: float) -> bool:
        """Wake all waiting threads to check the time and their conditions, until they all wait again, or `over`.

        Returns False if that took longer than `timeout` seconds of real time.
        """
        for _ in range(_ROUNDS if self._workers() else 1):
            self._wake_all()
            deadline = _SYSTEM.monotonic() + int(timeout * 1000)
            with self._changed:
                while not (over() or self._all_wait()):
                    if _SYSTEM.monotonic() > deadline:
                        return False
                    # A thread that ends does not notify the condition, so check at intervals.
                    self._changed.wait(_LOOK_S)
        return True

    def _wake_all(self) -> None:
        with self._changed:
            waiters = list(self._waiters.items())
        for thread, waiter in waiters:
            with waiter.condition:
                if self._waiters.get(thread) is waiter:
                    waiter.woken = True
                    waiter.condition.notify_all()

    def _all_wait(self) -> bool:
        waiting = {thread for thread, waiter in self._waiters.items() if not waiter.woken}
        return any(thread.name == self._job_thread for thread in waiting) and waiting >= self._workers()

    def _workers(self) -> set[threading.Thread]:
        return {thread for thread in threading.enumerate() if thread.name.startswith(self._worker_thread)}

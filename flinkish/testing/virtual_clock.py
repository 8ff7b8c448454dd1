"""The clock of a job under test: it stands still until the test moves it, and tells when the job has nothing more to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from flinkish.common.clock import SystemClock
from flinkish.engine.launcher import JOB_THREAD
from flinkish.jobmaster.source_coordinator import worker_thread

#: How often everything is looked at anew where sources work in threads: what one hands over, the job may have to answer.
_ROUNDS = 3
_LOOK_S = 0.05
_SYSTEM = SystemClock()


@dataclass(slots=True)
class _Waiter:
    condition: threading.Condition
    #: When it wants to be woken, in milliseconds; None: not by the clock.
    deadline: int | None
    #: It was woken and has not begun to run yet.
    woken: bool = False


class VirtualClock:
    """A Clock for one job. The job's threads wait in it; the test's thread moves it and waits for them to wait again."""

    def __init__(self, job_id: str, now: int = 0) -> None:
        self._job_thread = f"{JOB_THREAD}{job_id[:8]}"
        self._worker_thread = worker_thread(job_id)
        self._now = now
        #: Guards what follows. A thread may hold the condition it waits on when it takes this one, never the other way round.
        self._changed = threading.Condition()
        self._waiters: dict[threading.Thread, _Waiter] = {}

    # -- Clock ---------------------------------------------------------------------------------------------------------------

    def wall_time(self) -> int:
        return self._now

    def monotonic(self) -> int:
        return self._now

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

    # -- the test's side -----------------------------------------------------------------------------------------------------

    def move_to(self, time: int) -> None:
        """Set the time, in milliseconds; call `settle` then."""
        self._now = time

    def next_deadline(self) -> int | None:
        """Return when the first of those who wait wants to be woken."""
        with self._changed:
            return min((waiter.deadline for waiter in self._waiters.values() if waiter.deadline is not None), default=None)

    def wake_test(self) -> None:
        """Have `settle` look again whether it is over; from any thread."""
        with self._changed:
            self._changed.notify_all()

    def settle(self, over: Callable[[], bool], timeout: float) -> bool:
        """Have all who wait look at the time and whatever else they wait for, until they wait again, or `over`.

        Returns False if that took longer than so many seconds of real time.
        """
        for _ in range(_ROUNDS if self._workers() else 1):
            self._wake_all()
            deadline = _SYSTEM.monotonic() + int(timeout * 1000)
            with self._changed:
                while not (over() or self._all_wait()):
                    if _SYSTEM.monotonic() > deadline:
                        return False
                    # A thread that ends tells nobody.
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

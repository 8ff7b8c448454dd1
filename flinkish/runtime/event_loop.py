"""The event loop of a task, in which the calls of its asynchronous functions run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

#: How long a task waits at its end for running coroutines, in seconds; code that ignores its cancellation keeps running.
GRACE_SECONDS = 10.0


class EventLoop:
    """One asyncio loop in a thread of its own, for all asynchronous operators of a task; started when it is first used.

    It keeps running between records and epochs, so that clients can keep their connections alive.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            self._thread = threading.Thread(target=self._run, args=(self._loop,), name=self._name, daemon=True)
            self._thread.start()
        return self._loop

    def call(self, callback: Callable[[], None]) -> None:
        """Have the loop call `callback` soon; may be called from any thread."""
        self.loop.call_soon_threadsafe(callback)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for its result; must be called from another thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    @property
    def alive(self) -> bool:
        """Whether the loop's thread runs."""
        return self._thread is not None and self._thread.is_alive()

    def close(self) -> None:
        """Cancel everything that still runs in the loop, and end its thread."""
        loop, thread = self._loop, self._thread
        self._loop = self._thread = None
        if loop is not None and thread is not None:
            if thread.is_alive():
                loop.call_soon_threadsafe(loop.stop)
            thread.join(2 * GRACE_SECONDS)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            left = asyncio.all_tasks(loop)
            for task in left:
                task.cancel()
            if left:
                loop.run_until_complete(asyncio.wait(left, timeout=GRACE_SECONDS))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()

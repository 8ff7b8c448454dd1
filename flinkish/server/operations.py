"""Long operations, such as savepoints: a request starts one, and later requests ask for its result by the trigger id.

A client may choose the trigger id, so that a repeated request starts nothing. As in Flink, it belongs to one job: the same id may
belong to operations of other jobs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from flinkish.common.clock import Clock
from flinkish.common.completable_future import CompletableFuture
from flinkish.server.answers.jobs import OperationInfo, OperationResult, QueueStatus
from flinkish.server.java_throwable import failure_cause

#: How long results are kept after the end of an operation, in milliseconds: the default of Flink's rest.async.store-duration.
KEPT_MS = 5 * 60_000
#: Maximum number of operations that are kept; the oldest ended one is removed first.
_MOST = 1_000


class OperationKey(NamedTuple):
    """The identity of an operation; `job_id` is None if it does not concern a job."""

    kind: str
    job_id: str | None
    trigger_id: str


@dataclass(slots=True)
class _Operation:
    future: CompletableFuture[Any]
    #: The field of OperationInfo that has its result; None = it has none.
    result: str | None
    ended: int | None = None
    #: Whether the result was given to a client.
    read: bool = False


class Operations:
    """The operations of a server by their keys; may be used from any thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        #: The oldest first.
        self._operations: dict[OperationKey, _Operation] = {}

    def start(self, key: OperationKey, begin: Callable[[], CompletableFuture[Any]], result: str | None) -> None:
        """Start an operation whose result is this field of OperationInfo; if its key is known already, start nothing."""
        with self._lock:
            self._forget()
            if key in self._operations:
                return
            placeholder: CompletableFuture[Any] = CompletableFuture()
            self._operations[key] = _Operation(placeholder, result)
        try:
            future = begin()
        except Exception as error:
            placeholder.set_exception(error)
        else:
            future.pass_on(placeholder)

    def result(self, key: OperationKey) -> OperationResult | None:
        """Return the state of an operation, with its result if it has ended; None if it is unknown or was removed."""
        with self._lock:
            self._forget()
            operation = self._operations.get(key)
            if operation is None:
                return None
            if not operation.future.done():
                return OperationResult(status=QueueStatus(id="IN_PROGRESS"))
            operation.read = True
        error = operation.future.exception()
        if error is None:
            info = OperationInfo(**{} if operation.result is None else {operation.result: operation.future.result()})
        else:
            info = OperationInfo(failure_cause=failure_cause(type(error).__name__, f"{type(error).__name__}: {error}"))
        return OperationResult(status=QueueStatus(id="COMPLETED"), operation=info)

    def results(self) -> dict[OperationKey, OperationResult]:
        with self._lock:
            ended = [key for key, operation in self._operations.items() if operation.future.done()]
        return {key: result for key in ended if (result := self.result(key)) is not None}

    def has_unread(self) -> bool:
        """Return whether there is an operation whose result no client has fetched."""
        with self._lock:
            return any(not operation.read for operation in self._operations.values())

    def _forget(self) -> None:
        now = self._clock.monotonic()
        for key, operation in list(self._operations.items()):
            if operation.ended is None and operation.future.done():
                operation.ended = now
            if operation.ended is not None and (now - operation.ended > KEPT_MS or len(self._operations) > _MOST):
                del self._operations[key]

"""The operator of AsyncDataStream: runs many calls of a function at the same time, in the event loop of the task."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from flinkish.common.errors import AsyncFunctionError, EngineError
from flinkish.common.records import is_one_record
from flinkish.program.operators import AsyncWaitConfig
from flinkish.runtime.event_loop import GRACE_SECONDS, EventLoop
from flinkish.runtime.isolation import SCALARS, isolate
from flinkish.runtime.operators.base import OperatorContext, Output
from flinkish.runtime.operators.function import ResultsOperator
from flinkish.udf.async_retry_strategies import AsyncRetryStrategy
from flinkish.udf.functions import AsyncFunction

#: Seconds between two checks that the loop's thread is alive.
_LIVENESS_SECONDS = 5.0


Control = Callable[[], None]


class Call:
    """One call of an asynchronous function, for one record."""

    __slots__ = ("ended", "error", "results", "segment", "task", "timer", "timestamp", "value")

    def __init__(self, value: Any, timestamp: int | None) -> None:
        self.value = value
        self.timestamp = timestamp
        #: The outcome of the call; set by the loop's thread before it returns the call.
        self.results: Iterable[Any] = ()
        self.error: Exception | None = None
        #: Whether the call has an outcome; used by the loop's thread.
        self.ended = False
        self.task: Any = None
        self.timer: Any = None
        #: Its segment of the queue; used by the task's thread.
        self.segment: Any = None


class _Segment:
    """Calls whose results may be emitted in any order, and the control element after them, if there is one."""

    __slots__ = ("control", "pending", "ready")

    def __init__(self) -> None:
        self.pending = 0
        self.ready: deque[Call] = deque()
        self.control: Control | None = None


class CallQueue:
    """The calls whose results have not been emitted yet.

    Ordered: results are emitted in the order of the records. Otherwise in the order of completion, but no result passes a control
    element.
    """

    def __init__(self, *, ordered: bool) -> None:
        #: Number of calls in the queue.
        self.size = 0
        self._ordered = ordered
        self._segments: deque[_Segment] = deque([_Segment()])

    def add(self, call: Call) -> None:
        """Add a call that is about to be made."""
        call.segment = segment = self._segments[-1]
        segment.pending += 1
        self.size += 1
        if self._ordered:
            self._segments.append(_Segment())

    def add_control(self, control: Control) -> None:
        """Add a control element; it is emitted after everything that was added before it, and before everything added later."""
        self._segments[-1].control = control
        self._segments.append(_Segment())

    def returned(self, call: Call) -> None:
        segment: _Segment = call.segment
        segment.pending -= 1
        segment.ready.append(call)

    def take_ready(self) -> Iterator[Call | Control]:
        """Remove and return the elements that may be emitted."""
        segments = self._segments
        while True:
            segment = segments[0]
            while segment.ready:
                self.size -= 1
                yield segment.ready.popleft()
            if segment.pending or len(segments) == 1:
                return
            segments.popleft()
            if segment.control is not None:
                yield segment.control


class _Caller:
    """Makes the calls: the task's thread uses `submit`, `wait` and `take`, the loop's thread everything else.

    A call ends once: with the function's result, with its error, or by its timeout, which covers the time from the first try to
    the end of the last one. A call that timed out is cancelled.
    """

    def __init__(self, event_loop: EventLoop, function: AsyncFunction, timeout: int, strategy: AsyncRetryStrategy) -> None:
        predicate = strategy.get_retry_predicate()
        self._event_loop = event_loop
        self._function = function
        self._timeout = timeout / 1000
        self._strategy = strategy
        self._retries_result = predicate.result_predicate()
        self._retries_error = predicate.exception_predicate()
        self._submitted: deque[Call] = deque()
        self._scheduled = False
        self._tasks: set[asyncio.Task[None]] = set()
        #: Calls that have an outcome, to be taken by the task.
        self.back: deque[Call] = deque()
        self._returned = threading.Condition()

    # -- the task's thread ---------------------------------------------------------------------------------------------------

    def submit(self, call: Call) -> None:
        self._submitted.append(call)
        if not self._scheduled:
            self._scheduled = True
            self._event_loop.call(self._start)

    def wait(self) -> None:
        with self._returned:
            while not self.back:
                if not self._returned.wait(_LIVENESS_SECONDS) and not self._event_loop.alive:
                    raise EngineError(f"the event loop of {type(self._function).__qualname__} has ended while calls were running")

    def close(self) -> None:
        """Cancel all calls, and wait until they have ended."""
        if self._event_loop.alive:
            self._event_loop.run(self._cancel_all())

    # -- the loop's thread ---------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        # Reset before the queue is read: calls that are submitted from now on schedule this method again.
        self._scheduled = False
        loop = asyncio.get_running_loop()
        while self._submitted:
            call = self._submitted.popleft()
            if self._timeout > 0:
                call.timer = loop.call_later(self._timeout, self._time_out, call)
            call.task = task = loop.create_task(self._make(call))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _make(self, call: Call) -> None:
        attempts = 1
        try:
            while True:
                try:
                    results = await self._function.async_invoke(call.value)
                except Exception as error:
                    if not self._retry(self._retries_error, error, attempts):
                        raise
                else:
                    if results is None or not self._retry(self._retries_result, results, attempts):
                        break
                await asyncio.sleep(self._strategy.get_backoff_time_millis(attempts) / 1000)
                attempts += 1
            self._end(call, self._checked(results))
        # Catch everything, even SystemExit or its own cancellation: the task must learn of it, and the loop must continue.
        except BaseException as error:
            self._fail(call, error)

    def _retry(self, predicate: Callable[[Any], bool] | None, outcome: Any, attempts: int) -> bool:
        return predicate is not None and predicate(outcome) and self._strategy.can_retry(attempts)

    def _time_out(self, call: Call) -> None:
        if call.ended:
            return
        call.timer = None
        try:
            self._end(call, self._checked(self._function.timeout(call.value)))
        except BaseException as error:
            self._fail(call, error)
        call.task.cancel()

    def _checked(self, results: Any) -> Iterable[Any]:
        if isinstance(results, Iterable) and not is_one_record(results):
            return results if results.__class__ is list else list(results)
        what = "cannot be none" if results is None else "should be of list type"
        raise _WrongResultError(
            f"The result of AsyncFunction {what}, please check the methods 'async_invoke' and 'timeout' of class "
            f"'{type(self._function)}'."
        )

    def _fail(self, call: Call, error: BaseException) -> None:
        if call.ended:  # it timed out and was cancelled
            return
        if isinstance(error, _WrongResultError):
            call.error = AsyncFunctionError(str(error))
        else:
            text = f"Error happens inside the class '{type(self._function)}' during handling input '{call.value}'"
            call.error = AsyncFunctionError(f"{text}: {type(error).__name__}: {error}")
            call.error.__cause__ = error
        self._end(call, ())

    def _end(self, call: Call, results: Iterable[Any]) -> None:
        if call.ended:
            return
        call.ended = True
        if call.timer is not None:
            call.timer.cancel()
        call.results = results
        with self._returned:
            self.back.append(call)
            self._returned.notify()

    async def _cancel_all(self) -> None:
        self._submitted.clear()
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=GRACE_SECONDS)


class _WrongResultError(Exception):
    """A function returned an invalid result."""


class AsyncWaitOperator(ResultsOperator[AsyncWaitConfig]):
    """Makes a call for each record, at most `capacity` at a time, and emits the results with the record's event time.

    Results never pass a watermark. All calls of an epoch end within it, so nothing is pending when a checkpoint is taken: an
    epoch that is run again makes its calls again, and in unordered mode may emit their results in another order.

    Differs from Flink: in Flink a call may be in progress at a checkpoint, which then contains its record, and is made again
    after a restore. Here a call that timed out is cancelled; Flink lets it continue and drops its result.
    """

    def __init__(self, context: OperatorContext) -> None:
        super().__init__(context)
        config = self.config
        self._queue = CallQueue(ordered=config.ordered)
        self._caller = _Caller(context.event_loop, self.function, config.timeout, config.retry_strategy)

    def connect(self, output: Output) -> None:
        super().connect(output)
        queue, submit, back, capacity = self._queue, self._caller.submit, self._caller.back, self.config.capacity

        def process(value: Any, timestamp: int | None, self: AsyncWaitOperator = self) -> None:
            if back:
                self._take()
            while queue.size >= capacity:
                self._wait()
            # The call is made later, and the code that emitted the record may change it before.
            call = Call(value if value.__class__ in SCALARS else isolate(value), timestamp)
            queue.add(call)
            submit(call)

        self.process = process

    def _take(self) -> None:
        """Emit the results of returned calls that may be emitted."""
        back, queue = self._caller.back, self._queue
        while back:
            call = back.popleft()
            if call.error is not None:
                raise call.error
            queue.returned(call)
        for ready in queue.take_ready():
            if isinstance(ready, Call):
                self.emit_results(ready.results, ready.timestamp)
            else:
                ready()

    def _wait(self) -> None:
        self._caller.wait()
        self._take()

    def _drain(self) -> None:
        while self._queue.size:
            self._wait()

    def watermark(self, timestamp: int) -> None:
        self.current_watermark = timestamp
        self._pass_on(partial(self.output.watermark, timestamp))

    def status(self, idle: bool) -> None:
        self._pass_on(partial(self.output.status, idle))

    def _pass_on(self, control: Callable[[], None]) -> None:
        if self._queue.size:
            self._queue.add_control(control)
        else:
            control()

    before_barrier = prepare_snapshot = finish = _drain

    def close(self) -> None:
        try:
            # The function is closed whatever the calls raise when they are cancelled.
            with suppress(Exception):
                self._caller.close()
        finally:
            super().close()

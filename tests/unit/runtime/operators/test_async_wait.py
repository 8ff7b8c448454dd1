"""Asynchronous functions, step by step. Calls wait for each other, never for time, but where a timeout is what is tested."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Duration, Time, Types
from flinkish.common.errors import AsyncFunctionError, InvalidArgumentError, NotSerializableError
from flinkish.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryPredicate,
    AsyncRetryStrategy,
    DataStream,
    MapFunction,
    OutputTag,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from flinkish.datastream.async_retry_predicates import (
    exception_type_predicate,
    has_exception_predicate,
)
from flinkish.runtime.protocol import MAX_WATERMARK
from flinkish.testing import EndOfInput, OneInputHarness, StreamRecord, Watermark, WatermarkStatus

#: Long enough never to pass in a test that does not hang.
LONG = Time.seconds(60)


def waiting(function: AsyncFunction, timeout: Time = LONG, capacity: int = 100, **arguments: Any) -> Any:
    return lambda stream: AsyncDataStream.unordered_wait(stream, function, timeout, capacity, **arguments)


def ordered(function: AsyncFunction, timeout: Time = LONG, capacity: int = 100) -> Any:
    return lambda stream: AsyncDataStream.ordered_wait(stream, function, timeout, capacity)


def retrying(function: AsyncFunction, strategy: AsyncRetryStrategy, timeout: Time = LONG) -> Any:
    return lambda stream: AsyncDataStream.unordered_wait_with_retry(stream, function, timeout, strategy)


class LastFirst(AsyncFunction):
    """The call for 0 ends only after that for `last` did."""

    def __init__(self, last: int) -> None:
        self.last = last

    def open(self, runtime_context: RuntimeContext) -> None:
        self.ended = asyncio.Event()

    async def async_invoke(self, value: int) -> list[int]:
        if value == 0:
            await self.ended.wait()
        if value == self.last:
            self.ended.set()
        return [value]


def test_unordered_results_come_as_calls_end_with_the_time_of_their_record() -> None:
    with OneInputHarness(waiting(LastFirst(3))) as harness:
        harness.process_elements(StreamRecord(value, 10 * value) for value in range(4))
        assert harness.take_output() == [StreamRecord(value, 10 * value) for value in (1, 2, 3, 0)]


def test_ordered_results_come_in_the_order_of_the_records() -> None:
    with OneInputHarness(ordered(LastFirst(3))) as harness:
        harness.process_elements(range(4))
        assert harness.take_values() == [0, 1, 2, 3]


@pytest.mark.parametrize("build", [waiting, ordered])
def test_results_never_pass_a_watermark_although_calls_do(build: Callable[..., Any]) -> None:
    with OneInputHarness(build(LastFirst(1))) as harness:
        with harness.epoch():
            harness.process_watermark(0)
            harness.process_element(0, 1)
            harness.process_watermark(5)
            harness.process_element(1, 6)
            harness.process_status(idle=True)
        expected = [Watermark(0), StreamRecord(0, 1), Watermark(5), StreamRecord(1, 6), WatermarkStatus(True)]
        assert harness.take_elements() == expected


def test_the_end_of_the_input_comes_after_all_results() -> None:
    with OneInputHarness(waiting(LastFirst(1))) as harness:
        with harness.epoch():
            harness.process_elements([0, 1])
            harness.end_input()
        assert harness.take_elements() == [StreamRecord(1), StreamRecord(0), Watermark(MAX_WATERMARK), EndOfInput()]


class InFlight(AsyncFunction):
    """Calls wait until there are `together` of them; gives how many there were at most."""

    def __init__(self, together: int) -> None:
        self.together = together

    def open(self, runtime_context: RuntimeContext) -> None:
        self.barrier = asyncio.Barrier(self.together)
        self.count = 0

    async def async_invoke(self, value: Any) -> list[int]:
        self.count += 1
        count = self.count
        try:
            await self.barrier.wait()
            return [count]
        finally:
            self.count -= 1


@pytest.mark.parametrize("build", [waiting, ordered])
def test_calls_run_concurrently_up_to_the_capacity(build: Callable[..., Any]) -> None:
    with OneInputHarness(build(InFlight(4), capacity=4)) as harness:
        harness.process_elements(range(40))
        assert max(harness.take_values()) == 4


def test_a_call_may_give_any_number_of_results() -> None:
    class Repeat(AsyncFunction):
        async def async_invoke(self, value: int) -> Any:
            return (value for _ in range(value))

    with OneInputHarness(ordered(Repeat())) as harness:
        harness.process_elements([2, 0, 3])
        assert harness.take_values() == [2, 2, 3, 3, 3]


class Echo(AsyncFunction):
    async def async_invoke(self, value: Any) -> list[Any]:
        return [value]


def test_results_are_checked_against_the_declared_type() -> None:
    with OneInputHarness(waiting(Echo(), output_type=Types.INT())) as harness:
        harness.process_element(1)
        assert harness.take_values() == [1]
        with pytest.raises(TypeError, match="'x'"):
            harness.process_element("x")


def test_results_may_go_to_side_outputs() -> None:
    side = OutputTag("side", Types.INT())

    class Both(AsyncFunction):
        async def async_invoke(self, value: int) -> list[Any]:
            return [value, (side, -value)]

    with OneInputHarness(waiting(Both()), side_outputs=[side]) as harness:
        harness.process_element(1, 5)
        assert (harness.take_output(), harness.take_output(side)) == ([StreamRecord(1, 5)], [StreamRecord(-1, 5)])


def test_a_record_is_what_it_was_when_it_was_emitted() -> None:
    def growing(count: int) -> Any:
        row: list[int] = []
        for number in range(count):
            row.append(number)
            yield row

    class Length(AsyncFunction):
        async def async_invoke(self, value: list[int]) -> list[int]:
            return [len(value)]

    with OneInputHarness(lambda stream: ordered(Length())(stream.flat_map(growing))) as harness:
        harness.process_element(3)
        assert harness.take_values() == [1, 2, 3]


def test_all_asynchronous_operators_of_a_task_share_one_loop_in_one_thread() -> None:
    class Where(AsyncFunction):
        async def async_invoke(self, value: tuple[Any, ...]) -> list[Any]:
            return [(*value, threading.get_ident(), id(asyncio.get_running_loop()))]

    with OneInputHarness(lambda stream: ordered(Where())(ordered(Where())(stream))) as harness:
        harness.process_elements([(), ()])
        first, second = harness.take_values()
    assert first == second
    assert first[:2] == first[2:]
    assert first[0] != threading.get_ident()


# -- timeouts --------------------------------------------------------------------------------------------------------------------


class Endless(AsyncFunction):
    """Odd numbers are never answered."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.cancelled = 0

    async def async_invoke(self, value: int) -> list[Any]:
        if value % 2:
            try:
                await asyncio.Event().wait()
            finally:
                self.cancelled += 1
        return [(value, self.cancelled)]


class Patient(Endless):
    def timeout(self, value: int) -> list[Any]:
        return [("timeout", value)]


def test_a_call_that_takes_too_long_fails_the_job_by_default() -> None:
    with (
        OneInputHarness(waiting(Endless(), Time.milliseconds(20))) as harness,
        pytest.raises(AsyncFunctionError, match="TimeoutError: Async function call has timed out for input: 1"),
    ):
        harness.process_element(1)


def test_a_call_that_takes_too_long_gives_what_timeout_returns_and_is_cancelled() -> None:
    with OneInputHarness(ordered(Patient(), Duration.of_millis(20))) as harness:
        harness.process_elements([1, 2, 3], timestamp=7)
        assert harness.take_output() == [
            StreamRecord(("timeout", 1), 7),
            StreamRecord((2, 0), 7),
            StreamRecord(("timeout", 3), 7),
        ]
        harness.process_element(4)
        assert harness.take_values() == [(4, 2)]


def test_without_a_timeout_a_call_may_take_as_long_as_it_wants() -> None:
    with OneInputHarness(waiting(LastFirst(1), Time.milliseconds(0))) as harness:
        harness.process_elements([0, 1])
        assert harness.take_values() == [1, 0]


# -- errors ----------------------------------------------------------------------------------------------------------------------


class Raise(AsyncFunction):
    def __init__(self, error: BaseException) -> None:
        self.error = error

    async def async_invoke(self, value: Any) -> list[Any]:
        raise self.error


@pytest.mark.parametrize("error", [ValueError("bad"), SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError("by itself")])
def test_whatever_a_call_raises_fails_the_job_with_class_and_record(error: BaseException) -> None:
    with (
        OneInputHarness(waiting(Raise(error))) as harness,
        pytest.raises(
            AsyncFunctionError, match=r"Error happens inside the class '.*Raise'>' during handling input '17'"
        ) as failed,
    ):
        harness.process_element(17)
    assert type(failed.value.__cause__) is type(error)


@pytest.mark.parametrize(("result", "text"), [(None, "cannot be none"), (5, "should be of list type")])
@pytest.mark.parametrize("by_timeout", [False, True])
def test_what_is_not_a_list_fails_the_job_with_the_text_of_flink(result: Any, text: str, by_timeout: bool) -> None:
    class Wrong(AsyncFunction):
        async def async_invoke(self, value: Any) -> Any:
            if by_timeout:
                await asyncio.Event().wait()
            return result

        def timeout(self, value: Any) -> Any:
            return result

    text = f"The result of AsyncFunction {text}, please check the methods 'async_invoke' and 'timeout' of class '.*Wrong'>'"
    with OneInputHarness(waiting(Wrong(), Time.milliseconds(20))) as harness, pytest.raises(AsyncFunctionError, match=text):
        harness.process_element(1)


def test_calls_that_run_when_the_job_fails_are_cancelled_before_the_function_is_closed(tmp_path: Path) -> None:
    class Log(AsyncFunction):
        async def async_invoke(self, value: int) -> list[Any]:
            if value:
                raise ValueError("bad")
            try:
                await asyncio.Event().wait()
            finally:
                (tmp_path / "cancelled").touch()
            return []

        def close(self) -> None:
            (tmp_path / "cancelled").rename(tmp_path / "closed")

    with OneInputHarness(waiting(Log(), Time.milliseconds(0))) as harness, pytest.raises(AsyncFunctionError, match="bad"):
        harness.process_elements([0, 1])
    assert (tmp_path / "closed").exists()


def test_no_thread_is_left_behind() -> None:
    with OneInputHarness(waiting(Echo()), parallelism=3) as harness:
        harness.process_elements(range(3))
        assert sum(thread.name.startswith("flinkish-async") for thread in threading.enumerate()) == 3
    assert not any(thread.name.startswith("flinkish-async") for thread in threading.enumerate())


# -- retries ---------------------------------------------------------------------------------------------------------------------


class Flaky(AsyncFunction):
    """The first `failures` tries for each record fail, or give nothing; gives the number of tries."""

    def __init__(self, failures: int, error: Exception | None) -> None:
        self.failures = failures
        self.error = error

    def open(self, runtime_context: RuntimeContext) -> None:
        self.tries: dict[Any, int] = {}

    async def async_invoke(self, value: Any) -> list[Any]:
        self.tries[value] = self.tries.get(value, 0) + 1
        if self.tries[value] <= self.failures:
            if self.error is not None:
                raise self.error
            return []
        return [(value, self.tries[value])]


def test_errors_are_tried_again_as_often_as_allowed() -> None:
    strategy = AsyncRetryStrategy.fixed_delay(2, 1, None, has_exception_predicate)
    with OneInputHarness(retrying(Flaky(2, OSError("down")), strategy)) as harness:
        harness.process_elements(["a", "b"])
        assert sorted(harness.take_values()) == [("a", 3), ("b", 3)]
    with (
        OneInputHarness(retrying(Flaky(3, OSError("down")), strategy)) as harness,
        pytest.raises(AsyncFunctionError, match="OSError: down"),
    ):
        harness.process_element("a")


def test_other_errors_are_not_tried_again() -> None:
    predicate = partial(exception_type_predicate, expected_error_type=ConnectionError)
    strategy = AsyncRetryStrategy.fixed_delay(5, 1, None, predicate)
    with (
        OneInputHarness(retrying(Flaky(1, ValueError("bad")), strategy)) as harness,
        pytest.raises(AsyncFunctionError, match="bad"),
    ):
        harness.process_element("a")


def test_the_timeout_is_for_all_tries_together() -> None:
    class GivesUp(Flaky):
        def timeout(self, value: Any) -> list[Any]:
            return [("timeout", self.tries[value])]

    strategy = AsyncRetryStrategy.fixed_delay(9, 60_000, None, has_exception_predicate)
    with OneInputHarness(retrying(GivesUp(9, OSError()), strategy, Time.milliseconds(20))) as harness:
        harness.process_element("a")
        assert harness.take_values() == [("timeout", 1)]


def test_an_error_of_a_predicate_fails_the_job() -> None:
    def broken(error: Exception) -> bool:
        raise ZeroDivisionError("broken predicate")

    strategy = AsyncRetryStrategy.fixed_delay(9, 1, None, broken)
    with (
        OneInputHarness(retrying(Flaky(1, OSError()), strategy)) as harness,
        pytest.raises(AsyncFunctionError, match="broken predicate"),
    ):
        harness.process_element("a")


def test_a_strategy_of_ones_own_is_used() -> None:
    class Once(AsyncRetryStrategy):
        def can_retry(self, current_attempts: int) -> bool:
            return current_attempts < 2

        def get_backoff_time_millis(self, current_attempts: int) -> int:
            return 0

        def get_retry_predicate(self) -> AsyncRetryPredicate:
            return Always()

    class Always(AsyncRetryPredicate):
        def result_predicate(self) -> Any:
            return lambda results: True

        def exception_predicate(self) -> None:
            return None

    def build(stream: DataStream) -> DataStream:
        return AsyncDataStream.ordered_wait_with_retry(stream, Flaky(0, None), LONG, Once())

    with OneInputHarness(build) as harness:
        harness.process_elements(["a", "b"])
        assert harness.take_values() == [("a", 2), ("b", 2)]


# -- checkpoints -----------------------------------------------------------------------------------------------------------------


def test_nothing_is_pending_at_a_checkpoint_and_nothing_is_called_again_after_it() -> None:
    with OneInputHarness(waiting(LastFirst(3)), parallelism=1) as harness:
        harness.process_elements(range(4))
        snapshot = harness.snapshot()
        assert sorted(harness.take_values()) == [0, 1, 2, 3]
        assert snapshot.entries() == ()
    with harness.restored(snapshot, parallelism=2) as restored:
        assert restored.take_values() == []
        restored.process_element(5)
        assert restored.take_values() == [5]


# -- building --------------------------------------------------------------------------------------------------------------------


class Blocking(AsyncFunction):
    def async_invoke(self, value: Any) -> list[Any]:  # type: ignore[override]
        return [value]


class Generating(AsyncFunction):
    async def async_invoke(self, value: Any) -> Any:
        yield value


class AsyncTimeout(Echo):
    async def timeout(self, value: Any) -> list[Any]:  # type: ignore[override]
        return [value]


class Locked(Echo):
    def __init__(self) -> None:
        self.lock = threading.Lock()


class Map(MapFunction):
    def map(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize(
    ("function", "error", "text"),
    [
        (Blocking(), InvalidArgumentError, "Method 'async_invoke' of class '.*Blocking'>' should be declared as 'async def'"),
        (Generating(), InvalidArgumentError, "should be declared as 'async def'"),
        (AsyncTimeout(), InvalidArgumentError, "Method 'timeout' of class '.*' must not be declared as 'async def'"),
        (Map(), InvalidArgumentError, "needs a AsyncFunction"),
        (lambda value: [value], InvalidArgumentError, "needs a AsyncFunction"),
        (Echo, InvalidArgumentError, "the class Echo itself"),
        (Locked(), NotSerializableError, "lock"),
    ],
)
def test_functions_that_are_not_asynchronous_are_refused(function: Any, error: type[Exception], text: str) -> None:
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    with pytest.raises(error, match=text):
        AsyncDataStream.unordered_wait(stream, function, LONG)


class NoPredicate(AsyncRetryStrategy):
    def can_retry(self, current_attempts: int) -> bool:
        return True

    def get_backoff_time_millis(self, current_attempts: int) -> int:
        return 1

    def get_retry_predicate(self) -> Any:
        return None


RETRY = AsyncRetryStrategy.fixed_delay(1, 1, None, None)


@pytest.mark.parametrize(
    ("timeout", "strategy", "capacity", "text"),
    [
        (LONG, None, 1, "Async retry strategy should not be None."),
        (LONG, "twice", 1, "must be an AsyncRetryStrategy"),
        (LONG, NoPredicate(), 1, "Retry predicate of the async retry strategy '.*NoPredicate'>' is None."),
        (Time.seconds(0), RETRY, 1, "Timeout should be configured when do async with retry."),
        (5, RETRY, 1, "a Time or a Duration"),
        (LONG, RETRY, 0, "capacity must be an int of at least 1"),
    ],
)
def test_wrong_arguments_are_refused(timeout: Any, strategy: Any, capacity: int, text: str) -> None:
    stream = StreamExecutionEnvironment.get_execution_environment().from_collection([1])
    with pytest.raises(InvalidArgumentError, match=text):
        AsyncDataStream.unordered_wait_with_retry(stream, Echo(), timeout, strategy, capacity)


@pytest.mark.parametrize("argument", ["max_attempts", "backoff_time_millis"])
def test_strategies_refuse_what_is_not_positive(argument: str) -> None:
    arguments: dict[str, Any] = {"max_attempts": 1, "backoff_time_millis": 1, argument: 0}
    with pytest.raises(InvalidArgumentError, match=f"{argument} must be a number greater than 0"):
        AsyncRetryStrategy.fixed_delay(**arguments, result_predicate=None, exception_predicate=None)

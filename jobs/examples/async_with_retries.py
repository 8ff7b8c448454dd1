"""Asynchronous calls: many are in progress at once, and failed calls are retried.

Run it with `python jobs/examples/async_with_retries.py [--output FOLDER] [-Dexecution.engine=local]`.
"""

from __future__ import annotations

import asyncio
import functools

from example_io import parse_arguments, print_or_write

from flinkish.common import Row, Time, Types
from flinkish.datastream import (
    AsyncDataStream,
    AsyncFunction,
    AsyncRetryStrategy,
    CheckpointingMode,
    DataStream,
    RuntimeContext,
    StreamExecutionEnvironment,
    async_retry_predicates,
)

COMMENT = Types.ROW_NAMED(["customer", "text"], [Types.INT(), Types.STRING()])
COMMENTS = [
    (1, "the tent kept us dry, thank you"),
    (2, "the stove broke on the first day"),
    (3, "arrived on Monday"),
    (4, "a good map but the wrong valley"),
    (5, "good rope, good price"),
    (6, "broke, twice"),
]


class Mood(AsyncFunction):
    """Asks a service, far away, how the writer of a comment feels. Every third customer's first call fails."""

    def open(self, runtime_context: RuntimeContext) -> None:
        # A real function would create its client here.
        self.calls: dict[int, int] = {}

    async def async_invoke(self, value: Row) -> list[str]:
        call = self.calls[value.customer] = self.calls.get(value.customer, 0) + 1
        await asyncio.sleep(0.01 * (value.customer % 3))
        if value.customer % 3 == 0 and call == 1:
            raise TimeoutError("the service did not answer")
        good, bad = value.text.count("good") + value.text.count("thank"), value.text.count("broke") + value.text.count("wrong")
        mood = "glad" if good > bad else "angry" if bad > good else "calm"
        # The result is always a list, even for one result.
        return [f"customer {value.customer} is {mood} (call {call})"]

    def timeout(self, value: Row) -> list[str]:
        # Without this a call that takes too long, with all its retries, would fail the job.
        return [f"customer {value.customer}: nobody knows"]


def moods(env: StreamExecutionEnvironment) -> DataStream:
    """Return the moods of customers in the order in which the calls end."""
    strategy = AsyncRetryStrategy.fixed_delay(
        max_attempts=3,
        backoff_time_millis=50,
        result_predicate=None,
        exception_predicate=functools.partial(async_retry_predicates.exception_type_predicate, expected_error_type=TimeoutError),
    )
    return AsyncDataStream.unordered_wait_with_retry(
        data_stream=env.from_collection(COMMENTS, COMMENT),
        async_function=Mood(),
        timeout=Time.seconds(10),
        async_retry_strategy=strategy,
        capacity=10,
        output_type=Types.STRING(),
    )


def main() -> None:
    arguments = parse_arguments(__doc__)
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    env.enable_checkpointing(30_000, CheckpointingMode.EXACTLY_ONCE)
    print_or_write(moods(env), arguments.output)
    env.execute("Asynchronous calls")


if __name__ == "__main__":
    main()

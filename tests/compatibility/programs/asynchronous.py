"""Asynchronous functions: order, results, timeouts, tries."""

import asyncio

from flinkish.common import Time, Types
from flinkish.datastream import AsyncDataStream, AsyncFunction, OutputTag
from flinkish.datastream.async_retry_predicates import empty_result_predicate, has_exception_predicate
from flinkish.datastream.functions import AsyncRetryStrategy
from tests.compatibility.kit import Stamp, case, timed

PATIENT, SHORT = Time.seconds(30), Time.milliseconds(200)


def numbers(env, count=2):
    return env.from_collection(list(range(1, count + 1)), Types.INT())


def unordered(env, function, timeout=PATIENT, output_type=None):
    return AsyncDataStream.unordered_wait(numbers(env), function, timeout, 4, output_type)


def retried(env, function, strategy, timeout=PATIENT):
    return AsyncDataStream.unordered_wait_with_retry(numbers(env), function, timeout, strategy, 4)


class Two(AsyncFunction):
    """Odd numbers take longer."""

    async def async_invoke(self, value):
        await asyncio.sleep(0.02 if value % 2 else 0.001)
        return [value, value * 10]


class Given(AsyncFunction):
    def __init__(self, results):
        self.results = results

    async def async_invoke(self, value):
        return self.results


class Endless(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(3600)


class EndlessWith(Endless):
    def __init__(self, results):
        self.results = results

    def timeout(self, value):
        return self.results


class Failing(AsyncFunction):
    """Fails, or gives nothing, so many times for each number."""

    def __init__(self, times, empty=False):
        self.times = times
        self.empty = empty

    def open(self, runtime_context):
        self.tries = {}

    async def async_invoke(self, value):
        tries = self.tries[value] = self.tries.get(value, 0) + 1
        if tries <= self.times:
            if self.empty:
                return []
            raise ValueError("not yet")
        return [(value, tries)]


@case()
def results_in_order(env):
    return AsyncDataStream.ordered_wait(numbers(env, 8), Two(), PATIENT, 4, Types.INT())


@case(ordered=False)
def results_as_they_come(env):
    return AsyncDataStream.unordered_wait(numbers(env, 8), Two(), PATIENT, 4, Types.INT())


@case()
def no_results(env):
    return unordered(env, Given([]))


@case()
def none(env):
    return unordered(env, Given(None))


@case()
def a_number(env):
    return unordered(env, Given(5))


@case(ordered=False)
def text(env):
    return unordered(env, Given("ab"))


@case(ordered=False)
def a_tuple(env):
    return unordered(env, Given((1, 2)))


@case()
def a_result_of_another_type(env):
    return unordered(env, Given(["a"]), output_type=Types.INT())


@case()
def a_call_that_takes_too_long(env):
    return unordered(env, Endless(), SHORT)


@case(ordered=False)
def a_call_that_takes_too_long_with_a_result(env):
    return unordered(env, EndlessWith(["late"]), SHORT)


@case()
def a_call_that_takes_too_long_with_none(env):
    return unordered(env, EndlessWith(None), SHORT)


@case()
def a_call_that_fails(env):
    return unordered(env, Failing(9))


@case(ordered=False)
def tries_after_a_pause(env):
    return retried(env, Failing(2), AsyncRetryStrategy.fixed_delay(2, 20, None, has_exception_predicate))


@case()
def too_few_tries(env):
    return retried(env, Failing(2), AsyncRetryStrategy.fixed_delay(1, 20, None, has_exception_predicate))


@case(ordered=False)
def tries_after_growing_pauses(env):
    return retried(env, Failing(3), AsyncRetryStrategy.exponential_backoff(5, 10, 100, 2.0, None, has_exception_predicate))


@case(ordered=False)
def tries_because_of_the_result(env):
    return retried(env, Failing(2, empty=True), AsyncRetryStrategy.fixed_delay(2, 20, empty_result_predicate, None))


@case(ordered=False)
def too_few_tries_because_of_the_result(env):
    return retried(env, Failing(2, empty=True), AsyncRetryStrategy.fixed_delay(1, 20, empty_result_predicate, None))


@case()
def an_error_that_is_no_reason_to_try_again(env):
    strategy = AsyncRetryStrategy.fixed_delay(3, 20, None, lambda error: isinstance(error, KeyError))
    return retried(env, Failing(2), strategy)


@case()
def the_timeout_is_for_all_tries(env):
    return retried(env, Failing(1000), AsyncRetryStrategy.fixed_delay(1000, 50, None, has_exception_predicate), SHORT)


@case()
def no_tries(env):
    return retried(env, Failing(2), AsyncRetryStrategy.no_restart())


class Synchronous(AsyncFunction):
    def async_invoke(self, value):
        return [value]


@case()
def a_function_that_is_not_asynchronous(env):
    return unordered(env, Synchronous())


@case(ordered=False)
def a_timeout_of_zero_is_none(env):
    return unordered(env, Given([1]), Time.seconds(0))


@case()
def records_of_a_keyed_stream(env):
    keyed = env.from_collection([("a", 1), ("b", 2)]).key_by(lambda pair: pair[0])
    return AsyncDataStream.ordered_wait(keyed, Given([5]), PATIENT, 4)


@case()
def results_carry_the_time_of_their_record(env):
    return AsyncDataStream.ordered_wait(timed(env, [("a", 3), ("b", 5)]), Given(["x"]), PATIENT, 4).process(Stamp())


class ToSide(AsyncFunction):
    async def async_invoke(self, value):
        return [(OutputTag("side", Types.INT()), value)]


@case(ordered=False)
def side_outputs(env):
    return unordered(env, ToSide()).get_side_output(OutputTag("side", Types.INT()))

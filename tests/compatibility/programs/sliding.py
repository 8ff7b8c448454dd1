"""Sliding windows fold their records in the order in which these came, also late ones."""

from flinkish.common import Time, Types
from flinkish.datastream import AggregateFunction, ProcessWindowFunction
from flinkish.datastream.window import SlidingEventTimeWindows
from tests.compatibility.kit import STEP, case, pairs, stepped, timed

RECORDS = [("a", time) for time in (1, 4, 2, 8, 3, 7, 12, 6, 5, 15, 9, 11, 21)]


class Collect(AggregateFunction):
    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        return [*accumulator, value[1]]

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class WithWindow(ProcessWindowFunction):
    def process(self, key, context, elements):
        for element in elements:
            yield str(context.window()), element


def windows(stream):
    assigner = SlidingEventTimeWindows.of(Time.milliseconds(6), Time.milliseconds(3))
    return stream.key_by(lambda record: record[0], Types.STRING()).window(assigner)


def late(env):
    return windows(stepped(env, RECORDS, pairs(), disorder=2)).allowed_lateness(4)


def last(a, b):
    return b


@case()
def the_last_record(env):
    return windows(timed(env, RECORDS, pairs())).reduce(last, WithWindow())


@case()
def all_records_as_they_came(env):
    return windows(timed(env, RECORDS, pairs())).aggregate(Collect(), WithWindow())


@case(STEP)
def the_last_record_with_lateness(env):
    return late(env).reduce(last, WithWindow())


@case(STEP)
def all_records_as_they_came_with_lateness(env):
    return late(env).aggregate(Collect(), WithWindow())

"""What the programs of this folder are made with. Nothing here but the imports would have to change for PyFlink.

A case is a function from an environment to the stream whose records count. `stepped` gives a watermark after each record: here
because an epoch is one record, in PyFlink, which emits watermarks by the clock, because there is a pause after each.
"""

from __future__ import annotations

import os
import time

from flinkish.common import Configuration, Duration, Types, WatermarkStrategy
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import AggregateFunction, MapFunction, ProcessFunction, StreamExecutionEnvironment
from flinkish.datastream.state import ValueStateDescriptor

#: Seconds after each record of `stepped`; for recording with PyFlink.
PAUSE = float(os.environ.get("COMPATIBILITY_PAUSE", "0"))

LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

#: For cases with `stepped`.
STEP = {
    "execution.epoch.max-records": "1",
    "pipeline.auto-watermark-interval": "1 ms",
    "python.fn-execution.bundle.size": "1",
    "python.fn-execution.bundle.time": "5",
}
BATCH = {"execution.runtime-mode": "BATCH", "execution.epoch.max-records": "3"}


def pairs():
    """Return the type (text, number): anew each time, as PyFlink cannot pickle a type that was used before."""
    return Types.TUPLE([Types.STRING(), Types.LONG()])


def case(settings=None, *, ordered=True):
    """Mark a function as a case; `ordered`: the order of its records counts."""

    def mark(function):
        function.settings = settings or {}
        function.ordered = ordered
        return function

    return mark


def cases_of(module):
    """Return the cases of a module by their names."""
    return {name: function for name, function in vars(module).items() if hasattr(function, "ordered")}


def run(function, engine="local"):
    """Run a case; return its records as text."""
    configuration = Configuration()
    for key, value in {"execution.engine": engine, **function.settings}.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(1)
    with function(env).execute_and_collect() as records:
        results = [repr(record) for record in records]
    return results if function.ordered else sorted(results)


class Extract(TimestampAssigner):
    def __init__(self, function):
        self.function = function

    def extract_timestamp(self, value, record_timestamp):
        return self.function(value)


def second(record):
    """Return the second field: the event time of most records here."""
    return record[1]


def timed(env, records, type_info=None, timestamp=second):
    """Return a stream with event times; its first watermark comes at its end."""
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Extract(timestamp))
    return env.from_collection(records, type_info).assign_timestamps_and_watermarks(strategy)


def stepped(env, records, type_info=None, timestamp=second, disorder=0):
    """Return a stream with event times and a watermark after each record, `disorder` milliseconds behind."""

    def wait(value):
        time.sleep(PAUSE)
        return value

    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(disorder))
    # A chain of its own: in PyFlink a source does not let periodic watermarks in.
    stream = env.from_collection(records, type_info).map(wait, type_info).start_new_chain()
    return stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(Extract(timestamp)))


def shown(time):
    """Return a time, the extremes by name."""
    return {LONG_MIN: "MIN", LONG_MAX: "MAX"}.get(time, time)


def with_side(main, tag):
    """Return the main output and a side output in one stream, marked."""
    return main.map(lambda value: ("main", value)).union(main.get_side_output(tag).map(lambda value: ("side", value)))


class Stamp(ProcessFunction):
    """Emits each record with its time."""

    def process_element(self, value, ctx):
        yield value, shown(ctx.timestamp())


class Sum(MapFunction):
    """Emits each key with the sum of its numbers so far."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def map(self, value):
        self.sum.update((self.sum.value() or 0) + value[1])
        return value[0], self.sum.value()


class Mean(AggregateFunction):
    """The mean of numbers, or of the second fields of pairs."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + (value[1] if isinstance(value, tuple) else value), accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]

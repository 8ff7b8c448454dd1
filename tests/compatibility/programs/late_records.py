"""Late records: lateness, side outputs, refiring, state of windows, times of results."""

from flinkish.common import Time, Types
from flinkish.datastream import AggregateFunction, OutputTag, ProcessWindowFunction
from flinkish.datastream.state import ValueStateDescriptor
from flinkish.datastream.window import EventTimeSessionWindows, SlidingEventTimeWindows, TumblingEventTimeWindows
from tests.compatibility.kit import STEP, Stamp, case, pairs, shown, stepped, with_side

RECORDS = [
    *[("a", 1), ("a", 9), ("a", 2), ("b", 12), ("a", 3), ("a", 13), ("a", 4), ("b", 14)],
    *[("a", 5), ("b", 15), ("a", 6), ("b", 16), ("a", 7), ("a", 25), ("b", 17), ("b", 8)],
]


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, sorted(number for _, number in elements), shown(context.current_watermark())


class Counting(ProcessWindowFunction):
    """How often the window has fired, how often those of the key have, and how many are gone."""

    def open(self, runtime_context):
        self.cleared = 0

    def process(self, key, context, elements):
        here = context.window_state().get_state(ValueStateDescriptor("here", Types.LONG()))
        everywhere = context.global_state().get_state(ValueStateDescriptor("everywhere", Types.LONG()))
        here.update((here.value() or 0) + 1)
        everywhere.update((everywhere.value() or 0) + 1)
        yield key, context.window().start, here.value(), everywhere.value(), self.cleared, len(list(elements))

    def clear(self, context):
        self.cleared += 1
        context.window_state().get_state(ValueStateDescriptor("here", Types.LONG())).clear()


class Sum(AggregateFunction):
    def create_accumulator(self):
        return [0, 0]

    def add(self, value, accumulator):
        accumulator[0] += value[1]
        accumulator[1] += 1
        return accumulator

    def get_result(self, accumulator):
        return tuple(accumulator)

    def merge(self, acc_a, acc_b):
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


class Around(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, context.window().start, context.window().end, list(elements)


def tumbling():
    return TumblingEventTimeWindows.of(Time.milliseconds(10))


def sliding(size=10, slide=4, offset=0):
    return SlidingEventTimeWindows.of(Time.milliseconds(size), Time.milliseconds(slide), Time.milliseconds(offset))


def sessions():
    return EventTimeSessionWindows.with_gap(Time.milliseconds(3))


def windows(env, assigner, lateness):
    stream = stepped(env, RECORDS, pairs()).key_by(lambda record: record[0], Types.STRING())
    return stream.window(assigner).allowed_lateness(lateness)


def split(env, assigner, lateness, finish):
    late = OutputTag("late", pairs())
    return with_side(finish(windows(env, assigner, lateness).side_output_late_data(late)), late)


def contents(windowed):
    return windowed.process(Contents())


def reduced(windowed):
    return windowed.reduce(lambda a, b: (a[0], a[1] + b[1]))


def aggregated(windowed):
    return windowed.aggregate(Sum(), Around())


@case(STEP, ordered=False)
def tumbling_contents(env):
    return split(env, tumbling(), 5, contents)


@case(STEP, ordered=False)
def tumbling_contents_without_lateness(env):
    return split(env, tumbling(), 0, contents)


@case(STEP, ordered=False)
def tumbling_reduced(env):
    return split(env, tumbling(), 5, reduced)


@case(STEP, ordered=False)
def tumbling_aggregated(env):
    return split(env, tumbling(), 4, aggregated)


@case(STEP, ordered=False)
def sliding_contents(env):
    return split(env, sliding(offset=1), 3, contents)


@case(STEP, ordered=False)
def sliding_reduced(env):
    return split(env, sliding(), 3, reduced)


@case(STEP, ordered=False)
def sliding_aggregated(env):
    return split(env, sliding(slide=5), 4, aggregated)


@case(STEP, ordered=False)
def sliding_with_gaps_between_the_windows(env):
    return split(env, sliding(3, 7), 3, contents)


@case(STEP, ordered=False)
def sessions_with_lateness(env):
    return split(env, sessions(), 4, contents)


@case(STEP, ordered=False)
def sessions_without_lateness(env):
    return split(env, sessions(), 0, contents)


@case(STEP, ordered=False)
def sessions_aggregated(env):
    return split(env, sessions(), 4, aggregated)


@case(STEP, ordered=False)
def state_of_windows(env):
    return windows(env, tumbling(), 5).process(Counting())


@case(STEP, ordered=False)
def state_of_windows_without_lateness(env):
    return windows(env, tumbling(), 0).process(Counting())


@case(STEP, ordered=False)
def results_carry_the_time_of_the_timer_or_of_the_late_record(env):
    late = OutputTag("late", pairs())
    results = windows(env, tumbling(), 5).side_output_late_data(late).process(Contents())
    return results.process(Stamp()).union(results.get_side_output(late).process(Stamp()))


@case(STEP, ordered=False)
def late_data_that_nobody_reads(env):
    return windows(env, tumbling(), 0).side_output_late_data(OutputTag("late", pairs())).process(Contents())


@case(STEP, ordered=False)
def results_are_windowed_again_by_their_times(env):
    records = [("a", time) for time in (1, 3, 8, 12, 14, 23, 31, 44)]
    keyed = stepped(env, records, pairs()).key_by(lambda record: record[0])
    inner = keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(5)))
    sums = inner.reduce(lambda a, b: (a[0], a[1] + b[1]), output_type=pairs())
    outer = sums.key_by(lambda record: record[0]).window(TumblingEventTimeWindows.of(Time.milliseconds(20)))
    return outer.reduce(lambda a, b: (a[0], a[1] * 1000 + b[1]))

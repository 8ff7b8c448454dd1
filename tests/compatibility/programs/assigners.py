"""Count windows, assigners of one's own, windows of a whole stream, and what functions may return."""

from flinkish.common import Time, Types
from flinkish.datastream import ProcessWindowFunction, WindowFunction
from flinkish.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from flinkish.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flinkish.datastream.window import (
    CountSlidingWindowAssigner,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeTrigger,
    MergingWindowAssigner,
    PurgingTrigger,
    TimeWindow,
    TimeWindowSerializer,
    TumblingEventTimeWindows,
    WindowAssigner,
)
from tests.compatibility.kit import STEP, Mean, Stamp, case, pairs, stepped, timed

NUMBERS = [("a", number) for number in range(1, 12)] + [("b", number) for number in range(1, 4)]
TIMED = [("a", 1), ("a", 3), ("a", 9), ("a", 5), ("b", 4), ("a", 7), ("a", 20)]


class Contents(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, str(window), [number for _, number in inputs])]


class Sorted(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, str(context.window()), sorted(number for _, number in elements)


class All(AllWindowFunction):
    def apply(self, window, inputs):
        yield str(window), sorted(inputs)


class AllWithState(ProcessAllWindowFunction):
    def process(self, context, elements):
        everywhere = context.global_state().get_state(ValueStateDescriptor("everywhere", Types.LONG()))
        everywhere.update((everywhere.value() or 0) + 1)
        here = context.window_state().get_list_state(ListStateDescriptor("here", Types.LONG()))
        here.add(1)
        yield str(context.window()), everywhere.value(), len(list(here.get())), sorted(elements)

    def clear(self, context):
        context.window_state().get_list_state(ListStateDescriptor("here", Types.LONG())).clear()


def ten():
    return TumblingEventTimeWindows.of(Time.milliseconds(10))


def counted(env):
    return env.from_collection(NUMBERS, pairs()).key_by(lambda record: record[0], Types.STRING())


def windows(env):
    return timed(env, TIMED, pairs()).key_by(lambda record: record[0]).window(ten())


def all_windows(env):
    return timed(env, TIMED, pairs()).window_all(ten())


def add(a, b):
    return a[0], a[1] + b[1]


# -- counts ----------------------------------------------------------------------------------------------------------------------


@case()
def count_windows(env):
    return counted(env).count_window(4).apply(Contents())


@case()
def sliding_count_windows(env):
    return counted(env).count_window(4, 2).apply(Contents())


@case()
def sliding_count_windows_of_an_odd_size(env):
    return counted(env).count_window(5, 2).apply(Contents())


@case()
def sliding_count_windows_with_gaps(env):
    return counted(env).count_window(2, 3).apply(Contents())


@case()
def sliding_count_windows_reduced(env):
    return counted(env).count_window(4, 2).reduce(add)


@case()
def count_windows_of_a_stream(env):
    return env.from_collection(NUMBERS, pairs()).window_all(CountTumblingWindowAssigner.of(5)).apply(All())


@case()
def sliding_count_windows_of_a_stream(env):
    return env.from_collection(NUMBERS, pairs()).window_all(CountSlidingWindowAssigner.of(5, 3)).process(AllWithState())


@case()
def count_windows_with_another_count(env):
    return counted(env).window(CountTumblingWindowAssigner.of(4)).trigger(CountTrigger.of(2)).apply(Contents())


@case()
def count_windows_with_another_count_that_purges(env):
    trigger = PurgingTrigger.of(CountTrigger.of(2))
    return counted(env).window(CountTumblingWindowAssigner.of(4)).trigger(trigger).apply(Contents())


@case(STEP)
def count_windows_fire_at_the_time_of_the_record(env):
    return stepped(env, NUMBERS, pairs()).key_by(lambda record: record[0]).count_window(3).apply(Contents()).process(Stamp())


# -- assigners of one's own ------------------------------------------------------------------------------------------------------


class Own(WindowAssigner):
    """Each record in two windows: of four records of the key, and of all."""

    def assign_windows(self, element, timestamp, context):
        seen = context.get_runtime_context().get_state(ValueStateDescriptor("seen", Types.LONG()))
        number = seen.value() or 0
        seen.update(number + 1)
        start = number // 4 * 100
        return [TimeWindow(start, start + 50), TimeWindow(0, 10**6)]

    def get_default_trigger(self, env):
        return CountTrigger.of(3)

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return False


class EventTimeAssigner(WindowAssigner):
    def __init__(self, assign):
        self.assign = assign

    def assign_windows(self, element, timestamp, context):
        return self.assign(element, timestamp)

    def get_default_trigger(self, env):
        return EventTimeTrigger.create()

    def get_window_serializer(self):
        return TimeWindowSerializer()

    def is_event_time(self):
        return True


class Merging(EventTimeAssigner, MergingWindowAssigner):
    def merge_windows(self, windows, callback):
        TimeWindow.merge_windows(windows, callback)


@case()
def an_assigner_with_state(env):
    return counted(env).window(Own()).apply(Contents())


@case(ordered=False)
def an_assigner_that_merges(env):
    assigner = Merging(lambda element, timestamp: [TimeWindow(timestamp, timestamp + 3)])
    return timed(env, TIMED, pairs()).key_by(lambda record: record[0]).window(assigner).process(Sorted())


@case(STEP, ordered=False)
def an_assigner_that_merges_with_disorder(env):
    assigner = Merging(lambda element, timestamp: [TimeWindow(timestamp, timestamp + 3)])
    return stepped(env, TIMED, pairs(), disorder=6).key_by(lambda record: record[0]).window(assigner).process(Sorted())


@case(ordered=False)
def an_assigner_of_one_endless_window(env):
    assigner = EventTimeAssigner(lambda element, timestamp: [TimeWindow(0, 2**63 - 1)])
    return timed(env, TIMED, pairs()).key_by(lambda record: record[0]).window(assigner).process(Sorted())


@case(ordered=False)
def an_assigner_of_no_windows(env):
    assigner = EventTimeAssigner(lambda element, timestamp: [] if element[1] % 2 else [TimeWindow(0, 100)])
    return timed(env, TIMED, pairs()).key_by(lambda record: record[0]).window(assigner).process(Sorted())


# -- functions -------------------------------------------------------------------------------------------------------------------


class Given(WindowFunction):
    """Returns what it is made with."""

    def __init__(self, results):
        self.results = results

    def apply(self, key, window, inputs):
        return self.results


class Around(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, str(window), list(inputs))]


class NoResult(Mean):
    def get_result(self, accumulator):
        return None


@case(ordered=False)
def aggregate_with_a_window_function(env):
    return windows(env).aggregate(Mean(), Around())


@case(ordered=False)
def reduce_with_a_window_function(env):
    return windows(env).reduce(add, Around())


@case(ordered=False)
def an_aggregate_without_result_does_not_fire(env):
    return windows(env).aggregate(NoResult(), Around())


@case()
def a_window_function_that_returns_none(env):
    return windows(env).apply(Given(None))


@case(ordered=False)
def a_window_function_that_returns_text(env):
    return windows(env).apply(Given("xyz"))


@case(ordered=False)
def a_window_function_that_returns_nothing(env):
    return windows(env).apply(Given([]))


def append(a, b):
    a[1].extend(b[1])
    return a


@case(ordered=False)
def reduce_in_place(env):
    records = [("a", [1]), ("a", [2]), ("a", [3]), ("b", [9])]
    return timed(env, records, None, lambda record: record[1][0]).key_by(lambda record: record[0]).window(ten()).reduce(append)


@case()
def windows_of_a_stream(env):
    return all_windows(env).apply(All())


@case()
def windows_of_a_stream_with_state(env):
    return all_windows(env).process(AllWithState())


@case(STEP)
def windows_of_a_stream_with_lateness(env):
    stream = stepped(env, [*TIMED, ("b", 2), ("c", 8)], pairs())
    return stream.window_all(ten()).allowed_lateness(100).process(AllWithState())


@case()
def windows_of_a_stream_reduced(env):
    return all_windows(env).reduce(lambda a, b: (max(a[0], b[0]), a[1] + b[1]), All())


@case()
def windows_of_a_stream_aggregated(env):
    accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
    return all_windows(env).aggregate(Mean(), accumulator_type=accumulator, output_type=Types.DOUBLE())

"""Sessions: what is merged, with gaps of one length and of the record's, in event time; and offsets and negative times."""

from flinkish.common import Time, Types
from flinkish.datastream import AggregateFunction, OutputTag, ProcessWindowFunction
from flinkish.datastream.functions import ProcessAllWindowFunction
from flinkish.datastream.state import ValueStateDescriptor
from flinkish.datastream.window import (
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    TumblingEventTimeWindows,
)
from tests.compatibility.kit import STEP, case, pairs, shown, stepped, timed, with_side

#: 7 joins what was apart.
BRIDGE = [("a", 1), ("a", 12), ("a", 7), ("b", 3), ("a", 17), ("a", 18), ("b", 40), ("a", 23)]
#: With lateness, sessions that have fired grow on.
FIRED = [("a", 1), ("a", 3), ("b", 9), ("a", 7), ("b", 16), ("a", 11), ("a", 2), ("b", 60), ("a", 13)]
#: The third field is the gap.
DYNAMIC = [("a", 1, 10), ("a", 2, 3), ("a", 12, 1), ("a", 20, 5), ("a", 14, 20), ("b", 5, 100), ("b", 50, 1), ("a", 90, 1)]
NEGATIVE = [("a", time) for time in (-13, -7, -1, 0, 4)]


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        window = context.window()
        yield key, window.start, window.end, sorted(element[1] for element in elements), shown(context.current_watermark())


class Numbers(AggregateFunction):
    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        return [*accumulator, value[1]]

    def get_result(self, accumulator):
        return sorted(accumulator)

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class GapOfRecord(SessionWindowTimeGapExtractor):
    def extract(self, element):
        return element[2]


def triples():
    return Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])


def gap():
    return EventTimeSessionWindows.with_gap(Time.milliseconds(5))


def keyed(env, records, type_info):
    return stepped(env, records, type_info).key_by(lambda record: record[0], Types.STRING())


def late_too(env, records, lateness, finish, assigner=None, type_of_records=pairs):
    late = OutputTag("late", type_of_records())
    windows = keyed(env, records, type_of_records()).window(assigner or gap()).allowed_lateness(lateness)
    return with_side(finish(windows.side_output_late_data(late)), late)


def contents(windows):
    return windows.process(Contents())


def at_the_end(env, records, assigner, type_of_records=pairs):
    return timed(env, records, type_of_records()).key_by(lambda record: record[0]).window(assigner).process(Contents())


@case(ordered=False)
def a_record_joins_two_sessions(env):
    return at_the_end(env, BRIDGE, gap())


@case(STEP, ordered=False)
def a_record_joins_two_sessions_or_is_late(env):
    return late_too(env, BRIDGE, 0, contents)


@case(STEP, ordered=False)
def a_record_joins_two_sessions_within_the_lateness(env):
    return late_too(env, BRIDGE, 10, contents)


@case(STEP, ordered=False)
def sessions_that_have_fired_grow(env):
    return late_too(env, FIRED, 8, contents)


@case(STEP, ordered=False)
def sessions_that_have_fired_grow_reduced(env):
    return late_too(env, FIRED, 8, lambda windows: windows.reduce(lambda a, b: (a[0], a[1] + b[1])))


@case(STEP, ordered=False)
def sessions_that_have_fired_grow_aggregated(env):
    return late_too(env, FIRED, 8, lambda windows: windows.aggregate(Numbers()))


@case(STEP, ordered=False)
def accumulators_with_a_type(env):
    def finish(windows):
        numbers = Types.LIST(Types.LONG())
        return windows.aggregate(Numbers(), accumulator_type=numbers, output_type=Types.LIST(Types.LONG()))

    return late_too(env, FIRED, 8, finish)


@case(ordered=False)
def gaps_of_the_record(env):
    return at_the_end(env, DYNAMIC, EventTimeSessionWindows.with_dynamic_gap(GapOfRecord()), triples)


@case(STEP, ordered=False)
def gaps_of_the_record_and_late_ones(env):
    return late_too(env, DYNAMIC, 0, contents, EventTimeSessionWindows.with_dynamic_gap(GapOfRecord()), triples)


@case()
def a_gap_of_zero(env):
    return at_the_end(env, [("a", 1, 0)], EventTimeSessionWindows.with_dynamic_gap(GapOfRecord()), triples)


class WindowState(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield context.window_state().get_state(ValueStateDescriptor("here", Types.LONG())).value()


@case()
def there_is_no_state_of_a_session(env):
    return timed(env, BRIDGE, pairs()).key_by(lambda record: record[0]).window(gap()).process(WindowState())


class GlobalState(ProcessWindowFunction):
    def process(self, key, context, elements):
        count = context.global_state().get_state(ValueStateDescriptor("everywhere", Types.LONG()))
        count.update((count.value() or 0) + 1)
        yield key, count.value(), context.window().start


@case(STEP, ordered=False)
def but_state_of_the_key(env):
    return keyed(env, BRIDGE, pairs()).window(gap()).process(GlobalState())


class AllContents(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield context.window().start, context.window().end, sorted(elements)


@case(STEP, ordered=False)
def sessions_of_a_stream(env):
    return stepped(env, BRIDGE, pairs()).window_all(gap()).process(AllContents())


@case()
def records_without_time(env):
    return env.from_collection([("a", 1)], pairs()).key_by(lambda record: record[0]).window(gap()).process(Contents())


@case()
def sessions_in_processing_time_that_are_open_at_the_end(env):
    assigner = ProcessingTimeSessionWindows.with_gap(Time.days(1))
    return env.from_collection([("a", 1)], pairs()).key_by(lambda record: record[0]).window(assigner).process(Contents())


@case(ordered=False)
def times_before_the_epoch(env):
    return at_the_end(env, NEGATIVE, TumblingEventTimeWindows.of(Time.milliseconds(5)))


@case(ordered=False)
def sliding_windows_with_a_negative_offset(env):
    size, slide, offset = (Time.milliseconds(number) for number in (6, 4, -1))
    return at_the_end(env, NEGATIVE, SlidingEventTimeWindows.of(size, slide, offset))


@case(ordered=False)
def tumbling_windows_with_an_offset(env):
    assigner = TumblingEventTimeWindows.of(Time.milliseconds(5), Time.milliseconds(3))
    return at_the_end(env, [("a", 1), ("a", 2), ("a", 7), ("a", 8)], assigner)


class Shrinking(EventTimeSessionWindows):
    """Merges all windows into a short one."""

    def merge_windows(self, windows, callback):
        ordered = sorted(windows, key=lambda window: window.start)
        if len(ordered) > 1:
            callback.merge(ordered, TimeWindow(ordered[0].start, ordered[0].start + 5))


@case(STEP)
def a_merge_that_makes_a_window_late(env):
    return keyed(env, [("a", 1), ("b", 20), ("a", 30)], pairs()).window(Shrinking(50)).process(Contents())

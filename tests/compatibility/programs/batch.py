"""BATCH mode: key by key, by time, timers at the end of each key, one result of reduce."""

from flinkish.common import Time, Types
from flinkish.datastream import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    RuntimeExecutionMode,
    WindowFunction,
)
from flinkish.datastream.functions import ProcessAllWindowFunction
from flinkish.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkish.datastream.window import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from tests.compatibility.kit import BATCH, Sum, case, pairs, shown, timed

RECORDS = [("b", 5), ("a", 3), ("c", 1), ("a", 1), ("b", 2), ("a", 12), ("c", 8), ("b", 15), ("a", 3)]


def first(record):
    return record[0]


def keyed(env, records=RECORDS):
    return timed(env, records, pairs()).key_by(first, Types.STRING())


def add(a, b):
    return a[0], a[1] * 100 + b[1]


class Trace(KeyedProcessFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[1] + 5)
        yield "record", value, shown(ctx.timestamp()), shown(ctx.timer_service().current_watermark()), self.count.value()

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key(), timestamp, shown(ctx.timer_service().current_watermark()), self.count.value()


@case(BATCH)
def records_and_timers_key_by_key(env):
    return keyed(env).process(Trace())


@case(BATCH)
def sums(env):
    return keyed(env).sum(1)


@case(BATCH)
def greatest_records(env):
    return keyed(env).max_by(1)


@case(BATCH)
def reduce_goes_by_time(env):
    return keyed(env).reduce(add)


@case(BATCH)
def reduce_of_one_record(env):
    return keyed(env, [("x", 1)]).reduce(add)


@case(BATCH)
def reduce_without_times(env):
    return env.from_collection(RECORDS, pairs()).key_by(first, Types.STRING()).reduce(add)


@case(BATCH, ordered=False)
def reduce_of_untyped_records(env):
    return env.from_collection(RECORDS).key_by(first).reduce(add)


@case(BATCH, ordered=False)
def reduce_behind_reduce(env):
    numbers = keyed(env).reduce(lambda a, b: (a[0], a[1] + b[1])).map(lambda pair: pair[1])
    return numbers.key_by(lambda number: number % 2).reduce(lambda a, b: a + b)


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, str(context.window()), [number for _, number in elements], shown(context.current_watermark())


class Numbers(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, [number for _, number in inputs])]


class All(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield str(context.window()), sorted(elements)


@case(BATCH)
def tumbling_windows(env):
    return keyed(env).window(TumblingEventTimeWindows.of(Time.milliseconds(5))).process(Contents())


def sliding():
    return SlidingEventTimeWindows.of(Time.milliseconds(10), Time.milliseconds(5))


@case(BATCH)
def sliding_windows(env):
    return keyed(env).window(sliding()).process(Contents())


@case(BATCH)
def sliding_windows_reduced(env):
    return keyed(env).window(sliding()).reduce(lambda a, b: (a[0], a[1] + b[1]))


@case(BATCH)
def sessions(env):
    return keyed(env).window(EventTimeSessionWindows.with_gap(Time.milliseconds(4))).process(Contents())


@case(BATCH)
def count_windows(env):
    return keyed(env).count_window(2).apply(Numbers())


@case(BATCH)
def windows_of_a_stream(env):
    return timed(env, RECORDS, pairs()).window_all(TumblingEventTimeWindows.of(Time.milliseconds(5))).process(All())


@case(BATCH)
def windows_in_processing_time(env):
    return keyed(env).window(TumblingProcessingTimeWindows.of(Time.days(10_000))).apply(Numbers())


@case(BATCH)
def global_windows(env):
    return keyed(env).window(GlobalWindows.create()).trigger(CountTrigger.of(2)).apply(Numbers())


@case(BATCH)
def nothing_is_late(env):
    records = [("a", 50), ("a", 1), ("b", 3), ("a", 2)]
    return keyed(env, records).window(TumblingEventTimeWindows.of(Time.milliseconds(5))).process(Contents())


class Both(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def process_element1(self, value, ctx):
        self.seen.add(value[1])
        yield 1, value, shown(ctx.timer_service().current_watermark())

    def process_element2(self, value, ctx):
        self.seen.add(-value[1])
        ctx.timer_service().register_event_time_timer(value[1])
        yield 2, value

    def on_timer(self, timestamp, ctx):
        yield "timer", ctx.get_current_key(), timestamp, list(self.seen.get())


@case(BATCH)
def two_inputs_are_merged_by_key_and_time(env):
    one = timed(env, [("b", 4), ("a", 5), ("a", 1)], pairs())
    other = timed(env, [("a", 3), ("b", 9), ("b", 1), ("c", 7)], pairs())
    return one.connect(other).key_by(first, first, Types.STRING()).process(Both())


def rules():
    return MapStateDescriptor("rules", Types.LONG(), Types.LONG())


class Rules(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value, sorted(ctx.get_broadcast_state(rules()).keys())

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(rules()).put(value, value)


class KeyedRules(KeyedBroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value, sorted(ctx.get_broadcast_state(rules()).keys())

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(rules()).put(value, value)


def numbers(env, *values):
    return env.from_collection(list(values), Types.LONG())


@case(BATCH, ordered=False)
def broadcast_comes_first(env):
    return numbers(env, 1, 2).connect(numbers(env, 7, 8, 9).broadcast(rules())).process(Rules())


@case(BATCH, ordered=False)
def broadcast_comes_first_beside_keys(env):
    keys = numbers(env, 2, 1, 2).key_by(lambda number: number)
    return keys.connect(numbers(env, 7, 8, 9).broadcast(rules())).process(KeyedRules())


class Seen(KeyedProcessFunction):
    def __init__(self):
        self.seen = []

    def process_element(self, value, ctx):
        self.seen.append(value[1])
        yield value[0], list(self.seen)


@case(BATCH)
def attributes_go_on_from_key_to_key(env):
    return keyed(env).process(Seen())


@case(BATCH)
def state_of_a_map(env):
    return keyed(env).map(Sum())


class InHours(KeyedProcessFunction):
    def process_element(self, value, ctx):
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + 3_600_000)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), str(ctx.time_domain())


@case(BATCH)
def timers_in_processing_time_fire_at_the_end_of_their_key(env):
    return keyed(env, [("b", 1), ("a", 2)]).process(InHours())


class Chain(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp
        ctx.timer_service().register_event_time_timer(timestamp + 20)


@case(BATCH)
def timers_that_timers_set_are_ignored(env):
    return keyed(env).process(Chain())


class ToSide(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield OutputTag("side", Types.LONG()), value[1]


@case(BATCH)
def side_outputs(env):
    return keyed(env).process(ToSide()).get_side_output(OutputTag("side", Types.LONG()))


class Watermark(ProcessFunction):
    def process_element(self, value, ctx):
        yield value, shown(ctx.timer_service().current_watermark()), shown(ctx.timestamp())


@case(BATCH, ordered=False)
def without_keys_there_is_no_watermark_before_the_end(env):
    return timed(env, RECORDS[:3], pairs()).process(Watermark())


@case({"execution.runtime-mode": "AUTOMATIC"})
def automatic(env):
    return keyed(env).sum(1)


@case()
def by_the_setter(env):
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    return keyed(env).sum(1)

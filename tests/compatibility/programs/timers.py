"""Timers in event time, the times of results, watermarks of several inputs, and timestamp assigners."""

from flinkish.common import Types, WatermarkStrategy
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import CoProcessFunction, KeyedCoProcessFunction, KeyedProcessFunction, ProcessFunction
from flinkish.datastream.state import ListStateDescriptor, ValueStateDescriptor
from tests.compatibility.kit import STEP, Extract, Stamp, case, second, shown, stepped, timed

#: Key, time, timers to be set, timers to be deleted.
RECORDS = [
    *[("a", 1, [5, 3, 3]), ("b", 2, [5, 1]), ("a", 6, [4, 10], [5])],
    *[("b", 8, [8, 9]), ("a", 9, [30, 20], [10]), ("c", 20, [12, 11, 13]), ("c", 15, [])],
]


def key(record):
    return record[0]


class Alarm(KeyedProcessFunction):
    def process_element(self, value, ctx):
        service = ctx.timer_service()
        for timer in value[2]:
            service.register_event_time_timer(timer)
        for timer in value[3] if len(value) > 3 else []:
            service.delete_event_time_timer(timer)
        yield "record", value[0], value[1], shown(ctx.timestamp()), shown(service.current_watermark())

    def on_timer(self, timestamp, ctx):
        now = ctx.timer_service().current_watermark()
        yield "timer", ctx.get_current_key(), timestamp, ctx.timestamp(), shown(now), str(ctx.time_domain())


@case(STEP)
def timers_and_watermarks(env):
    return stepped(env, RECORDS).key_by(key, Types.STRING()).process(Alarm())


@case()
def timers_at_the_end(env):
    return timed(env, RECORDS).key_by(key, Types.STRING()).process(Alarm())


@case()
def records_without_time(env):
    return env.from_collection(RECORDS).key_by(key).process(Alarm())


class Chain(KeyedProcessFunction):
    """Each timer sets the next one."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] + 10)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp
        if timestamp < 60:
            ctx.timer_service().register_event_time_timer(timestamp + 10)


@case(ordered=False)
def timers_that_are_set_by_timers_at_the_end(env):
    return timed(env, [("a", 1), ("b", 15)]).key_by(key).process(Chain())


class Again(KeyedProcessFunction):
    """Sets a timer for its own time, twice."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(10)

    def on_timer(self, timestamp, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield timestamp, self.count.value()
        if self.count.value() < 3:
            ctx.timer_service().register_event_time_timer(10)


@case()
def a_timer_that_is_set_again_for_its_own_time(env):
    return timed(env, [("a", 1)]).key_by(key).process(Again())


class Silent(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(10)
        yield value


@case()
def the_default_on_timer(env):
    return timed(env, [("a", 1)]).key_by(key).process(Silent())


class InHours(KeyedProcessFunction):
    def process_element(self, value, ctx):
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + 3_600_000)
        yield "record"

    def on_timer(self, timestamp, ctx):
        yield "timer"


@case()
def timers_in_processing_time_that_are_pending_at_the_end(env):
    return env.from_collection([1]).key_by(lambda value: value).process(InHours())


class WithoutKey(ProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(1)
        yield value


@case()
def timers_without_a_key(env):
    return env.from_collection([1]).process(WithoutKey())


class Both(KeyedCoProcessFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.STRING()))

    def process_element1(self, value, ctx):
        self.seen.add(f"1:{value[1]}")
        ctx.timer_service().register_event_time_timer(value[1] + 5)
        yield "first", ctx.get_current_key(), shown(ctx.timestamp())

    def process_element2(self, value, ctx):
        self.seen.add(f"2:{value[1]}")
        ctx.timer_service().register_event_time_timer(value[1] + 5)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, sorted(self.seen.get()), str(ctx.time_domain())


@case(ordered=False)
def two_inputs(env):
    connected = timed(env, [("a", 1), ("b", 3), ("a", 4)]).connect(timed(env, [("b", 3), ("a", 9)]))
    return connected.key_by(key, key).process(Both())


@case(ordered=False)
def two_inputs_one_of_them_without_times(env):
    connected = timed(env, [("a", 1), ("b", 3), ("a", 4)]).connect(env.from_collection([("b", 3), ("a", 9)]))
    return connected.key_by(key, key).process(Both())


class Plain(CoProcessFunction):
    def process_element1(self, value, ctx):
        return [("first", value, shown(ctx.timestamp()))]

    def process_element2(self, value, ctx):
        yield "second", value, shown(ctx.timestamp())


@case(ordered=False)
def two_inputs_without_keys(env):
    return timed(env, [("a", 1)]).connect(timed(env, [("b", 3)])).process(Plain())


@case(ordered=False)
def two_keyed_inputs_of_a_function_that_uses_no_key(env):
    return timed(env, [("a", 1)]).key_by(key).connect(timed(env, [("b", 3)]).key_by(key)).process(Plain())


@case(ordered=False)
def results_carry_the_time_of_their_record_or_timer(env):
    return timed(env, RECORDS).key_by(key, Types.STRING()).process(Alarm()).process(Stamp())


@case()
def times_go_through_simple_operators(env):
    stream = timed(env, [("a", 4)]).flat_map(lambda record: [record, record]).filter(lambda record: True)
    return stream.map(lambda record: record[0]).process(Stamp())


@case()
def times_go_through_reduce(env):
    return timed(env, [("a", 4), ("a", 9)]).key_by(key).reduce(lambda a, b: b).process(Stamp())


@case(ordered=False)
def times_go_through_union(env):
    return timed(env, [("a", 4)]).union(timed(env, [("a", 9)])).process(Stamp())


@case()
def timestamps_that_are_no_whole_numbers(env):
    return timed(env, [("a", 4)], None, lambda record: 4.7).process(Stamp())


@case()
def timestamps_that_are_text(env):
    return timed(env, [("a", 4)], None, lambda record: "4").process(Stamp())


class Later(TimestampAssigner):
    def extract_timestamp(self, value, record_timestamp):
        return record_timestamp + 100


@case()
def a_second_assigner_gets_what_the_first_one_gave(env):
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Later())
    return timed(env, [("a", 4)]).assign_timestamps_and_watermarks(strategy).process(Stamp())


@case()
def without_watermarks_the_end_fires_timers(env):
    strategy = WatermarkStrategy.no_watermarks().with_timestamp_assigner(Extract(second))
    return env.from_collection([("a", 4, [9])]).assign_timestamps_and_watermarks(strategy).key_by(key).process(Alarm())

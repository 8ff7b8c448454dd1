"""Side outputs of all functions that have them, and broadcast state."""

from flinkish.common import Row, Time, Types
from flinkish.datastream import (
    BroadcastProcessFunction,
    CoProcessFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
)
from flinkish.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkish.datastream.window import TumblingEventTimeWindows
from tests.compatibility.kit import case, shown, timed, with_side

#: Tags are matched by their ids, so a function may make its own.
SIDE = "side"


def side():
    return OutputTag(SIDE, Types.LONG())


def numbers(env, *values):
    return env.from_collection(list(values), Types.LONG())


class Giving(ProcessFunction):
    """Emits what a function makes of each record and the tag."""

    def __init__(self, give):
        self.give = give

    def process_element(self, value, ctx):
        return self.give(value, side())


def given(env, give, output_type=None):
    return with_side(numbers(env, 1, 2).process(Giving(give), output_type), side())


@case(ordered=False)
def main_and_side(env):
    return given(env, lambda value, tag: [value, (tag, value * 10)], Types.LONG())


@case(ordered=False)
def tuples_without_a_tag_are_records(env):
    return given(env, lambda value, tag: [("side", value), (tag, value), ("x", tag is None)])


@case()
def a_value_of_another_type(env):
    return given(env, lambda value, tag: [(tag, "text")], Types.LONG())


@case(ordered=False)
def a_side_output_read_twice(env):
    main = numbers(env, 1, 2).process(Giving(lambda value, tag: [(tag, value)]), Types.LONG())
    return main.get_side_output(side()).union(main.get_side_output(side()))


@case(ordered=False)
def the_side_output_of_a_side_output(env):
    main = numbers(env, 1, 2, 3, 4).process(Giving(lambda value, tag: [(tag, value) if value % 2 else value]), Types.LONG())
    return with_side(main.get_side_output(side()).process(Giving(lambda value, tag: [(tag, -value), value])), side())


@case()
def a_tag_with_a_list_of_types(env):
    class Rows(ProcessFunction):
        def process_element(self, value, ctx):
            yield OutputTag("rows", [Types.LONG(), Types.STRING()]), Row(value, str(value))

    return numbers(env, 1).process(Rows(), Types.LONG()).get_side_output(OutputTag("rows", [Types.LONG(), Types.STRING()]))


class OfTimers(KeyedProcessFunction):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(5)
        yield side(), value

    def on_timer(self, timestamp, ctx):
        yield side(), timestamp
        yield "timer"


@case(ordered=False)
def the_side_output_of_timers(env):
    stream = timed(env, [1, 2], Types.LONG(), lambda value: value)
    return with_side(stream.key_by(lambda value: value % 2).process(OfTimers()), side())


class OfTwo(CoProcessFunction):
    def process_element1(self, value, ctx):
        return [(side(), value), value]

    def process_element2(self, value, ctx):
        return [(side(), -value)]


@case(ordered=False)
def the_side_output_of_two_inputs(env):
    return with_side(numbers(env, 1, 2).connect(numbers(env, 7)).process(OfTwo()), side())


class OfWindows(ProcessWindowFunction):
    def process(self, key, context, elements):
        for element in elements:
            yield side(), element
        yield key


@case(ordered=False)
def the_side_output_of_windows(env):
    stream = timed(env, [1, 2, 11], Types.LONG(), lambda value: value).key_by(lambda value: value % 2)
    return with_side(stream.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).process(OfWindows()), side())


# -- broadcast -------------------------------------------------------------------------------------------------------------------


def rules():
    return MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Waiting(BroadcastProcessFunction):
    """Records wait until the limit is there."""

    def open(self, runtime_context):
        self.waiting = []

    def process_element(self, value, ctx):
        state = ctx.get_broadcast_state(rules())
        if "limit" in state:
            yield value, value > state.get("limit")
        else:
            self.waiting.append(value)

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(rules()).put(*value)
        if value[0] == "limit":
            for waited in self.waiting:
                yield waited, waited > value[1]
            self.waiting = []


@case(ordered=False)
def records_that_wait_for_a_rule(env):
    broadcast = env.from_collection([("other", 1), ("limit", 4)]).broadcast(rules())
    return numbers(env, 1, 5, 9).connect(broadcast).process(Waiting())


class Times(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield "record", value, ctx.timestamp(), shown(ctx.current_watermark())

    def process_broadcast_element(self, value, ctx):
        yield "broadcast", value, ctx.timestamp(), shown(ctx.current_watermark())


@case(ordered=False)
def times_of_both_sides(env):
    return timed(env, [("a", 3)]).connect(timed(env, [("x", 1)]).broadcast(rules())).process(Times())


class Maps(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        pass

    def process_broadcast_element(self, value, ctx):
        first = ctx.get_broadcast_state(rules())
        second = ctx.get_broadcast_state(MapStateDescriptor("more", Types.LONG(), Types.LONG()))
        first.put(*value)
        second.put(value[1], value[1])
        second[5] = 6
        if value[1] == 7:
            second.remove(1)
            del second[2]
        entries = sorted(first.items()), sorted(second.items()), sorted(second.keys()), sorted(second.values())
        yield entries, second.get(5), 5 in second, second.contains(1), second.get(77), second.is_empty()


@case()
def two_broadcast_states(env):
    more = MapStateDescriptor("more", Types.LONG(), Types.LONG())
    return numbers(env, 1).connect(env.from_collection([("x", 1), ("y", 2), ("x", 7)]).broadcast(rules(), more)).process(Maps())


class Unknown(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.get_broadcast_state(MapStateDescriptor("unknown", Types.LONG(), Types.LONG())).get(1)

    def process_broadcast_element(self, value, ctx):
        pass


@case()
def a_state_that_was_not_broadcast(env):
    return numbers(env, 1).connect(env.from_collection([("x", 1)]).broadcast(rules())).process(Unknown())


class Keyed(KeyedBroadcastProcessFunction):
    def open(self, runtime_context):
        self.sum = runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG()))

    def process_element(self, value, ctx):
        self.sum.update((self.sum.value() or 0) + value[1])
        ctx.timer_service().register_event_time_timer(100)
        yield "record", ctx.get_current_key(), ctx.timestamp()

    def process_broadcast_element(self, value, ctx):
        ctx.get_broadcast_state(rules()).put(*value)
        return []

    def on_timer(self, timestamp, ctx):
        entries = sorted(ctx.get_broadcast_state(rules()).items())
        yield ctx.get_current_key(), timestamp, self.sum.value(), entries, str(ctx.time_domain()), ctx.timestamp()


@case(ordered=False)
def keys_and_timers_beside_broadcast_state(env):
    keyed = timed(env, [("a", 3), ("b", 4), ("a", 5)]).key_by(lambda record: record[0])
    return keyed.connect(timed(env, [("x", 1), ("y", 2)]).broadcast(rules())).process(Keyed())


@case()
def a_function_of_the_wrong_kind(env):
    broadcast = env.from_collection([("x", 1)]).broadcast(rules())
    return numbers(env, 1).key_by(lambda value: value).connect(broadcast).process(Waiting())


class Sides(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield side(), value

    def process_broadcast_element(self, value, ctx):
        yield side(), -value[1]


@case(ordered=False)
def side_outputs_beside_broadcast_state(env):
    return with_side(numbers(env, 1, 2).connect(env.from_collection([("x", 1)]).broadcast(rules())).process(Sides()), side())

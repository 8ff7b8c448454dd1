"""The words of generated programs. Only the imports would have to change for PyFlink.

What a function does is said by its arguments or by the records, so that the text of a program says all there is to know.
"""

from __future__ import annotations

import datetime
from decimal import Decimal

from flinkish.common import Row, Time, Types
from flinkish.datastream import (
    AggregateFunction,
    BroadcastProcessFunction,
    CoFlatMapFunction,
    CoMapFunction,
    CoProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ProcessWindowFunction,
    WindowFunction,
)
from flinkish.datastream.functions import AllWindowFunction, ProcessAllWindowFunction
from flinkish.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkish.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    PurgingTrigger,
    SessionWindowTimeGapExtractor,
    SlidingEventTimeWindows,
    TimeWindow,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)
from tests.compatibility.kit import pairs, shown, stepped, timed, with_side

#: For texts of programs: they hold no other names.
WORDS = (
    datetime,
    Decimal,
    Row,
    Types,
    CountTrigger,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    PurgingTrigger,
    timed,
    stepped,
)
nan, inf = float("nan"), float("inf")


def ms(number):
    return Time.milliseconds(number)


def plain(env, records, type_info=None):
    """Return a stream without event times."""
    return env.from_collection(records, type_info)


def rows():
    return Types.ROW_NAMED(["k", "n"], [Types.STRING(), Types.LONG()])


def side():
    return OutputTag("side", Types.PICKLED_BYTE_ARRAY())


def late(type_info=None):
    return OutputTag("late", type_info or pairs())


def tumbling(size, offset=0):
    return TumblingEventTimeWindows.of(ms(size), ms(offset))


def sliding(size, slide, offset=0):
    return SlidingEventTimeWindows.of(ms(size), ms(slide), ms(offset))


def sessions(gap):
    return EventTimeSessionWindows.with_gap(ms(gap))


class Gap(SessionWindowTimeGapExtractor):
    """The number of a record, modulo something, and one."""

    def __init__(self, modulus):
        self.modulus = modulus

    def extract(self, element):
        return element[1] % self.modulus + 1


def sessions_of_records(modulus):
    return EventTimeSessionWindows.with_dynamic_gap(Gap(modulus))


def continuous(interval):
    return ContinuousEventTimeTrigger.of(ms(interval))


def both(main, tag):
    """Return main and side output in one stream, marked."""
    return with_side(main, tag)


# -- functions of single records -------------------------------------------------------------------------------------------------


class Each(ProcessFunction):
    """Emits each record so many times."""

    def __init__(self, times=1):
        self.times = times

    def process_element(self, value, ctx):
        for _ in range(self.times):
            yield value


class Stamp(ProcessFunction):
    """Emits each record with its time."""

    def process_element(self, value, ctx):
        yield value, shown(ctx.timestamp())


class ToSide(ProcessFunction):
    """Emits records to a side output, where a function says so, or else to the main one."""

    def __init__(self, aside):
        self.aside = aside

    def process_element(self, value, ctx):
        if self.aside(value):
            yield side(), value
        else:
            yield value


# -- state and timers ------------------------------------------------------------------------------------------------------------


class Count(KeyedProcessFunction):
    """Emits each record with its key and its number within the key."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        yield value, ctx.get_current_key(), self.count.value()


class Join(AggregateFunction):
    """Values in the order in which they came."""

    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        return [*accumulator, value]

    def get_result(self, accumulator):
        return "+".join(str(value) for value in accumulator)

    def merge(self, acc_a, acc_b):
        return acc_a + acc_b


class States(KeyedProcessFunction):
    """Does with its states what a record says after its key: names of state and method, arguments. Emits what that returned."""

    def __init__(self, type_info):
        self.type_info = type_info

    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("value", self.type_info))
        self.list = runtime_context.get_list_state(ListStateDescriptor("list", self.type_info))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.STRING(), self.type_info))
        self.least = runtime_context.get_reducing_state(ReducingStateDescriptor("least", min, self.type_info))
        joined = AggregatingStateDescriptor("joined", Join(), Types.PICKLED_BYTE_ARRAY())
        self.joined = runtime_context.get_aggregating_state(joined)

    def process_element(self, value, ctx):
        for state, method, *arguments in value[1]:
            found = getattr(getattr(self, state), method)(*arguments)
            if found is not None and not isinstance(found, (bool, int, float, str, tuple)):
                found = list(found)
            yield ctx.get_current_key(), state, method, found


class Sum(MapFunction):
    """Pairs of key and sum of its numbers so far."""

    def open(self, runtime_context):
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))

    def map(self, value):
        self.sum.add(value[1])
        return value[0], self.sum.get()


class Fresh(FilterFunction):
    """Lets records pass whose number is new for their key."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_map_state(MapStateDescriptor("seen", Types.LONG(), Types.BOOLEAN()))

    def filter(self, value):
        fresh = not self.seen.contains(value[1])
        self.seen.put(value[1], True)
        return fresh


class AsOften(FlatMapFunction):
    """Emits a record as often as there were records of its key, but not more than three times."""

    def open(self, runtime_context):
        self.seen = runtime_context.get_list_state(ListStateDescriptor("seen", Types.LONG()))

    def flat_map(self, value):
        self.seen.add(value[1])
        for _ in list(self.seen.get())[:3]:
            yield value


class Later(KeyedProcessFunction):
    """Emits pairs of key and time when their timers fire, some milliseconds after each record."""

    def __init__(self, delay):
        self.delay = delay

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + self.delay)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp


class Alarm(KeyedProcessFunction):
    """Sets and deletes the timers that a record says after its key and time, or `then` says for a timer that fires."""

    def __init__(self, then=None):
        self.then = then or {}

    def open(self, runtime_context):
        self.fired = runtime_context.get_state(ValueStateDescriptor("fired", Types.LONG()))

    def process_element(self, value, ctx):
        follow(value[2], ctx)
        yield "record", value[0], value[1], shown(ctx.timestamp()), shown(ctx.timer_service().current_watermark())

    def on_timer(self, timestamp, ctx):
        self.fired.update((self.fired.value() or 0) + 1)
        follow(self.then.get(timestamp, []), ctx)
        now = ctx.timer_service().current_watermark()
        yield "timer", ctx.get_current_key(), timestamp, ctx.timestamp(), shown(now), self.fired.value()


def follow(orders, ctx):
    for order, time in orders:
        if order == "set":
            ctx.timer_service().register_event_time_timer(time)
        else:
            ctx.timer_service().delete_event_time_timer(time)


# -- windows ---------------------------------------------------------------------------------------------------------------------


def around(window):
    return (window.start, window.end) if isinstance(window, TimeWindow) else type(window).__name__


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield key, around(context.window()), list(elements), shown(context.current_watermark())


class Counting(ProcessWindowFunction):
    """How often the window has fired, and how many records each window of its key had."""

    def process(self, key, context, elements):
        here = context.window_state().get_state(ValueStateDescriptor("here", Types.LONG()))
        everywhere = context.global_state().get_list_state(ListStateDescriptor("everywhere", Types.LONG()))
        here.update((here.value() or 0) + 1)
        everywhere.add(len(list(elements)))
        yield key, around(context.window()), here.value(), list(everywhere.get())

    def clear(self, context):
        context.window_state().get_state(ValueStateDescriptor("here", Types.LONG())).clear()


class Split(ProcessWindowFunction):
    """Emits the greatest record, and all others to a side output."""

    def process(self, key, context, elements):
        *others, greatest = sorted(elements, key=lambda element: element[1])
        yield key, around(context.window()), greatest
        for other in others:
            yield side(), other


class Apply(WindowFunction):
    def apply(self, key, window, inputs):
        return [(key, around(window), element) for element in inputs]


class AllContents(ProcessAllWindowFunction):
    def process(self, context, elements):
        yield around(context.window()), list(elements)


class AllApply(AllWindowFunction):
    def apply(self, window, inputs):
        return [(around(window), element) for element in inputs]


class Digits(AggregateFunction):
    """Numbers of pairs in the order in which they came, as digits."""

    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return accumulator * 100 + value[1]

    def get_result(self, accumulator):
        return accumulator, "digits"

    def merge(self, acc_a, acc_b):
        return acc_a * 10**9 + acc_b


class Total(AggregateFunction):
    """Sum and count of the numbers of pairs."""

    def create_accumulator(self):
        return 0, 0

    def add(self, value, accumulator):
        return accumulator[0] + value[1], accumulator[1] + 1

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class Told(Trigger):
    """Answers with the results of these names, by the number of a record, and to each timer; may set a timer with each record."""

    def __init__(self, *results, timer="CONTINUE", after=None):
        self.results = results
        self.timer = timer
        self.after = after

    def on_element(self, element, timestamp, window, ctx):
        if self.after is not None:
            ctx.register_event_time_timer(timestamp + self.after)
        return TriggerResult[self.results[element[1] % len(self.results)]]

    def on_event_time(self, time, window, ctx):
        return TriggerResult[self.timer]

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        pass


class Sums(Told):
    """Fires when the numbers of the window add up to a limit, and begins again; merged with the windows."""

    def __init__(self, limit):
        super().__init__("CONTINUE")
        self.limit = limit
        self.sum = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        total = ctx.get_partitioned_state(self.sum)
        total.add(element[1])
        if total.get() < self.limit:
            return TriggerResult.CONTINUE
        total.clear()
        return TriggerResult.FIRE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.sum)

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.sum).clear()


# -- two inputs: what they emit does not depend on which comes first -------------------------------------------------------------


class CoMap(CoMapFunction):
    def map1(self, value):
        return None if value[1] % 3 == 0 else ("first", value)

    def map2(self, value):
        return "second", value


class CoFlatMap(CoFlatMapFunction):
    def flat_map1(self, value):
        return ["first"] * (value[1] % 3)

    def flat_map2(self, value):
        if value[1] % 2:
            yield "second", value


class CoProcess(CoProcessFunction):
    def process_element1(self, value, ctx):
        return [("first", value, shown(ctx.timestamp()))]

    def process_element2(self, value, ctx):
        yield "second", value, shown(ctx.timestamp())
        if value[1] % 2:
            yield side(), value


class Meet(KeyedCoProcessFunction):
    """Gathers both inputs; shows all when a timer fires, so many milliseconds after a record."""

    def __init__(self, delay):
        self.delay = delay

    def open(self, runtime_context):
        self.first = runtime_context.get_list_state(ListStateDescriptor("first", Types.LONG()))
        self.second = runtime_context.get_map_state(MapStateDescriptor("second", Types.LONG(), Types.LONG()))

    def process_element1(self, value, ctx):
        self.first.add(value[1])
        ctx.timer_service().register_event_time_timer(value[1] + self.delay)
        yield "first", ctx.get_current_key(), shown(ctx.timestamp())

    def process_element2(self, value, ctx):
        self.second.put(value[1], (self.second.get(value[1]) or 0) + 1)
        ctx.timer_service().register_event_time_timer(value[1] + self.delay)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, sorted(self.first.get()), sorted(self.second.items())


def rules():
    return MapStateDescriptor("rules", Types.STRING(), Types.LONG())


class Broadcast(BroadcastProcessFunction):
    def process_element(self, value, ctx):
        yield value, shown(ctx.timestamp())

    def process_broadcast_element(self, value, ctx):
        state = ctx.get_broadcast_state(rules())
        state.put(value[0], max(value[1], state.get(value[0]) or 0))
        yield "rules", sorted(state.items()), shown(ctx.timestamp())


class KeyedBroadcast(KeyedBroadcastProcessFunction):
    """Counts records of a key; a timer for the end shows count and rules."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(1000 + value[1])
        yield value, ctx.get_current_key(), self.count.value()

    def process_broadcast_element(self, value, ctx):
        if value[1] % 2:
            ctx.get_broadcast_state(rules()).put(*value)
        else:
            ctx.get_broadcast_state(rules()).remove(value[0])

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, self.count.value(), sorted(ctx.get_broadcast_state(rules()).items())

"""Triggers of Flink and of one's own: what fires when, with timers, state, purging and merging."""

from flinkish.common import Time, Types
from flinkish.datastream import ProcessWindowFunction
from flinkish.datastream.state import ListStateDescriptor, ReducingStateDescriptor, ValueStateDescriptor
from flinkish.datastream.window import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    CountTumblingWindowAssigner,
    EventTimeSessionWindows,
    EventTimeTrigger,
    GlobalWindows,
    NeverTrigger,
    ProcessingTimeTrigger,
    PurgingTrigger,
    Trigger,
    TriggerResult,
    TumblingEventTimeWindows,
)
from tests.compatibility.kit import STEP, case, pairs, stepped, timed

RECORDS = [("a", time) for time in (1, 2, 5, 9, 4, 12, 7, 15, 19, 30)]


class Contents(ProcessWindowFunction):
    def process(self, key, context, elements):
        yield str(context.window()), [number for _, number in elements]


class Told(Trigger):
    """Does with each record, and with each timer, what functions say."""

    def __init__(self, with_record=None, with_timer=None):
        self.with_record = with_record
        self.with_timer = with_timer

    def on_element(self, element, timestamp, window, ctx):
        return TriggerResult.CONTINUE if self.with_record is None else self.with_record(element, timestamp, ctx)

    def on_event_time(self, time, window, ctx):
        return TriggerResult.CONTINUE if self.with_timer is None else self.with_timer(time)

    def on_processing_time(self, time, window, ctx):
        return TriggerResult.CONTINUE

    def on_merge(self, window, ctx):
        pass

    def clear(self, window, ctx):
        pass


class Timers(Told):
    """Sets timers in the window and behind its end; deletes the latter when it has seen three records."""

    def open_state(self, ctx):
        return ctx.get_partitioned_state(ValueStateDescriptor("count", Types.LONG()))

    def on_element(self, element, timestamp, window, ctx):
        count = self.open_state(ctx)
        count.update((count.value() or 0) + 1)
        ctx.register_event_time_timer(timestamp + 2)
        ctx.register_event_time_timer(window.max_timestamp() + 3)
        return TriggerResult.CONTINUE

    def on_event_time(self, time, window, ctx):
        if (self.open_state(ctx).value() or 0) > 2:
            ctx.delete_event_time_timer(window.max_timestamp() + 3)
        return TriggerResult.FIRE

    def clear(self, window, ctx):
        self.open_state(ctx).clear()


class Mergeable(Told):
    """Fires when three records add up to more than ten; list and reducing state, merged with the windows."""

    def __init__(self):
        self.numbers = ListStateDescriptor("numbers", Types.LONG())
        self.sum = ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG())

    def on_element(self, element, timestamp, window, ctx):
        numbers, total = ctx.get_partitioned_state(self.numbers), ctx.get_partitioned_state(self.sum)
        numbers.add(element[1])
        total.add(element[1])
        return TriggerResult.FIRE if total.get() > 10 and len(list(numbers.get())) > 2 else TriggerResult.CONTINUE

    def can_merge(self):
        return True

    def on_merge(self, window, ctx):
        ctx.merge_partitioned_state(self.numbers)
        ctx.merge_partitioned_state(self.sum)

    def clear(self, window, ctx):
        ctx.get_partitioned_state(self.numbers).clear()
        ctx.get_partitioned_state(self.sum).clear()


def tumbling(size=10):
    return TumblingEventTimeWindows.of(Time.milliseconds(size))


def sessions():
    return EventTimeSessionWindows.with_gap(Time.milliseconds(4))


def fired(env, assigner, trigger, lateness=0):
    """Return what windows fire when there is a watermark after each record."""
    keyed = stepped(env, RECORDS, pairs()).key_by(lambda record: record[0], Types.STRING())
    return keyed.window(assigner).trigger(trigger).allowed_lateness(lateness).process(Contents())


def fired_at_the_end(env, assigner, trigger):
    return timed(env, RECORDS, pairs()).key_by(lambda record: record[0]).window(assigner).trigger(trigger).process(Contents())


@case(STEP)
def fire_with_each_record(env):
    return fired(env, tumbling(), Told(lambda *_: TriggerResult.FIRE))


@case(STEP)
def fire_and_purge_with_odd_ones(env):
    def decide(element, timestamp, ctx):
        return TriggerResult.FIRE_AND_PURGE if element[1] % 2 else TriggerResult.CONTINUE

    return fired(env, tumbling(), Told(decide))


@case(STEP)
def purge_with_one_of_them(env):
    return fired(env, tumbling(), Told(lambda element, *_: TriggerResult.PURGE if element[1] == 5 else TriggerResult.FIRE))


@case(STEP)
def timers_of_a_trigger(env):
    return fired(env, tumbling(), Timers())


@case()
def timers_of_a_trigger_at_the_end(env):
    return fired_at_the_end(env, tumbling(), Timers())


@case(STEP)
def continuous(env):
    return fired(env, tumbling(), ContinuousEventTimeTrigger.of(Time.milliseconds(3)))


@case(STEP)
def continuous_with_lateness(env):
    return fired(env, tumbling(), ContinuousEventTimeTrigger.of(Time.milliseconds(3)), 4)


@case()
def continuous_at_the_end(env):
    return fired_at_the_end(env, tumbling(20), ContinuousEventTimeTrigger.of(Time.milliseconds(3)))


@case(STEP)
def counts(env):
    return fired(env, tumbling(), CountTrigger.of(2))


@case(STEP)
def purging_counts(env):
    return fired(env, tumbling(), PurgingTrigger.of(CountTrigger.of(2)))


@case(STEP)
def purging_with_lateness(env):
    return fired(env, tumbling(), PurgingTrigger.of(EventTimeTrigger.create()), 6)


@case(STEP)
def counts_in_sessions(env):
    return fired(env, sessions(), CountTrigger.of(3))


@case(STEP)
def purging_counts_in_sessions(env):
    return fired(env, sessions(), PurgingTrigger.of(CountTrigger.of(3)))


@case(STEP)
def state_that_is_merged_with_sessions(env):
    return fired(env, sessions(), Mergeable())


@case()
def global_windows_with_counts(env):
    return fired_at_the_end(env, GlobalWindows.create(), CountTrigger.of(3))


@case()
def global_windows_with_purging_counts(env):
    return fired_at_the_end(env, GlobalWindows.create(), PurgingTrigger.of(CountTrigger.of(3)))


@case()
def global_windows_never_fire(env):
    return timed(env, RECORDS, pairs()).key_by(lambda record: record[0]).window(GlobalWindows.create()).process(Contents())


def with_timer_after_each(element, timestamp, ctx):
    ctx.register_event_time_timer(timestamp + 1)
    return TriggerResult.CONTINUE


@case(STEP)
def global_windows_with_timers(env):
    return fired(env, GlobalWindows.create(), Told(with_timer_after_each, lambda time: TriggerResult.FIRE_AND_PURGE))


@case()
def global_windows_with_timers_at_the_end(env):
    return fired_at_the_end(env, GlobalWindows.create(), Told(with_timer_after_each, lambda time: TriggerResult.FIRE_AND_PURGE))


@case()
def never(env):
    return fired_at_the_end(env, tumbling(), NeverTrigger())


@case()
def a_trigger_that_cannot_merge_in_sessions_of_keys(env):
    return fired_at_the_end(env, sessions(), Told())


@case()
def a_trigger_that_cannot_merge_in_sessions_of_a_stream(env):
    return timed(env, RECORDS, pairs()).window_all(sessions()).trigger(Told()).reduce(lambda a, b: a)


@case()
def a_trigger_that_returns_none(env):
    return fired_at_the_end(env, tumbling(), Told(lambda *_: None))


@case()
def processing_time_in_windows_of_event_time(env):
    return fired_at_the_end(env, tumbling(), ProcessingTimeTrigger.create())


@case(STEP)
def each_record_in_count_windows(env):
    return fired(env, CountTumblingWindowAssigner.of(3), Told(lambda *_: TriggerResult.FIRE))


@case(STEP)
def timers_of_a_trigger_with_lateness(env):
    return fired(env, tumbling(), Timers(), 5)


@case(STEP)
def continuous_in_sessions(env):
    return fired(env, sessions(), ContinuousEventTimeTrigger.of(Time.milliseconds(2)))

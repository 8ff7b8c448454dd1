"""Keyed state of each kind, and functions that have it."""

from flinkish.common import Types
from flinkish.datastream import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    ReduceFunction,
)
from flinkish.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tests.compatibility.kit import Mean, Sum, case


class Add(ReduceFunction):
    def reduce(self, value1, value2):
        return value1 + value2


class Using(KeyedProcessFunction):
    """Emits what a function makes of the state and each number."""

    def __init__(self, get, use):
        self.get = get
        self.use = use

    def open(self, runtime_context):
        self.state = self.get(runtime_context)

    def process_element(self, value, ctx):
        yield self.use(self.state, value)


def numbers(env, get, use):
    return env.from_collection([1, 2, 3, 4]).key_by(lambda number: "key", Types.STRING()).process(Using(get, use))


def value_state(context):
    return context.get_state(ValueStateDescriptor("state", Types.PICKLED_BYTE_ARRAY()))


def list_state(context):
    return context.get_list_state(ListStateDescriptor("state", Types.LONG()))


def map_state(context):
    return context.get_map_state(MapStateDescriptor("state", Types.STRING(), Types.LONG()))


@case()
def a_value_that_is_changed_in_place(env):
    def use(state, number):
        seen = state.value()
        if seen is None:
            state.update([number])
        else:
            seen.append(number)
        return list(state.value())

    return numbers(env, value_state, use)


@case()
def a_value_that_is_changed_after_it_was_put(env):
    def use(state, number):
        if number == 1:
            seen = [1]
            state.update(seen)
            seen.append(99)
        return state.value()

    return numbers(env, value_state, use)


@case()
def a_value_that_is_cleared(env):
    def use(state, number):
        before = state.value()
        state.update(number)
        if number == 2:
            state.clear()
        return before, state.value()

    return numbers(env, value_state, use)


@case()
def lists(env):
    def use(state, number):
        if number == 1:
            state.add(1)
            state.add_all([2, 3])
        elif number == 2:
            state.update([7])
            state.add(8)
        elif number == 3:
            state.update([])
        else:
            state.add(4)
            state.clear()
            state.add_all([])
            state.add(5)
        return list(state.get()), list(state)

    return numbers(env, list_state, use)


@case()
def an_empty_list(env):
    return numbers(env, list_state, lambda state, number: list(state.get()))


@case()
def maps(env):
    def use(state, number):
        if number == 1:
            state.put("a", 1)
            state["b"] = 2
        elif number == 2:
            state.remove("a")
            state.remove("never")
            del state["b"]
        elif number == 3:
            state.put_all([("x", 1), ("y", 2)])
        else:
            state.clear()
        entries = sorted(state.items()), sorted(state.keys()), sorted(state.values()), sorted(state)
        return entries, state.get("a"), state["zz"], "a" in state, state.contains("x"), state.is_empty()

    return numbers(env, map_state, use)


@case()
def entries_come_in_the_order_in_which_they_were_put(env):
    def use(state, number):
        state.put(str(10 - number), number)
        return list(state.keys())

    return numbers(env, map_state, use)


@case()
def entries_may_be_removed_while_they_are_read(env):
    def use(state, number):
        state.put(str(number), number)
        if number == 4:
            for key in list(state.keys()):
                if int(key) % 2:
                    state.remove(key)
        return sorted(state.keys())

    return numbers(env, map_state, use)


@case()
def a_value_of_a_map_that_is_changed_in_place(env):
    def get(context):
        return context.get_map_state(MapStateDescriptor("state", Types.STRING(), Types.PICKLED_BYTE_ARRAY()))

    def use(state, number):
        if number == 1:
            state.put("a", [0])
        else:
            state.get("a").append(number)
        return list(state.get("a"))

    return numbers(env, get, use)


@case()
def reducing(env):
    def use(state, number):
        before = state.get()
        state.add(number)
        if number == 3:
            state.clear()
        return before, state.get()

    return numbers(env, lambda context: context.get_reducing_state(ReducingStateDescriptor("state", Add(), Types.LONG())), use)


@case()
def reducing_by_a_callable(env):
    def get(context):
        return context.get_reducing_state(ReducingStateDescriptor("state", lambda a, b: a * b, Types.LONG()))

    def use(state, number):
        state.add(number)
        return state.get()

    return numbers(env, get, use)


@case()
def aggregating(env):
    def get(context):
        accumulator = Types.TUPLE([Types.LONG(), Types.LONG()])
        return context.get_aggregating_state(AggregatingStateDescriptor("state", Mean(), accumulator))

    def use(state, number):
        before = state.get()
        state.add(number)
        if number == 3:
            state.clear()
        return before, state.get()

    return numbers(env, get, use)


PAIRS = [("a", 1), ("b", 2), ("a", 3)]


class First(FilterFunction):
    def open(self, runtime_context):
        self.seen = runtime_context.get_state(ValueStateDescriptor("seen", Types.BOOLEAN()))

    def filter(self, value):
        seen = self.seen.value()
        self.seen.update(True)
        return not seen


class AsOften(FlatMapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def flat_map(self, value):
        self.count.update((self.count.value() or 0) + 1)
        return [value] * self.count.value()


@case()
def state_of_a_map(env):
    return env.from_collection(PAIRS).key_by(lambda pair: pair[0]).map(Sum())


@case()
def state_of_a_filter(env):
    return env.from_collection(PAIRS).key_by(lambda pair: pair[0]).filter(First())


@case()
def state_of_a_flat_map(env):
    return env.from_collection(PAIRS).key_by(lambda pair: pair[0]).flat_map(AsOften())


@case()
def state_without_a_key(env):
    return env.from_collection(PAIRS).map(Sum())


class Lazy(KeyedProcessFunction):
    """Asks for its state with each record."""

    def open(self, runtime_context):
        self.context = runtime_context

    def process_element(self, value, ctx):
        total = self.context.get_state(ValueStateDescriptor("sum", Types.LONG()))
        total.update((total.value() or 0) + value[1])
        yield ctx.get_current_key(), total.value()


@case()
def state_that_is_asked_for_late(env):
    return env.from_collection(PAIRS).key_by(lambda pair: pair[0]).process(Lazy())


class Early(Lazy):
    def open(self, runtime_context):
        super().open(runtime_context)
        runtime_context.get_state(ValueStateDescriptor("sum", Types.LONG())).value()


@case()
def state_that_is_read_in_open(env):
    return env.from_collection(PAIRS).key_by(lambda pair: pair[0]).process(Early())


class TwoKinds(KeyedProcessFunction):
    def open(self, runtime_context):
        self.value = runtime_context.get_state(ValueStateDescriptor("same", Types.LONG()))
        self.list = runtime_context.get_list_state(ListStateDescriptor("same", Types.LONG()))

    def process_element(self, value, ctx):
        self.value.update(1)
        yield list(self.list.get())


@case()
def one_name_for_two_states(env):
    return env.from_collection(PAIRS).key_by(lambda pair: pair[0]).process(TwoKinds())

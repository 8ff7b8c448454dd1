"""State and timers of a function against a plain dict, with lost heaps and other parallelisms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flinkish.common import Types
from flinkish.datastream import DataStream, KeyedProcessFunction, RuntimeContext, TimeDomain
from flinkish.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkish.testing import OneInputHarness
from flinkish.testing.steps import Advance, Emit, EmitWatermark, Step
from flinkish.testing.strategies import advances, operator_faults, streams, with_faults
from tests.models.testing.examples import examples

LONG_MIN = -(2**63)
RECORD = Types.TUPLE([Types.STRING(), Types.PICKLED_BYTE_ARRAY()])

SMALL = st.integers(0, 5)
#: What a record asks of the function: the name of a method of `Keyed`, and its argument.
ORDERS = st.one_of(
    st.tuples(st.sampled_from(["set", "append", "add", "put", "remove", "after", "before", "later"]), SMALL),
    st.tuples(st.sampled_from(["clear"]), st.just(0)),
)
SCRIPTS = with_faults(
    streams(ORDERS, keys=st.sampled_from("abc"), max_size=25, max_gap=4, disorder=4, late=10),
    st.one_of(operator_faults(), advances(6)),
    max_faults=8,
)

#: What is kept for a key: value, list, sum, map.
Kept = tuple[int | None, list[int], int | None, dict[int, int]]


class Obey(KeyedProcessFunction):
    """Does what records ask, and tells all that is kept for the key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.LONG()))
        self.items = runtime_context.get_list_state(ListStateDescriptor("items", Types.LONG()))
        self.sum = runtime_context.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.LONG()))

    def kept(self) -> Kept:
        return self.value.value(), list(self.items.get()), self.sum.get(), dict(self.map.items())

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        _, (order, number) = value
        timers = ctx.timer_service()
        do: dict[str, Callable[[], object]] = {
            "set": lambda: self.value.update(number),
            "append": lambda: self.items.add(number),
            "add": lambda: self.sum.add(number),
            "put": lambda: self.map.put(number, len(list(self.items.get()))),
            "remove": lambda: self.map.remove(number),
            "after": lambda: timers.register_event_time_timer(ctx.timestamp() + number),
            "before": lambda: timers.delete_event_time_timer(ctx.timestamp() + number),
            "later": lambda: timers.register_processing_time_timer(timers.current_processing_time() + number),
            "clear": lambda: [state.clear() for state in (self.value, self.items, self.sum, self.map)],
        }
        do[order]()
        yield "element", ctx.get_current_key(), self.kept()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        # Timers write, too.
        self.sum.add(1)
        yield ("event" if ctx.time_domain() is TimeDomain.EVENT_TIME else "processing"), ctx.get_current_key(), self.kept()


class Model:
    """The same on plain dicts."""

    def __init__(self) -> None:
        self.kept: dict[str, Kept] = {}
        self.timers: dict[str, set[tuple[int, str]]] = {"event": set(), "processing": set()}
        self.now = {"event": LONG_MIN, "processing": 0}
        self.output: list[Any] = []

    def obey(self, key: str, order: str, number: int, timestamp: int) -> None:
        value, items, total, entries = self.kept.get(key, (None, [], None, {}))
        match order:
            case "set":
                value = number
            case "append":
                items = [*items, number]
            case "add":
                total = (total or 0) + number
            case "put":
                entries = {**entries, number: len(items)}
            case "remove":
                entries = {name: entry for name, entry in entries.items() if name != number}
            case "after":
                self.timers["event"].add((timestamp + number, key))
            case "before":
                self.timers["event"].discard((timestamp + number, key))
            case "later":
                self.timers["processing"].add((self.now["processing"] + number, key))
            case _:
                value, items, total, entries = None, [], None, {}
        self.kept[key] = value, items, total, entries
        self.output.append((("element", key, self.kept[key]), timestamp))
        # A timer for now does not wait for the time to move; one of event time waits for the next watermark.
        self.fire("processing")

    def move(self, domain: str, time: int) -> None:
        """Go on to a time, never back."""
        if time > self.now[domain]:
            self.now[domain] = time
            self.fire(domain)

    def fire(self, domain: str) -> None:
        """Fire what is due, in the order of times; that of the keys of one time is not defined."""
        time = self.now[domain]
        for due in sorted(timer for timer in self.timers[domain] if timer[0] <= time):
            self.timers[domain].discard(due)
            timestamp, key = due
            value, items, total, entries = self.kept.get(key, (None, [], None, {}))
            self.kept[key] = value, items, (total or 0) + 1, entries
            self.output.append(((domain, key, self.kept[key]), timestamp))


def obedient(stream: DataStream) -> DataStream:
    return stream.key_by(lambda record: record[0], Types.STRING()).process(Obey())


def in_order_of_keys(output: list[Any]) -> list[Any]:
    """Each key sees its own records and timers in order; keys do not wait for one another."""
    return sorted(output, key=lambda record: record[0][1])


@examples(60)
@given(script=SCRIPTS, parallelism=st.integers(1, 3))
def test_state_and_timers_are_those_of_plain_dicts(script: list[Step], parallelism: int) -> None:
    model = Model()
    with OneInputHarness(obedient, RECORD, parallelism=parallelism, max_parallelism=8) as harness:
        for step in script:
            match step:
                case Emit(value=(key, (order, number)), timestamp=int() as timestamp):
                    model.obey(key, order, number, timestamp)
                case EmitWatermark(timestamp=watermark):
                    model.move("event", watermark)
                case Advance(milliseconds=milliseconds):
                    model.move("processing", model.now["processing"] + milliseconds)
            harness.play([step])
            output = [tuple(record) for record in harness.take_output()]
            assert in_order_of_keys(output) == in_order_of_keys(model.output), step
            model.output.clear()

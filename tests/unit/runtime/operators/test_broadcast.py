"""process with broadcast state: contexts, read-only state, keyed state from the broadcast side, timers, restore and rescale."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from flinkish.common import Types
from flinkish.common.errors import StateError, TypeMismatchError
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream import (
    BroadcastProcessFunction,
    DataStream,
    KeyedBroadcastProcessFunction,
    OutputTag,
    RuntimeContext,
    TimeDomain,
)
from flinkish.datastream.functions import KeyedStateFunction
from flinkish.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkish.testing import TwoInputHarness

RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
LISTS = MapStateDescriptor("lists", Types.STRING(), Types.LIST(Types.LONG()))
COUNT = ValueStateDescriptor("count", Types.LONG())
SEEN = OutputTag("seen", Types.STRING())


class Lookup(BroadcastProcessFunction):
    """A text is looked up; a pair is put into the rules, None clears them, another text is removed."""

    def process_element(self, value: str, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Any:
        rules = ctx.get_broadcast_state(RULES)
        yield value, rules.get(value), value in rules, sorted(rules.keys())

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Any:
        rules = ctx.get_broadcast_state(RULES)
        if value is None:
            rules.clear()
        elif isinstance(value, str):
            rules.remove(value)
        else:
            rules[value[0]] = value[1]
        yield SEEN, f"{value} at {ctx.timestamp()}"


class Count(KeyedBroadcastProcessFunction):
    """Counts per key, up to the limit that was broadcast last; a timer 10 ms later emits the count."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value: str, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Any:
        limit = ctx.get_broadcast_state(RULES).get("limit") or 100
        self.count.update(min((self.count.value() or 0) + 1, limit))
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10)
        yield ctx.get_current_key(), self.count.value()

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Any:
        ctx.get_broadcast_state(RULES).put("limit", value)
        counts: dict[str, int] = {}

        def cap(key: str, state: Any) -> None:
            counts[key] = state.value()
            state.update(min(state.value(), value))

        ctx.apply_to_keyed_state(COUNT, cap)
        yield "had", counts

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Any:
        limit = ctx.get_broadcast_state(RULES).get("limit")
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        yield "timer", ctx.get_current_key(), self.count.value(), limit, ctx.timestamp(), ctx.current_watermark()


def plain(function: BroadcastProcessFunction, **options: Any) -> TwoInputHarness:
    def build(stream: DataStream, rules: DataStream) -> DataStream:
        return stream.connect(rules.broadcast(RULES, LISTS)).process(function)

    return TwoInputHarness(build, **options)


def keyed(function: KeyedBroadcastProcessFunction | None = None, **options: Any) -> TwoInputHarness:
    def build(stream: DataStream, rules: DataStream) -> DataStream:
        key_type = Types.STRING()
        return stream.key_by(lambda value: value, key_type).connect(rules.broadcast(RULES)).process(function or Count())

    return TwoInputHarness(build, **options)


@pytest.fixture
def lookup() -> Iterator[TwoInputHarness]:
    with plain(Lookup(), side_outputs=[SEEN]) as harness:
        yield harness


def test_what_the_broadcast_side_puts_the_other_side_reads(lookup: TwoInputHarness) -> None:
    lookup.process_element1("a", 1)
    lookup.process_element2(("a", 5), 2)
    lookup.process_element2(("b", 6))
    lookup.process_element1("a", 3)
    lookup.process_element2("a")
    lookup.process_element1("a")
    lookup.process_element2(None)
    lookup.process_element1("b")

    assert lookup.take_output() == [
        (("a", None, False, []), 1),
        (("a", 5, True, ["a", "b"]), 3),
        (("a", None, False, ["b"]), None),
        (("b", None, False, []), None),
    ]
    assert lookup.take_values(SEEN)[0] == "('a', 5) at 2"
    assert lookup.take_values(SEEN) == []


def test_broadcast_state_lives_on_when_the_processes_are_lost(lookup: TwoInputHarness) -> None:
    lookup.process_element2(("a", 5))
    lookup.lose_heap()
    lookup.process_element1("a")
    assert lookup.take_values() == [("a", 5, True, ["a"])]


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_a_restore_gives_every_subtask_the_whole_broadcast_state(parallelism: int) -> None:
    with plain(Lookup(), parallelism=2) as harness:
        for number in range(3):
            harness.process_element2((f"r{number}", number))
        snapshot = harness.snapshot()
        with harness.restored(snapshot, parallelism=parallelism) as restored:
            with restored.epoch():
                for _ in range(parallelism):
                    restored.process_element1("r1")
            assert restored.take_values() == [("r1", 1, True, ["r0", "r1", "r2"])] * parallelism
            # and each hands its own copy on
            with restored.restored(restored.snapshot(), parallelism=3) as again:
                again.process_element1("r2")
                assert again.take_values() == [("r2", 2, True, ["r0", "r1", "r2"])]


def test_broadcast_state_that_nobody_asks_for_is_passed_on_to_the_next_checkpoint() -> None:
    class Silent(Lookup):
        def process_element(self, value: str, ctx: Any) -> Any:
            yield sorted(ctx.get_broadcast_state(RULES).items())

    def without(stream: DataStream, rules: DataStream) -> DataStream:
        return stream.connect(rules.broadcast(LISTS)).process(Lookup()).uid("same")

    def with_rules(stream: DataStream, rules: DataStream) -> DataStream:
        return stream.connect(rules.broadcast(RULES)).process(Silent()).uid("same")

    with TwoInputHarness(with_rules, parallelism=2) as harness:
        harness.process_element2(("a", 1))
        snapshot = harness.snapshot()
    with TwoInputHarness(without, parallelism=3, snapshot=snapshot) as other:
        later = other.snapshot()
    with TwoInputHarness(with_rules, parallelism=4, snapshot=later) as last:
        with last.epoch():
            for _ in range(4):
                last.process_element1("x")
        assert last.take_values() == [[("a", 1)]] * 4


@pytest.mark.parametrize(
    "change",
    [
        lambda rules: rules.put("a", 1),
        lambda rules: rules.put(key="a", value=1),
        lambda rules: rules.put_all({"a": 1}),
        lambda rules: rules.remove("a"),
        lambda rules: rules.clear(),
        lambda rules: rules.__setitem__("a", 1),
        lambda rules: rules.__delitem__("a"),
    ],
    ids=["put", "put with names", "put_all", "remove", "clear", "set item", "delete item"],
)
def test_the_other_side_cannot_write_and_the_error_names_the_state(change: Any) -> None:
    class Writes(Lookup):
        def process_element(self, value: str, ctx: Any) -> Any:
            change(ctx.get_broadcast_state(RULES))

    with plain(Writes()) as harness, pytest.raises(StateError, match=r"'rules'.*read-only"):
        harness.process_element1("a")


@pytest.mark.parametrize(
    ("name", "value_type", "error"),
    [
        ("other", Types.LONG(), r"no broadcast state 'other'; there are \['lists', 'rules'\]"),
        ("rules", Types.STRING(), "'rules'"),
    ],
)
def test_a_state_that_was_not_given_to_broadcast_is_refused_by_name(name: str, value_type: TypeInformation, error: str) -> None:
    class Other(Lookup):
        def process_element(self, value: str, ctx: Any) -> Any:
            ctx.get_broadcast_state(MapStateDescriptor(name, Types.STRING(), value_type))

    with plain(Other()) as harness, pytest.raises(StateError, match=error):
        harness.process_element1("a")


def test_a_value_of_the_wrong_type_is_refused_by_the_name_of_the_state() -> None:
    with plain(Lookup()) as harness, pytest.raises(TypeMismatchError, match="broadcast state 'rules'"):
        harness.process_element2(("a", "not a number"))


def test_values_that_can_change_are_stored_as_they_are_at_the_end_of_the_epoch() -> None:
    class Lists(BroadcastProcessFunction):
        def process_element(self, value: str, ctx: Any) -> Any:
            yield ctx.get_broadcast_state(LISTS).get(value)

        def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
            lists = ctx.get_broadcast_state(LISTS)
            known = lists.get(value[0]) or []
            lists.put(value[0], [*known, value[1]])

    with plain(Lists()) as harness:
        harness.process_element2(("a", 1))
        harness.process_element2(("a", 2))
        harness.lose_heap()
        harness.process_element1("a")
        assert harness.take_values() == [[1, 2]]


# -- keyed -------------------------------------------------------------------------------------------------------------------


def test_keyed_state_timers_and_broadcast_state_work_together() -> None:
    with keyed() as harness:
        harness.process_element1("a", 100)
        harness.process_element1("a", 101)
        harness.process_element1("b", 102)
        harness.process_element2(1, 5)
        harness.process_element1("a", 103)
        harness.process_both_watermarks(111)

        assert harness.take_output() == [
            (("a", 1), 100),
            (("a", 2), 101),
            (("b", 1), 102),
            (("had", {"a": 2, "b": 1}), 5),
            (("a", 1), 103),
            (("timer", "a", 1, 1, 110, 111), 110),
            (("timer", "a", 1, 1, 111, 111), 111),
        ]


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_all_of_it_survives_lost_processes_and_a_restore_at_another_parallelism(parallelism: int) -> None:
    keys = [f"k{number}" for number in range(20)]
    with keyed(parallelism=2) as harness:
        with harness.epoch():
            for key in keys:
                harness.process_element1(key, 100)
                harness.process_element1(key, 100)
        harness.process_element2(7, 1)
        harness.lose_heap()
        harness.process_element1(keys[0], 100)
        snapshot = harness.snapshot()
        with harness.restored(snapshot, parallelism=parallelism) as restored:
            restored.process_both_watermarks(200)
            expected = sorted(("timer", key, 3 if key == keys[0] else 2, 7, 110, 200) for key in keys)
            assert sorted(restored.take_values()) == expected


def test_apply_to_keyed_state_takes_a_keyed_state_function_and_every_key_of_the_subtask_once() -> None:
    class Clear(KeyedStateFunction):
        def process(self, key: str, state: Any) -> None:
            state.clear()

    class Clearing(Count):
        def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Any:
            ctx.apply_to_keyed_state(COUNT, Clear())
            left: list[Any] = []
            ctx.apply_to_keyed_state(COUNT, lambda key, state: left.append(key))
            yield "left", left

    with keyed(Clearing()) as harness:
        harness.process_element1("a", 1)
        harness.process_element1("a", 1)
        harness.process_element2("go")
        harness.process_element1("a", 1)
        assert harness.take_values() == [("a", 1), ("a", 2), ("left", []), ("a", 1)]


def test_a_broadcast_element_has_no_key_so_its_keyed_state_is_refused() -> None:
    class Wrong(Count):
        def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
            return self.count.value()

    with keyed(Wrong()) as harness:
        harness.process_element1("a", 1)
        with pytest.raises(StateError, match="a broadcast element has no key"):
            harness.process_element2("go")

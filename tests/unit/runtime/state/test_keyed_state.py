from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from flinkish.common.errors import InvalidArgumentError, StateError, TypeMismatchError
from flinkish.common.typeinfo import Types
from flinkish.common.types import Row
from flinkish.datastream.functions import AggregateFunction
from flinkish.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from tests.kit.functions import Greatest, Mean
from tests.unit.runtime.state.harness import Slot

UNTYPED = Types.PICKLED_BYTE_ARRAY()
LONG_VALUE = ValueStateDescriptor("value", Types.LONG())
UNTYPED_VALUE = ValueStateDescriptor("value", UNTYPED)


@pytest.fixture(params=[LONG_VALUE, UNTYPED_VALUE], ids=["typed", "untyped"])
def value_descriptor(request: pytest.FixtureRequest) -> ValueStateDescriptor:
    return request.param  # type: ignore[no-any-return]


def test_value_state_is_apart_for_each_key(slot: Slot, value_descriptor: ValueStateDescriptor) -> None:
    slot.begin()
    state = slot.backend.get_state(value_descriptor)
    slot.key(1)
    assert state.value() is None
    state.update(10)
    slot.key(2)
    assert state.value() is None
    state.update(20)
    slot.key(1)
    assert state.value() == 10
    state.clear()
    assert state.value() is None
    state.clear()
    assert slot.keys("value") == [2]


def test_state_is_apart_for_each_namespace(slot: Slot, value_descriptor: ValueStateDescriptor) -> None:
    slot.begin()
    state = slot.backend.get_state(value_descriptor)
    for namespace, value in ((None, 1), ((0, 10), 2), ((10, 20), 3)):
        slot.key(1)
        slot.backend.current_namespace = namespace
        state.update(value)
    slot.end_and_lose_heap()
    state = slot.backend.get_state(value_descriptor)
    slot.key(1)
    assert state.value() == 1
    slot.backend.current_namespace = (0, 10)
    assert state.value() == 2
    state.clear()
    assert state.value() is None
    assert slot.keys("value") == [1]
    assert slot.keys("value", (10, 20)) == [1]
    assert slot.keys("value", (0, 10)) == []


def test_the_same_descriptor_gives_the_same_object(slot: Slot) -> None:
    backend = slot.backend
    assert backend.get_state(LONG_VALUE) is backend.get_state(ValueStateDescriptor("value", Types.LONG()))
    assert backend.timers() is backend.timers()


def test_a_name_cannot_be_used_for_two_states(slot: Slot) -> None:
    slot.backend.get_state(LONG_VALUE)
    with pytest.raises(StateError, match=r"asked for as value state of type String .* declared as value state of type Long"):
        slot.backend.get_state(ValueStateDescriptor("value", Types.STRING()))
    with pytest.raises(StateError, match="asked for as list state"):
        slot.backend.get_list_state(ListStateDescriptor("value", Types.LONG()))
    slot.open()  # another backend over the same tables
    with pytest.raises(StateError, match="declared as value state"):
        slot.backend.get_map_state(MapStateDescriptor("value", Types.LONG(), Types.LONG()))


def test_state_without_a_key_is_refused(slot: Slot) -> None:
    slot.begin()
    for use in (
        lambda: slot.backend.get_state(LONG_VALUE).value(),
        lambda: slot.backend.get_state(LONG_VALUE).update(1),
        lambda: slot.backend.get_list_state(ListStateDescriptor("list", UNTYPED)).add(1),
        lambda: slot.backend.get_map_state(MapStateDescriptor("map", UNTYPED, UNTYPED)).get(1),
        lambda: slot.backend.timers().event_time.register(1, slot.backend.current_key),
    ):
        with pytest.raises(StateError, match="no record is processed"):
            use()


def test_values_are_brought_to_their_declared_type(slot: Slot) -> None:
    slot.begin(1)
    state = slot.backend.get_state(LONG_VALUE)
    state.update(1.7)
    assert state.value() == 1


def test_a_float_state_keeps_sums_as_they_are_also_when_they_are_stored(slot: Slot) -> None:
    descriptor = ValueStateDescriptor("float", Types.FLOAT())
    slot.begin(1)
    slot.backend.get_state(descriptor).update(163.29999923706055)
    slot.end()
    slot.begin(1)
    assert slot.backend.get_state(descriptor).value() == 163.29999923706055
    with pytest.raises(TypeMismatchError, match="'x'"):
        slot.backend.get_state(descriptor).update("x")


@pytest.mark.parametrize("value", ["1", None, [1], 2**63])
def test_values_of_another_type_are_refused_with_the_names_of_state_and_operator(slot: Slot, value: Any) -> None:
    slot.begin(1)

    def run() -> None:
        slot.backend.get_state(LONG_VALUE).update(value)
        slot.end()  # an integer of more than 64 bits is noticed here

    with pytest.raises(TypeMismatchError, match="state 'value' of operator op"):
        run()


def test_values_that_cannot_be_stored_are_refused_with_the_names_of_state_and_operator(slot: Slot) -> None:
    slot.begin(1)
    slot.backend.get_state(UNTYPED_VALUE).update(threading.Lock())
    with pytest.raises(StateError, match="state 'value' of operator op holds a value that cannot be stored"):
        slot.end()
    assert not slot.state.matches(slot.blob)


def test_an_object_changed_in_place_to_what_is_not_its_type_is_refused_when_the_epoch_ends(slot: Slot) -> None:
    slot.begin(1)
    state = slot.backend.get_state(ValueStateDescriptor("row", Types.ROW_NAMED(["a"], [Types.SQL_DATE()])))
    state.update(Row(a=None))
    state.value()["a"] = "not a date"
    with pytest.raises(StateError, match="state 'row' of operator op"):
        slot.end()


def test_an_untyped_state_that_is_set_to_none_is_cleared(slot: Slot) -> None:
    slot.begin(1)
    state = slot.backend.get_state(UNTYPED_VALUE)
    state.update([1])
    state.update(None)
    assert state.value() is None
    assert slot.keys("value") == []


def test_an_object_changed_in_place_is_what_the_state_holds_until_the_epoch_ends(slot: Slot) -> None:
    slot.begin(1)
    kept: list[int] = [1]
    state = slot.backend.get_state(UNTYPED_VALUE)
    state.update(kept)
    kept.append(2)
    held = state.value()
    assert held is kept
    slot.end()
    kept.append(3)
    slot.begin()
    assert state.value() == [1, 2]
    state.value().append(4)
    slot.end_and_lose_heap()
    slot.key(1)
    assert slot.backend.get_state(UNTYPED_VALUE).value() == [1, 2, 4]


def test_an_epoch_that_only_reads_logs_nothing(slot: Slot) -> None:
    slot.begin(1)
    row = ValueStateDescriptor("row", Types.ROW_NAMED(["a"], [Types.LIST(Types.LONG())]))
    slot.backend.get_state(row).update(Row(a=[1, 2]))
    slot.backend.get_map_state(MapStateDescriptor("map", UNTYPED, UNTYPED)).put("k", [1])
    slot.end()
    slot.begin()
    size = len(slot.end())
    slot.begin()
    assert slot.backend.get_state(row).value() == Row(a=[1, 2])
    assert slot.backend.get_map_state(MapStateDescriptor("map", UNTYPED, UNTYPED)).get("k") == [1]
    assert len(slot.end()) == size


def test_an_element_of_a_long_list_and_an_entry_of_a_large_map_are_logged_alone(slot: Slot) -> None:
    numbers = slot.backend.get_list_state(ListStateDescriptor("list", Types.LONG()))
    texts = slot.backend.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.STRING()))
    slot.begin(1)
    numbers.update(list(range(10_000)))
    texts.put_all(dict.fromkeys(range(10_000), "x"))
    size = len(slot.end())
    slot.begin()
    numbers.add(1)
    texts.put(77, "y")
    assert len(slot.end()) < size + 300


def test_list_state_behaves_as_a_list(slot: Slot) -> None:
    slot.begin(1)
    state = slot.backend.get_list_state(ListStateDescriptor("list", Types.STRING()))
    assert list(state.get()) == []
    state.add("a")
    state.add_all(["b", "c"])
    assert list(state) == ["a", "b", "c"]
    given = state.get()
    given.append("not in the state")  # type: ignore[attr-defined]
    state.update(["d"])
    assert list(state.get()) == ["d"]
    state.update([])
    assert list(state.get()) == []
    assert slot.keys("list") == []
    with pytest.raises(TypeMismatchError):
        state.add(5)
    with pytest.raises(TypeMismatchError):
        state.update(["a", None])


@pytest.mark.parametrize("types", [(Types.STRING(), Types.LONG()), (UNTYPED, UNTYPED)], ids=["typed", "untyped"])
def test_map_state_behaves_as_a_dict_that_gives_none_for_missing_keys(slot: Slot, types: tuple[Any, Any]) -> None:
    slot.begin(1)
    state = slot.backend.get_map_state(MapStateDescriptor("map", *types))
    assert state.is_empty()
    assert state["a"] is None
    state["a"] = 1
    state.put_all({"b": 2})
    state.put_all([("c", 3)])
    assert list(state.items()) == [("a", 1), ("b", 2), ("c", 3)]
    assert list(state.keys()) == list(state) == ["a", "b", "c"]
    assert list(state.values()) == [1, 2, 3]
    assert "a" in state
    assert state.contains("b")
    state.remove("a")
    state.remove("missing")
    del state["b"]
    assert "a" not in state
    state.put("none", None)
    assert state.contains("none")
    assert state.get("none") is None
    slot.end_and_lose_heap()
    slot.begin(1)
    state = slot.backend.get_map_state(MapStateDescriptor("map", *types))
    assert list(state.items()) == [("c", 3), ("none", None)]
    state.clear()
    assert state.is_empty()
    slot.key(2)
    assert state.is_empty()


def test_map_entries_keep_their_order_when_the_heap_is_lost(slot: Slot) -> None:
    descriptor = MapStateDescriptor("map", Types.STRING(), Types.LONG())
    slot.begin(1)
    slot.backend.get_map_state(descriptor).put_all({"a": 1, "b": 2, "c": 3})
    slot.end()
    slot.begin()
    state = slot.backend.get_map_state(descriptor)
    state.remove("a")
    state.put("d", 4)
    state.put("a", 5)
    state.put("b", 6)
    expected = list(state.items())
    slot.end_and_lose_heap()
    slot.key(1)
    assert list(slot.backend.get_map_state(descriptor).items()) == expected == [("b", 6), ("c", 3), ("d", 4), ("a", 5)]


@pytest.mark.parametrize("accumulator", [Types.TUPLE([Types.LONG(), Types.LONG()]), UNTYPED], ids=["typed", "untyped"])
def test_aggregating_state_aggregates_and_none_clears_it(slot: Slot, accumulator: Any) -> None:
    slot.begin(1)
    state = slot.backend.get_aggregating_state(AggregatingStateDescriptor("average", Mean(), accumulator))
    assert state.get() is None
    state.add(1)
    state.add(4)
    assert state.get() == 2.5
    state.add(None)
    assert state.get() is None
    state.add(3)
    state.clear()
    assert state.get() is None


def test_reducing_state_reduces(slot: Slot) -> None:
    slot.begin(1)
    state = slot.backend.get_reducing_state(ReducingStateDescriptor("max", max, Types.LONG()))
    assert state.get() is None
    for value in (2, 5, 3):
        state.add(value)
    assert state.get() == 5
    state.clear()
    assert state.get() is None


@pytest.mark.parametrize("typed", [False, True])
def test_a_reduce_function_that_forgets_to_return_its_result_is_refused(slot: Slot, typed: bool) -> None:
    slot.begin(1)
    descriptor = ReducingStateDescriptor("lists", list.extend, Types.LIST(Types.LONG()) if typed else UNTYPED)
    state = slot.backend.get_reducing_state(descriptor)
    state.add([1])
    with pytest.raises(InvalidArgumentError, match=r"reduce of state 'lists' .* must return the combined record; got None"):
        state.add([2])


def test_a_reduce_function_may_return_a_record_that_is_none(slot: Slot) -> None:
    slot.begin(1)
    state = slot.backend.get_reducing_state(ReducingStateDescriptor("last", lambda one, other: other, UNTYPED))
    for value in (1, None, 2):
        state.add(value)
        assert state.get() == value


class Appending(AggregateFunction):
    """Forgets to return what it changes."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add(self, value: Any, accumulator: list[Any]) -> None:
        accumulator.append(value)

    def get_result(self, accumulator: list[Any]) -> list[Any]:
        return accumulator

    def merge(self, acc_a: list[Any], acc_b: list[Any]) -> None:
        acc_a.extend(acc_b)


def test_an_aggregate_function_that_forgets_to_return_its_accumulator_is_refused(slot: Slot) -> None:
    slot.begin(1)
    state = slot.backend.get_aggregating_state(AggregatingStateDescriptor("all", Appending(), UNTYPED))
    with pytest.raises(InvalidArgumentError, match=r"add of state 'all' .* must return the accumulator; got None"):
        state.add(1)


def test_an_aggregate_function_may_begin_with_none(slot: Slot) -> None:
    slot.begin(1)
    state = slot.backend.get_aggregating_state(AggregatingStateDescriptor("greatest", Greatest(), UNTYPED))
    found = []
    for value in (-1, 5, -2, 3):
        state.add(value)
        found.append(state.get())
    assert found == [None, 5, 5, 5]


def test_keys_that_cannot_be_hashed_work_wrapped(make_slot: Callable[..., Slot]) -> None:
    from flinkish.runtime.keys import as_key

    slot = make_slot(key_type=UNTYPED)
    slot.begin(as_key([1, {"a": 2}]))
    slot.backend.get_state(UNTYPED_VALUE).update("x")
    slot.end_and_lose_heap()
    slot.key(as_key([1, {"a": 2}]))
    assert slot.backend.get_state(UNTYPED_VALUE).value() == "x"
    assert slot.keys("value") == [[1, {"a": 2}]]


def test_internal_tables_are_dicts_that_live_from_epoch_to_epoch(slot: Slot) -> None:
    slot.begin()
    table = slot.operator.internal("gate")
    assert table.get("watermark", -1) == -1
    table["watermark"] = 5
    table["channels"] = [(0, 1, 2)]
    table["gone"] = 1
    slot.end()
    slot.begin()
    del table["gone"]
    slot.end_and_lose_heap()
    assert dict(slot.operator.internal("gate")) == {"watermark": 5, "channels": [(0, 1, 2)]}
    assert slot.snapshot() == ()

from __future__ import annotations

from typing import Any

import pytest

from flinkish.common.time import Time
from flinkish.common.typeinfo import Types
from flinkish.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tests.unit.runtime.state.harness import Slot

UNTYPED = Types.PICKLED_BYTE_ARRAY()


def config(*, on_read: bool = False, show_expired: bool = False) -> StateTtlConfig:
    builder = StateTtlConfig.new_builder(Time.milliseconds(10))
    if on_read:
        builder.update_ttl_on_read_and_write()
    if show_expired:
        builder.return_expired_if_not_cleaned_up()
    return builder.build()


def with_ttl(descriptor: Any, ttl: StateTtlConfig) -> Any:
    assert isinstance(descriptor, StateDescriptor)
    descriptor.enable_time_to_live(ttl)
    return descriptor


def value_state(slot: Slot, ttl: StateTtlConfig, type_info: Any = None) -> Any:
    return slot.backend.get_state(with_ttl(ValueStateDescriptor("value", type_info or Types.LONG()), ttl))


@pytest.fixture(params=[Types.LONG(), UNTYPED, Types.LIST(Types.LONG())], ids=["long", "untyped", "list"])
def type_info(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_a_value_expires_when_its_time_is_over(slot: Slot, type_info: Any) -> None:
    value: Any = [5] if type_info == Types.LIST(Types.LONG()) else 5
    slot.begin(1)
    state = value_state(slot, config(), type_info)
    state.update(value)
    slot.now = 9
    assert state.value() == value
    slot.end_and_lose_heap()
    slot.begin(1)
    state = value_state(slot, config(), type_info)
    assert state.value() == value
    slot.now = 10
    assert state.value() is None
    slot.now = 5
    assert state.value() is None, "it was removed when it was found expired"


def test_a_write_prolongs_the_life_of_a_value_and_a_read_only_if_so_configured(slot: Slot) -> None:
    slot.begin(1)
    state = value_state(slot, config())
    state.update(1)
    slot.now = 8
    assert state.value() == 1
    state.update(2)
    slot.now = 17
    assert state.value() == 2
    slot.now = 18
    assert state.value() is None


def test_a_read_prolongs_the_life_of_a_value_if_so_configured(slot: Slot) -> None:
    slot.begin(1)
    state = value_state(slot, config(on_read=True))
    state.update(1)
    slot.now = 8
    assert state.value() == 1
    slot.now = 17
    assert state.value() == 1
    slot.end_and_lose_heap()
    slot.begin(1)
    slot.now = 26
    assert value_state(slot, config(on_read=True)).value() == 1


def test_an_expired_value_is_seen_once_if_that_is_allowed(slot: Slot) -> None:
    slot.begin(1)
    state = value_state(slot, config(show_expired=True))
    state.update(1)
    slot.now = 20
    assert state.value() == 1
    assert state.value() is None


def test_list_elements_expire_one_by_one(slot: Slot) -> None:
    slot.begin(1)
    state = slot.backend.get_list_state(with_ttl(ListStateDescriptor("list", Types.STRING()), config()))
    state.add("a")
    slot.now = 5
    state.add_all(["b", "c"])
    slot.now = 12
    assert list(state.get()) == ["b", "c"]
    slot.now = 15
    assert list(state.get()) == []
    state.update(["d"])
    slot.end_and_lose_heap()
    slot.key(1)
    state = slot.backend.get_list_state(with_ttl(ListStateDescriptor("list", Types.STRING()), config()))
    assert list(state) == ["d"]


def test_map_entries_expire_one_by_one(slot: Slot) -> None:
    slot.begin(1)
    state = slot.backend.get_map_state(with_ttl(MapStateDescriptor("map", Types.STRING(), UNTYPED), config()))
    state.put("a", [1])
    slot.now = 5
    state.put("b", [2])
    slot.now = 12
    assert list(state.items()) == [("b", [2])]
    assert not state.contains("a")
    assert state.get("a") is None
    assert list(state.keys()) == ["b"]
    slot.now = 15
    assert state.is_empty()
    assert slot.keys("map") == []


def test_reads_of_list_and_map_prolong_life_if_so_configured(slot: Slot) -> None:
    slot.begin(1)
    elements = slot.backend.get_list_state(with_ttl(ListStateDescriptor("list", UNTYPED), config(on_read=True)))
    entries = slot.backend.get_map_state(with_ttl(MapStateDescriptor("map", UNTYPED, UNTYPED), config(on_read=True)))
    elements.add("a")
    entries.put("a", 1)
    for slot.now in (8, 16, 24):
        assert list(elements.get()) == ["a"]
        assert entries.get("a") == 1
        assert entries.contains("a")


def test_a_reduction_starts_anew_when_it_has_expired(slot: Slot) -> None:
    slot.begin(1)
    descriptor = with_ttl(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()), config())
    state = slot.backend.get_reducing_state(descriptor)
    state.add(1)
    slot.now = 9
    state.add(2)
    slot.now = 18
    assert state.get() == 3
    slot.now = 19
    state.add(5)
    assert state.get() == 5


def test_expired_values_that_nobody_reads_are_swept_out(slot: Slot, type_info: Any) -> None:
    value: Any = [5] if type_info == Types.LIST(Types.LONG()) else 5
    slot.begin()
    state = value_state(slot, config(), type_info)
    elements = slot.backend.get_list_state(with_ttl(ListStateDescriptor("list", type_info), config()))
    entries = slot.backend.get_map_state(with_ttl(MapStateDescriptor("map", UNTYPED, type_info), config()))
    for key in range(100):
        slot.key(key)
        state.update(value)
        elements.add(value)
        entries.put("k", value)
    slot.end()
    slot.now = 10
    for _ in range(2):
        slot.begin()
        slot.end()
    for name in ("value", "list", "map"):
        assert slot.keys(name) == []
    slot.lose_heap()
    value_state(slot, config(), type_info)
    assert slot.keys("value") == []


def test_expired_values_are_in_no_checkpoint(slot: Slot) -> None:
    slot.begin()
    state = value_state(slot, config())
    slot.key(1)
    state.update(1)
    slot.now = 10
    assert slot.snapshot() == ()
    slot.key(2)
    state.update(2)
    (file,) = slot.snapshot(2)
    assert file.rows == 2  # the value and its schema row


def test_disabled_time_to_live_changes_nothing(slot: Slot) -> None:
    builder = StateTtlConfig.new_builder(Time.milliseconds(10)).set_update_type(StateTtlConfig.UpdateType.Disabled)
    slot.begin(1)
    state = value_state(slot, builder.build())
    state.update(1)
    slot.now = 100
    assert state.value() == 1

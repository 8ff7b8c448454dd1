"""Restored values are converted to the types that the program declares now."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

from flinkish.common import Row, Time, Types, pickling
from flinkish.common.errors import ConfigurationError, ForeignCheckpointError
from flinkish.runtime.key_groups import key_group, subtask_of_group
from flinkish.runtime.state.keyed import KeyedStateBackend
from flinkish.udf.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from tests.kit.stateful import declare_without_types
from tests.unit.runtime.state.harness import MAX_PARALLELISM, Slot

MakeSlot = Callable[..., Slot]
OLD = Types.ROW_NAMED(["id"], [Types.INT()])
NEW = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])


def with_ttl(descriptor: Any) -> Any:
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
    return descriptor


def go_on(slot: Slot, make_slot: MakeSlot, key: Any = 1) -> Slot:
    """Restore a checkpoint of a slot into another one."""
    files = slot.snapshot()
    slot.end()
    restored = make_slot(attempt="second").restore(files)
    restored.key(key)
    return restored


@pytest.mark.parametrize("before_ttl", [False, True])
@pytest.mark.parametrize("after_ttl", [False, True])
def test_values_get_the_declared_fields_with_or_without_a_time_to_live(
    slot: Slot, make_slot: MakeSlot, before_ttl: bool, after_ttl: bool
) -> None:
    def descriptor(type_info: Any, ttl: bool) -> ValueStateDescriptor:
        made = ValueStateDescriptor("order", type_info)
        return with_ttl(made) if ttl else made

    slot.begin()
    slot.now = 1_000
    slot.key(1)
    slot.backend.get_state(descriptor(OLD, before_ttl)).update(Row(id=7))
    restored = go_on(slot, make_slot)
    state = restored.backend.get_state(descriptor(NEW, after_ttl))

    assert state.value() == Row(id=7, name=None)
    state.update(Row(id=8, name="x"))
    again = go_on(restored, make_slot)
    assert again.backend.get_state(descriptor(NEW, after_ttl)).value() == Row(id=8, name="x")


def test_lists_maps_and_accumulators_are_converted(slot: Slot, make_slot: MakeSlot) -> None:
    slot.begin(1)
    slot.backend.get_list_state(ListStateDescriptor("list", OLD)).update([Row(id=1), Row(id=2)])
    slot.backend.get_map_state(MapStateDescriptor("map", Types.STRING(), OLD)).put("a", Row(id=3))
    slot.backend.get_reducing_state(ReducingStateDescriptor("max", max, Types.INT())).add(4)
    slot.operator.list_state(ListStateDescriptor("kept", OLD)).add(Row(id=5))
    slot.operator.broadcast_state(MapStateDescriptor("rules", Types.STRING(), OLD)).put("b", Row(id=6))
    restored = go_on(slot, make_slot)

    backend: KeyedStateBackend = restored.backend
    assert list(backend.get_list_state(ListStateDescriptor("list", NEW))) == [Row(id=1, name=None), Row(id=2, name=None)]
    assert dict(backend.get_map_state(MapStateDescriptor("map", Types.STRING(), NEW)).items()) == {"a": Row(id=3, name=None)}
    reducing = backend.get_reducing_state(ReducingStateDescriptor("max", max, Types.BIG_INT()))
    reducing.add(2**70)
    assert reducing.get() == 2**70
    assert list(restored.operator.list_state(ListStateDescriptor("kept", NEW)).get()) == [Row(id=5, name=None)]
    rules = restored.operator.broadcast_state(MapStateDescriptor("rules", Types.STRING(), NEW))
    assert dict(rules.items()) == {"b": Row(id=6, name=None)}


@pytest.mark.parametrize(
    ("descriptor", "reason"),
    [
        (ValueStateDescriptor("order", Types.ROW_NAMED(["number"], [Types.INT()])), "'id' would become those of 'number'"),
        (
            ValueStateDescriptor("order", Types.ROW_NAMED(["number", "x"], [Types.INT()] * 2)),
            "the field id would lose its values",
        ),
        (ValueStateDescriptor("order", Types.ROW_NAMED(["id"], [Types.STRING()])), "Integer cannot become String"),
        (ListStateDescriptor("order", NEW), "is declared as list state"),
        (ReducingStateDescriptor("order", max, NEW), "is declared as reducing state"),
    ],
)
def test_what_would_lose_its_meaning_is_refused_with_both_types(
    slot: Slot, make_slot: MakeSlot, descriptor: Any, reason: str
) -> None:
    slot.begin(1)
    slot.backend.get_state(ValueStateDescriptor("order", OLD)).update(Row(id=7))
    restored = go_on(slot, make_slot)

    with pytest.raises(ForeignCheckpointError, match=r"stored as value state of type RowTypeInfo\(id: Integer\)") as error:
        restored.backend.get(descriptor)
    assert reason in str(error.value)


def test_the_type_of_keys_cannot_change_with_that_of_values(make_slot: MakeSlot) -> None:
    slot = make_slot(key_type=Types.INT())
    slot.begin(1)
    slot.backend.get_state(ValueStateDescriptor("order", OLD)).update(Row(id=7))
    files = slot.snapshot()
    restored = make_slot(attempt="second", key_type=Types.LONG()).restore(files)

    with pytest.raises(ForeignCheckpointError, match="keys of type Integer cannot become keys of type Long"):
        restored.backend.get_state(ValueStateDescriptor("order", NEW))


def test_a_checkpoint_without_types_is_refused_as_before(
    slot: Slot, make_slot: MakeSlot, monkeypatch: pytest.MonkeyPatch
) -> None:
    declare_without_types(monkeypatch)
    slot.begin(1)
    slot.backend.get_state(ValueStateDescriptor("order", OLD)).update(Row(id=7))
    restored = go_on(slot, make_slot)

    with pytest.raises(ForeignCheckpointError, match=r"stored as .* is declared as"):
        restored.backend.get_state(ValueStateDescriptor("order", NEW))


def test_rows_whose_fields_were_exchanged_in_two_steps_are_not_mixed(make_slot: MakeSlot) -> None:
    """One subtask has removed a field and added another; the other has not asked for the state since before."""
    files: list[Any] = []
    for subtask, name in enumerate(("old", "new")):
        fields = Types.ROW_NAMED(["id", name], [Types.INT(), Types.INT()])
        slot = make_slot(subtask=subtask, parallelism=2)
        slot.begin()
        key = next(key for key in range(20) if subtask_of_group(key_group(key, MAX_PARALLELISM), MAX_PARALLELISM, 2) == subtask)
        slot.key(key)
        slot.backend.get_state(ValueStateDescriptor("order", fields)).update(Row(**{"id": 1, name: 2}))
        files.extend(slot.snapshot())

    for order in (files, files[::-1]):
        with pytest.raises(ForeignCheckpointError, match=r"state 'order' of operator .* some subtasks have stored it as"):
            make_slot(attempt="second").restore(tuple(order), old_parallelism=2)


def _classes(source: str) -> ModuleType:
    """Make the classes of the program, in a version of its own."""
    module = ModuleType("shop")
    sys.modules["shop"] = module
    exec(f"import enum, dataclasses\n\n{source}", module.__dict__)
    return module


def test_a_dataclass_gets_a_field_with_a_default_and_loses_another(slot: Slot, make_slot: MakeSlot, own_modules: None) -> None:
    state = ValueStateDescriptor("cart", Types.PICKLED_BYTE_ARRAY())
    old = _classes("@dataclasses.dataclass\nclass Cart:\n    owner: str\n    total: int\n\nclass Colour(enum.Enum):\n    RED = 1")
    slot.begin(1)
    slot.backend.get_state(state).update((old.Cart("a", 3), old.Colour.RED))
    files = slot.snapshot()
    new = _classes(
        "@dataclasses.dataclass\nclass Cart:\n    owner: str\n    currency: str = 'EUR'\n\n"
        "class Colour(enum.Enum):\n    CRIMSON = 1"
    )
    restored = make_slot(attempt="second").restore(files, pickle_allowed=True)
    restored.key(1)

    assert restored.backend.get_state(state).value() == (new.Cart("a", "EUR"), new.Colour.CRIMSON)


@pytest.fixture
def own_modules() -> Iterator[None]:
    yield
    sys.modules.pop("shop", None)


@pytest.fixture
def own_aliases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pickling, "_aliases", {})


def test_a_renamed_class_is_found_by_its_alias(slot: Slot, make_slot: MakeSlot, own_modules: None, own_aliases: None) -> None:
    state = ValueStateDescriptor("cart", Types.PICKLED_BYTE_ARRAY())
    cart = "@dataclasses.dataclass\nclass Cart:\n    owner: str\n"
    old = _classes(cart)
    slot.begin(1)
    slot.backend.get_state(state).update([old.Cart("a")])
    files = slot.snapshot()
    new = _classes(cart.replace("class Cart", "class Basket"))

    def value() -> Any:
        restored = make_slot(attempt="second").restore(files, pickle_allowed=True)
        restored.key(1)
        return restored.backend.get_state(state).value()

    with pytest.raises(AttributeError, match="Cart"):
        value()
    pickling.use_aliases({"shop.Cart": "shop.Basket"})
    assert value() == [new.Basket("a")]
    pickling.use_aliases({"shop.Cart": "shop.Nothing"})
    with pytest.raises(ConfigurationError, match=r"class-aliases: 'shop.Nothing', the new name of shop.Cart, cannot be imported"):
        value()

"""Tables grouped by namespace or key: what they hold, log and write is what tables by address do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkish.common import pickling
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.datastream.state import ListStateDescriptor, ReducingStateDescriptor
from flinkish.runtime.state.heap.backend import HeapBackend
from flinkish.runtime.state.heap.grouped import HeapGroupedLists, HeapPaneTable
from flinkish.runtime.state.heap.tables import HeapTable
from flinkish.runtime.state.tables import LIST, REDUCING, Grouping, Namespaced, TableMeta
from tests.unit.runtime.state.harness import Slot

KEYS, WINDOWS = st.sampled_from("abc"), st.sampled_from([(0, 10), (10, 20), (20, 30)])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), WINDOWS, KEYS, st.integers(0, 9)),
        st.tuples(st.just("put"), WINDOWS, KEYS, st.integers(0, 9)),
        st.tuples(st.just("remove"), WINDOWS, KEYS),
        st.tuples(st.just("clear"), WINDOWS),
        st.just(("log",)),
        st.just(("dump",)),
    ),
    max_size=30,
)
#: Values that cannot change, that can, and of any type.
TYPES = [Types.LONG(), Types.LIST(Types.LONG()), Types.PICKLED_BYTE_ARRAY()]


def value_of(type_info: TypeInformation, number: int) -> Any:
    return [number] if type_info == TYPES[1] else number


def meta_of(kind: str, type_info: TypeInformation, grouped_by: Grouping) -> TableMeta:
    return TableMeta(kind=kind, key_type=Types.STRING(), types=(type_info,), max_parallelism=16, grouped_by=grouped_by)


def replayed(table: HeapTable, changes: list[Any]) -> HeapTable:
    copy = HeapBackend().make_table(("op", "keyed", "state"), table.meta)
    for full, change in changes:
        if full:
            copy = HeapBackend().make_table(("op", "keyed", "state"), table.meta)
        copy.apply(pickling.loads(change))
    return copy


def logged(table: HeapTable) -> list[tuple[bool, bytes]]:
    changes = table.take_changes()
    return [] if changes is None else [(False, pickling.dumps(changes))]


def played(
    table: HeapPaneTable | HeapGroupedLists, type_info: TypeInformation, steps: list[Any], put: Callable[..., None]
) -> tuple[dict[Any, dict[str, Any]], list[tuple[bool, bytes]]]:
    """Play the steps on a table and on a model, and return the model and the log; `put` puts a value into both."""
    model: dict[Any, dict[str, Any]] = {}
    log: list[tuple[bool, bytes]] = []
    for step in [*steps, ("log",)]:
        match step:
            case "put", group, member, number:
                put(model.setdefault(group, {}), group, member, value_of(type_info, number))
            case "remove", group, member:
                table.remove(group, member)
                if model.get(group, {}).pop(member, None) is not None and not model[group]:
                    del model[group]
            case "clear", group:
                table.clear(group)
                model.pop(group, None)
            case ("log",):
                log += logged(table)
            case _:
                log += logged(table)
                log.append((True, pickling.dumps(table.dump())))
        assert table.is_empty() == (not model)
    return model, log


@pytest.mark.parametrize("type_info", TYPES, ids=repr)
@settings(max_examples=100, deadline=None)
@given(steps=STEPS)
def test_panes_are_those_of_a_model_also_when_the_log_is_replayed(type_info: TypeInformation, steps: list[Any]) -> None:
    table = HeapBackend().make_table(("op", "keyed", "state"), meta_of(REDUCING, type_info, "namespace"))
    assert isinstance(table, HeapPaneTable)

    def put(members: dict[str, Any], window: Any, key: str, value: Any) -> None:
        table.put(window, key, value)
        members[key] = value

    model, log = played(table, type_info, steps, put)
    for found in (table, replayed(table, log)):
        assert isinstance(found, HeapPaneTable)
        assert {window: list(found.copies(window)) for window in found.data} == {
            window: list(entries.items()) for window, entries in model.items()
        }


@pytest.mark.parametrize("grouped_by", ["namespace", "key"])
@pytest.mark.parametrize("type_info", TYPES, ids=repr)
@settings(max_examples=100, deadline=None)
@given(steps=STEPS)
def test_lists_are_those_of_a_model_also_when_the_log_is_replayed(
    grouped_by: Grouping, type_info: TypeInformation, steps: list[Any]
) -> None:
    table = HeapBackend().make_table(("op", "keyed", "state"), meta_of(LIST, type_info, grouped_by))
    assert isinstance(table, HeapGroupedLists)

    def put(members: dict[str, list[Any]], group: Any, member: str, value: Any) -> None:
        table.append(group, member, table.codec.freeze(value))
        members.setdefault(member, []).append(value)

    model, log = played(table, type_info, steps, put)
    for found in (table, replayed(table, log)):
        assert isinstance(found, HeapGroupedLists)
        thawed = {group: {member: found.get(group, member) for member in members} for group, members in found.data.items()}
        assert thawed == model


def test_a_copy_can_be_changed_without_changing_the_state() -> None:
    table = HeapBackend().make_table(("op", "keyed", "state"), meta_of(REDUCING, Types.LIST(Types.LONG()), "namespace"))
    assert isinstance(table, HeapPaneTable)
    table.put((0, 10), "a", [1])
    table.copy((0, 10), "a").append(2)
    for _, value in table.copies((0, 10)):
        value.append(3)
    assert table.copy((0, 10), "a") == [1]
    assert table.copy((0, 10), "b") is None


@pytest.mark.parametrize(
    "descriptor",
    [ReducingStateDescriptor("windows", lambda a, b: a + b, Types.LONG()), ListStateDescriptor("windows", Types.LONG())],
    ids=["values", "lists"],
)
def test_a_checkpoint_does_not_tell_how_the_heap_was_grouped(descriptor: Any, make_slot: Callable[..., Slot]) -> None:
    slot = make_slot(key_type=Types.STRING())
    filled, _ = slot.backend.grouped_table_of(descriptor, "namespace")
    put = filled.put if isinstance(filled, HeapPaneTable) else filled.append
    expected = {Namespaced(key, window): window[0] for window in ((0, 10), (10, 20)) for key in "abc"}
    for address, number in expected.items():
        put(address.namespace, address.key, number)
    files = slot.snapshot()
    for grouped_by in ("address", "namespace"):
        other = make_slot(key_type=Types.STRING(), attempt=grouped_by).restore(files)
        if grouped_by == "address":
            table, _ = other.backend.table_of(descriptor)
        else:
            table, _ = other.backend.grouped_table_of(descriptor, "namespace")
        found = {
            address: value if isinstance(value, int) else value[0] for address, value in table.frozen().by_kind[table.meta.kind]
        }
        assert found == expected

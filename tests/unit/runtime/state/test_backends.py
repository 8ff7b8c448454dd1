"""What every state backend must fulfil; see flinkish/runtime/state/backend.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinkish.common import options, pickling
from flinkish.common.configuration import Configuration
from flinkish.common.errors import StateError
from flinkish.common.typeinfo import Types
from flinkish.datastream.functions import ReduceFunction
from flinkish.runtime.state import tables
from flinkish.runtime.state.backend import StateBackend
from flinkish.runtime.state.backends import make_backend
from flinkish.runtime.state.handles import Fold, OneAddress
from flinkish.runtime.state.tables import OPERATOR_ADDRESS, Grouping, Namespaced, TableMeta

LISTS = Types.LIST(Types.LONG())
WINDOW = (0, 10)
FIRST, SECOND = Namespaced(1, WINDOW), Namespaced(2, WINDOW)


def meta(kind: str, *types: Any, grouped_by: Grouping = "address", keyed: bool = True) -> TableMeta:
    return TableMeta(kind=kind, key_type=Types.LONG() if keyed else None, types=types, max_parallelism=4, grouped_by=grouped_by)


METAS = {
    "value": meta(tables.VALUE, Types.LONG()),
    "objects": meta(tables.VALUE, LISTS),
    "lists": meta(tables.LIST, Types.STRING()),
    "map": meta(tables.MAP, Types.STRING(), LISTS),
    "panes": meta(tables.REDUCING, Types.LONG(), grouped_by="namespace"),
    "object panes": meta(tables.AGGREGATING, LISTS, grouped_by="namespace"),
    "joined": meta(tables.LIST, Types.LONG(), grouped_by="key"),
    "timers": meta(tables.TIMERS),
    "operator list": meta(tables.OPERATOR_LIST, Types.LONG(), keyed=False),
    "broadcast": meta(tables.OPERATOR_BROADCAST, Types.STRING(), Types.LONG(), keyed=False),
    "internal": tables.INTERNAL_META,
}


class Add(ReduceFunction):
    def reduce(self, value1: Any, value2: Any) -> Any:
        return value1 + value2


def address(name: str) -> tuple[str, str, str]:
    return "op", "test", name


def make() -> StateBackend:
    return make_backend(Configuration())


def begun(backend: StateBackend) -> dict[str, Any]:
    return {name: backend.create(address(name), declared) for name, declared in METAS.items()}


def fill(found: dict[str, Any]) -> None:
    found["value"].put(1, 10)
    found["value"].put(SECOND, 20)
    found["objects"].put(1, [1])
    found["lists"].append(1, "a")
    found["lists"].append(1, "b")
    found["map"].put(1, "x", [1])
    found["map"].put(1, "y", [2])
    fold = Fold(Add(), "test")
    found["panes"].fold([WINDOW], [1, 2, 1], [3, 6, 2], fold, OneAddress())
    found["object panes"].fold([WINDOW], [1], [[7]], fold, OneAddress())
    found["joined"].append(1, 1_000, 8)
    found["joined"].append(1, 2_000, 9)
    found["timers"].event_time.register(30, 1)
    found["timers"].event_time.register(20, SECOND)
    found["timers"].processing_time.register(40, 1)
    found["operator list"].append(OPERATOR_ADDRESS, 3)
    found["broadcast"].put(OPERATOR_ADDRESS, "k", 4)
    found["internal"]["gate"] = [1, 2]


def change(found: dict[str, Any]) -> None:
    found["value"].remove(1)
    found["objects"].get(1).append(2)  # in place
    found["lists"].append(1, "c")
    found["map"].remove(1, "x")
    found["map"].put(2, "z", [])
    found["panes"].clear(WINDOW)
    found["object panes"].fold([WINDOW], [1], [[8]], Fold(Add(), "test"), OneAddress())
    found["joined"].remove(1, 1_000)
    found["timers"].event_time.delete(30, 1)
    found["operator list"].replace(OPERATOR_ADDRESS, [5, 6])
    found["broadcast"].remove(OPERATOR_ADDRESS, "k")
    del found["internal"]["gate"]


def content(backend: StateBackend) -> dict[str, Any]:
    """Return what is in the tables, as a checkpoint sees it; of internal ones and timers all there is."""
    seen: dict[str, Any] = {}
    for (_, _, name), table in backend.tables.items():
        shown: Any = table
        if name == "timers":
            seen[name] = list(shown.event_time), list(shown.processing_time), shown.event_time.next()
        elif name == "internal":
            seen[name] = dict(shown)
        else:
            seen[name] = list(shown.rows())
    return seen


def test_a_backend_holds_what_is_put_into_its_tables() -> None:
    backend = make()
    found = begun(backend)
    assert all(table.is_empty() for table in backend.tables.values())
    fill(found)
    assert found["value"].get(1) == 10
    assert found["lists"].get(1) == ["a", "b"]
    assert found["map"].entries(1) == [("x", [1]), ("y", [2])]
    assert found["panes"].groups() == [WINDOW]
    assert found["panes"].members(WINDOW) == [1, 2]
    assert dict(found["panes"].copies(WINDOW)) == {1: 5, 2: 6}
    assert found["object panes"].copy(WINDOW, 1) == [7]
    assert found["joined"].get(1, 2_000) == [9]
    assert not any(table.is_empty() for table in backend.tables.values())
    change(found)
    assert content(backend)["value"] == [(SECOND, 20)]
    assert found["lists"].get(1) == ["a", "b", "c"]
    assert (found["map"].has(1), found["map"].members(1), found["map"].contains(1, "x")) == (True, ["y"], False)
    assert found["panes"].is_empty()
    assert found["joined"].members(1) == [2_000]
    assert list(found["timers"].event_time) == [(20, SECOND)]


def by_changes(backend: StateBackend, log: list[bytes]) -> StateBackend:
    copy = make()
    for entry in log:
        copy.apply(pickling.loads(entry))
    return copy


def by_dump(backend: StateBackend, log: list[bytes]) -> StateBackend:
    copy = make()
    copy.apply(pickling.loads(pickling.dumps(backend.dump())))
    return copy


@pytest.mark.parametrize("copied", [by_changes, by_dump])
def test_a_backend_given_the_same_entries_holds_the_same(copied: Callable[..., StateBackend]) -> None:
    backend, log = make(), []
    found = begun(backend)
    for step in (fill, change):
        step(found)
        log.append(pickling.dumps(backend.take_changes()))
        assert backend.take_changes() is None
        assert content(copied(backend, log)) == content(backend)
    assert found["objects"].get(1) == [1, 2]
    assert found["object panes"].copy(WINDOW, 1) == [7, 8]


def test_a_table_loads_the_rows_of_another() -> None:
    backend, other = make(), make()
    found = begun(backend)
    fill(found)
    loaded = begun(other)
    for name in METAS:
        source = found[name]
        if name == "timers":
            for domain in ("event_time", "processing_time"):
                by_time = {timestamp: [where] for timestamp, where in getattr(source, domain)}
                getattr(loaded[name], domain).load(by_time)
        elif name != "internal":  # which is in no checkpoint
            loaded[name].load(*zip(*source.rows(), strict=True))
    loaded["internal"].update(found["internal"])
    assert content(other) == content(backend)


def test_expired_values_are_dropped_but_those_that_are_in_use() -> None:
    backend = make()
    found = begun(backend)
    fill(found)
    backend.take_changes()
    places = {name: found[name].addresses() for name in ("value", "objects", "lists", "map")}
    found["objects"].get(1)  # in use from here on
    for name, addresses in places.items():
        found[name].drop_expired(addresses, lambda frozen: frozen != "b")
    assert (found["value"].addresses(), found["objects"].addresses()) == ([], [1])
    assert found["lists"].get(1) == ["b"]
    assert found["map"].is_empty()


def test_a_value_that_cannot_be_stored_is_named_with_its_state() -> None:
    backend = make()
    table: Any = backend.create(address("value"), meta(tables.VALUE, Types.PICKLED_BYTE_ARRAY()))
    table.put(1, (open,))
    table.put(2, (item for item in ()))
    with pytest.raises(StateError, match="state 'value' of operator op"):
        backend.take_changes()


@pytest.mark.parametrize("name", ["hashmap", "rocksdb"])
def test_each_value_of_the_option_names_a_backend(name: str) -> None:
    configuration = Configuration()
    configuration.set_string(options.STATE_BACKEND.key, name)
    backend = make_backend(configuration)
    begun(backend)
    assert set(backend.tables) == {address(each) for each in METAS}

"""What every state backend must fulfil; see flinkish/runtime/state/backend.py."""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.common.errors import EngineError, StateError
from flinkish.common.ids import CheckpointId, OperatorUid
from flinkish.common.typeinfo import Types
from flinkish.runtime.protocol import Barrier, Restore, StateFile
from flinkish.runtime.state import tables
from flinkish.runtime.state.backend import Snapshot, SnapshotFiles, StateBackend
from flinkish.runtime.state.backends import make_backend
from flinkish.runtime.state.handles import Fold, OneAddress
from flinkish.runtime.state.positions import Identity, Place
from flinkish.runtime.state.restore import category_of, read_state
from flinkish.runtime.state.restore import fill as fill_table
from flinkish.runtime.state.rows import RestoreRequest
from flinkish.runtime.state.tables import OPERATOR_ADDRESS, Grouping, Namespaced, TableMeta
from tests.kit.backends import BACKENDS
from tests.kit.functions import Add
from tests.unit.runtime.state.harness import barrier

Make = Callable[..., StateBackend]
UID = OperatorUid("op")
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


def address(name: str) -> tuple[str, str, str]:
    return "op", "test", name


@pytest.fixture(params=sorted(BACKENDS))
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., StateBackend]:
    """Make an empty backend; all of a slot have the same place, and each closes the one before."""
    open_ones: dict[int, StateBackend] = {}

    def make_one(slot: int = 0) -> StateBackend:
        if slot in open_ones:
            open_ones[slot].close()
        backend = open_ones[slot] = BACKENDS[request.param]()
        owner = Identity(attempt_id="attempt", slot=slot, level=1)
        backend.open(Place(owner=owner, folder=tmp_path / "scratch", disk=tmp_path / "disk"))
        return backend

    return make_one


def recovered(backend: StateBackend, position: tuple[int, str], kept: bytes) -> StateBackend:
    backend.recover(position, kept)
    return backend


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
    """Return what is in the tables; of operator state, timers and the runtime's own data all there is."""
    seen: dict[str, Any] = {}
    for (_, _, name), table in backend.tables.items():
        shown: Any = table
        match name:
            case "timers":
                seen[name] = list(shown.event_time), list(shown.processing_time), shown.event_time.next()
            case "internal":
                seen[name] = dict(shown)
            case "map" | "broadcast":
                seen[name] = {at: list(shown.entries(at)) for at in shown.addresses()}
            case "panes" | "object panes":
                seen[name] = {window: list(shown.copies(window)) for window in shown.groups()}
            case "joined":
                seen[name] = {key: [(at, shown.get(key, at)) for at in shown.members(key)] for key in shown.groups()}
            case _:
                seen[name] = [(at, shown.get(at)) for at in shown.addresses()]
    return copy.deepcopy(seen)


# -- tables ----------------------------------------------------------------------------------------------------------------------


def test_a_backend_holds_what_is_put_into_its_tables(make: Make) -> None:
    backend = make()
    found = begun(backend)
    assert all(table.is_empty() for table in backend.tables.values())
    fill(found)
    assert found["value"].get(1) == 10
    assert found["lists"].get(1) == ["a", "b"]
    assert list(found["map"].entries(1)) == [("x", [1]), ("y", [2])]
    assert list(found["panes"].groups()) == [WINDOW]
    assert list(found["panes"].members(WINDOW)) == [1, 2]
    assert dict(found["panes"].copies(WINDOW)) == {1: 5, 2: 6}
    assert found["object panes"].copy(WINDOW, 1) == [7]
    assert found["joined"].get(1, 2_000) == [9]
    assert not any(table.is_empty() for table in backend.tables.values())
    change(found)
    assert content(backend)["value"] == [(SECOND, 20)]
    assert found["lists"].get(1) == ["a", "b", "c"]
    assert (found["map"].has(1), list(found["map"].members(1)), found["map"].contains(1, "x")) == (True, ["y"], False)
    assert found["panes"].is_empty()
    assert list(found["joined"].members(1)) == [2_000]
    assert list(found["timers"].event_time) == [(20, SECOND)]


def test_a_table_may_be_changed_while_it_is_iterated(make: Make) -> None:
    found = begun(make())
    for name in ("value", "objects", "lists"):
        table = found[name]
        put = table.append if name == "lists" else table.put
        for key in range(5):
            put(key, [key] if name == "objects" else str(key) if name == "lists" else key)
        for key in table.addresses():
            table.remove(key)
            put(key + 100, [key] if name == "objects" else str(key) if name == "lists" else key)
        assert not set(range(5)) & set(table.addresses())
    for name in ("map", "panes", "joined"):
        table = found[name]
        put = table.append if name == "joined" else table.put
        for group in range(3):
            put(group, "m", [1] if name == "map" else 1)
            put(group, "n", [1] if name == "map" else 1)
        for group in table.groups():
            for member in table.members(group):
                table.remove(group, member)
            put(group + 100, "m", [1] if name == "map" else 1)
        assert not set(range(3)) & set(table.groups())


def test_expired_values_are_dropped_but_those_that_are_in_use(make: Make) -> None:
    backend = make()
    found = begun(backend)
    fill(found)
    backend.commit((0, "a"))
    places = {name: list(found[name].addresses()) for name in ("value", "objects", "lists", "map")}
    found["objects"].get(1)  # in use from here on
    for name, addresses in places.items():
        found[name].drop_expired(addresses, lambda frozen: frozen != "b")
    assert (list(found["value"].addresses()), list(found["objects"].addresses())) == ([], [1])
    assert found["lists"].get(1) == ["b"]
    assert found["map"].is_empty()


def test_a_value_that_cannot_be_stored_is_named_with_its_state(make: Make) -> None:
    backend = make()
    table: Any = backend.create(address("value"), meta(tables.VALUE, Types.PICKLED_BYTE_ARRAY()))
    table.put(1, (open,))
    table.put(2, (item for item in ()))
    with pytest.raises(StateError, match="state 'value' of operator op"):
        backend.commit((0, "a"))


# -- positions -------------------------------------------------------------------------------------------------------------------


def test_a_new_backend_recovers_the_last_position_and_goes_on_from_there(make: Make) -> None:
    backend = make()
    found = begun(backend)
    for epoch, step in enumerate((fill, change)):
        step(found)
        position = epoch, f"nonce-{epoch}"
        kept, expected = backend.commit(position), content(backend)
        backend = recovered(make(), position, kept)
        assert content(backend) == expected
        found = {name: backend.tables[address(name)] for name in METAS}
    assert found["objects"].get(1) == [1, 2]
    assert found["object panes"].copy(WINDOW, 1) == [7, 8]


def test_what_a_lost_try_has_committed_is_not_seen(make: Make) -> None:
    backend = make()
    found = begun(backend)
    fill(found)
    kept, expected = backend.commit((0, "a")), content(backend)
    change(found)
    backend.commit((1, "lost"))
    for _ in range(2):  # the task may be run again more than once
        again = recovered(make(), (0, "a"), kept)
        assert content(again) == expected
        change({name: again.tables[address(name)] for name in METAS})
        again.commit((1, "counts"))


def test_an_epoch_that_changes_nothing_has_a_position_of_its_own(make: Make) -> None:
    backend = make()
    fill(begun(backend))
    backend.commit((0, "a"))
    kept, expected = backend.commit((1, "b")), content(backend)
    again = recovered(make(), (1, "b"), kept)
    assert content(again) == expected


def test_two_slots_in_one_folder_do_not_disturb_each_other(make: Make) -> None:
    backends = [make(slot) for slot in (0, 1)]
    kept: list[bytes] = []
    for slot, backend in enumerate(backends):
        table: Any = backend.create(address("value"), METAS["value"])
        for key in range(50_000):
            table.put(key, slot)
        kept.append(backend.commit((0, "same")))
    for slot, blob in enumerate(kept):
        again = recovered(make(slot), (0, "same"), blob)
        assert {value for _, value in content(again)["value"]} == {slot}


@pytest.mark.parametrize("cut", [1, 5])
def test_bytes_that_are_cut_off_are_refused(make: Make, cut: int) -> None:
    backend = make()
    fill(begun(backend))
    kept = backend.commit((0, "a"))
    with pytest.raises(EngineError):
        make().recover((0, "a"), kept[:-cut])


# -- snapshots -------------------------------------------------------------------------------------------------------------------


class Checkpoints:
    """A folder with checkpoints, and what is read back from them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def barrier(self, checkpoint_id: int = 1, *, incremental: bool = False, base: int | None = None) -> Barrier:
        return barrier(self._folder, f"chk-{checkpoint_id}", checkpoint_id, incremental, base)

    def take(self, backend: StateBackend, barrier: Barrier) -> tuple[StateFile, ...]:
        return self.upload(backend.freeze([UID], 0, barrier), barrier=barrier)

    def upload(self, snapshot: Snapshot, name: str = "one", barrier: Barrier | None = None) -> tuple[StateFile, ...]:
        return snapshot.upload(SnapshotFiles(barrier=barrier or self.barrier(), name=name))

    def read(self, files: tuple[StateFile, ...]) -> dict[tuple[str, str, str], Any]:
        restore = Restore(
            checkpoint_id=CheckpointId(1), root=str(self._folder), files=files, pickle_allowed=True, parallelism={UID: 1}
        )
        request = RestoreRequest(uid=UID, subtask=0, parallelism=1, max_parallelism=4, keyed=True)
        return dict(read_state(restore, [request]))

    def restored(self, backend: StateBackend, files: tuple[StateFile, ...]) -> dict[str, Any]:
        """Load a checkpoint into an empty backend, and return what is in it."""
        held = self.read(files)
        backend.hold(held)
        for name, declared in STORED.items():
            where = stored_at(name)
            table = backend.create(where, declared)
            if where in held:
                fill_table(table, where[0], where[2], held[where], lambda: 0)
                backend.claim(where)
        assert not backend.held
        return content(backend)


#: The tables that checkpoints contain, at the addresses which they have there.
STORED = {name: declared for name, declared in METAS.items() if name != "internal"}


def stored_at(name: str) -> tuple[str, str, str]:
    return UID, category_of(METAS[name].kind), name


def stored(backend: StateBackend) -> dict[str, Any]:
    return {name: backend.create(stored_at(name), declared) for name, declared in STORED.items()}


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "table")


def test_a_snapshot_shows_the_frozen_state_however_that_changes_before_the_upload(make: Make, checkpoints: Checkpoints) -> None:
    backend = make()
    found = {**stored(backend), "internal": {}}
    fill(found)
    found["objects"].get(1).append(5)  # in place, and not committed
    expected = {name: seen for name, seen in content(backend).items() if name != "internal"}
    snapshot = backend.freeze([UID], 0, checkpoints.barrier())
    change(found)
    found["lists"].append(1, "later")
    found["objects"].put(1, [0])
    found["map"].put(1, "x", [9])
    found["map"].clear(1)
    found["joined"].append(1, 2_000, 77)
    found["timers"].event_time.register(5, 9)
    backend.commit((0, "a"))
    files = checkpoints.upload(snapshot)
    assert checkpoints.restored(make(1), files) == expected


def test_a_snapshot_outlives_its_backend_and_can_be_uploaded_by_another_thread(make: Make, checkpoints: Checkpoints) -> None:
    backend = make()
    fill({**stored(backend), "internal": {}})
    expected = content(backend)
    snapshot = backend.freeze([UID], 0, checkpoints.barrier())
    backend.close()
    with ThreadPoolExecutor(1) as pool:
        files = pool.submit(checkpoints.upload, snapshot).result()
    assert checkpoints.restored(make(1), files) == expected


def test_a_snapshot_has_the_state_of_its_operators_only(make: Make, checkpoints: Checkpoints) -> None:
    backend = make()
    for uid in (UID, "other"):
        table: Any = backend.create((uid, "keyed", "value"), METAS["value"])
        table.put(1, 5)
    internal: Any = backend.create((UID, tables.INTERNAL, "gate"), tables.INTERNAL_META)
    internal["a"] = 1
    files = checkpoints.upload(backend.freeze([UID], 0, checkpoints.barrier()))
    assert {each for file in files for each in file.operator_uids} == {UID}
    assert list(checkpoints.read(files)) == [(UID, "keyed", "value")]
    assert checkpoints.upload(backend.freeze([OperatorUid("nobody")], 0, checkpoints.barrier()), "two") == ()


def test_rows_that_nobody_has_requested_are_durable_and_in_the_next_snapshot(make: Make, checkpoints: Checkpoints) -> None:
    backend = make()
    table: Any = backend.create((UID, "keyed", "value"), METAS["value"])
    table.put(1, 5)
    held = checkpoints.read(checkpoints.upload(backend.freeze([UID], 0, checkpoints.barrier())))
    other = make()
    other.hold(held)
    again = recovered(make(), (0, "a"), other.commit((0, "a")))
    assert list(again.held) == [(UID, "keyed", "value")]
    files = checkpoints.upload(again.freeze([UID], 0, checkpoints.barrier()), "two")
    loaded = again.create((UID, "keyed", "value"), METAS["value"])
    fill_table(loaded, UID, "value", again.held[UID, "keyed", "value"], lambda: 0)
    again.claim((UID, "keyed", "value"))
    kept = again.commit((1, "b"))
    last = recovered(make(), (1, "b"), kept)
    assert content(last) == {"value": [(1, 5)]}
    assert not last.held
    assert list(checkpoints.read(files)) == [(UID, "keyed", "value")]


@pytest.mark.parametrize("name", ["hashmap", "rocksdb"])
def test_each_value_of_the_option_names_a_backend(name: str, tmp_path: Path) -> None:
    configuration = Configuration()
    configuration.set_string(options.STATE_BACKEND.key, name)
    backend = make_backend(configuration, 1)
    backend.open(
        Place(owner=Identity(attempt_id="attempt", slot=0, level=1), folder=tmp_path / "scratch", disk=tmp_path / "disk")
    )
    begun(backend)
    assert set(backend.tables) == {address(each) for each in METAS}


# -- incremental snapshots -------------------------------------------------------------------------------------------------------


def a_thousand_keys(found: dict[str, Any]) -> None:
    fill(found)
    for key in range(100, 1_100):
        found["value"].put(key, key)


def chain(backend: StateBackend, checkpoints: Checkpoints, steps: int) -> list[tuple[StateFile, ...]]:
    """Take incremental checkpoints, each completed before the next, with a change before each and an epoch's end after it."""
    found = {**stored(backend), "internal": {"gate": 0}}
    taken: list[tuple[StateFile, ...]] = []
    for step, alter in enumerate([a_thousand_keys, change, refill][:steps], 1):
        alter(found)
        taken.append(checkpoints.take(backend, checkpoints.barrier(step, incremental=True, base=step - 1 or None)))
        backend.commit((step, f"nonce-{step}"))
    return taken


def by_key(seen: dict[str, Any]) -> dict[str, Any]:
    """Return content without the order of the addresses of values, which says nothing."""
    return {**seen, "value": dict(seen["value"])}


def refill(found: dict[str, Any]) -> None:
    """Put again what was removed, behind what was there."""
    found["value"].put(1, 11)
    found["map"].put(1, "x", [6])
    found["map"].put(1, "y", [7])
    found["panes"].fold([WINDOW], [2], [5], Fold(Add(), "test"), OneAddress())
    found["joined"].append(1, 1_000, 4)
    found["timers"].event_time.register(30, 1)
    found["timers"].event_time.delete(20, SECOND)
    found["broadcast"].put(OPERATOR_ADDRESS, "n", 9)


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_a_chain_of_incremental_snapshots_restores_what_was_frozen(make: Make, checkpoints: Checkpoints, steps: int) -> None:
    backend = make()
    files = chain(backend, checkpoints, steps)[-1]
    assert checkpoints.restored(make(1), files) == content(backend)


def test_an_incremental_snapshot_writes_what_has_changed_and_lists_the_files_before(make: Make, checkpoints: Checkpoints) -> None:
    first, second, third = chain(make(), checkpoints, 3)
    keyed = [[file for file in files if file.key_groups[0] >= 0] for files in (first, second, third)]
    assert keyed[1][:-1] == keyed[0]
    assert keyed[2][:-1] == keyed[1]
    assert [file.checkpoint_id for file in keyed[2]] == [1, 2, 3]
    assert keyed[1][-1].rows < 30 < keyed[0][0].rows
    operator = [file for file in third if file.key_groups[0] < 0]
    assert [file.checkpoint_id for file in operator] == [3]


def test_an_aborted_checkpoint_does_not_take_its_changes_with_it(make: Make, checkpoints: Checkpoints) -> None:
    backend = make()
    found = {**stored(backend), "internal": {"gate": 0}}
    a_thousand_keys(found)
    checkpoints.take(backend, checkpoints.barrier(1, incremental=True))
    backend.commit((0, "a"))
    change(found)
    lost = checkpoints.take(backend, checkpoints.barrier(2, incremental=True, base=1))
    backend.commit((1, "b"))
    refill(found)
    found["value"].put(7, 7)
    files = checkpoints.take(backend, checkpoints.barrier(3, incremental=True, base=1))
    assert not set(files) & {file for file in lost if file.checkpoint_id == 2}
    assert by_key(checkpoints.restored(make(1), files)) == by_key(content(backend))


def test_a_savepoint_between_incremental_snapshots_has_all_and_changes_nothing(make: Make, checkpoints: Checkpoints) -> None:
    backend = make()
    found = {**stored(backend), "internal": {"gate": 0}}
    a_thousand_keys(found)
    checkpoints.take(backend, checkpoints.barrier(1, incremental=True))
    change(found)
    (savepoint,) = checkpoints.take(backend, checkpoints.barrier(2, base=1))
    assert by_key(checkpoints.restored(make(1), (savepoint,))) == by_key(content(backend))
    backend.commit((0, "a"))
    refill(found)
    files = checkpoints.take(backend, checkpoints.barrier(3, incremental=True, base=1))
    assert [file.checkpoint_id for file in files] == [1, 3, 3]
    assert by_key(checkpoints.restored(make(1), files)) == by_key(content(backend))


def test_a_snapshot_on_an_unknown_base_has_all(make: Make, checkpoints: Checkpoints) -> None:
    backend = make()
    fill({**stored(backend), "internal": {}})
    kept = backend.commit((0, "a"))
    again = recovered(make(), (0, "a"), kept)
    files = checkpoints.take(again, checkpoints.barrier(9, incremental=True, base=8))
    assert {file.checkpoint_id for file in files} == {9}
    assert checkpoints.restored(make(1), files) == content(again)


def test_as_many_changes_as_rows_make_a_full_snapshot(make: Make, checkpoints: Checkpoints) -> None:
    backend = make()
    table: Any = backend.create((UID, "keyed", "value"), METAS["value"])
    lengths = []
    for step in range(1, 12):
        for key in range(100 if step == 1 else 30):
            table.put(key, step)
        files = checkpoints.take(backend, checkpoints.barrier(step, incremental=True, base=step - 1 or None))
        lengths.append(len(files))
    assert lengths == [1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3]
    assert checkpoints.restored(make(1), files)["value"] == [(key, 11 if key < 30 else 1) for key in range(100)]


@pytest.mark.parametrize("keys", [(1, 1.0), (True, 1), (("a", 1), ("a", 1.0))])
def test_equal_keys_with_different_encodings_do_not_leave_old_rows(
    make: Make, checkpoints: Checkpoints, keys: tuple[Any, Any]
) -> None:
    backend = make()
    untyped = TableMeta(kind=tables.VALUE, key_type=Types.PICKLED_BYTE_ARRAY(), types=(Types.LONG(),), max_parallelism=4)
    table: Any = backend.create((UID, "keyed", "value"), untyped)
    stored, same = keys
    table.put(stored, 1)
    for key in range(100, 200):
        table.put(key, key)
    checkpoints.take(backend, checkpoints.barrier(1, incremental=True))
    backend.commit((0, "a"))
    table.put(same, 2)
    second = checkpoints.take(backend, checkpoints.barrier(2, incremental=True, base=1))
    backend.commit((1, "b"))
    table.remove(same)
    third = checkpoints.take(backend, checkpoints.barrier(3, incremental=True, base=2))
    for files, count in ((second, 101), (third, 100)):
        (rows,) = checkpoints.read(files)[UID, "keyed", "value"].by_kind.values()
        assert rows.num_rows == count


@pytest.mark.parametrize(
    ("key_type", "keys"),
    [
        (Types.LONG(), (1, True, np.int64(1))),
        (Types.LONG(), (np.int64(1), 1, True)),
        (Types.STRING(), (np.str_("a"), "a")),
        (Types.BOOLEAN(), (1, True)),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), ((True, "a"), (1, np.str_("a")))),
    ],
)
def test_equal_keys_of_a_type_are_one_key_whatever_their_classes(
    make: Make, checkpoints: Checkpoints, key_type: Any, keys: tuple[Any, ...]
) -> None:
    backend = make()
    typed = TableMeta(kind=tables.VALUE, key_type=key_type, types=(Types.LONG(),), max_parallelism=4)
    table: Any = backend.create((UID, "keyed", "value"), typed)
    files: tuple[StateFile, ...] = ()
    for step, key in enumerate(keys):
        table.put(key, (table.get(key) or 0) + 1)
        files = checkpoints.take(backend, checkpoints.barrier(step + 1, incremental=True, base=step or None))
        backend.commit((step, "nonce"))
    assert table.get(keys[0]) == len(keys)
    assert len(list(table.addresses())) == 1
    (rows,) = checkpoints.read(files)[UID, "keyed", "value"].by_kind.values()
    assert rows.num_rows == 1


def test_keys_that_a_type_would_change_stay_keys_of_their_own(make: Make) -> None:
    table: Any = make().create(address("value"), METAS["value"])
    for key in (2, 2.5, "x", None):
        table.put(key, 1)
    table.put(2.0, 3)
    assert [table.get(key) for key in (2, 2.5, "x", None)] == [3, 1, 1, 1]


def test_rows_that_nobody_has_requested_are_in_a_chain_until_they_are(make: Make, checkpoints: Checkpoints) -> None:
    backend = make()
    fill({**stored(backend), "internal": {}})
    held, expected = checkpoints.read(checkpoints.take(backend, checkpoints.barrier(1))), content(backend)
    other = make()
    other.hold(held)
    checkpoints.take(other, checkpoints.barrier(2, incremental=True))
    files = checkpoints.take(other, checkpoints.barrier(3, incremental=True, base=2))
    assert checkpoints.restored(make(1), files) == expected
    where = UID, "keyed", "value"
    table: Any = other.create(where, METAS["value"])
    fill_table(table, UID, "value", held[where], lambda: 0)
    other.claim(where)
    table.put(1, 12)
    files = checkpoints.take(other, checkpoints.barrier(4, incremental=True, base=3))
    assert checkpoints.restored(make(1), files)["value"] == [(1, 12), (SECOND, 20)]


def test_tables_that_are_frozen_in_another_order_than_they_were_made_in_keep_their_rows(
    make: Make, checkpoints: Checkpoints
) -> None:
    backend = make()
    for operator, value in (("first", 1), ("second", 2)):
        table: Any = backend.create((operator, "keyed", "value"), METAS["value"])
        table.put(1, value)
    backend.freeze([OperatorUid("second")], 0, checkpoints.barrier(1, incremental=True))
    kept = backend.commit((0, "a"))
    again = recovered(make(), (0, "a"), kept)
    assert {operator: cast(Any, table).get(1) for (operator, _, _), table in again.tables.items()} == {"first": 1, "second": 2}

from __future__ import annotations

import dataclasses
import json
import os
import random
import shutil
import threading
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flinkish.common.errors import (
    CorruptCheckpointError,
    ForeignCheckpointError,
    StateError,
)
from flinkish.common.time import Time
from flinkish.common.typeinfo import DecimalTypeInfo, Types
from flinkish.common.types import Row
from flinkish.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flinkish.runtime.key_groups import key_group, subtask_of_group
from flinkish.runtime.protocol import StateFile
from flinkish.runtime.state.rows import state_schema
from flinkish.runtime.state.tables import Namespaced
from tests.unit.runtime.state.harness import MAX_PARALLELISM, UID, Slot

UNTYPED = Types.PICKLED_BYTE_ARRAY()
LONG = ValueStateDescriptor("long", Types.LONG())

MakeSlot = Callable[..., Slot]


def table_rows(slot: Slot, files: tuple[StateFile, ...]) -> list[dict[str, Any]]:
    return [row for file in files for row in pq.read_table(slot.folder / "table" / file.path).to_pylist()]


def put_longs(slot: Slot, count: int) -> None:
    slot.begin()
    state = slot.backend.get_state(LONG)
    for key in range(count):
        slot.key(key)
        state.update(key * 3)


def test_rows_are_readable_by_anyone(slot: Slot) -> None:
    slot.begin(7)
    slot.backend.get_state(LONG).update(300)
    slot.backend.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG())).put("a", 1)
    slot.backend.get_list_state(ListStateDescriptor("list", UNTYPED)).add_all([1, "b"])
    slot.backend.timers().event_time.register(99, Namespaced(7, (0, 5)))
    slot.operator.list_state(ListStateDescriptor("buffer", Types.STRING())).add("x")
    files = slot.snapshot(5)
    rows = table_rows(slot, files)
    group = key_group(7, MAX_PARALLELISM)
    declared = {(row["state_name"], row["key_group"]) for row in rows if row["state_kind"] == "schema"}
    assert declared == {(name, -1) for name in ("long", "map", "list", "timers", "buffer")}
    shown = {
        row["state_name"]: (row["state_kind"], row["key_group"], row["key"], row["namespace"], row["user_key"])
        for row in rows
        if row["state_kind"] != "schema"
    }
    assert shown == {
        "long": ("value", group, b"\x07", None, None),
        "map": ("map", group, b"\x07", None, b"\xa1a"),
        "list": ("list", group, b"\x07", None, None),
        "timers": ("timer_event", group, b"\x07", b"\xc7\x03\x02\x92\x00\x05", None),
        "buffer": ("operator_list", -1, None, None, b"\x92\x00\x00"),
    }
    readable = {
        row["state_name"]: tuple(row[f"{column}_json"] for column in ("key", "namespace", "user_key", "value"))
        for row in rows
        if row["state_kind"] != "schema"
    }
    assert readable == {
        "long": ("7", None, None, "300"),
        "map": ("7", None, '"a"', "1"),
        "list": ("7", None, None, '[1,"b"]'),
        "timers": ("7", "[0,5]", None, "99"),
        "buffer": (None, None, "[0,0]", '"x"'),
    }
    assert {row["checkpoint_id"] for row in rows} == {5}
    assert {row["operator_uid"] for row in rows} == {UID}
    (file,) = files
    assert file.rows == len(rows)
    assert file.operator_uids == (UID,)
    assert file.key_groups == (-1, group)
    assert file.path.startswith("files/state-5-7-0-")
    read = pq.read_table(slot.folder / "table" / file.path).schema
    assert read.equals(state_schema())


@pytest.mark.parametrize("keys", [["a", "ö", ""], ["a", 'say "x"', "back\\slash"], ["line\nfeed", "b"], ["x" * 5_000, "b"]])
def test_texts_are_readable_one_by_one_and_all_at_once(tmp_path: Path, keys: list[str]) -> None:
    slot = Slot(tmp_path, key_type=Types.STRING())
    slot.begin()
    for key in keys:
        slot.key(key)
        slot.backend.get_state(LONG).update(1)
    rows = [row for row in table_rows(slot, slot.snapshot(1)) if row["state_kind"] == "value"]
    found = sorted(row["key_json"] or "" for row in rows)
    assert found == sorted("" if len(key) > 4_096 else json.dumps(key, ensure_ascii=False) for key in keys)


def test_a_table_that_was_deleted_is_not_made_anew(slot: Slot) -> None:
    put_longs(slot, 3)
    barrier = slot.barrier()
    shutil.rmtree(slot.folder / "table")
    with pytest.raises(FileNotFoundError):
        slot.state.snapshot([UID], barrier, vertex=7, subtask=0)()
    assert not (slot.folder / "table").exists()


def test_no_state_makes_no_file(slot: Slot) -> None:
    slot.begin()
    slot.backend.get_state(LONG)
    slot.backend.timers()
    assert slot.snapshot() == ()


def test_a_snapshot_that_fails_leaves_no_file(slot: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    put_longs(slot, 3)

    def fail(descriptor: int, fsync: Callable[[int], None] = os.fsync, mine: int = threading.get_ident()) -> None:
        if threading.get_ident() != mine:
            return fsync(descriptor)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        slot.snapshot()
    assert list((slot.folder / "table" / "files").iterdir()) == []
    monkeypatch.undo()
    assert slot.snapshot(2)


def test_a_disk_that_fills_up_leaves_no_file_and_no_warning(slot: Slot, monkeypatch: pytest.MonkeyPatch) -> None:
    import gc

    from flinkish.runtime.state import snapshot

    put_longs(slot, 1_000)
    write = snapshot._HashingFile.write

    def fail(file: Any, data: Any) -> int:
        if file.size > 1_000:
            raise OSError(28, "No space left on device")
        return write(file, data)

    monkeypatch.setattr(snapshot._HashingFile, "write", fail)
    with pytest.raises(OSError, match="No space"):
        slot.snapshot()
    gc.collect()
    assert list((slot.folder / "table" / "files").iterdir()) == []
    monkeypatch.undo()
    (file,) = slot.snapshot(2)
    assert file.rows == 1_001


def test_a_snapshot_changes_nothing_and_sees_objects_changed_in_place(slot: Slot) -> None:
    slot.begin(1)
    state = slot.backend.get_state(ValueStateDescriptor("untyped", UNTYPED))
    state.update([1])
    state.value().append(2)
    rows = table_rows(slot, slot.snapshot())
    assert [row["value_json"] for row in rows if row["state_kind"] == "value"] == ["[1,2]"]
    assert state.value() == [1, 2]
    slot.end_and_lose_heap()
    slot.key(1)
    assert slot.backend.get_state(ValueStateDescriptor("untyped", UNTYPED)).value() == [1, 2]


@pytest.mark.parametrize("parallelism", [1, 2, 3, 16])
def test_keys_go_to_the_subtasks_of_their_groups(slot: Slot, make_slot: MakeSlot, parallelism: int) -> None:
    put_longs(slot, 500)
    slot.backend.timers().processing_time.register(10, 3)
    files = slot.snapshot()
    seen: dict[int, int] = {}
    for subtask in range(parallelism):
        restored = make_slot(subtask=subtask, parallelism=parallelism, attempt="second").restore(files)
        state = restored.backend.get_state(LONG)
        for key in restored.keys("long"):
            assert subtask_of_group(key_group(key, MAX_PARALLELISM), MAX_PARALLELISM, parallelism) == subtask
            restored.key(key)
            seen[key] = state.value()
        mine = subtask == subtask_of_group(key_group(3, MAX_PARALLELISM), MAX_PARALLELISM, parallelism)
        assert restored.backend.timers().processing_time.next() == (10 if mine else None)
    assert seen == {key: key * 3 for key in range(500)}


def test_what_was_restored_survives_a_lost_heap_decoded_or_not(slot: Slot, make_slot: MakeSlot) -> None:
    put_longs(slot, 10)
    files = slot.snapshot()
    restored = make_slot(attempt="second").restore(files)
    assert not restored.state.matches(b"")
    restored.end_and_lose_heap()
    restored.begin()
    restored.key(4)
    assert restored.backend.get_state(LONG).value() == 12
    restored.backend.get_state(LONG).update(5)
    restored.end_and_lose_heap()
    restored.key(4)
    assert restored.backend.get_state(LONG).value() == 5
    restored.key(5)
    assert restored.backend.get_state(LONG).value() == 15


def test_state_that_is_not_asked_for_is_passed_on_to_the_next_checkpoint(slot: Slot, make_slot: MakeSlot) -> None:
    put_longs(slot, 10)
    slot.backend.timers().event_time.register(10, 3)
    slot.backend.timers().processing_time.register(11, Namespaced(4, (0, 1)))
    slot.operator.list_state(ListStateDescriptor("list", Types.STRING())).add_all(["a", "b", "c"])
    slot.operator.union_list_state(ListStateDescriptor("union", Types.STRING())).add_all(["u", "v"])
    files = slot.snapshot(1)
    passed = []
    for subtask in range(2):
        restored = make_slot(subtask=subtask, parallelism=2, attempt="second").restore(files)
        restored.end()
        if subtask == 1:
            restored.lose_heap()
        restored.begin()
        passed.extend(restored.snapshot(2))
    last = make_slot(attempt="third").restore(tuple(passed), old_parallelism=2)
    state = last.backend.get_state(LONG)
    for key in range(10):
        last.key(key)
        assert state.value() == key * 3
    fired: list[Any] = []
    last.backend.timers().event_time.advance(10, lambda *timer: fired.append(timer))
    last.backend.timers().processing_time.advance_clock(11, lambda *timer: fired.append(timer))
    assert fired == [(10, 3, None), (11, 4, (0, 1))]
    assert sorted(last.operator.list_state(ListStateDescriptor("list", Types.STRING()))) == ["a", "b", "c"]
    assert list(last.operator.union_list_state(ListStateDescriptor("union", Types.STRING()))) == ["u", "v"]


def test_list_state_of_operators_stays_in_its_subtask_or_is_dealt_out_in_turn(make_slot: MakeSlot) -> None:
    descriptor = ListStateDescriptor("list", Types.STRING())
    files: list[StateFile] = []
    for subtask in range(3):
        slot = make_slot(subtask=subtask, parallelism=3)
        slot.begin()
        slot.operator.list_state(descriptor).add_all([f"{subtask}{letter}" for letter in "ab"])
        slot.operator.union_list_state(ListStateDescriptor("union", Types.LONG())).add(subtask)
        files.extend(slot.snapshot())

    def restored(parallelism: int) -> list[tuple[list[str], list[int]]]:
        result = []
        for subtask in range(parallelism):
            slot = make_slot(subtask=subtask, parallelism=parallelism, attempt=f"at {parallelism}")
            slot.restore(tuple(reversed(files)), old_parallelism=3, keyed=False)
            union = slot.operator.union_list_state(ListStateDescriptor("union", Types.LONG()))
            result.append((list(slot.operator.list_state(descriptor)), list(union)))
        return result

    union = [0, 1, 2]
    assert restored(3) == [(["0a", "0b"], union), (["1a", "1b"], union), (["2a", "2b"], union)]
    assert restored(2) == [(["0a", "1a", "2a"], union), (["0b", "1b", "2b"], union)]
    assert restored(4) == [(["0a", "2a"], union), (["0b", "2b"], union), (["1a"], union), (["1b"], union)]


def test_another_declared_type_is_refused_with_both_types_named(slot: Slot, make_slot: MakeSlot) -> None:
    put_longs(slot, 3)
    files = slot.snapshot()
    for get in (
        lambda backend: backend.get_state(ValueStateDescriptor("long", Types.STRING())),
        lambda backend: backend.get_list_state(ListStateDescriptor("long", Types.LONG())),
        lambda backend: backend.get_reducing_state(ReducingStateDescriptor("long", max, Types.LONG())),
    ):
        restored = make_slot(attempt="second").restore(files)
        with pytest.raises(ForeignCheckpointError, match=r"stored as value state of type Long .* is declared as"):
            get(restored.backend)
    restored = make_slot(attempt="second", key_type=Types.STRING()).restore(files)
    with pytest.raises(ForeignCheckpointError, match=r"keys of type Long, but is declared .* keys of type String"):
        restored.backend.get_state(LONG)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (Types.ROW([Types.LONG()]), Types.ROW_NAMED(["a"], [Types.LONG()])),
        (Types.ROW_NAMED(["a"], [Types.LONG()]), Types.ROW([Types.LONG()])),
    ],
)
def test_rows_may_get_names_and_lose_them(slot: Slot, make_slot: MakeSlot, before: Any, now: Any) -> None:
    slot.begin(1)
    slot.backend.get_state(ValueStateDescriptor("row", before)).update(Row(1))
    restored = make_slot(attempt="second").restore(slot.snapshot())
    restored.key(1)
    value = restored.backend.get_state(ValueStateDescriptor("row", now)).value()
    assert (value.get_field_names(), list(value)) == (now.get_field_names(), [1])


def test_a_decimal_in_state_keeps_its_digits_under_another_precision(slot: Slot, make_slot: MakeSlot) -> None:
    slot.begin(1)
    slot.backend.get_state(ValueStateDescriptor("price", DecimalTypeInfo(10, 2))).update(Decimal("1234.56"))
    restored = make_slot(attempt="second").restore(slot.snapshot())
    restored.key(1)
    assert restored.backend.get_state(ValueStateDescriptor("price", DecimalTypeInfo(5, 1))).value() == Decimal("1234.56")


def test_fields_may_neither_change_places_nor_names(slot: Slot, make_slot: MakeSlot) -> None:
    def state_of(at: Slot, *names: str) -> Any:
        row = Types.ROW_NAMED(list(names), [Types.LONG()] * len(names))
        return at.backend.get_map_state(MapStateDescriptor("rows", Types.STRING(), Types.LIST(Types.TUPLE([row]))))

    slot.begin(1)
    state_of(slot, "a", "b", "c").put("x", [(Row(a=1, b=2, c=3),)])
    files = slot.snapshot()
    for names, changed in (
        (("b", "a", "c"), "'a' would become those of 'b', 'b' would become those of 'a'"),
        (("a", "d", "c"), "'b' would become those of 'd'"),
        (("f0", "f1", "c"), "'a' would become those of 'f0', 'b' would become those of 'f1'"),
    ):
        restored = make_slot(attempt="second").restore(files)
        with pytest.raises(ForeignCheckpointError, match=rf"state 'rows' of operator {UID} .* the values of {changed}") as raised:
            state_of(restored, *names)
        assert "(a: Long, b: Long, c: Long)" in str(raised.value)
        assert f"({', '.join(f'{name}: Long' for name in names)})" in str(raised.value)


def test_keyed_state_of_an_operator_that_is_not_keyed_any_more_is_refused(slot: Slot, make_slot: MakeSlot) -> None:
    put_longs(slot, 3)
    keyed_only = slot.snapshot()
    slot.operator.list_state(ListStateDescriptor("list", Types.STRING())).add("a")
    for files in (keyed_only, slot.snapshot()):
        with pytest.raises(ForeignCheckpointError, match=f"operator {UID} has keyed state .* its input is not keyed"):
            make_slot(attempt="second").restore(files, keyed=False)


@pytest.mark.parametrize("change", ["ttl", "type"])
def test_a_state_that_subtasks_have_declared_in_different_ways_is_refused(make_slot: MakeSlot, change: str) -> None:
    """The declaration has changed, but only the first subtask has asked for the state in the meantime."""
    changed = ValueStateDescriptor("untyped", UNTYPED if change == "ttl" else Types.STRING())
    if change == "ttl":
        changed.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
    files: list[StateFile] = []
    for subtask, descriptor in enumerate((changed, ValueStateDescriptor("untyped", UNTYPED))):
        slot = make_slot(subtask=subtask, parallelism=2)
        slot.begin()
        slot.operator.list_state(ListStateDescriptor("list", Types.STRING())).add("a")
        state = slot.backend.get_state(descriptor)
        for key in range(20):
            if subtask_of_group(key_group(key, MAX_PARALLELISM), MAX_PARALLELISM, 2) == subtask:
                slot.key(key)
                state.update("x" if change == "type" else [subtask, key])
        files.extend(slot.snapshot())
    for order in (files, files[::-1]):
        with pytest.raises(ForeignCheckpointError, match=r"state 'untyped' of operator .* some subtasks have stored it as"):
            make_slot(attempt="second").restore(tuple(order), old_parallelism=2)
    same = make_slot(subtask=1, parallelism=2, attempt="third").restore(tuple(files), old_parallelism=2)
    assert same.backend.get_state(ValueStateDescriptor("untyped", UNTYPED)) is not None


def test_another_max_parallelism_is_refused(slot: Slot, make_slot: MakeSlot) -> None:
    put_longs(slot, 3)
    files = slot.snapshot()
    with pytest.raises(ForeignCheckpointError, match="max parallelism 32, but its state 'long' was stored with 16"):
        make_slot(attempt="second", max_parallelism=32).restore(files)


def test_time_to_live_may_be_turned_on_and_off(slot: Slot, make_slot: MakeSlot) -> None:
    def descriptors(ttl: bool) -> tuple[Any, ...]:
        made = (
            LONG if not ttl else ValueStateDescriptor("long", Types.LONG()),
            ValueStateDescriptor("untyped", UNTYPED),
            ListStateDescriptor("list", UNTYPED),
            MapStateDescriptor("map", Types.STRING(), Types.LIST(Types.LONG())),
        )
        if ttl:
            for descriptor in made:
                descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(10)).build())
        return made

    def states(at: Slot, ttl: bool) -> tuple[Any, ...]:
        value, untyped, elements, entries = descriptors(ttl)
        backend = at.backend
        return (
            backend.get_state(value),
            backend.get_state(untyped),
            backend.get_list_state(elements),
            backend.get_map_state(entries),
        )

    def read(at: Slot, ttl: bool) -> tuple[Any, ...]:
        value, untyped, elements, entries = states(at, ttl)
        return value.value(), untyped.value(), list(elements.get()), list(entries.items())

    slot.begin(1)
    value, untyped, elements, entries = states(slot, ttl=False)
    value.update(5)
    untyped.update((1, [2]))
    elements.add_all([1, b"x"])
    entries.put("a", [1])
    expected = read(slot, ttl=False)
    second = make_slot(attempt="second")
    second.now = 100
    second.restore(slot.snapshot(1))
    second.key(1)
    assert read(second, ttl=True) == expected
    second.now = 105
    third = make_slot(attempt="third")
    third.now = 105
    third.restore(second.snapshot(2))
    third.key(1)
    assert read(third, ttl=True) == expected
    third.now = 110
    assert read(third, ttl=True) == (None, None, [], [])
    fourth = make_slot(attempt="fourth").restore(second.snapshot(3))
    fourth.key(1)
    assert read(fourth, ttl=False) == expected


class Custom:
    def __init__(self, number: int) -> None:
        self.number = number

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Custom) and self.number == other.number

    def __hash__(self) -> int:
        return hash(self.number)


@dataclasses.dataclass(frozen=True)
class CustomKey:
    number: int


def test_pickled_values_are_restored_only_if_the_signature_was_good(slot: Slot, make_slot: MakeSlot) -> None:
    slot.begin(1)
    value = ValueStateDescriptor("value", UNTYPED)
    elements = ListStateDescriptor("list", Types.TUPLE([Types.LONG(), UNTYPED]))
    slot.backend.get_state(value).update(Custom(5))
    slot.backend.get_list_state(elements).add((1, Custom(6)))
    files = slot.snapshot()
    trusting = make_slot(attempt="second").restore(files, pickle_allowed=True)
    trusting.key(1)
    assert trusting.backend.get_state(value).value() == Custom(5)
    assert list(trusting.backend.get_list_state(elements)) == [(1, Custom(6))]
    wary = make_slot(attempt="third").restore(files, pickle_allowed=False)
    with pytest.raises(CorruptCheckpointError, match="must not be unpickled"):
        wary.backend.get_state(value)
    with pytest.raises(CorruptCheckpointError, match="must not be unpickled"):
        wary.backend.get_list_state(elements)


def test_pickled_keys_are_restored_only_if_the_signature_was_good(make_slot: MakeSlot) -> None:
    slot = make_slot(key_type=UNTYPED)
    slot.begin(CustomKey(1))
    slot.backend.get_state(LONG).update(1)
    files = slot.snapshot()
    trusting = make_slot(attempt="second", key_type=UNTYPED).restore(files, pickle_allowed=True)
    trusting.key(CustomKey(1))
    assert trusting.backend.get_state(LONG).value() == 1
    wary = make_slot(attempt="third", key_type=UNTYPED).restore(files)
    with pytest.raises(CorruptCheckpointError, match="must not be unpickled"):
        wary.backend.get_state(LONG)


@pytest.mark.parametrize("damage", ["missing", "cut", "longer", "flipped", "empty", "swapped"])
def test_damaged_files_are_refused_by_name_before_anything_is_decoded(slot: Slot, make_slot: MakeSlot, damage: str) -> None:
    put_longs(slot, 100)
    (file,) = slot.snapshot(1)
    path = slot.folder / "table" / file.path
    data = path.read_bytes()
    match damage:
        case "missing":
            path.unlink()
        case "cut":
            path.write_bytes(data[:-1])
        case "longer":
            path.write_bytes(data + b"x")
        case "empty":
            path.write_bytes(b"")
        case "swapped":
            (other,) = slot.snapshot(2)
            os.replace(slot.folder / "table" / other.path, path)
        case _:
            for position in random.Random(5).sample(range(len(data)), 60):
                changed = bytearray(data)
                changed[position] ^= 1 << position % 8
                path.write_bytes(changed)
                with pytest.raises(CorruptCheckpointError, match="SHA-256"):
                    make_slot(attempt="second").restore((file,))
    with pytest.raises(CorruptCheckpointError, match=path.name):
        make_slot(attempt="second").restore((file,))


def test_files_outside_of_the_checkpoint_are_refused(slot: Slot, make_slot: MakeSlot) -> None:
    put_longs(slot, 3)
    (file,) = slot.snapshot()
    for path in ("../secret", "/etc/passwd", "files/../../x"):
        with pytest.raises(CorruptCheckpointError, match="outside of it"):
            make_slot(attempt="second").restore((dataclasses.replace(file, path=path),))


def test_a_parquet_file_of_something_else_is_refused(slot: Slot, make_slot: MakeSlot, tmp_path: Path) -> None:
    import hashlib

    import pyarrow as pa

    path = tmp_path / "table" / "other.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"operator_uid": [1.5]}), path)
    data = path.read_bytes()
    file = StateFile(
        path="other.parquet",
        size=len(data),
        sha256=hashlib.sha256(data).hexdigest(),
        rows=1,
        operator_uids=(UID,),
        key_groups=(0, 1),
    )
    with pytest.raises(CorruptCheckpointError, match=r"expected 1 rows with the columns .* got 1 rows of"):
        slot.restore((file,))


def test_only_files_that_can_hold_rows_of_the_subtask_are_read(slot: Slot, make_slot: MakeSlot) -> None:
    put_longs(slot, 100)
    (file,) = slot.snapshot()
    elsewhere = dataclasses.replace(file, path="files/missing", key_groups=(8, 15))
    strange = dataclasses.replace(file, path="files/missing too", operator_uids=("other",))
    restored = make_slot(attempt="second", subtask=0, parallelism=2).restore((file, elsewhere, strange))
    restored.backend.get_state(LONG)
    assert len(restored.keys("long")) > 30


def test_snapshots_span_several_batches(slot: Slot, make_slot: MakeSlot, monkeypatch: pytest.MonkeyPatch) -> None:
    from flinkish.runtime.state import snapshot

    monkeypatch.setattr(snapshot, "_BATCH_ROWS", 7)
    put_longs(slot, 50)
    slot.key(1)
    slot.backend.get_map_state(MapStateDescriptor("map", Types.LONG(), UNTYPED)).put_all({n: [n] for n in range(20)})
    slot.operator.list_state(ListStateDescriptor("list", Types.LONG())).add_all(list(range(30)))
    for timestamp in range(20):
        slot.backend.timers().event_time.register(timestamp, 1)
    restored = make_slot(attempt="second").restore(slot.snapshot())
    restored.key(1)
    assert dict(restored.backend.get_map_state(MapStateDescriptor("map", Types.LONG(), UNTYPED)).items()) == {
        n: [n] for n in range(20)
    }
    assert list(restored.operator.list_state(ListStateDescriptor("list", Types.LONG()))) == list(range(30))
    assert restored.backend.timers().event_time.size == 20
    restored.backend.get_state(LONG)
    assert len(restored.keys("long")) == 50


def put_texts(slot: Slot, sizes: list[int]) -> None:
    slot.begin()
    state = slot.backend.get_state(ValueStateDescriptor("text", Types.STRING()))
    for key, size in enumerate(sizes):
        slot.key(key)
        state.update("x" * size)


def row_groups(slot: Slot, files: tuple[StateFile, ...]) -> list[tuple[int, int]]:
    """The rows and the bytes of the values of each row group."""
    (file,) = files
    parquet = pq.ParquetFile(slot.folder / "table" / file.path)
    groups = [parquet.read_row_group(group, columns=["value"])["value"] for group in range(parquet.num_row_groups)]
    return [(len(group), sum(len(value) for value in group.to_pylist())) for group in groups]


@pytest.mark.parametrize("sizes", [[1_000] * 200, [1] * 100 + [3_000] * 50 + [1] * 100, [20_000, 1, 20_000]])
def test_row_groups_are_bounded_by_bytes_also_of_rows_that_are_passed_on(
    slot: Slot, make_slot: MakeSlot, monkeypatch: pytest.MonkeyPatch, sizes: list[int]
) -> None:
    from flinkish.runtime.state import snapshot

    monkeypatch.setattr(snapshot, "_BATCH_BYTES", 10_000)
    put_texts(slot, sizes)
    passing_on = make_slot(attempt="second").restore(slot.snapshot())
    files = passing_on.snapshot(2)
    assert all(size <= 10_000 or rows == 1 for rows, size in row_groups(passing_on, files))
    assert sum(rows for rows, _ in row_groups(passing_on, files)) == len(sizes) + 1
    restored = make_slot(attempt="third").restore(files)
    state = restored.backend.get_state(ValueStateDescriptor("text", Types.STRING()))
    for key, size in enumerate(sizes):
        restored.key(key)
        assert state.value() == "x" * size


def test_a_value_that_is_too_large_for_a_row_is_refused_with_its_state_and_size(
    slot: Slot, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flinkish.runtime.state import snapshot

    monkeypatch.setattr(snapshot, "_BATCH_BYTES", 1_000)
    monkeypatch.setattr(snapshot, "_LARGEST_VALUE", 2_000)
    put_texts(slot, [10, 5_000])
    with pytest.raises(StateError, match=r"state 'text' of operator op: .* takes 5,003 bytes; a checkpoint holds at most 2,000"):
        slot.snapshot()
    assert list((slot.folder / "table" / "files").iterdir()) == []


def test_wrapped_keys_come_back_wrapped(make_slot: MakeSlot) -> None:
    from flinkish.runtime.keys import as_key

    slot = make_slot(key_type=UNTYPED)
    slot.begin()
    for key in ([1, 2], {"a": 1}, b"x", "x", 1, None, (1, [2])):
        slot.key(as_key(key))
        slot.backend.get_state(LONG).update(len(repr(key)))
    restored = make_slot(attempt="second", key_type=UNTYPED).restore(slot.snapshot())
    for key in ([1, 2], {"a": 1}, b"x", "x", 1, None, (1, [2])):
        restored.key(as_key(key))
        assert restored.backend.get_state(LONG).value() == len(repr(key))


def test_keys_that_are_not_of_their_declared_type_are_kept_all_the_same(make_slot: MakeSlot) -> None:
    slot = make_slot(key_type=Types.LONG())
    slot.begin()
    for key in (1, True and 2, 2.5, "x"):
        slot.key(key)
        slot.backend.get_state(LONG).update(7)
    restored = make_slot(attempt="second", key_type=Types.LONG()).restore(slot.snapshot())
    restored.backend.get_state(LONG)
    assert set(restored.keys("long")) == {1, 2, 2.5, "x"}

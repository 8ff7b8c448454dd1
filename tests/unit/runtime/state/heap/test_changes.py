"""What incremental snapshots write of the members that changed, and in which order these come back."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pytest

from flinkish.common import Row
from flinkish.common.typeinfo import Types
from flinkish.runtime.keys import as_key
from flinkish.runtime.state import tables
from flinkish.runtime.state.heap.changes import always_have_one_encoding, have_one_encoding, joined, split
from flinkish.runtime.state.heap.grouped import HeapMapTable, HeapPaneTable
from flinkish.runtime.state.heap.timers import HeapTimerTable
from flinkish.runtime.state.tables import TableMeta


def map_of(members: str) -> HeapMapTable:
    """Return a map table whose group 1 has these members, which a snapshot has."""
    meta = TableMeta(kind=tables.MAP, key_type=Types.LONG(), types=(Types.STRING(), Types.LONG()))
    table = HeapMapTable(meta)
    for member in members:
        table.put(1, member, 0)
    table.take_changes()
    table.seal()
    return table


def played(table: HeapMapTable, members: str) -> str:
    """Return the members of a reader that had `members` and has applied what changed, segment by segment."""
    changes = table.since
    assert changes is not None
    put, removed = split(changes, table.data)
    there = dict.fromkeys(members)
    for _, member in removed:
        there.pop(member, None)
    for _, member, _ in put:
        there.setdefault(member)
    return "".join(there)


@pytest.mark.parametrize(
    ("epochs", "members"),
    [
        (["+c"], "abc"),
        (["-a+a"], "ba"),
        (["-a", "+a"], "ba"),
        (["-a", "+c", "+a"], "bca"),
        (["+c", "+d", "+c"], "abcd"),
        (["+c", "+d", "-c", "+c"], "abdc"),
        (["+c-c"], "ab"),
        (["+c", "-c"], "ab"),
        (["-b", "+b+c", "-b"], "ac"),
        (["!", "+a"], "a"),
        (["+c!+b"], "b"),
        (["-a!"], ""),
    ],
)
def test_the_entries_of_a_map_come_back_in_their_order(epochs: list[str], members: str) -> None:
    table = map_of("ab")
    for epoch in epochs:
        for act in epoch.replace("!", "!.").replace("+", " +").replace("-", " -").replace("!", " !").split():
            if act[0] == "+":
                table.put(1, act[1], 1)
            elif act[0] == "-":
                table.remove(1, act[1])
            else:
                table.clear(1)
        table.take_changes()
    assert "".join(table.members(1)) == members
    assert played(table, "ab") == members


def test_a_member_that_comes_and_goes_between_two_snapshots_is_in_none() -> None:
    table = map_of("a")
    table.put(1, "b", 1)
    table.remove(1, "b")
    table.put(1, "c", 1)
    table.take_changes()
    table.remove(1, "c")
    table.take_changes()
    changes = table.seal()
    assert changes is not None
    assert split(changes, table.data) == ([], [])


def test_a_window_that_comes_and_goes_between_two_snapshots_is_in_none() -> None:
    table = HeapPaneTable(TableMeta(kind=tables.VALUE, key_type=Types.LONG(), types=(Types.LONG(),), grouped_by="namespace"))
    table.put((0, 10), 1, 5)
    table.take_changes()
    table.seal()
    table.put((10, 20), 1, 6)
    table.take_changes()
    table.clear((10, 20))
    table.clear((0, 10))
    table.take_changes()
    changes = table.seal()
    assert changes is not None
    assert split(changes, table.data) == ([], [((0, 10), 1)])


def test_changes_of_two_intervals_are_joined_in_their_order() -> None:
    table = map_of("ab")
    table.remove(1, "a")
    table.put(1, "c", 1)
    table.take_changes()
    first = table.seal()
    table.put(1, "a", 2)
    table.remove(1, "c")
    table.take_changes()
    second = table.seal()
    assert first is not None
    assert second is not None
    assert split(joined([first, second]), table.data) == ([(1, "a", 2)], [(1, "a")])


def test_a_timer_that_fires_between_two_snapshots_is_in_none() -> None:
    table = HeapTimerTable(TableMeta(kind=tables.TIMERS, key_type=Types.LONG(), types=()))
    table.event_time.register(5, 1)
    table.take_changes()
    table.seal()
    table.event_time.register(6, 1)
    table.event_time.register(7, 1)
    table.event_time.delete(5, 1)
    table.take_changes()
    table.event_time.advance(6, lambda *_: None)
    table.take_changes()
    rows = table.frozen_changes(table.seal() or {})()
    assert (rows.by_kind["timer_event"], rows.removed["timer_event"]) == ([(7, 1)], [(5, 1)])


@pytest.mark.parametrize(
    ("keys", "one"),
    [
        ([1, "1", b"1", None, datetime.date(2026, 1, 1)], True),
        ([(1, "a"), (2, "b")], True),
        ([1, True], False),
        ([1.0], False),
        ([(1, 2.0)], False),
        ([((1,), 2)], False),
        ([decimal.Decimal("1.0")], False),
        ([as_key([1])], False),
        ([as_key(Row(1))], False),
    ],
)
def test_keys_that_may_be_equal_to_keys_with_another_encoding(keys: list[Any], one: bool) -> None:
    assert have_one_encoding(keys) is one


@pytest.mark.parametrize(
    ("key_type", "always"),
    [
        (Types.LONG(), True),
        (Types.STRING(), True),
        (Types.TUPLE([Types.INT(), Types.STRING()]), True),
        (Types.DOUBLE(), False),
        (Types.BIG_DEC(), False),
        (Types.PICKLED_BYTE_ARRAY(), False),
        (Types.ROW([Types.LONG()]), False),
    ],
)
def test_key_types_whose_keys_have_one_encoding_always(key_type: Any, always: bool) -> None:
    assert always_have_one_encoding(key_type) is always

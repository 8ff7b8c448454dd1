"""What a program does with tables by group, as windows and interval joins use them, and with union and broadcast state.

Windows that begin for all keys together are groups whose members are keys; the records of an interval join are groups by key
whose members are timestamps. Members by key keep their order, until a restore; those of windows have none.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flinkish.common.typeinfo import Types
from flinkish.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
)
from flinkish.runtime.keys import as_key, original_key
from flinkish.runtime.state.handles import Fold
from tests.kit.functions import Add
from tests.models.runtime.state.expectations import expect
from tests.models.runtime.state.statistics import Statistics
from tests.unit.runtime.state.harness import Slot

if TYPE_CHECKING:
    from tests.models.runtime.state.program import Program


_LONG, _ANY = Types.LONG(), Types.PICKLED_BYTE_ARRAY()
#: Descriptors of panes with what folds into them, and of lists by window and by key.
_PANES: dict[str, tuple[Any, Any]] = {
    "sums": (ReducingStateDescriptor("sums", Add(), _LONG), Add()),
    "objects": (AggregatingStateDescriptor("objects", Statistics(), Types.LIST(_LONG)), Statistics()),
}
_LISTS: dict[str, Any] = {
    "records": ListStateDescriptor("records", _LONG),
    "untyped_records": ListStateDescriptor("untyped_records", _ANY),
}
_BY_KEY = ListStateDescriptor("by_key", _ANY)
_UNION = ListStateDescriptor("union", _ANY)
_BROADCAST = MapStateDescriptor("broadcast", Types.STRING(), _ANY)

_VALUES = [0, 1, -5, 2**40]
_OBJECTS = [None, 7, "ä", [1, [None]], {"k": 1}]


def _table(slot: Slot, name: str) -> Any:
    if name == "by_key":
        return slot.backend.grouped_table_of(_BY_KEY, "key")[0]
    descriptor: Any = _PANES[name][0] if name in _PANES else _LISTS[name]
    return slot.backend.grouped_table_of(descriptor, "namespace")[0]


def _window(program: Program) -> tuple[int, int]:
    start = program.random.randint(0, 2)
    return start, start + 1


def _neighbours(program: Program) -> tuple[Slot, list[Any]]:
    """Return a subtask, and some keys of it, perhaps several times."""
    subtask = program.subtask_of(program.random.choice(program.keys))
    keys = [key for key in program.keys if program.subtask_of(key) == subtask]
    return program.slots[subtask], program.random.choices(keys, k=program.random.randint(1, 4))


def fold_into_windows(program: Program) -> None:
    name = program.random.choice(list(_PANES))
    slot, keys = _neighbours(program)
    values = program.random.choices(_VALUES, k=len(keys))
    windows = list(dict.fromkeys(_window(program) for _ in range(2)))
    _table(slot, name).fold(windows, list(map(as_key, keys)), values, Fold(_PANES[name][1], name), slot.backend)
    for window in windows:
        members = program.model.groups.setdefault((name, repr(window)), {})
        for key, value in zip(map(repr, keys), values, strict=True):
            if name == "sums":
                members[key] = members.get(key, 0) + value
            else:
                count, total = members.get(key, (0, 0))
                members[key] = (count + 1, total + value)


def put_into_window(program: Program) -> None:
    """Set the values of several keys at once, as columns do."""
    slot, keys = _neighbours(program)
    keys, window = list({repr(key): key for key in keys}.values()), _window(program)
    table, addresses = _table(slot, "sums"), list(map(as_key, keys))
    members = program.model.groups.setdefault(("sums", repr(window)), {})
    expect("values before", table.get_all(window, addresses), [members.get(repr(key)) for key in keys])
    values = program.random.choices(_VALUES, k=len(keys))
    table.put_all(window, addresses, values)
    members.update(zip(map(repr, keys), values, strict=True))


def append_to_window(program: Program) -> None:
    name, window = program.random.choice(list(_LISTS)), _window(program)
    key = program.random.choice(program.keys)
    table = _table(program.at(key), name)
    value = program.random.choice(_VALUES if name == "records" else _OBJECTS)
    table.append(window, as_key(key), table.codec.freeze(copy.deepcopy(value)))
    program.model.groups.setdefault((name, repr(window)), {}).setdefault(repr(key), []).append(value)


def end_window(program: Program) -> None:
    """Clear a window of one subtask, or a key in it."""
    name, window = program.random.choice([*_PANES, *_LISTS]), _window(program)
    slot, (key, *_) = _neighbours(program)
    members = program.model.groups.get((name, repr(window)), {})
    if program.random.random() < 0.3:
        _table(slot, name).remove(window, as_key(key))
        members.pop(repr(key), None)
        return
    _table(slot, name).clear(window)
    for other in program.keys:
        if program.subtask_of(other) == program.subtask_of(key):
            members.pop(repr(other), None)


def append_by_key(program: Program) -> None:
    key, time = program.random.choice(program.keys), program.random.randint(0, 3)
    table = _table(program.at(key), "by_key")
    value = program.random.choice(_OBJECTS)
    table.append(as_key(key), time, table.codec.freeze(copy.deepcopy(value)))
    program.model.groups.setdefault(("by_key", repr(key)), {}).setdefault(time, []).append(value)


def remove_by_key(program: Program) -> None:
    key = program.random.choice(program.keys)
    members = program.model.groups.get(("by_key", repr(key)), {})
    time = program.random.choice([*members, 9])
    _table(program.at(key), "by_key").remove(as_key(key), time)
    members.pop(time, None)


def move_by_key(program: Program) -> None:
    """Remove a member and add it again, which brings it behind the others."""
    key = program.random.choice(program.keys)
    if members := program.model.groups.get(("by_key", repr(key))):
        time, table = program.random.choice(list(members)), _table(program.at(key), "by_key")
        table.remove(as_key(key), time)
        table.append(as_key(key), time, table.codec.freeze(5))
        del members[time]
        members[time] = [5]


def change_union_list(program: Program) -> None:
    """Replace the list of a subtask, which a restore would make longer and longer."""
    subtask = program.random.randrange(len(program.slots))
    values = program.random.choices(_OBJECTS, k=program.random.randint(0, 2))
    program.slots[subtask].operator.union_list_state(_UNION).update(copy.deepcopy(values))
    program.model.union_lists[subtask] = values


def broadcast(program: Program) -> None:
    """Change the copies of all subtasks in the same way."""
    entry, value, removes = program.random.choice("abc"), program.random.choice(_OBJECTS), program.random.random() < 0.3
    for slot in program.slots:
        state = slot.operator.broadcast_state(_BROADCAST)
        if removes:
            state.remove(entry)
        else:
            state.put(entry, copy.deepcopy(value))
    if removes:
        program.model.broadcast.pop(entry, None)
    else:
        program.model.broadcast[entry] = value


def restored(program: Program, parallelism: int) -> None:
    """Let the model be as after a restore with another number of subtasks: each has the union of all lists."""
    everything = [value for values in program.model.union_lists for value in values]
    program.model.union_lists = [list(everything) for _ in range(parallelism)]


def adopt_order(program: Program) -> None:
    """After a restore, members by key may be in another order."""
    for key in program.keys:
        members = program.model.groups.get(("by_key", repr(key)), {})
        found = list(_table(program.at(key), "by_key").members(as_key(key)))
        expect(f"members of {key!r} after a restore", sorted(found), sorted(members))
        program.model.groups["by_key", repr(key)] = {member: members[member] for member in found}
    for subtask, slot in enumerate(program.slots):
        expect("union list after a restore", list(slot.operator.union_list_state(_UNION)), program.model.union_lists[subtask])
        short = program.model.union_lists[subtask][:1]
        slot.operator.union_list_state(_UNION).update(copy.deepcopy(short))
        program.model.union_lists[subtask] = short


def check(program: Program) -> None:
    for subtask, slot in enumerate(program.slots):
        keys = {repr(key): key for key in program.keys if program.subtask_of(key) == subtask}
        for name in (*_PANES, *_LISTS):
            _check_windows(program, slot, name, keys)
        table = _table(slot, "by_key")
        for shown, key in keys.items():
            expected = program.model.groups.get(("by_key", shown), {})
            found = [(member, table.get(as_key(key), member)) for member in table.members(as_key(key))]
            expect(f"lists of {shown}", found, list(expected.items()))
        groups = {repr(original_key(key)) for key in table.groups()}
        expect("keys with lists", groups, {key for key in keys if program.model.groups.get(("by_key", key))})
        expect("union list", list(slot.operator.union_list_state(_UNION)), program.model.union_lists[subtask])
        state = slot.operator.broadcast_state(_BROADCAST)
        expect("broadcast state", dict(state.items()), program.model.broadcast)


def _check_windows(program: Program, slot: Slot, name: str, keys: dict[str, Any]) -> None:
    table, found, expected = _table(slot, name), {}, {}
    for window in table.groups():
        members = list(table.members(window))
        if name in _PANES:
            result_of = tuple if name == "objects" else int
            values = {key: result_of(value) for key, value in table.copies(window)}
            expect(f"members of {window}", sorted(map(repr, members)), sorted(map(repr, values)))
        else:
            values = {key: table.get(window, key) for key in members}
        found[repr(window)] = {repr(original_key(key)): value for key, value in values.items()}
    for (table_name, window), own in program.model.groups.items():
        here = {key: value for key, value in own.items() if key in keys}
        if table_name == name and here:
            expected[window] = here
    expect(f"{name} by window", found, expected)


#: How often each is chosen; see program.py.
RULES: dict[Callable[[Program], None], int] = {
    fold_into_windows: 5,
    put_into_window: 2,
    append_to_window: 4,
    end_window: 4,
    append_by_key: 5,
    remove_by_key: 3,
    move_by_key: 5,
    change_union_list: 1,
    broadcast: 2,
}

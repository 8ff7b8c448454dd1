"""The attack: pickled rows of a checkpoint that is not signed by our key become no better by a signature that they get later.

A savepoint with a pickle that runs code is restored by a program that does not ask for the state and passes its rows on to its
own checkpoint, which is signed; a program that does ask for the state is started from that one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinkish.common.errors import CorruptCheckpointError
from flinkish.common.typeinfo import Types
from flinkish.common.types import Row
from flinkish.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkish.runtime.key_groups import key_group, key_group_range
from flinkish.runtime.protocol import StateFile
from flinkish.runtime.state.tables import Namespaced
from tests.unit.runtime.state.harness import MAX_PARALLELISM, Slot

MakeSlot = Callable[..., Slot]

UNTYPED, LONG = Types.PICKLED_BYTE_ARRAY(), Types.LONG()
PAIR = Types.ROW([LONG, UNTYPED])


class Malice:
    """An object whose pickle leaves a file when it is loaded."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return Path.touch, (self.mark,)


State = Callable[[Slot], Any]


def _keyed(get: str, descriptor: Any) -> State:
    def state(slot: Slot) -> Any:
        slot.key(1)
        return getattr(slot.backend, get)(descriptor)

    return state


def _operator(get: str, descriptor: Any) -> State:
    return lambda slot: getattr(slot.operator, get)(descriptor)


def _put_as_namespace(state: Any, malice: Any) -> None:
    state._table.load([Namespaced(1, malice)], [5])


VALUE, LIST = ValueStateDescriptor("s", UNTYPED), ListStateDescriptor("s", UNTYPED)
VALUE_OF_PAIRS = ValueStateDescriptor("s", PAIR)
#: How the state is asked for, how a value gets in, how it is read.
ATTACKS: dict[str, tuple[State, Callable[[Any, Any], Any], Callable[[Any], Any]]] = {
    "value": (_keyed("get_state", VALUE), lambda s, m: s.update(m), lambda s: s.value()),
    "part of a value": (_keyed("get_state", VALUE_OF_PAIRS), lambda s, m: s.update(Row(1, m)), lambda s: s.value()),
    "list": (_keyed("get_list_state", LIST), lambda s, m: s.add(m), list),
    "map": (_keyed("get_map_state", MapStateDescriptor("s", LONG, UNTYPED)), lambda s, m: s.put(1, m), lambda s: s.get(1)),
    "key of a map": (_keyed("get_map_state", MapStateDescriptor("s", UNTYPED, LONG)), lambda s, m: s.put(m, 1), list),
    "list of the operator": (_operator("list_state", LIST), lambda s, m: s.add(m), list),
    "union list": (_operator("union_list_state", LIST), lambda s, m: s.add(m), list),
    "broadcast": (
        _operator("broadcast_state", MapStateDescriptor("s", LONG, UNTYPED)),
        lambda s, m: s.put(1, m),
        lambda s: s.get(1),
    ),
    "namespace": (_keyed("get_state", ValueStateDescriptor("s", LONG)), _put_as_namespace, lambda s: None),
    "namespace of a timer": (
        lambda slot: slot.backend.timers(),
        lambda s, m: s.event_time.register(10, Namespaced(1, m)),
        lambda s: None,
    ),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_code_in_rows_that_were_passed_on_does_not_run_after_the_next_restart(
    make_slot: MakeSlot, tmp_path: Path, attack: str
) -> None:
    state, put, read = ATTACKS[attack]
    mark = tmp_path / "the code ran"
    attacker = make_slot()
    attacker.begin()
    put(state(attacker), Malice(mark))
    files = attacker.snapshot(1)
    assert not mark.exists()
    duped = make_slot(attempt="without a check").restore(files, pickle_allowed=True)
    read(state(duped))
    mark.unlink()

    files = _passed_on(make_slot, files, "first", pickle_allowed=False)
    files = _passed_on(make_slot, files, "second", pickle_allowed=True)
    victim = make_slot(attempt="third").restore(files, pickle_allowed=True)
    with pytest.raises(CorruptCheckpointError, match=r"of operator op: a value is pickled.*must not be unpickled"):
        state(victim)
    assert not mark.exists()


def _passed_on(make_slot: MakeSlot, files: tuple[StateFile, ...], attempt: str, *, pickle_allowed: bool) -> tuple[StateFile, ...]:
    slot = make_slot(attempt=attempt).restore(files, pickle_allowed=pickle_allowed)
    slot.end_and_lose_heap()
    slot.begin()
    return slot.snapshot(2 if attempt == "first" else 3)


def test_plain_rows_that_were_passed_on_are_taken_over(make_slot: MakeSlot) -> None:
    slot = make_slot()
    slot.begin(1)
    slot.backend.get_state(ValueStateDescriptor("s", UNTYPED)).update((1, "a"))
    files = _passed_on(make_slot, slot.snapshot(1), "first", pickle_allowed=False)
    last = make_slot(attempt="second").restore(files, pickle_allowed=True)
    last.key(1)
    assert last.backend.get_state(ValueStateDescriptor("s", UNTYPED)).value() == (1, "a")


@pytest.mark.parametrize("malicious", [False, True])
def test_one_subtask_may_pickle_its_rows_while_another_passes_untrusted_ones_on(
    make_slot: MakeSlot, tmp_path: Path, malicious: bool
) -> None:
    mark = tmp_path / "the code ran"
    descriptor = ValueStateDescriptor("s", UNTYPED)
    stranger = make_slot()
    stranger.begin()
    for key in range(20):
        stranger.key(key)
        stranger.backend.get_state(descriptor).update(("plain", key))
    passing, asking = (make_slot(attempt="first", subtask=subtask, parallelism=2) for subtask in range(2))
    mine = [key for key in range(20) if key not in _keys_of(asking)]
    if malicious:
        stranger.key(mine[0])
        stranger.backend.get_state(descriptor).update(Malice(mark))
    files = stranger.snapshot(1)
    passing.restore(files)
    asking.restore(files)
    state = asking.backend.get_state(descriptor)
    for key in _keys_of(asking):
        asking.key(key)
        state.update(Holder(key))
    files = passing.snapshot(2) + asking.snapshot(2)

    last = make_slot(attempt="second").restore(files, old_parallelism=2, pickle_allowed=True)
    if malicious:
        with pytest.raises(CorruptCheckpointError, match="must not be unpickled"):
            last.backend.get_state(descriptor)
        assert not mark.exists()
    else:
        state = last.backend.get_state(descriptor)
        last.key(mine[0])
        assert state.value() == ("plain", mine[0])
        last.key(_keys_of(asking)[0])
        assert state.value().value == _keys_of(asking)[0]


class Holder:
    def __init__(self, value: Any) -> None:
        self.value = value


def _keys_of(slot: Slot) -> list[int]:
    return [
        key
        for key in range(20)
        if key_group(key, MAX_PARALLELISM) in key_group_range(slot.subtask, MAX_PARALLELISM, slot.parallelism)
    ]

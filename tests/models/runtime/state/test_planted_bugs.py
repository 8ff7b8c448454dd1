"""The model test is checked: bugs are planted in the state of both backends, and a few programs notice each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from flinkish.runtime.state import restore, ttl
from flinkish.runtime.state import tables as tables_of_state
from flinkish.runtime.state.disk import store, stored
from flinkish.runtime.state.disk.timers import DiskTimerQueue
from flinkish.runtime.state.heap import changes, grouped, tables
from flinkish.runtime.state.heap import timers as heap_timers
from tests.kit import planted_bugs
from tests.kit.planted_bugs import Patch
from tests.models.runtime.state.expectations import Violation
from tests.models.runtime.state.program import run

#: The note is the backend that a bug is in.
BUGS, bug = planted_bugs.registry()

#: The programs that are tried for each bug; test_state_model.py shows that they pass without one.
SEEDS = range(60)

for plant in (
    planted_bugs.part_of_the_state_is_not_restored,
    planted_bugs.incremental_checkpoints_forget_what_was_removed,
    planted_bugs.changes_before_a_checkpoint_that_failed_are_forgotten,
):
    bug("hashmap")(plant)


@bug("hashmap")
def a_member_that_is_put_again_keeps_its_old_place(patch: Patch) -> None:
    note = changes.note

    def put(known: dict[Any, int], member: Any, flag: int) -> None:
        note(known, member, flag)
        if known.get(member) == changes.AGAIN:
            known[member] = changes.PUT

    patch.setattr(changes, "note", put)
    patch.setattr(grouped, "note", put)


@bug("hashmap")
def a_timer_that_was_deleted_comes_back_from_the_log(patch: Patch) -> None:
    apply = heap_timers.HeapTimerQueue.apply
    patch.setattr(
        heap_timers.HeapTimerQueue, "apply", lambda self, changed: apply(self, [change for change in changed if change[0]])
    )


@bug("hashmap")
def a_removed_value_is_not_logged(patch: Patch) -> None:
    def remove(self: Any, address: Any) -> None:
        self.hot.pop(address, None)
        self.data.pop(address, None)

    patch.setattr(tables.HeapValueTable, "remove", remove)


@bug("hashmap")
def timers_go_on_although_an_earlier_one_was_registered(patch: Patch) -> None:
    _go_on_firing(patch, heap_timers.HeapTimerQueue)


@bug("rocksdb")
def timers_on_disk_go_on_although_an_earlier_one_was_registered(patch: Patch) -> None:
    _go_on_firing(patch, DiskTimerQueue)


def _go_on_firing(patch: Patch, queue: Any) -> None:
    def fire_all(self: Any, due: int, fire: Any) -> int:
        fired = 0
        for address in list(self.by_time[due]):
            if address in (self.by_time.get(due) or ()):
                self.delete(due, address)
                fired += 1
                fire(due, heap_timers.key_of(address), heap_timers.namespace_of(address))
        return fired

    patch.setattr(queue, "_fire_all", fire_all)


@bug("rocksdb")
def the_first_timer_on_disk_is_remembered_from_an_earlier_epoch(patch: Patch) -> None:
    take_rows = DiskTimerQueue.take_rows

    def stale(self: Any, *arguments: Any) -> None:
        known = self._stored_is_known
        take_rows(self, *arguments)
        self._stored_is_known = known

    patch.setattr(DiskTimerQueue, "take_rows", stale)


@bug("rocksdb")
def a_member_on_disk_that_is_put_again_keeps_its_old_place(patch: Patch) -> None:
    put = stored.StoredDict.__setitem__

    def in_place(self: Any, member: Any, value: Any) -> None:
        self.get(member)
        before = self._orders.get(member)
        put(self, member, value)
        if before is not None:
            self._orders[member] = before

    patch.setattr(stored.StoredDict, "__setitem__", in_place)


@bug("rocksdb")
def a_lost_try_on_disk_is_not_undone(patch: Patch) -> None:
    decode = store._decode_undo
    patch.setattr(store, "_decode_undo", lambda row: store._Undo(decode(row).position, {}))


@bug("hashmap")
def values_live_a_millisecond_too_long(patch: Patch) -> None:
    patch.setattr(ttl.TtlPolicy, "is_expired", lambda self, stamp, now: stamp + self.milliseconds < now)


@bug("rocksdb")
def values_on_disk_live_a_millisecond_too_short(patch: Patch) -> None:
    patch.setattr(ttl.TtlPolicy, "is_expired", lambda self, stamp, now: stamp + self.milliseconds <= now + 1)


@bug("hashmap")
def a_restore_reads_changes_in_the_order_of_the_files(patch: Patch) -> None:
    current = restore._current_rows
    patch.setattr(restore, "_current_rows", lambda table, **kind: current(table[::-1], **kind))


@bug("hashmap")
def a_window_that_has_ended_comes_back_from_the_log(patch: Patch) -> None:
    def clear(self: Any, group: Any) -> None:
        self.hot.pop(group, None)
        self.data.pop(group, None)

    patch.setattr(grouped.HeapPaneTable, "clear", clear)


@bug("hashmap")
def records_added_to_an_old_list_are_not_logged(patch: Patch) -> None:
    def append(self: Any, group: Any, member: Any, frozen: Any) -> None:
        if member in self.data.get(group, {}):
            self.data[group][member].append(frozen)
        else:
            usual(self, group, member, frozen)

    usual = grouped.HeapGroupedLists.append
    patch.setattr(grouped.HeapGroupedLists, "append", append)


@bug("rocksdb")
def columns_put_into_windows_are_not_in_checkpoints_of_what_changed(patch: Patch) -> None:
    def put_all(self: Any, namespace: Any, keys: Any, values: Any) -> None:
        self.data.setdefault(namespace, {}).update(zip(keys, values, strict=True))

    patch.setattr(grouped.HeapPaneTable, "put_all", put_all)


@bug("hashmap")
def union_lists_are_distributed_as_other_lists_are(patch: Patch) -> None:
    patch.setattr(tables_of_state, "OPERATOR_UNION", tables_of_state.OPERATOR_LIST)


def run_all(backend: str, folder: Path) -> None:
    for seed in SEEDS:
        run(seed, backend, folder / str(seed))


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    plant, backend = BUGS[name]
    plant(monkeypatch)
    with pytest.raises((Violation, msgspec.DecodeError)):
        run_all(backend, tmp_path)

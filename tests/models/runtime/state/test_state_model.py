"""Random programs against state and a plain dict, through epochs, lost heaps, abandoned tries, checkpoints and rescaling."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.common.types import Row
from flinkish.datastream.functions import AggregateFunction
from flinkish.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkish.runtime.key_groups import key_group, subtask_of_group
from flinkish.runtime.keys import as_key, original_key
from flinkish.runtime.state.heap import log, snapshot
from tests.kit.backends import BACKENDS
from tests.unit.runtime.state.harness import MAX_PARALLELISM, Slot

LONGS = st.integers(-(2**63), 2**63 - 1)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
    ),
    max_leaves=5,
)
UNTYPED = PLAIN.filter(lambda value: value is not None)
ROWS = st.builds(lambda a, b: Row(a=a, b=b), LONGS, st.none() | st.text(max_size=4))
ROW_TYPE = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])

#: Key type and strategy: each example of the machine uses one of them.
KEYS: list[tuple[TypeInformation, st.SearchStrategy[Any]]] = [
    (Types.LONG(), st.integers(-3, 8) | st.sampled_from([2**62, -(2**63), 2**61 - 1, 2**61])),
    (Types.STRING(), st.sampled_from(["", "a", "b", "ä", "key-1", "x" * 40])),
    (Types.PICKLED_BYTE_ARRAY(), st.sampled_from([1, "1", b"1", None, (1, "a"), [1, 2], {"k": [1]}, 1.5, Row(1, 2)])),
    (Types.TUPLE([Types.LONG(), Types.STRING()]), st.tuples(st.integers(0, 3), st.sampled_from("ab"))),
]


class _Statistics(AggregateFunction):
    """Count and sum, in an accumulator that is changed in place."""

    def create_accumulator(self) -> list[int]:
        return [0, 0]

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator[0] += 1
        accumulator[1] += value
        return accumulator

    def get_result(self, accumulator: list[int]) -> tuple[int, ...]:
        return tuple(accumulator)

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        return [acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]]


def frozen(key: Any) -> str:
    """What the model has keys under."""
    return repr(key)


class StateMachine(RuleBasedStateMachine):
    """All subtasks of one operator; the model is one dict over all of them."""

    backend = "hashmap"
    inline_limit = 400

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.slots: list[Slot] = []
        #: The last completed checkpoint, if it is incremental.
        self.base: int | None = None
        self.patches = [
            mock.patch.object(log, "INLINE_LIMIT", self.inline_limit),
            mock.patch.object(log, "INLINE_ENTRIES", 5),
            mock.patch.object(snapshot, "MOST_CHANGES", 1_000),  # long chains of checkpoints, although there is little state
            mock.patch.object(os, "fsync"),  # 50 ms each on a busy disk
        ]
        for patch in self.patches:
            patch.start()

    def teardown(self) -> None:
        for patch in self.patches:
            patch.stop()
        self.close_slots()
        shutil.rmtree(self.folder)

    def close_slots(self) -> None:
        for slot in self.slots:
            slot.state.close()

    @initialize(keys=st.sampled_from(KEYS), parallelism=st.integers(1, 3))
    def start(self, keys: tuple[TypeInformation, st.SearchStrategy[Any]], parallelism: int) -> None:
        self.key_type, self.key_strategy = keys
        self.attempts = itertools.count()
        self.checkpoint = 0
        self.model: dict[tuple[str, str], Any] = {}
        self.committed: dict[tuple[str, str], Any] = {}
        self.timers: list[tuple[int, str]] = []
        self.committed_timers: list[tuple[int, str]] = []
        self.watermark = -1
        self.operator_list: list[list[Any]] = [[] for _ in range(parallelism)]
        self.slots = self.make_slots(parallelism)
        self.begin()

    def make_slots(self, parallelism: int) -> list[Slot]:
        attempt = f"attempt-{next(self.attempts)}"
        self.close_slots()
        return [
            Slot(
                self.folder,
                key_type=self.key_type,
                subtask=subtask,
                parallelism=parallelism,
                attempt=attempt,
                make_backend=BACKENDS[self.backend],
            )
            for subtask in range(parallelism)
        ]

    def open(self, slot: Slot) -> None:
        slot.open()

    def begin(self) -> None:
        for slot in self.slots:
            slot.begin()

    def at(self, key: Any) -> Slot:
        """Go to the key, in the subtask it belongs to."""
        key = as_key(key)
        group = key_group(key, MAX_PARALLELISM)
        slot = self.slots[subtask_of_group(group, MAX_PARALLELISM, len(self.slots))]
        slot.key(key)
        return slot

    def touch(self, data: st.DataObject) -> tuple[Slot, str]:
        key = data.draw(self.key_strategy)
        return self.at(key), frozen(key)

    # -- what functions do ---------------------------------------------------------------------------------------------------

    @rule(data=st.data(), value=LONGS)
    def update_long(self, data: st.DataObject, value: int) -> None:
        slot, key = self.touch(data)
        self._long(slot).update(value)
        self.model["long", key] = value

    @rule(data=st.data())
    def clear_long(self, data: st.DataObject) -> None:
        slot, key = self.touch(data)
        self._long(slot).clear()
        self.model.pop(("long", key), None)

    @rule(data=st.data(), value=UNTYPED)
    def update_untyped(self, data: st.DataObject, value: Any) -> None:
        slot, key = self.touch(data)
        self._untyped(slot).update(value)
        self.model["untyped", key] = value

    @rule(data=st.data(), value=ROWS)
    def update_row(self, data: st.DataObject, value: Row) -> None:
        slot, key = self.touch(data)
        self._row(slot).update(value)
        self.model["row", key] = Row(a=value.a, b=value.b)

    @rule(data=st.data(), value=LONGS)
    def change_row_in_place(self, data: st.DataObject, value: int) -> None:
        slot, key = self.touch(data)
        row = self._row(slot).value()
        assert row == self.model.get(("row", key))
        if row is not None:
            row["a"] = value
            self.model["row", key] = Row(a=value, b=row.b)

    @rule(data=st.data(), values=st.lists(PLAIN, max_size=3))
    def add_to_list(self, data: st.DataObject, values: list[Any]) -> None:
        slot, key = self.touch(data)
        self._list(slot).add_all(values)
        self.model["list", key] = self.model.get(("list", key), []) + values

    @rule(data=st.data(), values=st.lists(PLAIN, max_size=3))
    def replace_list(self, data: st.DataObject, values: list[Any]) -> None:
        slot, key = self.touch(data)
        self._list(slot).update(values)
        self.model["list", key] = values

    @rule(data=st.data(), entry=st.sampled_from("abc"), value=st.none() | LONGS)
    def put_into_map(self, data: st.DataObject, entry: str, value: int | None) -> None:
        slot, key = self.touch(data)
        self._map(slot)[entry] = value
        self.model["map", key] = {**self.model.get(("map", key), {}), entry: value}

    @rule(data=st.data(), entry=st.sampled_from("abc"))
    def remove_from_map(self, data: st.DataObject, entry: str) -> None:
        slot, key = self.touch(data)
        del self._map(slot)[entry]
        self.model["map", key] = {k: v for k, v in self.model.get(("map", key), {}).items() if k != entry}

    @rule(data=st.data())
    def clear_map(self, data: st.DataObject) -> None:
        slot, key = self.touch(data)
        self._map(slot).clear()
        self.model.pop(("map", key), None)

    @rule(data=st.data(), entry=st.integers(0, 3), value=PLAIN)
    def append_in_untyped_map(self, data: st.DataObject, entry: int, value: Any) -> None:
        slot, key = self.touch(data)
        state = self._untyped_map(slot)
        held = state.get(entry)
        if held is None:
            state.put(entry, [value])
        else:
            held.append(value)  # in place, without put()
        model = self.model.get(("untyped_map", key), {})
        self.model["untyped_map", key] = {**model, entry: [*model.get(entry, []), value]}

    @rule(data=st.data(), value=st.integers(-100, 100))
    def reduce(self, data: st.DataObject, value: int) -> None:
        slot, key = self.touch(data)
        self._sum(slot).add(value)
        self.model["sum", key] = self.model.get(("sum", key), 0) + value

    @rule(data=st.data(), value=st.none() | st.integers(-100, 100))
    def aggregate(self, data: st.DataObject, value: int | None) -> None:
        slot, key = self.touch(data)
        self._statistics(slot).add(value)
        if value is None:
            self.model.pop(("statistics", key), None)
        else:
            count, total = self.model.get(("statistics", key), (0, 0))
            self.model["statistics", key] = (count + 1, total + value)

    @rule(data=st.data(), window=st.integers(0, 2), value=LONGS)
    def update_in_namespace(self, data: st.DataObject, window: int, value: int) -> None:
        slot, key = self.touch(data)
        slot.backend.current_namespace = (window, window + 1)
        self._long(slot).update(value)
        slot.backend.current_namespace = None
        self.model[f"long {window}", key] = value

    @rule(data=st.data(), ahead=st.integers(-2, 6))
    def register_timer(self, data: st.DataObject, ahead: int) -> None:
        slot, key = self.touch(data)
        timestamp = self.watermark + ahead
        slot.backend.timers().event_time.register(timestamp, slot.backend.current_key)
        if (timestamp, key) not in self.timers:
            self.timers.append((timestamp, key))

    @rule(data=st.data(), ahead=st.integers(-2, 6))
    def delete_timer(self, data: st.DataObject, ahead: int) -> None:
        slot, key = self.touch(data)
        timestamp = self.watermark + ahead
        slot.backend.timers().event_time.delete(timestamp, slot.backend.current_key)
        if (timestamp, key) in self.timers:
            self.timers.remove((timestamp, key))

    @rule(by=st.integers(0, 4))
    def advance_watermark(self, by: int) -> None:
        self.watermark += by
        fired: list[tuple[int, str]] = []
        for slot in self.slots:
            here: list[int] = []

            def fire(timestamp: int, key: Any, namespace: Any, here: list[int] = here) -> None:
                assert namespace is None
                here.append(timestamp)
                fired.append((timestamp, frozen(original_key(key))))

            slot.backend.timers().event_time.advance(self.watermark, fire)
            assert here == sorted(here)
        assert sorted(fired) == sorted(timer for timer in self.timers if timer[0] <= self.watermark)
        self.timers = [timer for timer in self.timers if timer[0] > self.watermark]

    @rule(data=st.data(), value=PLAIN)
    def add_to_operator_list(self, data: st.DataObject, value: Any) -> None:
        subtask = data.draw(st.integers(0, len(self.slots) - 1))
        self._operator_list(self.slots[subtask]).add(value)
        self.operator_list[subtask].append(value)

    # -- what happens to slots -----------------------------------------------------------------------------------------------

    @rule()
    def next_epoch(self) -> None:
        for slot in self.slots:
            slot.end()
            slot.begin()
        self.remember()

    def remember(self) -> None:
        """What is in the log; from here on, what is changed in place is changed in new objects."""
        self.committed = dict(self.model)
        self.committed_timers = list(self.timers)
        self.committed_watermark = self.watermark
        self.committed_lists = [list(values) for values in self.operator_list]

    @rule()
    def lose_heap_between_epochs(self) -> None:
        for slot in self.slots:
            slot.end()
            slot.lose_heap()
            slot.begin()
        self.remember()

    @precondition(lambda self: hasattr(self, "committed_watermark"))
    @rule(finished=st.booleans())
    def run_the_epoch_again(self, finished: bool) -> None:
        """The try is lost, perhaps after it wrote its files: what it did must not be seen."""
        for slot in self.slots:
            if finished:
                slot.state.end_epoch(slot.epoch)
            assert not slot.state.matches(slot.blob)
            slot.lose_heap()
            slot.begin()
        self.model, self.timers = dict(self.committed), list(self.committed_timers)
        self.watermark = self.committed_watermark
        self.operator_list = [list(values) for values in self.committed_lists]

    @rule(completes=st.booleans())
    def take_an_incremental_checkpoint(self, completes: bool) -> None:
        """Of one that does not complete, the files are never read."""
        self.checkpoint += 1
        for slot in self.slots:
            slot.snapshot(self.checkpoint, incremental=True, base=self.base)
        if completes:
            self.base = self.checkpoint

    @rule(parallelism=st.integers(1, 4), early=st.booleans(), incremental=st.booleans())
    def restore_from_a_checkpoint(self, parallelism: int, early: bool, incremental: bool) -> None:
        self.checkpoint += 1
        files = tuple(
            file
            for slot in self.slots
            for file in slot.snapshot(self.checkpoint, incremental=incremental, base=self.base if incremental else None)
        )
        self.base = None
        before = len(self.slots)
        self.slots = self.make_slots(parallelism)
        for slot in self.slots:
            slot.restore(files, old_parallelism=before)
            if early:  # the state is not asked for before the heap is lost
                slot.end()
                slot.lose_heap()
                slot.begin()
        self.redistribute(before, parallelism)
        self.next_epoch()

    def redistribute(self, before: int, after: int) -> None:
        if before != after:
            everything = [value for values in self.operator_list for value in values]
            self.operator_list = [everything[subtask::after] for subtask in range(after)]

    # -- what must hold ------------------------------------------------------------------------------------------------------

    @invariant()
    def reads_equal_the_model(self) -> None:
        readers: dict[str, Callable[[Slot], Any]] = {
            "long": lambda slot: self._long(slot).value(),
            "untyped": lambda slot: self._untyped(slot).value(),
            "row": lambda slot: self._row(slot).value(),
            "list": lambda slot: list(self._list(slot)) or None,
            "map": lambda slot: list(self._map(slot).items()) or None,
            "untyped_map": lambda slot: list(self._untyped_map(slot).items()) or None,
            "sum": lambda slot: self._sum(slot).get(),
            "statistics": lambda slot: self._statistics(slot).get(),
        }
        for key in [key for name, key in self.model if name in readers][-3:]:
            slot = self.at(_KEYS_BY_NAME[key])
            for name, read in readers.items():
                expected = self.model.get((name, key))
                if name in ("map", "untyped_map"):
                    expected = list((expected or {}).items())
                assert read(slot) == (expected or None if name in ("list", "map", "untyped_map") else expected), name
            for window in range(3):
                slot.backend.current_namespace = (window, window + 1)
                assert self._long(slot).value() == self.model.get((f"long {window}", key))
                slot.backend.current_namespace = None

    @invariant()
    def operator_lists_equal_the_model(self) -> None:
        for slot, expected in zip(self.slots, self.operator_list, strict=True):
            assert list(self._operator_list(slot)) == expected

    # -- handles -------------------------------------------------------------------------------------------------------------

    def _long(self, slot: Slot) -> Any:
        return slot.backend.get_state(ValueStateDescriptor("long", Types.LONG()))

    def _untyped(self, slot: Slot) -> Any:
        return slot.backend.get_state(ValueStateDescriptor("untyped", Types.PICKLED_BYTE_ARRAY()))

    def _row(self, slot: Slot) -> Any:
        return slot.backend.get_state(ValueStateDescriptor("row", ROW_TYPE))

    def _list(self, slot: Slot) -> Any:
        return slot.backend.get_list_state(ListStateDescriptor("list", Types.PICKLED_BYTE_ARRAY()))

    def _map(self, slot: Slot) -> Any:
        return slot.backend.get_map_state(MapStateDescriptor("map", Types.STRING(), Types.LONG()))

    def _untyped_map(self, slot: Slot) -> Any:
        descriptor = MapStateDescriptor("untyped_map", Types.PICKLED_BYTE_ARRAY(), Types.PICKLED_BYTE_ARRAY())
        return slot.backend.get_map_state(descriptor)

    def _sum(self, slot: Slot) -> Any:
        return slot.backend.get_reducing_state(ReducingStateDescriptor("sum", lambda a, b: a + b, Types.LONG()))

    def _statistics(self, slot: Slot) -> Any:
        return slot.backend.get_aggregating_state(
            AggregatingStateDescriptor("statistics", _Statistics(), Types.LIST(Types.LONG()))
        )

    def _operator_list(self, slot: Slot) -> Any:
        return slot.operator.list_state(ListStateDescriptor("operator", Types.PICKLED_BYTE_ARRAY()))


_KEYS_BY_NAME = {
    frozen(key): key
    for key in [
        *range(-3, 9), 2**62, -(2**63), 2**61 - 1, 2**61,
        "", "a", "b", "ä", "key-1", "x" * 40,
        "1", b"1", None, (1, "a"), [1, 2], {"k": [1]}, 1.5, Row(1, 2),
        *((number, letter) for number in range(4) for letter in "ab"),
    ]
}  # fmt: skip


class FewFiles(StateMachine):
    """All stays inline."""

    inline_limit = 1 << 20


class OnDisk(StateMachine):
    """Keyed state is in RocksDB."""

    backend = "rocksdb"


class Checkpointed(StateMachine):
    """A checkpoint after every third step; each example ends with a restore from the chain of these."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = itertools.count(1)

    @precondition(lambda self: self.slots)
    @invariant()
    def take_a_checkpoint(self) -> None:
        step = next(self.steps)
        if step % 3 == 0:
            self.take_an_incremental_checkpoint(completes=step % 9 != 0)
            if step % 2 == 0:
                self.next_epoch()

    def teardown(self) -> None:
        if self.base is not None:
            self.restore_from_a_checkpoint(parallelism=2, early=False, incremental=True)
            self.reads_equal_the_model()
            self.advance_watermark(by=10)
        super().teardown()


class CheckpointedOnDisk(Checkpointed):
    """The same with RocksDB."""

    backend = "rocksdb"


#: More of them before a release: FLINKISH_STATE_EXAMPLES=2000.
_EXAMPLES = int(os.environ.get("FLINKISH_STATE_EXAMPLES", "100"))
#: Without shrinking, which takes minutes: the seed is printed.
_PHASES = (Phase.explicit, Phase.reuse, Phase.generate)
_SETTINGS = settings(
    stateful_step_count=40, deadline=None, phases=_PHASES, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
StateMachine.TestCase.settings = settings(_SETTINGS, max_examples=_EXAMPLES)
FewFiles.TestCase.settings = settings(_SETTINGS, max_examples=max(1, _EXAMPLES // 4))
Checkpointed.TestCase.settings = settings(_SETTINGS, max_examples=max(1, _EXAMPLES // 2))
OnDisk.TestCase.settings = settings(_SETTINGS, max_examples=max(1, _EXAMPLES // 2))
CheckpointedOnDisk.TestCase.settings = settings(_SETTINGS, max_examples=max(1, _EXAMPLES // 2))
TestManyFiles = StateMachine.TestCase
TestFewFiles = FewFiles.TestCase
TestCheckpointed = Checkpointed.TestCase
TestOnDisk = OnDisk.TestCase
TestCheckpointedOnDisk = CheckpointedOnDisk.TestCase

"""Random programs against the state of an operator and a plain model, through epochs, lost heaps, checkpoints and rescaling.

Few keys, few map entries and short times meet often: members are removed and put again between two checkpoints, the clock
stands exactly at an expiry, and timers are registered before those that are due. Where Flink or a Protocol of backend.py fixes
an order, it is compared.
"""

from __future__ import annotations

import copy
import itertools
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from flinkish.common.time import Time
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.common.types import Row
from flinkish.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from flinkish.runtime.key_groups import key_group, subtask_of_group
from flinkish.runtime.keys import as_key, original_key
from flinkish.runtime.protocol import StateFile
from flinkish.runtime.state.heap import log, snapshot
from tests.kit.backends import BACKENDS
from tests.models.runtime.state import grouped_rules
from tests.models.runtime.state.expectations import expect
from tests.models.runtime.state.statistics import Statistics
from tests.unit.runtime.state.harness import MAX_PARALLELISM, Slot

STEPS = 80
TTL = 3

LONGS = [0, 1, -1, 2**63 - 1, -(2**63)]
PLAIN = [None, True, 0, 2**70, 1.5, "", "ä", b"x", [], [1, [None]], (1, "a"), {"k": 1}, {1: [2.5], "1": None}]
UNTYPED = PLAIN[1:]

#: Key types with keys; plain ones more often, because only they are in incremental checkpoints.
KEYS: list[tuple[TypeInformation, list[Any]]] = [
    (Types.LONG(), [*range(-3, 9), 2**62, -(2**63), 2**61 - 1, 2**61]),
    (Types.LONG(), [*range(9)]),
    (Types.STRING(), ["", "a", "b", "ä", "key-1", "x" * 40]),
    (Types.TUPLE([Types.LONG(), Types.STRING()]), [(number, letter) for number in range(4) for letter in "ab"]),
    (Types.PICKLED_BYTE_ARRAY(), [1, "1", b"1", None, (1, "a"), [1, 2], {"k": [1]}, 1.5, Row(1, 2)]),
]


def _expiring(descriptor: Any) -> Any:
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.milliseconds(TTL)).build())
    return descriptor


_LONG, _TEXT, _ANY = Types.LONG(), Types.STRING(), Types.PICKLED_BYTE_ARRAY()
STATES: dict[str, Any] = {
    "long": ValueStateDescriptor("long", _LONG),
    "untyped": ValueStateDescriptor("untyped", _ANY),
    "row": ValueStateDescriptor("row", Types.ROW_NAMED(["a", "b"], [_LONG, _TEXT])),
    "list": ListStateDescriptor("list", _ANY),
    "map": MapStateDescriptor("map", _TEXT, _LONG),
    "untyped_map": MapStateDescriptor("untyped_map", _ANY, _ANY),
    "sum": ReducingStateDescriptor("sum", lambda a, b: a + b, _LONG),
    "statistics": AggregatingStateDescriptor("statistics", Statistics(), Types.LIST(_LONG)),
    "expiring": _expiring(ValueStateDescriptor("expiring", _LONG)),
    "expiring_list": _expiring(ListStateDescriptor("expiring_list", _ANY)),
    "expiring_map": _expiring(MapStateDescriptor("expiring_map", _TEXT, _ANY)),
}
_OPERATOR_LIST = ListStateDescriptor("operator", _ANY)


#: Timestamp and key.
Timer = tuple[int, str]


@dataclass
class Model:
    """What the state must be. Values with a time-to-live are pairs: time of the last write, value."""

    operator_lists: list[list[Any]]
    union_lists: list[list[Any]]
    broadcast: dict[str, Any] = field(default_factory=dict)
    #: Of tables by group: name and group, then member.
    groups: dict[tuple[str, str], dict[Any, Any]] = field(default_factory=dict)
    values: dict[tuple[str, str], Any] = field(default_factory=dict)
    #: By time domain, in the order of registration.
    timers: dict[str, list[Timer]] = field(default_factory=lambda: {"event_time": [], "processing_time": []})
    watermark: int = 0


class Program:
    """All subtasks of one operator. The seed decides everything."""

    def __init__(self, seed: int, backend: str, folder: Path) -> None:
        self.random = random.Random(seed)
        self.backend, self.folder = backend, folder
        self.key_type, keys = self.random.choice(KEYS)
        self.keys = self.random.sample(keys, 3)
        self.attempts = itertools.count()
        self.checkpoint = 0
        self.completed: tuple[int, tuple[StateFile, ...], Model] | None = None
        self.now = 0
        self.slots: list[Slot] = []
        parallelism = self.random.choice([1, 1, 2, 3])
        self.model = Model([[] for _ in range(parallelism)], [[] for _ in range(parallelism)])
        self.make_slots(parallelism)
        for slot in self.slots:
            slot.begin()
        self.next_epoch()

    def run(self) -> None:
        rules, weights = zip(*_RULES.items(), strict=True)
        for rule in self.random.choices(rules, weights, k=STEPS):
            rule(self)
        self.restore()

    def close(self) -> None:
        for slot in self.slots:
            slot.state.close()

    def make_slots(self, parallelism: int) -> None:
        self.close()
        attempt = f"attempt-{next(self.attempts)}"
        self.slots = [
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
        self.tick(0)

    def subtask_of(self, key: Any) -> int:
        return subtask_of_group(key_group(as_key(key), MAX_PARALLELISM), MAX_PARALLELISM, len(self.slots))

    def at(self, key: Any) -> Slot:
        """Go to the key, in the subtask it belongs to."""
        slot = self.slots[self.subtask_of(key)]
        slot.key(as_key(key))
        return slot

    def touch(self, *names: str) -> tuple[Any, tuple[str, str]]:
        """Return the handle of one of these states at some key, and its place in the model."""
        (key,), name = self.random.choices(self.keys, (4, 2, 1)), self.random.choice(names)
        return _handle(self.at(key), name), (name, repr(key))

    # -- what functions do ---------------------------------------------------------------------------------------------------

    def update(self) -> None:
        state, place = self.touch("long", "untyped", "row", "expiring")
        a, b = self.random.choice(LONGS), self.random.choice([None, "", "b"])
        value = {"untyped": self.random.choice(UNTYPED), "row": Row(a=a, b=b)}.get(place[0], a)
        state.update(copy.deepcopy(value))
        self.model.values[place] = (self.now, value) if place[0] == "expiring" else copy.deepcopy(value)

    def update_in_namespace(self) -> None:
        key, window, value = self.random.choice(self.keys), self.random.randint(0, 2), self.random.choice(LONGS)
        backend = self.at(key).backend
        backend.current_namespace = (window, window + 1)
        backend.get_state(STATES["long"]).update(value)
        backend.current_namespace = None
        self.model.values[f"long {window}", repr(key)] = value

    def change_in_place(self) -> None:
        state, place = self.touch("row", "untyped_map")
        if place[0] == "row":
            if (row := state.value()) is not None:
                row["a"] = self.model.values[place]["a"] = self.random.choice(LONGS)
            return
        entry, value = self.random.randint(0, 2), self.random.choice(PLAIN)
        held = state.get(entry)
        if held is None:
            state.put(entry, [copy.deepcopy(value)])
        else:
            held.append(copy.deepcopy(value))  # in place, without put()
        self.model.values.setdefault(place, {}).setdefault(entry, []).append(copy.deepcopy(value))

    def add_to_list(self) -> None:
        state, place = self.touch("list", "expiring_list")
        values = copy.deepcopy(self.random.choices(PLAIN, k=self.random.randint(0, 2)))
        stamped = [(self.now, value) for value in values] if place[0] == "expiring_list" else values
        if self.random.random() < 0.3:
            state.update(values)
            self.model.values[place] = stamped
        else:
            state.add_all(values)
            self.model.values[place] = [*self.model.values.get(place, []), *stamped]

    def put_into_map(self) -> None:
        state, place = self.touch("map", "map", "expiring_map")
        entry, value = self.random.choice("abc"), self.random.choice([None, *LONGS])
        state.put(entry, value)
        self.model.values.setdefault(place, {})[entry] = (self.now, value) if place[0] == "expiring_map" else value

    def remove_from_map(self) -> None:
        state, place = self.touch("map", "map", "untyped_map", "expiring_map")
        entry = self.random.choice("abc") if place[0] != "untyped_map" else self.random.randint(0, 2)
        state.remove(entry)
        self.model.values.get(place, {}).pop(entry, None)

    def move_in_map(self) -> None:
        """Remove an entry and put it again, which brings it behind the others."""
        state, place = self.touch("map", "untyped_map")
        if model := self.model.values.get(place):
            entry = self.random.choice(list(model))
            value = state.get(entry)
            state.remove(entry)
            kept = model.pop(entry)
            if self.random.random() < 0.3:
                self.next_epoch()
            state.put(entry, value)
            model[entry] = kept

    def clear(self) -> None:
        state, place = self.touch(*STATES)
        state.clear()
        self.model.values.pop(place, None)

    def add(self) -> None:
        state, place = self.touch("sum", "statistics")
        value = self.random.choice([None, 1, -2, 100])
        if place[0] == "sum":
            state.add(value or 0)
            self.model.values[place] = self.model.values.get(place, 0) + (value or 0)
        elif value is None:  # as in Flink, this clears the state
            state.add(None)
            self.model.values.pop(place, None)
        else:
            state.add(value)
            count, total = self.model.values.get(place, (0, 0))
            self.model.values[place] = (count + 1, total + value)

    def add_to_operator_list(self) -> None:
        subtask, value = self.random.randrange(len(self.slots)), self.random.choice(PLAIN)
        self.slots[subtask].operator.list_state(_OPERATOR_LIST).add(copy.deepcopy(value))
        self.model.operator_lists[subtask].append(value)

    # -- time ----------------------------------------------------------------------------------------------------------------

    def tick(self, by: int) -> None:
        """Let processing time pass, without firing timers."""
        self.now += by
        for slot in self.slots:
            slot.now = self.now

    def wait(self) -> None:
        self.tick(self.random.randint(1, TTL))

    def register(self, domain: str, timestamp: int, key: Any) -> None:
        slot = self.at(key)
        getattr(slot.backend.timers(), domain).register(timestamp, slot.backend.current_key)
        if (timestamp, repr(key)) not in self.model.timers[domain]:
            self.model.timers[domain].append((timestamp, repr(key)))

    def delete(self, domain: str, timestamp: int, key: Any) -> None:
        slot = self.at(key)
        getattr(slot.backend.timers(), domain).delete(timestamp, slot.backend.current_key)
        if (timestamp, repr(key)) in self.model.timers[domain]:
            self.model.timers[domain].remove((timestamp, repr(key)))

    def change_timer(self) -> None:
        domain = self.random.choice(list(self.model.timers))
        time = self.model.watermark if domain == "event_time" else self.now
        change = self.register if self.random.random() < 0.8 else self.delete
        timestamp = time + self.random.randint(-1, 3)
        for key in self.random.sample(self.keys, self.random.randint(1, 3)):
            change(domain, timestamp, key)

    def advance_watermark(self) -> None:
        """Each timer that fires must be the first; it may register one before, at or behind its own time, or delete one."""
        self.model.watermark += self.random.randint(0, 2)
        timers = self.model.timers["event_time"]
        for subtask, slot in enumerate(self.slots):
            due = [key for key in self.keys if self.subtask_of(key) == subtask]
            names = {repr(key) for key in due}

            def first(names: set[str] = names) -> Timer | None:
                ours = [timer for timer in timers if timer[0] <= self.model.watermark and timer[1] in names]
                return min(ours, key=lambda timer: timer[0], default=None)

            def fire(timestamp: int, key: Any, namespace: Any, first: Callable[[], Timer | None] = first) -> None:
                key = original_key(key)
                expect("the timer that fires", ((timestamp, repr(key)), namespace), (first(), None))
                timers.remove((timestamp, repr(key)))
                if (chance := self.random.random()) < 0.4:
                    self.register("event_time", timestamp + self.random.choice([-1, -1, 0, 1, 2]), key)
                elif chance < 0.5:
                    self.delete("event_time", timestamp + 1, key)

            slot.backend.timers().event_time.advance(self.model.watermark, fire)
            expect("a timer that did not fire", first(), None)

    def advance_clock(self) -> None:
        """A timer that is set for exactly the current time meanwhile waits."""
        self.wait()
        timers = self.model.timers["processing_time"]
        for subtask, slot in enumerate(self.slots):
            names = {repr(key) for key in self.keys if self.subtask_of(key) == subtask}
            due = [timer for timer in timers if timer[0] <= self.now and timer[1] in names]
            fired: list[Timer] = []

            def fire(timestamp: int, key: Any, namespace: Any, fired: list[Timer] = fired) -> None:
                key = original_key(key)
                fired.append((timestamp, repr(key)))
                timers.remove(fired[-1])
                if self.random.random() < 0.4:
                    self.register("processing_time", self.now + self.random.randint(0, 1), key)

            slot.backend.timers().processing_time.advance_clock(self.now, fire)
            expect("timers that fired", fired, sorted(due, key=lambda timer: timer[0]))

    # -- what happens to slots -----------------------------------------------------------------------------------------------

    def next_epoch(self) -> None:
        for slot in self.slots:
            slot.end()
            slot.begin()
        self.committed = copy.deepcopy(self.model)

    def lose_heap_between_epochs(self) -> None:
        for slot in self.slots:
            slot.end_and_lose_heap()
            slot.begin()
        self.committed = copy.deepcopy(self.model)
        self.check()

    def run_the_epoch_again(self) -> None:
        """The try is lost, perhaps after it wrote its files: what it did must not be seen."""
        finished = self.random.random() < 0.5
        for slot in self.slots:
            if finished:
                slot.state.end_epoch(slot.epoch)
            assert not slot.state.matches(slot.blob)
            slot.lose_heap()
            slot.begin()
        self.model = copy.deepcopy(self.committed)
        self.check()

    def take_checkpoint(self, *, incremental: bool = True) -> tuple[StateFile, ...]:
        self.checkpoint += 1
        base = self.completed[0] if self.completed and incremental else None
        return tuple(file for slot in self.slots for file in slot.snapshot(self.checkpoint, incremental=incremental, base=base))

    def take_incremental_checkpoint(self) -> None:
        """One that does not complete is never read."""
        files = self.take_checkpoint()
        if self.random.random() < 0.7:
            self.completed = self.checkpoint, files, copy.deepcopy(self.model)

    def restore(self) -> None:
        """Go on from a savepoint, a new checkpoint or the last one, at another parallelism."""
        if self.completed is None or self.random.random() < 0.5:
            files = self.take_checkpoint(incremental=self.random.random() < 0.9)
        else:
            _, files, model = self.completed
            self.model = copy.deepcopy(model)
        before, after = len(self.model.operator_lists), self.random.choice([1, 1, 2, 3, 4])
        self.make_slots(before)
        old = {repr(key): self.subtask_of(key) for key in self.keys}
        if before != after:
            everything = list(itertools.chain.from_iterable(self.model.operator_lists))
            self.model.operator_lists = [everything[subtask::after] for subtask in range(after)]
        grouped_rules.restored(self, after)
        self.make_slots(after)
        early = self.random.random() < 0.3
        for slot in self.slots:
            slot.restore(files, old_parallelism=before)
            if early:  # the heap is lost before the state is asked for
                slot.end_and_lose_heap()
                slot.begin()
        self.adopt_timers(old)
        grouped_rules.adopt_order(self)
        self.check()
        self.next_epoch()

    def adopt_timers(self, old: dict[str, int]) -> None:
        """Timers of one old subtask have kept their order; that of timers of different ones is not fixed."""
        for domain, timers in self.model.timers.items():
            found = list(itertools.chain.from_iterable(_timers(slot, domain) for slot in self.slots))
            expect(f"{domain} timers after a restore", sorted(found), sorted(timers))
            for subtask, slot in itertools.product(set(old.values()), self.slots):
                kept = [timer for timer in _timers(slot, domain) if old[timer[1]] == subtask]
                ours = (timer for timer in timers if timer in kept)
                expect(f"{domain} timers of an old subtask", kept, sorted(ours, key=lambda timer: timer[0]))
            timers[:] = found

    # -- what must hold ------------------------------------------------------------------------------------------------------

    def expected(self, name: str, key: str) -> Any:
        value = self.model.values.get((name, key))
        if value is None:
            return None
        alive = self.now - TTL
        if name == "expiring":
            return value[1] if value[0] > alive else None
        if name == "expiring_list":
            value = [element for stamp, element in value if stamp > alive]
        elif name == "expiring_map":  # in any order: it depends on when expired entries are removed
            value = {entry: element for entry, (stamp, element) in value.items() if stamp > alive}
        return (list(value.items()) if name.endswith("map") else value) or (None if name.endswith(("map", "list")) else value)

    def read(self) -> None:
        self.check_key(self.random.choice(self.keys))

    def check_key(self, key: Any) -> None:
        slot = self.at(key)
        for name in STATES:
            found, expected = _read(_handle(slot, name)), self.expected(name, repr(key))
            if name == "expiring_map":
                found, expected = dict(found or ()), dict(expected or ())
            expect(f"{name} of {key!r}", found, expected)
        for window in range(3):
            slot.backend.current_namespace = (window, window + 1)
            name = f"long {window}"
            expect(f"{name} of {key!r}", _handle(slot, "long").value(), self.model.values.get((name, repr(key))))
            slot.backend.current_namespace = None

    def check(self) -> None:
        for key in self.keys:
            self.check_key(key)
        for subtask, slot in enumerate(self.slots):
            expect("operator list", list(slot.operator.list_state(_OPERATOR_LIST)), self.model.operator_lists[subtask])
            names = {repr(key) for key in self.keys if self.subtask_of(key) == subtask}
            for domain, timers in self.model.timers.items():
                ours = (timer for timer in timers if timer[1] in names)
                expect(f"{domain} timers", _timers(slot, domain), sorted(ours, key=lambda timer: timer[0]))
        grouped_rules.check(self)


def _timers(slot: Slot, domain: str) -> list[Timer]:
    return [(timestamp, repr(original_key(key))) for timestamp, key in getattr(slot.backend.timers(), domain)]


def _handle(slot: Slot, name: str) -> Any:
    descriptor, backend = STATES[name], slot.backend
    match descriptor:
        case ListStateDescriptor():
            return backend.get_list_state(descriptor)
        case MapStateDescriptor():
            return backend.get_map_state(descriptor)
        case ReducingStateDescriptor():
            return backend.get_reducing_state(descriptor)
        case AggregatingStateDescriptor():
            return backend.get_aggregating_state(descriptor)
        case _:
            return backend.get_state(descriptor)


def _read(state: Any) -> Any:
    if hasattr(state, "value"):
        return state.value()
    if hasattr(state, "items"):
        return list(state.items()) or None
    return (list(state) or None) if hasattr(state, "add_all") else state.get()


#: How often each is chosen, relative to the others.
_RULES: dict[Callable[[Program], None], int] = {
    Program.update: 6,
    Program.update_in_namespace: 2,
    Program.change_in_place: 5,
    Program.add_to_list: 5,
    Program.put_into_map: 12,
    Program.remove_from_map: 4,
    Program.move_in_map: 16,
    Program.clear: 4,
    Program.add: 4,
    Program.add_to_operator_list: 2,
    Program.wait: 3,
    Program.change_timer: 10,
    Program.advance_watermark: 5,
    Program.advance_clock: 2,
    Program.read: 3,
    Program.next_epoch: 8,
    Program.lose_heap_between_epochs: 3,
    Program.run_the_epoch_again: 2,
    Program.take_incremental_checkpoint: 10,
    Program.restore: 3,
    **grouped_rules.RULES,
}


@contextmanager
def _limits(inline: int) -> Iterator[None]:
    """Let little state have long logs and chains of checkpoints."""
    with ExitStack() as stack:
        for where, name, value in [
            (log, "INLINE_LIMIT", inline),
            (log, "INLINE_ENTRIES", 5),
            (snapshot, "MOST_CHANGES", 1_000),
            (os, "fsync", lambda descriptor: None),  # 50 ms each on a busy disk
        ]:
            stack.enter_context(mock.patch.object(where, name, value))
        yield


def run(seed: int, backend: str, folder: Path) -> None:
    """Run the program of a seed in a folder, which is removed."""
    with _limits((400, 1 << 20)[seed % 4 == 0]):
        program = Program(seed, backend, folder)
        try:
            program.run()
        finally:
            program.close()
            shutil.rmtree(folder, ignore_errors=True)

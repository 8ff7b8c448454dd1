from __future__ import annotations

from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from flinkish.common.typeinfo import Types
from flinkish.runtime.state.heap.timers import HeapTimerTable
from flinkish.runtime.state.tables import TIMERS, Namespaced, TableMeta, address_of
from tests.unit.runtime.state.harness import Slot

META = TableMeta(kind=TIMERS, key_type=Types.STRING(), types=(), max_parallelism=16)


class Timers:
    """Timers and what fired."""

    def __init__(self) -> None:
        self.table = HeapTimerTable(META)
        self.fired: list[tuple[int, Any, Any]] = []

    def advance(self, timestamp: int) -> list[tuple[int, Any, Any]]:
        self.fired = []
        self.table.event_time.advance(timestamp, lambda *timer: self.fired.append(timer))
        return self.fired


@pytest.fixture
def timers() -> Timers:
    return Timers()


def test_timers_fire_in_time_order_over_all_keys(timers: Timers) -> None:
    for key, timestamp in (("a", 5), ("b", 1), ("c", 3), ("a", 1), ("d", 9)):
        timers.table.event_time.register(timestamp, key)
    assert timers.advance(5) == [(1, "b", None), (1, "a", None), (3, "c", None), (5, "a", None)]
    assert timers.advance(8) == []
    assert timers.advance(9) == [(9, "d", None)]


def test_one_key_has_timers_of_one_time_in_several_namespaces(timers: Timers) -> None:
    for namespace in (None, (0, 10), (0, 20)):
        timers.table.event_time.register(5, address_of("a", namespace))
    timers.table.event_time.delete(5, Namespaced("a", (0, 10)))
    assert timers.advance(5) == [(5, "a", None), (5, "a", (0, 20))]


def test_timers_registered_while_firing_fire_too_in_their_order(timers: Timers) -> None:
    fired: list[tuple[int, str]] = []

    def fire(timestamp: int, key: str, namespace: Any) -> None:
        fired.append((timestamp, key))
        if (timestamp, key) == (5, "a"):
            timers.table.event_time.register(2, "late")
            timers.table.event_time.register(6, "next")
            timers.table.event_time.register(11, "beyond")

    timers.table.event_time.register(5, "a")
    timers.table.event_time.register(5, "b")
    timers.table.event_time.register(7, "c")
    timers.table.event_time.advance(10, fire)
    assert fired == [(5, "a"), (2, "late"), (5, "b"), (6, "next"), (7, "c")]
    assert timers.table.event_time.next() == 11


def test_a_timer_may_register_itself_again_for_the_same_time(timers: Timers) -> None:
    fired: list[int] = []

    def fire(timestamp: int, key: str, namespace: Any) -> None:
        fired.append(timestamp)
        if len(fired) < 3:
            timers.table.event_time.register(timestamp, key)

    timers.table.event_time.register(5, "a")
    timers.table.event_time.advance(5, fire)
    assert fired == [5, 5, 5]


def test_a_timer_may_delete_another_of_the_same_time(timers: Timers) -> None:
    fired: list[str] = []

    def fire(timestamp: int, key: str, namespace: Any) -> None:
        fired.append(key)
        timers.table.event_time.delete(5, "b")

    for key in "abc":
        timers.table.event_time.register(5, key)
    timers.table.event_time.advance(5, fire)
    assert fired == ["a", "c"]


def test_the_time_domains_are_apart(timers: Timers) -> None:
    timers.table.event_time.register(5, "a")
    timers.table.processing_time.register(3, "a")
    assert timers.table.processing_time.next() == 3
    assert timers.advance(10) == [(5, "a", None)]
    timers.table.processing_time.delete(3, "a")
    assert timers.table.processing_time.next() is None


def test_the_heap_does_not_grow_with_timers_that_are_moved(timers: Timers) -> None:
    for timestamp in range(10_000):
        timers.table.event_time.delete(timestamp - 1, "a")
        timers.table.event_time.register(timestamp, "a")
    assert len(timers.table.event_time._heap) < 2_000
    assert timers.table.event_time.next() == 9_999


def test_timers_survive_a_lost_heap_in_their_order(make_slot: Callable[..., Slot]) -> None:
    slot = make_slot(key_type=Types.STRING())
    slot.begin()
    for key in "bac":
        slot.backend.timers().event_time.register(5, key)
    slot.backend.timers().processing_time.register(7, "p")
    slot.end_and_lose_heap()
    slot.begin()
    slot.backend.timers().event_time.delete(5, "a")
    slot.backend.timers().event_time.register(5, "a")
    slot.end_and_lose_heap()
    fired: list[str] = []
    slot.begin()
    slot.backend.timers().event_time.advance(5, lambda timestamp, key, namespace: fired.append(key))
    assert fired == ["b", "c", "a"]
    slot.end_and_lose_heap()
    assert slot.backend.timers().event_time.size == 0
    assert slot.backend.timers().processing_time.next() == 7


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["register", "delete", "advance", "replay"]), st.sampled_from("abc"), st.integers(0, 12))
    )
)
def test_timers_behave_as_a_sorted_set(steps: list[tuple[str, str, int]]) -> None:
    timers = Timers()
    replayed = Timers()
    model: set[tuple[int, str]] = set()
    for step, key, timestamp in steps:
        if step == "register":
            timers.table.event_time.register(timestamp, key)
            model.add((timestamp, key))
        elif step == "delete":
            timers.table.event_time.delete(timestamp, key)
            model.discard((timestamp, key))
        elif step == "advance":
            fired = [(at, fired_key) for at, fired_key, _ in timers.advance(timestamp)]
            assert [at for at, _ in fired] == sorted(at for at, _ in fired)
            assert set(fired) == {timer for timer in model if timer[0] <= timestamp}
            assert len(fired) == len(set(fired))
            model = {timer for timer in model if timer[0] > timestamp}
        else:
            changes = timers.table.take_changes()
            if changes is not None:
                replayed.table.apply(changes)
            assert list(replayed.table.event_time) == list(timers.table.event_time)
        assert timers.table.event_time.next() == min((at for at, _ in model), default=None)
        assert timers.table.event_time.size == len(model)

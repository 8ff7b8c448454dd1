"""The order in which results of asynchronous calls go on."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from flinkish.runtime.operators.async_wait import Call, CallQueue


class Driver:
    """A queue under test; calls are known by number, controls by name."""

    def __init__(self, queue: CallQueue) -> None:
        self.queue = queue
        self.calls: dict[int, Call] = {}
        self.out: list[Any] = []

    def add(self, *numbers: int) -> None:
        for number in numbers:
            call = self.calls[number] = Call(number, None)
            self.queue.add(call)

    def control(self, name: str) -> None:
        self.queue.add_control(lambda: self.out.append(name))

    def returned(self, *numbers: int) -> None:
        for number in numbers:
            self.queue.returned(self.calls[number])
        for ready in self.queue.take_ready():
            if isinstance(ready, Call):
                self.out.append(ready.value)
            else:
                ready()


@pytest.mark.parametrize(("ordered", "first", "all_"), [(True, [], [1, 2, 3]), (False, [3, 2], [3, 2, 1])])
def test_only_an_ordered_queue_holds_back_what_overtook(ordered: bool, first: list[int], all_: list[int]) -> None:
    driver = Driver(CallQueue(ordered=ordered))
    driver.add(1, 2, 3)
    driver.returned(3, 2)
    assert (driver.out, driver.queue.size) == (first, 3 - len(first))
    driver.returned(1)
    assert (driver.out, driver.queue.size) == (all_, 0)


@pytest.mark.parametrize("ordered", [True, False])
def test_nothing_passes_a_control_element(ordered: bool) -> None:
    driver = Driver(CallQueue(ordered=ordered))
    driver.add(1)
    driver.control("a")
    driver.control("b")
    driver.add(2)
    driver.control("c")
    driver.returned(2)
    assert driver.out == []
    driver.returned(1)
    assert driver.out == [1, "a", "b", 2, "c"]


@given(st.lists(st.booleans(), max_size=30), st.randoms(use_true_random=False), st.booleans())
def test_all_goes_on_once_and_on_its_side_of_each_control_element(controls: list[bool], rng: Any, ordered: bool) -> None:
    driver = Driver(CallQueue(ordered=ordered))
    for number, control in enumerate(controls):
        if control:
            driver.control(f"control {number}")
        else:
            driver.add(number)
    pushed = [f"control {number}" if control else number for number, control in enumerate(controls)]
    order = list(driver.calls)
    rng.shuffle(order)
    for number in order:
        driver.returned(number)
    driver.returned()

    assert driver.queue.size == 0
    if ordered:
        assert driver.out == pushed
    else:
        assert sorted(map(str, driver.out)) == sorted(map(str, pushed))
        for index, element in enumerate(pushed):
            if isinstance(element, str):
                position = driver.out.index(element)
                assert set(driver.out[:position]) == set(pushed[:index])

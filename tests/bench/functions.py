"""The user functions of the benchmarks; every engine and the floor run the same ones."""

from __future__ import annotations

from typing import Any

KEYS = 100_000


def add_one(value: int) -> int:
    return value + 1


def key_of(value: int) -> int:
    return value % KEYS


class Count:
    """Counts the records of each key; `state` has value() and update()."""

    def __init__(self, state: Any) -> None:
        self.state = state

    def process(self, value: int) -> None:
        state = self.state
        count = state.value()
        state.update(1 if count is None else count + 1)

"""The floor: the keyed count in two bare Python processes that exchange pickled frames over a pipe. Nothing is checkpointed."""

from __future__ import annotations

import multiprocessing
import pickle
import time
from multiprocessing.connection import Connection
from typing import Any

from tests.bench.functions import Count, add_one, key_of

_FRAME = 8_192


class _DictState:
    """The least that keyed state can be."""

    def __init__(self) -> None:
        self.values: dict[Any, Any] = {}
        self.key: Any = None

    def value(self) -> Any:
        return self.values.get(self.key)

    def update(self, value: Any) -> None:
        self.values[self.key] = value


def _count(connection: Connection) -> None:
    state = _DictState()
    process = Count(state).process
    while frame := connection.recv_bytes():
        values, keys = pickle.loads(frame)
        for value, key in zip(values, keys, strict=True):
            state.key = key
            process(value)
    connection.send(len(state.values))


def records_per_second(records: int) -> float:
    """Run `records` through and return the rate."""
    here, there = multiprocessing.Pipe()
    counter = multiprocessing.get_context("spawn").Process(target=_count, args=(there,))
    counter.start()
    here.send_bytes(pickle.dumps(([], [])))
    started = time.perf_counter()
    values: list[int] = []
    keys: list[int] = []
    for number in range(records):
        value = add_one(number)
        values.append(value)
        keys.append(key_of(value))
        if len(values) == _FRAME:
            here.send_bytes(pickle.dumps((values, keys), 5))
            values, keys = [], []
    here.send_bytes(pickle.dumps((values, keys), 5))
    here.send_bytes(b"")
    here.recv()
    elapsed = time.perf_counter() - started
    counter.join()
    return records / elapsed


if __name__ == "__main__":
    print(records_per_second(4_000_000))

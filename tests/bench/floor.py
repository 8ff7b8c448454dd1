"""The floor: the keyed count in two bare Python processes that exchange pickled frames over a pipe, without checkpoints.

It runs in two forms. In the first, records are as in a stream processor: time, key and value. The second is a limit that no
stream processor can reach: a frame is two lists of numbers, which pickle writes in one call, and its records have no times.
"""

from __future__ import annotations

import multiprocessing
import pickle
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

from tests.bench.functions import Count, add_one, key_of
from tests.bench.keyed_count import SHAPES, CountEach

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


def _count_records(connection: Connection) -> None:
    state = _DictState()
    process = Count(state).process
    while frame := connection.recv_bytes():
        for _timestamp, key, value in pickle.loads(frame):
            state.key = key
            process(value)
    connection.send(len(state.values))


def _count_columns(connection: Connection) -> None:
    state = _DictState()
    process = Count(state).process
    while frame := connection.recv_bytes():
        values, keys = pickle.loads(frame)
        for value, key in zip(values, keys, strict=True):
            state.key = key
            process(value)
    connection.send(len(state.values))


def _count_with_results(connection: Connection) -> None:
    function, state, results = CountEach(), _DictState(), 0
    function.state = state
    while frame := connection.recv_bytes():
        for _timestamp, key, value in pickle.loads(frame):
            state.key = key
            for _ in function.process_element(value, None):
                results += 1
    connection.send(results)


def _send_records(
    connection: Connection, records: int, make: Callable[[int], Any] = add_one, key_of: Callable[[Any], int] = key_of
) -> None:
    frame: list[tuple[int, int, Any]] = []
    for number in range(records):
        value = make(number)
        frame.append((number, key_of(value), value))
        if len(frame) == _FRAME:
            connection.send_bytes(pickle.dumps(frame, 5))
            frame = []
    connection.send_bytes(pickle.dumps(frame, 5))


def _send_columns(connection: Connection, records: int) -> None:
    values: list[int] = []
    keys: list[int] = []
    for number in range(records):
        value = add_one(number)
        values.append(value)
        keys.append(key_of(value))
        if len(values) == _FRAME:
            connection.send_bytes(pickle.dumps((values, keys), 5))
            values, keys = [], []
    connection.send_bytes(pickle.dumps((values, keys), 5))


def _rate(send: Callable[[Connection, int], None], count: Callable[[Connection], None], nothing: Any, records: int) -> float:
    here, there = multiprocessing.Pipe()
    counter = multiprocessing.get_context("spawn").Process(target=count, args=(there,))
    counter.start()
    here.send_bytes(pickle.dumps(nothing))
    started = time.perf_counter()
    send(here, records)
    here.send_bytes(b"")
    here.recv()
    elapsed = time.perf_counter() - started
    counter.join()
    return records / elapsed


def records(number: int) -> float:
    """Count `number` records that are sent as tuples of time, key and value; return how many a second."""
    return _rate(_send_records, _count_records, [], number)


def columns(number: int) -> float:
    """Count `number` records that are sent as columns of values and keys; return how many a second."""
    return _rate(_send_columns, _count_columns, ([], []), number)


def tuples_with_results(number: int) -> float:
    """Count `number` tuples of key and value with a result for each, which is dropped; return how many a second."""
    make, _, key = SHAPES["tuples"]
    return _rate(partial(_send_records, make=make, key_of=key), _count_with_results, [], number)


if __name__ == "__main__":
    print(records(4_000_000), columns(4_000_000))

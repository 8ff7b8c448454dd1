"""The log of a large heap is folded by a process of its own: state is exact after each epoch, whatever becomes of it."""

from __future__ import annotations

import copy
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from flinkish.common.typeinfo import Types
from flinkish.datastream.state import MapStateDescriptor, ValueStateDescriptor
from flinkish.runtime.state.heap import log
from flinkish.runtime.state.heap.fold import Fold
from tests.kit.waiting import wait_until
from tests.unit.runtime.state.harness import Slot

VALUE = ValueStateDescriptor("value", Types.STRING())
MAP = MapStateDescriptor("map", Types.LONG(), Types.PICKLED_BYTE_ARRAY())


@pytest.fixture
def slot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slot]:
    monkeypatch.setattr(log, "INLINE_LIMIT", 2_000)
    monkeypatch.setattr(log, "LEAST_FORKED", 10_000)
    slot = Slot(tmp_path, own_process=True)
    yield slot
    slot.state.close()
    assert children() == []


#: Processes that other tests have started.
_others: set[int] = set()


@pytest.fixture(autouse=True)
def others() -> None:
    _others.clear()
    _others.update(child.pid for child in children())


def children() -> list[psutil.Process]:
    """Return the processes that fold a log."""
    return [child for child in psutil.Process().children() if child.pid not in _others]


def put(slot: Slot, rng: random.Random) -> bytes:
    """Run an epoch that puts and removes some values, and changes objects in place."""
    slot.begin()
    value, mapped = slot.backend.get_state(VALUE), slot.backend.get_map_state(MAP)
    for _ in range(40):
        slot.key(rng.randrange(200))
        if rng.random() < 0.2:
            value.clear()
            mapped.remove(rng.randrange(4))
        else:
            value.update(f"{'x' * 20}{slot.epoch}")
            member = rng.randrange(4)
            if mapped.get(member) is None:
                mapped.put(member, [])
            mapped.get(member).append(slot.epoch)
    return slot.end()


def content(slot: Slot) -> dict[str, Any]:
    """Return all state, with maps in their order."""
    slot.backend.get_state(VALUE), slot.backend.get_map_state(MAP)
    tables: Any = slot.backend._tables
    maps = {address: tables["map"].entries(address) for address in tables["map"].addresses()}
    values = {address: tables["value"].get(address) for address in tables["value"].addresses()}
    return copy.deepcopy({"value": values, "map": maps})


def files(slot: Slot) -> list[str]:
    return sorted(path.suffix for path in (slot.folder / "scratch" / "state").iterdir())


def test_state_is_exact_after_each_epoch_in_which_the_log_is_folded(slot: Slot) -> None:
    rng = random.Random(7)
    folded = 0
    before: tuple[bytes, Any] = b"", None
    for epoch in range(60):
        blob = put(slot, rng)
        folded += bool(children())
        if epoch % 3 == 0:
            for process in children():
                wait_until("the log is folded", lambda process=process: process.status() == psutil.STATUS_ZOMBIE, 60)
        present = content(slot)
        # A slot that is lost goes on from the last bytes; an epoch is repeated from those before.
        for kept, expected in ((blob, present), before):
            if kept:
                other = Slot(slot.folder, ids=lambda: "other")
                other.state = other.load(kept)
                other.open()
                assert content(other) == expected
        before = blob, present
        if epoch % 20 == 19:
            slot.lose_heap()
            assert content(slot) == present
    assert folded > 5
    assert ".full" in files(slot)
    assert len(files(slot)) < 20


_STILL = (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)


def until_forked(slot: Slot, rng: random.Random) -> psutil.Process:
    """Run epochs until the log is being folded, by a process that stands still before it is done."""
    while True:
        put(slot, rng)
        for process in children():
            process.send_signal(signal.SIGSTOP)
            # One that has done its work in the meantime is a zombie.
            wait_until("it stands still", lambda process=process: process.status() in _STILL, 60)
            if process.status() == psutil.STATUS_STOPPED:
                return process


def test_the_slot_writes_its_state_itself_where_the_process_was_killed(slot: Slot) -> None:
    rng = random.Random(7)
    until_forked(slot, rng).kill()
    for _ in range(30):
        put(slot, rng)
        if ".full" not in files(slot) and not children():
            break
    expected = content(slot)
    slot.lose_heap()
    assert content(slot) == expected
    # The next one is forked again.
    until_forked(slot, rng)


def test_a_process_that_takes_too_long_is_ended_and_the_slot_writes_its_state_itself(slot: Slot) -> None:
    rng = random.Random(7)
    until_forked(slot, rng)

    def size() -> int:
        return sum(path.stat().st_size for path in (slot.folder / "scratch" / "state").iterdir())

    before, epochs = size(), 0
    while children():
        put(slot, rng)
        epochs += 1
        assert size() < 8 * before
    assert epochs > 5
    put(slot, rng)
    expected = content(slot)
    slot.lose_heap()
    assert content(slot) == expected


def test_a_heap_that_is_closed_ends_the_process(slot: Slot) -> None:
    until_forked(slot, random.Random(7))
    slot.state.close()
    assert children() == []


def fail() -> bytes:
    raise OSError(28, "no space left")


def test_a_fold_gives_its_bytes_or_none() -> None:
    reading, writing = os.pipe()
    fold = Fold(lambda: b"result")
    assert fold.result() == b"result"
    assert Fold(fail).result() is None
    # The process has closed what its parent has open: an end of a connection shows at once.
    held = Fold(lambda: os.read(reading, 1))
    os.close(writing)
    assert held.result() is None
    os.close(reading)
    assert children() == []

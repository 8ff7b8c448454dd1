from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from flinkish.common.errors import EngineError
from flinkish.common.typeinfo import Types
from flinkish.datastream.state import ValueStateDescriptor
from flinkish.runtime.state.heap import log
from tests.unit.runtime.state.harness import Slot

VALUE = ValueStateDescriptor("value", Types.STRING())


def put(slot: Slot, keys: range, text: str = "x" * 20) -> bytes:
    slot.begin()
    state = slot.backend.get_state(VALUE)
    for key in keys:
        slot.key(key)
        state.update(f"{text}{slot.epoch}")
    return slot.end()


def files(slot: Slot) -> set[str]:
    folder = slot.folder / "scratch" / "state"
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def content(slot: Slot) -> dict[Any, Any]:
    table: Any = slot.backend._tables["value"]
    return {address: table.get(address) for address in table.addresses()}


@pytest.fixture(autouse=True)
def small_limits() -> Any:
    with mock.patch.object(log, "INLINE_LIMIT", 2_000), mock.patch.object(log, "INLINE_ENTRIES", 8):
        yield


def test_a_long_log_goes_to_files_and_the_bytes_stay_short(slot: Slot) -> None:
    for epoch in range(50):
        blob = put(slot, range(epoch * 10, epoch * 10 + 10))
        assert len(blob) < 4_000
    assert files(slot)
    expected = content(slot)
    assert len(expected) == 500
    slot.lose_heap()
    slot.backend.get_state(VALUE)
    assert content(slot) == expected


@pytest.mark.parametrize(("keys", "least", "most"), [(5, 600, 1_400), (3_000, 2_000, 6_000), (20_000, 7_000, 9_500)])
def test_what_goes_through_the_jvm_is_a_share_of_the_state_within_limits(slot: Slot, keys: int, least: int, most: int) -> None:
    with mock.patch.multiple(log, LEAST_INLINE=1_000, INLINE_LIMIT=8_000, INLINE_ENTRIES=1_000):
        put(slot, range(keys))
        longest = max(len(put(slot, range(5))) for _ in range(200))
    assert least < longest < most  # the header names files, too
    assert len(files(slot)) < 32


def test_files_are_bounded_by_the_size_of_the_state(slot: Slot) -> None:
    sizes = []
    for _ in range(200):
        put(slot, range(100))
        folder = slot.folder / "scratch" / "state"
        sizes.append(sum(path.stat().st_size for path in folder.iterdir()) if folder.exists() else 0)
    state_size = 100 * 40
    assert max(sizes) < 6 * state_size
    assert len(files(slot)) < 6


def test_many_epochs_that_change_nothing_or_little_do_not_lengthen_the_log(slot: Slot) -> None:
    put(slot, range(3))
    length = len(slot.blob)
    for _ in range(100):
        slot.begin()
        assert abs(len(slot.end()) - length) < 20
    for _ in range(300):
        assert len(put(slot, range(3))) < 4_000
    assert len(files(slot)) <= 2


def test_files_that_an_epoch_drops_are_there_until_the_next_one_ends(slot: Slot) -> None:
    for _ in range(100):
        before = slot.blob
        had = files(slot)
        put(slot, range(40))
        assert had - files(slot) == had - files(slot) & had
        # The bytes of the epoch before can still be loaded: the epoch might be run again.
        slot.load(before)


def test_the_epoch_is_run_again_after_it_dropped_files(slot: Slot) -> None:
    for _ in range(60):
        before = slot.blob
        put(slot, range(40))
        tried = content(slot)
        slot.blob, slot.epoch = before, slot.epoch - 1
        slot.lose_heap()
        put(slot, range(40))
        assert content(slot) == tried
        slot.lose_heap()
        slot.backend.get_state(VALUE)
        assert content(slot) == tried


def test_a_heap_goes_on_only_from_the_bytes_it_stands_at(slot: Slot, make_slot: Callable[..., Slot]) -> None:
    assert slot.state.matches(None)
    assert slot.state.matches(b"")
    first = put(slot, range(3))
    assert slot.state.matches(first)
    assert not slot.state.matches(b"")
    other = slot.load(first)
    second = put(slot, range(3))
    assert slot.state.matches(second)
    assert not slot.state.matches(first), "it went ahead"
    assert not other.matches(second), "it stayed behind"
    assert other.matches(first)
    slot.begin()
    assert not slot.state.matches(second), "it is in change"
    stranger = make_slot(attempt="other")
    assert not stranger.state.matches(second)


def test_a_try_that_changed_no_state_is_told_from_the_one_that_counts(slot: Slot) -> None:
    blob = put(slot, range(3))
    slot.begin()
    slot.state.end_epoch(slot.epoch)
    assert not slot.state.matches(blob)


def test_two_tries_of_an_epoch_never_write_the_same_file(slot: Slot, tmp_path: Path) -> None:
    before = put(slot, range(10))
    one = put(slot, range(100))
    had = files(slot)
    slot.blob, slot.epoch = before, 1
    slot.lose_heap()
    two = put(slot, range(100))
    assert len(files(slot)) == 2 * len(had)
    for blob in (one, two):
        slot.load(blob)


def test_bytes_of_another_attempt_slot_or_level_are_refused(slot: Slot, make_slot: Callable[..., Slot]) -> None:
    blob = put(slot, range(3))
    with pytest.raises(EngineError, match="got that of attempt attempt, slot 0, level 1"):
        make_slot(attempt="other").load(blob)
    with pytest.raises(EngineError, match="slot 0"):
        make_slot(subtask=1, parallelism=2).load(blob)


@pytest.mark.parametrize("damage", ["missing", "cut", "flipped"])
def test_a_missing_or_damaged_file_is_named(slot: Slot, damage: str) -> None:
    blob = put(slot, range(200))
    (name,) = files(slot)
    path = slot.folder / "scratch" / "state" / name
    data = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    elif damage == "cut":
        path.write_bytes(data[:-1])
    else:
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    with pytest.raises(EngineError, match=name):
        slot.load(blob)


def test_bytes_that_are_no_log_are_refused(slot: Slot) -> None:
    for blob in (b"x", b"FKL1", b"FKL1\xff\xff\xff\xff", b"FKL1\x01\x00\x00\x00\xc0"):
        with pytest.raises(EngineError, match="not a change log"):
            slot.load(blob)
    with pytest.raises(EngineError, match="cut off"):
        slot.load(put(slot, range(3))[:-2])


def test_an_error_in_the_epoch_leaves_the_heap_unusable(slot: Slot) -> None:
    blob = put(slot, range(3))
    slot.begin()
    slot.backend.get_state(VALUE).update("never seen")
    assert not slot.state.matches(blob)
    slot.lose_heap()
    slot.key(0)
    assert slot.backend.get_state(VALUE).value() == "x" * 20 + "0"


def test_an_entry_may_have_more_bytes_than_32_bits_count() -> None:
    assert log._LENGTHS.unpack(log._LENGTHS.pack(20, 5 << 30)) == (20, 5 << 30)


def test_a_payload_is_written_and_read_as_it_is(tmp_path: Path) -> None:
    entry = log.Entry(3, "n", True, b"payload")
    head, payload = entry.parts()
    assert payload is entry.payload
    assert list(log._read_entries(io.BytesIO(head + payload), len(head) + len(payload))) == [entry]


@pytest.mark.parametrize("cut", [1, 8, 13])
def test_a_log_that_is_cut_off_is_an_error_of_the_engine(cut: int) -> None:
    data = b"".join(log.Entry(3, "n", True, b"payload").parts())[:-cut]
    with pytest.raises(EngineError, match="cut off"):
        list(log._read_entries(io.BytesIO(data), len(data)))


def test_lengths_that_cannot_be_are_an_error_before_memory_is_asked_for() -> None:
    data = log._LENGTHS.pack(5, 1 << 60) + b"12345"
    with pytest.raises(EngineError, match="cut off"):
        list(log._read_entries(io.BytesIO(data), len(data)))

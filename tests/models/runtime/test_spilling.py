"""Records that a batch holds back: what comes back is what a sort in memory gives, whatever went to disk in between."""

from __future__ import annotations

import copy
import datetime
import tracemalloc
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkish.common.errors import EngineError
from flinkish.runtime import spilling
from flinkish.runtime.elements import Records
from flinkish.runtime.keys import as_key, sort_key
from flinkish.runtime.protocol import MIN_WATERMARK
from flinkish.runtime.spilling import QueuedRecords, SortedRecords
from flinkish.runtime.state.heap.tables import HeapInternalTable

#: Key, time, input.
Record = tuple[Any, int | None, int]
RUNS = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.lists(st.tuples(st.sampled_from("abcd"), st.one_of(st.none(), st.integers(-3, 3))), min_size=1, max_size=6),
    ),
    max_size=12,
)


def fill(records: Any, runs: list[tuple[int, list[tuple[Any, int | None]]]]) -> list[tuple[Any, int | None, int, int]]:
    """Hold runs of (key, time); returns key, time, input and number of each record."""
    numbered, number = [], 0
    for input_index, run in runs:
        timestamps = [time for _, time in run]
        stamped = None if timestamps.count(None) == len(timestamps) else timestamps
        values = list(range(number, number + len(run)))
        records.add(input_index, Records(values, stamped, [key for key, _ in run]))
        numbered += [(key, time, input_index, value) for (key, time), value in zip(run, values, strict=True)]
        number += len(run)
    return numbered


def model(numbered: list[tuple[Any, int | None, int, int]]) -> list[tuple[Any, int | None, int, int]]:
    return sorted(numbered, key=lambda record: (record[0], MIN_WATERMARK if record[1] is None else record[1], record[2]))


def flat(pieces: Any) -> list[tuple[Any, int | None, int, int]]:
    return [(piece.key, time, input_index, value) for piece in pieces for time, input_index, value in piece.waiting]


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spilling, "_PIECE", 2)
    monkeypatch.setattr(spilling, "_MOST_FILES", 3)


@pytest.mark.usefixtures("small_pieces")
@settings(max_examples=150, deadline=None)
@given(runs=RUNS, memory=st.sampled_from([1, 700, 10**9]), lost=st.integers(0, 20))
def test_sorted_records_come_key_by_key_in_time_whatever_went_to_disk(
    tmp_path_factory: pytest.TempPathFactory, runs: Any, memory: int, lost: int
) -> None:
    folder = tmp_path_factory.mktemp("spilling")
    table = HeapInternalTable()
    records = SortedRecords(table, folder, memory)
    expected = model(fill(records, runs))
    assert bool(records) == bool(expected)
    pieces = list(records.pieces())
    assert flat(pieces) == expected
    # The last piece of each key, and no other, says so.
    assert [piece.last for piece in pieces] == [not rest or rest[0].key != p.key for p, *rest in _tails(pieces)]
    assert all(len(piece.waiting) <= 2 for piece in pieces)
    assert (list(folder.iterdir()) == []) == (memory > 700 or not runs or not records.files)

    # A process that is lost goes on where the state says.
    records.released = min(lost, len(pieces))
    rebuilt = SortedRecords(copy.deepcopy(table), folder, memory)
    assert list(rebuilt.pieces()) == pieces[records.released :]
    rebuilt.clear()
    assert not rebuilt


def _tails(items: list[Any]) -> list[list[Any]]:
    return [items[start:] for start in range(len(items))]


@settings(max_examples=150, deadline=None)
@given(runs=RUNS, takes=st.lists(st.integers(0, 3), max_size=12), memory=st.sampled_from([1, 700, 10**9]))
def test_queued_records_come_in_their_order_while_others_are_added(
    tmp_path_factory: pytest.TempPathFactory, runs: Any, takes: list[int], memory: int
) -> None:
    limits = tmp_path_factory.mktemp("spilling"), memory
    table = HeapInternalTable()
    records = QueuedRecords(table, *limits)
    taken: list[tuple[int, Records]] = []
    added = []
    for step, (input_index, run) in enumerate(runs):
        added.append((input_index, Records([key for key, _ in run], None, None)))
        records.add(*added[-1])
        for _ in range(takes[step] if step < len(takes) else 0):
            if records:
                taken.append(records.take())
        if step % 3 == 2:
            table = copy.deepcopy(table)
            records = QueuedRecords(table, *limits)
    while records:
        taken.append(records.take())
    assert taken == added
    assert len(table) == 0


def test_without_a_folder_all_stays_in_memory() -> None:
    records = SortedRecords(HeapInternalTable(), None, 1)
    expected = model(fill(records, [(0, [("b", 1), ("a", 2)])]))
    assert (flat(records.pieces()), records.files) == (expected, ())


def test_a_disk_that_takes_nothing_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    records = SortedRecords(HeapInternalTable(), tmp_path / "file", 1)
    with pytest.raises(EngineError, match=r"(?s)execution.sorted-inputs.memory.*file.*set io.tmp.dirs"):
        fill(records, [(0, [("a", 1)])])


def test_a_large_input_needs_little_memory(tmp_path: Path) -> None:
    def peak(memory: int) -> int:
        tracemalloc.start()
        records = SortedRecords(HeapInternalTable(), tmp_path, memory)
        for start in range(0, 60_000, 1_000):
            values = [(f"text of record {number}", number) for number in range(start, start + 1_000)]
            records.add(0, Records(values, [value[1] for value in values], [value[1] % 20_011 for value in values]))
        keys = [piece.key for piece in records.pieces()]
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert keys == sorted(keys)
        assert len(set(keys)) == 20_011
        return most

    assert peak(2 << 20) < peak(1 << 30) / 3


def test_keys_of_all_kinds_have_an_order_and_only_equal_ones_are_equal_in_it() -> None:
    now = datetime.datetime(2026, 1, 2, 3, 4, 5)
    given_keys = [
        *(None, True, 2, 1.5, Decimal("1.25"), "a", "b", b"a", now, now.replace(tzinfo=datetime.UTC), now.date(), now.time()),
        *((1, "a"), (1, None), (1,), ("a", 1), [1], [2], {"a": 1}, float("nan"), frozenset({1}), 1 + 2j),
    ]
    keys = [as_key(key) for key in given_keys]
    ordered = sorted(map(sort_key, keys))
    assert len(set(ordered)) == len(keys)
    assert sort_key(1) == sort_key(1.0) == sort_key(True) == sort_key(Decimal(1))
    assert sort_key(as_key(float("nan"))) == sort_key(as_key(float("nan")))
    assert [key for key in sorted(keys, key=sort_key) if isinstance(key, int | float | Decimal)] == [
        True,
        Decimal("1.25"),
        1.5,
        2,
    ]

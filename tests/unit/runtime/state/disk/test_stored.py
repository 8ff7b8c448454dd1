"""Dicts of rows: what they hold, and how often they read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkish.common.typeinfo import Types
from flinkish.runtime.state.codec import Codec
from flinkish.runtime.state.disk.form import Facts, Form, Groups, Members, NoGroups
from flinkish.runtime.state.disk.store import Store
from flinkish.runtime.state.disk.stored import StoredAddresses, StoredGroups

_LONGS = Codec(Types.LONG())


class CountingStore(Store):
    """Counts the rows that are read by iteration, and one by one."""

    read = alone = 0

    def get(self, key: bytes) -> bytes | None:
        self.alone += 1
        return super().get(key)

    def rows_from(self, first: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        for row in super().rows_from(first, prefix):
            self.read += 1
            yield row


@pytest.fixture
def store(tmp_path: Path) -> Iterator[CountingStore]:
    store = CountingStore.create(tmp_path / "store")
    assert isinstance(store, CountingStore)
    yield store
    store.close()


def groups_in(store: Store) -> StoredGroups:
    codec = _LONGS.encode, _LONGS.decode
    form = Form(store, b"\x01\x00\x01", Facts(0), Groups(Types.STRING()), Members(Types.LONG()), codec, ordered=True)
    return StoredGroups(form)


def end_epoch(store: Store, groups: StoredGroups, epoch: int) -> None:
    rows: dict[bytes, bytes | None] = {}
    groups.take_rows(rows, {})
    store.commit((epoch, "nonce"), rows, {})


def test_members_that_are_removed_one_by_one_are_not_read_again_and_again(store: CountingStore) -> None:
    groups = groups_in(store)
    for member in range(1_000):
        groups["a"][member] = member
    groups["b"][1] = 1
    end_epoch(store, groups, 1)
    members = groups["a"]
    for member in range(1_000):
        assert members
        assert members.pop(member) == member
    assert not members
    assert list(groups) == ["b"]
    assert store.read < 4_000
    members[7] = 7
    assert members
    del members[7]
    assert not members
    end_epoch(store, groups, 2)
    assert (list(groups), bool(groups["a"])) == (["b"], False)


def test_a_group_has_members_until_the_last_one_is_removed_in_whatever_way(store: CountingStore) -> None:
    groups = groups_in(store)
    groups["a"][1] = 1
    groups["a"][2] = 2
    end_epoch(store, groups, 1)
    members = groups["a"]
    members.discard(1)  # was not read
    members.discard(1)
    assert members
    members[2] = 3
    members[2] = 4
    members.discard(2)
    members.discard(3)
    assert not members
    members[1] = 5
    assert list(members.items()) == [(1, 5)]


def test_the_addresses_of_a_run_are_read_together_if_most_of_those_of_a_watched_run_were_used(store: CountingStore) -> None:
    form = Form(
        store, b"\x01\x00\x01", Facts(0), NoGroups(None), Members(Types.LONG()), (_LONGS.encode, _LONGS.decode), ordered=False
    )
    addresses = StoredAddresses(form)
    addresses.ingest((None, number, number) for number in range(1_000))

    def read_alone(run: range, used: range) -> int:
        """Expect a run and use a part of it; return how many rows were read one by one."""
        addresses.expect([*run, *run])
        before = store.alone
        assert [addresses.get(number) for number in used] == [number if number < 1_000 else None for number in used]
        return store.alone - before

    assert read_alone(range(10), range(2, 10)) == 8
    assert read_alone(range(100, 110), range(100, 110)) == 0
    assert read_alone(range(995, 1_005), range(995, 1_005)) == 0
    assert [read_alone(range(n, n + 5), range(n, n + 5)) for n in range(200, 265, 5)] == [0] * 13
    assert read_alone(range(300, 310), range(300, 301)) == 1
    assert read_alone(range(400, 410), range(400, 410)) == 10
    rows: dict[bytes, bytes | None] = {}
    before: dict[bytes, bytes | None] = {}
    addresses[500] = 7
    addresses[100] = 8
    addresses.take_rows(rows, before)
    assert len(rows) == 2
    assert set(before.values()) == {_LONGS.encode(100)}

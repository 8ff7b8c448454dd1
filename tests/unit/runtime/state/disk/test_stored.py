"""Dicts of rows: what they hold, and how often they read it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkish.common.typeinfo import Types
from flinkish.runtime.state.codec import Codec
from flinkish.runtime.state.disk.store import Store
from flinkish.runtime.state.disk.stored import Facts, Form, Groups, Members, StoredGroups

_LONGS = Codec(Types.LONG())


class CountingStore(Store):
    """Counts the rows that are read by iteration."""

    read = 0

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

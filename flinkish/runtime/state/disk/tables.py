"""Tables on disk: those of the heap, on dicts whose entries are rows of a store."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, cast

import msgspec

from flinkish.runtime.state.codec import Codec
from flinkish.runtime.state.disk.form import Facts, Form, Groups, Members, NoGroups
from flinkish.runtime.state.disk.store import Store
from flinkish.runtime.state.disk.stored import StoredAddresses, StoredGroups
from flinkish.runtime.state.heap.changes import PUT, Changes
from flinkish.runtime.state.heap.grouped import HeapGroupedLists, HeapGroups, HeapMapTable, HeapNamespacedGroups, HeapPaneTable
from flinkish.runtime.state.heap.tables import AddressedTable, HeapListTable, HeapTable, HeapValueTable, StateTable
from flinkish.runtime.state.rows import TableRows
from flinkish.runtime.state.tables import LIST, Address, Frozen, StateAddress, TableMeta

#: Rows by key, None for one that is not there.
Rows = dict[bytes, bytes | None]

_NUMBER = struct.Struct(">H")
#: The first number of a table, with which the keys of its rows begin: not with a zero byte.
_FIRST = 1 << 8
#: With what the keys of the rows with the facts of tables begin.
_TABLE = b"\x00table"
_decode_facts = msgspec.msgpack.Decoder(Facts).decode
_encode = msgspec.msgpack.Encoder().encode
_decode_list = msgspec.msgpack.Decoder(list[bytes]).decode


class TableStore:
    """The part of a store that belongs to one table."""

    def __init__(self, store: Store, address: StateAddress, number: int) -> None:
        """`number` is that of a new table: how many there are already."""
        self.store = store
        self._row = _TABLE + _encode(address)
        stored = store.get(self._row)
        self.facts = Facts(number=_FIRST + number) if stored is None else _decode_facts(stored)
        self._stored = stored
        self._prefix = _NUMBER.pack(self.facts.number)

    def form(
        self,
        groups: Groups,
        members: Members,
        codec: tuple[Callable[[Any], bytes], Callable[[bytes], Any]],
        *,
        ordered: bool,
        section: int = 1,
    ) -> Form:
        return Form(self.store, self._prefix + bytes([section]), self.facts, groups, members, codec, ordered=ordered)

    def take_rows(self, rows: Rows, before: Rows) -> None:
        """Add the row with the facts, if they have changed."""
        facts = _encode(self.facts)
        if facts != self._stored:
            rows[self._row], before[self._row] = facts, self._stored
            self._stored = facts


def _single(codec: Codec) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """Return how the frozen values of a codec are stored: as the encoding, which is itself the frozen form of most."""
    return codec.encode_frozen, codec.decode if codec.immutable else bytes


def _several(codec: Codec) -> tuple[Callable[[Any], bytes], Callable[[bytes], Any]]:
    """Return the same for lists of frozen elements."""
    encode, decode = _single(codec)
    return lambda values: _encode(list(map(encode, values))), lambda row: list(map(decode, _decode_list(row)))


class DiskTable(HeapTable):
    """What all of these tables have in common: the rule of the heap, with rows instead of entries of a log."""

    data: Any
    part: TableStore

    def take_rows(self, rows: Rows, before: Rows) -> None:
        """Add the rows that have changed in this epoch, which ends; called after `take_changes`."""
        self.data.take_rows(rows, before)
        self.part.take_rows(rows, before)

    def note_keys(self, members: Mapping[Any, Iterable[Any]]) -> None:
        """Note whether there are keys, among those that were changed, for which a checkpoint cannot have changes only."""
        facts = self.part.facts
        facts.ambiguous = facts.ambiguous or not super().have_one_encoding(members)

    def frozen_changes(self, changes: Changes) -> Callable[[], TableRows]:
        return partial(self.rows_of, changes, self.frozen_data())

    def frozen_data(self) -> Any:
        """Return the data as it is now, for reading it by key in any thread."""
        return self.data.frozen(self.data.form.on(self.part.store.snapshot()))

    def have_one_encoding(self, members: Mapping[Any, Iterable[Any]]) -> bool:
        return not self.part.facts.ambiguous

    def members_by_group(self) -> Mapping[Any, Iterable[Any]]:
        return {}  # what `have_one_encoding` tells is known already

    def apply(self, changes: Any) -> None:
        raise AssertionError("the log has no changes of a table on disk")

    def dump(self) -> Any:
        return None


class _StateTable(DiskTable, StateTable):
    """What all but timers have in common."""

    def check(self) -> None:
        """Check the values that were set in this epoch."""
        if self._check is not None:
            values = self.data.written_values()
            self._check(values if self.meta.kind != LIST else list(chain.from_iterable(values)))


class _AddressedTable(_StateTable, AddressedTable):
    """A table with a row for each address."""

    def _store_in(self, part: TableStore, codec: tuple[Callable[[Any], bytes], Callable[[bytes], Any]]) -> None:
        self.part = part
        self.data = StoredAddresses(part.form(NoGroups(None), Members(self.meta.key_type), codec, ordered=False))

    def take_changes(self) -> None:
        self.freeze()
        self.note_keys({None: self.dirty})
        self.check()
        if self.since is not None and self.dirty:
            self.since.setdefault(None, {}).update(dict.fromkeys(self.dirty, PUT))
        self.dirty.clear()

    def frozen(self) -> TableRows:
        self.freeze()
        return TableRows(self.meta, {self.meta.kind: self.data.items()})

    def addresses(self) -> Iterator[Address]:
        self.freeze()
        return (address for _, address in self.data.places())

    def load(self, addresses: Iterable[Address], values: Iterable[Any]) -> None:
        self.note_keys({None: addresses})
        self.data.ingest((None, address, value) for address, value in zip(addresses, values, strict=True))

    def expect(self, addresses: Sequence[Address]) -> None:
        self.data.expect(addresses)


class DiskValueTable(_AddressedTable, HeapValueTable):
    """See ValueTable."""

    def __init__(self, meta: TableMeta, part: TableStore) -> None:
        super().__init__(meta)
        self._store_in(part, _single(self.codec))


class DiskListTable(_AddressedTable, HeapListTable):
    """See ListTable. A list is one row."""

    def __init__(self, meta: TableMeta, part: TableStore) -> None:
        super().__init__(meta)
        self._store_in(part, _several(self.codec))

    def freeze(self) -> None:
        self.data.touch(self.dirty)


class _GroupedTable(_StateTable, HeapGroups):
    """A table with a row for each member of each group."""

    def _store_in(self, part: TableStore, form: Form) -> None:
        self.part = part
        self.data = StoredGroups(form)

    def take_changes(self) -> None:
        self.freeze()
        self.note_keys(self.dirty)
        self.check()
        for group, dirty in self.dirty.items():
            self._note(group, dirty)
        self.dirty.clear()
        self.cleared.clear()

    def places(self) -> Iterable[tuple[Any, Any]]:
        return cast("Iterable[tuple[Any, Any]]", self.data.places())

    def entries_now(self) -> Iterable[tuple[Any, Any, Any]]:
        self.freeze()
        return cast("Iterable[tuple[Any, Any, Any]]", self.data.scan())

    def ingest(self, entries: Iterable[tuple[Any, Any, Any]]) -> None:
        self.data.ingest(entries)


class _NamespacedTable(_GroupedTable, HeapNamespacedGroups):
    """Such a table with a namespace for each group, or for each member."""

    def load(self, addresses: Iterable[Address], values: Iterable[Any]) -> None:
        self.note_keys({None: addresses})
        super().load(addresses, values)


class DiskMapTable(_GroupedTable, HeapMapTable):
    """See MapTable."""

    def __init__(self, meta: TableMeta, part: TableStore) -> None:
        super().__init__(meta)
        self._store_in(part, part.form(Groups(meta.key_type), Members(meta.types[0]), _single(self.codec), ordered=True))

    def load(self, addresses: Iterable[Address], keys: Iterable[Any], values: Iterable[Frozen]) -> None:
        self.note_keys({None: addresses, "": keys})
        super().load(addresses, keys, values)

    def addresses(self) -> Iterator[Any]:
        self.freeze()
        return iter(self.data)


class DiskPaneTable(_NamespacedTable, HeapPaneTable):
    """See PaneTable; the keys of a namespace are in no particular order."""

    def __init__(self, meta: TableMeta, part: TableStore) -> None:
        super().__init__(meta)
        self._store_in(part, part.form(Groups(None), Members(meta.key_type), _single(self.codec), ordered=False))


class DiskGroupedLists(_NamespacedTable, HeapGroupedLists):
    """See GroupedLists. A list is one row."""

    def __init__(self, meta: TableMeta, part: TableStore) -> None:
        super().__init__(meta)
        groups, members = (None, meta.key_type) if self._by_namespace else (meta.key_type, None)
        ordered = not self._by_namespace
        self._store_in(part, part.form(Groups(groups), Members(members), _several(self.codec), ordered=ordered))

    def freeze(self) -> None:
        for group, members in self.dirty.items():
            self.data[group].touch(members)

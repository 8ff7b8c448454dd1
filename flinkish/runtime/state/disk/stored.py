"""Dicts whose entries are rows of a store: each is read when it is asked for, and written when the epoch that sets it ends.

The tables of the heap (heap/) work on such dicts as on their own, so they have one implementation of what state means. Between
epochs nothing is held in memory but RocksDB's own cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from flinkish.runtime.state.disk.form import GONE, Entry, Form
from flinkish.runtime.state.tables import Frozen

#: In place of a value: it has not been read.
UNREAD: Any = object()

#: One run in this many is watched.
_WATCHED = 16


class StoredDict(MutableMapping[Any, Any]):
    """The members of a group with their values."""

    __slots__ = ("_before", "_group", "_known", "_live", "_not_before", "_orders", "_prefix", "_written", "form")

    def __init__(self, form: Form, group: Any = None) -> None:
        self.form = form
        self._group = group
        self._prefix = form.prefix + form.groups.encode(group)
        #: What was read or set in this epoch; GONE for members that are not there.
        self._known: dict[Any, Any] = {}
        self._written: dict[Any, None] = {}
        #: The rows that were read, and the places in the order.
        self._before: dict[Any, bytes | None] = {}
        self._orders: dict[Any, int] = {}
        #: How many of the known members are there; a row before which all others in the store are known.
        self._live = 0
        self._not_before = self._prefix

    def get(self, member: Any, default: Any = None) -> Any:
        value = self._known.get(member, UNREAD)
        if value is UNREAD:
            value = self._read(member)
        return default if value is GONE else value

    def _read(self, member: Any) -> Any:
        key = self._prefix + self.form.members.encode(member)
        return self._take(member, key, self.form.store.get(key))

    def _take(self, member: Any, key: bytes, row: bytes | None) -> Any:
        self._before[member] = row
        value = GONE
        if row is not None:
            value, self._orders[member], _ = self.form.unpack_value(key, row)
            self._live += 1
        self._known[member] = value
        return value

    def __getitem__(self, member: Any) -> Any:
        value = self.get(member, GONE)
        if value is GONE:
            raise KeyError(member)
        return value

    def __contains__(self, member: Any) -> bool:
        return self.get(member, GONE) is not GONE

    def __setitem__(self, member: Any, value: Any) -> None:
        if self.form.ordered and self.get(member, GONE) is GONE:
            facts = self.form.facts
            self._orders[member] = facts.order
            facts.order += 1
            self._written.pop(member, None)
        if self._known.get(member, GONE) is GONE:
            self._live += 1
        self._known[member] = value
        self._written[member] = None

    def __delitem__(self, member: Any) -> None:
        self[member]
        self.discard(member)

    def discard(self, member: Any) -> None:
        """Remove a member, whether it is there or not."""
        if self._known.get(member, GONE) is not GONE:
            self._live -= 1
        self._known[member] = GONE
        self._written[member] = None

    def touch(self, members: Iterable[Any]) -> None:
        """Write values that were changed in place."""
        self._written.update(dict.fromkeys(member for member in members if self._known.get(member, UNREAD) is not UNREAD))

    def __iter__(self) -> Iterator[Any]:
        return (member for _, member, _ in self.scan())

    def items(self) -> Any:
        """Iterate over members and values."""
        return ((member, value) for _, member, value in self.scan())

    def scan(self) -> Iterator[Entry]:
        """Iterate over the entries as they are at the call."""
        return self.form.merged(self.form.store.rows(self._prefix), {self._group: self.pending()})

    def places(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over the group and each member; some of those that come or go meanwhile may be seen."""
        yield from (place for place in self.form.walk() if place[1] not in self._written)
        yield from [(self._group, member) for member in self._written if self._known[member] is not GONE]

    def ingest(self, entries: Iterable[Entry]) -> None:
        """Add entries to a dict that is empty."""
        if self.form.store.is_new:
            self.form.store.ingest(self.form.rows_of(entries))
        else:
            for _, member, value in entries:
                self[member] = value

    def pending(self) -> dict[Any, tuple[Frozen, int]]:
        """Return what is not in the store yet, in copies."""
        known, orders = self._known, self._orders
        return {
            member: (list(value) if (value := known[member]).__class__ is list else value, orders.get(member, 0))
            for member in self._written
        }

    def frozen(self, form: Form) -> StoredDict:
        """Return the members as they are now, for reading each in any thread; `form` is that of a snapshot of the store."""
        members = StoredDict(form, self._group)
        members._known = {member: value for member, (value, _) in self.pending().items()}
        return members

    def __len__(self) -> int:
        return sum(1 for _ in self.scan())

    def __bool__(self) -> bool:
        if self._live:
            return True
        form, known = self.form, self._known
        for key, row in form.store.rows_from(self._not_before, self._prefix):
            if form.unpack(key, row)[0] not in known:
                self._not_before = key
                return True
        self._not_before = after(self._prefix)
        return False

    def clear(self) -> None:
        for member in list(self):
            self.discard(member)

    def written_values(self) -> list[Any]:
        """Return the values that were set in this epoch."""
        return [value for member in self._written if (value := self._known[member]) is not GONE]

    def take_rows(self, rows: dict[bytes, bytes | None], before: dict[bytes, bytes | None]) -> None:
        """Add the rows that have changed in this epoch, which ends, and what is known of them as they were."""
        form, known = self.form, self._known
        encode, prefix = form.members.encode, self._prefix
        for member in self._written:
            key, value = prefix + encode(member), known[member]
            rows[key] = None if value is GONE else form.pack(key, self._group, member, value, self._orders.get(member, 0))
            if member in self._before:
                before[key] = self._before[member]
        for each in (known, self._written, self._before, self._orders):
            each.clear()
        self._live, self._not_before = 0, prefix


class StoredAddresses(StoredDict):
    """The addresses of a table without groups, of which those of a run may be read together."""

    __slots__ = ("_reads_all", "_runs", "_used", "_watched")

    def __init__(self, form: Form) -> None:
        super().__init__(form)
        self._runs = 0
        #: Whether most addresses of the last run that was watched were read; that run's, and how many of them have been read.
        self._reads_all = False
        self._watched: set[Any] = set()
        self._used = 0

    def expect(self, members: Iterable[Any]) -> None:
        """Read the rows of a run in the order of their keys, which takes two thirds of the time; unless few of them are used."""
        if self._watched:
            self._reads_all, self._watched = 2 * self._used >= len(self._watched), set()
        unread = [member for member in dict.fromkeys(members) if member not in self._known]
        if self._runs % _WATCHED == 0:
            self._watched, self._used = set(unread), 0
        elif self._reads_all:
            prefix, encode = self._prefix, self.form.members.encode
            by_key = {prefix + encode(member): member for member in unread}
            keys = sorted(by_key)
            for key, row in zip(keys, self.form.store.get_all(keys), strict=True):
                self._take(by_key[key], key, row)
        self._runs += 1

    def _read(self, member: Any) -> Any:
        self._used += member in self._watched
        return super()._read(member)


class StoredGroups(MutableMapping[Any, Any]):
    """The groups of a section. A group without members is an empty StoredDict, and is not iterated over."""

    def __init__(self, form: Form) -> None:
        self.form = form
        #: The groups that were used in this epoch.
        self._open: dict[Any, StoredDict] = {}

    def __getitem__(self, group: Any) -> StoredDict:
        members = self._open.get(group)
        if members is None:
            members = self._open[group] = StoredDict(self.form, group)
        return members

    def get(self, group: Any, default: Any = None) -> Any:
        return self[group]

    def setdefault(self, group: Any, default: Any = None) -> StoredDict:
        return self[group]

    def __contains__(self, group: Any) -> bool:
        return bool(self[group])

    def __setitem__(self, group: Any, members: Mapping[Any, Any]) -> None:
        self[group].update(members)

    def __delitem__(self, group: Any) -> None:
        self[group].clear()

    def pop(self, group: Any, default: Any = None) -> Any:
        members = dict(self[group].items())
        if not members:
            return default
        self[group].clear()
        return members

    def __iter__(self) -> Iterator[Any]:
        for group in self._stored(self.form.prefix):
            if group not in self._open or self._open[group]:
                yield group
        stored = set(self._open).intersection(self._stored(self.form.prefix))
        yield from [group for group, members in list(self._open.items()) if group not in stored and members]

    def _stored(self, start: bytes) -> Iterator[Any]:
        """Iterate over the groups in the store from a row on: the first row of each is looked up."""
        form = self.form
        while (found := next(form.store.rows_from(start, form.prefix), None)) is not None:
            key, row = found
            end = len(form.prefix) + form.groups.size(key, len(form.prefix))
            yield form.group_of(key, row)
            start = after(key[:end])

    def first(self, after_group: Any = None) -> Any:
        """Return the first group of the store, or the first one behind another group; None if there is none."""
        prefix = self.form.prefix
        return next(self._stored(prefix if after_group is None else after(prefix + self.form.groups.encode(after_group))), None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return next(iter(self), GONE) is not GONE

    def clear(self) -> None:
        for group in list(self):
            self[group].clear()

    def places(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over the groups with each member; some of those that come or go meanwhile may be seen."""
        for group, member in self.form.walk():
            if group not in self._open:
                yield group, member
        for group, members in list(self._open.items()):
            yield from [(group, member) for member in members]

    def ingest(self, entries: Iterable[Entry]) -> None:
        """See StoredDict."""
        if self.form.store.is_new:
            self.form.store.ingest(self.form.rows_of(entries))
        else:
            for group, member, value in entries:
                self[group][member] = value

    def scan(self) -> Iterator[Entry]:
        """Iterate over all entries as they are at the call."""
        pending = {group: changed for group, members in self._open.items() if (changed := members.pending())}
        return self.form.merged(self.form.store.rows(self.form.prefix), pending)

    def frozen(self, form: Form) -> StoredGroups:
        """See StoredDict."""
        groups = StoredGroups(form)
        groups._open = {group: members.frozen(form) for group, members in self._open.items()}
        return groups

    def written_values(self) -> list[Any]:
        """See StoredDict."""
        return [value for members in self._open.values() for value in members.written_values()]

    def take_rows(self, rows: dict[bytes, bytes | None], before: dict[bytes, bytes | None]) -> None:
        """See StoredDict."""
        for members in self._open.values():
            members.take_rows(rows, before)
        self._open.clear()


def after(prefix: bytes) -> bytes:
    """Return the first key behind all keys with a prefix."""
    number = int.from_bytes(prefix, "big") + 1
    return number.to_bytes(len(prefix), "big")

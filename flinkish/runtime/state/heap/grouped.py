"""Tables on the heap that are a dict of dicts: maps by key, shared windows by window, lists of a key by timestamp.

The keys of the outer dict are called groups here, those of the inner dicts members. A group without members does not exist.
Members keep their order of insertion, also when the log is replayed, because users see the order of a map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from flinkish.common.typeinfo import TypeInformation
from flinkish.runtime.state.backend import Folding, GroupedLists, GroupedTable, MapTable, PaneTable, Scope
from flinkish.runtime.state.codec import KEPT_AS_THEY_ARE, Codec
from flinkish.runtime.state.heap.changes import AGAIN, GONE, NEW, PUT, Changes, note, split
from flinkish.runtime.state.heap.packing import Group, apply_lists, flat, heads, list_changes, pack_groups, unpack_groups
from flinkish.runtime.state.heap.tables import MISSING, StateTable
from flinkish.runtime.state.rows import TableRows
from flinkish.runtime.state.tables import Address, Frozen, Namespaced, TableMeta

#: Placeholder for the frozen form of an object that has not been frozen yet.
PENDING: Any = object()


class HeapGroups(StateTable):
    """The parts that all of these tables have in common.

    What is dirty of a group are the members that were put or removed in this epoch; new ones are in the order of the heap.
    """

    #: Entry in `dirty` for a member that was removed.
    _REMOVED: Any

    data: dict[Any, dict[Any, Any]]
    dirty: dict[Any, dict[Any, Any]]

    def __init__(self, meta: TableMeta, value_type: TypeInformation) -> None:
        super().__init__(meta, value_type)
        #: Groups that were cleared in this epoch; what is dirty of them came later.
        self.cleared: set[Any] = set()

    def groups(self) -> Iterator[Any]:
        return iter(list(self.data))

    def members(self, group: Any) -> Iterator[Any]:
        return iter(list(self.data.get(group, ())))

    def remove(self, group: Any, member: Any) -> None:
        members = self.data.get(group)
        if members is None or members.pop(member, MISSING) is MISSING:
            return
        dirty = self.dirty.setdefault(group, {})
        if dirty.get(member, False) is None:
            del dirty[member]  # neither the log nor a snapshot has it
        else:
            dirty[member] = self._REMOVED
        if not members:
            del self.data[group]

    def clear(self, group: Any) -> None:
        members = self.data.pop(group, None)
        if members is not None:
            if self.since is not None:
                self._note_cleared(self.since, group, members)
            self.dirty[group] = {}
            self.cleared.add(group)

    def forget(self, *, logged: bool) -> None:
        self.cleared = {*self.data, *self.dirty} if logged else set()
        self.dirty = {group: {} for group in self.cleared}
        self.data.clear()
        self.since = None

    def _note_cleared(self, since: Changes, group: Any, members: Iterable[Any]) -> None:
        dirty = self.dirty.get(group, {})
        self._note(group, {member: True for member in (*dirty, *members) if dirty.get(member, False) is not None})

    def _note(self, group: Any, dirty: Mapping[Any, Any]) -> None:
        """Add what is dirty of a group to what has changed since the last `seal`."""
        if self.since is not None:
            members, known = self.data.get(group, {}), self.since.setdefault(group, {})
            for member, removed in dirty.items():
                flag = AGAIN if removed is True else NEW if removed is None else PUT
                note(known, member, flag if member in members else GONE)

    def members_by_group(self) -> Mapping[Any, Iterable[Any]]:
        return self.data

    def places(self) -> Iterable[tuple[Any, Any]]:
        """Return the groups with each member."""
        return [(group, member) for group, members in self.data.items() for member in members]

    def entries_now(self) -> Iterable[tuple[Any, Any, Any]]:
        """Return group, member and frozen value of all members as they are now."""
        self.freeze()
        return flat(self.data)

    def ingest(self, entries: Iterable[tuple[Any, Any, Any]]) -> None:
        """Add groups, members and frozen values of a checkpoint to an empty table."""
        data = self.data
        for group, member, value in entries:
            data.setdefault(group, {})[member] = value


class HeapNamespacedGroups(HeapGroups):
    """What tables have in common whose groups are namespaces and whose members are keys, or the other way round."""

    _by_namespace = True

    def addresses(self) -> Iterator[Address]:
        return (self._address(*place) for place in self.places())

    def _address(self, group: Any, member: Any) -> Address:
        return Namespaced(member, group) if self._by_namespace else Namespaced(group, member)

    def frozen(self) -> TableRows:
        rows = ((self._address(group, member), frozen) for group, member, frozen in self.entries_now())
        return TableRows(self.meta, {self.meta.kind: rows})

    def rows_of(self, changes: Changes, data: Any) -> TableRows:
        put, removed = split(changes, data)
        rows = [(self._address(group, member), value) for group, member, value in put]
        return TableRows(self.meta, {self.meta.kind: rows}, {self.meta.kind: [self._address(*each) for each in removed]})

    def load(self, addresses: Iterable[Address], values: Iterable[Any]) -> None:
        pairs = zip(addresses, values, strict=True)
        if self._by_namespace:
            self.ingest((namespace, key, value) for (key, namespace, _), value in pairs)
        else:
            self.ingest((key, namespace, value) for (key, namespace, _), value in pairs)


class HeapGroupedTable(HeapGroups, GroupedTable):
    """See GroupedTable. Logged member by member."""

    #: It was removed, and perhaps put again, at the end. Other members are False, new ones None.
    _REMOVED = True

    def __init__(self, meta: TableMeta, value_type: TypeInformation) -> None:
        super().__init__(meta, value_type)
        #: Objects that were touched in this epoch; used only if values can change.
        self.hot: dict[Any, dict[Any, Any]] = {}

    def get(self, group: Any, member: Any) -> Any:
        members = self.data.get(group)
        if members is None:
            return None
        if self.codec.immutable:
            return members.get(member)
        frozen = members.get(member, MISSING)
        return None if frozen is MISSING else self._thaw(group, member, frozen)

    def _thaw(self, group: Any, member: Any, frozen: Frozen) -> Any:
        hot = self.hot.get(group)
        if hot is not None:
            value = hot.get(member, MISSING)
            if value is not MISSING:
                return value
        value = self.codec.thaw(frozen)
        if value.__class__ not in KEPT_AS_THEY_ARE:
            if hot is None:
                hot = self.hot[group] = {}
            hot[member] = value
        return value

    def put(self, group: Any, member: Any, value: Any) -> None:
        members = self.data.get(group)
        if members is None:
            members = self.data.setdefault(group, {})
        dirty = self.dirty.get(group)
        if dirty is None:
            dirty = self.dirty[group] = {}
        if member not in members:
            # Move it to the end.
            dirty[member] = dirty.pop(member, None)
        elif member not in dirty:
            dirty[member] = False
        if self.codec.immutable:
            members[member] = value
        else:
            # Reserve the place in the order now; the value is set when objects are frozen.
            members.setdefault(member, PENDING)
            hot = self.hot.get(group)
            if hot is None:
                self.hot[group] = {member: value}
            else:
                hot[member] = value

    def remove(self, group: Any, member: Any) -> None:
        super().remove(group, member)
        if self.hot:
            hot = self.hot.get(group)
            if hot is not None:
                hot.pop(member, None)
                if group not in self.data:
                    del self.hot[group]

    def clear(self, group: Any) -> None:
        self.hot.pop(group, None)
        super().clear(group)

    def contains(self, group: Any, member: Any) -> bool:
        members = self.data.get(group)
        return members is not None and member in members

    def entries(self, group: Any) -> list[tuple[Any, Any]]:
        members = self.data.get(group)
        if members is None:
            return []
        if self.codec.immutable:
            return list(members.items())
        return [(member, self._thaw(group, member, frozen)) for member, frozen in list(members.items())]

    def has(self, group: Any) -> bool:
        return group in self.data

    def freeze(self) -> None:
        freeze = self.codec.freeze
        for group, hot in self.hot.items():
            members = self.data[group]
            dirty = self.dirty.get(group)
            if dirty is None:
                dirty = {}
            for member, value in hot.items():
                frozen = freeze(value)
                before = members[member]
                if before.__class__ is not frozen.__class__ or before != frozen:
                    members[member] = frozen
                    if member not in dirty:
                        dirty[member] = False
            if dirty:
                self.dirty[group] = dirty
        self.hot.clear()

    def forget(self, *, logged: bool) -> None:
        super().forget(logged=logged)
        self.hot.clear()

    def take_changes(self) -> Any:
        """Return groups with removed members (None = all; else whether all old ones were removed, and which), then new values."""
        self.freeze()
        if not self.dirty:
            return None
        data, cleared = self.data, self.cleared
        removed: list[tuple[Any, tuple[bool, list[Any]] | None]] = []
        put: list[Group] = []
        for group, dirty in self.dirty.items():
            members = data.get(group)
            self._note(group, dirty)
            if members is None:
                removed.append((group, None))
                continue
            names = list(dirty)
            if group in cleared or True in dirty.values():
                removed.append((group, (group in cleared, [member for member, gone in dirty.items() if gone])))
                names = [member for member in dirty if member in members]
            values = list(map(members.__getitem__, names))
            if self._check is not None:
                self._check(values)
            put.append((group, names, values))
        self.dirty.clear()
        cleared.clear()
        return removed, pack_groups(put)

    def apply(self, changes: Any) -> None:
        removed, put = changes
        for group, what in removed:
            if what is None:
                self.data.pop(group, None)
                continue
            cleared, gone = what
            if cleared:
                self.data.pop(group, None)
            members = self.data.get(group, {})
            for member in gone:
                members.pop(member, None)
        for group, members in unpack_groups(put):
            stored = self.data.get(group)
            if stored is None:
                if members:
                    self.data[group] = members
            else:
                stored.update(members)

    def dump(self) -> Any:
        self.freeze()
        return [], pack_groups([(group, list(members), list(members.values())) for group, members in self.data.items()])


class HeapMapTable(HeapGroupedTable, MapTable):
    """See MapTable."""

    def __init__(self, meta: TableMeta) -> None:
        super().__init__(meta, meta.types[1])
        self.key_codec: Codec = Codec(meta.types[0])

    def drop_expired(self, addresses: Iterable[Address], expired: Callable[[Frozen], bool]) -> None:
        for address in addresses:
            hot = self.hot.get(address, {})
            for key, frozen in list(self.data.get(address, {}).items()):
                if key not in hot and expired(frozen):
                    self.remove(address, key)

    def frozen(self) -> TableRows:
        return TableRows(self.meta, {self.meta.kind: self.entries_now()})

    def rows_of(self, changes: Changes, data: Any) -> TableRows:
        put, removed = split(changes, data)
        return TableRows(self.meta, {self.meta.kind: put}, {self.meta.kind: removed})

    def load(self, addresses: Iterable[Address], keys: Iterable[Any], values: Iterable[Frozen]) -> None:
        self.ingest(zip(addresses, keys, values, strict=True))

    def addresses(self) -> Iterator[Any]:
        return self.groups()


class HeapPaneTable(HeapGroupedTable, HeapNamespacedGroups, PaneTable):
    """See PaneTable."""

    def __init__(self, meta: TableMeta) -> None:
        super().__init__(meta, meta.types[0])
        #: The groups at the last `seal`.
        self._sealed: set[Any] = set()

    def seal(self) -> Changes | None:
        self._sealed = set(self.data)
        return super().seal()

    def _note_cleared(self, since: Changes, group: Any, members: Iterable[Any]) -> None:
        if group in self._sealed:
            super()._note_cleared(since, group, members)
        else:
            since.pop(group, None)  # no snapshot has any of it

    def fold(self, namespaces: Iterable[Any], keys: Sequence[Any], values: Sequence[Any], fold: Folding, scope: Scope) -> None:
        add, into, convert, exact, immutable = fold.add, fold.into, fold.convert, self.codec.exact, self.codec.immutable
        touched = dict.fromkeys(keys, False)
        for namespace in namespaces:
            live = (self.data if immutable else self.hot).setdefault(namespace, {})
            for key, value in zip(keys, values, strict=True):
                scope.current_key = key
                accumulator = live.get(key)
                if accumulator is not None:
                    # As `into`, without a call.
                    accumulator = add(value, accumulator)
                    if accumulator is None:
                        fold.refuse_nothing(value)
                    if convert is not None and accumulator.__class__ is not exact:
                        accumulator = convert(accumulator)
                    live[key] = accumulator
                elif immutable:
                    live[key] = into(None, value)
                else:
                    self.put(namespace, key, into(self.get(namespace, key), value))
            if immutable:
                self.dirty.setdefault(namespace, {}).update(touched)

    def get_all(self, namespace: Any, keys: Sequence[Any]) -> list[Any]:
        if not self.codec.immutable:
            return [self.get(namespace, key) for key in keys]
        return list(map(self.data.get(namespace, {}).get, keys))

    def put_all(self, namespace: Any, keys: Sequence[Any], values: Iterable[Any]) -> None:
        if not self.codec.immutable:
            for key, value in zip(keys, values, strict=True):
                self.put(namespace, key, value)
            return
        self.data.setdefault(namespace, {}).update(zip(keys, values, strict=True))
        self.dirty.setdefault(namespace, {}).update(dict.fromkeys(keys, False))

    def copies(self, namespace: Any) -> Iterable[tuple[Any, Any]]:
        if self.codec.immutable:
            return self.data[namespace].items()
        self.freeze()
        thaw = self.codec.thaw
        return [(key, thaw(frozen)) for key, frozen in self.data[namespace].items()]

    def copy(self, namespace: Any, key: Any) -> Any:
        value = self.hot.get(namespace, {}).get(key, MISSING)
        if value is not MISSING:
            return self.codec.thaw(self.codec.freeze(value))
        frozen = self.data.get(namespace, {}).get(key, MISSING)
        return None if frozen is MISSING else self.codec.thaw(frozen)


class HeapGroupedLists(HeapNamespacedGroups, GroupedLists):
    """See GroupedLists. Dirty is how many elements at the front of a list are as they were at the start of the epoch."""

    _REMOVED = 0

    def __init__(self, meta: TableMeta) -> None:
        super().__init__(meta, meta.types[0])
        self._by_namespace = meta.grouped_by == "namespace"

    def append(self, group: Any, member: Any, frozen: Frozen) -> None:
        members = self.data.get(group)
        if members is None:
            members = self.data.setdefault(group, {})
        dirty = self.dirty.get(group)
        if dirty is None:
            dirty = self.dirty[group] = {}
        elements = members.get(member)
        if elements is None:
            members[member] = [frozen]
            # Move it to the end.
            dirty.pop(member, None)
            dirty[member] = 0
        else:
            if member not in dirty:
                dirty[member] = len(elements)
            elements.append(frozen)

    def get(self, group: Any, member: Any) -> list[Any]:
        elements = self.data[group][member]
        return list(elements) if self.codec.immutable else list(map(self.codec.thaw, elements))

    def take_changes(self) -> Any:
        if not self.dirty:
            return None
        for group, dirty in self.dirty.items():
            self._note(group, dirty)
        changes = list_changes(self.data, self.dirty, self.cleared, self._check)
        self.cleared.clear()
        return changes

    def apply(self, changes: Any) -> None:
        apply_lists(self.data, changes)

    def dump(self) -> Any:
        return list_changes(self.data, {group: dict.fromkeys(members, 0) for group, members in self.data.items()}, set(), None)

    def entries_now(self) -> Iterable[tuple[Any, Any, Any]]:
        return flat(self.data, heads(chain.from_iterable(map(dict.values, self.data.values()))))

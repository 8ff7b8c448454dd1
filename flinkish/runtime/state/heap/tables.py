"""Tables on the heap: values with their handles, lists and the runtime's own data, with the changes of the current epoch.

The rule of all tables: between epochs, the heap is exactly the result of a replay of the change log. Immutable values are stored
directly. All others are objects only within an epoch, from their first use; at its end they are *frozen* to their encoded bytes
(codec.py), compared with the bytes before, and logged if they differ. So an object that a function changes in place without
update() is stored like an updated one, and no reference that user code keeps can change the state in a later epoch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from flinkish.common.conversion import same
from flinkish.common.typeinfo import TypeInformation
from flinkish.runtime.state.backend import Convert, ListTable, Scope, ValueTable
from flinkish.runtime.state.codec import KEPT_AS_THEY_ARE, Codec
from flinkish.runtime.state.heap.changes import PUT, Changes, always_have_one_encoding, have_one_encoding, split
from flinkish.runtime.state.heap.packing import apply_lists, heads, list_changes, pack, pack_addresses, unpack, unpack_addresses
from flinkish.runtime.state.rows import TableRows
from flinkish.runtime.state.tables import INTERNAL_META, Address, Frozen, TableMeta, key_of
from flinkish.udf.state import ValueState

#: The value of an address that has none.
MISSING: Any = object()


class HeapTable(ABC):
    """One state of one operator in one subtask; see Table."""

    def __init__(self, meta: TableMeta) -> None:
        self.meta = meta
        self.data: Any
        #: What has changed since the last `seal`, up to the last `take_changes`; None if that is not known.
        self.since: Changes | None = None

    @abstractmethod
    def take_changes(self) -> Any:
        """Return the changes since the last call, as data for the log; None if there are none. Freezes all objects."""

    @abstractmethod
    def apply(self, changes: Any) -> None:
        """Apply changes that `take_changes` returned."""

    @abstractmethod
    def dump(self) -> Any:
        """Return the whole content as changes of an empty table; the caller must not change it."""

    def frozen(self) -> TableRows:
        """Return the rows as they are now; later changes do not change them."""
        raise AssertionError(f"a {type(self).__name__} is in no checkpoint")

    def seal(self) -> Changes | None:
        """Return what has changed since the last call; None if that is not known, as at first."""
        sealed, self.since = self.since, {}
        return sealed

    def frozen_changes(self, changes: Changes) -> Callable[[], TableRows]:
        """Return a function, for any thread, that returns the rows of what has changed, as `frozen`."""
        return partial(same, self.rows_of(changes, self.data))

    def rows_of(self, changes: Changes, data: Any) -> TableRows:
        """Return the rows of what has changed; `data` is that of the table."""
        raise AssertionError(f"a {type(self).__name__} is in no checkpoint")

    def members_by_group(self) -> Mapping[Any, Iterable[Any]]:
        """Return all members by group, as in Changes."""
        raise AssertionError(f"a {type(self).__name__} is in no checkpoint")

    def have_one_encoding(self, members: Mapping[Any, Iterable[Any]]) -> bool:
        """Tell whether the keys among groups and members are equal only to keys with the same encoding."""
        keys = [*([] if self.meta.key_type is None else [self.meta.key_type]), *self.meta.types[:-1]]
        if all(map(always_have_one_encoding, keys)):
            return True
        return have_one_encoding(map(key_of, chain(members, chain.from_iterable(members.values()))))

    @abstractmethod
    def is_empty(self) -> bool:
        """See Table."""

    def forget(self, *, logged: bool) -> None:
        raise AssertionError(f"a {type(self).__name__} holds no keyed state")

    def expect(self, addresses: Sequence[Address]) -> None:  # noqa: B027 - most tables have all at hand
        """See Table."""

    def changed(self) -> int:
        return 0

    def addresses(self) -> Iterator[Address]:
        return iter(())


class StateTable(HeapTable):
    """What the tables of keyed and operator state have in common, except timers."""

    def __init__(self, meta: TableMeta, value_type: TypeInformation) -> None:
        super().__init__(meta)
        self.codec: Codec = Codec(value_type, ttl=meta.ttl)
        self.data: dict[Any, Any] = {}
        #: What was written or removed in this epoch.
        self.dirty: dict[Any, Any] = {}
        self._check = self.codec.check_all

    def freeze(self) -> None:
        """Freeze all objects."""

    def changed(self) -> int:
        return len(self.dirty)

    def is_empty(self) -> bool:
        return not self.data


class AddressedTable(StateTable):
    """A table with something for each address."""

    def __init__(self, meta: TableMeta) -> None:
        super().__init__(meta, meta.types[0])

    def rows_of(self, changes: Changes, data: Any) -> TableRows:
        put, removed = split(changes, {None: data})
        kind = self.meta.kind
        return TableRows(self.meta, {kind: [(at, value) for _, at, value in put]}, {kind: [at for _, at in removed]})

    def members_by_group(self) -> Mapping[Any, Iterable[Any]]:
        return {None: self.data}

    def load(self, addresses: Iterable[Address], values: Iterable[Any]) -> None:
        self.data.update(zip(addresses, values, strict=True))

    def addresses(self) -> Iterator[Address]:
        self.freeze()
        return iter(list(self.data))


class HeapValueTable(AddressedTable, ValueTable):
    """See ValueTable."""

    def __init__(self, meta: TableMeta) -> None:
        super().__init__(meta)
        #: Objects that were touched in this epoch; used only if values can change.
        self.hot: dict[Address, Any] = {}

    def get(self, address: Address) -> Any:
        if self.codec.immutable:
            return self.data.get(address)
        value = self.hot.get(address, MISSING)
        if value is not MISSING:
            return value
        frozen = self.data.get(address, MISSING)
        if frozen is MISSING:
            return None
        value = self.codec.thaw(frozen)
        if value.__class__ not in KEPT_AS_THEY_ARE:
            self.hot[address] = value
        return value

    def put(self, address: Address, value: Any) -> None:
        if self.codec.immutable:
            self.data[address] = value
            self.dirty[address] = None
        elif self.codec.untyped and value.__class__ in KEPT_AS_THEY_ARE:
            self.hot.pop(address, None)
            self.data[address] = value
            self.dirty[address] = None
        else:
            self.hot[address] = value

    def get_all(self, addresses: Sequence[Address]) -> list[Any]:
        return list(map(self.data.get if self.codec.immutable else self.get, addresses))

    def put_all(self, addresses: Sequence[Address], values: Iterable[Any]) -> None:
        if not self.codec.immutable:
            for address, value in zip(addresses, values, strict=True):
                self.put(address, value)
            return
        self.data.update(zip(addresses, values, strict=True))
        self.dirty.update(dict.fromkeys(addresses))

    def value_state(self, scope: Scope, convert: Convert | None) -> ValueState[Any]:
        return (FastValueState if self.codec.immutable else ObjectValueState)(scope, self, convert)

    def drop_expired(self, addresses: Iterable[Address], expired: Callable[[Frozen], bool]) -> None:
        for address in addresses:
            frozen = self.data.get(address)
            if frozen is not None and address not in self.hot and expired(frozen):
                self.remove(address)

    def remove(self, address: Address) -> None:
        self.hot.pop(address, None)
        if self.data.pop(address, MISSING) is not MISSING:
            self.dirty[address] = None

    def freeze(self) -> None:
        hot = self.hot
        if hot:
            data, dirty, freeze = self.data, self.dirty, self.codec.freeze
            for address, value in hot.items():
                frozen = freeze(value)
                before = data.get(address, MISSING)
                if before.__class__ is not frozen.__class__ or before != frozen:
                    data[address] = frozen
                    dirty[address] = None
            hot.clear()

    def forget(self, *, logged: bool) -> None:
        if logged:
            self.dirty.update(dict.fromkeys(self.data))
        else:
            self.dirty.clear()
        self.data.clear()
        self.hot.clear()
        self.since = None

    def take_changes(self) -> tuple[Any, Any, Any] | None:
        """Return addresses and values that were set, and addresses that were removed."""
        self.freeze()
        dirty, data = self.dirty, self.data
        if not dirty:
            return None
        updated, removed = list(dirty), []
        try:
            values = list(map(data.__getitem__, updated))
        except KeyError:
            updated = [address for address in dirty if address in data]
            removed = [address for address in dirty if address not in data]
            values = list(map(data.__getitem__, updated))
        if self._check is not None:
            self._check(values)
        if self.since is not None:
            self.since.setdefault(None, {}).update(dict.fromkeys(dirty, PUT))
        dirty.clear()
        return pack_addresses(updated), pack(values), pack_addresses(removed)

    def apply(self, changes: tuple[Any, Any, Any]) -> None:
        updated, values, removed = changes
        self.load(unpack_addresses(updated), unpack(values))
        for address in unpack_addresses(removed):
            self.data.pop(address, None)

    def dump(self) -> tuple[Any, Any, Any]:
        self.freeze()
        return pack_addresses(list(self.data)), pack(list(self.data.values())), []

    def frozen(self) -> TableRows:
        self.freeze()
        return TableRows(self.meta, {self.meta.kind: self.data.copy().items()})

    def is_empty(self) -> bool:
        return not self.data and not self.hot


class _HeapValueState(ValueState[Any]):
    """Value state without time-to-live. The hot path: value() and update() are little more than a dict access."""

    __slots__ = ("_backend", "_convert", "_data", "_dirty", "_exact", "_hot", "_table", "_untyped")

    def __init__(self, backend: Scope, table: HeapValueTable, convert: Convert | None) -> None:
        self._backend = backend
        self._table = table
        self._data, self._dirty, self._hot = table.data, table.dirty, table.hot
        self._exact, self._untyped = table.codec.exact, table.codec.untyped
        self._convert: Convert = convert or same

    def clear(self) -> None:
        self._table.remove(self._backend.address())


class FastValueState(_HeapValueState):
    """Immutable values."""

    __slots__ = ()

    def value(self) -> Any:
        backend = self._backend
        return self._data.get(backend.current_key if backend.current_namespace is None else backend.address())

    def update(self, value: Any) -> None:
        if value.__class__ is not self._exact:
            value = self._convert(value)
        backend = self._backend
        address = backend.current_key if backend.current_namespace is None else backend.address()
        self._data[address] = value
        self._dirty[address] = None


class ObjectValueState(_HeapValueState):
    """Mutable or untyped values; see ValueTable.get and put."""

    __slots__ = ()

    def value(self) -> Any:
        backend = self._backend
        address = backend.current_key if backend.current_namespace is None else backend.address()
        if self._hot:
            value = self._hot.get(address)
            if value is not None:
                return value
        frozen = self._data.get(address)
        return frozen if frozen.__class__ is not bytes else self._table.get(address)

    def update(self, value: Any) -> None:
        if not self._untyped:
            value = self._convert(value)
        if value is None:  # an untyped state reads as None either way
            self.clear()
            return
        backend = self._backend
        address = backend.current_key if backend.current_namespace is None else backend.address()
        if self._untyped and value.__class__ in KEPT_AS_THEY_ARE:
            if self._hot:
                self._hot.pop(address, None)
            self._data[address] = value
            self._dirty[address] = None
        else:
            self._hot[address] = value


class HeapListTable(AddressedTable, ListTable):
    """See ListTable. As elements are frozen when they are added, only new elements are logged.

    Dirty is how many elements at the front of a list are as they were at the start of the epoch.
    """

    def append(self, address: Address, value: Any) -> None:
        frozen = value if self.codec.immutable else self.codec.freeze(value)
        elements = self.data.get(address)
        if elements is None:
            self.data[address] = [frozen]
            self.dirty.setdefault(address, 0)
        else:
            if address not in self.dirty:
                self.dirty[address] = len(elements)
            elements.append(frozen)

    def get(self, address: Address) -> list[Any]:
        elements = self.data.get(address)
        if elements is None:
            return []
        return list(elements) if self.codec.immutable else list(map(self.codec.thaw, elements))

    def replace(self, address: Address, values: Iterable[Any]) -> None:
        self._replace_frozen(address, list(values) if self.codec.immutable else list(map(self.codec.freeze, values)))

    def drop_expired(self, addresses: Iterable[Address], expired: Callable[[Frozen], bool]) -> None:
        for address in addresses:
            elements = self.data.get(address, [])
            alive = [element for element in elements if not expired(element)]
            if len(alive) < len(elements):
                self._replace_frozen(address, alive)

    def _replace_frozen(self, address: Address, frozen: list[Frozen]) -> None:
        if frozen:
            self.data[address] = frozen
            self.dirty[address] = 0
        else:
            self.remove(address)

    def remove(self, address: Address) -> None:
        if self.data.pop(address, None) is not None:
            self.dirty[address] = 0

    def forget(self, *, logged: bool) -> None:
        self.dirty = dict.fromkeys((*self.data, *self.dirty), 0) if logged else {}
        self.data.clear()
        self.since = None

    def take_changes(self) -> Any:
        if self.since is not None and self.dirty:
            self.since.setdefault(None, {}).update(dict.fromkeys(self.dirty, PUT))
        return list_changes({None: self.data}, {None: self.dirty}, set(), self._check) if self.dirty else None

    def apply(self, changes: Any) -> None:
        apply_lists({None: self.data}, changes)

    def dump(self) -> Any:
        return list_changes({None: self.data}, {None: dict.fromkeys(self.data, 0)}, set(), None)

    def frozen(self) -> TableRows:
        return TableRows(self.meta, {self.meta.kind: zip(list(self.data), heads(self.data.values()), strict=True)})


class HeapInternalTable(HeapTable, MutableMapping[Any, Any]):
    """A dict for the runtime itself: it is logged, but not in checkpoints. Values are replaced, never changed in place."""

    def __init__(self) -> None:
        super().__init__(INTERNAL_META)
        self._data: dict[Any, Any] = {}
        self._dirty: dict[Any, None] = {}

    def __getitem__(self, key: Any) -> Any:
        return self._data[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._data[key] = value
        self._dirty[key] = None

    def __delitem__(self, key: Any) -> None:
        del self._data[key]
        self._dirty[key] = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def take_changes(self) -> tuple[dict[Any, Any], list[Any]] | None:
        if not self._dirty:
            return None
        updated = {key: self._data[key] for key in self._dirty if key in self._data}
        removed = [key for key in self._dirty if key not in self._data]
        self._dirty.clear()
        return updated, removed

    def apply(self, changes: tuple[dict[Any, Any], list[Any]]) -> None:
        updated, removed = changes
        self._data.update(updated)
        for key in removed:
            self._data.pop(key, None)

    def dump(self) -> tuple[dict[Any, Any], list[Any]]:
        return self._data, []

    def is_empty(self) -> bool:
        return not self._data

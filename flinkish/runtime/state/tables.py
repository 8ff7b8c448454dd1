"""The state of one operator as it lies on the heap, and what changed in it in this epoch.

Rule of all tables: what the heap holds between epochs is exactly what a replay of the change log gives. Values that cannot
change are kept as they are. All others live as objects only within an epoch, from the first time they are touched; at its end
they are *frozen* to their encoded bytes (codec.py), compared with what was there, and logged if they differ. So an object that
a function changes in place without update() is stored like one it updated, and no reference that user code keeps can reach the
state in a later epoch.

An *address* is a key, or for state in a namespace (a window), a `Namespaced` of both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.runtime.state.codec import SCALARS, Codec, codec_of, structure_of

Address = Any
#: A value as it is kept between epochs: itself if it cannot change, else its encoding.
Frozen = Any


class _Missing:
    def __repr__(self) -> str:
        return "MISSING"


MISSING: Any = _Missing()
#: Stands for the frozen form of an object that was not frozen yet.
_PENDING: Any = _Missing()
#: Where operator state lies in its table.
OPERATOR_ADDRESS = None
LONG_CODEC = codec_of(Types.LONG())


class Namespaced(NamedTuple):
    """The address of state in a namespace."""

    key: Any
    namespace: Any
    #: Keeps such an address apart from a key that is a pair.
    mark: str = "\0namespace"


def key_of(address: Address) -> Any:
    """Return the key of an address."""
    return address.key if address.__class__ is Namespaced else address


def namespace_of(address: Address) -> Any:
    """Return the namespace of an address, None for void."""
    return address.namespace if address.__class__ is Namespaced else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TableMeta:
    """What is declared about a state; part of the log, so that a snapshot can be taken before the operator asks for it again.

    `kind` is the `state_kind` of checkpoint rows. `key_type` is None for operator state. `types` are those of the value, of the
    elements, or of a map's keys and values. Reducing and aggregating state are values with a kind of their own.
    """

    kind: str
    key_type: TypeInformation | None
    types: tuple[TypeInformation, ...]
    ttl: bool = False
    max_parallelism: int = 1

    def structure(self) -> str:
        """Return what must be equal for state to be taken over, in words."""
        types = ", ".join(map(structure_of, self.types))
        key = "" if self.key_type is None else f" by {structure_of(self.key_type)}"
        return f"{self.kind}({types}){key}"

    def __str__(self) -> str:
        types = ", ".join(map(repr, self.types))
        key = "" if self.key_type is None else f" with keys of type {self.key_type!r}"
        return f"{self.kind} state of type {types}{key}"


class Table(ABC):
    """One state of one operator in one subtask."""

    def __init__(self, meta: TableMeta) -> None:
        self.meta = meta

    @abstractmethod
    def take_changes(self) -> Any:
        """Return what changed since the last call, as data for the log; None if nothing did. Freezes all objects."""

    @abstractmethod
    def apply(self, changes: Any) -> None:
        """Do again what `take_changes` gave."""

    @abstractmethod
    def dump(self) -> Any:
        """Return all of it, for `fill`; nothing may be changed in what is returned."""

    @abstractmethod
    def fill(self, dumped: Any) -> None:
        """Set an empty table to what was dumped."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Return whether there is nothing in it."""

    def freeze(self) -> None:  # noqa: B027 - most tables have nothing to do here
        """Turn objects that were touched into their encodings."""

    def forget(self) -> None:
        """Drop all, with what changed, in place."""
        raise AssertionError(f"a {type(self).__name__} holds no keyed state")

    def changed(self) -> int:
        """Return about how many entries changed in this epoch."""
        return 0

    def addresses(self) -> list[Address]:
        """Return the addresses that have something."""
        return []


#: Classes of which MessagePack gives back just what it was given.
_NATIVE: frozenset[type] = frozenset({int, float, bool, str, bytes, type(None)})
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def pack(values: dict[Any, Any]) -> Any:
    """Return a dict in the form in which it is pickled fastest: as MessagePack, if only numbers and text are in it.

    Pickle keeps a memo of every text and bytes object: a million of each took 2.1 s instead of 0.2 s.
    """
    if len(values) < 16 or not (_NATIVE.issuperset(map(type, values)) and _NATIVE.issuperset(map(type, values.values()))):
        return values
    try:
        return _encode((list(values), list(values.values())))
    except (OverflowError, UnicodeEncodeError):  # integers of more than 64 bits, halves of surrogate pairs
        return values


def unpack(packed: Any) -> dict[Any, Any]:
    """Return the dict that `pack` was given."""
    if packed.__class__ is not bytes:
        result: dict[Any, Any] = packed
        return result
    keys, values = _decode(packed)
    return dict(zip(keys, values, strict=True))


class ValueTable(Table):
    """One value for each address; also behind reducing and aggregating state."""

    def __init__(self, meta: TableMeta) -> None:
        super().__init__(meta)
        self.codec: Codec = codec_of(meta.types[0], ttl=meta.ttl)
        self.data: dict[Address, Frozen] = {}
        #: Objects that were touched in this epoch; used only if values can change.
        self.hot: dict[Address, Any] = {}
        #: Addresses that were written or cleared in this epoch.
        self.dirty: dict[Address, None] = {}
        self._check = self.codec.check_all

    def get(self, address: Address) -> Any:
        """Return the value of an address, None if there is none."""
        if self.codec.immutable:
            return self.data.get(address)
        value = self.hot.get(address, MISSING)
        if value is not MISSING:
            return value
        frozen = self.data.get(address, MISSING)
        if frozen is MISSING:
            return None
        value = self.codec.thaw(frozen)
        if value.__class__ not in SCALARS:
            self.hot[address] = value
        return value

    def put(self, address: Address, value: Any) -> None:
        """Set the value of an address."""
        if self.codec.immutable:
            self.data[address] = value
            self.dirty[address] = None
        elif self.codec.untyped and value.__class__ in SCALARS:
            self.hot.pop(address, None)
            self.data[address] = value
            self.dirty[address] = None
        else:
            self.hot[address] = value

    def changed(self) -> int:
        return len(self.dirty)

    def remove(self, address: Address) -> None:
        """Remove the value of an address."""
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

    def forget(self) -> None:
        self.data.clear()
        self.hot.clear()
        self.dirty.clear()

    def take_changes(self) -> tuple[Any, list[Address]] | None:
        self.freeze()
        dirty, data = self.dirty, self.data
        if not dirty:
            return None
        removed: list[Address] = []
        try:
            updated = dict(zip(dirty, map(data.__getitem__, dirty), strict=True))
        except KeyError:
            updated = {address: data[address] for address in dirty if address in data}
            removed = [address for address in dirty if address not in data]
        if self._check is not None:
            self._check(updated.values())
        dirty.clear()
        return pack(updated), removed

    def apply(self, changes: tuple[Any, list[Address]]) -> None:
        updated, removed = changes
        self.data.update(unpack(updated))
        for address in removed:
            self.data.pop(address, None)

    def entries(self) -> dict[Address, Frozen]:
        """Return all values, frozen; not to be changed."""
        self.freeze()
        return self.data

    def dump(self) -> Any:
        return pack(self.entries())

    def fill(self, dumped: Any) -> None:
        self.data.update(unpack(dumped))

    def addresses(self) -> list[Address]:
        return list(self.entries())

    def is_empty(self) -> bool:
        return not self.data and not self.hot


class ListTable(Table):
    """A list for each address; elements are frozen when they are added, so only what was appended is logged.

    An empty list is no entry.
    """

    def __init__(self, meta: TableMeta) -> None:
        super().__init__(meta)
        self.codec: Codec = codec_of(meta.types[0], ttl=meta.ttl)
        self.data: dict[Address, list[Frozen]] = {}
        #: How many elements from the front are as they were at the start of the epoch.
        self.dirty: dict[Address, int] = {}
        self._check = self.codec.check_all

    def append(self, address: Address, value: Any) -> None:
        """Add one element."""
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
        """Return the elements as objects of their own; changing them changes nothing here."""
        elements = self.data.get(address)
        if elements is None:
            return []
        return list(elements) if self.codec.immutable else list(map(self.codec.thaw, elements))

    def replace(self, address: Address, values: Iterable[Any]) -> None:
        """Set the whole list."""
        self.replace_frozen(address, list(values) if self.codec.immutable else list(map(self.codec.freeze, values)))

    def replace_frozen(self, address: Address, frozen: list[Frozen]) -> None:
        """Set the whole list to elements that are frozen already."""
        if frozen:
            self.data[address] = frozen
            self.dirty[address] = 0
        else:
            self.remove(address)

    def changed(self) -> int:
        return len(self.dirty)

    def remove(self, address: Address) -> None:
        """Remove the whole list."""
        if self.data.pop(address, None) is not None:
            self.dirty[address] = 0

    def forget(self) -> None:
        self.data.clear()
        self.dirty.clear()

    def take_changes(self) -> dict[Address, tuple[int, list[Frozen]]] | None:
        if not self.dirty:
            return None
        empty: list[Frozen] = []
        changes = {address: (kept, self.data.get(address, empty)[kept:]) for address, kept in self.dirty.items()}
        if self._check is not None:
            for _, added in changes.values():
                self._check(added)
        self.dirty.clear()
        return changes

    def apply(self, changes: dict[Address, tuple[int, list[Frozen]]]) -> None:
        for address, (kept, added) in changes.items():
            elements = self.data.setdefault(address, [])
            elements[kept:] = added
            if not elements:
                del self.data[address]

    def dump(self) -> dict[Address, list[Frozen]]:
        return self.data

    def addresses(self) -> list[Address]:
        return list(self.data)

    def fill(self, dumped: dict[Address, list[Frozen]]) -> None:
        self.data.update(dumped)

    def is_empty(self) -> bool:
        return not self.data


class _MapChange:
    """What happened to one map in this epoch; replayed as: clear, remove, set in order. So entries keep the order of the heap."""

    __slots__ = ("cleared", "put", "removed")

    def __init__(self) -> None:
        self.cleared = False
        self.removed: dict[Any, None] = {}
        self.put: dict[Any, None] = {}


class MapTable(Table):
    """A map for each address, logged entry by entry. An empty map is no entry."""

    def __init__(self, meta: TableMeta) -> None:
        super().__init__(meta)
        self.key_codec: Codec = codec_of(meta.types[0])
        self.codec: Codec = codec_of(meta.types[1], ttl=meta.ttl)
        self.data: dict[Address, dict[Any, Frozen]] = {}
        self.hot: dict[Address, dict[Any, Any]] = {}
        self.dirty: dict[Address, _MapChange] = {}
        self._check = self.codec.check_all

    def _change(self, address: Address) -> _MapChange:
        change = self.dirty.get(address)
        if change is None:
            change = self.dirty[address] = _MapChange()
        return change

    def get(self, address: Address, key: Any) -> Any:
        """Return the value of an entry, None if there is none."""
        entries = self.data.get(address)
        if entries is None:
            return None
        if self.codec.immutable:
            return entries.get(key)
        frozen = entries.get(key, MISSING)
        return None if frozen is MISSING else self._thaw(address, key, frozen)

    def _thaw(self, address: Address, key: Any, frozen: Frozen) -> Any:
        hot = self.hot.get(address)
        if hot is not None:
            value = hot.get(key, MISSING)
            if value is not MISSING:
                return value
        value = self.codec.thaw(frozen)
        if value.__class__ not in SCALARS:
            if hot is None:
                hot = self.hot[address] = {}
            hot[key] = value
        return value

    def put(self, address: Address, key: Any, value: Any) -> None:
        """Set an entry."""
        entries = self.data.get(address)
        if entries is None:
            entries = self.data[address] = {}
        if self.codec.immutable:
            entries[key] = value
        else:
            # The place in the order is taken now; the value follows when objects are frozen.
            entries.setdefault(key, _PENDING)
            self.hot.setdefault(address, {})[key] = value
        change = self.dirty.get(address)
        if change is None:
            change = self.dirty[address] = _MapChange()
        change.put[key] = None

    def remove(self, address: Address, key: Any) -> None:
        """Remove an entry."""
        entries = self.data.get(address)
        if entries is None or entries.pop(key, MISSING) is MISSING:
            return
        hot = self.hot.get(address)
        if hot is not None:
            hot.pop(key, None)
        change = self._change(address)
        change.removed[key] = None
        change.put.pop(key, None)
        if not entries:
            del self.data[address]
            self.hot.pop(address, None)

    def clear(self, address: Address) -> None:
        """Remove all entries of an address."""
        self.hot.pop(address, None)
        if self.data.pop(address, None) is not None:
            change = self.dirty[address] = _MapChange()
            change.cleared = True

    def changed(self) -> int:
        return len(self.dirty)

    def contains(self, address: Address, key: Any) -> bool:
        """Return whether there is such an entry."""
        entries = self.data.get(address)
        return entries is not None and key in entries

    def entries(self, address: Address) -> list[tuple[Any, Any]]:
        """Return the entries, in the order in which they came."""
        entries = self.data.get(address)
        if entries is None:
            return []
        if self.codec.immutable:
            return list(entries.items())
        return [(key, self._thaw(address, key, frozen)) for key, frozen in list(entries.items())]

    def keys(self, address: Address) -> list[Any]:
        """Return the keys of the entries, in the order in which they came."""
        return list(self.data.get(address, ()))

    def freeze(self) -> None:
        for address, hot in self.hot.items():
            entries = self.data[address]
            for key, value in hot.items():
                frozen = self.codec.freeze(value)
                before = entries[key]
                if before.__class__ is not frozen.__class__ or before != frozen:
                    entries[key] = frozen
                    self._change(address).put[key] = None
        self.hot.clear()

    def forget(self) -> None:
        self.data.clear()
        self.hot.clear()
        self.dirty.clear()

    def take_changes(self) -> dict[Address, tuple[bool, list[Any], dict[Any, Frozen]]] | None:
        self.freeze()
        if not self.dirty:
            return None
        changes: dict[Address, tuple[bool, list[Any], dict[Any, Frozen]]] = {}
        for address, change in self.dirty.items():
            entries = self.data.get(address)
            put = {key: entries[key] for key in change.put} if entries is not None else {}
            if self._check is not None:
                self._check(put.values())
            changes[address] = (change.cleared, list(change.removed), put)
        self.dirty.clear()
        return changes

    def apply(self, changes: dict[Address, tuple[bool, list[Any], dict[Any, Frozen]]]) -> None:
        for address, (cleared, removed, put) in changes.items():
            entries = self.data.setdefault(address, {})
            if cleared:
                entries.clear()
            for key in removed:
                entries.pop(key, None)
            entries.update(put)
            if not entries:
                del self.data[address]

    def dump(self) -> dict[Address, dict[Any, Frozen]]:
        self.freeze()
        return self.data

    def addresses(self) -> list[Address]:
        return list(self.data)

    def fill(self, dumped: dict[Address, dict[Any, Frozen]]) -> None:
        self.data.update(dumped)

    def is_empty(self) -> bool:
        return not self.data


class InternalTable(Table, MutableMapping[Any, Any]):
    """A dict of the runtime's own: logged, but in no checkpoint. Values are replaced, never changed in place."""

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

    def dump(self) -> dict[Any, Any]:
        return self._data

    def fill(self, dumped: dict[Any, Any]) -> None:
        self._data.update(dumped)

    def is_empty(self) -> bool:
        return not self._data


VALUE = "value"
REDUCING = "reducing"
AGGREGATING = "aggregating"
LIST = "list"
MAP = "map"
TIMERS = "timers"
OPERATOR_LIST = "operator_list"
OPERATOR_UNION = "operator_union"
OPERATOR_BROADCAST = "operator_broadcast"
INTERNAL = "internal"
INTERNAL_META = TableMeta(kind=INTERNAL, key_type=None, types=())

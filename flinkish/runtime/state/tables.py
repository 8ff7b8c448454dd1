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
from itertools import chain, islice
from typing import Any, Literal, NamedTuple

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


def address_of(key: Any, namespace: Any) -> Address:
    """Return the address of a key in a namespace, None for void."""
    return key if namespace is None else Namespaced(key, namespace)


#: What the heap is a dict of dicts by, for state in namespaces: first by namespace, first by key, or neither.
Grouping = Literal["address", "namespace", "key"]


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
    #: How the heap is laid out; checkpoints and logs of other layouts hold the same.
    grouped_by: Grouping = "address"

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

    def forget(self, *, logged: bool) -> None:
        """Drop all, in place: with what changed, or, where some of it is in the log already, as a change."""
        raise AssertionError(f"a {type(self).__name__} holds no keyed state")

    def changed(self) -> int:
        """Return about how many entries changed in this epoch."""
        return 0

    def addresses(self) -> list[Address]:
        """Return the addresses that have something."""
        return []

    def rows(self) -> Iterator[tuple[Address, Any]]:
        """Return what a checkpoint holds: frozen values, or lists of them, by address."""
        raise AssertionError(f"a {type(self).__name__} has no rows of one value for an address")

    def load(self, addresses: Iterable[Address], frozen: Iterable[Any]) -> None:
        """Set an empty table to rows of a checkpoint."""
        raise AssertionError(f"a {type(self).__name__} has no rows of one value for an address")


#: Classes of which MessagePack gives back just what it was given.
_NATIVE: frozenset[type] = frozenset({int, float, bool, str, bytes, type(None)})
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def pack(values: list[Any]) -> Any:
    """Return a list in the form in which it is pickled fastest: as MessagePack, if only numbers and text are in it.

    Pickle keeps a memo of every text and bytes object: a million of each took 2.1 s instead of 0.2 s.
    """
    if len(values) < 16 or not _NATIVE.issuperset(map(type, values)):
        return values
    try:
        return _encode(values)
    except (OverflowError, ValueError):  # integers of more than 64 bits, halves of surrogate pairs, texts of 4 GiB
        return values


def unpack(packed: Any) -> list[Any]:
    """Return the list that `pack` was given."""
    values: list[Any] = _decode(packed) if packed.__class__ is bytes else packed
    return values


def pack_addresses(addresses: list[Address]) -> Any:
    """Return addresses in the form in which they are pickled fastest; pickle takes a microsecond for each `Namespaced`."""
    if Namespaced in set(map(type, addresses)):
        return pack([key_of(address) for address in addresses]), [namespace_of(address) for address in addresses]
    return pack(addresses)


def unpack_addresses(packed: Any) -> list[Address]:
    """Return the addresses that `pack_addresses` was given."""
    if packed.__class__ is tuple:
        keys, namespaces = packed
        return list(map(address_of, unpack(keys), namespaces))
    return unpack(packed)


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

    def forget(self, *, logged: bool) -> None:
        if logged:
            self.dirty.update(dict.fromkeys(self.data))
        else:
            self.dirty.clear()
        self.data.clear()
        self.hot.clear()

    def take_changes(self) -> tuple[Any, Any, Any] | None:
        """Addresses and values that were set; addresses that were removed."""
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
        dirty.clear()
        return pack_addresses(updated), pack(values), pack_addresses(removed)

    def apply(self, changes: tuple[Any, Any, Any]) -> None:
        updated, values, removed = changes
        self.fill((updated, values))
        for address in unpack_addresses(removed):
            self.data.pop(address, None)

    def entries(self) -> dict[Address, Frozen]:
        """Return all values, frozen; not to be changed."""
        self.freeze()
        return self.data

    def dump(self) -> tuple[Any, Any]:
        data = self.entries()
        return pack_addresses(list(data)), pack(list(data.values()))

    def fill(self, dumped: tuple[Any, Any]) -> None:
        addresses, values = dumped
        self.data.update(zip(unpack_addresses(addresses), unpack(values), strict=True))

    def rows(self) -> Iterator[tuple[Address, Frozen]]:
        return iter(self.entries().items())

    def load(self, addresses: Iterable[Address], frozen: Iterable[Frozen]) -> None:
        self.data.update(zip(addresses, frozen, strict=True))

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

    def forget(self, *, logged: bool) -> None:
        self.dirty = dict.fromkeys((*self.data, *self.dirty), 0) if logged else {}
        self.data.clear()

    def take_changes(self) -> tuple[Any, Any, Any, Any] | None:
        """Addresses; how many elements of each are as they were, and how many follow; these in one row."""
        if not self.dirty:
            return None
        empty: list[Frozen] = []
        added = [self.data.get(address, empty)[kept:] for address, kept in self.dirty.items()]
        flat = list(chain.from_iterable(added))
        if self._check is not None:
            self._check(flat)
        changes = pack_addresses(list(self.dirty)), pack(list(self.dirty.values())), pack(list(map(len, added))), pack(flat)
        self.dirty.clear()
        return changes

    def apply(self, changes: tuple[Any, Any, Any, Any]) -> None:
        addresses, kept, counts, flat = changes
        elements = iter(unpack(flat))
        for address, start, count in zip(unpack_addresses(addresses), unpack(kept), unpack(counts), strict=True):
            stored = self.data.setdefault(address, [])
            stored[start:] = islice(elements, count)
            if not stored:
                del self.data[address]

    def dump(self) -> tuple[Any, Any, Any]:
        lists = self.data.values()
        return pack_addresses(list(self.data)), pack(list(map(len, lists))), pack(list(chain.from_iterable(lists)))

    def fill(self, dumped: tuple[Any, Any, Any]) -> None:
        addresses, counts, flat = dumped
        elements = iter(unpack(flat))
        for address, count in zip(unpack_addresses(addresses), unpack(counts), strict=True):
            self.data[address] = list(islice(elements, count))

    def rows(self) -> Iterator[tuple[Address, list[Frozen]]]:
        return iter(self.data.items())

    def load(self, addresses: Iterable[Address], frozen: Iterable[list[Frozen]]) -> None:
        self.data.update(zip(addresses, frozen, strict=True))

    def addresses(self) -> list[Address]:
        return list(self.data)

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

"""How an entry of a table, which has a group, a member and a value, is a row of a store.

The key of a row is: table, section, group, member. The groups and members of keys that a type makes unambiguous are encoded by
it; those of all others as `key_encoding.canonical`, by which equal ones are found, and their originals are in the row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from itertools import chain, groupby, islice, starmap
from operator import itemgetter
from typing import Any, cast

import msgspec

from flinkish.common.typeinfo import TypeInformation
from flinkish.runtime.key_encoding import canonical
from flinkish.runtime.keys import CanonicalKey, unifier
from flinkish.runtime.state.codec import Codec, decode_untyped, encode_untyped
from flinkish.runtime.state.disk.store import Store, StoreSnapshot
from flinkish.runtime.state.heap.changes import always_have_one_encoding
from flinkish.runtime.state.tables import Frozen, Namespaced

#: In place of a value, or a member: there is none.
GONE: Any = object()

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode
_LENGTH = struct.Struct(">I")
_TIME = struct.Struct(">Q")
#: Added to timestamps (milliseconds), so that those before 1970 come first.
_TIME_OFFSET = 1 << 63

#: Number of rows that are read at once where the store must not be held.
_PART = 1_000

#: A group, a member and its value.
Entry = tuple[Any, Any, Any]
#: What is not in the store yet, by group and member: values with their places in the order, GONE for what was removed.
Pending = Mapping[Any, Mapping[Any, tuple[Frozen, int]]]


def _canonical(key: Any) -> bytes:
    return key.canonical if key.__class__ is CanonicalKey else canonical(key)


def _framed(encoding: bytes) -> bytes:
    return _LENGTH.pack(len(encoding)) + encoding


def _original(value: Any) -> tuple[bytes, ...]:
    if value.__class__ is Namespaced:
        return encode_untyped(value.key), encode_untyped(value.namespace)
    return (encode_untyped(value),)


def _restored(parts: list[bytes]) -> Any:
    values = list(map(decode_untyped, parts))
    return Namespaced(*values) if len(values) == 2 else values[0]


class Members:
    """How the members of a group become parts of row keys."""

    def __init__(self, key_type: TypeInformation | None) -> None:
        """`key_type`: that of the members, or of the keys of their addresses; None if it is not known."""
        self._codec = Codec(key_type) if key_type is not None and always_have_one_encoding(key_type) else None
        #: True as a LONG, for example, is equal to 1, and is found where that is.
        self._exact = None if self._codec is None else self._codec.exact
        self._unified = None if self._codec is None else unifier(self._codec.type_info)

    def encode(self, member: Any) -> bytes:
        if member.__class__ is Namespaced:
            return b"\x01" + _framed(_canonical(member.key)) + _canonical(member.namespace)
        if self._codec is not None:
            if member.__class__ is not self._exact and self._unified is not None:
                member = self._unified(member)
            return b"\x00" + self._codec.encode(member)
        return b"\x02" + _canonical(member)

    def decode(self, encoding: bytes) -> Any:
        """Return the member itself, GONE if its original is in the row."""
        return self._codec.decode(encoding[1:]) if self._codec is not None and encoding[:1] == b"\x00" else GONE


class Groups:
    """How groups become parts of row keys: with their length, so that the rows of one are those with its prefix."""

    def __init__(self, key_type: TypeInformation | None) -> None:
        self._members = Members(key_type)

    def encode(self, group: Any) -> bytes:
        return _framed(self._members.encode(group))

    def size(self, key: bytes, start: int) -> int:
        """Return the length of the group that begins there in a row's key."""
        return _LENGTH.size + int(_LENGTH.unpack_from(key, start)[0])

    def original(self, group: Any) -> tuple[bytes, ...]:
        return _original(group)

    def decode(self, encoding: bytes, parts: list[bytes]) -> Any:
        return _restored(parts)


class Times(Groups):
    """Groups that are timestamps (milliseconds): their rows are in the order of time."""

    def encode(self, group: int) -> bytes:
        return _TIME.pack(group + _TIME_OFFSET)

    def size(self, key: bytes, start: int) -> int:
        return _TIME.size

    def original(self, group: int) -> tuple[bytes, ...]:
        return ()

    def decode(self, encoding: bytes, parts: list[bytes]) -> int:
        return int(_TIME.unpack(encoding)[0]) - _TIME_OFFSET


class NoGroups(Groups):
    """One group, None."""

    def encode(self, group: None) -> bytes:
        return b""

    def size(self, key: bytes, start: int) -> int:
        return 0

    def original(self, group: None) -> tuple[bytes, ...]:
        return ()

    def decode(self, encoding: bytes, parts: list[bytes]) -> None:
        return None


class Facts(msgspec.Struct, array_like=True):
    """What a table has in a row of its own."""

    number: int
    #: The number of the next new member; those of a group are sorted by it.
    order: int = 0
    #: The number of timers.
    sizes: tuple[int, int] = (0, 0)
    #: Whether there are, or were, keys that may be equal to one with another encoding in a checkpoint.
    ambiguous: bool = False


class Form:
    """The rows of a section of a table."""

    def __init__(
        self,
        store: Store,
        prefix: bytes,
        facts: Facts,
        groups: Groups,
        members: Members,
        codec: tuple[Callable[[Any], bytes], Callable[[bytes], Any]],
        *,
        ordered: bool,
    ) -> None:
        """`codec`: encodes a frozen value and decodes it; `ordered`: the members of a group keep their order of insertion."""
        self.store = store
        self.prefix = prefix
        self.facts = facts
        self.groups = groups
        self.members = members
        self.ordered = ordered
        self._encode, self._decode = codec
        #: Whether a row is nothing but the value, unless its key says that originals are with it.
        self._plain = not ordered and isinstance(groups, NoGroups)

    def on(self, store: StoreSnapshot) -> Form:
        """Return the same form of the rows in a snapshot, for reading them by their keys."""
        form = copy(self)
        form.store = cast(Store, store)
        return form

    def pack(self, key: bytes, group: Any, member: Any, value: Frozen, order: int) -> bytes:
        encoded, start = self._encode(value), len(self.prefix)
        if self._plain and key[start] == 0:
            return encoded
        typed = key[start + self.groups.size(key, start)] == 0
        return _encode((encoded, order, () if typed else _original(member), self.groups.original(group)))

    def unpack_value(self, key: bytes, row: bytes) -> tuple[Frozen, int, list[bytes]]:
        """Return the value of a row, its place in the order, and the original of its member if the key has none."""
        if self._plain and key[len(self.prefix)] == 0:
            return self._decode(row), 0, []
        encoded, order, parts, _ = _decode(row)
        return self._decode(encoded), order, parts

    def unpack(self, key: bytes, row: bytes) -> tuple[Any, Frozen, int]:
        """Return a row's member, value, and place in the order."""
        start = len(self.prefix)
        member = self.members.decode(key[start + self.groups.size(key, start) :])
        value, order, parts = self.unpack_value(key, row)
        return _restored(parts) if member is GONE else member, value, order

    def walk(self) -> Iterator[tuple[Any, Any]]:
        """Iterate over the groups and members in the store, without holding it: some of those that come or go may be seen."""
        start = self.prefix
        while part := list(islice(self.store.rows_from(start, self.prefix), _PART)):
            yield from [(self.group_of(*row), self.unpack(*row)[0]) for row in part]
            start = part[-1][0] + b"\x00"

    def rows_of(self, entries: Iterable[Entry]) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the rows of new entries."""
        facts = self.facts
        for group, member, value in entries:
            key = self.prefix + self.groups.encode(group) + self.members.encode(member)
            yield key, self.pack(key, group, member, value, facts.order)
            facts.order += self.ordered

    def group_of(self, key: bytes, row: bytes) -> Any:
        start = len(self.prefix)
        parts = [] if isinstance(self.groups, Times | NoGroups) else _decode(row)[3]
        return self.groups.decode(key[start : start + self.groups.size(key, start)], parts)

    def _group_part(self, item: tuple[bytes, bytes]) -> bytes:
        start = len(self.prefix)
        return item[0][start : start + self.groups.size(item[0], start)]

    def merged(self, rows: Iterator[tuple[bytes, bytes]], pending: Pending) -> Iterator[Entry]:
        """Iterate over the entries of rows and of what is not in the store yet, by group."""
        left = dict(pending)
        for _, items in groupby(rows, self._group_part):
            first = next(items)
            group = self.group_of(*first)
            changed = left.pop(group, {})
            entries = starmap(self.unpack, chain([first], items))  # noqa: B031 - what is left of it
            yield from self._in_order(group, (entry for entry in entries if entry[0] not in changed), changed)
        for group, changed in left.items():
            yield from self._in_order(group, iter(()), changed)

    def _in_order(
        self, group: Any, kept: Iterator[tuple[Any, Frozen, int]], changed: Mapping[Any, tuple[Frozen, int]]
    ) -> Iterator[Entry]:
        new = [(member, value, order) for member, (value, order) in changed.items() if value is not GONE]
        if self.ordered:
            yield from ((group, member, value) for member, value, _ in sorted([*kept, *new], key=itemgetter(2)))
        else:
            yield from ((group, member, value) for member, value, _ in kept)
            yield from ((group, member, value) for member, value, _ in new)

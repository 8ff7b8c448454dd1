"""Converts what tables contain to lists: to the form that is pickled fastest, for the change log, and to copies for snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, repeat
from typing import Any

import msgspec

from flinkish.runtime.state.codec import NATIVE
from flinkish.runtime.state.tables import Address, Namespaced, address_of, key_of, namespace_of

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def pack(values: list[Any]) -> Any:
    """Return a list in the form that is pickled fastest: as MessagePack, if it has only numbers and text.

    Pickle keeps a memo of every text and bytes object: a million of each took 2.1 s instead of 0.2 s.
    """
    if len(values) < 16 or not NATIVE.issuperset(map(type, values)):
        return values
    try:
        return _encode(values)
    except (OverflowError, ValueError):  # integers of more than 64 bits, halves of surrogate pairs, texts of 4 GiB
        return values


def unpack(packed: Any) -> list[Any]:
    """Return the list from a result of `pack`."""
    values: list[Any] = _decode(packed) if packed.__class__ is bytes else packed
    return values


def pack_addresses(addresses: list[Address]) -> Any:
    """Return addresses in the form that is pickled fastest; pickle takes a microsecond for each `Namespaced`."""
    if Namespaced in set(map(type, addresses)):
        return pack([key_of(address) for address in addresses]), [namespace_of(address) for address in addresses]
    return pack(addresses)


def unpack_addresses(packed: Any) -> list[Address]:
    """Return the addresses from a result of `pack_addresses`."""
    if packed.__class__ is tuple:
        keys, namespaces = packed
        return list(map(address_of, unpack(keys), namespaces))
    return unpack(packed)


#: A group, some of its members, and a value for each of them.
Group = tuple[Any, list[Any], list[Any]]


def pack_groups(groups: list[Group]) -> Any:
    """Return groups as four lists, which are pickled several times faster than many small dicts (a microsecond each)."""
    return (
        pack_addresses([group for group, _, _ in groups]),
        pack([len(members) for _, members, _ in groups]),
        pack_addresses(list(chain.from_iterable([members for _, members, _ in groups]))),
        pack(list(chain.from_iterable([values for _, _, values in groups]))),
    )


def unpack_groups(packed: Any) -> Iterator[tuple[Any, dict[Any, Any]]]:
    addresses, counts, members, values = packed
    pairs = zip(unpack_addresses(members), unpack(values), strict=True)
    for group, count in zip(unpack_addresses(addresses), unpack(counts), strict=True):
        yield group, dict(islice(pairs, count))


#: Lists by group and member, and the number of unchanged elements at the front of those that have changed.
_Lists = dict[Any, dict[Any, list[Any]]]
_Kept = dict[Any, dict[Any, int]]


def list_changes(lists: _Lists, dirty: _Kept, cleared: set[Any], check: Callable[[list[Any]], None] | None) -> Any:
    """Return cleared groups, and changed lists: the number of unchanged elements of each, and the elements after them.

    `check` raises an error for new elements that cannot be stored. `dirty` is empty afterwards.
    """
    kept: list[Group] = []
    added: list[list[Any]] = []
    for group, starts in dirty.items():
        members = lists.get(group, {})
        added += [members.get(member, [])[start:] for member, start in starts.items()]
        kept.append((group, list(starts), list(starts.values())))
    flat = list(chain.from_iterable(added))
    if check is not None:
        check(flat)
    changes = list(cleared), pack_groups(kept), pack(list(map(len, added))), pack(flat)
    for starts in dirty.values():
        starts.clear()
    dirty.clear()
    return changes


def apply_lists(lists: _Lists, changes: Any) -> None:
    """Apply a result of `list_changes`."""
    cleared, kept, counts, flat = changes
    for group in cleared:
        lists.pop(group, None)
    sizes, elements = iter(unpack(counts)), iter(unpack(flat))
    for group, starts in unpack_groups(kept):
        members = lists.setdefault(group, {})
        for member, start in starts.items():
            # Without an old element, it is new or was removed, and perhaps added again behind the others.
            stored = members[member] if start else []
            stored[start:] = islice(elements, next(sizes))
            if not start:
                members.pop(member, None)
                if stored:
                    members[member] = stored
        if not members:
            del lists[group]


def heads(lists: Iterable[list[Any]]) -> Iterator[list[Any]]:
    """Return lists as they are now, given that they are only appended to."""
    lists = list(lists)
    sizes = list(map(len, lists))
    return (elements[:size] for elements, size in zip(lists, sizes, strict=True))


def flat(groups: dict[Any, dict[Any, Any]], values: Iterable[Any] | None = None) -> Iterator[tuple[Any, Any, Any]]:
    """Return group, member and value of all members as they are now; `values` replaces the values.

    The copies are few long lists, because many small dicts took twice as long.
    """
    names = list(chain.from_iterable(map(repeat, groups, map(len, groups.values()))))
    members = list(chain.from_iterable(groups.values()))
    copies = list(chain.from_iterable(map(dict.values, groups.values()))) if values is None else values
    return zip(names, members, copies, strict=True)

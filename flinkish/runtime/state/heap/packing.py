"""Converts lists of values and addresses to the form that is pickled fastest, for the change log."""

from __future__ import annotations

from typing import Any

import msgspec

from flinkish.runtime.state.tables import Address, Namespaced, address_of, key_of, namespace_of

#: Classes whose values MessagePack restores exactly.
_NATIVE: frozenset[type] = frozenset({int, float, bool, str, bytes, type(None)})
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def pack(values: list[Any]) -> Any:
    """Return a list in the form that is pickled fastest: as MessagePack, if it has only numbers and text.

    Pickle keeps a memo of every text and bytes object: a million of each took 2.1 s instead of 0.2 s.
    """
    if len(values) < 16 or not _NATIVE.issuperset(map(type, values)):
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

"""What has changed in a table since a checkpoint, for the next checkpoint to contain only that.

Changes are members by group with a flag; of a table without groups, the addresses are the members of the group None.
"""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from flinkish.common.time import Instant
from flinkish.common.typeinfo import BasicTypeInfo, TupleTypeInfo, TypeInformation
from flinkish.runtime.keys import may_be_wrapped

#: Flags of a member: it is new; it was put, perhaps in place of another value; it was removed and is here again, behind the
#: others; it is gone.
NEW, PUT, AGAIN, GONE = range(4)

Changes = dict[Any, dict[Any, int]]

#: Classes of keys for which equal keys have equal encodings in a checkpoint; 1, 1.0 and True, for example, have not.
_ONE_ENCODING: frozenset[type] = frozenset({int, str, bytes, type(None), datetime.date, datetime.timedelta, uuid.UUID, Instant})


def note(known: dict[Any, int], member: Any, flag: int) -> None:
    """Add a change of a member to those of its group."""
    before = known.get(member)
    if before is None:
        known[member] = flag
    elif flag >= AGAIN or before == GONE:
        del known[member]
        if flag != GONE:
            known[member] = AGAIN
        elif before != NEW:
            known[member] = GONE


def joined(parts: Sequence[Changes]) -> Changes:
    """Return changes followed by further changes, as one."""
    if len(parts) == 1:
        return parts[0]
    together: Changes = {}
    for changes in parts:
        for group, members in changes.items():
            known = together.setdefault(group, {})
            for member, flag in members.items():
                note(known, member, flag)
    return together


def size_of(changes: Changes) -> int:
    """Return the number of changes."""
    return sum(map(len, changes.values()))


def split(changes: Changes, data: Mapping[Any, Mapping[Any, Any]]) -> tuple[list[tuple[Any, Any, Any]], list[tuple[Any, Any]]]:
    """Return the members that are there, with their group and value, and those to be removed before these are put.

    Lists of frozen values are copied.
    """
    put: list[tuple[Any, Any, Any]] = []
    removed: list[tuple[Any, Any]] = []
    for group, members in changes.items():
        values = data.get(group, {})
        there = (member for member in members if member in values)
        put += [(group, member, list(v) if (v := values[member]).__class__ is list else v) for member in there]
        removed += [(group, member) for member, flag in members.items() if flag >= AGAIN or member not in values]
    return put, removed


def have_one_encoding(keys: Iterable[Any]) -> bool:
    """Tell by their classes whether none of the keys may be equal to one with another encoding."""
    keys = list(keys)
    classes = set(map(type, keys))
    if tuple in classes:
        classes.remove(tuple)
        classes.update(map(type, chain.from_iterable(key for key in keys if key.__class__ is tuple)))
    return classes <= _ONE_ENCODING


def always_have_one_encoding(key_type: TypeInformation | None) -> bool:
    """Tell whether that holds for all keys of a type, because they are converted to it."""
    if isinstance(key_type, TupleTypeInfo):
        return all(map(always_have_one_encoding, key_type.get_field_types()))
    return key_type is None or (isinstance(key_type, BasicTypeInfo) and not may_be_wrapped(key_type))

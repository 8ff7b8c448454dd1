"""The seam between the runtime and what keeps state while a job runs: what a state backend fulfils.

A `StateBackend` holds all tables of one slot at one level, `Table` and its kinds say what can be done with one. Operators,
handles, time-to-live, checkpoints and restores use these operations and touch no table's inside; so the heap (heap/) can be
joined by another form. `backends.py` decides which form a job gets.

A checkpoint does not depend on the backend: it is made from the frozen rows of `rows` and taken over by `load`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol

from flinkish.datastream.state import ValueState
from flinkish.runtime.state.codec import Codec
from flinkish.runtime.state.tables import Address, Frozen, StateAddress, TableMeta

#: Checks and converts a value on its way into state.
Convert = Callable[[Any], Any]
#: timestamp (ms), key, namespace
Fire = Callable[[int, Any, Any], None]
#: Called now and then while timers fire, with how many have fired so far; raises to stop.
Look = Callable[[int], None]


class Scope(Protocol):
    """What a state handle asks for where it is."""

    current_key: Any
    current_namespace: Any

    def address(self) -> Address: ...


class Table(Protocol):
    """One state of one operator in one subtask."""

    meta: TableMeta

    def is_empty(self) -> bool:
        """Return whether there is nothing in it."""
        ...

    def addresses(self) -> list[Address]:
        """Return the addresses that have something."""
        ...

    def changed(self) -> int:
        """Return about how many entries changed in this epoch."""
        ...

    def forget(self, *, logged: bool) -> None:
        """Drop all, in place: with what changed, or, where some of it is in the log already, as a change."""
        ...


class ExpiringTable(Table, Protocol):
    """A table whose values may have a time-to-live."""

    def drop_expired(self, addresses: Iterable[Address], expired: Callable[[Frozen], bool]) -> None:
        """Remove what a predicate on frozen values says has expired, at some addresses; values touched in this epoch stay."""
        ...


class ValueTable(ExpiringTable, Protocol):
    """One value for each address; also behind reducing and aggregating state."""

    codec: Codec

    def value_state(self, scope: Scope, convert: Convert | None) -> ValueState[Any]:
        """Return the handle of a value state without time-to-live. The table makes it, so that nothing stands between them."""
        ...

    def get(self, address: Address) -> Any:
        """Return the value of an address, None if there is none. The object belongs to the state: changes to it are kept."""
        ...

    def put(self, address: Address, value: Any) -> None:
        """Set the value of an address."""
        ...

    def remove(self, address: Address) -> None:
        """Remove the value of an address."""
        ...

    def rows(self) -> Iterable[tuple[Address, Frozen]]:
        """Return all values, for a checkpoint."""
        ...

    def load(self, addresses: Iterable[Address], values: Iterable[Frozen]) -> None:
        """Set an empty table to rows of a checkpoint."""
        ...


class ListTable(ExpiringTable, Protocol):
    """A list for each address; an empty list is no entry. Elements are frozen when they are added."""

    codec: Codec

    def append(self, address: Address, value: Any) -> None:
        """Add one element."""
        ...

    def get(self, address: Address) -> list[Any]:
        """Return the elements as objects of their own; changing them changes nothing here."""
        ...

    def replace(self, address: Address, values: Iterable[Any]) -> None:
        """Set the whole list."""
        ...

    def remove(self, address: Address) -> None:
        """Remove the whole list."""
        ...

    def rows(self) -> Iterable[tuple[Address, list[Frozen]]]:
        """Return all lists, for a checkpoint."""
        ...

    def load(self, addresses: Iterable[Address], lists: Iterable[list[Frozen]]) -> None:
        """Set an empty table to rows of a checkpoint."""
        ...


class GroupedTable(Table, Protocol):
    """A value for each member of each group. A group without members is not there; members keep the order in which they came."""

    codec: Codec

    def get(self, group: Any, member: Any) -> Any:
        """Return a value, None if there is none. The object belongs to the state: changes to it are kept."""
        ...

    def put(self, group: Any, member: Any, value: Any) -> None:
        """Set a value."""
        ...

    def remove(self, group: Any, member: Any) -> None:
        """Remove a value."""
        ...

    def clear(self, group: Any) -> None:
        """Remove all values of a group."""
        ...

    def contains(self, group: Any, member: Any) -> bool:
        """Return whether there is such a value."""
        ...

    def has(self, group: Any) -> bool:
        """Return whether a group has members."""
        ...

    def groups(self) -> list[Any]:
        """Return the groups that have members."""
        ...

    def members(self, group: Any) -> list[Any]:
        """Return the members of a group, in order."""
        ...

    def entries(self, group: Any) -> list[tuple[Any, Any]]:
        """Return the members of a group with their values, in order. The objects belong to the state, as with `get`."""
        ...


class MapTable(GroupedTable, ExpiringTable, Protocol):
    """A map for each address: addresses are the groups, the user's keys their members."""

    key_codec: Codec

    def rows(self) -> Iterable[tuple[Address, Any, Frozen]]:
        """Return all entries for a checkpoint: address, the user's key, value."""
        ...

    def load(self, addresses: Iterable[Address], keys: Iterable[Any], values: Iterable[Frozen]) -> None:
        """Set an empty table to rows of a checkpoint."""
        ...


class PaneTable(GroupedTable, Protocol):
    """Values by namespace and then by key: for windows that begin and end for all keys together.

    In a checkpoint there is nothing of that: its rows are those of a ValueTable.
    """

    def pane(self, namespace: Any) -> tuple[MutableMapping[Any, Any], MutableMapping[Any, bool]]:
        """Return the values of a namespace by key, to fold a run of records into them, and where to note what was set.

        Both are good until the run has ended, and are asked for only if something is to be set. If values cannot change
        (`codec.immutable`), a key that is not in the first has no value; whoever sets one there sets the key to False in the
        second. Else the first holds the objects that were touched in this epoch, a key that is not in it is to be looked up by
        `get` and set by `put`, and nothing need be noted.
        """
        ...

    def copies(self, namespace: Any) -> Iterable[tuple[Any, Any]]:
        """Return the keys of a namespace with their values as objects of their own: changing them changes nothing here."""
        ...

    def copy(self, namespace: Any, key: Any) -> Any:
        """Return a value as an object of its own, None if there is none."""
        ...

    def rows(self) -> Iterable[tuple[Address, Frozen]]:
        """Return all values, for a checkpoint."""
        ...

    def load(self, addresses: Iterable[Address], values: Iterable[Frozen]) -> None:
        """Set an empty table to rows of a checkpoint."""
        ...


class GroupedLists(Table, Protocol):
    """A list for each key and namespace, grouped by one of them. In a checkpoint its rows are those of a ListTable."""

    codec: Codec

    def append(self, group: Any, member: Any, frozen: Frozen) -> None:
        """Add one element, as `codec.freeze` returns it."""
        ...

    def get(self, group: Any, member: Any) -> list[Any]:
        """Return the elements of a list that is there as objects of their own."""
        ...

    def remove(self, group: Any, member: Any) -> None:
        """Remove a whole list."""
        ...

    def clear(self, group: Any) -> None:
        """Remove all lists of a group."""
        ...

    def groups(self) -> list[Any]:
        """Return the groups that have members."""
        ...

    def members(self, group: Any) -> list[Any]:
        """Return the members of a group, in the order in which they came."""
        ...

    def rows(self) -> Iterable[tuple[Address, list[Frozen]]]:
        """Return all lists, for a checkpoint."""
        ...

    def load(self, addresses: Iterable[Address], lists: Iterable[list[Frozen]]) -> None:
        """Set an empty table to rows of a checkpoint."""
        ...


class TimerQueue(Protocol):
    """The timers of one time domain, in time order; those of one timestamp in the order in which they were registered."""

    size: int

    def register(self, timestamp: int, address: Address) -> None:
        """Add a timer, unless there is the same already."""
        ...

    def delete(self, timestamp: int, address: Address) -> None:
        """Remove a timer if there is such a one."""
        ...

    def next(self) -> int | None:
        """Return the earliest timestamp that has a timer."""
        ...

    def advance(self, timestamp: int, fire: Fire, look: Look) -> None:
        """Fire all timers up to a timestamp, in time order, also those that are registered meanwhile.

        A timer is removed before it fires, so that the function called can register it again.
        """
        ...

    def advance_clock(self, now: int, fire: Fire, look: Look) -> None:
        """Fire all timers up to the present, as `advance`; one that a timer sets for the present itself waits for the next call.

        The present stands still until then: a function that sets a timer for now whenever one fires would go on for ever.
        """
        ...

    def forget(self, *, logged: bool) -> None:
        """Drop all timers, as `Table.forget`."""
        ...

    def __iter__(self) -> Iterator[tuple[int, Address]]:
        """Return all timers in time order, for a checkpoint."""
        ...

    def load(self, by_time: Mapping[int, Iterable[Address]]) -> None:
        """Add the timers of a checkpoint."""
        ...


class TimerTable(Table, Protocol):
    """Timers of both time domains."""

    @property
    def event_time(self) -> TimerQueue: ...

    @property
    def processing_time(self) -> TimerQueue: ...


class StateBackend(Protocol):
    """The tables of one slot at one level.

    Whoever makes a backend keeps a log of what it holds (level_state.py): changes epoch by epoch, now and then all of it. A
    backend that was made anew and given the same entries holds the same.
    """

    @property
    def tables(self) -> Mapping[StateAddress, Table]:
        """The tables that there are; not to be changed."""
        ...

    def create(self, address: StateAddress, meta: TableMeta) -> Table:
        """Make an empty table of the kind that is declared.

        `meta.kind` and `meta.grouped_by` say which Protocol it fulfils; that of kind INTERNAL is a MutableMapping.
        """
        ...

    def take_changes(self) -> Any:
        """Return what changed since the last call, as data that pickles; None if nothing did.

        Objects that functions changed in place are looked at here: raises TypeMismatchError or StateError, with the name of the
        state, if one cannot be stored as it is declared.
        """
        ...

    def apply(self, changes: Any) -> None:
        """Do again what `take_changes` gave."""
        ...

    def dump(self) -> Any:
        """Return all there is, as data that pickles, after `take_changes`; nothing may be changed in it."""
        ...

    def fill(self, dumped: Any) -> None:
        """Replace all there is by what `dump` gave."""
        ...

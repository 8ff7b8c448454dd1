"""The interface between the runtime and state backends, which keep state while a job runs.

A `StateBackend` has all tables of one slot at one level, and makes them durable; `Table` and its subclasses define the operations
on a table. Operators, handles, time-to-live, checkpoints and restores use only these operations, so other backends can be added
to the heap (heap/). `backends.py` decides which backend a job gets.

A checkpoint does not depend on the backend: it contains rows, which `freeze` takes from the tables and `load` puts into them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from flinkish.common.ids import OperatorUid
from flinkish.runtime.protocol import Barrier, StateFile
from flinkish.runtime.state.codec import Codec
from flinkish.runtime.state.positions import Place, Position
from flinkish.runtime.state.tables import Address, Frozen, StateAddress, TableMeta
from flinkish.udf.state import ValueState

#: Rows of one state in a checkpoint that are not decoded yet: RestoredRows of restore.py; they can be pickled.
HeldRows = Any
#: Checks and converts a value on its way into state.
Convert = Callable[[Any], Any]
#: timestamp (ms), key, namespace
Fire = Callable[[int, Any, Any], None]
#: Called regularly while timers fire, with the number fired so far; raises an error to stop.
Look = Callable[[int], None]


class Scope(Protocol):
    """Tells a state handle the current address."""

    current_key: Any
    current_namespace: Any

    def address(self) -> Address: ...


class Folding(Protocol):
    """How records are folded into accumulators; see Fold in handles.py."""

    add: Callable[[Any, Any], Any]
    into: Callable[[Any, Any], Any]
    convert: Convert | None

    def refuse_nothing(self, value: Any) -> None: ...


class Table(Protocol):
    """One state of one operator in one subtask.

    While a caller iterates over a table, it may change it; what it adds or removes then may still be seen or not.
    """

    meta: TableMeta

    def is_empty(self) -> bool:
        """Tell whether the table is empty."""

    def addresses(self) -> Iterator[Address]:
        """Iterate over the addresses that have values."""

    def expect(self, addresses: Sequence[Address]) -> None:
        """The values of these addresses may be used next; a table that reads them from somewhere may do so for all at once."""

    def changed(self) -> int:
        """Return the approximate number of entries that changed in this epoch."""

    def forget(self, *, logged: bool) -> None:
        """Drop everything, in place. The log gets a change only if it contains some of what is dropped."""


class ExpiringTable(Table, Protocol):
    """A table whose values may have a time-to-live."""

    def drop_expired(self, addresses: Iterable[Address], expired: Callable[[Frozen], bool]) -> None:
        """Remove values at some addresses that a predicate on frozen values finds expired, except those used in this epoch."""


class ValueRows(Table, Protocol):
    """A table that checkpoints show as one value for each address, however it is grouped."""

    codec: Codec

    def load(self, addresses: Iterable[Address], values: Iterable[Frozen]) -> None:
        """Set an empty table to rows of a checkpoint."""


class ListRows(Table, Protocol):
    """A table that checkpoints show as one list for each address, however it is grouped. Its elements are frozen."""

    codec: Codec

    def load(self, addresses: Iterable[Address], lists: Iterable[list[Frozen]]) -> None:
        """Set an empty table to rows of a checkpoint."""


class ValueTable(ValueRows, ExpiringTable, Protocol):
    """One value for each address; also behind reducing and aggregating state."""

    def value_state(self, scope: Scope, convert: Convert | None) -> ValueState[Any]:
        """Return the handle of a value state without time-to-live; the table creates it for direct access."""

    def get(self, address: Address) -> Any:
        """Return the value of an address, None if there is none. The object belongs to the state: changes to it are kept."""

    def put(self, address: Address, value: Any) -> None:
        """Set the value of an address."""

    def get_all(self, addresses: Sequence[Address]) -> list[Any]:
        """Return the values of several addresses, as `get` does."""

    def put_all(self, addresses: Sequence[Address], values: Iterable[Any]) -> None:
        """Set the values of several addresses."""

    def remove(self, address: Address) -> None:
        """Remove the value of an address."""


class ListTable(ListRows, ExpiringTable, Protocol):
    """A list for each address; an empty list is no entry."""

    def append(self, address: Address, value: Any) -> None:
        """Add one element."""

    def get(self, address: Address) -> list[Any]:
        """Return the elements as copies; changing them does not change the state."""

    def replace(self, address: Address, values: Iterable[Any]) -> None:
        """Set the whole list."""

    def remove(self, address: Address) -> None:
        """Remove the whole list."""


class Groups(Table, Protocol):
    """Something for each member of each group. A group without members does not exist; members keep their order of insertion."""

    codec: Codec

    def groups(self) -> Iterator[Any]:
        """Iterate over the groups that have members."""

    def members(self, group: Any) -> Iterator[Any]:
        """Iterate over the members of a group, in order."""

    def remove(self, group: Any, member: Any) -> None:
        """Remove a member."""

    def clear(self, group: Any) -> None:
        """Remove all members of a group."""


class GroupedTable(Groups, Protocol):
    """A value for each member of each group."""

    def get(self, group: Any, member: Any) -> Any:
        """Return a value, None if there is none. The object belongs to the state: changes to it are kept."""

    def put(self, group: Any, member: Any, value: Any) -> None:
        """Set a value."""

    def contains(self, group: Any, member: Any) -> bool:
        """Tell whether there is a value for a member."""

    def has(self, group: Any) -> bool:
        """Tell whether a group has members."""

    def entries(self, group: Any) -> Iterable[tuple[Any, Any]]:
        """Return the members of a group with their values, in order. The objects belong to the state, as with `get`."""


class MapTable(GroupedTable, ExpiringTable, Protocol):
    """A map for each address: addresses are the groups, the user's keys their members."""

    key_codec: Codec

    def load(self, addresses: Iterable[Address], keys: Iterable[Any], values: Iterable[Frozen]) -> None:
        """Set an empty table to rows of a checkpoint."""


class PaneTable(GroupedTable, ValueRows, Protocol):
    """Values by namespace and then by key, for windows that begin and end for all keys together."""

    def fold(self, namespaces: Iterable[Any], keys: Sequence[Any], values: Sequence[Any], fold: Folding, scope: Scope) -> None:
        """Fold a run of records into the accumulators of their keys in each namespace.

        Each key becomes the current one of the scope before it is used.
        """

    def get_all(self, namespace: Any, keys: Sequence[Any]) -> list[Any]:
        """Return the values of several keys of a namespace, as `get` does."""

    def put_all(self, namespace: Any, keys: Sequence[Any], values: Iterable[Any]) -> None:
        """Set the values of several keys of a namespace."""

    def copies(self, namespace: Any) -> Iterable[tuple[Any, Any]]:
        """Return the keys of a namespace with copies of their values; changing these does not change the state.

        The namespace must not be changed meanwhile.
        """

    def copy(self, namespace: Any, key: Any) -> Any:
        """Return a copy of a value, None if there is none."""


class GroupedLists(Groups, ListRows, Protocol):
    """A list for each key and namespace, grouped by one of them."""

    def append(self, group: Any, member: Any, frozen: Frozen) -> None:
        """Add one element, as `codec.freeze` returns it."""

    def get(self, group: Any, member: Any) -> list[Any]:
        """Return the elements of an existing list as copies."""


class TimerQueue(Protocol):
    """The timers of one time domain, in time order; those of one timestamp in the order in which they were registered."""

    size: int

    def register(self, timestamp: int, address: Address) -> None:
        """Add a timer (milliseconds), unless it exists; one whose time has passed fires in the next call of `advance`."""

    def delete(self, timestamp: int, address: Address) -> None:
        """Remove a timer if it exists."""

    def next(self) -> int | None:
        """Return the earliest timestamp that has a timer."""

    def advance(self, timestamp: int, fire: Fire, look: Look = ...) -> None:
        """Fire all timers up to a timestamp, in time order, including those that are registered in the meantime.

        A timer is removed before it fires, so that the function called can register it again.
        """

    def advance_clock(self, now: int, fire: Fire, look: Look = ...) -> None:
        """Fire all timers up to `now`, like `advance`; a timer that is set for exactly `now` meanwhile waits for the next call.

        Otherwise a function that sets a timer for the current time whenever one fires would never end, as `now` does not change.
        """

    def forget(self, *, logged: bool) -> None:
        """Drop all timers, as `Table.forget`."""

    def __iter__(self) -> Iterator[tuple[int, Address]]:
        """Iterate over all timers in time order; they must not be changed meanwhile."""

    def load(self, by_time: Mapping[int, Iterable[Address]]) -> None:
        """Add the timers of a checkpoint."""


class TimerTable(Table, Protocol):
    """Timers of both time domains."""

    @property
    def event_time(self) -> TimerQueue: ...

    @property
    def processing_time(self) -> TimerQueue: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFiles:
    """Where the files of one subtask's snapshot go: into the folder of the barrier, with names that begin with `name`."""

    barrier: Barrier
    name: str


class Snapshot(Protocol):
    """The state of one subtask as it was when it was frozen."""

    def upload(self, files: SnapshotFiles) -> tuple[StateFile, ...]:
        """Write the state; return the files that contain it, none if there is no state. May run in another thread.

        For an incremental checkpoint, some may be files of the checkpoint that it is based on.
        Raises OSError if a file cannot be written, StateError if a value cannot; then no new file is left.
        """


class StateBackend(Protocol):
    """The tables of one slot at one level, which it makes durable epoch by epoch.

    Besides tables, it holds rows of a checkpoint whose states have not been requested yet; these are as durable as the tables.
    """

    def open(self, place: Place) -> None:
        """Begin, without any tables. Called first and once."""

    def recover(self, position: Position, kept: bytes) -> None:
        """Go to a position, at which `commit` returned these bytes in this or another process; called before anything else.

        Raises EngineError if that is not possible.
        """

    def commit(self, position: Position) -> bytes:
        """Make the state durable at the end of an epoch; return bytes that `recover` needs, which should be few.

        The engine keeps the bytes, and may go back to those of the epoch before, but not further. Objects that functions have
        changed in place are encoded here: raises TypeMismatchError or StateError, with the name of the state, if one cannot be
        stored as declared; OSError if a file cannot be written.
        """

    def freeze(self, uids: Collection[OperatorUid], subtask: int, barrier: Barrier) -> Snapshot:
        """Return the state of a subtask, which has these operators, as it is now, for a checkpoint; it must be quick.

        What a snapshot shows does not change with the tables, and survives `close`.
        """

    def close(self) -> None:
        """Release everything but what `recover` needs; nothing is called afterwards."""

    @property
    def tables(self) -> Mapping[StateAddress, Table]:
        """The existing tables; not to be changed."""

    def create(self, address: StateAddress, meta: TableMeta) -> Table:
        """Create an empty table of the declared kind.

        `meta.kind` and `meta.grouped_by` decide which Protocol it implements; a table of kind INTERNAL is a MutableMapping.
        """

    @property
    def held(self) -> Mapping[StateAddress, HeldRows]:
        """The rows of a checkpoint that are held; not to be changed."""

    def hold(self, restored: Mapping[StateAddress, HeldRows]) -> None:
        """Hold rows of a checkpoint, until `claim`. Called once, before there are tables."""

    def claim(self, address: StateAddress) -> None:
        """Hold the rows of a state no longer: they have been loaded into its table."""

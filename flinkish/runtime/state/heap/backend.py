"""State on the heap of the slot's process; a change log makes it durable (log.py)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from flinkish.common import pickling
from flinkish.common.ids import OperatorUid
from flinkish.runtime.protocol import Barrier
from flinkish.runtime.state import tables
from flinkish.runtime.state.heap.grouped import HeapGroupedLists, HeapMapTable, HeapPaneTable
from flinkish.runtime.state.heap.log import ChangeLog, Entry
from flinkish.runtime.state.heap.snapshot import HeapSnapshot, IncrementalSnapshots, full_snapshot
from flinkish.runtime.state.heap.tables import HeapInternalTable, HeapListTable, HeapTable, HeapValueTable
from flinkish.runtime.state.heap.timers import HeapTimerTable
from flinkish.runtime.state.positions import Place, Position
from flinkish.runtime.state.tables import StateAddress, TableMeta, naming

if TYPE_CHECKING:
    from flinkish.runtime.state.restore import RestoredRows


#: For each table: address, declaration if the table is new, and changes in it.
_Changes = list[tuple[StateAddress, TableMeta | None, Any]]


class HeapBackend:
    """Tables of Python objects. Implements StateBackend.

    Each epoch adds its changes to the log or, if the log has become too long, the whole content.
    """

    _log: ChangeLog

    def __init__(self) -> None:
        self._tables: dict[StateAddress, HeapTable] = {}
        #: Tables that are not in the log yet.
        self._new: set[StateAddress] = set()
        self._held: dict[StateAddress, RestoredRows] = {}
        #: Whether the next entry must have the whole content: rows of a checkpoint are loaded without being logged.
        self._needs_full = False
        #: Changes of this epoch that were taken for a snapshot.
        self._taken: _Changes = []
        #: The incremental snapshots of each subtask, by its operators.
        self._snapshots: dict[tuple[OperatorUid, ...], IncrementalSnapshots] = {}

    # -- durability ----------------------------------------------------------------------------------------------------------

    def open(self, place: Place) -> None:
        self._log = ChangeLog(place)

    def recover(self, position: Position, kept: bytes) -> None:
        self._log.load(kept)
        for entry in self._log.entries():
            content = pickling.loads(entry.payload)
            if entry.full:  # it is the first one
                content, self._held = content
            self._apply(content)

    def commit(self, position: Position) -> bytes:
        changes, self._taken = self._taken + self._take_changes(self._tables), []
        log = self._log
        log.before_commit()
        if changes or self._needs_full:
            payload = pickling.dumps(changes)
            del changes  # the next entry may be as large as all state, so free this one first
            due = log.wants_full(len(payload))
            fork = due and not self._needs_full and log.may_fork(len(payload))
            full = self._needs_full or (due and not fork)
            if full:
                payload = b""
                payload = self._pickled()
            log.append(Entry(*position, full, payload))
            if fork:
                log.fold(position, self._pickled)
            self._needs_full = False
        return log.to_bytes()

    def _pickled(self) -> bytes:
        """Pickle the content of a full entry."""
        return pickling.dumps((self._dump(), self._held))

    def close(self) -> None:
        self._log.close()

    def _take_changes(self, of: Mapping[StateAddress, HeapTable]) -> _Changes:
        taken: _Changes = []
        for address, table in of.items():
            with naming(address):
                changes = table.take_changes()
            new = address in self._new
            if new or changes is not None:
                taken.append((address, table.meta if new else None, changes))
        self._new -= of.keys()
        return taken

    def _apply(self, changes: _Changes) -> None:
        for address, meta, changed in changes:
            if meta is not None:
                self._tables[address] = self.make_table(address, meta)
            if changed is not None:
                self._tables[address].apply(changed)

    def _dump(self) -> _Changes:
        """Return the whole content after `_take_changes`, as changes of an empty backend; the caller must not change it."""
        return [(address, table.meta, table.dump()) for address, table in self._tables.items()]

    def freeze(self, uids: Collection[OperatorUid], subtask: int, barrier: Barrier) -> HeapSnapshot:
        own = {address: table for address, table in self._tables.items() if address[0] in uids and address[1] != tables.INTERNAL}
        held = {address: rows for address, rows in self._held.items() if address[0] in uids}
        if not barrier.incremental:
            return full_snapshot(own, held, subtask)
        self._taken += self._take_changes(own)
        return self._snapshots.setdefault(tuple(uids), IncrementalSnapshots()).take(barrier, own, held, subtask)

    # -- tables --------------------------------------------------------------------------------------------------------------

    def make_table(self, address: StateAddress, meta: TableMeta) -> HeapTable:
        """Create an empty table of the declared kind, the next one."""
        match meta.kind:
            case tables.VALUE | tables.REDUCING | tables.AGGREGATING:
                return HeapValueTable(meta) if meta.grouped_by == "address" else HeapPaneTable(meta)
            case tables.LIST if meta.grouped_by != "address":
                return HeapGroupedLists(meta)
            case tables.LIST | tables.OPERATOR_LIST | tables.OPERATOR_UNION:
                return HeapListTable(meta)
            case tables.MAP | tables.OPERATOR_BROADCAST:
                return HeapMapTable(meta)
            case tables.TIMERS:
                return HeapTimerTable(meta)
            case tables.INTERNAL:
                return HeapInternalTable()
            case _:
                raise AssertionError(f"no table for state of kind {meta.kind!r}")

    @property
    def tables(self) -> Mapping[StateAddress, HeapTable]:
        return self._tables

    def create(self, address: StateAddress, meta: TableMeta) -> HeapTable:
        table = self._tables[address] = self.make_table(address, meta)
        if self._snapshots:
            table.since = {}  # no earlier snapshot has any of it
        self._new.add(address)
        return table

    @property
    def held(self) -> Mapping[StateAddress, RestoredRows]:
        return self._held

    def hold(self, restored: Mapping[StateAddress, RestoredRows]) -> None:
        self._held = dict(restored)
        self._needs_full = bool(restored)

    def claim(self, address: StateAddress) -> None:
        del self._held[address]
        self._needs_full = True
        self._tables[address].since = None

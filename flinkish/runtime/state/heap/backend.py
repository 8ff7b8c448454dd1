"""State on the heap of the slot's process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flinkish.runtime.state import tables
from flinkish.runtime.state.heap.grouped import HeapGroupedLists, HeapMapTable, HeapPaneTable
from flinkish.runtime.state.heap.tables import HeapInternalTable, HeapListTable, HeapTable, HeapValueTable
from flinkish.runtime.state.heap.timers import HeapTimerTable
from flinkish.runtime.state.tables import StateAddress, TableMeta, naming


def make_table(meta: TableMeta) -> HeapTable:
    """Create an empty table of the declared kind."""
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


class HeapBackend:
    """Tables of Python objects. Implements StateBackend.

    Its changes have for each table: address, declaration if the table is new, and changes in it.
    """

    def __init__(self) -> None:
        self._tables: dict[StateAddress, HeapTable] = {}
        #: Tables that are not in the log yet.
        self._new: set[StateAddress] = set()

    @property
    def tables(self) -> Mapping[StateAddress, HeapTable]:
        return self._tables

    def create(self, address: StateAddress, meta: TableMeta) -> HeapTable:
        table = self._tables[address] = make_table(meta)
        self._new.add(address)
        return table

    def take_changes(self) -> list[tuple[StateAddress, TableMeta | None, Any]] | None:
        taken: list[tuple[StateAddress, TableMeta | None, Any]] = []
        for address, table in self._tables.items():
            with naming(address):
                changes = table.take_changes()
            new = address in self._new
            if new or changes is not None:
                taken.append((address, table.meta if new else None, changes))
        self._new.clear()
        return taken or None

    def apply(self, changes: list[tuple[StateAddress, TableMeta | None, Any]]) -> None:
        for address, meta, changed in changes:
            if meta is not None:
                self._tables[address] = make_table(meta)
            if changed is not None:
                self._tables[address].apply(changed)

    def dump(self) -> list[tuple[StateAddress, TableMeta | None, Any]]:
        return [(address, table.meta, table.dump()) for address, table in self._tables.items()]

"""State that may be larger than memory: keyed state is in a RocksDB store in the attempt's folder on disk.

Operator state, broadcast state and the runtime's own data are on the heap, as in Flink, and so are the declarations of all tables
and the rows of a checkpoint that no state has claimed yet: a HeapBackend has them, and its log ends at the same positions.
"""

from __future__ import annotations

from flinkish.runtime.state import tables
from flinkish.runtime.state.disk.store import DEFAULT_MEMORY, Store
from flinkish.runtime.state.disk.tables import (
    DiskGroupedLists,
    DiskListTable,
    DiskMapTable,
    DiskPaneTable,
    DiskTable,
    DiskValueTable,
    Rows,
    TableStore,
)
from flinkish.runtime.state.disk.timers import DiskTimerTable
from flinkish.runtime.state.heap.backend import HeapBackend
from flinkish.runtime.state.heap.tables import HeapTable
from flinkish.runtime.state.positions import Place, Position
from flinkish.runtime.state.tables import StateAddress, TableMeta, naming

#: What the kept bytes begin with.
_WITHOUT_STORE, _WITH_STORE = b"\0", b"\1"


class DiskBackend(HeapBackend):
    """Implements StateBackend. `memory`: bytes for RocksDB's blocks and write buffers."""

    def __init__(self, memory: int = DEFAULT_MEMORY) -> None:
        super().__init__()
        self._memory = memory
        self._opened: Store | None = None

    def open(self, place: Place) -> None:
        super().open(place)
        owner = place.owner
        assert place.disk is not None, "the engine makes a folder on disk for a job with this backend"
        self._folder = place.disk / f"rocksdb-{owner.attempt_id}-{owner.slot}-{owner.level}"

    def recover(self, position: Position, kept: bytes) -> None:
        if kept[:1] == _WITH_STORE:
            self._opened = Store.recover(self._folder, position, self._memory)
        super().recover(position, kept[1:])

    @property
    def _the_store(self) -> Store:
        if self._opened is None:
            self._opened = Store.create(self._folder, self._memory)
        return self._opened

    def make_table(self, address: StateAddress, meta: TableMeta) -> HeapTable:
        if meta.key_type is None:
            return super().make_table(address, meta)
        part = TableStore(self._the_store, address, sum(isinstance(table, DiskTable) for table in self._tables.values()))
        match meta.kind:
            case tables.VALUE | tables.REDUCING | tables.AGGREGATING:
                return DiskValueTable(meta, part) if meta.grouped_by == "address" else DiskPaneTable(meta, part)
            case tables.LIST:
                return DiskListTable(meta, part) if meta.grouped_by == "address" else DiskGroupedLists(meta, part)
            case tables.MAP:
                return DiskMapTable(meta, part)
            case _:
                return DiskTimerTable(meta, part)

    def commit(self, position: Position) -> bytes:
        kept = super().commit(position)
        if self._opened is None:
            return _WITHOUT_STORE + kept
        rows: Rows = {}
        before: Rows = {}
        for address, table in self._tables.items():
            if isinstance(table, DiskTable):
                with naming(address):
                    table.take_rows(rows, before)
        self._opened.commit(position, rows, before)
        return _WITH_STORE + kept

    def close(self) -> None:
        super().close()
        if self._opened is not None:
            self._opened.close()

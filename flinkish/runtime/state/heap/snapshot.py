"""Snapshots of a heap: copies of its tables, or of what has changed in them since an earlier snapshot.

Values between epochs do not change, so only dicts and lists are copied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from flinkish.common.conversion import same
from flinkish.common.ids import CheckpointId
from flinkish.runtime.protocol import Barrier, StateFile
from flinkish.runtime.state.backend import SnapshotFiles
from flinkish.runtime.state.heap.changes import Changes, joined, size_of
from flinkish.runtime.state.heap.tables import HeapTable
from flinkish.runtime.state.rows import TableRows
from flinkish.runtime.state.tables import StateAddress, naming

if TYPE_CHECKING:
    from flinkish.runtime.state.restore import RestoredRows

#: Maximum number of files with changes behind a full one, and of their rows as a share of its rows: a restore reads all of them.
MOST_FILES = 50
MOST_CHANGES = 1.0
#: Number of checkpoints in a row that may fail until the changes before them are forgotten.
_REMEMBERED = 100

_Tables = Mapping[StateAddress, HeapTable]
_Held = Mapping[StateAddress, "RestoredRows"]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows for one file."""

    #: Functions that return the rows of tables.
    tables: Sequence[tuple[StateAddress, Callable[[], TableRows]]] = ()
    held: _Held = field(default_factory=dict)

    def write(self, files: SnapshotFiles, subtask: int) -> tuple[StateFile, ...]:
        if not self.tables and not self.held:
            return ()
        # Imported only when a checkpoint is taken, because it imports Arrow.
        from flinkish.runtime.state.snapshot import SnapshotWriter

        with SnapshotWriter(files, subtask) as writer:
            for address, rows in self.tables:
                with naming(address):
                    writer.write_table(address[0], address[2], rows())
            for address, restored in self.held.items():
                writer.write_restored(address[0], address[2], restored)
            return writer.finish()


@dataclass(frozen=True, slots=True)
class HeapSnapshot:
    """Implements Snapshot: one file with rows, behind those of an earlier snapshot."""

    rows: _Rows
    subtask: int
    earlier: tuple[StateFile, ...] = ()
    #: Operator state of an incremental checkpoint. It is written whole each time, so it is not in a file that later ones contain.
    operator: _Rows = _Rows()
    #: Where to record the files that later snapshots may contain.
    written: dict[CheckpointId, tuple[StateFile, ...]] = field(default_factory=dict)

    def upload(self, files: SnapshotFiles) -> tuple[StateFile, ...]:
        shared = self.earlier + self.rows.write(files, self.subtask)
        operator = self.operator.write(replace(files, name=f"{files.name}-operator"), self.subtask)
        self.written[files.barrier.checkpoint_id] = shared
        return shared + operator


def full_snapshot(tables: _Tables, held: _Held, subtask: int) -> HeapSnapshot:
    """Freeze tables and the rows that are held."""
    return HeapSnapshot(_Rows(_frozen(tables), held), subtask)


class IncrementalSnapshots:
    """The incremental snapshots of one subtask: what has changed since each, and the files that contain it.

    Each is based on one that belongs to a completed checkpoint, and has all changes since that. So it does not matter what
    becomes of the checkpoints between the two.
    """

    def __init__(self) -> None:
        #: The files with keyed state of each snapshot, from that of the last completed checkpoint on.
        self._written: dict[CheckpointId, tuple[StateFile, ...]] = {}
        #: For each of these snapshots and each table, what had changed since the snapshot before; None = not known.
        self._sealed: dict[CheckpointId, dict[StateAddress, Changes | None]] = {}
        #: Whether keys may be equal to keys with another encoding: then a row does not tell which earlier one it replaces.
        self._ambiguous = False

    def take(self, barrier: Barrier, tables: _Tables, held: _Held, subtask: int) -> HeapSnapshot:
        """Freeze the tables of the subtask after their changes have been taken, and the rows that are held."""
        operator = {address: table for address, table in tables.items() if address[1] == "operator"}
        keyed = {address: table for address, table in tables.items() if address not in operator}
        self._seal(barrier, keyed)
        earlier = () if barrier.base is None else self._written.get(barrier.base, ())
        changes = self._changes_since(barrier.base, keyed, earlier) if barrier.base is not None and earlier else None
        if changes is None:
            rows = _Rows(_frozen(keyed), {address: rows for address, rows in held.items() if address[1] != "operator"})
            self._ambiguous = not all(table.have_one_encoding(table.members_by_group()) for table in keyed.values())
            earlier = ()
        else:
            rows = _Rows([(address, keyed[address].frozen_changes(changed)) for address, changed in changes.items()])
        operator_rows = _Rows(_frozen(operator), {address: rows for address, rows in held.items() if address[1] == "operator"})
        return HeapSnapshot(rows, subtask, earlier, operator_rows, self._written)

    def _seal(self, barrier: Barrier, keyed: _Tables) -> None:
        """End the changes that this snapshot has; forget what is before the last completed checkpoint."""
        self._sealed[barrier.checkpoint_id] = {address: table.seal() for address, table in keyed.items()}
        oldest = list(self._sealed)[-_REMEMBERED:][0] if barrier.base is None else barrier.base
        for kept in (self._written, self._sealed):
            for checkpoint_id in [each for each in list(kept) if each < oldest]:
                del kept[checkpoint_id]

    def _changes_since(
        self, base: CheckpointId, keyed: _Tables, earlier: Sequence[StateFile]
    ) -> dict[StateAddress, Changes] | None:
        """Return what has changed since a snapshot; None if that is not known, or so much that a full snapshot is better."""
        if self._ambiguous:
            return None
        changes: dict[StateAddress, Changes] = {}
        for address, table in keyed.items():
            parts = [sealed.get(address, {}) for checkpoint_id, sealed in self._sealed.items() if checkpoint_id > base]
            known = [part for part in parts if part is not None]
            together = joined(known)
            if len(known) < len(parts) or not table.have_one_encoding(together):
                return None
            if together:
                changes[address] = together
        full, *others = [file.rows for file in earlier]
        changed = sum(others) + sum(map(size_of, changes.values()))
        return None if changed > MOST_CHANGES * full or len(others) == MOST_FILES else changes


def _frozen(tables: _Tables) -> list[tuple[StateAddress, Callable[[], TableRows]]]:
    frozen: list[tuple[StateAddress, Callable[[], TableRows]]] = []
    for address, table in tables.items():
        if not table.is_empty():
            with naming(address):
                frozen.append((address, partial(same, table.frozen())))
    return frozen

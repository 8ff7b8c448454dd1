"""Snapshots of a heap: copies of its tables. Values between epochs do not change, so only the dicts and lists are copied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkish.runtime.protocol import StateFile
from flinkish.runtime.state.backend import SnapshotFiles
from flinkish.runtime.state.rows import TableRows
from flinkish.runtime.state.tables import StateAddress, naming

if TYPE_CHECKING:
    from flinkish.runtime.state.restore import RestoredRows


@dataclass(frozen=True, slots=True)
class HeapSnapshot:
    """Implements Snapshot: one file with all rows."""

    tables: Sequence[tuple[StateAddress, TableRows]]
    held: Mapping[StateAddress, RestoredRows]
    subtask: int

    def upload(self, files: SnapshotFiles, known: Sequence[StateFile]) -> tuple[StateFile, ...]:
        if not self.tables and not self.held:
            return ()
        # Imported only when a checkpoint is taken, because it imports Arrow.
        from flinkish.runtime.state.snapshot import SnapshotWriter

        with SnapshotWriter(files, self.subtask) as writer:
            for address, rows in self.tables:
                with naming(address):
                    writer.write_table(address[0], address[2], rows)
            for address, restored in self.held.items():
                writer.write_restored(address[0], address[2], restored)
            return writer.finish()

"""The log of a state table: the files of each version, and the transaction that committed it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Protocol

from flinkish.checkpoint.delta_log import DeltaLog
from flinkish.checkpoint.memory_log import MemoryLog
from flinkish.common.files import memory
from flinkish.common.files.checkpoint_files import StoreReference


class TableLog(Protocol):
    """A handle on one version of a state table. Only `refresh` moves it to the newest version; its own commits do not.

    A commit fails if any other version has appeared since the last refresh, even one that shares no file with it.
    """

    @staticmethod
    def open(root: PurePath, version: int | None = None) -> TableLog | None:
        """Open the newest or the given version; None if there is no table. May raise any error if the table is damaged."""
        ...

    @staticmethod
    def create(root: PurePath, files: Mapping[str, tuple[int, int]], metadata: Mapping[str, str], *, time: int) -> None:
        """Create a table with these files (relative path to size and rows) in one commit; raises if it already exists."""
        ...

    @property
    def version(self) -> int:
        """The version that this handle reads."""
        ...

    @property
    def has_state_schema(self) -> bool:
        """Whether the table has the columns of a state table."""
        ...

    def refresh(self) -> None:
        """Move this handle to the newest version."""
        ...

    def transaction(self, application: str) -> int | None:
        """Return the version of an application's last transaction."""
        ...

    def files(self) -> dict[str, int]:
        """Return the files of this version: relative path to size."""
        ...

    def replace_files(
        self, files: Mapping[str, tuple[int, int]], application: str, transaction: int, metadata: Mapping[str, str], *, time: int
    ) -> None:
        """Commit a version that holds exactly these files (relative path to size and rows)."""
        ...

    def note_transaction(self, application: str, transaction: int, metadata: Mapping[str, str]) -> None:
        """Commit a version that only sets the application's transaction."""
        ...

    def write_checkpoint(self) -> None:
        """Write a summary of this version, so that earlier log entries are no longer needed."""
        ...


#: Logs that are not Delta's own, by the scheme of a StoreReference.
_LOGS: dict[str, type[TableLog]] = {memory.SCHEME: MemoryLog}


def log_at(root: PurePath) -> type[TableLog]:
    """Return the class of the log for a table at this root."""
    if isinstance(root, StoreReference):
        return _LOGS.get(root.scheme, DeltaLog)
    return DeltaLog

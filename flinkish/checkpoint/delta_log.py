"""The few calls to deltalake (delta-rs) that checkpoints need; no other module imports it for state tables.

It relies on these measured facts (deltalake 1.6.6): a commit takes 3-7 ms. With `max_commit_retries=0`, a commit fails if any
version has appeared since the handle was refreshed, even one that shares no file with it. A handle does not follow its own
commit. A repeated application transaction is NOT refused, so a committer must check it before, with the same handle.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path, PurePath
from typing import Self

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema
from deltalake.exceptions import TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction, Transaction, create_table_with_add_actions

from flinkish.checkpoint import paths
from flinkish.common.delta_calls import panics_as_errors
from flinkish.common.files.schemes import files_at
from flinkish.runtime.state.rows import state_schema

STATE_SCHEMA = state_schema()
_DELTA_SCHEMA = Schema.from_arrow(STATE_SCHEMA)
# Delta checkpoints drop tombstones after an hour; otherwise each would list every file that ever existed. JobTable cleans the log
# itself, by retained checkpoints instead of by age.
_TABLE_PROPERTIES = {"delta.deletedFileRetentionDuration": "interval 1 hours", "delta.enableExpiredLogCleanup": "false"}
_HOOKS = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)


class DeltaLog:
    """A handle on one version of a state table. Only `refresh` moves it to the newest version; its own commits do not.

    A commit fails if any other version has appeared since the last refresh, even one that shares no file with it.
    """

    def __init__(self, table: DeltaTable) -> None:
        self._table = table

    @classmethod
    @panics_as_errors()
    def open(cls, root: PurePath, version: int | None = None) -> Self | None:
        """Open the newest or the given version; None if there is no table.

        Raises deltalake's error if it is damaged, and CorruptCheckpointError if the log is a link or contains links.
        """
        if isinstance(root, Path):
            paths.check_log(root)
        try:
            return cls(DeltaTable(str(root), version=version, storage_options=dict(files_at(root).delta_options)))
        except TableNotFoundError:
            return None

    @staticmethod
    @panics_as_errors()
    def create(root: PurePath, files: Mapping[str, tuple[int, int]], metadata: Mapping[str, str], *, time: int) -> None:
        """Create a table with these files (relative path to size and rows) in one commit; raises if it already exists."""
        create_table_with_add_actions(
            str(root),
            _DELTA_SCHEMA,
            _add_actions(files, time),
            mode="error",
            name="flinkish state",
            configuration=_TABLE_PROPERTIES,
            storage_options=dict(files_at(root).delta_options),
            commit_properties=CommitProperties(custom_metadata=dict(metadata)),
            post_commithook_properties=_HOOKS,
        )

    @property
    @panics_as_errors()
    def version(self) -> int:
        """The version that this handle reads."""
        return int(self._table.version())

    @property
    @panics_as_errors()
    def has_state_schema(self) -> bool:
        """Whether the table has the columns of a state table."""
        fields = {field.name: str(field.type) for field in self._table.schema().fields}
        return fields == {field.name: str(field.type) for field in _DELTA_SCHEMA.fields}

    @panics_as_errors()
    def refresh(self) -> None:
        """Move this handle to the newest version."""
        self._table.update_incremental()

    @panics_as_errors()
    def transaction(self, application: str) -> int | None:
        """Return the version of an application's last transaction."""
        return self._table.transaction_version(application)

    @panics_as_errors()
    def files(self) -> dict[str, int]:
        """Return the files of this version: relative path to size."""
        actions = pa.table(self._table.get_add_actions(flatten=True))
        sizes = actions.column("size_bytes").to_pylist()
        return dict(zip(actions.column("path").to_pylist(), sizes, strict=True))

    def replace_files(
        self,
        files: Mapping[str, tuple[int, int]],
        application: str,
        transaction: int,
        metadata: Mapping[str, str],
        *,
        time: int,
    ) -> None:
        """Commit a version that holds exactly these files (relative path to size and rows)."""
        listed = self.files()
        if listed.keys().isdisjoint(files):
            self._commit([*_add_actions(files, time)], "overwrite", application, transaction, metadata)
            return
        # To overwrite would add and remove shared files in one commit, which Delta forbids: readers disagree about the result.
        removed = [RemoveAction(path, True, time, size, {}) for path, size in listed.items() if path not in files]
        added = _add_actions({path: file for path, file in files.items() if path not in listed}, time)
        self._commit([*added, *removed], "append", application, transaction, metadata)

    def note_transaction(self, application: str, transaction: int, metadata: Mapping[str, str]) -> None:
        """Commit a version that only sets the application's transaction."""
        self._commit([], "append", application, transaction, metadata)

    @panics_as_errors()
    def _commit(
        self, actions: list[AddAction | RemoveAction], mode: str, application: str, transaction: int, metadata: Mapping[str, str]
    ) -> None:
        self._table.create_write_transaction(
            actions,
            mode,
            _DELTA_SCHEMA,
            commit_properties=CommitProperties(
                custom_metadata=dict(metadata), max_commit_retries=0, app_transactions=[Transaction(application, transaction)]
            ),
            post_commithook_properties=_HOOKS,
        )

    @panics_as_errors()
    def write_checkpoint(self) -> None:
        """Write Delta's own summary of this version, so that earlier log entries are no longer needed."""
        self._table.create_checkpoint()


def _add_actions(files: Mapping[str, tuple[int, int]], time: int) -> list[AddAction]:
    return [
        AddAction(path, size, {}, time, True, json.dumps({"numRecords": rows})) for path, (size, rows) in sorted(files.items())
    ]

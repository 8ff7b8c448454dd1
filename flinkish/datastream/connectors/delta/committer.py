"""The driver side of DeltaSink: one Delta commit for each checkpoint, which is recognized if it is repeated."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

import msgspec
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction

from flinkish.common.delta_calls import one_line, panics_as_errors, sync_log
from flinkish.common.disk import make_folders, sync
from flinkish.common.errors import ForeignCheckpointError, SinkChangedError, SinkError, SourceError
from flinkish.common.files.store_settings import storage_options
from flinkish.datastream.connectors._commits import check_repeated, lost_commits, overtaken
from flinkish.datastream.connectors.delta.log import DeltaLog
from flinkish.datastream.connectors.delta.staging import (
    append,
    is_staged_path,
    merge,
    read_staged,
    staging_folder,
    writer_properties,
)
from flinkish.datastream.connectors.delta.table import DeltaWrites, Partition, add_columns, check_table, open_table, sink_error
from flinkish.program.sinks import CommitRequest, Committer, RestoredCheckpoint, checkpoint_name

_log = logging.getLogger("flinkish.connectors.delta")

#: How often to retry a commit after a conflict: another writer may commit between our read of the table and our commit.
_COMMIT_TRIES: Final = 20
#: In a folder, Delta's own cleanup is off: we remove expired log entries only after the summary that replaces them is synced to
#: disk. In an object store, what was written is durable, and the table's property decides.
_FOLDER_HOOKS: Final = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
_STORE_HOOKS: Final = PostCommitHookProperties(create_checkpoint=True)
#: Versions between two checkpoints of a log in an object store, as in Spark. With deltalake's 100, a commit would make up to 300
#: requests.
_SUMMARIZED_ENTRIES: Final = 10
_SUMMARY_INTERVAL: Final = "delta.checkpointInterval"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaFile:
    """A Parquet file in the table's folder."""

    #: Path relative to the table.
    path: str
    size: int
    rows: int
    partition: Partition
    #: Milliseconds since 1970-01-01 UTC.
    modification_time: int
    #: Delta's statistics, as JSON.
    stats: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaCommittable:
    """The files of one writer for one checkpoint, and their schema (Delta's JSON)."""

    #: Folder of the table that contains the files.
    table: str
    schema: str
    files: tuple[DeltaFile, ...]
    #: Whether the files are staged: their rows must still be merged into the table or appended to it.
    staged: bool = False
    #: Increases with each checkpoint of an attempt: staged rows of an aborted checkpoint come before the rows of the next one.
    order: int = 0


@dataclass(slots=True, kw_only=True)
class _CommitterState:
    """The part of a committer's state that the next attempt needs."""

    table: str
    #: The last transaction committed, and its application; None before the first one.
    last: tuple[str, int] | None = None
    #: Applications of earlier lineages of the job, whose transactions the next commit must advance; see `commit`.
    origins: tuple[str, ...] = ()
    #: Whether the first commit, which replaces all rows of the table, is still pending.
    overwrite: bool
    #: Number of commits since small files were merged.
    uncompacted: int = 0
    #: The version of the last commit, or an earlier one after all others of the job; -1 if it is not known.
    version: int = -1


class DeltaCommitter(Committer[DeltaCommittable]):
    """Makes one Delta commit of each checkpoint's files; with `overwrite` a job's first commit replaces all rows of the table."""

    def __init__(self, path: str, writes: DeltaWrites) -> None:
        self.path = path
        self._log = DeltaLog(path, who="DeltaSink")
        self._files = self._log.files
        self._hooks = _STORE_HOOKS if self._files.is_remote else _FOLDER_HOOKS
        self._writes = writes
        self._state = _CommitterState(table=path, overwrite=writes.overwrite)
        #: The folder of staged files, until the restored checkpoint is committed.
        self._staging: str | None = None
        #: Staged files of earlier attempts that the restored checkpoint does not name.
        self._leftovers: Sequence[str] = ()
        #: The transaction in the table after the last commit, by application; None or absent = none.
        self._stands: dict[str, int | None] = {}
        #: The version up to which no RESTORE has taken back what was committed.
        self._seen = -1
        #: Version up to which the log is synced to disk.
        self._synced = -1

    def snapshot_state(self) -> bytes:
        return msgspec.msgpack.encode(self._state)

    @panics_as_errors()
    def restore(self, checkpoint: RestoredCheckpoint) -> None:
        application = _application(checkpoint.lineage, checkpoint.sink_uid)
        state = self._state
        found = None if checkpoint.state is None else msgspec.msgpack.decode(checkpoint.state, type=_CommitterState)
        if found is not None:
            state.origins, state.uncompacted = found.origins, found.uncompacted
            if found.table == self.path:
                state.last, state.version, self._seen = found.last, found.version, found.version
        self._staging = staging_folder(checkpoint.job_lineage, checkpoint.sink_uid)
        if not checkpoint.own:
            state.origins = (*state.origins, application)
        # Rows committed before the checkpoint must remain.
        state.overwrite = state.overwrite and checkpoint.own and found is not None and found.overwrite
        table = open_table(self.path)
        job_application = _application(checkpoint.job_lineage, checkpoint.sink_uid)
        names = (application, job_application, *state.origins)
        stands = {name: None if table is None else table.transaction_version(name) for name in names}
        committed, ours = stands[application], stands[job_application]
        if committed is not None and committed > checkpoint.checkpoint_id and (checkpoint.own or ours is None):
            raise ForeignCheckpointError(
                f"DeltaSink: the table {self.path} is ahead of checkpoint {checkpoint.checkpoint_id}, which the job starts "
                f"from: it holds the rows of {checkpoint_name(committed)} already, so those in between would be written a "
                "second time",
                hint="start from the newest checkpoint, or write to another table. To go back on purpose, restore the table to "
                f"its last version up to checkpoint {checkpoint.checkpoint_id} (see flinkish.checkpoint-id in its history) and "
                "give the sink another uid, with execution.state-recovery.ignore-unclaimed-state.",
            )
        if state.last is not None:
            if committed is not None and committed > state.last[1]:
                state.version += 1  # at least: the checkpoint itself was committed after its state was taken
            self._check_kept(table, dict([state.last]))
        # The checkpoint itself may be committed or not, and so may others that were in progress when it began.
        self._stands = stands
        if table is not None:
            self._check_restores(table)

    def _check_kept(self, table: DeltaTable | None, stands: Mapping[str, int | None]) -> None:
        """Raise SinkChangedError unless the table contains the last commits, by application."""
        for name, last in stands.items():
            found = None if table is None else table.transaction_version(name)
            if last is not None and (found is None or found < last):
                raise lost_commits("DeltaSink", f"the table {self.path}", last=last, found=found)

    def _check_restores(self, table: DeltaTable) -> None:
        """Raise SinkChangedError if a RESTORE has taken back a commit of the job: it keeps the transactions of later versions."""
        version, floor = table.version(), self._seen
        while self._state.version >= 0 and version > floor:
            info = self._log.info(version)
            application = _application(info.get("flinkish.lineage", ""), info.get("flinkish.sink-uid", ""))
            if info.get("flinkish.checkpoint-id") == str(self._stands.get(application)):
                break  # our last commit
            if info.get("operation") != "RESTORE":
                version -= 1
                continue
            named = str((info.get("operationParameters") or {}).get("version"))
            restored = int(named) if named.isdigit() else -1
            if restored < self._state.version:
                raise SinkChangedError(
                    f"DeltaSink: version {version} of the table {self.path} is a RESTORE of "
                    f"{'an earlier time' if restored < 0 else f'version {restored}'}, but the job had committed rows up to "
                    f"version {self._state.version} or later: the rows of the versions in between are lost, and would not be "
                    "written again",
                    hint=f"RESTORE version {version - 1}, which contains them, and start the job again. To go back on purpose, "
                    "start the job from a checkpoint that is as old, and give the sink another uid, with "
                    "execution.state-recovery.ignore-unclaimed-state.",
                )
            # The versions between that one and the RESTORE do not count.
            version, floor = restored, self._state.version
        self._seen = table.version()

    def holds(self, lineage: str, sink_uid: str, checkpoint_id: int) -> bool:
        """Return whether the table contains the rows of a sink of a lineage up to a checkpoint."""
        table = open_table(self.path)
        found = None if table is None else table.transaction_version(_application(lineage, sink_uid))
        return found is not None and found >= checkpoint_id

    @panics_as_errors()
    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[DeltaCommittable]]) -> None:
        if requests:
            self._commit(checkpoint_id, requests)
        if self._staging is not None:
            # All staged files that the checkpoint names are committed now, and this attempt's writers have not begun.
            self._leftovers = self._files.files_below(self._staging)
            self._staging = None

    def _commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[DeltaCommittable]]) -> None:
        requests = sorted(requests, key=lambda request: request.committable.order)
        first = requests[0]
        schema, staged = first.committable.schema, first.committable.staged
        if len({request.committable.staged for request in requests}) > 1:
            raise SinkChangedError(
                f"DeltaSink cannot commit {checkpoint_name(checkpoint_id)} to {self.path}: only some of the rows are staged, as "
                "features of the table were changed while the job ran",
                hint="start the job from an older checkpoint.",
            )
        files = [file for request in requests for file in request.committable.files]
        application = _application(first.lineage, first.sink_uid)
        # A job started from another job's savepoint also advances that job's transaction, so a second start from the savepoint
        # finds a table that is ahead of it, and is refused.
        applications = (application, *(() if application in self._state.origins else self._state.origins))
        properties = _commit_properties(checkpoint_id, first, applications, files)
        written = self._state.version
        for _ in range(_COMMIT_TRIES):
            table = self._current_table(schema, applications)
            committed = table.transaction_version(application)
            if self._is_committed(table, checkpoint_id, applications, files):
                break
            # The transaction is part of the commit, so a job replaces the rows only once, however often it restarts.
            replace = self._state.overwrite and committed is None and bool(table.file_uris())
            if not files and not replace:
                self._make_durable(table)
                return
            with _changed_table():
                check_table(table, schema, self._writes, self.path, staged=staged)
            self._check_files(requests)
            # Commits of others may come in between; a RESTORE in between is a conflict.
            written = table.version() + 1
            try:
                self._write(table, schema, files, properties, staged=staged, replace=replace)
                break
            except CommitFailedError:
                continue  # another commit came first: read again, as it may have been this commit
            except (DeltaError, OSError) as error:
                raise sink_error(f"DeltaSink cannot commit checkpoint {checkpoint_id} to {self.path}", error) from None
        else:
            raise SinkError(
                f"DeltaSink cannot commit checkpoint {checkpoint_id} to {self.path}: {_COMMIT_TRIES} tries met other commits"
            )
        self._make_durable(table, staged=staged)
        # A savepoint may name the leftovers. From this commit on, the table is ahead of it, so nothing can start from it.
        for path in (*(file.path for file in files if staged), *self._leftovers):
            self._files.remove(path)
        self._leftovers = ()
        self._stands |= dict.fromkeys(applications, max(committed or 0, checkpoint_id))
        self._state.last = (application, checkpoint_id)
        self._state.version, self._seen = written, max(written, self._seen)
        self._state.overwrite = False
        self._compact(table)
        if application not in self._state.origins:
            self._state.origins = ()

    def _write(
        self,
        table: DeltaTable,
        schema: str,
        files: Sequence[DeltaFile],
        properties: CommitProperties,
        *,
        staged: bool,
        replace: bool,
    ) -> None:
        """Commit files, or the rows in staged ones; with `replace` they replace all rows of the table."""
        if staged and files and self._write_staged(table, files, properties, replace=replace):
            return
        table.create_write_transaction(
            [] if staged else [self._add_action(file) for file in files],
            "overwrite" if replace else "append",
            table.schema() if staged or self._writes.add_columns else Schema.from_json(schema),
            list(self._writes.partition_by),
            commit_properties=properties,
            post_commithook_properties=self._hooks,
        )

    def _current_table(self, schema: str, applications: Sequence[str]) -> DeltaTable:
        """Open the table as it is now, or create it, and add columns; raise SinkChangedError if commits of the job are gone."""
        table = open_table(self.path)
        self._check_kept(table, {name: self._stands.get(name) for name in applications})
        if table is not None:
            self._check_restores(table)
        else:
            table = self._create(schema)
        if self._writes.add_columns:
            with _changed_table():
                added = add_columns(table, schema, self.path)
            if added:
                return self._current_table(schema, applications)
        return table

    def _is_committed(
        self, table: DeltaTable, checkpoint_id: int, applications: Sequence[str], files: Sequence[DeltaFile]
    ) -> bool:
        """Return whether the table has the rows of the checkpoint; raise an error if another driver or job has interfered.

        The transactions are read by the handle that commits, so that a later commit by another driver is a conflict.
        """
        application, *origins = applications
        committed = table.transaction_version(application)
        if committed is not None and (committed >= checkpoint_id or committed != self._stands.get(application)):
            found = table.transaction_version(f"{application}/files")
            same, advanced = found is None or found == _digest(files), application in self._state.origins
            check_repeated("DeltaSink", f"the table {self.path}", checkpoint_id, committed, same=same, advanced=advanced)
            return True
        for name in origins:
            advanced_to = table.transaction_version(name)
            if advanced_to is not None and advanced_to != self._stands.get(name):
                raise overtaken("DeltaSink", f"the table {self.path}", checkpoint_id, advanced_to)
        return False

    def _write_staged(
        self, table: DeltaTable, files: Sequence[DeltaFile], properties: CommitProperties, *, replace: bool
    ) -> bool:
        """Let deltalake write the rows; return whether it made a commit, which a MERGE that changes nothing does not."""
        rows = read_staged(self._files, [file.path for file in files], self._writes.keys)
        how = {
            "writer_properties": writer_properties(self._writes.compression),
            "commit_properties": properties,
            "post_commithook_properties": self._hooks,
        }
        if self._writes.keys:
            merge(table, rows, self._writes.keys, **how)
        else:
            append(table, rows, replace=replace, **how)
        table.update_incremental()
        assert properties.app_transactions, "see _commit"
        own = properties.app_transactions[0]
        return table.transaction_version(own.app_id) == own.version

    def _compact(self, table: DeltaTable) -> None:
        """Merge small files if enough commits were made. What was committed does not depend on it, so errors are logged."""
        if self._writes.compaction is None:
            return
        self._state.uncompacted += 1
        every, size = self._writes.compaction
        if self._state.uncompacted < every:
            return
        try:
            with panics_as_errors():
                table.update_incremental()
                table.optimize.compact(
                    target_size=size,
                    writer_properties=writer_properties(self._writes.compression),
                    post_commithook_properties=self._hooks,
                )
        except CommitFailedError as error:
            # Another writer has interfered: the next commit tries again.
            _log.info("The files of %s were not merged after this commit: %s", self.path, one_line(error))
            return
        except (DeltaError, OSError) as error:
            # Such as partitions of another writer for whose names deltalake has no folder.
            _log.warning(
                "DeltaSink cannot merge the files of %s; it tries again after %d commits: %s", self.path, every, one_line(error)
            )
            self._state.uncompacted = 0
            return
        self._state.uncompacted = 0
        self._make_durable(table, staged=True)

    def _create(self, schema: str) -> DeltaTable:
        try:
            if not self._files.is_remote:
                make_folders(self.path)
            # 'ignore', as another job may create it at the same time.
            DeltaTable.create(
                self.path,
                Schema.from_json(schema),
                mode="ignore",
                partition_by=list(self._writes.partition_by) or None,
                configuration=dict(self._writes.table_properties) or None,
                storage_options=storage_options(self.path) or None,
            )
        except (DeltaError, OSError) as error:
            if self._files.is_remote and (table := open_table(self.path)) is not None:
                return table  # created by another job, or by a request of ours whose answer was lost
            raise sink_error(f"DeltaSink cannot create the table {self.path}", error) from None
        table = open_table(self.path)
        assert table is not None
        return table

    def _check_files(self, requests: Sequence[CommitRequest[DeltaCommittable]]) -> None:
        for request in requests:
            for file in request.committable.files:
                path = self._files.path(file.path)
                ours = is_staged_path(file.path) if request.committable.staged else not file.path.startswith("_")
                if not ours or self._files.leads_outside(file.path):
                    raise ForeignCheckpointError(
                        f"DeltaSink into {self.path}: the checkpoint names {file.path[:500]!r}, which is no data file of the "
                        "table",
                        hint="the checkpoint, or the folder of the table, was tampered with.",
                    )
                try:
                    size = self._files.size(file.path)
                except FileNotFoundError as error:
                    if request.committable.table != self.path:
                        raise SinkChangedError(
                            f"DeltaSink into {self.path}: the checkpoint holds {request.committable.table}/{file.path}, "
                            "which was not committed to that table yet",
                            hint="start once with the table it was written for, or from a savepoint that stopped its job.",
                        ) from error
                    raise SinkChangedError(
                        f"DeltaSink: {path} is gone before it was committed",
                        hint="VACUUM removes it if its retention is shorter than the time between two checkpoints.",
                    ) from error
                except OSError as error:
                    raise SinkError(f"DeltaSink cannot read {path}: {error.strerror or error}") from error
                if size != file.size:
                    raise SinkChangedError(f"DeltaSink: {path} has {size} bytes; {file.size} were written")

    def _add_action(self, file: DeltaFile) -> AddAction:
        values = dict(zip(self._writes.partition_by, file.partition, strict=True))
        return AddAction(file.path, file.size, values, file.modification_time, True, file.stats)

    def _sync_written(self, table: DeltaTable) -> None:
        """Sync the files of the versions that this commit made, as deltalake does not sync those that it writes."""
        first = table.version() if self._synced < 0 else self._synced + 1
        for version in range(first, table.version() + 1):
            commit = self._log.commit(version)
            folders = set()
            for file in () if commit is None else (*commit.added, *commit.changes):
                with suppress(FileNotFoundError):  # removed by a later version and VACUUM
                    sync(os.path.join(self.path, file.path))
                    folders.add(os.path.dirname(os.path.join(self.path, file.path)))
            for folder in folders:
                sync(folder)

    def _summarize(self, table: DeltaTable) -> None:
        """Write a checkpoint of the log in an object store if the last one is old: each commit reads all later entries."""
        if _SUMMARY_INTERVAL in table.metadata().configuration:
            return  # deltalake does it
        try:
            table.update_incremental()
            if table.version() - self._log.summarized() >= _SUMMARIZED_ENTRIES:
                table.create_checkpoint()
        except (DeltaError, OSError, SourceError) as error:
            _log.info("The log of %s has no new checkpoint after this commit: %s", self.path, one_line(error))

    def _make_durable(self, table: DeltaTable, *, staged: bool = False) -> None:
        """Sync the log before the next checkpoint drops these requests; a commit made earlier, too, as it may not be synced."""
        if self._files.is_remote:
            self._summarize(table)
            return
        try:
            if staged:
                self._sync_written(table)
            newest, summarized = sync_log(self.path, self._synced)
            if self._synced < 0:
                sync(self.path)
        except OSError as error:
            raise SinkError(
                f"DeltaSink: it is not known whether the disk keeps the commit to {self.path}: {error.strerror or error}"
            ) from error
        cleans = table.metadata().configuration.get("delta.enableExpiredLogCleanup", "true").lower() != "false"
        if summarized and self._synced >= 0 and cleans:
            DeltaTable(self.path).cleanup_metadata()
        self._synced = newest


@contextmanager
def _changed_table() -> Iterator[None]:
    """End the job if its rows do not fit the table: they fitted when they were written, so somebody has changed it since."""
    try:
        yield
    except SinkError as error:
        raise SinkChangedError(str(error)) from error


def _application(lineage: str, sink_uid: str) -> str:
    """Return the sink's application id in Delta. It contains the lineage, within which checkpoint ids only increase."""
    return f"flinkish/{lineage}/{sink_uid}"


def _commit_properties(
    checkpoint_id: int, request: CommitRequest[DeltaCommittable], applications: Sequence[str], files: Sequence[DeltaFile]
) -> CommitProperties:
    """Return what a commit says in addition to its files: of which job it is, and the transactions by which it is recognized."""
    return CommitProperties(
        custom_metadata={
            "flinkish.job-id": request.job_id,
            "flinkish.lineage": request.lineage,
            "flinkish.sink-uid": request.sink_uid,
            "flinkish.checkpoint-id": str(checkpoint_id),
        },
        app_transactions=[
            *(Transaction(name, checkpoint_id) for name in applications),
            Transaction(f"{applications[0]}/files", _digest(files)),
        ],
    )


def _digest(files: Sequence[DeltaFile]) -> int:
    """Return a hash of files, whose names are random, for use as the version of a transaction."""
    return int.from_bytes(hashlib.sha256("\n".join(sorted(file.path for file in files)).encode()).digest()[:8]) >> 1

"""The driver side of DeltaSource: follows the log, version by version, and assigns the files to readers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from flinkish.common.errors import ForeignCheckpointError, SourceChangedError, SourceError
from flinkish.datastream.connectors.delta.columns import changed_columns, unreadable_columns
from flinkish.datastream.connectors.delta.log import Commit, DataFile, DeltaLog, Metadata
from flinkish.datastream.connectors.delta.reader import ADDED, DELETED, INSERTED, TAKEN_BACK, DeltaSplit, ScanSettings
from flinkish.datastream.connectors.delta.vectors import DeletionVector
from flinkish.program.sources import SplitEnumerator, SplitEnumeratorContext

#: Bytes of a split: larger files are cut, so that several readers read them at the same time.
_SPLIT_SIZE: Final = 64 * 1024 * 1024
#: Bytes of small files to assign at once, because a reader gets new splits only once in an epoch.
_ASSIGNMENT_SIZE: Final = 32 * 1024 * 1024
#: Limits of planning in advance: the number of versions, and (approximately) of their splits.
_VERSIONS_AHEAD: Final = 100
_SPLITS_AHEAD: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaEnumeratorState:
    """The position of the enumerator: the splits assigned so far."""

    #: Id of the table in its log.
    table_id: str
    #: The version whose splits are being assigned, or the next one to appear.
    version: int
    #: Whether to read the whole table as of the version; else only what the version changed.
    snapshot: bool
    #: The number of assigned splits of the version, and the id of the last one.
    splits_done: int
    last_split: str = ""
    #: The last version to read; None = no limit.
    end: int | None
    #: Splits that count as assigned but have no reader now.
    returned: tuple[DeltaSplit, ...] = ()


@dataclass(slots=True)
class _Planned:
    """A version and its splits that are not assigned yet."""

    version: int
    snapshot: bool
    splits: deque[DeltaSplit]


class DeltaEnumerator(SplitEnumerator[DeltaSplit, DeltaEnumeratorState]):
    """Assigns the files of a snapshot to all readers, then those of each later version."""

    def __init__(
        self, context: SplitEnumeratorContext[DeltaSplit], settings: ScanSettings, restored: DeltaEnumeratorState | None
    ) -> None:
        self._context = context
        self._settings = settings
        self._options = settings.options
        self._log = DeltaLog(settings.options.path)
        self._returned: deque[DeltaSplit] = deque()
        self._queue: deque[_Planned] = deque()
        self._waiting: dict[int, None] = {}
        self._looking = False
        #: Whether the last search stopped at a limit before the end of the log.
        self._behind = False
        self._state = self._fresh() if restored is None else self._checked(restored)
        #: The next version to plan.
        self._next = self._state.version

    def _fresh(self) -> DeltaEnumeratorState:
        settings, newest = self._settings, self._log.newest()
        if settings.snapshot_version is not None:
            version = newest if settings.snapshot_version < 0 else settings.snapshot_version
            end = self._end_or(version)
        else:
            assert settings.first_version is not None
            version = newest + 1 if settings.first_version < 0 else settings.first_version
            end = self._end_or(newest)
        snapshot = settings.snapshot_version is not None
        return DeltaEnumeratorState(table_id=settings.table_id, version=version, snapshot=snapshot, splits_done=0, end=end)

    def _checked(self, restored: DeltaEnumeratorState) -> DeltaEnumeratorState:
        table, newest = self._log.table, self._log.newest()
        if restored.table_id != self._settings.table_id or newest < restored.version - 1:
            differs = f"it has the id {self._settings.table_id}, not {restored.table_id}"
            if restored.table_id == self._settings.table_id:
                differs = f"it ends with version {newest}, and version {restored.version - 1} was read already"
            raise ForeignCheckpointError(
                f"DeltaSource: the checkpoint was made with another table than the one that is at {table} now: {differs}",
                hint="bring the table back; or give the source another uid, so that it starts from the beginning.",
            )
        self._returned.extend(restored.returned)
        # The source may have had another limit before the checkpoint.
        return replace(restored, end=self._end_or(newest if restored.end is None else restored.end))

    def _end_or(self, default: int) -> int | None:
        """Return the last version to read; None = no limit."""
        if not self._options.bounded:
            return None
        return default if self._options.ending_version is None else self._options.ending_version

    def start(self) -> None:
        if self._state.snapshot or self._options.bounded:
            self._take(self._look())
        if not self._options.bounded:
            self._context.call_async(self._look, self._looked, period=self._options.interval)

    def _look(self) -> list[_Planned]:
        """Return the next versions of the log. Runs in a background thread, so it changes nothing."""
        if len(self._queue) >= _VERSIONS_AHEAD:
            return []
        planned: list[_Planned] = []
        state, version, splits = self._state, self._next, 0
        snapshot = state.snapshot and version == state.version
        while len(planned) < _VERSIONS_AHEAD and splits < _SPLITS_AHEAD and (state.end is None or version <= state.end):
            if snapshot:
                whole = self._snapshot_splits(version)
            else:
                commit = self._commit(version)
                if commit is None:
                    break
                whole = self._changed_splits(commit)
            found = _Planned(version, snapshot, deque(part for split in whole for part in self._cut(split)))
            planned.append(found)
            splits += len(found.splits)
            version, snapshot = version + 1, False
        return planned

    def _commit(self, version: int) -> Commit | None:
        commit = self._log.commit(version)
        if commit is not None:
            return commit
        newest = self._log.newest()
        if newest < version - 1:
            raise SourceChangedError(
                f"DeltaSource: the table {self._log.table} ends with version {newest} now, and version {version - 1} was read "
                "already",
                hint="was it removed and created again, or restored from a backup? Start the job without a checkpoint.",
            )
        if newest < version and self._options.bounded:
            raise SourceError(f"DeltaSource: {self._log.table} has no version {version}; the newest is {newest}")
        if newest <= version:
            return None
        commit = self._log.commit(version)  # it may have appeared since the first try
        if commit is None:
            raise SourceChangedError(
                f"DeltaSource: the log of {self._log.table} does not hold version {version} any more; the newest is {newest}",
                hint="keep the log for longer (delta.logRetentionDuration), and start the job without a checkpoint, from the "
                "table as it is now.",
            )
        return commit

    def _looked(self, planned: list[_Planned] | None, error: BaseException | None) -> None:
        self._looking = False
        if error is not None:
            raise error
        self._behind = bool(planned) and (len(planned or ()) >= _VERSIONS_AHEAD or _splits_of(planned or ()) >= _SPLITS_AHEAD)
        # A slow search may have begun before the result of the search before it was processed.
        self._take([found for found in planned or () if found.version >= self._next])

    def _take(self, planned: list[_Planned]) -> None:
        for found in planned:
            if found.version == self._state.version and found.snapshot == self._state.snapshot and not self._queue:
                self._skip(found)
            self._queue.append(found)
            self._next = found.version + 1
        self._serve()

    def _skip(self, planned: _Planned) -> None:
        """Skip the splits of a version that were assigned before the checkpoint."""
        state, last = self._state, ""
        for _ in range(state.splits_done):
            last = planned.splits.popleft().split_id if planned.splits else ""
        if last != state.last_split:
            raise ForeignCheckpointError(
                f"DeltaSource: the splits of version {state.version} of {self._log.table} are not those that the checkpoint "
                f"knows: number {state.splits_done} was {state.last_split!r}, and is {last!r}",
                hint="give the source its former partitions and options; or another uid, so that it starts from the beginning.",
            )

    def _snapshot_splits(self, version: int) -> list[DeltaSplit]:
        metadata, files = self._log.snapshot(version)
        self._check_schema(metadata, version, snapshot=True)
        return [self._split(file, version, INSERTED, snapshot=True) for file in files if self._is_wanted(file)]

    def _changed_splits(self, commit: Commit) -> list[DeltaSplit]:
        options, version = self._options, commit.version
        if commit.metadata is not None:
            self._check_schema(commit.metadata, version, snapshot=False)
        added = [file for file in commit.added if file.data_change and self._is_wanted(file)]
        removed = [file for file in commit.removed if file.data_change and self._is_wanted(file)]
        if options.change_feed:
            # First all that removes rows, so that the changes of a key are in order, even if they are in different files.
            changes = [file for file in commit.changes if self._is_wanted(file)]
            if commit.changes:
                return [self._split(file, version, kind) for kind in (TAKEN_BACK, ADDED) for file in changes]
            return self._difference(version, removed, added, DELETED) + self._difference(version, added, removed, INSERTED)
        if removed and options.skip_change_commits:
            return []
        # First the rows that are no longer deleted.
        splits = sorted(self._difference(version, added, removed, INSERTED), key=lambda split: split.only is None)
        rewritten = bool(splits) and splits[-1].only is None
        if removed and not options.ignore_changes and (rewritten or not options.ignore_deletes):
            what = "changed or deleted" if rewritten else "deleted"
            instead = "ignore deletions with ignore_deletes()"
            if rewritten:
                instead = "read rewritten files as a whole with ignore_changes()"
            raise SourceChangedError(
                f"DeltaSource: version {version} of {self._log.table} ({commit.operation}) {what} rows that were read already",
                hint="read the changes with read_change_feed(), leave such versions out with skip_change_commits(), or "
                f"{instead}.",
            )
        return splits

    def _difference(self, version: int, files: list[DataFile], others: list[DataFile], kind: str) -> list[DeltaSplit]:
        """Return the splits with the rows of files that `others` do not contain.

        Of a file that is among the others with another deletion vector, these are the rows which that vector deletes.
        """
        vectors = {file.path: file.deleted for file in others}
        return [
            self._split(file, version, kind, only=vectors.get(file.path))
            for file in files
            if file.path not in vectors or vectors[file.path] is not None
        ]

    def _is_wanted(self, file: DataFile) -> bool:
        wanted = self._settings.wanted
        return wanted is None or file.partition is None or wanted(file.partition)

    def _split(
        self,
        file: DataFile,
        version: int,
        kind: str,
        *,
        snapshot: bool = False,
        only: DeletionVector | None = None,
    ) -> DeltaSplit:
        if file.partition is None:
            raise SourceError(
                f"DeltaSource: version {version} of {self._log.table} removed {file.path}, whose partition is not in the log",
                hint="rows of such a version cannot be read as changes; start from a later one.",
            )
        return DeltaSplit(
            split_id=f"{version}{'' if snapshot else '+'}/{kind}/{file.path}",
            version=version, snapshot=snapshot, path=file.path, size=file.size, partition=file.partition, kind=kind,
            deleted=file.deleted, only=only, rows=file.rows if only is None else only.cardinality,
        )  # fmt: skip

    def _cut(self, split: DeltaSplit) -> list[DeltaSplit]:
        """Cut the split of a large file into several, unless the order of the rows must be kept."""
        if split.size is None or split.size <= _SPLIT_SIZE or self._is_in_order(split.snapshot):
            return [split]
        starts = range(0, split.size, _SPLIT_SIZE)
        rows = None if split.rows is None else split.rows // len(starts)
        return [
            replace(
                split,
                split_id=f"{split.split_id}@{start}",
                start=start,
                end=start + _SPLIT_SIZE if start + _SPLIT_SIZE < split.size else None,
                rows=rows,
            )
            for start in starts
        ]

    def _check_schema(self, metadata: Metadata, version: int, *, snapshot: bool) -> None:
        """Raise SourceChangedError if a version has other columns than those that the source reads."""
        settings, options, table = self._settings, self._options, self._log.table
        if metadata.id != settings.table_id:
            raise SourceChangedError(
                f"DeltaSource: version {version} of {table} belongs to another table (id {metadata.id}, not {settings.table_id})",
                hint="the table was replaced; start the job without a checkpoint.",
            )
        if options.change_feed and not metadata.has_change_feed and not snapshot:
            raise no_change_feed(table, version)
        if version > settings.schema_version:
            everything = options.columns is None and options.row_type is None
            changes = changed_columns(settings.columns, metadata, all_columns=everything)
            if changes:
                raise SourceChangedError(
                    f"DeltaSource: the schema of {table} changed with version {version}: {'; '.join(changes)}",
                    hint="start the job again: it continues from its last checkpoint with the schema that the table has then. "
                    "With column_names, changes of other columns do not matter.",
                )
        else:
            problems = unreadable_columns(settings.columns, metadata)
            if problems:
                raise SourceChangedError(
                    f"DeltaSource: the schema of {table} at version {version} does not fit: {'; '.join(problems)}",
                    hint="start from a later version, or leave these columns out with column_names(...).",
                )

    def _is_in_order(self, snapshot: bool) -> bool:
        return (self._options.in_order or self._options.change_feed) and not snapshot

    def handle_split_request(self, subtask: int) -> None:
        self._waiting[subtask] = None
        self._serve()

    def add_splits_back(self, splits: Sequence[DeltaSplit], subtask: int) -> None:
        self._returned.extendleft(reversed(splits))
        self._serve()

    def _serve(self) -> None:
        for subtask in list(self._waiting):
            if self._assign(subtask):
                self._waiting.pop(subtask, None)
        self._advance()
        state = self._state
        over = state.end is not None and state.version > state.end
        if over and not self._returned:
            # A reader that learns this together with its last split ends in the epoch in which it finishes the split.
            for reader in range(self._context.parallelism):
                self._context.signal_no_more_splits(reader)
            self._waiting.clear()
        elif self._is_in_order(state.snapshot) and not any(split.snapshot for split in self._returned):
            # From here on one reader reads everything, in the order of the versions.
            for reader in list(self._waiting):
                if reader != 0:
                    self._context.signal_no_more_splits(reader)
                    del self._waiting[reader]
        if not self._queue and self._waiting and not over:
            if self._options.bounded:
                self._take(self._look())
            elif self._behind and not self._looking:
                self._looking = True
                self._context.call_async(self._look, self._looked)

    def _assign(self, subtask: int) -> bool:
        """Assign some splits to a reader; returns whether there were any for it."""
        # If the order must be kept, only splits of the first planned version may be shared.
        queue = list(self._queue)[:1] if self._is_in_order(False) else self._queue
        share, assigned, size = -(-(len(self._returned) + _splits_of(queue)) // self._context.parallelism), 0, 0
        if queue and self._is_in_order(queue[0].snapshot):
            share = _SPLITS_AHEAD
        while assigned < share and size < _ASSIGNMENT_SIZE:
            split = self._take_one(subtask)
            if split is None:
                break
            self._context.assign_split(split, subtask)
            assigned += 1
            size += (split.size or 0) - split.start if split.end is None else split.end - split.start
        return assigned > 0

    def _reads_alone(self, subtask: int) -> bool:
        """Return whether a reader is the one that reads in order, and no other reader still reads the snapshot."""
        return subtask == 0 and not any(self._context.is_reading(reader) for reader in range(1, self._context.parallelism))

    def _take_one(self, subtask: int) -> DeltaSplit | None:
        """Return the next split for a reader; None if there is none for it now."""
        for index, split in enumerate(self._returned):
            if not self._is_in_order(split.snapshot):
                del self._returned[index]
                return split
        if self._returned:
            return self._returned.popleft() if self._reads_alone(subtask) else None
        self._advance()
        if not self._queue:
            return None
        planned = self._queue[0]
        if self._is_in_order(planned.snapshot) and not self._reads_alone(subtask):
            return None
        split = planned.splits.popleft()
        self._move(planned.version, planned.snapshot, self._state.splits_done + 1, split.split_id)
        return split

    def _advance(self) -> None:
        """Move the position past versions whose splits are all assigned."""
        while self._queue and not self._queue[0].splits:
            self._move(self._queue.popleft().version + 1, False, 0)

    def _move(self, version: int, snapshot: bool, splits_done: int, last_split: str = "") -> None:
        self._state = replace(self._state, version=version, snapshot=snapshot, splits_done=splits_done, last_split=last_split)

    def snapshot_state(self, checkpoint_id: int) -> DeltaEnumeratorState:
        return replace(self._state, returned=tuple(self._returned))


def no_change_feed(table: str, version: int) -> SourceChangedError:
    """Return the error for a version whose changes are not in a change data feed."""
    return SourceChangedError(
        f"DeltaSource: version {version} of {table} has no change data feed (delta.enableChangeDataFeed)",
        hint="ALTER TABLE ... SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true'), and start from a later version.",
    )


def _splits_of(planned: Iterable[_Planned]) -> int:
    return sum(len(found.splits) for found in planned)

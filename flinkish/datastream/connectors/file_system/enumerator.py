"""The enumerator of files, which finds them, cuts them into splits and assigns the splits."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from flinkish.common.arguments import int_of
from flinkish.common.errors import SourceError
from flinkish.common.safe_files import leads_outside
from flinkish.datastream.connectors.file_system.file_format import reading
from flinkish.datastream.connectors.file_system.paths import DELTA_LOG, delta_table_around, is_object, objects_below
from flinkish.datastream.connectors.file_system.splits import FileEnumeratorState, FileSourceSplit
from flinkish.program.sources import SplitEnumerator, SplitEnumeratorContext

#: Size in bytes of the regions into which splittable files are cut.
DEFAULT_BLOCK_SIZE: Final = 64 * 1024 * 1024
#: Small files are assigned together up to this size in bytes, as a reader gets new splits only once per epoch.
_ASSIGNMENT_SIZE: Final = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class FileEnumeratorProvider:
    """The choice whether files are cut into regions, which several readers can read at the same time.

    Files and folders whose names begin with '.' or '_' are hidden. Compressed files are never cut.
    """

    #: Size of a region in bytes; None = each file is one split.
    block_size: int | None = None

    @staticmethod
    def default_splittable_file_enumerator(block_size: int = DEFAULT_BLOCK_SIZE) -> FileEnumeratorProvider:
        """Cut files into regions of about `block_size` bytes if their format allows it.

        Raises InvalidArgumentError unless it is an int of at least 1.
        """
        return FileEnumeratorProvider(int_of("block_size", block_size, minimum=1))

    @staticmethod
    def default_non_splittable_file_enumerator() -> FileEnumeratorProvider:
        """Read each file with one reader, in its order."""
        return FileEnumeratorProvider()


@dataclass(frozen=True, slots=True)
class FileSplitAssignerProvider:
    """The assignment of splits to readers: each request gets the next split, as all readers can access all files."""

    @staticmethod
    def locality_aware_split_assigner() -> FileSplitAssignerProvider:
        """Accepted as in Flink; without effect, as no file is local to a reader."""
        return FileSplitAssignerProvider()


def visible_files(path: str) -> Iterator[str]:
    """Yield the file on disk itself, or all files below a folder that are not hidden, in the order of their paths.

    Raises SourceError if the path does not exist or cannot be read.
    """
    with reading(path):
        try:
            if not os.path.isdir(path):
                os.stat(path)
                yield path
                return
            with os.scandir(path) as found:
                entries = list(found)
        except FileNotFoundError as error:
            raise _missing_path(path) from error
    if any(entry.name == DELTA_LOG and _is_folder(entry) for entry in entries):
        raise _delta_table_is_no_folder_of_files(path, path)
    for child in sorted((entry for entry in entries if not entry.name.startswith((".", "_"))), key=lambda e: e.name):
        if _is_folder(child):
            try:
                yield from visible_files(child.path)
            except SourceError as error:
                if not isinstance(error.__cause__, FileNotFoundError):  # otherwise it was removed in the meantime
                    raise
        else:
            yield child.path


def visible_objects(path: str, *, or_none: bool = False) -> dict[str, int]:
    """Return the same for a path in an object store, with sizes in bytes; with `or_none` there need not be any object."""
    with reading(path):
        try:
            found = objects_below(path)
        except FileNotFoundError as error:
            if or_none:
                return {}
            raise SourceError(f"FileSource: no object is at {path} or below it", hint="are bucket and path right?") from error
    visible = {}
    for each, size in found.items():
        names = each[len(path) + 1 :].split("/")
        hidden = next((number for number, name in enumerate(names) if name.startswith((".", "_"))), None)
        if hidden is None or each == path:
            visible[each] = size
        elif names[hidden] == DELTA_LOG and len(names) > hidden + 1:
            table = "/".join([path, *names[:hidden]])
            raise _delta_table_is_no_folder_of_files(table, table)
    return visible


def would_find(root: str, path: str, *, follow_links: bool) -> bool:
    """Return whether `visible_files(root)` or `visible_objects(root)` could have found a path, judged by names alone.

    Links below the root were made by its owner, and are followed; without `follow_links` they must not lead out of the root.
    """
    inside = path[len(root.rstrip("/")) + 1 :]
    if path != root and (
        (not {"", ".", ".."}.isdisjoint(inside.split("/")) if is_object(root) else os.path.normpath(path) != path)
        or not path.startswith(root.rstrip("/") + "/")
        or any(part.startswith((".", "_")) for part in inside.split("/"))
    ):
        return False
    return follow_links or path == root or is_object(root) or not leads_outside(path, root)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    with reading(entry.path):
        return entry.is_dir()


def refuse_delta_table(path: str) -> None:
    """Raise SourceError if a path is a Delta table, or is in one."""
    with reading(path):
        table = delta_table_around(path)
    if table is not None:
        raise _delta_table_is_no_folder_of_files(path, table)


def _delta_table_is_no_folder_of_files(path: str, table: str) -> SourceError:
    """Return the error for a path in a Delta table, whose folder also contains files that its log has removed."""
    inside = "is a Delta table" if path == table else f"is in the Delta table {table}"
    return SourceError(
        f"FileSource: {path} {inside}; its files also contain rows that were deleted or rewritten, which only its log shows",
        hint=f"DeltaSource.for_bounded_row_data({table!r}).build() reads the table (flinkish.datastream.connectors.delta).",
    )


def _missing_path(path: str) -> SourceError:
    """Return the error for a path that does not exist; it names the part of the path that exists."""
    existing = path
    while existing != os.path.dirname(existing) and not os.path.exists(existing):
        existing = os.path.dirname(existing)
    return SourceError(f"FileSource: nothing is at {path}", hint=f"{existing} exists; is the rest of the path right?")


#: Function (path, size in bytes) that cuts a file into splits.
CutFile = Callable[[str, int], list[FileSourceSplit]]


def find_splits(paths: Sequence[str], cut: CutFile, known: set[str], *, again: bool = False) -> list[FileSourceSplit]:
    """Return the splits of all files below the paths, except known files.

    A path in an object store disappears with its last object; `again` says that this is no error, as more may come.
    """
    splits: list[FileSourceSplit] = []
    seen = set(known)
    for root in paths:
        if is_object(root):
            found = visible_objects(root, or_none=again)
            splits += [split for path in found if path not in seen for split in cut(path, found[path])]
            seen.update(found)
            continue
        refuse_delta_table(root)
        for path in visible_files(root):
            status = None if path in seen else _status(path)
            seen.add(path)
            if status is not None:
                modified = status.st_mtime_ns // 1_000_000
                splits += [replace(split, modified=modified, inode=status.st_ino) for split in cut(path, status.st_size)]
    return splits


def _status(path: str) -> os.stat_result | None:
    """Return the size and the times of a file; None if it was removed after it was listed."""
    try:
        return os.stat(path)
    except FileNotFoundError as error:
        if not os.path.islink(path):
            return None
        raise SourceError(
            f"FileSource: {path} is a link to {os.readlink(path)}, which is not there",
            hint="is the storage mounted that it leads to? Else remove the link, or begin its name with a dot.",
        ) from error


class FileEnumerator(SplitEnumerator[FileSourceSplit, FileEnumeratorState]):
    """Assigns splits in the order of the paths; with a `discovery_interval` (ms) it searches for new files repeatedly."""

    def __init__(
        self,
        context: SplitEnumeratorContext[FileSourceSplit],
        paths: Sequence[str],
        cut: CutFile,
        discovery_interval: int | None,
        restored: FileEnumeratorState | None,
    ) -> None:
        self._context = context
        self._paths = paths
        self._cut = cut
        self._discovery_interval = discovery_interval
        self._restored = restored is not None
        self._pending: deque[FileSourceSplit] = deque(restored.pending if restored else ())
        # A dict keeps the insertion order, so that equal runs make equal snapshots.
        self._known: dict[str, None] = dict.fromkeys(restored.known if restored else ())
        self._waiting: dict[int, None] = {}

    def start(self) -> None:
        interval = self._discovery_interval
        if not self._restored:
            self._take(find_splits(self._paths, self._cut, set(), again=interval is not None))
        if interval is not None:
            self._context.call_async(self._discover, self._discovered, initial_delay=interval, period=interval)

    def _discover(self) -> list[FileSourceSplit]:
        return find_splits(self._paths, self._cut, set(self._known), again=True)

    def _discovered(self, splits: list[FileSourceSplit] | None, error: BaseException | None) -> None:
        if error is not None:
            raise error
        # A slow search may have begun before the result of the previous one was handled.
        self._take([split for split in splits or () if split.path not in self._known])

    def _take(self, splits: Sequence[FileSourceSplit]) -> None:
        self._known.update(dict.fromkeys(split.path for split in splits))
        self._pending.extend(splits)
        waiting, self._waiting = list(self._waiting), {}
        for subtask in waiting:
            self.handle_split_request(subtask)

    def handle_split_request(self, subtask: int) -> None:
        if not self._pending and self._discovery_interval is not None:
            self._waiting[subtask] = None
            return
        # Assign several splits at a time, but leave some for the other readers.
        share = -(-len(self._pending) // self._context.parallelism)
        assigned = 0
        while self._pending and share > 0 and assigned < _ASSIGNMENT_SIZE:
            split = self._pending.popleft()
            self._context.assign_split(split, subtask)
            assigned += split.file_size if split.length is None else split.length
            share -= 1
        if not self._pending and self._discovery_interval is None:
            # A reader that is notified together with its last split finishes in the epoch in which it reads that split.
            for reader in range(self._context.parallelism):
                self._context.signal_no_more_splits(reader)

    def add_splits_back(self, splits: Sequence[FileSourceSplit], subtask: int) -> None:
        self._pending.extendleft(reversed(splits))
        if self._waiting:
            self._take(())

    def snapshot_state(self, checkpoint_id: int) -> FileEnumeratorState:
        return FileEnumeratorState(pending=tuple(self._pending), known=tuple(self._known))

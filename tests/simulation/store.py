"""The storage of a simulated world: files in memory and a Delta log. Any operation may fail, crash or be interrupted."""

from __future__ import annotations

import contextlib
import errno
import io
import os
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import IO, Any, Protocol

import msgspec

from flinkish.checkpoint import paths
from flinkish.common.files.checkpoint_files import CheckpointFiles, NewFile
from flinkish.common.files.schemes import files_at


class Observer(Protocol):
    """Is told of every operation; may raise OSError, end the process that makes it, or let others act in between."""

    def before(self, operation: str, path: str) -> None: ...

    def after(self, operation: str, path: str) -> None: ...


class Store:
    """All files of a world by their full paths, with their content; None stands for a folder."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.entries: dict[str, bytes | None] = {}
        self._names: dict[str, set[str]] = {}

    def names(self, folder: str) -> list[str]:
        return sorted(self._names.get(folder, ()))

    def put(self, path: str, content: bytes | None) -> None:
        if path not in self.entries:
            folder, _, name = path.rpartition("/")
            self._names.setdefault(folder, set()).add(name)
        self.entries[path] = content

    def drop(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        del self.entries[path]
        self._names[folder].discard(name)

    def below(self, folder: str) -> Iterator[str]:
        """Yield all paths in a folder, those in a folder before itself."""
        for name in self.names(folder):
            path = f"{folder}/{name}"
            if self.entries[path] is None:
                yield from self.below(path)
            yield path


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


class _NewFile(NewFile):
    def __init__(self, files: SimulatedFiles, path: str) -> None:
        self._files = files
        self._path = path
        self._buffer = io.BytesIO()

    def write(self, data: Any, /) -> int:
        return self._buffer.write(data)

    def sync(self) -> None:
        store = self._files.store
        store.observer.before("write", self._path)
        if self._path in store.entries:  # the file was not removed in the meantime
            store.put(self._path, self._buffer.getvalue())
        store.observer.after("write", self._path)

    def close(self) -> None:
        if self._files.store.entries.get(self._path) != self._buffer.getvalue():
            self.sync()


class SimulatedFiles(CheckpointFiles):
    """See CheckpointFiles."""

    def __init__(self, store: Store, root: PurePath) -> None:
        super().__init__(root)
        self.store = store
        self._base = str(root)

    def _path(self, inside: str) -> str:
        return f"{self._base}/{inside}" if inside else self._base

    def _look(self, inside: str) -> str:
        path = self._path(inside)
        self.store.observer.before("read", path)
        return path

    def is_folder(self, inside: str = "") -> bool:
        return self.store.entries.get(self._look(inside), b"") is None

    def exists(self, inside: str) -> bool:
        return self._look(inside) in self.store.entries

    def names(self, inside: str = "") -> list[str]:
        folder = self._look(inside)
        self._need_folder(folder)
        return self.store.names(folder)

    def files_below(self, inside: str) -> Iterator[str]:
        folder = self._look(inside)
        self._need_folder(folder)
        start = len(self._base) + 1
        entries = self.store.entries
        return iter(sorted(path[start:] for path in self.store.below(folder) if entries[path] is not None))

    def _need_folder(self, folder: str) -> None:
        if self.store.entries.get(folder, b"") is not None:
            raise _error(errno.ENOENT, folder)

    def _content(self, inside: str) -> bytes:
        path = self._look(inside)
        content = self.store.entries.get(path)
        if content is None:
            raise _error(errno.ENOENT, path)
        return content

    def size(self, inside: str) -> int:
        return len(self._content(inside))

    def read(self, inside: str, *, limit: int) -> bytes:
        return self._content(inside)

    def open(self, inside: str) -> IO[bytes]:
        return io.BytesIO(self._content(inside))

    def create(self, inside: str) -> _NewFile:
        self.put_new(inside, b"")
        return _NewFile(self, self._path(inside))

    def put_new(self, inside: str, content: bytes | None, operation: str = "create") -> None:
        """Make a file with its content, or a folder, in one step; FileExistsError if its name is taken."""
        path = self._path(inside)
        self.store.observer.before(operation, path)
        self._need_free(path)
        self.store.put(path, content)
        self.store.observer.after(operation, path)

    def _need_free(self, path: str) -> None:
        self._need_folder(path.rpartition("/")[0])
        if path in self.store.entries:
            raise _error(errno.EEXIST, path)

    def replace(self, inside: str, content: bytes, *, sync: bool, draft: str = "") -> None:
        path = self._path(inside)
        self.store.observer.before("replace", path)
        self._need_folder(path.rpartition("/")[0])
        self.store.put(path, content)
        self.store.observer.after("replace", path)

    def remove(self, inside: str) -> None:
        path = self._path(inside)
        self.store.observer.before("remove", path)
        if self.store.entries.get(path) is None:
            raise _error(errno.ENOENT, path)
        self.store.drop(path)
        self.store.observer.after("remove", path)

    def remove_empty_folders(self, inside: str) -> None:
        folder = self._path(inside)
        self.store.observer.before("remove", folder)
        self._need_folder(folder)
        within = list(self.store.below(folder))
        if any(self.store.entries[path] is not None for path in within) or (within and not inside):
            raise _error(errno.ENOTEMPTY, folder)
        for path in (*within, folder):
            self.store.drop(path)

    def remove_all(self) -> None:
        if self._base in self.store.entries:
            for path in [*self.store.below(self._base), self._base]:
                with contextlib.suppress(OSError):
                    self._remove_if_empty(path)

    def _remove_if_empty(self, path: str) -> None:
        self.store.observer.before("remove", path)
        if path in self.store.entries and not self.store.names(path):
            self.store.drop(path)
            self.store.observer.after("remove", path)

    def rename(self, inside: str, to: str) -> None:
        old, new = self._path(inside), self._path(to)
        self.store.observer.before("rename", old)
        self._need_folder(old)
        self._need_free(new)
        moved = [(path, self.store.entries[path]) for path in (*self.store.below(old), old)]
        for path, _ in moved:
            self.store.drop(path)
        for path, content in reversed(moved):
            self.store.put(new + path[len(old) :], content)
        self.store.observer.after("rename", old)

    def make_root(self, *, sync: bool) -> None:
        self._make("")

    def make_folder(self, inside: str) -> None:
        self.put_new(inside, None)

    def make_folders(self, inside: str) -> None:
        self._need_folder(self._base)
        self._make(inside)

    def _make(self, inside: str) -> None:
        path = self._path(inside)
        self.store.observer.before("create", path)
        scheme, _, rest = path.partition("://")
        names = rest.split("/")
        for depth in range(len(names)):
            folder = f"{scheme}://{'/'.join(names[: depth + 1])}"
            if folder not in self.store.entries:
                self.store.put(folder, None)


class Version(msgspec.Struct, frozen=True):
    """The content of a log entry: for simplicity, the whole content of that version of the table."""

    number: int
    files: dict[str, int]
    transactions: dict[str, int]


_encode = msgspec.json.Encoder().encode
decode_version = msgspec.json.Decoder(Version).decode


class SimulatedLog:
    """In place of DeltaLog, with the facts measured there: a handle stays where it was opened or refreshed; a commit fails if
    another version has appeared since; a repeated transaction is not refused; entries before a summary are not needed."""

    has_state_schema = True

    def __init__(self, root: PurePath, at: Version) -> None:
        self._root = root
        self._at = at

    @staticmethod
    def open(root: PurePath, version: int | None = None) -> SimulatedLog | None:
        files = files_at(root)
        if not files.is_folder(paths.LOG):
            return None
        names = files.names(paths.LOG)
        entries = {int(name[:20]) for name in names if name.endswith(".json")}
        if not entries:
            return None
        newest = max(entries) if version is None else version
        summaries = [int(name[:20]) for name in names if name.endswith(".parquet")]
        first = max((number for number in summaries if number <= newest), default=-1) + 1
        if not entries.issuperset(range(first, newest + 1)):
            raise ValueError(f"{root}: the log has no entries before {newest}, it has {sorted(entries)}")
        return SimulatedLog(root, decode_version(files.read(_entry(newest), limit=1 << 30)))

    @staticmethod
    def create(root: PurePath, files: Mapping[str, tuple[int, int]], metadata: Mapping[str, str], *, time: int) -> None:
        if SimulatedLog.open(root) is not None:
            raise _error(errno.EEXIST, str(root))
        files_at(root).make_folders(paths.LOG)
        _put(root, Version(0, _sizes(files), {}))

    @property
    def version(self) -> int:
        return self._at.number

    def refresh(self) -> None:
        newest = SimulatedLog.open(self._root)
        if newest is None:
            raise _error(errno.ENOENT, str(self._root))
        self._at = newest._at

    def transaction(self, application: str) -> int | None:
        return self._at.transactions.get(application)

    def files(self) -> dict[str, int]:
        return dict(self._at.files)

    def replace_files(
        self, files: Mapping[str, tuple[int, int]], application: str, transaction: int, metadata: Mapping[str, str], *, time: int
    ) -> None:
        self._commit(_sizes(files), application, transaction)

    def note_transaction(self, application: str, transaction: int, metadata: Mapping[str, str]) -> None:
        self._commit(self._at.files, application, transaction)

    def _commit(self, files: dict[str, int], application: str, transaction: int) -> None:
        transactions = {**self._at.transactions, application: transaction}
        _put(self._root, Version(self._at.number + 1, files, transactions))

    def write_checkpoint(self) -> None:
        marker = f"{paths.LOG}/{self._at.number:020}.checkpoint.parquet"
        files_at(self._root).replace(marker, b"", sync=False)


def _entry(version: int) -> str:
    return f"{paths.LOG}/{version:020}.json"


def _put(root: PurePath, version: Version) -> None:
    files = files_at(root)
    assert isinstance(files, SimulatedFiles)
    files.put_new(_entry(version.number), _encode(version), operation="log")


def _sizes(files: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    return {path: size for path, (size, _) in files.items()}

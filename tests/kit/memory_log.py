"""The log of a state table in memory, in place of DeltaLog: it follows the same rules for commits as delta-rs does."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath
from typing import Self

import msgspec

from flinkish.checkpoint import paths
from flinkish.common.files.memory import MemoryFiles


class _Version(msgspec.Struct, frozen=True):
    """The complete content of a version of the table; each log entry has one, so that no entry needs earlier ones."""

    number: int
    files: dict[str, int]
    transactions: dict[str, int]
    metadata: dict[str, str]


class MemoryLog:
    """See DeltaLog. A commit fails if another version has appeared, because an entry is created only if it does not exist."""

    has_state_schema = True

    def __init__(self, root: PurePath, at: _Version) -> None:
        self._root = root
        self._at = at

    @classmethod
    def open(cls, root: PurePath, version: int | None = None) -> Self | None:
        files = MemoryFiles(root)
        if not files.is_folder(paths.LOG):
            return None
        numbers = [int(name.removesuffix(".json")) for name in files.names(paths.LOG) if name.endswith(".json")]
        if not numbers:
            return None
        content = files.read(_entry(max(numbers) if version is None else version), limit=1 << 30)
        return cls(root, msgspec.json.decode(content, type=_Version))

    @staticmethod
    def create(root: PurePath, files: Mapping[str, tuple[int, int]], metadata: Mapping[str, str], *, time: int) -> None:
        if MemoryLog.open(root) is not None:
            raise FileExistsError(f"there is a table in {root}")
        MemoryFiles(root).make_folders(paths.LOG)
        _put(root, _Version(0, _sizes(files), {}, dict(metadata)))

    @property
    def version(self) -> int:
        return self._at.number

    def refresh(self) -> None:
        newest = MemoryLog.open(self._root)
        if newest is None:
            raise FileNotFoundError(f"there is no table in {self._root}")
        self._at = newest._at

    def transaction(self, application: str) -> int | None:
        return self._at.transactions.get(application)

    def files(self) -> dict[str, int]:
        return dict(self._at.files)

    def replace_files(
        self,
        files: Mapping[str, tuple[int, int]],
        application: str,
        transaction: int,
        metadata: Mapping[str, str],
        *,
        time: int,
    ) -> None:
        self._commit(_sizes(files), application, transaction, metadata)

    def note_transaction(self, application: str, transaction: int, metadata: Mapping[str, str]) -> None:
        self._commit(self._at.files, application, transaction, metadata)

    def _commit(self, files: dict[str, int], application: str, transaction: int, metadata: Mapping[str, str]) -> None:
        transactions = {**self._at.transactions, application: transaction}
        _put(self._root, _Version(self._at.number + 1, files, transactions, dict(metadata)))

    def write_checkpoint(self) -> None:
        """Write a marker only, which shows that earlier entries are obsolete."""
        marker = f"{paths.LOG}/{self._at.number:020}.checkpoint.parquet"
        MemoryFiles(self._root).replace(marker, b"", sync=False)


def _entry(version: int) -> str:
    return f"{paths.LOG}/{version:020}.json"


def _put(root: PurePath, version: _Version) -> None:
    MemoryFiles(root).put_new(_entry(version.number), json.dumps(msgspec.to_builtins(version)).encode())


def _sizes(files: Mapping[str, tuple[int, int]]) -> dict[str, int]:
    return {path: size for path, (size, _) in files.items()}

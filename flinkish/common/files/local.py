"""Checkpoint files in a folder of the file system. No link below the folder is followed; see safe_files.py."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import IO

from flinkish.common import safe_files
from flinkish.common.disk import make_folders, sync
from flinkish.common.files.checkpoint_files import CheckpointFiles


class LocalFiles(CheckpointFiles):
    """See CheckpointFiles."""

    _root: Path

    def __init__(self, root: PurePath) -> None:
        super().__init__(Path(root))

    def refuse_links(self, *inside: str) -> None:
        safe_files.refuse_links(self._root.parent, self._root, *(self._root / each for each in inside))

    def is_folder(self, inside: str = "") -> bool:
        return (self._root / inside).is_dir()

    def exists(self, inside: str) -> bool:
        return (self._root / inside).exists()

    def names(self, inside: str = "") -> list[str]:
        return os.listdir(self._root / inside)

    def files_below(self, inside: str) -> Iterator[str]:
        return safe_files.files_below(self._root, inside)

    def size(self, inside: str) -> int:
        with safe_files.open_file(self._root, inside) as file:
            return os.fstat(file.fileno()).st_size

    def read(self, inside: str, *, limit: int) -> bytes:
        return safe_files.read_file(self._root, inside, limit=limit)

    def open(self, inside: str) -> IO[bytes]:
        return safe_files.open_file(self._root, inside)

    def create(self, inside: str) -> safe_files.NewFile:
        return safe_files.create_file(self._root, inside)

    def replace(self, inside: str, content: bytes, *, sync: bool, draft: str = "") -> None:
        safe_files.replace_file(self._root, inside, content, sync=sync, draft=draft)

    def remove(self, inside: str) -> None:
        safe_files.remove_file(self._root, inside)

    def remove_empty_folders(self, inside: str) -> None:
        if inside:
            safe_files.remove_empty_folders(self._root, inside)
        else:
            self._root.rmdir()

    def remove_all(self) -> None:
        shutil.rmtree(self._root, ignore_errors=True)

    def rename(self, inside: str, to: str) -> None:
        os.rename(self._root / inside, self._root / to)

    def make_root(self, *, sync: bool) -> None:
        if sync:
            make_folders(self._root)
        else:
            self._root.mkdir(parents=True, exist_ok=True)

    def make_folder(self, inside: str) -> None:
        (self._root / inside).mkdir()

    def make_folders(self, inside: str) -> None:
        safe_files.make_folders(self._root, inside)

    def sync(self, inside: str = "") -> None:
        sync(self._root / inside, follow_links=False)

    def sync_log(self, synced: int) -> int:
        # Imported late: only the driver calls this, and deltalake takes 50 ms to import.
        from flinkish.common.delta_calls import sync_log

        if synced < 0:
            sync(self._root)
        return sync_log(self._root, synced)[0]

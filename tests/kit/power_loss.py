"""A simulated disk that loses data which was not synced when the power fails."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class _Synced:
    """One call of fsync: the bytes of a file, or the names in a folder, with the inode of each and whether it is a folder."""

    inode: int
    mode: int
    content: bytes | dict[str, tuple[int, bool]]


class ForgetfulDisk:
    """Records each fsync below a folder; `lose_power` restores what a disk is certain to hold after a given number of them.

    Strict POSIX: a file has the bytes of its last fsync, a folder the names of its last one. Real file systems keep more.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.syncs: list[_Synced] = []
        self._pinned: list[int] = []
        self._root_inode = root.stat().st_ino

    @contextmanager
    def recording(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Watch what is synced; what is there already counts as synced."""
        for folder, _, names in os.walk(self.root, topdown=False):
            for path in [*(os.path.join(folder, name) for name in names), folder]:
                descriptor = os.open(path, os.O_RDONLY)
                self._note(descriptor)
                os.close(descriptor)
        fsync = os.fsync

        def noted(file: Any) -> None:
            fsync(file)
            self._note(file if isinstance(file, int) else file.fileno())

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", noted)
            yield
        while self._pinned:
            os.close(self._pinned.pop())

    def _note(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        if not Path(path).is_relative_to(self.root):
            return
        # An open descriptor keeps the inode from standing for another file later.
        self._pinned.append(os.open(path, os.O_PATH))
        status = os.fstat(descriptor)
        content: bytes | dict[str, tuple[int, bool]]
        if stat.S_ISDIR(status.st_mode):
            content = {entry.name: (entry.inode(), entry.is_dir(follow_symlinks=False)) for entry in os.scandir(path)}
        else:
            content = Path(path).read_bytes()
        self.syncs.append(_Synced(status.st_ino, stat.S_IMODE(status.st_mode), content))

    def lose_power(self, after: int) -> None:
        """Restore what the disk holds after the given number of syncs."""
        kept = {synced.inode: synced for synced in self.syncs[:after]}
        for entry in os.scandir(self.root):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry)
            else:
                os.unlink(entry)
        self._make(self.root, self._root_inode, True, kept)

    def _make(self, path: Path, inode: int, is_folder: bool, kept: dict[int, _Synced]) -> None:
        synced = kept.get(inode)
        if is_folder:
            path.mkdir(exist_ok=True)
            names = {} if synced is None else synced.content
            assert isinstance(names, dict)
            for name, (child, child_is_folder) in names.items():
                self._make(path / name, child, child_is_folder, kept)
        else:
            path.write_bytes(b"" if synced is None else bytes(synced.content))
        if synced is not None:
            path.chmod(synced.mode)

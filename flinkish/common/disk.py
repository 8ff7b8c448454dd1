"""Syncing of files and folders, so that they survive a crash of the machine; a new file needs its folder synced, too."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: str | Path, *, follow_links: bool = True) -> None:
    """Sync the content of a file, or the names in a folder, so that they survive a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY | (0 if follow_links else os.O_NOFOLLOW))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_up_to(folder: str, base: str) -> None:
    """Sync a folder and the folders above it up to `base`, so that their names survive a crash of the machine."""
    sync(folder)
    while folder not in (base, os.path.dirname(folder)):
        folder = os.path.dirname(folder)
        sync(folder)


def make_folders(path: str | Path, mode: int = 0o777) -> None:
    """Make and sync a folder with this mode, and the missing folders above it, so that they survive a crash."""
    missing = []
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    os.makedirs(path, mode, exist_ok=True)
    for made in reversed(missing):
        sync(os.path.dirname(made))

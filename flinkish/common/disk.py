"""Files and folders that outlast a crash of the machine: a file is there only once its folder has been synced, too."""

from __future__ import annotations

import os
from pathlib import Path


def sync(path: str | Path, *, follow_links: bool = True) -> None:
    """Make the contents of a file, or the names in a folder, outlast a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY | (0 if follow_links else os.O_NOFOLLOW))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_up_to(folder: str, base: str) -> None:
    """Make the names in a folder, and its own name below `base`, outlast a crash of the machine."""
    sync(folder)
    while folder not in (base, os.path.dirname(folder)):
        folder = os.path.dirname(folder)
        sync(folder)


def make_folders(path: str | Path, mode: int = 0o777) -> None:
    """Make a folder and those above it that are missing, so that they outlast a crash of the machine; `mode` is its own."""
    missing = []
    folder = os.path.abspath(path)
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    os.makedirs(path, mode, exist_ok=True)
    for made in reversed(missing):
        sync(os.path.dirname(made))

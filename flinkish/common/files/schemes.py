"""The choice of the storage for a root: the only module that knows all kinds of storage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath

from flinkish.common.files import memory
from flinkish.common.files.checkpoint_files import CheckpointFiles, StoreReference
from flinkish.common.files.local import LocalFiles
from flinkish.common.files.memory import MemoryFiles

#: Kinds of storage by the scheme of a StoreReference.
_STORES: dict[str, Callable[[PurePath], CheckpointFiles]] = {memory.SCHEME: MemoryFiles}


def is_reference(text: str) -> bool:
    """Return whether a text names a root outside of the file system, in a known kind of storage.

    >>> is_reference("memory://a"), is_reference("/memory"), is_reference("ftp://a")
    (True, False, False)
    """
    scheme, found, _ = text.partition("://")
    return bool(found) and scheme in _STORES


def root_of(text: str) -> PurePath:
    """Return the root that a reference names: a StoreReference if it has a known scheme, else a folder."""
    return StoreReference(text) if is_reference(text) else Path(text)


def files_at(root: PurePath | str) -> CheckpointFiles:
    """Return the files below a root, without access to the storage."""
    reference = root_of(root) if isinstance(root, str) else root
    if isinstance(reference, StoreReference):
        return _STORES[reference.scheme](reference)
    return LocalFiles(reference)

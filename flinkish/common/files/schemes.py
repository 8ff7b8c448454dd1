"""The choice of the storage for a root: the only module that knows all kinds of storage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path, PurePath

from flinkish.common.files import memory, object_store
from flinkish.common.files.checkpoint_files import CheckpointFiles, StoreReference
from flinkish.common.files.local import LocalFiles
from flinkish.common.files.memory import MemoryFiles
from flinkish.common.files.object_store import ObjectFiles

#: Kinds of storage by the scheme of a StoreReference.
_STORES: dict[str, Callable[[PurePath], CheckpointFiles]] = {memory.SCHEME: MemoryFiles, object_store.SCHEME: ObjectFiles}
#: Other names of schemes.
_SAME: dict[str, str] = dict.fromkeys(object_store.SAME_SCHEMES, object_store.SCHEME)
#: Schemes whose files outlive the process.
DURABLE_SCHEMES = (object_store.SCHEME, *object_store.SAME_SCHEMES)


def is_reference(text: str) -> bool:
    """Return whether a text names a root outside of the file system, in a known kind of storage.

    >>> is_reference("memory://a"), is_reference("/memory"), is_reference("ftp://a")
    (True, False, False)
    """
    scheme, found, _ = text.partition("://")
    return bool(found) and _SAME.get(scheme, scheme) in _STORES


def root_of(text: str) -> PurePath:
    """Return the root that a reference names: a StoreReference if it has a known scheme, else a folder.

    >>> str(root_of("s3a://bucket/a"))
    's3://bucket/a'
    """
    if not is_reference(text):
        return Path(text)
    scheme, separator, rest = text.partition("://")
    return StoreReference(_SAME.get(scheme, scheme) + separator + rest)


def files_at(root: PurePath | str) -> CheckpointFiles:
    """Return the files below a root, without access to the storage."""
    reference = root_of(root) if isinstance(root, str) else root
    if isinstance(reference, StoreReference):
        return _STORES[reference.scheme](reference)
    return LocalFiles(reference)

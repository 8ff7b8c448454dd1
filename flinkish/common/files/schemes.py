"""The choice of the storage for a root: the only module that knows all kinds of storage."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePath

from flinkish.common.files.checkpoint_files import CheckpointFiles, StoreReference
from flinkish.common.files.local import LocalFiles
from flinkish.common.files.object_store import ObjectFiles
from flinkish.common.files.store_settings import AZURE_SCHEMES, OBJECT_STORES, azure_place
from flinkish.common.paths import location

#: Kinds of storage by the scheme of a StoreReference.
_STORES: dict[str, Callable[[PurePath], CheckpointFiles]] = dict.fromkeys(OBJECT_STORES.values(), ObjectFiles)
#: Schemes of object stores, under all their names.
DURABLE_SCHEMES = tuple(OBJECT_STORES)
# Names that are the same in an object store, in a URL and for delta-rs, which read escapes differently.
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# These characters cannot form a scheme, a drive, a backslash, a NUL or a percent escape.
_RELATIVE = re.compile(r"[A-Za-z0-9._=-]+(?:/[A-Za-z0-9._=-]+)*")


def is_reference(text: str) -> bool:
    """Return whether a text names a root outside of the file system, in a known kind of storage.

    >>> is_reference("s3://a"), is_reference("/s3"), is_reference("ftp://a")
    (True, False, False)
    """
    scheme, found, _ = text.partition("://")
    return bool(found) and OBJECT_STORES.get(scheme, scheme) in _STORES


def root_of(text: str) -> PurePath:
    """Return the root that a reference names: a StoreReference if it has a known scheme, else a folder.

    >>> str(root_of("s3a://bucket/a")), str(root_of("wasbs://data@mine.blob.core.windows.net/a"))
    ('s3://bucket/a', 'abfss://data@mine.dfs.core.windows.net/a')
    """
    if not is_reference(text):
        return Path(text)
    scheme, separator, rest = text.partition("://")
    same = OBJECT_STORES.get(scheme, scheme)
    if same == "abfss":
        authority, slash, path = rest.partition("/")
        rest = authority.replace(".blob.", ".dfs.", 1) + slash + path
    return StoreReference(same + separator + rest)


def is_safe(path: str) -> bool:
    """Tell whether a path is a plain relative one, of common characters, that cannot lead outside of its root."""
    return _RELATIVE.fullmatch(path) is not None and not any(set(part) == {"."} for part in path.split("/"))


def object_root(text: str) -> PurePath | None:
    """Return the root in an object store that a text names; None for other places.

    Raises ValueError for names that an object store or deltalake would not read as they are written. The error shows no
    credentials.

    >>> str(object_root("s3a://bucket/a/")), object_root("/data/a")
    ('s3://bucket/a', None)
    >>> object_root("s3://me:secret@bucket/a")
    Traceback (most recent call last):
    ValueError: 's3://***@bucket/a': expected s3://bucket/path
    """
    place = location(text)
    if place.scheme not in DURABLE_SCHEMES:
        return None
    inside = place.path.strip("/")
    azure = place.scheme in AZURE_SCHEMES
    known = azure_place(place.host) if azure else _BUCKET.fullmatch(place.host)
    if known is None or (inside and not is_safe(inside)):
        bucket = "<container>@<account>.dfs.core.windows.net" if azure else "bucket"
        raise ValueError(f"{without_user(text)!r}: expected {place.scheme}://{bucket}/path")
    return root_of(f"{place.scheme}://{place.host}/{inside}")


#: The rule for names in object stores: the hint of the error to raise after `object_root` fails.
OBJECT_NAMES = (
    "with letters, digits, '.', '_', '=' and '-' in the names, and without credentials, which keys such as s3.access-key set."
)


def without_user(text: str) -> str:
    """Return a URL for messages, without the user and password that it may contain."""
    return re.sub(r"://[^/]*@", "://***@", text)


def files_at(root: PurePath | str) -> CheckpointFiles:
    """Return the files below a root, without access to the storage."""
    reference = root_of(root) if isinstance(root, str) else root
    if isinstance(reference, StoreReference):
        return _STORES[reference.scheme](reference)
    return LocalFiles(reference)

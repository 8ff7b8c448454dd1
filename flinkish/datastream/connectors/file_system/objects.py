"""Files in object stores, for FileSource and FileSink: their paths are URIs such as `s3://bucket/a/b`.

Paths on disk are absolute and normalized, so no such path contains `://`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import IO

from flinkish.common.errors import InvalidArgumentError
from flinkish.common.files.checkpoint_files import StoreReference
from flinkish.common.files.object_store import ObjectFiles
from flinkish.common.files.schemes import DURABLE_SCHEMES, root_of, without_user
from flinkish.common.files.store_settings import AZURE_SCHEMES, azure_place
from flinkish.common.paths import location


def is_object(path: str) -> bool:
    """Return whether a path is in an object store."""
    return "://" in path


def object_path(text: str, what: str) -> str | None:
    """Return the URI of a path in an object store, with the scheme that is used inside; None for other paths.

    Raises InvalidArgumentError, which shows no credentials, for a URI without a bucket or with names that no object can have.

    >>> object_path("s3a://bucket/a b/#1/", "path"), object_path("/data", "path")
    ('s3://bucket/a b/#1', None)
    """
    place = location(text)
    if place.scheme not in DURABLE_SCHEMES:
        return None
    azure = place.scheme in AZURE_SCHEMES
    inside = place.path.strip("/")
    usable = not ({"", ".", ".."} & set(inside.split("/")) if inside else ()) and inside.isprintable()
    if not usable or (azure_place(place.host) is None if azure else not place.host or "@" in place.host):
        bucket = "<container>@<account>.dfs.core.windows.net" if azure else "bucket"
        raise InvalidArgumentError(
            f"{what} {without_user(text)!r}: expected {place.scheme}://{bucket}/path, without '//', '.' and '..' in the path",
            hint="credentials are set by keys such as s3.access-key.",
        )
    return str(root_of(f"{place.scheme}://{place.host}/{inside}"))


def store_of(path: str) -> tuple[ObjectFiles, str]:
    """Return the bucket of a URI as a root, and the key in it, without access to the store."""
    scheme, _, rest = path.partition("://")
    authority, _, key = rest.partition("/")
    return ObjectFiles(StoreReference(f"{scheme}://{authority}")), key


def open_object(path: str, *, buffered: bool = True) -> IO[bytes]:
    """Open an object for reading, ahead in requests of some megabytes, or with a request for each read. Raises OSError."""
    files, key = store_of(path)
    return files.open(key, buffered=buffered)


def open_ahead(path: str) -> IO[bytes]:
    """Open a file or an object for reading from one position on. Raises OSError."""
    return open_object(path) if is_object(path) else open(path, "rb", buffering=0)


def size_of(path: str) -> int:
    """Return the size of a file in bytes. Raises OSError."""
    if is_object(path):
        files, key = store_of(path)
        return files.size(key)
    return os.stat(path).st_size


def objects_below(path: str, *, empty: bool = False) -> dict[str, int]:
    """Return the objects below a URI, or the one object that it names, with their sizes in bytes, in the order of their paths.

    Without `empty`, objects without content are left out: they have no records, and many tools make them to stand for folders.
    Raises OSError; FileNotFoundError if nothing is there.
    """
    files, key = store_of(path)
    bucket = path[: len(path) - len(key)].rstrip("/")
    try:
        found = files.sizes_below(key)
    except FileNotFoundError:
        if not key:
            raise
        return {path: files.size(key)}
    order = sorted(found, key=lambda each: each.split("/"))
    return {f"{bucket}/{each}": found[each] for each in order if (empty or found[each] > 0) and each != key}


def is_folder(path: str) -> bool:
    """Return whether objects are below a URI. Raises OSError."""
    files, key = store_of(path)
    return files.is_folder(key)


def put_object(path: str, content: IO[bytes]) -> None:
    """Write an object under a name that nobody else uses. Raises OSError."""
    files, key = store_of(path)
    files.put(key, content)


def copy_object(path: str, to: str) -> None:
    """Copy an object within a bucket; the copy appears in one step. Raises OSError; FileNotFoundError if it does not exist."""
    files, key = store_of(path)
    files.copy(key, store_of(to)[1])


def remove_objects(paths: Iterable[str]) -> None:
    """Remove objects of one bucket that exist or not. Raises OSError."""
    keys = [store_of(path) for path in paths]
    if keys:
        keys[0][0].remove_together([key for _, key in keys])

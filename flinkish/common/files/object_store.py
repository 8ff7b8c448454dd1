"""Checkpoint files in an object store: `s3://bucket/...`, `gs://bucket/...`, `abfss://container@account.dfs.core.windows.net/...`.

An object store has no folders, only objects whose names share a prefix. A folder exists while an object is below it;
`make_folder` creates an object `.folder` in it, which lists leave out. An object is created only if it is absent (If-None-Match;
in Google's store x-goog-if-generation-match), so that one of several writers succeeds. A write that has returned is durable, and
a list shows it at once (S3 since 2020).
Unlike in a file system, the check that a folder exists comes before the write and is not part of it, and `rename` is a copy.

A client repeats a request whose answer was lost, and is then told that the object exists, although it created the object itself.
So each creation writes unique content; if the object is said to exist, its content is compared.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NoReturn

from flinkish.common.files.checkpoint_files import CheckpointFiles, NewFile
from flinkish.common.files.store_settings import azure_place, storage_options, without_secrets
from flinkish.common.ids import random_id
from flinkish.common.requirements import LateModule, need

if TYPE_CHECKING:
    import obstore
    from _typeshed import WriteableBuffer
    from obstore import UpdateVersion, exceptions
    from obstore import store as stores
    from obstore.store import ObjectStore
else:
    # An extra of flinkish: `ObjectFiles` says how to install it.
    obstore, exceptions, stores = map(LateModule, ("obstore", "obstore.exceptions", "obstore.store"))

_MARKER = ".folder"
#: A larger file is kept on disk until it is sent, in parts of this size; smaller ones take one request.
_PART = 32 << 20
#: Bytes to read by one request.
_READ = 8 << 20
_LONGEST_ERROR = 300


#: Extras of flinkish with the client, by scheme.
_EXTRAS = {"s3": "s3", "gs": "gs", "abfss": "azure"}


@functools.lru_cache(maxsize=16)
def _store(scheme: str, authority: str, options: tuple[tuple[str, str], ...], pid: int) -> ObjectStore:
    # The process is part of the key, because a forked process cannot use the threads of a client.
    config = dict(options)
    match scheme:
        case "gs":
            http = config.pop("allow_http", "false") == "true"
            return stores.GCSStore(authority, config=config, client_options={"allow_http": http})  # type: ignore[arg-type]
        case "abfss":
            return stores.AzureStore(authority.partition("@")[0], config=config)  # type: ignore[arg-type]
        case _:
            return stores.S3Store(authority, config=config)  # type: ignore[arg-type]


def _raise_as_os_error(error: Exception, inside: str) -> NoReturn:
    text = str(error)
    code = re.search(r"<Code>(\w+)</Code>", text)
    first = without_secrets(re.sub(r"\?\S*", "", re.split(r"\n|<", text)[0])).strip(" :")[:_LONGEST_ERROR]
    said = f"{first} ({code[1]})" if code else first
    if code is not None and code[1] in ("NoSuchBucket", "ContainerNotFound"):
        raise OSError(errno.EIO, said, inside) from None
    if isinstance(error, FileNotFoundError):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), inside) from None
    if isinstance(error, (PermissionError, exceptions.PermissionDeniedError, exceptions.UnauthenticatedError)):
        raise PermissionError(errno.EACCES, said, inside) from None
    raise OSError(errno.EIO, said, inside) from None


class _NewObject(NewFile):
    """See NewFile. Readers see the written data once it is synced or closed."""

    def __init__(self, files: ObjectFiles, inside: str, tag: UpdateVersion) -> None:
        self._files = files
        self._inside = inside
        self._tag = tag
        self._buffer: IO[bytes] = tempfile.SpooledTemporaryFile(max_size=_PART)  # noqa: SIM115
        self._changed = True

    def write(self, data: Any, /) -> int:
        self._changed = True
        return self._buffer.write(data)

    def sync(self) -> None:
        if not self._changed:
            return
        self._tag = self._files.update(self._inside, self._buffer, self._tag)
        self._buffer.seek(0, io.SEEK_END)
        self._changed = False

    def close(self) -> None:
        if not self._buffer.closed:
            try:
                self.sync()
            finally:
                self._buffer.close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /) -> None:
        if kind is not None:
            self._buffer.close()  # the content is incomplete
        self.close()


class _Reader(io.RawIOBase):
    """Reads one version of an object in ranges: if the object is replaced in the meantime, the next read fails."""

    def __init__(self, files: ObjectFiles, inside: str, size: int, tag: str) -> None:
        self._files = files
        self._inside = inside
        self._size = size
        self._tag = tag
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        end = min(self._at + len(view), self._size)
        if end <= self._at:
            return 0
        data = self._files.read_range(self._inside, self._at, end, self._tag)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)


class ObjectFiles(CheckpointFiles):
    """See CheckpointFiles."""

    def __init__(self, root: PurePath) -> None:
        scheme, self._authority, *names = root.parts
        self._scheme = scheme.removesuffix(":")
        need("obstore", str(root), _EXTRAS[self._scheme])
        if self._scheme == "abfss" and azure_place(self._authority) is None:
            raise OSError(errno.EINVAL, "expected abfss://<container>@<account>.dfs.core.windows.net/path", str(root))
        super().__init__(root)
        self._prefix = "/".join(names)

    @property
    def delta_options(self) -> Mapping[str, str]:
        """See CheckpointFiles.delta_options. delta-rs creates its log entries only if they are absent, too."""
        return storage_options(str(self._root))

    @property
    def _client(self) -> ObjectStore:
        return _store(self._scheme, self._authority, tuple(sorted(self.delta_options.items())), os.getpid())

    @contextlib.contextmanager
    def _request(self, inside: str) -> Iterator[ObjectStore]:
        """Give a client for a request on a path; its errors become OSErrors of one line, without credentials."""
        client = self._client
        try:
            yield client
        except (exceptions.BaseError, FileNotFoundError, PermissionError) as error:
            _raise_as_os_error(error, inside)

    def _key(self, inside: str) -> str:
        names = inside.split("/") if inside else []
        if {"", ".", "..", _MARKER} & set(names):
            raise OSError(errno.EINVAL, "not a plain relative path", inside)
        return "/".join([self._prefix, *names] if self._prefix else names)

    def _marker(self, inside: str) -> str:
        return f"{self._key(inside)}/{_MARKER}".lstrip("/")

    def is_folder(self, inside: str = "") -> bool:
        return self._has_objects(self._key(inside), inside)

    def _has_objects(self, key: str, inside: str) -> bool:
        with self._request(inside) as client:
            return any(obstore.list(client, key or None, chunk_size=1))

    def exists(self, inside: str) -> bool:
        if not inside:
            return self.is_folder()
        try:
            self.size(inside)
        except FileNotFoundError:
            return self.is_folder(inside)
        return True

    def names(self, inside: str = "") -> list[str]:
        with self._request(inside) as client:
            found = obstore.list_with_delimiter(client, self._key(inside) or None)
        keys = [*found["common_prefixes"], *(each["path"] for each in found["objects"])]
        if not keys:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), inside or str(self._root))
        return sorted(name for each in keys if (name := each.rpartition("/")[2]) != _MARKER)

    def files_below(self, inside: str) -> Iterator[str]:
        return iter(self.sizes_below(inside))

    def sizes_below(self, inside: str) -> dict[str, int]:
        """Return the sizes in bytes of all objects below a folder, by path; FileNotFoundError if there are none."""
        start = len(self._prefix) + 1 if self._prefix else 0
        return {key[start:]: size for key, size in self._below(inside).items() if not _is_marker(key)}

    def _below(self, inside: str) -> dict[str, int]:
        """Return the sizes of all objects in a folder by their names, markers included; FileNotFoundError if there are none."""
        with self._request(inside) as client:
            pages = obstore.list(client, self._key(inside) or None)
            found = sorted((each["path"], each["size"]) for page in pages for each in page)
        if not found:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), inside or str(self._root))
        return dict(found)

    def size(self, inside: str) -> int:
        with self._request(inside) as client:
            return obstore.head(client, self._key(inside))["size"]

    def read(self, inside: str, *, limit: int) -> bytes:
        with self._request(inside) as client:
            found = obstore.get(client, self._key(inside))
            if found.meta["size"] <= limit:
                return bytes(found.bytes())
        raise OSError(errno.EFBIG, f"{found.meta['size']} bytes, expected at most {limit}", inside)

    def read_range(self, inside: str, start: int, end: int, tag: str | None = None) -> bytes:
        """Return the bytes from `start` to `end` of an object that has them; OSError if its ETag is not `tag` (None = any)."""
        with self._request(inside) as client:
            try:
                if tag is None:
                    return bytes(obstore.get_range(client, self._key(inside), start=start, end=end))
                return bytes(obstore.get(client, self._key(inside), options={"if_match": tag, "range": (start, end)}).bytes())
            except exceptions.PreconditionError:
                pass
        raise OSError(errno.EIO, "it was replaced while it was read", inside)

    def open(self, inside: str, *, buffered: bool = True) -> IO[bytes]:
        """See CheckpointFiles.open. Without `buffered` each read is one request."""
        with self._request(inside) as client:
            found = obstore.head(client, self._key(inside))
            _tag(found)
        reader = _Reader(self, inside, found["size"], str(found["e_tag"]))
        return io.BufferedReader(reader, _READ) if buffered else reader  # type: ignore[return-value]

    def create(self, inside: str) -> _NewObject:
        key = self._key(inside)
        self._need_folder(inside)
        return _NewObject(self, inside, self._put_new(key, inside))

    def _need_folder(self, inside: str) -> None:
        """Raise FileNotFoundError if the folder that contains a file or folder does not exist."""
        key = self._key(inside) if inside else self._prefix
        folder = key.rpartition("/")[0]
        if folder and not self._has_objects(folder, inside):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), inside or str(self._root))

    def _put_new(self, key: str, inside: str) -> UpdateVersion:
        """Create an object with content of its own and return its tag; FileExistsError if another one has the name."""
        content = f"made by flinkish: {random_id()}".encode()
        with self._request(inside) as client:
            try:
                return _tag(obstore.put(client, key, content, mode="create", use_multipart=False))
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError):
                try:
                    found = obstore.get(client, key)
                    # The answer to an earlier try of the same request may have been lost.
                    if found.meta["size"] == len(content) and bytes(found.bytes()) == content:
                        return _tag(found.meta)
                except FileNotFoundError:
                    pass  # removed in the meantime
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), inside)

    def update(self, inside: str, content: IO[bytes], tag: UpdateVersion) -> UpdateVersion:
        """Replace the content of an object that has this tag, and return its new tag; do nothing if it was removed."""
        key, size = self._key(inside), content.seek(0, io.SEEK_END)
        content.seek(0)
        with self._request(inside) as client:
            try:
                if size <= _PART:
                    data = content.read()
                    return _tag(obstore.put(client, key, data, mode=tag, use_multipart=False))
                # In parts, the store takes no condition: if it is removed right now, a later clean-up has to remove it again.
                if _tag(obstore.head(client, key)) == tag:
                    return _tag(obstore.put(client, key, content, chunk_size=_PART))
            except FileNotFoundError:
                return tag
            except exceptions.PreconditionError:
                try:
                    found = obstore.get(client, key)
                    if found.meta["size"] == size and bytes(found.bytes()) == data:
                        return _tag(found.meta)  # written by us: the answer to an earlier try was lost
                except FileNotFoundError:
                    return tag
        raise OSError(errno.EIO, "somebody else has written to it", inside)

    def replace(self, inside: str, content: bytes, *, sync: bool, draft: str = "") -> None:
        key = self._key(inside)
        self._need_folder(inside)
        self._put(key, content, inside)

    def _put(self, key: str, content: bytes, inside: str) -> None:
        with self._request(inside) as client:
            obstore.put(client, key, content, use_multipart=False)

    def put(self, inside: str, content: IO[bytes] | bytes) -> None:
        """Write an object, in parts if it is large, under a name that nobody else uses; it needs no folder."""
        with self._request(inside) as client:
            obstore.put(client, self._key(inside), content, chunk_size=_PART)

    def read_with_time(self, inside: str) -> tuple[bytes, int]:
        """Return the content of an object, and the milliseconds since the epoch at which it was written."""
        with self._request(inside) as client:
            found = obstore.get(client, self._key(inside))
            return bytes(found.bytes()), _milliseconds(found.meta)

    def describe(self, inside: str) -> tuple[int, int]:
        """Return the size of an object in bytes, and the milliseconds since the epoch at which it was written."""
        with self._request(inside) as client:
            found = obstore.head(client, self._key(inside))
        return found["size"], _milliseconds(found)

    def make_root(self, *, sync: bool) -> None:
        self._put(self._marker(""), b"", "")

    def make_folder(self, inside: str) -> None:
        self._key(inside)
        self._need_folder(inside)
        self._put_new(self._marker(inside), inside)

    def make_folders(self, inside: str) -> None:
        self._key(inside)
        if not self.is_folder():
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), inside)
        self._put(self._marker(inside), b"", inside)

    def remove(self, inside: str) -> None:
        self.size(inside)  # removing what does not exist is no error in an object store
        self._delete([self._key(inside)], inside)

    def _delete(self, keys: list[str], inside: str) -> None:
        with self._request(inside) as client:
            for key in keys:
                obstore.delete(client, key)

    def remove_empty_folders(self, inside: str) -> None:
        keys = list(self._below(inside))
        if not all(map(_is_marker, keys)) or (not inside and keys != [self._marker("")]):
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), inside)
        self._delete(sorted(keys, key=len, reverse=True), inside)

    def remove_all(self) -> None:
        with contextlib.suppress(OSError), self._request("") as client:
            obstore.delete(client, list(self._below("")))

    def copy(self, inside: str, to: str) -> None:
        """Copy an object; the copy appears in one step. FileNotFoundError if it does not exist."""
        with self._request(inside) as client:
            self._copy(client, self._key(inside), self._key(to))

    def remove_together(self, inside: list[str]) -> None:
        """Remove objects that exist or not, in few requests and any order."""
        keys = [self._key(each) for each in inside]
        with self._request(inside[0]) as client:
            try:
                obstore.delete(client, keys)
                return
            except FileNotFoundError:
                pass  # Google's store says so, and the others may then not have been removed
            for key in keys:
                with contextlib.suppress(FileNotFoundError):
                    obstore.delete(client, key)

    def _copy(self, client: ObjectStore, key: str, to: str) -> None:
        if self._scheme != "abfss":
            obstore.copy(client, key, to)
            return
        # Azure may answer before it has copied, and the client does not wait: so the bytes go through this process.
        with tempfile.SpooledTemporaryFile(max_size=_PART) as content:
            for piece in obstore.get(client, key).stream(min_chunk_size=_READ):
                content.write(piece)
            content.seek(0)
            obstore.put(client, to, content, chunk_size=_PART)

    def rename(self, inside: str, to: str) -> None:
        """Copy a folder, then remove the old one.

        Objects are removed in the order of their names: a Delta log then has a gap at its beginning, and cannot be read as an
        older version of the table.
        """
        old, new = self._key(inside), self._key(to)
        keys = list(self._below(inside))
        with self._request(inside) as client:
            for key in keys:
                self._copy(client, key, new + key.removeprefix(old))
        self._delete(keys, inside)


def _is_marker(key: str) -> bool:
    return key.rpartition("/")[2] == _MARKER


def _milliseconds(found: Mapping[str, Any]) -> int:
    return int(found["last_modified"].timestamp() * 1000)


def _tag(found: Mapping[str, Any]) -> UpdateVersion:
    """Return what identifies this version of an object: the ETag, and the generation if the store has them."""
    if found["e_tag"] is None:
        raise OSError(errno.EIO, "the store gives no ETags, by which it could tell versions of an object apart")
    version = found.get("version")
    return {"e_tag": found["e_tag"]} if version is None else {"e_tag": found["e_tag"], "version": version}

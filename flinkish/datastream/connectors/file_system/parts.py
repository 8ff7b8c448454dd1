"""Part files: their names, and how they become visible.

A part in progress is the file `<bucket>/.<part name>.inprogress.<uuid>`, which its dot hides from readers. Only one writer object
writes it, so a repeated epoch, or an old process that still runs, never writes to another writer's file. A pending part is closed
and named in the committables of a checkpoint. A finished part was renamed to `<bucket>/<prefix>-<uuid>-<counter><suffix>` when
that checkpoint was complete.

The names are Flink's (FileWriterBucket, LocalRecoverableWriter); older checkpoints may name files whose ids have no dashes.

Object stores have no rename: a part is put as one object below the hidden folder `.inprogress/<writers>/` of the sink, and copied
to its final name at the commit; then the hidden one is removed. A multipart upload that the commit completes, as Flink has it,
would save the copy, but the client (obstore) does not tell the upload's id, which the checkpoint would have to contain. The name
of the folder comes from lineage and sink, so one list finds all parts that an attempt has left behind.

Files named by a checkpoint are checked before use: they must be hidden files of a FileSink below its path, not reached by links.
Files of another lineage (the job was started from a savepoint) are copied, never renamed or removed, as the other job may still
run.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from flinkish.common import safe_files
from flinkish.common.disk import make_folders, sync
from flinkish.common.errors import ForeignCheckpointError, SinkChangedError, SinkError
from flinkish.common.ids import random_uuid
from flinkish.datastream.connectors.file_system.paths import (
    DELTA_LOG,
    copy_object,
    delta_table_around,
    is_object,
    objects_below,
    remove_objects,
    size_of,
    store_of,
)
from flinkish.datastream.connectors.file_system.policies import OutputFileConfig
from flinkish.program.sinks import END_OF_INPUT_CHECKPOINT, CommitRequest, Committer, RestoredCheckpoint

_log = logging.getLogger(__name__)

#: Separator of a part's name and the nonce in the name of its hidden file.
_IN_PROGRESS: Final = ".inprogress."
#: Folder of parts in progress in an object store, below the sink's path.
STAGING: Final = ".inprogress"
#: Number of objects that a commit copies at the same time.
_COPIES: Final = 8


@contextlib.contextmanager
def writing(action: str) -> Iterator[None]:
    """Turn errors of the file system into SinkErrors: `FileSink cannot <action>: <reason>`."""
    try:
        yield
    except OSError as error:
        raise SinkError(f"FileSink cannot {action}: {error.strerror or error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFile:
    """The path where a part is written, and its final path."""

    in_progress: str
    final: str

    @staticmethod
    def named(
        folder: str, config: OutputFileConfig, bucket_uid: str, counter: int, nonce: str, staging: str | None = None
    ) -> PartFile:
        """Return the paths of a new part of a bucket."""
        name = f"{config.part_prefix}-{bucket_uid}-{counter}{config.part_suffix}"
        return PartFile.at(os.path.join(folder, name), nonce, staging)

    @staticmethod
    def at(final: str, nonce: str, staging: str | None = None) -> PartFile:
        """Return the paths of the part with the given final path; `staging` is the folder of hidden files in an object store."""
        folder, name = os.path.split(final)
        if staging is not None:
            return PartFile(in_progress=f"{staging}/{name}.{nonce}", final=final)
        return PartFile(in_progress=os.path.join(folder, f".{name}{_IN_PROGRESS}{nonce}"), final=final)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCommittable:
    """A closed part of `length` bytes, which the commit renames to its final name."""

    bucket_id: str = ""
    part: PartFile | None
    length: int = 0
    #: Hidden files that the commit removes, as their contents were copied: files of earlier writers, and merged parts.
    obsolete: tuple[str, ...] = ()


def staging_folder(base_path: str, lineage: str, sink_uid: str) -> str:
    """Return the folder of parts in progress in an object store, which only the writers of one sink in one lineage use."""
    writers = hashlib.sha256(f"{lineage}\0{sink_uid}".encode()).hexdigest()[:32]
    return f"{base_path}/{STAGING}/{writers}"


class FileCommitter(Committer[FileCommittable]):
    """Renames pending files to their final names. Files that were already renamed, by a commit before a crash, are skipped."""

    def __init__(self, base_path: str, *, cleans: bool = True) -> None:
        """Make a committer; `cleans`: whether all parts that wait for a commit are in its requests, so that others can go."""
        self._base_path = base_path
        self._restored: RestoredCheckpoint | None = None
        self._cleans = cleans and is_object(base_path)

    def restore(self, checkpoint: RestoredCheckpoint) -> None:
        self._restored = checkpoint

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[FileCommittable]]) -> None:
        for request in requests:
            check_committable(self._base_path, request.committable)
        again = self._is_repeated(checkpoint_id)
        own = [request.committable for request in requests if not self._is_foreign(request)]
        if is_object(self._base_path):
            with ThreadPoolExecutor(_COPIES, "flinkish-commit") as pool:
                list(pool.map(lambda request: self._finish_object(request, again=again), requests))
            self._remove_objects(checkpoint_id, own)
            return
        for request in requests:
            self._finish(request, again=again)
        for folder in {os.path.dirname(each.committable.part.final): None for each in requests if each.committable.part}:
            # Even if the file was already renamed, as the process may have ended between the two steps.
            with contextlib.suppress(FileNotFoundError):
                sync(folder)
        for path in [path for each in own for path in each.obsolete]:
            self._remove(path)

    def _remove_objects(self, checkpoint_id: int, own: Sequence[FileCommittable]) -> None:
        """Remove the hidden objects of own parts, and those that earlier attempts have left."""
        done = [path for each in own for path in (each.part and each.part.in_progress, *each.obsolete) if path]
        restored = self._restored
        if self._cleans and restored is not None and checkpoint_id == restored.checkpoint_id and restored.own:
            # The writers of this attempt have not begun, and those of earlier ones get nothing committed any more.
            done += self._left_behind(staging_folder(self._base_path, restored.lineage, restored.sink_uid))
        elif self._cleans and checkpoint_id == END_OF_INPUT_CHECKPOINT and own:
            done += [path for folder in {os.path.dirname(path) for path in done} for path in self._left_behind(folder)]
        try:
            remove_objects(dict.fromkeys(done))
        except OSError as error:
            text = "FileSink could not remove hidden objects in %s, which are not needed any more: %s"
            _log.warning(text, self._base_path, error)

    @staticmethod
    def _left_behind(folder: str) -> Sequence[str]:
        try:
            return list(objects_below(folder, empty=True))
        except FileNotFoundError:
            return ()
        except OSError as error:
            _log.warning("FileSink could not look for parts that earlier attempts have left in %s: %s", folder, error)
            return ()

    def _finish_object(self, request: CommitRequest[FileCommittable], *, again: bool) -> None:
        part, length = request.committable.part, request.committable.length
        if part is None:
            return
        with writing(f"finish {part.final}"):
            # A reader of the output may have moved the final object, so it is looked for only where it may exist.
            if (again or self._is_foreign(request)) and _length_of(part.final) == length:
                return
            staged = _length_of(part.in_progress)
            if staged == length:
                copy_object(part.in_progress, part.final)
            elif staged is not None:
                raise _wrong_size(part, staged, length)
            elif _length_of(part.final) != length:
                _missing(part, length, again=again)

    def _is_foreign(self, request: CommitRequest[FileCommittable]) -> bool:
        restored = self._restored
        return restored is not None and not restored.own and request.lineage == restored.lineage

    def _is_repeated(self, checkpoint_id: int) -> bool:
        """Return whether this may be a repeated commit: of the restored checkpoint, or of the end of the input."""
        restored = self._restored
        return restored is not None and (
            checkpoint_id == restored.checkpoint_id or (not restored.own and checkpoint_id == END_OF_INPUT_CHECKPOINT)
        )

    def _finish(self, request: CommitRequest[FileCommittable], *, again: bool) -> None:
        part, length = request.committable.part, request.committable.length
        if part is None:
            return
        with writing(f"finish {part.final}"):
            try:
                if self._is_foreign(request):
                    if os.path.lexists(part.final):
                        return
                    copy = PartFile.at(part.final, random_uuid())
                    _copy(self._base_path, part, length, copy)
                    part = copy
                inside = os.path.dirname(path_inside(self._base_path, part.final))
                with safe_files.open_folder(self._base_path, inside) as folder:
                    _rename(folder, part, length)
            except FileNotFoundError:
                if not os.path.lexists(part.final):
                    _missing(part, length, again=again)

    def _remove(self, path: str) -> None:
        try:
            safe_files.remove_file(self._base_path, path_inside(self._base_path, path))
        except FileNotFoundError:
            pass
        except OSError as error:
            _log.warning("FileSink could not remove %s, which is not needed any more: %s", path, error)


def _length_of(path: str) -> int | None:
    """Return the size of an object; None if it does not exist."""
    try:
        return size_of(path)
    except FileNotFoundError:
        return None


def _rename(folder: int, part: PartFile, length: int) -> None:
    name = os.path.basename(part.in_progress)
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode):
        raise SinkChangedError(f"FileSink: {part.in_progress} is not an ordinary file")
    if status.st_size < length:
        raise _wrong_size(part, status.st_size, length)
    if status.st_size > length:
        descriptor = os.open(name, os.O_WRONLY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            os.ftruncate(descriptor, length)
        finally:
            os.close(descriptor)
    os.rename(name, os.path.basename(part.final), src_dir_fd=folder, dst_dir_fd=folder)


def _missing(part: PartFile, length: int, *, again: bool) -> None:
    """Raise SinkChangedError for a part that is lost; a part of a repeated commit may also have been committed and moved."""
    text = f"FileSink: neither {part.in_progress} nor {part.final} exists"
    if not again:
        raise SinkChangedError(
            f"{text}, though the {length} bytes were written for the checkpoint that has just been made",
            hint="something removes hidden files below the path of the sink; the records in it are lost.",
        )
    _log.warning("%s; assuming that it was committed earlier and moved since", text)


def _wrong_size(part: PartFile, size: int, length: int) -> SinkChangedError:
    return SinkChangedError(
        f"FileSink: {part.in_progress} has {size} bytes, but {length} were written when the checkpoint was made"
    )


def check_committable(base_path: str, committable: FileCommittable) -> None:
    """Raise ForeignCheckpointError if the committable names files that no FileSink for `base_path` writes."""
    part = committable.part
    if part is not None:
        path_inside(base_path, part.final)
        path_inside(base_path, part.in_progress)
        staging = None
        misplaced = False
        if is_object(base_path):
            staging = os.path.dirname(part.in_progress)
            misplaced = not _is_staged(base_path, part.in_progress) or _is_staged(base_path, part.final)
        nonce = part.in_progress.rpartition(".")[2]
        if misplaced or "/" in nonce or PartFile.at(part.final, nonce, staging) != part:
            raise _foreign_file(base_path, part.in_progress)
    for path in committable.obsolete:
        if is_object(base_path) and _is_staged(base_path, path):
            continue
        name = os.path.basename(path_inside(base_path, path))
        if not name.startswith(".") or _IN_PROGRESS not in name:
            raise _foreign_file(base_path, path)


def _is_staged(base_path: str, path: str) -> bool:
    names = path_inside(base_path, path).split("/")
    return len(names) == 3 and names[0] == STAGING


def bucket_folder(base_path: str, bucket_id: str) -> str:
    """Return the folder of a bucket; the path returned by the user's assigner need not be normalized."""
    if is_object(base_path):
        scheme, _, rest = base_path.partition("://")
        return f"{scheme}://{os.path.normpath(os.path.join(rest, bucket_id))}"
    return os.path.normpath(os.path.join(base_path, bucket_id))


def check_bucket(base_path: str, bucket_id: str) -> None:
    """Raise ForeignCheckpointError unless a bucket of a checkpoint is below the sink's path."""
    path_inside(base_path, os.path.join(bucket_folder(base_path, bucket_id), "part"))


def make_bucket_folder(base_path: str, folder: str) -> None:
    """Make the folder of a bucket.

    Raises SinkError if a part of the path is a link or a file, if it is in a Delta table, or if the folder cannot be made.
    """
    if is_object(base_path):
        return  # there are no folders, and a Delta table was looked for when the sink was built
    refuse_delta_table(folder)
    with writing(f"write into {folder}"):
        try:
            make_folders(base_path)
            safe_files.make_folders(base_path, "" if folder == base_path else path_inside(base_path, folder))
        except NotADirectoryError as error:
            raise SinkError(
                f"FileSink cannot write into {folder}: a part of that path is a file or a link",
                hint="links below the path of a sink are not followed; give the sink the path that the link leads to.",
            ) from error


def refuse_delta_table(folder: str) -> None:
    """Raise SinkError if a folder is a Delta table, or is in one."""
    with writing(f"write into {folder}"):
        table = delta_table_around(folder)
    if table is None and DELTA_LOG in folder.split("/"):
        table = folder[: folder.index(f"/{DELTA_LOG}")] or "/"
    if table is not None:
        raise SinkError(
            f"FileSink cannot write into {folder}: {table} is a Delta table, whose readers would not see the files, and whose "
            "VACUUM would delete them",
            hint="give the sink a folder of its own, or write to the table with DeltaSink.",
        )


def path_inside(base_path: str, path: str) -> str:
    """Return a path relative to the sink's path, for `safe_files`; raise ForeignCheckpointError if it is not below it."""
    base = base_path.rstrip("/") + "/"
    plain = path.partition("://")[2] if is_object(base_path) else path
    if "\0" in path or os.path.normpath(plain) != plain or not path.startswith(base):
        raise _foreign_file(base_path, path)
    return path[len(base) :]


def _foreign_file(base_path: str, path: str) -> ForeignCheckpointError:
    return ForeignCheckpointError(
        f"FileSink into {base_path}: the checkpoint names the file {path[:500]!r}, which is not one of this sink",
        hint="a sink that goes on from a checkpoint must have the path that it had; give it another uid to write elsewhere. "
        "If the path was never one of the sink, the checkpoint was tampered with.",
    )


def copy_part(base_path: str, old: PartFile, length: int, part: PartFile) -> None:
    """Copy the first `length` bytes of another writer's hidden file to a hidden file of our own, and sync it.

    Raises ForeignCheckpointError if the file is missing, SinkChangedError if it is too short.
    """
    with writing(f"go on with {old.in_progress}"):
        try:
            _copy(base_path, old, length, part)
        except FileNotFoundError as error:
            raise ForeignCheckpointError(
                f"FileSink cannot go on with {old.in_progress}: the file is gone",
                hint="it is finished and renamed if a later checkpoint than the restored one was completed; restore the latest.",
            ) from error


def _copy(base_path: str, old: PartFile, length: int, part: PartFile) -> None:
    if is_object(base_path):
        path_inside(base_path, old.in_progress)
        size = size_of(old.in_progress)
        if size != length:
            raise _wrong_size(old, size, length)
        copy_object(old.in_progress, part.in_progress)
        return
    with (
        safe_files.open_file(base_path, path_inside(base_path, old.in_progress)) as source,
        safe_files.create_file(base_path, path_inside(base_path, part.in_progress)) as target,
    ):
        size = os.fstat(source.fileno()).st_size
        if size < length:
            raise _wrong_size(old, size, length)
        copy_bytes(source.fileno(), target.fileno(), length)
        os.fsync(target.fileno())


def write_part(part: PartFile, write: Callable[[str], None]) -> int:
    """Have a function write the hidden file of a part to the path that it gets, make it durable, and return its length.

    Raises OSError.
    """
    if not is_object(part.in_progress):
        write(part.in_progress)
        sync(part.in_progress)
        return os.stat(part.in_progress).st_size
    with tempfile.TemporaryDirectory(prefix="flinkish-part-") as folder:
        path = os.path.join(folder, "part")
        write(path)
        files, key = store_of(part.in_progress)
        with open(path, "rb") as content:
            files.put(key, content)
        return os.stat(path).st_size


def copy_bytes(source: int, target: int, length: int) -> None:
    """Copy `length` bytes from one file descriptor to another; raise SinkError if there are fewer."""
    while length > 0:
        data = os.read(source, min(length, shutil.COPY_BUFSIZE))  # type: ignore[attr-defined]
        if not data:
            raise SinkError("FileSink: a part file became shorter while it was copied")
        view = memoryview(data)
        while view:
            view = view[os.write(target, view) :]
        length -= len(data)

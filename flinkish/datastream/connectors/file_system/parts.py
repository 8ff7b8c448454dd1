"""Part files: their names, and how they become visible.

In progress: `<bucket>/.<part name>.inprogress.<uuid>`, hidden from readers by its dot; written by one writer object only, so
that a second try of an epoch, or a process that should be dead, never writes into another's file. Pending: closed, named in the
committables of a checkpoint. Finished: renamed to `<bucket>/<prefix>-<uuid>-<counter><suffix>` once that checkpoint is complete.

The names are Flink's (FileWriterBucket, LocalRecoverableWriter); checkpoints of before may name files whose ids have no dashes.

What a checkpoint names is looked at before it is touched: hidden files of a FileSink below its path, not reached by links. Those
of another lineage (the job was started from a savepoint) are copied, never renamed or removed: the other job may still run.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from flinkish.common import safe_files
from flinkish.common.absent import AbsentMember
from flinkish.common.absent_names import JAVA_OBJECT
from flinkish.common.disk import make_folders, sync
from flinkish.common.errors import ForeignCheckpointError, InvalidArgumentError, SinkError
from flinkish.common.ids import random_uuid
from flinkish.datastream.connectors.file_system.paths import DELTA_LOG, delta_table_around
from flinkish.program.sinks import END_OF_INPUT_CHECKPOINT, CommitRequest, Committer, RestoredCheckpoint

_log = logging.getLogger(__name__)

#: Between a part's name and the nonce of the hidden file that it is written to.
_IN_PROGRESS: Final = ".inprogress."


@dataclass(frozen=True, slots=True)
class OutputFileConfig:
    """What part files' names begin and end with.

    >>> OutputFileConfig.builder().with_part_prefix("out").with_part_suffix(".txt").build()
    OutputFileConfig(part_prefix='out', part_suffix='.txt')
    """

    get_java_object = AbsentMember(JAVA_OBJECT)

    part_prefix: str = "part"
    part_suffix: str = ""

    def __post_init__(self) -> None:
        for name in ("part_prefix", "part_suffix"):
            value = getattr(self, name)
            if not isinstance(value, str) or "/" in value or "\0" in value:
                raise InvalidArgumentError(f"{name} of OutputFileConfig must be a str without '/'; got {value!r}")

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Begin a configuration: prefix 'part', no suffix."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return what names begin with."""
        return self.part_prefix

    def get_part_suffix(self) -> str:
        """Return what names end with."""
        return self.part_suffix

    class OutputFileConfigBuilder:
        """Sets up an OutputFileConfig."""

        def __init__(self) -> None:
            self._prefix = "part"
            self._suffix = ""

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set what names begin with."""
            self._prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set what names end with, such as '.txt'."""
            self._suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """Return the configuration."""
            return OutputFileConfig(self._prefix, self._suffix)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFile:
    """Where a part is written, and what it is to be called."""

    in_progress: str
    final: str

    @staticmethod
    def named(folder: str, config: OutputFileConfig, bucket_uid: str, counter: int, nonce: str) -> PartFile:
        """Name a new part of a bucket."""
        name = f"{config.part_prefix}-{bucket_uid}-{counter}{config.part_suffix}"
        return PartFile.at(os.path.join(folder, name), nonce)

    @staticmethod
    def at(final: str, nonce: str) -> PartFile:
        """Name the file in which the part with a given final path is written."""
        folder, name = os.path.split(final)
        return PartFile(in_progress=os.path.join(folder, f".{name}{_IN_PROGRESS}{nonce}"), final=final)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCommittable:
    """A closed part of so many bytes, to be given its final name."""

    bucket_id: str = ""
    part: PartFile | None
    length: int = 0
    #: Hidden files whose contents stand elsewhere: those of earlier writers that were gone on with, parts that were merged.
    obsolete: tuple[str, ...] = ()


class FileCommitter(Committer[FileCommittable]):
    """Gives pending files their final names. A rename that was done already, by a commit before a crash, is left alone."""

    def __init__(self, base_path: str) -> None:
        self._base_path = base_path
        self._restored: RestoredCheckpoint | None = None

    def restore(self, checkpoint: RestoredCheckpoint) -> None:
        self._restored = checkpoint

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[FileCommittable]]) -> None:
        for request in requests:
            check_committable(self._base_path, request.committable)
        folders: dict[str, None] = {}
        for request in requests:
            part = request.committable.part
            if part is not None:
                self._finish(part, request, again=self._is_repeated(checkpoint_id))
                folders[os.path.dirname(part.final)] = None
        for folder in folders:
            # Also of a file that has its name already: the process may have ended between the two.
            with contextlib.suppress(FileNotFoundError):
                sync(folder)
        for request in requests:
            if not self._is_foreign(request):
                for path in request.committable.obsolete:
                    self._remove(path)

    def _is_foreign(self, request: CommitRequest[FileCommittable]) -> bool:
        restored = self._restored
        return restored is not None and not restored.own and request.lineage == restored.lineage

    def _is_repeated(self, checkpoint_id: int) -> bool:
        """Tell whether it may have been committed before: what the restored checkpoint holds, also for the end of the input."""
        restored = self._restored
        return restored is not None and (
            checkpoint_id == restored.checkpoint_id or (not restored.own and checkpoint_id == END_OF_INPUT_CHECKPOINT)
        )

    def _finish(self, part: PartFile, request: CommitRequest[FileCommittable], *, again: bool) -> None:
        length = request.committable.length
        try:
            if os.path.lexists(part.final) and self._is_foreign(request):
                return
            with safe_files.open_folder(self._base_path, os.path.dirname(path_inside(self._base_path, part.final))) as folder:
                if self._is_foreign(request):
                    _copy_as(folder, part, length)
                else:
                    _rename(folder, part, length)
        except FileNotFoundError as error:
            if os.path.lexists(part.final):
                return
            text = f"FileSink: neither {part.in_progress} nor {part.final} exists"
            if not again:
                raise SinkError(
                    f"{text}, though the {length} bytes were written for the checkpoint that has just been made",
                    hint="something removes hidden files from the folder of the sink; the records in it are lost.",
                ) from error
            # Committed before a crash and since taken away by whoever reads the output, or lost: there is no telling.
            _log.warning("%s; taken for committed earlier and moved since", text)
        except OSError as error:
            raise SinkError(f"FileSink cannot finish {part.final}: {error.strerror or error}") from error

    def _remove(self, path: str) -> None:
        try:
            safe_files.remove_file(self._base_path, path_inside(self._base_path, path))
        except FileNotFoundError:
            pass
        except OSError as error:
            _log.warning("FileSink could not remove %s, which is not needed any more: %s", path, error)


def _rename(folder: int, part: PartFile, length: int) -> None:
    name = os.path.basename(part.in_progress)
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if not stat.S_ISREG(status.st_mode):
        raise SinkError(f"FileSink: {part.in_progress} is not an ordinary file")
    if status.st_size < length:
        raise _too_short(part, status.st_size, length)
    if status.st_size > length:
        descriptor = os.open(name, os.O_WRONLY | os.O_NOFOLLOW, dir_fd=folder)
        try:
            os.ftruncate(descriptor, length)
        finally:
            os.close(descriptor)
    os.rename(name, os.path.basename(part.final), src_dir_fd=folder, dst_dir_fd=folder)


def _copy_as(folder: int, part: PartFile, length: int) -> None:
    """Make the final file as a copy, which appears in one step."""
    copy = PartFile.at(os.path.basename(part.final), random_uuid())
    source = os.open(os.path.basename(part.in_progress), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    try:
        size = os.fstat(source).st_size
        if size < length:
            raise _too_short(part, size, length)
        target = os.open(copy.in_progress, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=folder)
        try:
            copy_bytes(source, target, length)
            os.fsync(target)
        finally:
            os.close(target)
    finally:
        os.close(source)
    os.rename(copy.in_progress, copy.final, src_dir_fd=folder, dst_dir_fd=folder)


def _too_short(part: PartFile, size: int, length: int) -> SinkError:
    return SinkError(f"FileSink: {part.in_progress} has {size} bytes; {length} were written when the checkpoint was made")


def check_committable(base_path: str, committable: FileCommittable) -> None:
    """Raise ForeignCheckpointError if files are named that no FileSink into `base_path` writes, wherever the names come from."""
    part = committable.part
    if part is not None:
        folder, name = os.path.split(part.final)
        hidden = os.path.join(folder, f".{name}{_IN_PROGRESS}")
        if not name or not part.in_progress.startswith(hidden) or "/" in part.in_progress[len(hidden) :]:
            raise _foreign_file(base_path, part.in_progress)
        path_inside(base_path, part.final)
        path_inside(base_path, part.in_progress)
    for path in committable.obsolete:
        name = os.path.basename(path_inside(base_path, path))
        if not name.startswith(".") or _IN_PROGRESS not in name:
            raise _foreign_file(base_path, path)


def bucket_folder(base_path: str, bucket_id: str) -> str:
    """Return the folder of a bucket; what the user's assigner names need not be in normal form."""
    return os.path.normpath(os.path.join(base_path, bucket_id))


def check_bucket(base_path: str, bucket_id: str) -> None:
    """Raise ForeignCheckpointError if a bucket of a checkpoint is not below the sink's path."""
    path_inside(base_path, os.path.join(bucket_folder(base_path, bucket_id), "part"))


def make_bucket_folder(base_path: str, folder: str) -> None:
    """Make the folder of a bucket.

    Raises SinkError if a link would lead it elsewhere, or a file is in the way, or for a Delta table.
    """
    refuse_delta_table(folder)
    try:
        make_folders(base_path)
        safe_files.make_folders(base_path, "" if folder == base_path else path_inside(base_path, folder))
    except NotADirectoryError as error:
        raise SinkError(
            f"FileSink cannot write into {folder}: a part of that path is a file or a link",
            hint="links below the path of a sink are not followed; give the sink the path that the link leads to.",
        ) from error


def refuse_delta_table(folder: str) -> None:
    """Raise SinkError if a folder is that of a Delta table, or in one."""
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
    """Return a path relative to the sink's, as `safe_files` takes it; raises ForeignCheckpointError if it is not below that."""
    base = base_path.rstrip("/") + "/"
    if "\0" in path or os.path.normpath(path) != path or not path.startswith(base):
        raise _foreign_file(base_path, path)
    return path[len(base) :]


def _foreign_file(base_path: str, path: str) -> ForeignCheckpointError:
    return ForeignCheckpointError(
        f"FileSink into {base_path}: the checkpoint names the file {path[:500]!r}, which is not one of this sink",
        hint="a sink that goes on from a checkpoint must have the path that it had; give it another uid to write elsewhere. "
        "If the path was never one of the sink, the checkpoint was tampered with.",
    )


def copy_part(base_path: str, old: PartFile, length: int, part: PartFile) -> None:
    """Copy the first `length` bytes of another writer's hidden file to one of our own, and make that durable.

    Raises SinkError if the file is gone or too short.
    """
    try:
        with (
            safe_files.open_file(base_path, path_inside(base_path, old.in_progress)) as source,
            safe_files.create_file(base_path, path_inside(base_path, part.in_progress)) as target,
        ):
            size = os.fstat(source.fileno()).st_size
            if size < length:
                raise SinkError(
                    f"FileSink cannot go on with {old.in_progress}: it has {size} bytes, but {length} were written when the "
                    "checkpoint was made"
                )
            copy_bytes(source.fileno(), target.fileno(), length)
            os.fsync(target.fileno())
    except FileNotFoundError as error:
        raise SinkError(
            f"FileSink cannot go on with {old.in_progress}: the file is gone",
            hint="it is finished and renamed if a later checkpoint than the restored one was completed; restore the latest.",
        ) from error
    except OSError as error:
        raise SinkError(f"FileSink cannot go on with {old.in_progress}: {error.strerror or error}") from error


def copy_bytes(source: int, target: int, length: int) -> None:
    """Copy so many bytes from one open file (descriptor) to another; raises SinkError if there are not as many."""
    while length > 0:
        data = os.read(source, min(length, shutil.COPY_BUFSIZE))  # type: ignore[attr-defined]
        if not data:
            raise SinkError("FileSink: a part file became shorter while it was copied")
        view = memoryview(data)
        while view:
            view = view[os.write(target, view) :]
        length -= len(data)

"""Part files: their names, and how they become visible.

In progress: `<bucket>/.<part name>.inprogress.<nonce>`, hidden from readers by its dot; written by one writer object only, so
that a second try of an epoch, or a process that should be dead, never writes into another's file. Pending: closed, named in the
committables of a checkpoint. Finished: renamed to `<bucket>/<prefix>-<id>-<counter><suffix>` once that checkpoint is complete.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass

from flinkish.common.errors import InvalidArgumentError, SinkError
from flinkish.datastream.connectors.base import CommitRequest, Committer

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OutputFileConfig:
    """What part files' names begin and end with.

    >>> OutputFileConfig.builder().with_part_prefix("out").with_part_suffix(".txt").build()
    OutputFileConfig(part_prefix='out', part_suffix='.txt')
    """

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
        return PartFile(in_progress=os.path.join(folder, f".{name}.inprogress.{nonce}"), final=final)


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

    def commit(self, checkpoint_id: int, requests: Sequence[CommitRequest[FileCommittable]]) -> None:
        folders: dict[str, None] = {}
        for request in requests:
            part = request.committable.part
            if part is not None and _finish(part, request.committable.length):
                folders[os.path.dirname(part.final)] = None
        for folder in folders:
            sync_folder(folder)
        for request in requests:
            for path in request.committable.obsolete:
                try:
                    os.remove(path)
                except FileNotFoundError:
                    pass
                except OSError as error:
                    _log.warning("FileSink could not remove %s, which is not needed any more: %s", path, error)


def _finish(part: PartFile, length: int) -> bool:
    try:
        size = os.stat(part.in_progress).st_size
        if size < length:
            raise SinkError(f"FileSink: {part.in_progress} has {size} bytes; {length} were written when the checkpoint was made")
        if size > length:
            os.truncate(part.in_progress, length)
        os.replace(part.in_progress, part.final)
    except FileNotFoundError:
        if not os.path.exists(part.final):
            # Committed before a crash and since taken away by whoever reads the output, or lost: there is no telling.
            _log.warning(
                "FileSink: neither %s nor %s exists; taken for committed earlier and moved since", part.in_progress, part.final
            )
        return False
    except OSError as error:
        raise SinkError(f"FileSink cannot finish {part.final}: {error.strerror or error}") from error
    return True


def sync_folder(folder: str) -> None:
    """Make renames in a folder outlast a crash of the machine."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: str) -> None:
    """Make the contents of a file outlast a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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

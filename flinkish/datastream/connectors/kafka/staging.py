"""Files of messages that wait for their checkpoint, in `kafka/<sink>/` below the job's checkpoint folder."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Iterator, Sequence
from pathlib import PurePath
from typing import Final

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ForeignCheckpointError, SinkError
from flinkish.common.files.checkpoint_files import CheckpointFiles
from flinkish.common.files.schemes import files_at, is_reference, root_of
from flinkish.common.ids import IdSource
from flinkish.common.paths import location
from flinkish.datastream.connectors.kafka.sink_settings import WHO, StagedFile

_MAGIC: Final = b"flinkish kafka 1\n"
_LENGTH: Final = 4
_PATH: Final = re.compile(r"kafka/[0-9a-f]{32}/[0-9a-zA-Z-]+\.messages")
_COMMITTED: Final = "committed"


def staging_root(configuration: Configuration, job_id: str) -> PurePath | None:
    """Return a job's checkpoint folder; None = checkpoints are not kept in a folder."""
    directory = configuration.get(options.CHECKPOINTS_DIRECTORY)
    if directory is None:
        return None
    if is_reference(directory):
        return root_of(directory) / job_id
    return root_of(os.path.abspath(os.path.expanduser(location(directory).file))) / job_id


class Staging:
    """The files of one sink (`digest`, see `digest_of`) below a root."""

    def __init__(self, root: PurePath, digest: str) -> None:
        self._root = root
        self._files: CheckpointFiles = files_at(root)
        self._folder = f"kafka/{digest}"

    def write(self, chunks: Sequence[bytes], ids: IdSource, subtask: int) -> StagedFile:
        """Write runs of messages to a new file and make it durable."""
        path = f"{self._folder}/{subtask}-{ids()}.messages"
        digest, size = hashlib.sha256(), 0
        try:
            self._files.make_root(sync=True)
            self._files.make_folders(self._folder)
            with self._files.create(path) as file:
                for part in self._parts(chunks):
                    file.write(part)
                    digest.update(part)
                    size += len(part)
                file.sync()
            for folder in (self._folder, "kafka", ""):
                self._files.sync(folder)
        except OSError as error:
            raise SinkError(f"{WHO} cannot write {self._root}/{path}: {error.strerror or error}") from error
        return StagedFile(path=path, size=size, sha256=digest.hexdigest())

    def _parts(self, chunks: Sequence[bytes]) -> Iterator[bytes]:
        yield _MAGIC
        for chunk in chunks:
            yield len(chunk).to_bytes(_LENGTH, "big")
            yield chunk

    def note_committed(self, checkpoint_id: int) -> None:
        """Store which checkpoint was written last, in addition to the marker in Kafka, which brokers forget after a week."""
        try:
            self._files.make_root(sync=True)
            self._files.make_folders(self._folder)
            self._files.replace(f"{self._folder}/{_COMMITTED}", str(checkpoint_id).encode(), sync=True)
        except OSError as error:
            raise SinkError(f"{WHO} cannot write {self._root}/{self._folder}: {error.strerror or error}") from error

    def noted(self) -> int | None:
        """Return the checkpoint id that `note_committed` stored; None = none."""
        try:
            text = self._files.read(f"{self._folder}/{_COMMITTED}", limit=100)
        except OSError:
            return None
        return int(text) if text.isdigit() else None

    def remove_all_but(self, kept: Collection[str]) -> None:
        """Remove the files of failed attempts: all but those in `kept`."""
        try:
            names = self._files.names(self._folder)
        except OSError:
            return
        for name in names:
            path = f"{self._folder}/{name}"
            if name.endswith(".messages") and path not in kept:
                remove(self._files, path)


def read(root: PurePath, file: StagedFile) -> list[bytes]:
    """Return the runs of messages in a file; raises SinkError if the file is missing or was changed."""
    if _PATH.fullmatch(file.path) is None:
        raise ForeignCheckpointError(
            f"{WHO}: the checkpoint names {file.path[:200]!r}, which is no file of messages",
            hint="the checkpoint was tampered with.",
        )
    try:
        data = files_at(root).read(file.path, limit=file.size + 1)
    except OSError as error:
        raise SinkError(
            f"{WHO}: {root}/{file.path} cannot be read, whose messages were not written to Kafka yet: {error.strerror or error}",
            hint="the folder of the job's checkpoints also holds messages that wait for their checkpoint: leave it as it is.",
        ) from error
    if len(data) != file.size or hashlib.sha256(data).hexdigest() != file.sha256:
        raise SinkError(f"{WHO}: {root}/{file.path} is not what was written: {len(data)} bytes, {file.size} expected")
    chunks, at = [], len(_MAGIC)
    while at < len(data):
        length = int.from_bytes(data[at : at + _LENGTH], "big")
        chunks.append(data[at + _LENGTH : at + _LENGTH + length])
        at += _LENGTH + length
    return chunks


def remove(files: CheckpointFiles, path: str) -> None:
    """Remove a file of messages; if that fails, the file is left."""
    try:
        files.remove(path)
    except OSError:
        return


def remove_staged(root: PurePath, file: StagedFile) -> None:
    """Remove a file whose messages were written to Kafka."""
    if _PATH.fullmatch(file.path) is not None:
        remove(files_at(root), file.path)

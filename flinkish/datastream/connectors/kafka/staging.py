"""Files of messages that wait for their checkpoint, in `kafka/<sink>/` below the job's checkpoint folder."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import PurePath
from typing import Final

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ForeignCheckpointError, SinkError
from flinkish.common.files.checkpoint_files import CheckpointFiles
from flinkish.common.files.schemes import files_at, is_reference, root_of
from flinkish.common.ids import IdSource
from flinkish.common.paths import location
from flinkish.datastream.connectors.kafka.settings import SINK, StagedFile

_MAGIC: Final = b"flinkish kafka 1\n"
_LENGTH: Final = 4
_PATH: Final = re.compile(r"kafka/[0-9a-f]{32}/[0-9a-zA-Z-]+\.messages")


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
        with self._writing():
            with self._files.create(path) as file:
                for part in self._parts(chunks):
                    file.write(part)
                    digest.update(part)
                    size += len(part)
                file.sync()
            for folder in (self._folder, "kafka", ""):
                self._files.sync(folder)
        return StagedFile(path=path, size=size, sha256=digest.hexdigest())

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Make the folder before a file is written; raises SinkError if that fails."""
        try:
            self._files.make_root(sync=True)
            self._files.make_folders(self._folder)
            yield
        except OSError as error:
            raise SinkError(f"{SINK} cannot write to {self._root}/{self._folder}: {error.strerror or error}") from error

    def _parts(self, chunks: Sequence[bytes]) -> Iterator[bytes]:
        yield _MAGIC
        for chunk in chunks:
            yield len(chunk).to_bytes(_LENGTH, "big")
            yield chunk

    def note_committed(self, checkpoint_id: int, servers: str) -> None:
        """Store which checkpoint was written last to these brokers, which forget their marker after a week."""
        with self._writing():
            self._files.replace(self._note(servers), str(checkpoint_id).encode(), sync=True)

    def noted(self, servers: str) -> int | None:
        """Return the checkpoint id that `note_committed` stored for these brokers; None = none."""
        try:
            text = self._files.read(self._note(servers), limit=100)
        except OSError:
            return None
        return int(text) if text.isdigit() else None

    def _note(self, servers: str) -> str:
        return f"{self._folder}/committed-{hashlib.sha256(servers.encode()).hexdigest()[:16]}"

    def names(self) -> list[str]:
        """Return the paths of the files of messages, relative to the root."""
        try:
            return [f"{self._folder}/{name}" for name in self._files.names(self._folder) if name.endswith(".messages")]
        except OSError:
            return []


def read(root: PurePath, file: StagedFile) -> list[bytes]:
    """Return the runs of messages in a file; raises ForeignCheckpointError if it is missing or was changed."""
    if _PATH.fullmatch(file.path) is None:
        raise ForeignCheckpointError(
            f"{SINK}: the checkpoint names {file.path[:200]!r}, which is no file of messages",
            hint="the checkpoint was tampered with.",
        )
    try:
        data = files_at(root).read(file.path, limit=file.size + 1)
    except FileNotFoundError as error:
        raise ForeignCheckpointError(
            f"{SINK}: {root}/{file.path} is gone, whose messages were not written to Kafka yet",
            hint="the folder of the job's checkpoints also holds messages that wait for their checkpoint: leave it as it is.",
        ) from error
    except OSError as error:
        raise SinkError(f"{SINK}: {root}/{file.path} cannot be read: {error.strerror or error}") from error
    if len(data) != file.size or hashlib.sha256(data).hexdigest() != file.sha256:
        raise ForeignCheckpointError(
            f"{SINK}: {root}/{file.path} is not what was written: {len(data)} bytes, {file.size} expected",
            hint="the file was damaged or changed; start from another checkpoint.",
        )
    chunks, at = [], len(_MAGIC)
    while at < len(data):
        length = int.from_bytes(data[at : at + _LENGTH], "big")
        chunks.append(data[at + _LENGTH : at + _LENGTH + length])
        at += _LENGTH + length
    return chunks


def remove_staged(paths: Iterable[tuple[PurePath, str]]) -> None:
    """Remove files of messages that no checkpoint needs any more, by root and path; one that cannot be removed is left."""
    for root, path in paths:
        if _PATH.fullmatch(path) is not None:
            with suppress(OSError):
                files_at(root).remove(path)

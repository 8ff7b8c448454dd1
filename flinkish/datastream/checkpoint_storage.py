"""Objects that say where checkpoints are written; Flink 2.x uses configuration keys instead (execution.checkpointing.dir)."""

from __future__ import annotations

from abc import ABC
from typing import Any, Final

from flinkish.common import options
from flinkish.common.arguments import check, int_of, text_of
from flinkish.common.configuration import Configuration
from flinkish.common.errors import UnsupportedError
from flinkish.common.paths import as_flink_shows, location

__all__ = ["CheckpointStorage", "CustomCheckpointStorage", "FileSystemCheckpointStorage", "JobManagerCheckpointStorage"]


class CheckpointStorage(ABC):  # noqa: B024 - a common base, as in PyFlink
    """Base of all checkpoint storages.

    All checkpoints of flinkish are versions of a Delta table in a folder; storages differ only in who chooses the folder.
    """

    def get_savepoint_path(self) -> str | None:
        """Return None: the default folder of savepoints is a setting of StreamExecutionEnvironment."""
        return None


class JobManagerCheckpointStorage(CheckpointStorage):
    """Checkpoints in a folder that flinkish chooses, or in `checkpoint_path`.

    Differs from Flink: checkpoints are not kept in memory, and their size is not limited.
    """

    DEFAULT_MAX_STATE_SIZE: Final = 5 * 1024 * 1024

    def __init__(self, checkpoint_path: str | None = None, max_state_size: int | None = None) -> None:
        self._path = None if checkpoint_path is None else _checked_path(checkpoint_path)
        size = self.DEFAULT_MAX_STATE_SIZE if max_state_size is None else max_state_size
        self._max_state_size = int_of("max_state_size", size, minimum=1)

    def get_checkpoint_path(self) -> str | None:
        """Return the folder, None if flinkish chooses it."""
        return self._path

    def get_max_state_size(self) -> int:
        """Return the maximum size of a state in bytes, as it was set; it is not enforced."""
        return self._max_state_size

    def __str__(self) -> str:
        return f"JobManagerCheckpointStorage (checkpoints to JobManager) ( maxStateSize: {self._max_state_size})"


class FileSystemCheckpointStorage(CheckpointStorage):
    """Checkpoints in a folder: a URI with its scheme, such as `file:///var/checkpoints` or `s3://bucket/checkpoints`.

    Differs from Flink: an absolute path without a scheme names a local folder.

    Args:
        checkpoint_path: the folder.
        file_state_size_threshold: bytes, -1 to 1048576; stored, but without effect: state files are never inlined.
        write_buffer_size: bytes; stored, but without effect.
    """

    MAX_FILE_STATE_THRESHOLD: Final = 1024 * 1024

    def __init__(
        self, checkpoint_path: str | None = None, file_state_size_threshold: int | None = None, write_buffer_size: int = -1
    ) -> None:
        check(
            checkpoint_path is not None,
            "checkpoint_path must not be None.",
            hint='name a folder: FileSystemCheckpointStorage("file:///var/checkpoints").',
        )
        self._path = _checked_path(checkpoint_path)
        threshold = -1 if file_state_size_threshold is None else file_state_size_threshold
        int_of("file_state_size_threshold", threshold, minimum=-1, maximum=self.MAX_FILE_STATE_THRESHOLD)
        int_of("write_buffer_size", write_buffer_size, minimum=-1)
        self._threshold = options.FS_SMALL_FILE_THRESHOLD.default if threshold == -1 else threshold
        self._write_buffer_size = options.FS_WRITE_BUFFER_SIZE.default if write_buffer_size == -1 else write_buffer_size

    def get_checkpoint_path(self) -> str:
        """Return the folder without a trailing slash."""
        return self._path

    def get_min_file_size_threshold(self) -> int:
        """Return the value of `file_state_size_threshold` in bytes."""
        return self._threshold

    def get_write_buffer_size(self) -> int:
        """Return the value of `write_buffer_size` in bytes."""
        return self._write_buffer_size

    def __str__(self) -> str:
        return f"FileSystemCheckpointStorage ({self._path})"


class CustomCheckpointStorage(CheckpointStorage):
    """Refused: in PyFlink it wraps a Java class, which flinkish does not have."""

    def __init__(self, j_custom_checkpoint_storage: Any) -> None:
        raise UnsupportedError(
            "CustomCheckpointStorage wraps a Java class, and flinkish runs no Java user code.",
            hint="use FileSystemCheckpointStorage, or the key execution.checkpointing.dir.",
        )


def configuration_of_storage(storage: CheckpointStorage) -> Configuration:
    """Return a configuration with the settings of a storage object."""
    configuration = Configuration()
    match storage:
        case FileSystemCheckpointStorage():
            configuration.set(options.CHECKPOINT_STORAGE, "filesystem")
            configuration.set(options.CHECKPOINTS_DIRECTORY, storage.get_checkpoint_path())
            configuration.set(options.FS_SMALL_FILE_THRESHOLD, storage.get_min_file_size_threshold())
            configuration.set(options.FS_WRITE_BUFFER_SIZE, storage.get_write_buffer_size())
        case JobManagerCheckpointStorage():
            configuration.set(options.CHECKPOINT_STORAGE, "jobmanager")
            path = storage.get_checkpoint_path()
            if path is not None:
                configuration.set(options.CHECKPOINTS_DIRECTORY, path)
        case _:
            raise UnsupportedError(
                f"a checkpoint storage of type {type(storage).__name__} is not known here.",
                hint="use FileSystemCheckpointStorage.",
            )
    return configuration


def _checked_path(path: Any) -> str:
    text_of("checkpoint_path", path, empty=True)
    path = path.strip()
    place = location(path)
    check(
        place.path.startswith("/") or bool(place.host),
        f"checkpoint_path must be absolute, best with a scheme (file://, s3://, ...); got {path!r}.",
        hint=f'for a local folder write "file:///{path.lstrip("/")}" with its full path.',
    )
    shown = as_flink_shows(path)
    check(
        shown not in ("/", "file:/", "file:"),
        f"checkpoint_path must not be the root directory; got {path!r}.",
        hint="name a folder below it, such as file:///var/checkpoints.",
    )
    return shown

"""Objects that say where keyed state is kept while a job runs; Flink 2.x uses configuration keys instead (state.backend.type)."""

from __future__ import annotations

import os.path
import re
from abc import ABC
from enum import Enum
from typing import Any

from flinkish.common import options
from flinkish.common.absent import add_getattr
from flinkish.common.arguments import check, instance_of, int_of, text_of
from flinkish.common.configuration import Configuration
from flinkish.common.errors import InvalidArgumentError, UnsupportedError
from flinkish.common.paths import as_flink_shows, location

__all__ = ["CustomStateBackend", "EmbeddedRocksDBStateBackend", "HashMapStateBackend", "PredefinedOptions", "StateBackend"]


class StateBackend(ABC):  # noqa: B024 - a common base, as in PyFlink
    """Base of the state backends."""


class HashMapStateBackend(StateBackend):
    """Keyed state as Python objects in the memory of the task's slot."""

    def __str__(self) -> str:
        return "HashMapStateBackend"


class PredefinedOptions(Enum):
    """Predefined sets of RocksDB options; stored, but without effect."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """Keyed state on disk, in RocksDB, which may be larger than memory. It needs the extra `flinkish[rocksdb]`.

    Differs from Flink: the folders are below io.tmp.dirs, and memory is limited by state.backend.rocksdb.memory.fixed-per-slot.
    Paths, predefined options and the number of threads are stored and can be read, but have no effect.
    """

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        if enable_incremental_checkpointing not in (None, True, False):
            raise InvalidArgumentError(
                f"enable_incremental_checkpointing must be None, True or False; got {enable_incremental_checkpointing!r}."
            )
        self.incremental = enable_incremental_checkpointing
        self._paths: list[str] = []
        self._predefined_options = PredefinedOptions.DEFAULT
        self._transfer_threads = 4

    def set_db_storage_paths(self, *paths: str) -> None:
        """Set the folders of the database (absolute local paths); without an argument, restore the default."""
        folders = []
        for path in paths:
            text_of("a storage path", path, empty=True)
            place = location(path)
            check(
                place.scheme in ("", "file"),
                f"a storage path must be a folder of the machines that run the tasks; got {path!r}.",
                hint="name a local folder, such as /var/rocksdb.",
            )
            check(os.path.isabs(place.path), f"a storage path must be absolute; got {path!r}.")
            # As Flink's use of Java's File: the normalized path of a URL, but a plain path with its dots.
            folders.append(location(as_flink_shows(path)).path if place.scheme else re.sub("/+", "/", path).rstrip("/") or "/")
        self._paths = folders

    def get_db_storage_paths(self) -> list[str]:
        """Return the folders of the database; the list is empty by default."""
        return list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        """Return whether incremental checkpoints were enabled; if not given, execution.checkpointing.incremental decides."""
        return bool(self.incremental)

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Select a predefined set of options; without effect."""
        self._predefined_options = instance_of("options", options, PredefinedOptions)

    def get_predefined_options(self) -> PredefinedOptions:
        """Return the selected set of options."""
        return self._predefined_options

    def set_options(self, options_factory_class_name: str) -> None:
        """Raise UnsupportedError: the argument names a Java class, which flinkish cannot run."""
        raise UnsupportedError(
            f"set_options({options_factory_class_name!r}): flinkish runs no Java user code.",
            hint="leave it out; state.backend.rocksdb.memory.fixed-per-slot limits the memory.",
        )

    def get_options(self) -> str | None:
        """Return None: no Java class can be set."""
        return None

    def get_number_of_transfer_threads(self) -> int:
        """Return the number of threads that was set."""
        return self._transfer_threads

    def set_number_of_transfer_threads(self, number_of_transfering_threads: int) -> None:
        """Set how many threads transfer files, at least 1; stored, but without effect."""
        self._transfer_threads = int_of("the number of transfer threads", number_of_transfering_threads, minimum=1)

    def __str__(self) -> str:
        return f"EmbeddedRocksDBStateBackend(enable_incremental_checkpointing={self.incremental})"


class CustomStateBackend(StateBackend):
    """Refused: in PyFlink it wraps a Java class, which flinkish does not have."""

    def __init__(self, j_custom_state_backend: Any) -> None:
        raise UnsupportedError(
            "CustomStateBackend wraps a Java class, and flinkish runs no Java user code.", hint="use HashMapStateBackend()."
        )


def configuration_of_backend(backend: StateBackend) -> Configuration:
    """Return a configuration with the settings of a backend object."""
    configuration = Configuration()
    match backend:
        case HashMapStateBackend():
            configuration.set(options.STATE_BACKEND, "hashmap")
        case EmbeddedRocksDBStateBackend():
            configuration.set(options.STATE_BACKEND, "rocksdb")
            if backend.incremental is not None:
                configuration.set(options.INCREMENTAL_CHECKPOINTS, backend.incremental)
        case _:
            raise UnsupportedError(
                f"a state backend of type {type(backend).__name__} is not known here.", hint="use HashMapStateBackend()."
            )
    return configuration


add_getattr(__name__)

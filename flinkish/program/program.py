"""A program as it is handed from the API to whatever runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkish.program.transformations import Transformation, TransformationId

if TYPE_CHECKING:
    from flinkish.common.configuration import Configuration
    from flinkish.common.execution_config import ExecutionConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedFile:
    """A file that each task can read locally; Flink's distributed cache."""

    name: str
    path: str
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonArchive:
    """A zip or tar file that is unpacked in the tasks' working folder, below `target_directory` (None: the file's name)."""

    path: str
    target_directory: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonRequirements:
    """A requirements.txt to be installed for the tasks, from `cache_directory` (offline) if that is given."""

    path: str
    cache_directory: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """What the fluent methods recorded: complete, checked and immutable; building it started nothing.

    `transformations` are in the order in which they were made, so each stands behind its inputs; with the virtual ones, and only
    those that lead to a sink. `configuration` is the merged one: configuration file, -D settings, the environment's
    Configuration and what its setters and CheckpointConfig changed; `parallelism`, `chaining` and the like are the effective
    values of the same settings.
    """

    job_name: str
    transformations: Mapping[TransformationId, Transformation]
    configuration: Configuration
    execution_config: ExecutionConfig
    parallelism: int
    #: -1: derived from the parallelism, as Flink does (128 for small ones).
    max_parallelism: int
    chaining: bool
    #: Whether operators of different max parallelism may be chained.
    chaining_with_different_max_parallelism: bool
    #: Milliseconds; -1 flushes by size only.
    buffer_timeout: int
    cached_files: tuple[CachedFile, ...] = ()
    #: Files, folders and zip files that are put on the tasks' sys.path.
    python_files: tuple[str, ...] = ()
    python_archives: tuple[PythonArchive, ...] = ()
    python_requirements: PythonRequirements | None = None
    python_executable: str | None = None

"""A program as the API passes it to the executor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flinkish.common.configuration import Configuration
from flinkish.program.dead_letters import DeadLetterTable
from flinkish.program.transformations import Transformation, TransformationId


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedFile:
    """A file that each task can read locally; Flink's distributed cache."""

    name: str
    path: str
    executable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonArchive:
    """A zip or tar file that is unpacked in the tasks' working folder, below `target_directory` (None = the file's name)."""

    path: str
    target_directory: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonRequirements:
    """A requirements.txt to install for the tasks, offline from `cache_directory` if that is given."""

    path: str
    cache_directory: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """The program recorded by the fluent methods: complete, checked and immutable.

    `transformations` are in the order of their creation, so each comes after its inputs; virtual ones are included, and only
    those that lead to a sink. `configuration` is the merged one: configuration file, -D settings, the environment's Configuration
    and the changes by its setters and CheckpointConfig.
    """

    job_name: str
    transformations: Mapping[TransformationId, Transformation]
    configuration: Configuration
    cached_files: tuple[CachedFile, ...] = ()
    #: Files, folders and zip files that are added to the tasks' sys.path.
    python_files: tuple[str, ...] = ()
    python_archives: tuple[PythonArchive, ...] = ()
    #: A zip file with the modules of the program itself, which is already on this process's sys.path: a session was sent it.
    own_modules: str | None = None
    python_requirements: PythonRequirements | None = None
    #: Writes and commits dead letters; see program/dead_letters.py.
    dead_letters: DeadLetterTable | None = None

"""The state of a server: its jobs, its operations, its settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import PurePath

from flinkish.common.clock import Clock
from flinkish.server.logs import Logs
from flinkish.server.operations import Operations
from flinkish.server.process_figures import ProcessFigures
from flinkish.server.served_jobs import ServedJobs
from flinkish.server.server_settings import ServerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """The parts of a server that its handlers use."""

    settings: ServerSettings
    clock: Clock
    jobs: ServedJobs
    operations: Operations
    #: Returns the id of a job that still needs the savepoint at a root, or None. If it is not set, the jobs of this process are
    #: checked.
    needing_savepoint: Callable[[PurePath], str | None] | None = None
    #: Host and port under which clients reach the server.
    address: str = ""
    logs: Logs = field(default_factory=Logs)
    processes: ProcessFigures = field(default_factory=ProcessFigures)

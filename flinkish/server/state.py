"""What a server knows: its jobs, its operations, its settings."""

from __future__ import annotations

from dataclasses import dataclass

from flinkish.common.clock import Clock
from flinkish.server.jobs import ServedJobs
from flinkish.server.operations import Operations
from flinkish.server.settings import ServerSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerState:
    """The parts that handlers work on."""

    settings: ServerSettings
    clock: Clock
    jobs: ServedJobs
    operations: Operations
    #: Host and port under which clients reach the server.
    address: str = ""

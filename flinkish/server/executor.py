"""Runs programs as `engine.executor` does; starts the configured server and reporters first."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from flinkish.common import redaction
from flinkish.engine import executor
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.program.program import Program
from flinkish.server.application import ensure_server
from flinkish.server.reporting import ensure_reporters

if TYPE_CHECKING:
    from flinkish.server.session.reporter import SessionDriver

#: The driver that runs the programs of this process; None = the process does not belong to a session.
session: SessionDriver | None = None
execution_plan_json = executor.execution_plan_json
explain = executor.explain


def execute_async(program: Program) -> EmbeddedJobClient:
    """Start a program and return without waiting for it; see `engine.executor.execute_async`.

    In addition, it raises ConfigurationError for invalid settings of the server or of a reporter, and MissingPackageError if a
    reporter needs a package that is not installed. In the driver of a session, the job gets the id that the Dispatcher chose,
    and a second job raises InvalidProgramError.
    """
    redaction.remember({**os.environ, **program.configuration.to_dict()})
    ensure_reporters(program.configuration)
    if session is not None:
        return session.execute_async(program)
    ensure_server(program.configuration)
    return executor.execute_async(program)

"""Runs programs as `engine.executor` does; starts the configured server and reporters first.

In application mode, a driver serves the jobs of its own process. The server starts with the first job whose configuration names
a port, and ends with the process. Jobs that start later are served, too; if their settings of the server differ, a warning says
that they have no effect.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from flinkish.common import notices, redaction
from flinkish.common.clock import SystemClock
from flinkish.engine import executor
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.engine.job_list import RUNNING_JOBS
from flinkish.program.program import Program
from flinkish.server.reporting import ensure_reporters
from flinkish.server.server_settings import ServerSettings, server_settings

if TYPE_CHECKING:
    from flinkish.server.endpoint import Endpoint
    from flinkish.server.operations import Operations
    from flinkish.server.session.reporter import SessionDriver
    from flinkish.server.state import ServedJobs, ServerState

_log = logging.getLogger("flinkish.server")

_lock = threading.Lock()
#: The server of this process; None = it has none.
_state: ServerState | None = None
#: How long the process waits at its end for clients that have not fetched the results of their operations, in seconds.
_UNREAD_PATIENCE = 10.0
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
    ensure_server(server_settings(program.configuration))
    return executor.execute_async(program)


def ensure_server(settings: ServerSettings | None) -> ServerState | None:
    """Start the server of this process, if there are settings for one and the process has no server yet; return its state.

    Raises ConfigurationError if no port is free, or the certificate cannot be used.
    """
    if settings is None:
        return None
    global _state
    with _lock:
        if _state is None:
            _state = _serve(settings)
        # `shown` has the whole configuration of a job, which may differ.
        elif replace(settings, shown=()) != replace(_state.settings, shown=()):
            _log.warning(
                "A further job has other settings of the server (rest.*, web.*, jobstore.*), which have no effect, because "
                "the server of this process is already running."
            )
        return _state


def _serve(settings: ServerSettings) -> ServerState:
    # Imported late: jobs without a server do not need these modules.
    from flinkish.server.endpoint import Endpoint
    from flinkish.server.rest.app import make_app
    from flinkish.server.state import ServerState

    endpoint = Endpoint(settings)
    address = f"{settings.address}:{endpoint.listen()}"
    state = ServerState(settings, SystemClock(), address=address)
    jobs = state.jobs
    endpoint.serve(make_app(state))
    logging.getLogger("flinkish").addHandler(state.logs)
    RUNNING_JOBS.subscribe(jobs)
    for job in RUNNING_JOBS.running():
        if jobs.get(str(job.get_job_id())) is None:
            jobs.job_started(job)
    threading.Thread(target=_sample, args=(jobs,), name="flinkish-metric-history", daemon=True).start()
    atexit.register(_close, endpoint, state.operations)
    _log.info("The server answers at %s://%s.", settings.scheme, address)
    notices.tell(f"REST: {settings.scheme}://{address}/ (a browser shows the page)")
    return state


def _sample(jobs: ServedJobs) -> None:
    """Keep the metrics of the last hour, until the process ends."""
    from flinkish.server.state import STEP_MS

    while True:
        time.sleep(STEP_MS / 1000)
        try:
            jobs.sample()
        except Exception:
            _log.warning("The metrics of the jobs could not be sampled.", exc_info=True)


def _close(endpoint: Endpoint, operations: Operations) -> None:
    """Stop the server after clients have fetched the results of their operations.

    A job that was stopped ends before its client asks for the result, so the server waits for that request.
    """
    deadline = time.monotonic() + _UNREAD_PATIENCE
    while operations.has_unread() and time.monotonic() < deadline:
        time.sleep(0.05)
    endpoint.close()

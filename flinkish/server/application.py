"""Application mode: a driver serves the jobs of its own process.

The server starts with the first job whose configuration names a port, and ends with the process. Jobs that start later are
served, too; if their settings of the server differ, a warning says that they have no effect.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from flinkish.common import notices
from flinkish.common.clock import SystemClock
from flinkish.common.configuration import Configuration
from flinkish.engine.job_list import RUNNING_JOBS
from flinkish.server.server_settings import ServerSettings, server_settings

if TYPE_CHECKING:
    from flinkish.server.endpoint import Endpoint
    from flinkish.server.operations import Operations
    from flinkish.server.state import ServedJobs, ServerState

_log = logging.getLogger("flinkish.server")

_lock = threading.Lock()
#: The settings of this process's server.
_served: ServerSettings | None = None
_state: ServerState | None = None
#: How long the process waits at its end for clients that have not fetched the results of their operations, in seconds.
_UNREAD_PATIENCE = 10.0


def ensure_server(configuration: Configuration, settings: ServerSettings | None = None) -> ServerState | None:
    """Start the server of this process, if the configuration names a port and the process has no server yet.

    `settings` replace the settings in the configuration. Returns the state of the server; None if there is no server. Raises
    ConfigurationError if a setting is invalid or no port is free.
    """
    settings = settings or server_settings(configuration)
    if settings is None:
        return None
    global _served, _state
    with _lock:
        if _served is not None:
            # `shown` has the whole configuration of a job, which may differ.
            if replace(settings, shown=()) != replace(_served, shown=()):
                _log.warning(
                    "A further job has other settings of the server (rest.*, web.*, jobstore.*), which have no effect, because "
                    "the server of this process is already running."
                )
            return _state
        # Imported late: jobs without a server do not need these modules.
        from flinkish.server.endpoint import Endpoint
        from flinkish.server.rest.app import make_app
        from flinkish.server.state import ServerState

        endpoint = Endpoint(settings)
        port = endpoint.listen()
        address = f"{settings.address}:{port}"
        state = ServerState(settings, SystemClock(), address=address)
        jobs = state.jobs
        try:
            endpoint.serve(make_app(state))
        except BaseException:
            endpoint.close()
            raise
        logging.getLogger("flinkish").addHandler(state.logs)
        RUNNING_JOBS.subscribe(jobs)
        for job in RUNNING_JOBS.running():
            if jobs.get(str(job.get_job_id())) is None:
                jobs.job_started(job)
        threading.Thread(target=_sample, args=(jobs,), name="flinkish-metric-history", daemon=True).start()
        _served, _state = settings, state
        atexit.register(_close, endpoint, state.operations)
        _log.info("The server answers at %s://%s.", settings.scheme, address)
        notices.tell(f"REST: {settings.scheme}://{address}/ (a browser shows the page)")
        return state


def _sample(jobs: ServedJobs) -> None:
    """Keep the metrics of the last hour, until the process ends."""
    from flinkish.server.metric_history import STEP_MS

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

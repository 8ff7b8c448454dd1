"""One Dispatcher process: its servers, and the thread that lets it lead and look after the drivers."""

from __future__ import annotations

import logging
import secrets
import socket
import threading
from collections.abc import Sequence
from dataclasses import replace

from flinkish.common.clock import Clock, SystemClock
from flinkish.common.errors import FlinkishError
from flinkish.common.ids import IdSource
from flinkish.server.endpoint import Endpoint
from flinkish.server.logs import Logs
from flinkish.server.rest.app import Application, make_app
from flinkish.server.server_settings import ServerSettings
from flinkish.server.session.app import ReportsApp, SessionApplication
from flinkish.server.session.dispatcher import Dispatcher
from flinkish.server.session.dispatcher_settings import SessionSettings
from flinkish.server.session.drivers import forward, job_that_needs
from flinkish.server.session.entries import JobEntry
from flinkish.server.session.handlers import SessionState
from flinkish.server.session.leadership import NotLeaderError
from flinkish.server.session.processes import Processes
from flinkish.server.state import ServerState

_log = logging.getLogger("flinkish.server.session")

#: How often the Dispatcher looks after leadership and drivers, in seconds.
_STEP = 0.2
#: How long a shut-down waits for the ends of the jobs that it cancels, in seconds.
_CANCEL_PATIENCE = 30.0


class Service:
    """A Dispatcher from `start` to `close`."""

    def __init__(
        self,
        settings: SessionSettings,
        *,
        processes: Processes | None = None,
        clock: Clock | None = None,
        ids: IdSource = lambda: secrets.token_hex(16),
    ) -> None:
        self._settings = settings
        self._processes = processes or Processes()
        self._clock = clock or SystemClock()
        self._ids = ids
        self._ended = threading.Event()
        self._stopping = threading.Event()
        self._cancel_jobs = False
        #: The error of the last step; None = it had none.
        self._said: str | None = None

    def start(self) -> str:
        """Start the servers and return the address (a URL); raises ConfigurationError, OSError, and what a claim raises."""
        settings = self._settings
        self._endpoint = Endpoint(settings.server)
        port = self._endpoint.listen()
        self._reports = Endpoint(_local(settings.server))
        reports_port = self._reports.listen()
        name = settings.server.address
        address = f"{settings.server.scheme}://{socket.gethostname() if name == '0.0.0.0' else name}:{port}"
        self.dispatcher = Dispatcher(
            settings, self._processes, self._clock, self._ids, address=address, reports=f"127.0.0.1:{reports_port}"
        )
        self.dispatcher.open()
        # Before any client is answered: a session whose registry is damaged does not start.
        self.dispatcher.step()
        inner = ServerState(
            settings.server,
            self._clock,
            address=f"{name}:{port}",
            logs=Logs(more=self.dispatcher.logs_of_drivers),
            needing_savepoint=lambda root: job_that_needs(self.dispatcher, root),
        )
        state = SessionState(self.dispatcher, self.stop)
        self._reports.serve(ReportsApp(self.dispatcher))
        self._endpoint.serve(make_app(inner, SessionApplication(state, Application(inner))))
        threading.Thread(target=self._run, name="flinkish-dispatcher", daemon=True).start()
        return address

    def stop(self, cancel_jobs: bool) -> None:
        """Start to shut down; with `cancel_jobs`, all jobs are cancelled first."""
        self._cancel_jobs = self._cancel_jobs or cancel_jobs
        self._stopping.set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the end for at most `timeout` seconds (None = no limit); return whether it has been reached."""
        return self._ended.wait(timeout)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(_STEP):
                self._step()
            if self._cancel_jobs:
                self._cancel_all()
            self.dispatcher.leadership.resign()
        except OSError as error:
            _log.warning("This Dispatcher ends, but could not write that to the session's folder: %s", error)
        except Exception:
            _log.exception("The Dispatcher failed while it was ending.")
        finally:
            self._endpoint.close()
            self._reports.close()
            self._ended.set()

    def _step(self) -> None:
        """Do one step of the Dispatcher; an error is logged once."""
        before, self._said = self._said, None
        try:
            self.dispatcher.step()
        except (OSError, FlinkishError) as error:
            self._said = f"{type(error).__name__}: {error}"
            if self._said != before:
                root = self._settings.root
                _log.warning("The session's storage %s does not work; the Dispatcher tries again: %s", root, self._said)
        except Exception as error:
            self._said = repr(error)
            if self._said != before:
                _log.exception("A step of the Dispatcher failed; it continues with the next one.")

    def _cancel_all(self) -> None:
        """Cancel all jobs and wait until they have ended, so that none is left without a Dispatcher."""
        deadline = self._clock.monotonic() + int(1000 * _CANCEL_PATIENCE)
        try:
            for job in self._running():
                self._cancel(job)
            while self._running() and self._clock.monotonic() < deadline:
                threading.Event().wait(_STEP)
                self._step()
            for job in self._running():
                _log.warning("Job %s has not ended within %g s; the session ends without it.", job.job_id, _CANCEL_PATIENCE)
        except NotLeaderError as error:
            _log.warning("Not all jobs could be cancelled: %s", error)

    def _running(self) -> Sequence[JobEntry]:
        return [job for job in self.dispatcher.jobs() if job.status is None]

    def _cancel(self, job: JobEntry) -> None:
        """Cancel one job; an error is logged, because the others must be cancelled all the same. Raises NotLeaderError."""
        self.dispatcher.note_cancel(job)
        report = self.dispatcher.driver(job)
        if report is None:
            return
        try:
            reply = forward(report, "PATCH", f"/jobs/{job.job_id}", {"mode": "cancel"}, b"{}", 5.0)
        except OSError as error:
            _log.warning("Job %s could not be cancelled: %s", job.job_id, error)
            return
        if reply.status >= 400:
            _log.warning("Job %s could not be cancelled: %s", job.job_id, reply.body.decode("utf-8", "replace"))


def _local(settings: ServerSettings) -> ServerSettings:
    """Return settings for a free port that only this machine can reach, without TLS."""
    return replace(settings, bind_address="127.0.0.1", address="127.0.0.1", ports=(0,), tls=None)

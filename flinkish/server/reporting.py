"""Reporters of this process: started with the first job that configures some, ended with the process.

They report the metrics of all jobs of the process. Each reporter with an interval has a thread; Prometheus sends requests.
Nothing is measured only for them, so they add no cost per record.

A job is reported once more at its end, so that the figures of a job that is shorter than the interval are not lost. Its history
table and the log have that report before clients learn of the end; a report to another machine is sent in the background.
"""

from __future__ import annotations

import atexit
import logging
import socket
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from flinkish.common import notices
from flinkish.common.clock import Clock, SystemClock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError, FlinkishError, JobNotFoundError
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.engine.job_list import RUNNING_JOBS
from flinkish.jobmaster.job_master import JobMaster
from flinkish.metrics.reporters.base import Reporter
from flinkish.metrics.reporters.history import HistoryReporter
from flinkish.metrics.reporters.log import LogReporter
from flinkish.metrics.reporters.prometheus import CONTENT_TYPE, PrometheusText
from flinkish.metrics.reporters.reporter_settings import ReporterKind, ReporterSettings, reporter_settings
from flinkish.metrics.samples import Sample
from flinkish.server.metrics import all_samples, job_samples
from flinkish.server.server_settings import server_settings
from flinkish.server.views.job_view import look_at

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from flinkish.server.endpoint import Endpoint

_log = logging.getLogger("flinkish.metrics")

_lock = threading.Lock()
#: The reporters of this process.
_reported: tuple[ReporterSettings, ...] | None = None


def ensure_reporters(configuration: Configuration) -> None:
    """Start the reporters that a configuration names, unless this process has reporters already.

    Raises ConfigurationError for invalid settings, and MissingPackageError if an extra is not installed.
    """
    settings = reporter_settings(configuration)
    if not settings:
        return
    global _reported
    with _lock:
        if _reported is not None:
            if settings != _reported:
                _log.warning(
                    "A further job has other settings of reporters (metrics.reporter.*), which have no effect, because the "
                    "reporters of this process are already running."
                )
            return
        reporters = Reporters(settings, configuration, SystemClock())
        atexit.register(reporters.close)
        _reported = settings


class Reporters:
    """All reporters of a process, from construction to `close`."""

    def __init__(self, settings: Sequence[ReporterSettings], configuration: Configuration, clock: Clock) -> None:
        """Start the reporters; if one cannot be started, close the others and raise its error."""
        self._clock = clock
        self._host = socket.gethostname()
        self._closers: list[Endpoint | _Schedule] = []
        #: Jobs that are being reported for the last time, by their ids.
        self._ending: dict[str, JobMaster] = {}
        #: The ports of the Prometheus reporters, by the reporters' names.
        self.ports: dict[str, int] = {}
        try:
            for each in settings:
                if each.kind is ReporterKind.PROMETHEUS:
                    self._serve(each, configuration)
                else:
                    self._closers.append(_Schedule(self, each, self._make(each), self._clock))
        except BaseException:
            self.close()
            raise
        RUNNING_JOBS.subscribe(self)

    def samples(self) -> Sequence[Sample]:
        """Return the metrics of all running jobs; may be called from any thread."""
        views = [look_at(job.job_master, clock=self._clock) for job in RUNNING_JOBS.running()]
        return all_samples(views, self._host)

    def job_started(self, job: EmbeddedJobClient) -> None:
        """Do nothing: the next report has the job."""

    def job_ended(self, job: EmbeddedJobClient) -> None:
        """Report a job for the last time."""
        master = job.job_master
        samples = list(job_samples(look_at(master, clock=self._clock), self._host))
        self._ending[master.setup.job_id] = master
        try:
            for closer in self._closers:
                if isinstance(closer, _Schedule):
                    closer.report_last(samples)
        finally:
            del self._ending[master.setup.job_id]

    def close(self) -> None:
        """Report a last time, and close all reporters."""
        RUNNING_JOBS.unsubscribe(self)
        closers, self._closers = self._closers, []
        for closer in closers:
            closer.close()

    def _make(self, settings: ReporterSettings) -> Reporter:
        match settings.kind:
            case ReporterKind.OPEN_TELEMETRY:
                from flinkish.metrics.reporters.opentelemetry import OpenTelemetryReporter

                return OpenTelemetryReporter(settings, self._clock)
            case ReporterKind.HISTORY:
                return HistoryReporter(settings, self._note)
            case _:
                return LogReporter(settings)

    def _note(self, job_id: str, values: Mapping[str, object]) -> None:
        master = self._ending.get(job_id)
        if master is None:
            try:
                master = RUNNING_JOBS.get(job_id).job_master
            except JobNotFoundError:  # it ended since the look
                return
        master.note_metrics(values)

    def _serve(self, settings: ReporterSettings, configuration: Configuration) -> None:
        from flinkish.server.endpoint import Endpoint
        from flinkish.server.rest.trust import Gate

        served = server_settings(configuration, ports=settings.ports)
        assert served is not None
        endpoint = Endpoint(served)
        try:
            port = endpoint.listen()
        except ConfigurationError as error:
            raise ConfigurationError(
                f"the reporter {settings.name!r} finds no port",
                hint=f"set metrics.reporter.{settings.name}.port to a range such as 9250-9260.",
            ) from error
        self._closers.append(endpoint)
        endpoint.serve(Gate(_page_of(PrometheusText(settings, self.samples)), served))
        self.ports[settings.name] = port
        _log.info("The metrics for Prometheus are at %s://%s:%d/metrics.", served.scheme, served.address, port)
        notices.tell(f"Metrics: {served.scheme}://{served.address}:{port}/metrics")


def _page_of(prometheus: PrometheusText) -> ASGIApp:
    """Return the application that answers GET /metrics, and / as Flink's reporter does."""
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import PlainTextResponse, Response

    async def page(scope: Scope, receive: Receive, send: Send) -> None:
        response: ASGIApp
        if scope["method"] != "GET" or scope["path"] not in ("/", "/metrics", "/metrics/"):
            response = PlainTextResponse("The metrics are at /metrics.\n", 404)
        else:
            response = Response(await run_in_threadpool(prometheus.text), headers={"Content-Type": CONTENT_TYPE})
        await response(scope, receive, send)

    return page


class _Schedule:
    """Reports at an interval, in a thread of its own."""

    def __init__(self, reporters: Reporters, settings: ReporterSettings, reporter: Reporter, clock: Clock) -> None:
        self._reporters = reporters
        self._settings = settings
        self._reporter = reporter
        self._clock = clock
        self._wake = threading.Event()
        self._closed = False
        #: Held during a look and its report, so that no earlier look follows the last one.
        self._lock = threading.Lock()
        #: Jobs to report for the last time in the thread.
        self._last: deque[Sequence[Sample]] = deque()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name=f"flinkish-metrics-{settings.name}", daemon=True)
        self._thread.start()

    def report_last(self, samples: Sequence[Sample]) -> None:
        """Report a job that has ended: at once, or soon if that may take long, so that the job's end does not wait for it."""
        if self._settings.kind is ReporterKind.OPEN_TELEMETRY:
            self._last.append(samples)
            self._wake.set()
        else:
            self._report(lambda: samples)

    def close(self) -> None:
        self._closed = True
        self._wake.set()
        self._thread.join(10)
        self._report_ended()
        self._report(self._reporters.samples)
        self._reporter.close()

    def _run(self) -> None:
        due = self._clock.monotonic() + self._settings.own["interval"]
        while True:
            self._wake.wait(max(0, due - self._clock.monotonic()) / 1000)
            self._wake.clear()
            if self._closed:
                return
            self._report_ended()
            if self._clock.monotonic() >= due:
                due = self._clock.monotonic() + self._settings.own["interval"]
                self._report(self._reporters.samples)

    def _report_ended(self) -> None:
        while self._last:
            samples = self._last.popleft()
            self._report(lambda: samples)  # noqa: B023

    def _report(self, look: Callable[[], Sequence[Sample]]) -> None:
        with self._lock:
            try:
                self._reporter.report(look())
            except Exception as error:
                # Only one warning until it works again: a collector may be unreachable for hours.
                if not self._failing:
                    text = str(error) if isinstance(error, FlinkishError) else f"{type(error).__name__}: {error}"
                    _log.warning("The reporter %r failed; it is tried again at its interval: %s", self._settings.name, text)
                self._failing = True
            else:
                self._failing = False

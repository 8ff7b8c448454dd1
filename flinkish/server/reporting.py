"""Reporters of this process: started with the first job whose configuration has some, ended with the process.

They show the metrics of all jobs of the process. Reports at intervals have a thread each; Prometheus asks by itself. Nothing is
measured for them that is not measured anyway, so a job costs the same with and without them.
"""

from __future__ import annotations

import atexit
import logging
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flinkish.common import notices
from flinkish.common.clock import Clock, SystemClock
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError, FlinkishError, JobNotFoundError
from flinkish.engine.jobs import RUNNING_JOBS
from flinkish.metrics.reporters.base import Reporter
from flinkish.metrics.reporters.history import HistoryReporter
from flinkish.metrics.reporters.log import LogReporter
from flinkish.metrics.reporters.prometheus import CONTENT_TYPE, PrometheusText
from flinkish.metrics.reporters.settings import ReporterKind, ReporterSettings, reporter_settings
from flinkish.metrics.samples import Sample
from flinkish.server.samples import all_samples
from flinkish.server.settings import server_settings
from flinkish.server.views.job_view import look_at

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from flinkish.server.endpoint import Endpoint

_log = logging.getLogger("flinkish.metrics")

_lock = threading.Lock()
#: The reporters of this process.
_reported: tuple[ReporterSettings, ...] | None = None


def ensure_reporters(configuration: Configuration) -> None:
    """Start the reporters that a configuration names, unless this process has some already.

    Raises ConfigurationError for wrong settings, and MissingPackageError if an extra is not installed.
    """
    settings = reporter_settings(configuration)
    if not settings:
        return
    global _reported
    with _lock:
        if _reported is not None:
            if settings != _reported:
                _log.warning("A further job has other settings of reporters (metrics.reporter.*), which have no effect.")
            return
        reporters = Reporters(settings, configuration, SystemClock())
        atexit.register(reporters.close)
        _reported = settings


class Reporters:
    """All reporters of a process, from construction to `close`."""

    def __init__(self, settings: Sequence[ReporterSettings], configuration: Configuration, clock: Clock) -> None:
        """Start them; if one cannot be started, the others are ended."""
        self._clock = clock
        self._host = socket.gethostname()
        self._closers: list[Endpoint | _Schedule] = []
        #: Where a Prometheus reporter answers, by its name.
        self.ports: dict[str, int] = {}
        try:
            for each in settings:
                self._start(each, configuration)
        except BaseException:
            self.close()
            raise

    def samples(self) -> Sequence[Sample]:
        """Look at all running jobs; may be called from any thread."""
        looks = [look_at(job.job_master, clock=self._clock) for job in RUNNING_JOBS.running()]
        return all_samples(looks, self._host)

    def close(self) -> None:
        """Report once more, and end all reporters."""
        closers, self._closers = self._closers, []
        for closer in closers:
            closer.close()

    def _start(self, settings: ReporterSettings, configuration: Configuration) -> None:
        if settings.kind is ReporterKind.PROMETHEUS:
            self._serve(settings, configuration)
            return
        schedule = _Schedule(self, settings, self._make(settings))
        schedule.start()
        self._closers.append(schedule)

    def _make(self, settings: ReporterSettings) -> Reporter:
        match settings.kind:
            case ReporterKind.OPEN_TELEMETRY:
                from flinkish.metrics.reporters.opentelemetry import OpenTelemetryReporter

                return OpenTelemetryReporter(settings, self._clock)
            case ReporterKind.HISTORY:
                return HistoryReporter(settings, _note)
            case _:
                return LogReporter(settings)

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
        endpoint.serve(Gate(_PrometheusPage(PrometheusText(settings, self.samples)), served))
        self.ports[settings.name] = port
        _log.info("Prometheus finds the metrics at %s://%s:%d/metrics.", served.scheme, served.address, port)
        notices.tell(f"Metrics: {served.scheme}://{served.address}:{port}/metrics")


class _PrometheusPage:
    """Answers GET /metrics, and / as Flink's reporter does."""

    def __init__(self, text: PrometheusText) -> None:
        self._text = text

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import PlainTextResponse, Response

        response: ASGIApp
        if scope["method"] != "GET" or scope["path"] not in ("/", "/metrics", "/metrics/"):
            response = PlainTextResponse("There are metrics at /metrics.\n", 404)
        else:
            response = Response(await run_in_threadpool(self._text.text), headers={"Content-Type": CONTENT_TYPE})
        await response(scope, receive, send)


@dataclass
class _Schedule:
    """Reports at an interval, in a thread of its own."""

    reporters: Reporters
    settings: ReporterSettings
    reporter: Reporter

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name=f"flinkish-metrics-{self.settings.name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)
        self._report()
        self.reporter.close()

    def _run(self) -> None:
        while not self._stop.wait(self.settings.own["interval"] / 1000):
            self._report()

    def _report(self) -> None:
        try:
            self.reporter.report(self.reporters.samples())
        except Exception as error:
            # Once, until it works again: a collector may be away for hours.
            if not self._failing:
                text = str(error) if isinstance(error, FlinkishError) else f"{type(error).__name__}: {error}"
                _log.warning("The reporter %r failed, and is tried again: %s", self.settings.name, text)
            self._failing = True
        else:
            self._failing = False


def _note(job_id: str, values: Mapping[str, object]) -> None:
    try:
        master = RUNNING_JOBS.get(job_id).job_master
    except JobNotFoundError:  # it ended since the look
        return
    master.note_metrics(values)

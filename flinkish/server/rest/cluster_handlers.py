"""Handlers of the paths about the whole server: /config, /overview, /applications, /jobs, /datasets."""

from __future__ import annotations

import time
from collections import Counter
from typing import NoReturn

import msgspec

from flinkish.common.job_status import JobStatus
from flinkish.server import metrics
from flinkish.server.answers import cluster as answers
from flinkish.server.answers.jobs import JobIds, JobIdWithStatus, JobSummaries, JobSummary
from flinkish.server.answers.vertices import AggregatedMetric
from flinkish.server.flink_version import FLINK_COMMIT, FLINK_VERSION
from flinkish.server.rest.calls import Call, JobCall, RestError
from flinkish.server.rest.job_handlers import aggregated, aggregations, by_name
from flinkish.server.server_settings import ServerSettings
from flinkish.server.state import ServerState
from flinkish.server.views import jobs
from flinkish.server.views.job_view import JobView

#: Names in Flink's ApplicationState for those states of a job that have another name there.
_APPLICATION_STATES = {"RESTARTING": "RUNNING", "CANCELLING": "CANCELING", "SUSPENDED": "FINISHED", "RECONCILING": "RUNNING"}


def dashboard(settings: ServerSettings, *, web_submit: bool) -> answers.DashboardConfiguration:
    """Return /config of a server with these settings."""
    zone = time.localtime()
    return answers.DashboardConfiguration(
        refresh_interval=settings.refresh_interval,
        timezone_name=zone.tm_zone,
        timezone_offset=zone.tm_gmtoff * 1000,
        flink_version=FLINK_VERSION,
        flink_revision=FLINK_COMMIT,
        features=answers.Features(web_submit=web_submit, web_cancel=settings.cancel_enabled),
    )


def application_summary(job: JobSummary) -> answers.ApplicationSummary:
    """Return the line in /applications of the application that is one job."""
    return answers.ApplicationSummary(
        id=job.jid,
        name=f"SingleJobApplication({job.name})",
        start_time=job.start_time,
        end_time=job.end_time,
        duration=job.duration,
        status=_APPLICATION_STATES.get(job.state, job.state),
        jobs={job.state: 1},
    )


def config(state: ServerState, call: Call) -> answers.DashboardConfiguration:
    return dashboard(state.settings, web_submit=False)


def overview(state: ServerState, call: Call) -> answers.ClusterOverview:
    views = _views(state)
    counts = Counter(view.status for view in views)
    running = [view for view in views if not view.status.is_terminal_state()]
    return answers.ClusterOverview(
        taskmanagers=sum(len(view.task_managers) for view in running),
        slots_total=sum(view.setup.plan.slots for view in running),
        slots_available=0,
        jobs_running=len(running),
        jobs_finished=counts[JobStatus.FINISHED],
        jobs_cancelled=counts[JobStatus.CANCELED],
        jobs_failed=counts[JobStatus.FAILED],
        flink_version=FLINK_VERSION,
        flink_commit=FLINK_COMMIT,
    )


def applications(state: ServerState, call: Call) -> answers.Applications:
    return answers.Applications(applications=tuple(application_summary(jobs.summary(view)) for view in _views(state)))


def application(call: JobCall) -> answers.ApplicationDetails:
    view = call.view
    entered = {_APPLICATION_STATES.get(status.name, status.name): at for status, at in view.details.timestamps.items()}
    states = ("CREATED", "RUNNING", "FAILING", "FAILED", "CANCELING", "CANCELED", "FINISHED")
    job = jobs.summary(view)
    shown = msgspec.structs.asdict(application_summary(job))
    return answers.ApplicationDetails(
        **shown | {"timestamps": {state: entered.get(state, 0) for state in states}, "jobs": (job,)}
    )


def application_exceptions(call: JobCall) -> answers.ApplicationExceptions:
    entries = tuple(
        answers.ApplicationException(
            exceptionName=failure.error, stacktrace=failure.text, timestamp=failure.timestamp, jobId=call.view.job_id
        )
        for failure in call.view.failures
        if failure.why_final is not None
    )
    return answers.ApplicationExceptions(exceptionHistory=answers.ApplicationExceptionHistory(entries=entries))


def job_ids(state: ServerState, call: Call) -> JobIds:
    return JobIds(jobs=tuple(JobIdWithStatus(id=view.job_id, status=view.status.name) for view in _views(state)))


def job_summaries(state: ServerState, call: Call) -> JobSummaries:
    return JobSummaries(jobs=tuple(jobs.summary(view) for view in _views(state)))


def jobs_metrics(state: ServerState, call: Call) -> list[AggregatedMetric]:
    wanted = aggregations(call.words("agg"))
    ids = set(call.query_ids("jobs"))
    found = [metrics.job_metrics(view) for view in _views(state) if not ids or view.job_id in ids]
    return aggregated(by_name(found), call, wanted)


def submit_job(state: ServerState, call: Call) -> NoReturn:
    raise RestError(
        501,
        "A Flink program is sent as a serialised Java graph, which flinkish cannot run. "
        "Start the script itself: flinkish run JOB.py, or flink run -d -py JOB.py.",
    )


def data_sets(state: ServerState, call: Call) -> answers.DataSets:
    return answers.DataSets()


def _views(state: ServerState) -> list[JobView]:
    return [job.view() for job in state.jobs.all()]

"""Handlers of the paths about the whole server and about processes.

/jobmanager is this process; a task manager is all processes of a job on one host.
"""

from __future__ import annotations

import os
import platform
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

import flinkish
from flinkish.server import metrics
from flinkish.server.answers import cluster as answers
from flinkish.server.answers.jobs import JobIds, JobIdWithStatus, JobSummaries, JobSummary
from flinkish.server.answers.vertices import AggregatedMetric, Metric
from flinkish.server.process_figures import summed
from flinkish.server.rest.calls import Call, JobCall, RestError
from flinkish.server.rest.job_handlers import aggregated, by_name, chosen
from flinkish.server.server_settings import ServerSettings
from flinkish.server.state import ServerState
from flinkish.server.views import jobs
from flinkish.server.views.job_view import JobView, TaskManager

#: The version of Flink's REST API, which tells clients which requests are possible; the commit shows flinkish's own version.
_FLINK_VERSION, _FLINK_COMMIT = "2.3.0", f"flinkish-{flinkish.__version__}"
_NO_LOGS = 404, "Failed to transfer file from TaskExecutor {name} because it was unknown."
_UNKNOWN_MANAGER = 500, "Internal server error.", "No TaskExecutor registered under {name}."
#: Names in Flink's ApplicationState for those states of a job that have another name there.
_APPLICATION_STATES = {"RESTARTING": "RUNNING", "CANCELLING": "CANCELING", "SUSPENDED": "FINISHED", "RECONCILING": "RUNNING"}


def dashboard(settings: ServerSettings, *, web_submit: bool) -> answers.DashboardConfiguration:
    """Return /config of a server with these settings."""
    zone = time.localtime()
    return answers.DashboardConfiguration(
        refresh_interval=settings.refresh_interval,
        timezone_name=zone.tm_zone,
        timezone_offset=zone.tm_gmtoff * 1000,
        flink_version=_FLINK_VERSION,
        flink_revision=_FLINK_COMMIT,
        features=answers.Features(web_submit=web_submit, web_cancel=settings.cancel_enabled),
    )


def application_summary(job: JobSummary) -> answers.ApplicationSummary:
    return answers.ApplicationSummary(
        id=job.jid,
        name=f"SingleJobApplication({job.name})",
        start_time=job.start_time,
        end_time=job.end_time,
        duration=job.duration,
        status=_APPLICATION_STATES.get(job.state, job.state),
        jobs={job.state: 1},
    )


def overview_of(counts: Mapping[str | None, int], *, running: int, task_managers: int, slots: int) -> answers.ClusterOverview:
    """Return /overview; `counts` has the numbers of jobs that have ended by their states."""
    return answers.ClusterOverview(
        taskmanagers=task_managers,
        slots_total=slots,
        jobs_running=running,
        jobs_finished=counts["FINISHED"],
        jobs_cancelled=counts["CANCELED"],
        jobs_failed=counts["FAILED"],
        flink_version=_FLINK_VERSION,
        flink_commit=_FLINK_COMMIT,
    )


def manager_figures(*, running: int, task_managers: int, slots: int) -> dict[str, int]:
    """Return the metrics of /jobmanager/metrics that are not about its process."""
    named = {"numRunningJobs": running, "numRegisteredTaskManagers": task_managers}
    return {**named, "taskSlotsTotal": slots, "taskSlotsAvailable": 0}


def config(state: ServerState, call: Call) -> answers.DashboardConfiguration:
    return dashboard(state.settings, web_submit=False)


def overview(state: ServerState, call: Call) -> answers.ClusterOverview:
    views = _views(state)
    return overview_of(Counter(view.status.name for view in views), **_sizes(views))


def _sizes(views: Sequence[JobView]) -> dict[str, int]:
    """Return the number of running jobs, of their task managers and of their slots."""
    running = [view for view in views if not view.status.is_terminal_state()]
    managers, slots = sum(len(view.task_managers) for view in running), sum(view.setup.plan.slots for view in running)
    return {"running": len(running), "task_managers": managers, "slots": slots}


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
    ids = set(call.query_ids("jobs"))
    return aggregated(by_name(metrics.job_metrics(view) for view in _views(state) if not ids or view.job_id in ids), call)


def data_sets(state: ServerState, call: Call) -> answers.DataSets:
    return answers.DataSets()


def manager_config(state: ServerState, call: Call) -> list[answers.ConfigurationEntry]:
    return [answers.ConfigurationEntry(key=key, value=value) for key, value in state.settings.shown]


def manager_environment(state: ServerState, call: Call) -> answers.EnvironmentInfo:
    version = f"{platform.python_implementation()} {platform.python_version()}"
    jvm = answers.Jvm(version=version, arch=platform.machine())
    return answers.EnvironmentInfo(jvm=jvm, classpath=tuple(sys.path))


def job_manager_config(state: ServerState, call: Call) -> list[answers.ConfigurationEntry]:
    """Return the settings of a job; if the job is unknown, those of the server, as in Flink."""
    job = state.jobs.get(call.id("jobid"))
    return manager_config(state, call) if job is None else jobs.configuration(job.view())


def log_url(state: ServerState, call: Call) -> answers.LogUrl:
    return answers.LogUrl(url=f"{state.settings.scheme}://{state.address}/#/job-manager/logs")


def manager_metrics(state: ServerState, call: Call) -> list[Metric]:
    return chosen({**manager_figures(**_sizes(_views(state))), **state.processes.of([os.getpid()])}, call)


def manager_logs(state: ServerState, call: Call) -> answers.LogList:
    logs = (answers.LogInfo(name=log.name, size=log.size, mtime=log.modified) for log in state.logs.all())
    return answers.LogList(logs=tuple(logs))


def manager_log(state: ServerState, call: Call, place: str = "JobManager") -> str:
    text = state.logs.text(call.path.get("filename") or state.logs.all()[0].name)
    if text is None:
        raise RestError(404, f"This file does not exist in {place} log dir.")
    return text


def manager_output(state: ServerState, call: Call, place: str = "JobManager") -> str:
    text = state.logs.output()
    if text is None:
        raise RestError(404, f"The standard output of the {place} does not go to a file.")
    return text


def thread_dump(state: ServerState, call: Call) -> answers.ThreadDump:
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return answers.ThreadDump(
        threadInfos=tuple(
            answers.ThreadInfo(
                threadName=names.get(ident, str(ident)),
                stringifiedThreadInfo=f'"{names.get(ident, ident)}" Id={ident}\n{"".join(traceback.format_stack(frame))}',
            )
            for ident, frame in sys._current_frames().items()
        )
    )


def all_managers(state: ServerState, call: Call) -> answers.TaskManagers:
    return answers.TaskManagers(
        taskmanagers=tuple(jobs.task_manager(view, manager) for view in _running(state) for manager in view.task_managers)
    )


def one_manager(state: ServerState, call: Call) -> answers.TaskManagerDetails:
    view, manager = _manager(state, call, *_UNKNOWN_MANAGER)
    return jobs.task_manager_details(view, manager, _figures(state, manager))


def one_managers_metrics(state: ServerState, call: Call) -> list[Metric]:
    found = _find(state, call)
    return [] if found is None else chosen(_figures(state, found[1]), call)


def managers_metrics(state: ServerState, call: Call) -> list[AggregatedMetric]:
    ids = set(call.words("taskmanagers"))
    managers = [manager for view in _running(state) for manager in view.task_managers if not ids or manager.id in ids]
    return aggregated(by_name(_figures(state, manager) for manager in managers), call)


def managers_logs(state: ServerState, call: Call) -> answers.LogList:
    _, manager = _manager(state, call, 404, "Could not find TaskExecutor {name}")
    return manager_logs(state, call) if _is_here(manager) else answers.LogList(logs=())


def managers_log(state: ServerState, call: Call) -> str:
    _here_or_404(state, call, "logs", *_NO_LOGS)
    return manager_log(state, call, "TaskManager")


def managers_output(state: ServerState, call: Call) -> str:
    _here_or_404(state, call, "logs", *_NO_LOGS)
    return manager_output(state, call, "TaskManager")


def managers_threads(state: ServerState, call: Call) -> answers.ThreadDump:
    _here_or_404(state, call, "threads", *_UNKNOWN_MANAGER)
    return thread_dump(state, call)


def managers_log_url(state: ServerState, call: Call) -> answers.LogUrl:
    return answers.LogUrl(url=f"{state.settings.scheme}://{state.address}/#/task-manager/{call.path['taskmanagerid']}/logs")


def _find(state: ServerState, call: Call) -> tuple[JobView, TaskManager] | None:
    known = ((view, manager) for view in _running(state) for manager in view.task_managers)
    return next((found for found in known if found[1].id == call.path["taskmanagerid"]), None)


def _manager(state: ServerState, call: Call, status: int, *messages: str) -> tuple[JobView, TaskManager]:
    """Return the task manager that the path names, with its job; if there is none, raise an error that names it."""
    found = _find(state, call)
    if found is None:
        raise RestError(status, *(message.format(name=call.path["taskmanagerid"][:200]) for message in messages))
    return found


def _is_here(manager: TaskManager) -> bool:
    return manager.host == platform.node() and {process.pid for process in manager.processes.values()} == {os.getpid()}


def _here_or_404(state: ServerState, call: Call, what: str, status: int, *messages: str) -> None:
    """Raise an error if the task manager that the path names is unknown (`status`, `messages`), or has other processes."""
    _, manager = _manager(state, call, status, *messages)
    if not _is_here(manager):
        pids = ", ".join(sorted({str(process.pid) for process in manager.processes.values()}))
        others = f"{pids} on {manager.host}; on Spark, their output is in the executor's stderr, on Spark's own page"
        raise RestError(404, f"The {what} of {manager.id} are in other processes: {others}.")


def _figures(state: ServerState, manager: TaskManager) -> Mapping[str, Any]:
    """Return the figures of the processes of a task manager: on another machine, those that its slots have reported last."""
    if manager.host == platform.node():
        return state.processes.of(process.pid for process in manager.processes.values())
    processes = {process.pid: process for process in manager.processes.values()}
    reported = [process.usage for process in processes.values() if process.usage is not None]
    return summed(reported, max(process.memory for process in processes.values()))


def _views(state: ServerState) -> list[JobView]:
    return [job.view() for job in state.jobs.all()]


def _running(state: ServerState) -> list[JobView]:
    return [view for view in _views(state) if not view.status.is_terminal_state()]

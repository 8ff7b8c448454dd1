"""Handlers of the paths about processes. /jobmanager is this process; a task manager is all processes of a job on one host."""

from __future__ import annotations

import os
import platform
import sys
import threading
import traceback
from collections.abc import Mapping
from typing import Any

from flinkish.server.answers import cluster as answers
from flinkish.server.answers import task_managers as manager_answers
from flinkish.server.answers.vertices import AggregatedMetric, Metric
from flinkish.server.process_figures import summed
from flinkish.server.rest.calls import Call, RestError, Text
from flinkish.server.rest.job_handlers import aggregated, aggregations, by_name, chosen
from flinkish.server.state import ServerState
from flinkish.server.views import jobs, task_managers
from flinkish.server.views.job_view import JobView, TaskManager

# -- /jobmanager ---------------------------------------------------------------------------------------------------------------


def manager_config(state: ServerState, call: Call) -> list[answers.ConfigurationEntry]:
    return [answers.ConfigurationEntry(key=key, value=value) for key, value in state.settings.shown]


def manager_environment(state: ServerState, call: Call) -> answers.EnvironmentInfo:
    return _environment()


def job_environment(state: ServerState, call: Call) -> answers.EnvironmentInfo:
    call.id("jobid")
    return _environment()


def job_manager_config(state: ServerState, call: Call) -> list[answers.ConfigurationEntry]:
    """Return the settings of a job; if the job is unknown, those of the server, as in Flink."""
    job = state.jobs.get(call.id("jobid"))
    return manager_config(state, call) if job is None else jobs.configuration(job.view())


def _environment() -> answers.EnvironmentInfo:
    version = f"{platform.python_implementation()} {platform.python_version()}"
    return answers.EnvironmentInfo(
        jvm=answers.Jvm(version=version, arch=platform.machine(), options=()), classpath=tuple(sys.path)
    )


def log_url(state: ServerState, call: Call) -> answers.LogUrl:
    call.id("jobid")
    return answers.LogUrl(url=f"{state.settings.scheme}://{state.address}/#/job-manager/logs")


def manager_metrics(state: ServerState, call: Call) -> list[Metric]:
    running = running_views(state)
    slots = sum(view.setup.plan.slots for view in running)
    found = {
        "numRunningJobs": len(running),
        "taskSlotsTotal": slots,
        "taskSlotsAvailable": 0,
        "numRegisteredTaskManagers": sum(len(view.task_managers) for view in running),
        **state.processes.of([os.getpid()]),
    }
    return chosen(found, call)


def manager_logs(state: ServerState, call: Call) -> answers.LogList:
    return _log_list(state)


def manager_log(state: ServerState, call: Call) -> Text:
    return _log(state, call.path.get("filename"), "JobManager")


def manager_output(state: ServerState, call: Call) -> Text:
    return _output(state, "JobManager")


def thread_dump(state: ServerState, call: Call) -> answers.ThreadDump:
    return _threads()


# -- /taskmanagers -------------------------------------------------------------------------------------------------------------


def all_managers(state: ServerState, call: Call) -> manager_answers.TaskManagers:
    return manager_answers.TaskManagers(
        taskmanagers=tuple(task_managers.info(view, manager) for view in running_views(state) for manager in view.task_managers)
    )


def one_manager(state: ServerState, call: Call) -> manager_answers.TaskManagerDetails:
    view, manager = _manager(state, call)
    return task_managers.details(view, manager, _figures(state, manager))


def one_managers_metrics(state: ServerState, call: Call) -> list[Metric]:
    found = _find(state, call.path["taskmanagerid"])
    return [] if found is None else chosen(_figures(state, found[1]), call)


def managers_metrics(state: ServerState, call: Call) -> list[AggregatedMetric]:
    wanted = aggregations(call.words("agg"))
    ids = set(call.words("taskmanagers"))
    managers = [manager for view in running_views(state) for manager in view.task_managers if not ids or manager.id in ids]
    return aggregated(by_name(_figures(state, manager) for manager in managers), call, wanted)


def managers_logs(state: ServerState, call: Call) -> answers.LogList:
    found = _find(state, call.path["taskmanagerid"])
    if found is None:
        raise RestError(404, f"Could not find TaskExecutor {call.path['taskmanagerid'][:200]}")
    return _log_list(state) if _is_here(found[1]) else answers.LogList(logs=())


def managers_log(state: ServerState, call: Call) -> Text:
    _here_or_404(state, call)
    return _log(state, call.path.get("filename"), "TaskManager")


def managers_output(state: ServerState, call: Call) -> Text:
    _here_or_404(state, call)
    return _output(state, "TaskManager")


def managers_threads(state: ServerState, call: Call) -> answers.ThreadDump:
    _, manager = _manager(state, call)
    if not _is_here(manager):
        raise RestError(404, f"The threads of {manager.id} are in other processes: {_others(manager)}.")
    return _threads()


def managers_log_url(state: ServerState, call: Call) -> answers.LogUrl:
    call.id("jobid")
    return answers.LogUrl(url=f"{state.settings.scheme}://{state.address}/#/task-manager/{call.path['taskmanagerid']}/logs")


def _find(state: ServerState, manager_id: str) -> tuple[JobView, TaskManager] | None:
    for view in running_views(state):
        for manager in view.task_managers:
            if manager.id == manager_id:
                return view, manager
    return None


def _manager(state: ServerState, call: Call) -> tuple[JobView, TaskManager]:
    found = _find(state, call.path["taskmanagerid"])
    if found is None:
        raise RestError(500, "Internal server error.", f"No TaskExecutor registered under {call.path['taskmanagerid'][:200]}.")
    return found


def _is_here(manager: TaskManager) -> bool:
    """Return whether all slots of a task manager run in this process."""
    return manager.host == platform.node() and {process.pid for process in manager.processes.values()} == {os.getpid()}


def _here_or_404(state: ServerState, call: Call) -> None:
    found = _find(state, call.path["taskmanagerid"])
    if found is None:
        name = call.path["taskmanagerid"][:200]
        raise RestError(404, f"Failed to transfer file from TaskExecutor {name} because it was unknown.")
    if not _is_here(found[1]):
        raise RestError(404, f"The logs of {found[1].id} are in other processes: {_others(found[1])}.")


def _others(manager: TaskManager) -> str:
    pids = ", ".join(sorted({str(process.pid) for process in manager.processes.values()}))
    return f"{pids} on {manager.host}; on Spark, their output is in the executor's stderr, on Spark's own page"


def _figures(state: ServerState, manager: TaskManager) -> Mapping[str, Any]:
    """Return the figures of the processes of a task manager: on another machine, those that its slots have reported last."""
    if manager.host == platform.node():
        return state.processes.of(process.pid for process in manager.processes.values())
    processes = {process.pid: process for process in manager.processes.values()}
    reported = [process.usage for process in processes.values() if process.usage is not None]
    return summed(reported, max(process.memory for process in processes.values()))


# -- both ----------------------------------------------------------------------------------------------------------------------


def running_views(state: ServerState) -> list[JobView]:
    """Return a look at each job that has not ended."""
    return [view for view in (job.view() for job in state.jobs.all()) if not view.status.is_terminal_state()]


def _log_list(state: ServerState) -> answers.LogList:
    return answers.LogList(
        logs=tuple(answers.LogInfo(name=log.name, size=log.size, mtime=log.modified) for log in state.logs.all())
    )


def _log(state: ServerState, name: str | None, place: str) -> Text:
    text = state.logs.text(name or state.logs.all()[0].name)
    if text is None:
        raise RestError(404, f"This file does not exist in {place} log dir.")
    return Text(text)


def _output(state: ServerState, place: str) -> Text:
    text = state.logs.output()
    if text is None:
        raise RestError(404, f"The standard output of the {place} does not go to a file.")
    return Text(text)


def _threads() -> answers.ThreadDump:
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

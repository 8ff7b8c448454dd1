"""Answers about a job without a driver: its driver is being started again, or the job ended without an archive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.responses import Response

from flinkish.server.answers import jobs as answers
from flinkish.server.answers.operations import ExecutionResult, ExecutionStatus, JobExecutionResultInfo
from flinkish.server.answers.wire import JSON, encode
from flinkish.server.java_throwable import failure_cause
from flinkish.server.rest.calls import RestError
from flinkish.server.session.dispatcher import Dispatcher
from flinkish.server.session.entries import JobEntry
from flinkish.server.views.jobs import EXECUTION_STATES, JOB_STATES

_OUTCOMES = {"FINISHED": "SUCCEEDED", "CANCELED": "CANCELED", "FAILED": "FAILED"}


def is_cancel(job_id: str, method: str, path: str) -> bool:
    """Return whether a request is about cancelling a job; its query may ask for something else."""
    job = f"/jobs/{job_id}"
    return path in (job, f"{job}/yarn-cancel", f"/applications/{job_id}/cancel") and (method != "GET" or path != job)


def answer_without_driver(
    dispatcher: Dispatcher, entry: JobEntry, method: str, path: str, query: Mapping[str, str]
) -> Response | None:
    """Return the answer; None = answer as for an unknown job. Raises RestError 503 while the driver is being started again."""
    restarting = RestError(503, f"The driver of job {entry.job_id} is being started again. Try again in a moment.")
    job = f"/jobs/{entry.job_id}"
    if is_cancel(entry.job_id, method, path):
        return _cancel(dispatcher, entry, query)
    if method != "GET":
        if entry.status is None:
            # An operation that was accepted here would be unknown to the next driver, which is asked for its result.
            raise restarting
        # As for an unknown job: the operation is accepted, and its result is a failure.
        return None
    found = _answers(dispatcher, entry).get(path.removeprefix(job))
    if path.startswith(job) and found is not None:
        return Response(encode(found), 200, media_type=JSON)
    if entry.status is None:
        raise restarting
    return None


def _cancel(dispatcher: Dispatcher, entry: JobEntry, query: Mapping[str, str]) -> Response:
    if query.get("mode", "cancel") != "cancel":
        raise RestError(400, "Bad request, could not parse parameters: query parameter (mode) is not a mode of cancelling.")
    if entry.status in ("FINISHED", "FAILED"):
        raise RestError(409, f"Job cancellation failed: the job has already reached the terminal state {entry.status}.")
    if entry.status is None:
        dispatcher.cancel(entry)
    return Response(b"{}", 202, media_type=JSON)


def _answers(dispatcher: Dispatcher, entry: JobEntry) -> dict[str, Any]:
    """Return the answers by the ends of their paths."""
    summary = dispatcher.summary(entry)
    timestamps = dict.fromkeys(JOB_STATES, 0) | {"INITIALIZING": summary.start_time, "CREATED": summary.start_time}
    if entry.status is not None:
        timestamps[entry.status] = summary.end_time
    plan = answers.Plan(jid=entry.job_id, name=summary.name, type=summary.jobType, nodes=())
    failure = answers.ExceptionInfo(
        exceptionName="JobExecutionError",
        stacktrace=f"JobExecutionError: {entry.failure}",
        timestamp=summary.end_time,
        failureLabels={},
        concurrentExceptions=(),
    )
    failures = () if entry.failure is None else (failure,)
    return {
        "": answers.JobInfo(
            jid=entry.job_id,
            application_id=entry.job_id,
            name=summary.name,
            state=summary.state,
            job_type=summary.jobType,
            start_time=summary.start_time,
            end_time=summary.end_time,
            duration=summary.duration,
            maxParallelism=-1,
            now=summary.start_time + summary.duration,
            timestamps=timestamps,
            vertices=(),
            status_counts=dict.fromkeys(EXECUTION_STATES, 0),
            plan=plan,
            restarts=summary.restarts,
        ),
        "/status": answers.JobStatusInfo(status=summary.state),
        "/plan": answers.JobPlan(plan=plan),
        "/exceptions": answers.JobExceptions(exceptionHistory=answers.ExceptionHistoryInfo(entries=failures, truncated=False)),
        "/execution-result": _execution_result(entry, summary),
    }


def _execution_result(entry: JobEntry, summary: answers.JobSummary) -> JobExecutionResultInfo:
    if entry.status is None:
        return JobExecutionResultInfo(status=ExecutionStatus(id="IN_PROGRESS"))
    why = entry.failure or (f"Job {entry.job_id} was cancelled." if entry.status == "CANCELED" else "its driver was lost.")
    return JobExecutionResultInfo(
        status=ExecutionStatus(id="COMPLETED"),
        job_execution_result=ExecutionResult(
            id=entry.job_id,
            name=summary.name,
            application_status=_OUTCOMES[entry.status],
            accumulator_results={},
            net_runtime=summary.duration,
            failure_cause=None if entry.status == "FINISHED" else failure_cause("JobExecutionError", why),
            application_id=entry.job_id,
            start_time=summary.start_time,
            end_time=summary.end_time,
        ),
    )

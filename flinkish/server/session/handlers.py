"""The routes that a Dispatcher serves itself: the cluster, the list of jobs, uploaded programs. The table is at the end.

All other paths about a job are forwarded to its driver.
"""

from __future__ import annotations

import re
import shlex
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import msgspec

from flinkish.common import options, redaction
from flinkish.common.config_file import check_key, parse_properties
from flinkish.common.errors import ConfigurationError, FlinkishError
from flinkish.server.answers import cluster as answers
from flinkish.server.answers.jobs import JobIds, JobIdWithStatus, JobPlan, JobSummaries
from flinkish.server.rest.app import LONGEST_BODY
from flinkish.server.rest.calls import HEX_ID, Answer, Call, RestError, unreadable
from flinkish.server.rest.job_handlers import aggregated, chosen
from flinkish.server.rest.routes import Route
from flinkish.server.rest.server_handlers import application_summary, dashboard, manager_figures, overview_of
from flinkish.server.rest.trust import refused_name
from flinkish.server.session.dispatcher import Dispatcher
from flinkish.server.session.driver_protocol import Report
from flinkish.server.session.drivers import ask_each
from flinkish.server.session.entries import JobEntry, ProgramEntry, Submission
from flinkish.server.session.leadership import NotLeaderError

#: Maximum size of an uploaded program in bytes.
LONGEST_PROGRAM = 64 << 20
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,120}\.(?:py|zip)")
_PROGRAM_ID = re.compile(r"[0-9a-f]{32}_" + _NAME.pattern)
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*", re.ASCII)


@dataclass(frozen=True, slots=True)
class SessionState:
    """The parts of a session that its handlers use."""

    dispatcher: Dispatcher
    #: Ends the Dispatcher in the background, so that the request is still answered.
    shut_down: Any


def config(state: SessionState, call: Call) -> Answer:
    settings = state.dispatcher.settings
    return dashboard(settings.server, web_submit=settings.submit_enabled)


def overview(state: SessionState, call: Call) -> Answer:
    jobs = state.dispatcher.jobs()
    return overview_of(Counter(job.status for job in jobs), **_sizes(state, jobs))


def applications(state: SessionState, call: Call) -> Answer:
    return answers.Applications(applications=tuple(map(application_summary, state.dispatcher.summaries())))


def job_ids(state: SessionState, call: Call) -> Answer:
    return JobIds(jobs=tuple(JobIdWithStatus(id=each.jid, status=each.state) for each in state.dispatcher.summaries()))


def job_summaries(state: SessionState, call: Call) -> Answer:
    return JobSummaries(jobs=state.dispatcher.summaries())


def jobs_metrics(state: SessionState, call: Call) -> Answer:
    ids = set(call.query_ids("jobs"))
    reports = [report for report in state.dispatcher.drivers() if not ids or report.job_id in ids]
    return _aggregated(call, "/jobs/metrics", [(report, f"/jobs/{report.job_id}/metrics") for report in reports])


def managers_metrics(state: SessionState, call: Call) -> Answer:
    """Combine the metrics of the task managers of all drivers, because each driver knows only its own job."""
    ids = set(call.words("taskmanagers"))
    found = [(report, manager["id"]) for report, manager in _task_managers(state)]
    questions = [(report, f"/taskmanagers/{name}/metrics") for report, name in found if not ids or name in ids]
    return _aggregated(call, "/taskmanagers/metrics", questions)


def _aggregated(call: Call, listing: str, questions: Sequence[tuple[Report, str]]) -> Answer:
    """Combine the answers of drivers about one metric each; `listing` is where a driver lists the metrics that are numbers."""
    names = call.words("get")
    found: dict[str, list[float]] = {}
    if not names:
        questions = [(report, listing) for report in {report.job_id: report for report, _ in questions}.values()]
    for _, answer in ask_each(questions, {"get": ",".join(names)} if names else {}):
        for metric in answer if isinstance(answer, list) else ():
            found.setdefault(metric["id"], []).extend(_number(metric.get("value")))
    return aggregated({name: values for name, values in found.items() if values or not names}, call)


def task_managers(state: SessionState, call: Call) -> Answer:
    return {"taskmanagers": [manager for _, manager in _task_managers(state)]}


def _task_managers(state: SessionState) -> list[tuple[Report, Any]]:
    found = ask_each([(report, "/taskmanagers") for report in state.dispatcher.drivers()], {})
    return [(report, manager) for report, answer in found for manager in answer.get("taskmanagers", ())]


def manager_metrics(state: SessionState, call: Call) -> Answer:
    return chosen(manager_figures(**_sizes(state, state.dispatcher.jobs())), call)


def _sizes(state: SessionState, jobs: Sequence[JobEntry]) -> dict[str, int]:
    """Return the number of jobs that have not ended, of their task managers and of their slots."""
    running = sum(job.status is None for job in jobs)
    slots = [state.dispatcher.slots(job) for job in jobs]
    return {"running": running, "task_managers": sum(each > 0 for each in slots), "slots": sum(slots)}


def log_url(state: SessionState, call: Call) -> Answer:
    """Return where the page shows the log of a job's driver, also after the end of the job."""
    name = state.dispatcher.log_files(call.id("jobid"))[0].name
    return answers.LogUrl(url=f"{state.dispatcher.address}/#/logs/server/{name}")


def shut_down(state: SessionState, call: Call) -> Answer:
    """End the Dispatcher: `jobs=cancel` (the default) cancels all jobs first, `jobs=keep` leaves them to the next Dispatcher."""
    mode = call.query.get("jobs", "cancel")
    if mode not in ("cancel", "keep"):
        raise unreadable("query", "jobs", "known", mode)
    dispatcher = state.dispatcher
    if mode == "cancel":
        try:
            dispatcher.leadership.leading()
        except NotLeaderError as error:
            raise RestError(503, f"The jobs cannot be cancelled: {error} It ends with jobs=keep.") from error
    state.shut_down(mode == "cancel")
    return {}


def programs(state: SessionState, call: Call) -> Answer:
    return answers.JarList(
        address=state.dispatcher.address,
        files=tuple(
            answers.JarFile(
                id=each.id,
                name=each.name,
                uploaded=each.uploaded,
                entry=(answers.JarEntry(name=each.name),) if each.name.endswith(".py") else (),
            )
            for each in state.dispatcher.programs()
        ),
    )


def upload(state: SessionState, call: Call) -> Answer:
    _refuse_if_disabled(state)
    name, content = call.file()
    if refused_name(name) is not None or not _NAME.fullmatch(name):
        raise RestError(
            400, f"Only .py and .zip files are run, with names of letters, digits, '.', '_' and '-'; got {name[:80]!r}."
        )
    _check_program(name, content)
    entry = state.dispatcher.upload(name, content)
    return answers.JarUploaded(filename=f"{state.dispatcher.settings.root}/programs/{entry.id}", status="success")


def delete(state: SessionState, call: Call) -> Answer:
    program_id = _program_id(call)
    if not state.dispatcher.delete_program(program_id):
        raise RestError(400, f"File {program_id} does not exist in the session.")
    return {}


def run(state: SessionState, call: Call) -> Answer:
    return answers.JarRun(jobid=state.dispatcher.submit(_submission(state, call)))


def plan(state: SessionState, call: Call) -> Answer:
    """Return the plan of a program, in the form of /jobs/:jobid/plan: the program is run up to its execute()."""
    submission = _submission(state, call)
    try:
        return msgspec.json.decode(state.dispatcher.plan(submission), type=JobPlan)
    except msgspec.MsgspecError as error:
        raise RestError(500, f"The plan of {submission.program.name} cannot be read: {error}.") from error


def _program(state: SessionState, call: Call) -> ProgramEntry:
    program_id = _program_id(call)
    program = state.dispatcher.program(program_id)
    if program is None:
        raise RestError(500, f"File {program_id} does not exist in the session: upload it first (POST /jars/upload).")
    return program


def _request(call: Call) -> answers.JarRunRequest:
    """Return the request of the body, completed by the query, which Flink's page uses instead."""
    request = call.read(answers.JarRunRequest)
    query = call.query
    names = {"entry-class": "entryClass", "program-args": "programArgs", "savepointPath": "savepointPath"}
    given: dict[str, Any] = {field: query[name] for name, field in names.items() if name in query}
    if "programArg" in query:
        given["programArgsList"] = tuple(call.words("programArg"))
    parallelism = call.query_number("parallelism")
    if parallelism is not None:
        given["parallelism"] = parallelism
    if "allowNonRestoredState" in query:
        given["allowNonRestoredState"] = query["allowNonRestoredState"].lower() == "true"
    fields = msgspec.structs.asdict(request)
    return msgspec.structs.replace(request, **{name: value for name, value in given.items() if fields[name] is None})


def _submission(state: SessionState, call: Call) -> Submission:
    """Return what the request asks to run; raises RestError if that is not possible."""
    _refuse_if_disabled(state)
    program, request = _program(state, call), _request(call)
    try:
        split = shlex.split(request.programArgs or "")
    except ValueError as error:
        raise RestError(400, f"programArgs are not quoted as for a shell: {error}.") from error
    module = request.entryClass or None
    if module is not None and not _MODULE.fullmatch(module):
        raise RestError(400, f"entryClass is not the name of a module: {module[:80]!r}.")
    if module is not None and program.name.endswith(".py"):
        raise RestError(400, f"{program.name} is a script, so it has no entry class: leave entryClass out.")
    if request.parallelism is not None and request.parallelism < 1:
        raise RestError(400, f"parallelism must be at least 1; got {request.parallelism}.")
    if request.jobId is not None and not HEX_ID.fullmatch(request.jobId):
        raise RestError(400, f"jobId must be 32 hexadecimal digits; got {request.jobId[:80]!r}.")
    settings = dict(request.flinkConfiguration or {})
    if request.parallelism is not None:
        settings[options.DEFAULT_PARALLELISM.key] = str(request.parallelism)
    if request.savepointPath:
        settings[options.SAVEPOINT_PATH.key] = request.savepointPath
    if request.allowNonRestoredState is not None:
        settings[options.SAVEPOINT_IGNORE_UNCLAIMED_STATE.key] = str(request.allowNonRestoredState).lower()
    redaction.remember(settings)
    properties = tuple(f"{key}={value}" for key, value in settings.items())
    try:
        configuration = parse_properties(properties)
        for key in configuration.key_set():
            if key.startswith(("rest.", "security.ssl.")):
                raise ConfigurationError(f"{key} is a setting of the session, which a program cannot change")
            check_key(configuration, key)
    except FlinkishError as error:
        raise RestError(400, str(error)) from error
    return Submission(
        program=program,
        entry_class=module,
        arguments=(*(request.programArgsList or ()), *split),
        properties=properties,
        job_id=request.jobId,
    )


def _check_program(name: str, content: bytes) -> None:
    if name.endswith(".zip"):
        if not zipfile.is_zipfile(BytesIO(content)):
            raise RestError(400, f"{name} is not a zip file.")
        return
    try:
        compile(content, name, "exec", dont_inherit=True)
    except (RecursionError, MemoryError):
        raise RestError(400, f"The script cannot be compiled, because it is nested too deeply: {name}.") from None
    except (SyntaxError, ValueError) as error:
        where = f" line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        raise RestError(400, f"The script is not valid Python: {name}{where}: {text}.") from error


def _program_id(call: Call) -> str:
    value = call.path["jarid"]
    if not _PROGRAM_ID.fullmatch(value):
        raise unreadable("path", "jarid", "a program's id", value)
    return value


def _refuse_if_disabled(state: SessionState) -> None:
    if not state.dispatcher.settings.submit_enabled:
        raise RestError(403, "Programs cannot be submitted: web.submit.enable is false.")


def _number(value: Any) -> list[float]:
    try:
        return [float(value)]
    except (TypeError, ValueError):
        return []


@dataclass(frozen=True, slots=True)
class SessionRoute(Route):
    """A path of the session; `longest` is the maximum size of the body in bytes."""

    handler: Callable[[SessionState, Call], Answer]
    longest: int = LONGEST_BODY


SESSION_ROUTES: tuple[SessionRoute, ...] = (
    SessionRoute("DELETE", "/cluster", shut_down),
    SessionRoute("GET", "/config", config),
    SessionRoute("GET", "/overview", overview),
    SessionRoute("GET", "/applications/overview", applications),
    SessionRoute("GET", "/jobs", job_ids),
    SessionRoute("GET", "/jobs/overview", job_summaries),
    SessionRoute("GET", "/jobs/metrics", jobs_metrics),
    SessionRoute("GET", "/jobs/:jobid/jobmanager/log-url", log_url),
    SessionRoute("GET", "/jobs/:jobid/taskmanagers/:taskmanagerid/log-url", log_url),
    SessionRoute("GET", "/jobmanager/metrics", manager_metrics),
    SessionRoute("GET", "/taskmanagers/metrics", managers_metrics),
    SessionRoute("GET", "/taskmanagers", task_managers),
    SessionRoute("GET", "/jars", programs),
    SessionRoute("POST", "/jars/upload", upload, longest=LONGEST_PROGRAM),
    SessionRoute("DELETE", "/jars/:jarid", delete),
    SessionRoute("POST", "/jars/:jarid/run", run),
    SessionRoute("GET", "/jars/:jarid/plan", plan),
    SessionRoute("POST", "/jars/:jarid/plan", plan),
)

"""The archive of a job that has ended: each path with its answer, as Flink's history server keeps it."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from flinkish.server.answers.wire import encode
from flinkish.server.rest.calls import Call, JobCall, RestError
from flinkish.server.rest.routes import ROUTES, JobRoute, Route, ServerRoute
from flinkish.server.state import ServedJob, ServerState
from flinkish.server.views.job_view import JobView, rest_id

_log = logging.getLogger("flinkish.server.session")

#: End of the paths whose answers are lists of metrics: their query selects names or values.
_METRICS = "/metrics"
#: Ends of the paths that have an effect although their method is GET.
_ACTIONS = ("/yarn-cancel", "/yarn-stop")
_AGGREGATED = "/subtasks/metrics"
_AGGREGATIONS = "min,max,avg,sum,skew"


class Archive(msgspec.Struct, frozen=True, kw_only=True):
    """The last answers about a job, by path without query."""

    status: str
    answers: dict[str, msgspec.Raw]

    def find(self, path: str, query: Mapping[str, str]) -> bytes | None:
        """Return the answer to a GET; None if there is none."""
        found = self.answers.get(path)
        if found is None:
            return None
        if path.endswith(_METRICS):
            return _chosen(bytes(found), query)
        return bytes(found)


def _chosen(body: bytes, query: Mapping[str, str]) -> bytes:
    """Return the names of all metrics, or the values of the metrics that the query lists."""
    values = msgspec.json.decode(body)
    wanted = [name for name in query.get("get", "").split(",") if name]
    if not wanted:
        return encode([{"id": value["id"]} for value in values])
    by_name = {value["id"]: value for value in values}
    kinds = {"id", "value", *(query.get("agg") or _AGGREGATIONS).split(",")}
    return encode([{key: each for key, each in by_name[name].items() if key in kinds} for name in wanted if name in by_name])


def make_archive(state: ServerState, job: ServedJob, more: Mapping[str, Any] = MappingProxyType({})) -> Archive:
    """Return an archive with the answers to all paths about a job, and `more` answers by path."""
    view = job.view()
    answers = {path: msgspec.Raw(encode(answer)) for path, answer in more.items()}
    for route in ROUTES:
        if ":jobid" in route.path and route.method == "GET" and not route.path.endswith(_ACTIONS):
            for parameters in _parameters(route, view):
                answer = _answer(route, state, job, view, parameters)
                if answer is not None:
                    answers[route.template.format(**parameters)] = msgspec.Raw(answer)
    return Archive(status=view.status.name, answers=answers)


def _answer(
    route: ServerRoute | JobRoute, state: ServerState, job: ServedJob, view: JobView, parameters: Mapping[str, str]
) -> bytes | None:
    def ask(query: Mapping[str, str]) -> bytes:
        if isinstance(route, ServerRoute):
            return encode(route.handler(state, Call(parameters, query, b"")))
        return encode(route.handler(JobCall(parameters, query, b"", job=job, view=view)))

    try:
        answer = ask({})
        if not route.path.endswith(_METRICS):
            return answer
        names = ",".join(value["id"] for value in msgspec.json.decode(answer))
        return ask({"get": names, **({"agg": _AGGREGATIONS} if route.path.endswith(_AGGREGATED) else {})}) if names else b"[]"
    except RestError:
        return None
    except Exception:
        _log.warning("The answer %s of job %s is not in its archive.", route.path, view.job_id, exc_info=True)
        return None


def _parameters(route: Route, view: JobView) -> Iterator[dict[str, str]]:
    """Yield the values of a path's parameters for all parts of a job; nothing if a parameter is unknown."""
    vertices = {rest_id(vertex): vertex for vertex in view.vertices.values()}
    choices: list[Sequence[str]] = []
    for name in route.parameters:
        match name:
            case "jobid":
                choices.append([view.job_id])
            case "vertexid":
                choices.append(list(vertices))
            case "subtaskindex":
                most = max((vertex.parallelism for vertex in vertices.values()), default=0)
                choices.append([str(index) for index in range(most)])
            case "attempt":
                attempts = {execution.attempt_number for execution in view.details.executions}
                choices.append([str(number) for number in sorted(attempts)])
            case "checkpointid":
                choices.append([str(record.checkpoint_id) for record in view.checkpoints.history])
            case _:
                return
    for values in itertools.product(*choices):
        yield dict(zip(route.parameters, values, strict=True))

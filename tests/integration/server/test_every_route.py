"""Compares every route's answer with the recorded answers of Flink 2.3.0, and the OpenAPI document with both."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from flinkish.checkpoint.statistics import CheckpointStatus
from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.graph.job_graph import VertexId
from flinkish.jobmaster.execution_graph import Execution, ExecutionState
from flinkish.server.answers.wire import encode
from flinkish.server.rest.openapi import document_of
from flinkish.server.rest.routes import ROUTES, JobRoute, ServerRoute
from flinkish.server.views import checkpoints, vertices
from tests.kit.waiting import wait_until
from tests.unit.server import recordings
from tests.unit.server.recordings import Recorded
from tests.unit.server.schemas import misfits
from tests.unit.server.support import UNKNOWN, Server, differences, ids_in, make_env, served, served_job, shape

#: Routes without a recorded answer, with the reason.
NOT_RECORDED = {
    "GET /jobs/:jobid/metrics/history": "Flink keeps no metrics of the past",
    "GET /openapi.json": "Flink has its document in its sources only",
}
#: Recorded requests that change something: other tests send them, at the end of their jobs.
CHANGES = {"POST /applications/:jobid/cancel", "PATCH /jobs/:jobid", "POST /jobs/:jobid/stop", "POST /jobs/:jobid/savepoints"}
CHANGES |= {"POST /jobs/:jobid/checkpoints", "POST /savepoint-disposal", "DELETE /datasets/:datasetid"}
#: Recorded answers whose status differs here, with the reason.
OTHER_STATUS = {
    "GET /taskmanagers/TM/stdout": (404, "the output of a test goes to no file"),
    "GET /jobmanager/stdout": (404, "the output of a test goes to no file"),
    "GET /taskmanagers/TM/logs/none.txt": (404, "a file that is not there is not an error of the server"),
    "POST /jobs": (501, "a Flink program, which cannot be run"),
    "POST /jobs/ID/coordinators/x": (400, "a request that cannot be read is not an error of the server"),
    "GET /jobs/ID/exceptions?maxExceptions=-1": (400, "a parameter that cannot be is not an error of the server"),
}
#: Fields in which answers differ, with the reason.
OTHER_FIELDS = {
    ".latest.failed": "no checkpoint has failed",
    ".latest.savepoint": "no savepoint was taken",
    ".latest.restored": "the job did not start from a checkpoint",
}


def name_of(route: ServerRoute | JobRoute) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, dict[str, str]]]:
    """A server with a job that has completed a checkpoint, and what stands for the parameters of recorded paths."""
    with served_job(tmp_path_factory.mktemp("job")) as (server, job_id):
        yield server, ids_in(server, job_id)


def with_checkpoint(server: Server, values: dict[str, str]) -> dict[str, str]:
    """Add the id of the newest checkpoint, as older ones are forgotten."""
    latest = server.get(f"/jobs/{values['jobid']}/checkpoints")["latest"]["completed"]
    return {**values, "checkpointid": str(latest["id"])}


def here(server: Server, recorded: Recorded, values: dict[str, str]) -> str:
    """Return the path of a recorded request with the ids of our job in the place of those that were known to Flink."""
    route = recordings.route_of(recorded)
    assert route is not None
    values = with_checkpoint(server, values)
    parts = []
    for pattern, part in zip(route.path.split("/"), recorded.path.split("/"), strict=True):
        unknown = not pattern.startswith(":") or part in (UNKNOWN, "foo", "x", "none.txt", "999999")
        parts.append(part if unknown else values.get(pattern[1:], part))
    query = re.sub("jobs=(?!0{32})[0-9a-f]{32}", f"jobs={values['jobid']}", recorded.query)
    return "/".join(parts) + (f"?{query}" if query else "")


def label(recorded: Recorded) -> str:
    """Return a recorded request with ID and TM in the place of ids that were known to Flink."""
    text = re.sub(r"[0-9a-f]{32}", lambda match: match[0] if match[0] == UNKNOWN else "ID", recorded.request)
    return re.sub(r"/taskmanagers/[^/?]*:\d+-\w+", "/taskmanagers/TM", text)


def test_every_route_has_a_recorded_answer_or_a_reason() -> None:
    routes = {name_of(route): recordings.of(route) for route in ROUTES}

    assert [name for name, found in routes.items() if not found] == list(NOT_RECORDED)
    # All that was recorded belongs to a route, except for paths that are not there.
    strays = {label(each) for each in recordings.everything() if recordings.route_of(each) is None}
    assert {text for text in strays if not re.search("/nope|/v2/|/jars|profiler|/zz|/subtasks/x|details/x", text)} == {
        "POST /overview",
        "HEAD /overview",
        "OPTIONS /overview",
    }


SUCCESSES = [
    each
    for each in recordings.everything()
    if each.status < 300
    and (route := recordings.route_of(each)) is not None
    and name_of(route) not in CHANGES
    # Operations and jobs that have ended need requests before: other tests make them.
    and each.file not in ("cli_traffic", "job_failed_pyflink", "job_finished_after_stop")
]


@pytest.mark.parametrize("recorded", SUCCESSES, ids=[f"{each.file} {label(each)}" for each in SUCCESSES])
def test_an_answer_has_the_form_of_flinks(world: tuple[Server, dict[str, str]], recorded: Recorded) -> None:
    server, values = world

    status, answer = server.ask(recorded.method, here(server, recorded, values), recorded.sent or None)

    assert status == OTHER_STATUS.get(label(recorded), (recorded.status,))[0], answer
    if status != recorded.status or isinstance(answer, str):
        return
    if isinstance(answer, dict) and "history" in answer:
        # The recorded history begins with a checkpoint that had completed.
        answer["history"] = [each for each in answer["history"] if each["className"] == "completed"]
    found = [text for text in differences(shape(recorded.body), shape(answer)) if text.split(" is ")[0] not in OTHER_FIELDS]
    # Percentiles over subtasks are numbers here, "NaN" there.
    assert [text for text in found if not re.search(r"\.p\d+ is", text)] == []
    if recorded.body and isinstance(recorded.body, list) and not recorded.query:
        assert answer or name_of(recordings.route_of(recorded) or ROUTES[0]).endswith("jm-operator-metrics")


FAILURES = [each for each in recordings.everything() if each.status >= 300 and recordings.route_of(each) is not None]
FAILURES = [each for each in FAILURES if each.file != "cli_traffic"]


@pytest.mark.parametrize("recorded", FAILURES, ids=[f"{each.file} {label(each)} {each.sent}" for each in FAILURES])
def test_a_refusal_has_flinks_status(world: tuple[Server, dict[str, str]], recorded: Recorded) -> None:
    server, values = world

    status, answer = server.ask(recorded.method, here(server, recorded, values), recorded.sent or None)

    assert status == OTHER_STATUS.get(label(recorded), (recorded.status,))[0], answer
    assert list(answer) == ["errors"]
    assert all(isinstance(text, str) and text for text in answer["errors"])


DOCUMENT = document_of(ROUTES)
COMPONENTS = DOCUMENT["components"]["schemas"]


def schema_of(route: ServerRoute | JobRoute) -> Any:
    path = re.sub(r":(\w+)", r"{\1}", route.path)
    responses = DOCUMENT["paths"][path][route.method.lower()]["responses"]
    return responses[str(route.status)]["content"]["application/json"]["schema"]


TYPED = [each for each in recordings.everything() if (route := recordings.route_of(each)) and each.status == route.status]
TYPED = [each for each in TYPED if getattr(recordings.route_of(each), "answer", None) not in (None, str)]


@pytest.mark.parametrize("recorded", TYPED, ids=[f"{each.file} {label(each)} {number}" for number, each in enumerate(TYPED)])
def test_the_document_has_each_field_that_flink_sent(recorded: Recorded) -> None:
    route = recordings.route_of(recorded)
    assert route is not None

    assert misfits(schema_of(route), recorded.body, COMPONENTS) == []


def test_the_document_fits_what_the_server_answers(world: tuple[Server, dict[str, str]]) -> None:
    server, values = world
    values = {
        **with_checkpoint(server, values),
        "subtaskindex": "0",
        "attempt": "0",
        "triggerid": UNKNOWN,
        "rescaleuuid": UNKNOWN,
    }
    wrong = []
    for route in ROUTES:
        if route.method != "GET" or route.answer in (None, str) or ":triggerid" in route.path or "yarn" in route.path:
            continue
        path = re.sub(r":(\w+)", lambda match: values[match[1]], route.path)
        for query in ("", "?get=uptime,numRecordsIn,0.numRecordsIn,Status.JVM.CPU.Load") if "get" in route.query else ("",):
            wrong += [f"{path}{query}: {text}" for text in misfits(schema_of(route), server.get(path + query), COMPONENTS)]
    assert wrong == []


def test_the_document_is_served_and_names_every_route(world: tuple[Server, dict[str, str]]) -> None:
    server, values = world

    document = server.get("/openapi.json")

    assert document["openapi"].startswith("3.1")
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    assert len(operations) == len(ROUTES)
    assert len({operation["operationId"] for operation in operations}) == len(ROUTES)
    required = {name: set(schema.get("required", ())) for name, schema in document["components"]["schemas"].items()}
    # Fields with a default value are sent, too, unless they are left out of some answers.
    assert {"slots-available", "flink-version"} <= required["ClusterOverview"]
    assert required["TaskManagerInfo"] == server.get("/taskmanagers")["taskmanagers"][0].keys()
    assert required["JobInfo"] == server.get(f"/jobs/{values['jobid']}").keys()
    assert required["OperationInfo"] == required["SavepointRequest"] == set()
    # Nothing refers to a type that is not there.
    text = str(document)
    assert set(re.findall(r"#/components/schemas/([\w.]+)", text)) <= document["components"]["schemas"].keys()


def test_a_checkpoint_in_progress_has_flinks_form(world: tuple[Server, dict[str, str]]) -> None:
    server, values = world
    job = server.jobs.get(values["jobid"])
    assert job is not None
    view = job.view()
    completed = view.checkpoints.latest_completed
    assert completed is not None
    record = replace(completed, status=CheckpointStatus.IN_PROGRESS, acknowledgements=(), duration=None, external_path=None)
    vertex = next(iter(view.vertices.values()))
    expected = json.loads((recordings.SAMPLES / "checkpoint_in_progress.json").read_text())
    in_history, in_details, of_subtask = expected.values()

    history = json.loads(encode(checkpoints.checkpoint(view, record)))
    details = json.loads(encode(checkpoints.checkpoint(view, record, details=True)))
    part = json.loads(encode(checkpoints.vertex_details(record, vertex)))

    assert differences(shape(in_history), shape(history)) == []
    assert differences(shape(in_details), shape(details)) == []
    assert history["latest_ack_timestamp"] == -1
    assert part["subtasks"][0] == of_subtask[0]


def test_a_job_that_restarts_has_flinks_form(tmp_path: Path) -> None:
    def boom(value: int) -> int:
        raise ValueError("deliberate")

    restarts = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.attempts": "1"}
    env = make_env(tmp_path, **restarts, **{"restart-strategy.fixed-delay.delay": "60 s"})
    numbers = env.from_source(NumberSequenceSource(0, 100), WatermarkStrategy.no_watermarks(), "numbers")
    failing = numbers.map(boom, Types.LONG()).name("boom")
    failing.key_by(lambda v: v % 2, Types.LONG()).reduce(lambda a, b: a + b).name("sum").sink_to(DiscardingSink())
    with served() as server:
        client = env.execute_async("restarting")
        job_id = client.get_job_id()
        wait_until("the restart", lambda: server.get(f"/jobs/{job_id}/status")["status"] == "RESTARTING")
        info = server.get(f"/jobs/{job_id}")
        failure = server.get(f"/jobs/{job_id}/exceptions")["exceptionHistory"]["entries"][0]
        client.cancel().result(120)

    expected = json.loads((recordings.SAMPLES / "job_restarting.json").read_text())
    # The only field that is not Flink's, and only in a job that has failed.
    restarts = info.pop("restarts")
    assert restarts.keys() == {"count", "last-failure", "last-failure-time"}
    assert "ValueError: deliberate" in restarts["last-failure"]
    assert differences(shape(expected), shape(info)) == []
    assert (info["state"], info["end-time"]) == (expected["state"], -1)
    assert {vertex["status"] for vertex in info["vertices"]} <= {"FAILED", "CANCELED"}
    # It failed in the first epoch, before any slot had reported.
    assert failure["endpoint"] == f"{platform.node()}:{os.getpid()}"
    assert failure["taskManagerId"].startswith(f"{platform.node()}:")


def test_the_durations_of_states_are_flinks(world: tuple[Server, dict[str, str]]) -> None:
    server, values = world

    vertex = server.get(f"/jobs/{values['jobid']}/vertices/{values['vertexid']}")

    for subtask in vertex["subtasks"]:
        assert list(subtask["status-duration"]) == ["CREATED", "SCHEDULED", "DEPLOYING", "INITIALIZING", "RUNNING"]
        assert sum(subtask["status-duration"].values()) >= subtask["duration"] > 0
    assert vertex["aggregated"]["status-duration"]["RUNNING"]["max"] > 0


def test_states_that_a_subtask_did_not_enter_have_no_duration() -> None:
    execution = Execution(
        vertex=VertexId(1),
        vertex_name="v",
        subtask=0,
        parallelism=1,
        attempt_number=0,
        slot=0,
        state=ExecutionState.CANCELED,
        timestamps={ExecutionState.CREATED: 100, ExecutionState.SCHEDULED: 110, ExecutionState.CANCELED: 150},
    )

    durations = vertices.state_durations(execution, now=1_000)

    assert durations == {"CREATED": 10, "SCHEDULED": 40, "DEPLOYING": -1, "INITIALIZING": -1, "RUNNING": -1}

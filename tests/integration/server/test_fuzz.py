"""Random requests to all routes of a driver, with ids that exist and with nonsense: not one error that was not meant.

The seed is fixed, so that a run finds the same as the one before; the soak test takes FLINKISH_SEED, or a random one.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from starlette.types import ASGIApp

from flinkish.server.rest.app import make_app
from flinkish.server.rest.routes import ROUTES
from tests.kit.seeds import chosen_seed
from tests.unit.server.asgi import Answered, ask_async
from tests.unit.server.support import UNKNOWN, Server, served_job
from tests.unit.server.traversal import IN_PATHS

#: Changes of the job itself come at its end: the fuzzer would have no job left.
_ENDS = ("yarn-cancel", "cancel", "stop")
_FIELDS = (
    "target-directory",
    "targetDirectory",
    "cancel-job",
    "drain",
    "formatType",
    "triggerId",
    "checkpointType",
    "savepoint-path",
)
_NAMES = ("get", "agg", "jobs", "subtasks", "mode", "maxExceptions", "type", "offset", "taskmanagers")
_WORDS = (
    "0.numRecordsIn",
    "numRecordsIn",
    "uptime",
    "sum",
    "max",
    "skew",
    "0-1",
    "1-",
    "-1",
    "99999999999999999999",
    "full",
    "NaN",
    "",
)

_text = st.one_of(st.sampled_from(_WORDS), st.text(max_size=12))
_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), _text),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_text, inner, max_size=3)),
    max_leaves=6,
)
_bodies = st.one_of(
    st.just(b""),
    st.binary(max_size=40),
    st.dictionaries(st.sampled_from(_FIELDS), _values, max_size=4).map(lambda body: json.dumps(body).encode()),
)
_queries = st.lists(st.tuples(st.one_of(st.sampled_from(_NAMES), _text), st.lists(_text, max_size=3).map(",".join)), max_size=3)
_headers = st.lists(
    st.tuples(
        st.sampled_from(["accept", "content-type", "range", "if-none-match", "x-forwarded-for", "expect"]),
        st.text("a;/=*\xff", max_size=9),
    ),
    max_size=2,
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ASGIApp, dict[str, list[str]]]]:
    """An application over a running job, and values that exist for the parameters of paths."""
    with served_job(tmp_path_factory.mktemp("job")) as (server, job_id):
        yield make_app(server.state), _existing(server, job_id)


def _existing(server: Server, job_id: str) -> dict[str, list[str]]:
    checkpoint = server.get(f"/jobs/{job_id}/checkpoints")["latest"]["completed"]["id"]
    return {
        "jobid": [job_id],
        "vertexid": [vertex["id"] for vertex in server.get(f"/jobs/{job_id}")["vertices"]],
        "checkpointid": [str(checkpoint)],
        "subtaskindex": ["0", "1", "2"],
        "attempt": ["0", "1"],
    }


def _parameter(known: list[str]) -> st.SearchStrategy[str]:
    nonsense = st.one_of(
        st.sampled_from([UNKNOWN, "0", "-1", "9" * 18, "9" * 40, "None", "true"]),
        st.text(min_size=1, max_size=20).map(lambda text: quote(text.encode("utf-8", "replace"), safe="")),
        st.sampled_from(IN_PATHS),
    )
    # A known value most of the time, so that requests come far.
    return st.one_of(*[st.sampled_from(known)] * 3, nonsense) if known else nonsense


@st.composite
def _requests(draw: st.DrawFn, existing: dict[str, list[str]]) -> tuple[str, str, bytes, list[tuple[str, str]]]:
    route = draw(st.sampled_from([route for route in ROUTES if not route.path.endswith(_ENDS)]))
    parts = [draw(_parameter(existing.get(part[1:], []))) if part.startswith(":") else part for part in route.path.split("/")]
    # Changes of a job are asked for with an unknown id, so that it goes on.
    if route.method != "GET":
        parts = [UNKNOWN if part in existing["jobid"] else part for part in parts]
    query = "&".join(f"{quote(name)}={quote(value, safe=',')}" for name, value in draw(_queries))
    method = draw(st.sampled_from([route.method] * 6 + ["PUT", "HEAD", "OPTIONS"]))
    return method, "/".join(parts) + (f"?{query}" if query else ""), draw(_bodies), draw(_headers)


def _fuzz(world: tuple[ASGIApp, dict[str, list[str]]], number: int, examples: int) -> None:
    app, existing = world
    reached: set[int] = set()

    @seed(number)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(request=_requests(existing))
    def check(request: Any) -> None:
        method, target, body, headers = request
        answer: Answered = asyncio.run(ask_async(app, method, target, headers, body))
        reached.add(answer.status)
        # Flink answers 500 for some unknown ids, and so does this server; what it did not expect has this text.
        assert b"see the log" not in answer.body, (request, answer.body)
        assert answer.status < 500 or answer.is_error, (request, answer.status)
        if answer.status >= 400:
            assert answer.is_error, (request, answer.body)

    check()
    assert {200, 400, 404} <= reached


def test_no_request_meets_an_error_that_was_not_meant(world: tuple[ASGIApp, dict[str, list[str]]]) -> None:
    _fuzz(world, 11, 600)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_random_requests_for_a_minute(world: tuple[ASGIApp, dict[str, list[str]]]) -> None:
    number = chosen_seed()
    print(f"seed {number}")
    _fuzz(world, number, 20_000)

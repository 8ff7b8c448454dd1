"""Schemathesis reads the server's own OpenAPI document and makes requests of it: answers have the form that the document says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, response_schema_conformance

from flinkish.server.rest.app import make_app
from flinkish.server.rest.openapi import document_of
from flinkish.server.rest.routes import ROUTES
from tests.unit.server.support import ids_in, served_job

#: Texts of the errors for which Flink answers 500 or 503 on purpose, and so does the server.
_MEANT = ("Job [0-9a-f]{32} not found", "No TaskExecutor registered under", "FLINK-12312", "without a job restart")


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The application over a running job, and ids that exist in it."""
    with served_job(tmp_path_factory.mktemp("job")) as (server, job):
        yield make_app(server.state), {**ids_in(server, job), "subtaskindex": 0, "attempt": 0}


DOCUMENT = document_of(ROUTES)
#: What changes nothing; the changes have tests of their own, and would end the job.
PATHS = sorted(
    path for path, methods in DOCUMENT["paths"].items() if "get" in methods and not path.endswith(("/yarn-cancel", "/yarn-stop"))
)
SCHEMA = schemathesis.openapi.from_dict(DOCUMENT)


@pytest.mark.parametrize("path", PATHS)
def test_answers_to_random_requests_have_the_form_that_the_document_says(path: str, known: tuple[Any, dict[str, Any]]) -> None:
    app, found = known

    @seed(11)
    @settings(max_examples=10, deadline=None, database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
    @given(case=SCHEMA[path]["GET"].as_strategy(), exists=st.booleans())
    def check(case: Any, exists: bool) -> None:
        if exists:
            case.path_parameters.update({name: found[name] for name in case.path_parameters if name in found})
        response = case.call(app=app, base_url="http://localhost", headers={"host": "localhost"})
        checks = [content_type_conformance, response_schema_conformance]
        if not any(re.search(text, response.text) for text in _MEANT):
            checks.append(not_a_server_error)
        case.validate_response(response, checks=checks)

    check()

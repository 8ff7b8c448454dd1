"""The OpenAPI document of the server, generated from the table of routes and the types of the answers.

`python -m flinkish.server.rest.openapi` prints it; a server serves it at /openapi.json.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

import flinkish
from flinkish.server.answers.wire import Errors, Kebab, Wire
from flinkish.server.rest.routes import ROUTES, Route

_ID = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
_TEXT = {"type": "string", "minLength": 1}
#: Schemas of path parameters; other parameters are strings.
_PATH = {
    **dict.fromkeys(("jobid", "vertexid", "triggerid", "datasetid"), _ID),
    **dict.fromkeys(("subtaskindex", "attempt", "checkpointid"), _NUMBER),
}
#: Schemas and descriptions of query parameters.
_QUERY = {
    "get": ({"type": "string"}, "Names of metrics, separated by commas; without it, the answer lists the names of all metrics."),
    "agg": (
        {"type": "string", "pattern": "^((min|max|avg|sum|skew)(,(min|max|avg|sum|skew))*)?$"},
        "Statistics to return, separated by commas: min, max, avg, sum, skew. Without it, all of them.",
    ),
    "jobs": ({"type": "string", "pattern": "^([0-9a-f]{32}(,[0-9a-f]{32})*)?$"}, "Ids of jobs, separated by commas."),
    "subtasks": ({"type": "string"}, "Indexes and ranges of subtasks, such as 0,2-4."),
    "taskmanagers": ({"type": "string"}, "Ids of task managers, separated by commas."),
    "maxExceptions": (_NUMBER, "Maximum number of exceptions to return, the newest first."),
    "mode": (
        {"type": "string", "enum": ["cancel", "stop"]},
        "How to end the job; stop is refused, because Flink has removed it.",
    ),
    "type": ({"type": "string", "enum": ["full", "on_cpu", "off_cpu"]}, "Which threads the flame graph shows."),
}
_REFERENCE = "#/components/schemas/{name}"


def document_of(routes: Sequence[Route]) -> dict[str, Any]:
    types = [kind for route in routes for kind in (route.answer, route.request) if kind not in (None, str)]
    unique = list(dict.fromkeys([*types, Errors]))
    schemas, components = msgspec.json.schema_components(unique, ref_template=_REFERENCE)
    requests = {route.request for route in routes if isinstance(route.request, type)}
    for kind in (*_below(Wire), *_below(Kebab)):
        if kind not in requests and kind.__name__ in components:
            components[kind.__name__]["required"] = _always_sent(kind)
    schema_of = dict(zip(unique, schemas, strict=True))
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.template, {})[route.method.lower()] = _operation(route, schema_of)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "REST of flinkish, in the form of Flink 2.3",
            "version": flinkish.__version__,
            "description": "Every path also answers below /v1.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    }


def _below(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for kind in base.__subclasses__():
        yield kind
        yield from _below(kind)


def _always_sent(kind: type[msgspec.Struct]) -> list[str]:
    """Return the fields that each answer of a type has: most types also send a field that has its default value."""
    fields = msgspec.structs.fields(kind)
    if kind.__struct_config__.omit_defaults:
        return [field.encode_name for field in fields if field.required]
    return [field.encode_name for field in fields if field.default is not msgspec.UNSET]


def _operation(route: Route, schema_of: dict[Any, Any]) -> dict[str, Any]:
    parameters = [{"name": name, "in": "path", "required": True, "schema": _PATH.get(name, _TEXT)} for name in route.parameters]
    for name in route.query:
        schema, description = _QUERY[name]
        parameters.append({"name": name, "in": "query", "schema": schema, "description": description})
    responses: dict[str, Any] = {"default": _json("An error.", schema_of[Errors])}
    if route.answer is str:
        responses[str(route.status)] = {"description": "The text.", "content": {"text/plain": {"schema": {"type": "string"}}}}
    elif route.answer is not None:
        responses[str(route.status)] = _json("Success.", schema_of[route.answer])
    operation: dict[str, Any] = {"operationId": _name(route), "parameters": parameters, "responses": responses}
    if route.request is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": schema_of[route.request]}}}
    return operation


def _json(description: str, schema: Any) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": schema}}}


def _name(route: Route) -> str:
    words = [word for word in re.split("[/:.-]", route.path) if word]
    return route.method.lower() + "".join(word[0].upper() + word[1:] for word in words)


if __name__ == "__main__":
    json.dump(document_of(ROUTES), sys.stdout, indent=1)
    print()

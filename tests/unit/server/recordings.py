"""All answers of Flink 2.3.0 that were recorded, by route."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from flinkish.server.rest.routes import ROUTES, JobRoute, ServerRoute

SAMPLES = Path(__file__).parent / "samples"
_ID = "[0-9a-f]{32}"
#: What parameters of paths look like; others may be any text.
_PARAMETERS = {"jobid": _ID, "vertexid": _ID, "triggerid": _ID, "datasetid": _ID, "checkpointid": "[0-9]+"}
_RECORDED = re.compile(r"(GET|POST|PATCH|PUT|DELETE|HEAD|OPTIONS) ([^ ?]+)(?:\?(\S*))?(?: (.+))?")


@dataclass(frozen=True, slots=True)
class Recorded:
    """A request and Flink's answer."""

    file: str
    method: str
    path: str
    query: str
    sent: str
    status: int
    body: Any

    @property
    def request(self) -> str:
        return f"{self.method} {self.path}" + (f"?{self.query}" if self.query else "")


@cache
def everything() -> tuple[Recorded, ...]:
    """Return all recorded answers that stand with their request."""
    return tuple(_read())


def of(route: ServerRoute | JobRoute) -> list[Recorded]:
    """Return what was recorded of a route."""
    return [each for each in everything() if route_of(each) is route]


def route_of(recorded: Recorded) -> ServerRoute | JobRoute | None:
    """Return the route of a recorded request: the first one of the table that fits, as in the application."""
    for route, pattern in _patterns():
        if route.method == recorded.method and pattern.fullmatch(recorded.path):
            return route
    return None


@cache
def _patterns() -> list[tuple[ServerRoute | JobRoute, re.Pattern[str]]]:
    def pattern(path: str) -> re.Pattern[str]:
        parts = (_PARAMETERS.get(part[1:], "[^/]+") if part.startswith(":") else re.escape(part) for part in path.split("/"))
        return re.compile("/".join(parts))

    return [(route, pattern(route.path)) for route in ROUTES]


def _read() -> Iterator[Recorded]:
    for file in sorted(SAMPLES.glob("*.json")):
        content = json.loads(file.read_text())
        if isinstance(content, list):
            entries = [(each["request"], each["status"], each["body"]) for each in content]
        else:
            entries = [(key, each["status"], each.get("body")) for key, each in content.items() if _is_answer(key, each)]
        for request, status, body in entries:
            match = _RECORDED.fullmatch(request)
            assert match is not None, (file, request)
            yield Recorded(file.stem, match[1], match[2], match[3] or "", match[4] or "", status, body)


def _is_answer(key: str, value: Any) -> bool:
    return _RECORDED.fullmatch(key) is not None and isinstance(value, dict) and isinstance(value.get("status"), int)

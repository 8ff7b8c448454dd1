"""A request as a handler sees it, and errors in Flink's form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from flinkish.graph.job_graph import JobVertex
from flinkish.server.jobs import ServedJob
from flinkish.server.views.job_view import JobView

T = TypeVar("T")

#: What a handler returns: a struct of `answers`, a list or dict of plain data, or a Text.
Answer = Any


@dataclass(frozen=True, slots=True)
class Text:
    """An answer that is plain text, not JSON."""

    text: str


_HEX_ID = re.compile(r"[0-9a-f]{32}")
#: A number of up to nine digits, or an id of up to eighteen.
_INT = re.compile(r"-?[0-9]{1,18}")


class RestError(Exception):
    """The answer to a request that cannot be served; the body is `{"errors": [...]}`, which Flink's command line needs."""

    def __init__(self, status: int, *messages: str) -> None:
        super().__init__(*messages)
        self.status = status
        self.messages = messages


@dataclass(frozen=True, slots=True)
class Call:
    """One request: the parameters of its path and its query, and its body."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    content_type: str = ""

    def id(self, name: str) -> str:
        """Return a parameter of the path that is an id of 32 hexadecimal digits; raises RestError 400."""
        value = self.path[name].lower()
        if not _HEX_ID.fullmatch(value):
            raise _unreadable("path", name, "an id of 32 hexadecimal digits", value)
        return value

    def number(self, name: str) -> int:
        """Return a parameter of the path that is a number; raises RestError 400."""
        value = self.path[name]
        if not _INT.fullmatch(value):
            raise _unreadable("path", name, "a number", value)
        return int(value)

    def query_number(self, name: str) -> int | None:
        """Return a parameter of the query that is a number; None if it is absent; raises RestError 400."""
        value = self.query.get(name)
        if value is None:
            return None
        if not _INT.fullmatch(value):
            raise _unreadable("query", name, "a number", value)
        return int(value)

    def query_ids(self, name: str) -> tuple[str, ...]:
        """Return a parameter of the query that is a list of ids of 32 hexadecimal digits; raises RestError 400."""
        for word in self.words(name):
            if not _HEX_ID.fullmatch(word.lower()):
                raise _unreadable("query", name, "a list of ids of 32 hexadecimal digits", word)
        return tuple(word.lower() for word in self.words(name))

    def words(self, name: str) -> tuple[str, ...]:
        """Return the words of a parameter of the query, which commas separate."""
        return tuple(word for word in self.query.get(name, "").split(",") if word)

    def read(self, body_type: type[T]) -> T:
        """Decode the body; an empty one counts as `{}`; raises RestError 400."""
        try:
            return msgspec.json.decode(self.body or b"{}", type=body_type)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RestError(400, f"Request did not match expected format {body_type.__name__}: {error}.") from error


def _unreadable(place: str, name: str, expected: str, value: str) -> RestError:
    shown = repr(value[:80])
    return RestError(400, f"Bad request, could not parse parameters: {place} parameter ({name}) is not {expected}: {shown}.")


@dataclass(frozen=True, slots=True)
class JobCall:
    """A request about one job."""

    call: Call
    job: ServedJob
    view: JobView

    def vertex(self) -> JobVertex:
        """Return the vertex that the path names; raises RestError 404."""
        vertex = self.view.vertex(self.call.id("vertexid"))
        if vertex is None:
            raise RestError(404, f"JobVertex {self.call.path['vertexid']} not found")
        return vertex

    def subtask(self, vertex: JobVertex) -> int:
        """Return the index of the subtask that the path names; raises RestError 404."""
        index = self.call.number("subtaskindex")
        if not 0 <= index < vertex.parallelism:
            raise RestError(404, f"Invalid subtask index for vertex {self.call.path['vertexid']}: {index}")
        return index

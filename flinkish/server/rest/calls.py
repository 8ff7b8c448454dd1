"""A request as a handler sees it, and errors in Flink's form."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from typing import Any, TypeVar

import msgspec

from flinkish.graph.job_graph import JobVertex
from flinkish.jobmaster.execution_graph import Execution
from flinkish.server.state import ServedJob
from flinkish.server.views.job_view import JobView

T = TypeVar("T")

#: The result of a handler: a struct of `answers`, a list or dict of plain data, or a str, which is sent as plain text.
Answer = Any

HEX_ID = re.compile(r"[0-9a-f]{32}")
_BOUNDARY = re.compile(r"[A-Za-z0-9'()+_,./:=? -]{1,70}")
#: A whole number of up to 18 digits, which fits into 64 bits.
_INT = re.compile(r"-?[0-9]{1,18}")


class RestError(Exception):
    """The error answer to a request: an HTTP status and messages; its body is `{"errors": [...]}`, as Flink's clients expect."""

    def __init__(self, status: int, *messages: str) -> None:
        super().__init__(*messages)
        self.status = status
        self.messages = messages


@dataclass(frozen=True, slots=True)
class Call:
    """One request: the parameters of its path and of its query, and its body."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    content_type: str = ""

    def id(self, name: str) -> str:
        """Return a path parameter that must be an id of 32 hexadecimal digits; raises RestError 400 otherwise."""
        value = self.path[name].lower()
        if not HEX_ID.fullmatch(value):
            raise unreadable("path", name, "an id of 32 hexadecimal digits", value)
        return value

    def number(self, name: str) -> int:
        """Return a path parameter that must be a whole number; raises RestError 400 otherwise."""
        return _number("path", name, self.path[name])

    def query_number(self, name: str) -> int | None:
        """Return a query parameter that must be a whole number, None if it is absent; raises RestError 400 otherwise."""
        value = self.query.get(name)
        return None if value is None else _number("query", name, value)

    def query_ids(self, name: str) -> tuple[str, ...]:
        """Return a query parameter that must be a list of ids of 32 hexadecimal digits; raises RestError 400 otherwise."""
        words = self.words(name)
        for wrong in (word for word in words if not HEX_ID.fullmatch(word.lower())):
            raise unreadable("query", name, "a list of ids of 32 hexadecimal digits", wrong)
        return tuple(word.lower() for word in words)

    def words(self, name: str) -> tuple[str, ...]:
        """Return the comma-separated words of a query parameter; an empty tuple if it is absent."""
        return tuple(word for word in self.query.get(name, "").split(",") if word)

    def read(self, body_type: type[T]) -> T:
        """Decode the body from JSON; an empty one counts as `{}`. Raises RestError 400 if it does not have this type."""
        try:
            return msgspec.json.decode(self.body or b"{}", type=body_type)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RestError(400, f"Request did not match expected format {body_type.__name__}: {error}.") from error

    def file(self) -> tuple[str, bytes]:
        """Return the name and the content of the one file in a multipart form, as browsers and Flink's clients send it.

        Raises RestError 400 if the form is malformed.
        """
        message = Message()
        message["Content-Type"] = self.content_type
        boundary = message.get_param("boundary")
        if (
            message.get_content_type() != "multipart/form-data"
            or not isinstance(boundary, str)
            or not _BOUNDARY.fullmatch(boundary)
        ):
            raise RestError(400, "Expected a file in a form (Content-Type: multipart/form-data; boundary=...).")
        parts = (b"\r\n" + self.body).split(b"\r\n--" + boundary.encode())
        if len(parts) < 3 or not parts[-1].startswith(b"--"):
            raise RestError(400, "The form is not complete.")
        files = []
        for part in parts[1:-1]:
            head, separator, content = part.partition(b"\r\n\r\n")
            name = message_from_string(head.decode("utf-8", "replace").lstrip()).get_filename()
            if separator and name is not None:
                files.append((name, content))
        if len(files) != 1:
            raise RestError(400, f"Exactly 1 file must be sent, received {len(files)}.")
        return files[0]


def _number(place: str, name: str, value: str) -> int:
    if not _INT.fullmatch(value):
        raise unreadable(place, name, "a number", value)
    return int(value)


def unreadable(place: str, name: str, expected: str, value: str) -> RestError:
    """Return the error for a parameter of the path or the query that is not as expected."""
    shown = repr(value[:80])
    return RestError(400, f"Bad request, could not parse parameters: {place} parameter ({name}) is not {expected}: {shown}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCall(Call):
    """A request about one job."""

    job: ServedJob
    view: JobView

    def vertex(self) -> JobVertex:
        """Return the vertex that the path names; raises RestError 404 if there is none."""
        vertex = self.view.vertex(self.id("vertexid"))
        if vertex is None:
            raise RestError(404, f"JobVertex {self.path['vertexid']} not found")
        return vertex

    def execution(self, vertex: JobVertex) -> Execution:
        """Return the execution of the subtask that the path names; raises RestError 404 if the vertex does not have it."""
        index = self.number("subtaskindex")
        if not 0 <= index < vertex.parallelism:
            raise RestError(404, f"Invalid subtask index for vertex {self.path['vertexid']}: {index}")
        return self.view.executions(vertex.id)[index]

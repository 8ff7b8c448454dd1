"""A server that gives prepared answers and keeps what it was asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

from click.testing import CliRunner, Result

from flinkish.cli.main import cli
from tests.kit.http import handled_by


@dataclass
class Asked:
    """One request."""

    method: str
    path: str
    body: bytes
    headers: dict[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class FakeServer:
    """Answers by `METHOD path` (without /v1): a status and an answer; of several, the last one is repeated."""

    answers: dict[str, list[tuple[int, Any]]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    token: str | None = None
    port: int = 0

    def answer(self, request: str, *answers: Any, status: int = 200) -> None:
        """Prepare the answers to a request."""
        self.answers[request] = [(status, each) for each in answers]

    def requests(self) -> list[str]:
        """Return what was asked, in order."""
        return [f"{each.method} {each.path}" for each in self.asked]

    def find(self, request: str) -> Asked:
        """Return the only request of this kind."""
        (found,) = [each for each in self.asked if f"{each.method} {each.path}" == request]
        return found

    def invoke(self, verb: str, *arguments: object, status: int | None = None) -> Result:
        """Run a command of flinkish against this server; it must end with the status."""
        name, *flags = verb.split()
        result = CliRunner().invoke(cli, [name, "-m", f"127.0.0.1:{self.port}", *flags, *map(str, arguments)])
        assert status in (None, result.exit_code), result.output
        return result

    def _answer_to(self, asked: Asked) -> tuple[int, Any]:
        self.asked.append(asked)
        if self.token is not None and asked.headers.get("Authorization") != f"Bearer {self.token}":
            return 401, {"errors": ["This server needs a token."]}
        prepared = self.answers.get(f"{asked.method} {asked.path}")
        if prepared is None:
            return 404, {"errors": [f"Unable to load requested file {asked.path}."]}
        return prepared.pop(0) if len(prepared) > 1 else prepared[0]


@contextmanager
def fake_server(token: str | None = None) -> Iterator[FakeServer]:
    """Run a server on a free port."""
    fake = FakeServer(token=token)

    class Handler(BaseHTTPRequestHandler):
        def _handle(self) -> None:
            assert self.path.startswith("/v1/"), self.path
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = fake._answer_to(Asked(self.command, self.path[3:], body, dict(self.headers)))
            content = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"http://127.0.0.1:{fake.port}/elsewhere")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PATCH = do_DELETE = _handle

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    with handled_by(Handler) as fake.port:
        yield fake


def job(job_id: str, state: str = "RUNNING", name: str = "a job", **changes: Any) -> dict[str, Any]:
    """Return a job as it is in /jobs/overview."""
    return {
        "jid": job_id,
        "name": name,
        "state": state,
        "start-time": 1795228846605,
        "end-time": -1,
        "duration": 306461,
        "last-modification": 1795228851799,
        "tasks": {"running": 3, "total": 4},
        "pending-operators": 0,
        **changes,
    }

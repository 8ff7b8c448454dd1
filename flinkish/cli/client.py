"""A client of Flink's REST API, as a job's own server, a session cluster, or a JobManager of Flink serve it."""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.common.errors import CheckpointError, InvalidArgumentError, JobNotFoundError, ServerError
from flinkish.server.server_settings import DEFAULT_PORT, TOKEN_VARIABLE, client_context

#: How long one request may take, in seconds.
_REQUEST_TIMEOUT = 30.0
#: Maximum length of an answer in bytes; the rest is not read.
_LONGEST_ANSWER = 64 << 20
#: The first and the longest pause between two requests about an operation, in seconds: pauses double, as in Flink's command line.
_FIRST_GAP, _LONGEST_GAP = 0.03, 2.0
_LOST_HINT = (
    "the process that did it has ended, such as the driver of the job, which is then started again. "
    "See the state of the job (`flinkish list -a`), and start the operation again."
)
#: States of a job that has ended.
ENDED = frozenset({"FINISHED", "FAILED", "CANCELED"})


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a server, the token that it needs, and how to verify its certificate."""

    #: Without a slash at the end.
    url: str
    token: str | None = field(default=None, repr=False)
    #: None = verify certificates as Python does by default.
    tls: ssl.SSLContext | None = None


def find_address(given: str | None, configuration: Configuration, environment: Mapping[str, str] = os.environ) -> Address:
    """Return the address of the server: the given `host:port` or URL, else rest.address and rest.port of the configuration.

    Raises InvalidArgumentError if `given` is not an address.
    """
    tls = client_context(configuration)
    scheme = "http" if tls is None else "https"
    token = environment.get(TOKEN_VARIABLE) or configuration.get(options.REST_TOKEN) or None
    if given is None:
        # Port 0 means any free port, which only the server's own message names; so the default port is used.
        port = configuration.get(options.REST_PORT) or DEFAULT_PORT
        given = f"{configuration.get(options.REST_ADDRESS) or 'localhost'}:{port}"
    parts = urlsplit(given if "://" in given else f"{scheme}://{given}")
    try:
        usable = parts.scheme in ("http", "https") and parts.hostname and not (parts.username or parts.query or parts.fragment)
        usable = usable and given.isprintable() and " " not in given
        has_port = parts.port is not None
    except ValueError:
        usable = has_port = False
    if not usable:
        shown = given.rpartition("@")[2]
        raise InvalidArgumentError(f"{shown!r} is not the address of a server", hint="such as -m localhost:8081.")
    netloc = parts.netloc if has_port else f"{parts.netloc}:{DEFAULT_PORT}"
    return Address(f"{parts.scheme}://{netloc}{parts.path.rstrip('/')}", token, tls)


class RestClient:
    """Sends requests and decodes the answers.

    All methods raise ServerError if there is no server, if it refuses the request, or if it answers with an error.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        # No proxies: the server is in the same network. No redirects: they would carry the token to another host.
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), _NoRedirects(), urllib.request.HTTPSHandler(context=address.tls)
        )

    def get(self, path: str) -> Any:
        """Return the answer to a GET."""
        return self._ask("GET", path)

    def text(self, path: str) -> str:
        """Return the answer to a GET that is a text, such as a log."""
        return str(self._ask("GET", path, decode=lambda content: content.decode(errors="replace")))

    def post(self, path: str, body: Any, *, timeout: float = _REQUEST_TIMEOUT) -> Any:
        """Send a body as JSON and return the answer; `timeout` is in seconds."""
        return self._ask("POST", path, json.dumps(body).encode(), timeout=timeout)

    def patch(self, path: str) -> Any:
        """Return the answer to a PATCH without a body."""
        return self._ask("PATCH", path, b"{}")

    def delete(self, path: str) -> Any:
        return self._ask("DELETE", path)

    def upload(self, path: str, file: Path, name: str) -> Any:
        """Upload a file as a multipart form under this name. Raises InvalidArgumentError if the file cannot be read."""
        try:
            content = file.read_bytes()
        except OSError as error:
            raise InvalidArgumentError(f"the file {file} cannot be read: {error.strerror}") from error
        boundary = "flinkish-" + os.urandom(16).hex()
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="jarfile"; filename="{name}"\r\n'
        head += "Content-Type: application/octet-stream\r\n\r\n"
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        return self._ask("POST", path, body, f"multipart/form-data; boundary={boundary}")

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        content_type: str = "application/json",
        *,
        timeout: float = _REQUEST_TIMEOUT,
        decode: Callable[[bytes], Any] | None = None,
    ) -> Any:
        headers = {"Accept": "application/json", **({} if body is None else {"Content-Type": content_type})}
        if self.address.token is not None:
            headers["Authorization"] = f"Bearer {self.address.token}"
        request = urllib.request.Request(f"{self.address.url}/v1{path}", body, headers, method=method)
        try:
            with self._opener.open(request, timeout=timeout) as response:
                return (decode or self._decode)(response.read(_LONGEST_ANSWER))
        except urllib.error.HTTPError as error:
            with error:
                self._refused(error.code, error.read(_LONGEST_ANSWER))
        except (OSError, http.client.HTTPException) as error:
            reason = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(reason, ssl.SSLError):
                raise ServerError(
                    f"there is no trusted connection to {self.address.url}: {reason.reason or reason}",
                    hint=f"{options.REST_SSL_TRUSTSTORE.key} names the PEM file of the authorities to trust; "
                    "a server without TLS has an address that begins with http://.",
                ) from error
            raise UnreachableError(self.address.url, reason) from error

    def _decode(self, content: bytes) -> Any:
        try:
            return json.loads(content or b"null")
        except ValueError:
            raise self._foreign() from None

    def _foreign(self) -> ServerError:
        return ServerError(
            f"the server at {self.address.url} is not a server of jobs",
            hint="check the address: -m HOST:PORT, or rest.address and rest.port of the configuration.",
        )

    def _refused(self, status: int, content: bytes) -> NoReturn:
        """Raise the error for an answer with an error status."""
        url = self.address.url
        if status == 401 and self.address.token is None:
            raise ServerError(f"the server at {url} needs a token", hint=f"set {TOKEN_VARIABLE} to the token of the server.")
        if status == 401:
            raise ServerError(f"the server at {url} does not accept the token", hint=f"check {TOKEN_VARIABLE}; it is not shown.")
        try:
            answer = json.loads(content)
            messages = [str(message) for message in answer["errors"]]
        except (ValueError, TypeError, KeyError):
            raise self._foreign() from None
        text = " ".join(without_java_trace(message) for message in messages) or f"status {status}"
        raise RefusedError(url, status, text)


class UnreachableError(ServerError):
    """No server answers."""

    def __init__(self, url: str, reason: object) -> None:
        what = "it did not answer in time" if isinstance(reason, TimeoutError) else getattr(reason, "strerror", None) or reason
        super().__init__(
            f"no server answers at {url}: {what}",
            hint="is the address right (-m HOST:PORT, with https:// before it if the server has TLS)? A job has a server if its "
            "configuration has rest.port; `flinkish cluster start` starts one for many jobs.",
        )
        self.reason = reason


class RefusedError(ServerError):
    """The server answered with an error; `status` is the HTTP status, `text` the server's message."""

    def __init__(self, url: str, status: int, text: str, *, hint: str | None = None) -> None:
        super().__init__(f"the server at {url} refuses: {text}", hint=hint)
        self.status = status
        self.text = text


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Return None, so that a redirect becomes an error."""


def wait_for(
    client: RestClient,
    path: str,
    *,
    what: str,
    timeout: float,
    progress: Callable[[float], None],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Mapping[str, Any]:
    """Wait for an operation that was started, and return its result; `timeout` and the argument of `progress` are in seconds.

    `path` is the path of the operation's result; `what` names the operation in messages. Raises CheckpointError if it fails, and
    ServerError if it has not ended in time or the server stops answering.
    """
    begun = clock()
    gap = _FIRST_GAP
    while True:
        try:
            answer = client.get(path)
        except UnreachableError as error:
            raise ServerError(
                f"the server at {client.address.url} stopped answering before the end of {what}",
                hint="its process has ended, or the network failed: look at the log of the job.",
            ) from error
        except RefusedError as error:
            if error.status == 404:
                raise RefusedError(client.address.url, error.status, error.text, hint=_LOST_HINT) from error
            # While another Dispatcher takes over; the operation goes on in the driver.
            if error.status != 503:
                raise
            answer = {"status": {"id": "IN_PROGRESS"}}
        if answer["status"]["id"] == "COMPLETED":
            operation = answer.get("operation") or {}
            cause = operation.get("failure-cause")
            if cause is None:
                return operation
            reason = str(cause.get("stack-trace") or cause.get("class") or "no reason was given")
            raise CheckpointError(f"{what} failed: {without_java_trace(reason)}")
        waited = clock() - begun
        if waited > timeout:
            raise ServerError(
                f"{what} has not ended after {timeout:g} s; it goes on, its trigger id is {path.rpartition('/')[2]}",
                hint="the job's checkpoints show its end; --timeout SECONDS waits longer.",
            )
        progress(waited)
        sleep(gap)
        gap = min(2 * gap, _LONGEST_GAP)


def without_java_trace(text: str) -> str:
    """Return a text without the lines of a Java stack trace, with only its first line and its last cause, which is the reason."""
    lines = [line for line in text.splitlines() if not line.startswith(("\tat ", "\t... "))]
    causes = [number for number, line in enumerate(lines) if line.startswith("Caused by: ")]
    if causes:
        lines = [lines[0], *lines[causes[-1] :]]
    return "\n".join(lines).strip()


def check_job_id(text: str) -> str:
    """Return the id of a job in lower case; raises InvalidArgumentError if the text is not a job id."""
    found = text.strip().lower()
    if not re.fullmatch("[0-9a-f]{32}", found):
        raise InvalidArgumentError(
            f"{text!r} is not the id of a job: that has 32 hexadecimal digits", hint="`flinkish list -a` prints the ids."
        )
    return found


def unknown_job(client: RestClient, job_id: str) -> JobNotFoundError:
    """Return the error for a job that the server does not know."""
    return JobNotFoundError(
        f"the server at {client.address.url} knows no job {job_id}", hint="`flinkish list -a` prints the jobs."
    )

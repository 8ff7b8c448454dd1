"""A server proves who it is before a client sends it a token: the port may belong to another process by now.

When a Dispatcher or a driver has died, any process of the machine may listen on its port. The client sends random text; the
server answers with the HMAC of that text and a secret that only the two know. The client then sends its token on the same
connection. The port is part of the HMAC, so that nobody can pass on the answer of a server on another port.

`ask` sends all requests between a Dispatcher and its drivers: plain HTTP on this machine.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs, urlsplit

from flinkish.checkpoint.signing import SigningKey

PROOF_PATH = "/proof"
#: Maximum length of the client's random text.
_LONGEST = 64


def session_secret(key: SigningKey) -> str:
    """Return the secret with which each Dispatcher of a session proves to drivers that it is one; all have the same key."""
    return hmac.new(key.secret, b"flinkish session", hashlib.sha256).hexdigest()


def proof(secret: str, port: int, nonce: str) -> str:
    """Return the proof that a server on this port has to give for a random text."""
    return hmac.new(secret.encode(), f"flinkish proof {port} {nonce}".encode(), hashlib.sha256).hexdigest()


def proof_for(secret: str, scope: Mapping[str, Any]) -> bytes:
    """Return the answer to a request of PROOF_PATH."""
    nonce = parse_qs(scope["query_string"].decode("ascii", "replace")).get("nonce", [""])[0][:_LONGEST]
    # The port that this connection has come to, whatever its headers say.
    return proof(secret, scope["server"][1], nonce).encode()


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer."""

    status: int
    body: bytes
    content_type: str


def ask(address: str, method: str, path: str, *, token: str, secret: str, body: bytes, timeout: float = 10.0) -> Reply:
    """Send a request to `host:port`; raises OSError if there is no answer within `timeout` seconds, or if it is not HTTP.

    The server first has to prove that it knows the secret; else nothing is sent, and OSError is raised.
    """
    place = urlsplit(f"//{address}")
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=timeout)
    try:
        _check_proof(connection, secret)
        headers = {"Connection": "close", "Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return Reply(response.status, response.read(), response.headers.get("Content-Type", ""))
    except http.client.HTTPException as error:
        raise OSError(f"{address} does not answer in HTTP: {type(error).__name__}: {error}") from error
    finally:
        connection.close()


def _check_proof(connection: http.client.HTTPConnection, secret: str) -> None:
    """Raise OSError if the server does not prove that it knows the secret. The connection is not made again afterwards."""
    connection.connect()
    connection.auto_open = 0
    nonce = secrets.token_hex(16)
    connection.request("GET", f"{PROOF_PATH}?nonce={nonce}")
    response = connection.getresponse()
    given = response.read(1_000)
    if response.status != 200 or not hmac.compare_digest(given, proof(secret, connection.port, nonce).encode()):
        raise OSError(f"what answers at {connection.host}:{connection.port} is not of this session, so it is sent nothing")

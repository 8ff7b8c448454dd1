"""Requests between a Dispatcher and its drivers: plain HTTP on this machine."""

from __future__ import annotations

import hmac
import http.client
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from flinkish.server.proof import PROOF_PATH, proof


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer."""

    status: int
    body: bytes
    content_type: str


def ask(
    address: str,
    method: str,
    path: str,
    *,
    token: str,
    secret: str | None = None,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    timeout: float = 10.0,
) -> Reply:
    """Send a request to `host:port`; raises OSError if there is no answer within `timeout` seconds, or if it is not HTTP.

    With `secret`, it first has to prove that it knows the secret; else nothing is sent, and OSError is raised.
    """
    place = urlsplit(f"//{address}")
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=timeout)
    try:
        if secret is not None:
            _check_proof(connection, secret)
        connection.request(
            method,
            path,
            body,
            {
                "Connection": "close",
                "Content-Type": "application/json",
                "Authorization": f"Bearer {token}",
                **(headers or {}),
            },
        )
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

"""Requests between a Dispatcher and its drivers: plain HTTP on this machine."""

from __future__ import annotations

import http.client
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit


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
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
    timeout: float = 10.0,
) -> Reply:
    """Send a request to `host:port`; raises OSError if there is no answer within `timeout` seconds, or if it is not HTTP."""
    place = urlsplit(f"//{address}")
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=timeout)
    try:
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

"""A server proves who it is before a client sends it a token: the port may belong to another process by now.

When a Dispatcher or a driver has died, any process of the machine may listen on its port. The one who asks sends random text;
the answer is its HMAC with a secret that only the two know, on the same connection on which the token then follows. The port is
part of it, so that the answer of a server on another port cannot be passed on.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs

from flinkish.checkpoint.signing import SigningKey

PROOF_PATH = "/proof"
#: The text of one who asks has at most this length.
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

"""The base of all REST types, and the rule for the names of their fields."""

from __future__ import annotations

import msgspec


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON object whose fields have the names of the attributes."""


class Kebab(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A JSON object whose fields have hyphens where the attributes have underscores, as in most of Flink's answers."""


class Nothing(Wire, frozen=True, kw_only=True):
    """The answer `{}`, by which clients know that a request without a result has succeeded."""


class Errors(Wire, frozen=True, kw_only=True):
    """Every error: exactly this field, by which Flink's command line knows it."""

    errors: tuple[str, ...]


def encode(answer: object) -> bytes:
    """Return an answer as JSON."""
    return _ENCODER.encode(answer)


_ENCODER = msgspec.json.Encoder()

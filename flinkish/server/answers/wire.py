"""The base of all REST types, and the rule for the names of their fields."""

from __future__ import annotations

import msgspec

#: The content type of all answers but logs.
JSON = "application/json; charset=UTF-8"


class Wire(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON object whose fields have the names of the attributes."""


class Kebab(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """A JSON object whose fields have hyphens where the attributes have underscores, as in most of Flink's answers."""


class Nothing(Wire, frozen=True, kw_only=True):
    """The answer `{}` to a successful request without a result."""


class Errors(Wire, frozen=True, kw_only=True):
    """The body of every error; Flink's command line recognizes an error by exactly this field."""

    errors: tuple[str, ...]


encode = msgspec.json.Encoder().encode

"""What a program of the model raises."""

from __future__ import annotations

from typing import Any


class Violation(AssertionError):
    """State is not what the model says."""


def expect(what: str, found: Any, expected: Any) -> None:
    if found != expected:
        raise Violation(f"{what}: {found!r}, expected {expected!r}")

"""JobID."""

from __future__ import annotations


class JobID:
    """Unique id of a job: 32 hexadecimal digits; it stays the same when the job restarts or resumes."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def __str__(self) -> str:
        return self._value

    def __repr__(self) -> str:
        return f"JobID({self._value!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobID) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

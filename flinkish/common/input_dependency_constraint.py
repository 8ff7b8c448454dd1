"""When a task is scheduled, seen from its inputs; kept for PyFlink's name, all tasks run in every epoch here."""

from __future__ import annotations

from enum import Enum

__all__ = ["InputDependencyConstraint"]


class InputDependencyConstraint(Enum):
    """ANY: when one input has data; ALL: when all have."""

    ANY = 0
    ALL = 1

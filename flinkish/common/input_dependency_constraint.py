"""InputDependencyConstraint: exists only for PyFlink's name; it has no effect, as all tasks run in every epoch."""

from __future__ import annotations

from enum import Enum


class InputDependencyConstraint(Enum):
    """When a task is scheduled. ANY: when one of its inputs has data; ALL: when all inputs have data."""

    ANY = 0
    ALL = 1

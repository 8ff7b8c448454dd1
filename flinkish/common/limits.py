"""Limits of Java's whole numbers, and of Flink: values beyond them cannot be in its state, its times or its settings."""

from __future__ import annotations

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
#: LONG_MIN is also the time of a record that has none and the watermark before the first one; LONG_MAX is the watermark after the
#: last one, and the end of a window that time does not end.
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1
#: Most key groups of an operator, so most subtasks: KeyGroupRangeAssignment.UPPER_BOUND_MAX_PARALLELISM.
UPPER_BOUND_MAX_PARALLELISM = 1 << 15

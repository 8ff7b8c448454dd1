"""How many random examples the property tests of this kit look at."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

#: Random ones, and so many times as many: FLINKISH_EXAMPLES=50 before a release. Else always the same ones.
_TIMES = int(os.environ.get("FLINKISH_EXAMPLES", "0"))


def examples(count: int) -> settings:
    """Return settings for `count` examples; what fails is printed so that it can be run again."""
    return settings(
        max_examples=count * max(1, _TIMES),
        derandomize=not _TIMES,
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )

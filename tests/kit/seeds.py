"""The seed of tests that make random choices."""

from __future__ import annotations

import os
import random


def chosen_seed() -> int:
    """Return FLINKISH_SEED if it is set, else another number in each run; the test prints it."""
    return int(os.environ.get("FLINKISH_SEED") or random.SystemRandom().randrange(2**32))

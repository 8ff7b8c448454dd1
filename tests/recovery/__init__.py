"""Recovery: kills, restarts, restores, fencing."""

import pytest

pytest.register_assert_rewrite("tests.recovery.processes", "tests.recovery.verifier")

"""Random programs on each backend. More of them before a release: FLINKISH_STATE_PROGRAMS=2000."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit.backends import BACKENDS
from tests.models.runtime.state.program import run

_PROGRAMS = int(os.environ.get("FLINKISH_STATE_PROGRAMS", "45"))


@pytest.mark.parametrize("backend", BACKENDS)
def test_state_is_what_a_plain_model_says(backend: str, tmp_path: Path) -> None:
    for seed in range(_PROGRAMS):
        try:
            run(seed, backend, tmp_path / str(seed))
        except Exception as error:
            error.add_note(f"seed {seed} on {backend}")
            raise

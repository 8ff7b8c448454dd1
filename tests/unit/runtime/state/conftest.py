"""Fixtures: slots in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.unit.runtime.state.harness import Slot

# On a busy machine, generating data can be slow; that says nothing about the code.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture
def make_slot(tmp_path: Path) -> Callable[..., Slot]:
    return lambda **arguments: Slot(tmp_path, **arguments)


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    return Slot(tmp_path)

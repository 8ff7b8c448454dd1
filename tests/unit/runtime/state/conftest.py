"""Fixtures: slots in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.runtime.state.harness import Slot


@pytest.fixture
def make_slot(tmp_path: Path) -> Callable[..., Slot]:
    return lambda **arguments: Slot(tmp_path, **arguments)


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    return Slot(tmp_path)

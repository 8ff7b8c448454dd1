"""Fixtures of the tests of connectors."""

from __future__ import annotations

import pytest

from flinkish.datastream.connectors.delta import writer


@pytest.fixture
def small_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have partitions of a row written as columns, if there are columns."""
    monkeypatch.setattr(writer, "_LEAST_ROWS", 1)

"""A savepoint that the tests of a file share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.stateful import savepoint_of


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("state")


@pytest.fixture(scope="module")
def savepoint(folder: Path) -> str:
    return savepoint_of(folder, [1, 2, 3, 4])

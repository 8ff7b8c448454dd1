"""Databases for the tests: SQLite in a file, and a real PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flinkish.datastream.connectors.jdbc import JdbcConnectionOptions
from tests.kit.postgresql import PostgreSQL, running


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgreSQL]:
    """One server for all tests."""
    with running() as server:
        yield server


@dataclass(frozen=True)
class TestDatabase:
    """A database: how to connect to it, and access that does not use the connector."""

    __test__ = False

    kind: str
    options: JdbcConnectionOptions
    execute: Callable[..., list[tuple[Any, ...]]]


def sqlite_database(path: Path) -> TestDatabase:
    def execute(sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            return connection.execute(sql, parameters).fetchall()

    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(f"jdbc:sqlite:{path}").build()
    return TestDatabase("sqlite", options, execute)


@pytest.fixture
def sqlite(tmp_path: Path) -> TestDatabase:
    return sqlite_database(tmp_path / "test.db")


@pytest.fixture
def on_postgresql(postgresql: PostgreSQL) -> TestDatabase:
    """An empty database on PostgreSQL."""
    postgresql.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return TestDatabase("postgresql", postgresql.options, postgresql.execute)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> TestDatabase:
    """An empty database of each kind."""
    if request.param == "sqlite":
        return sqlite_database(tmp_path / "test.db")
    found: TestDatabase = request.getfixturevalue("on_postgresql")
    return found

"""Options, URLs and statements: what PyFlink programs write, and what is refused."""

from __future__ import annotations

import pickle
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Row, Types
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, MissingPackageError
from flinkish.datastream.connectors.base import WriteContext
from flinkish.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcExecutionOptions, JdbcSink, JdbcSource
from flinkish.datastream.connectors.jdbc.database import database_of
from flinkish.datastream.connectors.jdbc.statements import parse
from tests.unit.datastream.connectors.fakes import FakeWriterContext, SinkRun, SourceRun

_SECRET = "hunter2-of-flinkish"


def options(url: str, driver: str | None = None) -> JdbcConnectionOptions:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(url)
    return (builder if driver is None else builder.with_driver_name(driver)).build()


def translated(url: str, driver: str | None = None) -> str:
    return database_of(options(url, driver), "JdbcSink").url.render_as_string(hide_password=False)


def test_options_return_what_was_set_and_pickle() -> None:
    builder = JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url("jdbc:postgresql://host/db")
    made = builder.with_driver_name("org.postgresql.Driver").with_user_name("me").with_password(_SECRET).build()

    assert made.get_db_url() == "jdbc:postgresql://host/db"
    assert made.get_driver_name() == "org.postgresql.Driver"
    assert (made.get_user_name(), made.get_password()) == ("me", _SECRET)
    assert pickle.loads(pickle.dumps(made)) == made
    assert _SECRET not in repr(made)


def test_execution_options_are_flinks_unless_set() -> None:
    defaults = JdbcExecutionOptions.defaults()
    assert (defaults.get_batch_size(), defaults.get_batch_interval_ms(), defaults.get_max_retries()) == (5000, 0, 3)

    made = JdbcExecutionOptions.builder().with_batch_size(7).with_batch_interval_ms(50).with_max_retries(0).build()
    assert (made.get_batch_size(), made.get_batch_interval_ms(), made.get_max_retries()) == (7, 50, 0)


@pytest.mark.parametrize(
    ("method", "value"),
    [("with_batch_size", 0), ("with_batch_interval_ms", -1), ("with_max_retries", "3"), ("with_batch_size", True)],
)
def test_impossible_execution_options_are_refused(method: str, value: Any) -> None:
    with pytest.raises(InvalidProgramError, match=rf"{method}\(\) needs an int of at least \d; got {value!r}"):
        getattr(JdbcExecutionOptions.builder(), method)(value)


def test_connection_options_need_a_url() -> None:
    with pytest.raises(InvalidProgramError, match="need a URL"):
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_user_name("me").build()
    with pytest.raises(InvalidArgumentError, match="with_password takes a text that is not empty; got something else"):
        JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_password(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("jdbc:postgresql://host:5433/flights", "postgresql+psycopg://host:5433/flights"),
        ("jdbc:postgresql:flights", "postgresql+psycopg:///flights"),
        ("jdbc:postgresql://host/db?user=me&password=a%26b", "postgresql+psycopg://me:a%26b@host/db"),
        ("jdbc:postgresql://[::1]:5432/db", "postgresql+psycopg://[::1]:5432/db"),
        (
            "jdbc:postgresql://host/db?sslmode=require&ApplicationName=flights&connectTimeout=3",
            "postgresql+psycopg://host/db?application_name=flights&connect_timeout=3&sslmode=require",
        ),
        ("jdbc:postgresql://host/db?currentSchema=air", "postgresql+psycopg://host/db?options=-csearch_path%3Dair"),
        ("jdbc:postgresql://host:5432/db?user=me&password=p@ss", "postgresql+psycopg://me:p%40ss@host:5432/db"),
        ("jdbc:postgresql://host:5432/db?ApplicationName=a@b", "postgresql+psycopg://host:5432/db?application_name=a%40b"),
        ("jdbc:postgresql://host/a%20b", "postgresql+psycopg://host/a%2520b"),
        ("jdbc:sqlite:/tmp/a b.db", "sqlite+pysqlite:////tmp/a b.db"),
        ("jdbc:sqlite:///tmp/x.db", "sqlite+pysqlite://////tmp/x.db"),
        ("jdbc:sqlite:/tmp/a%20b.db", "sqlite+pysqlite:////tmp/a%2520b.db"),
        ("jdbc:sqlite:relative.db", f"sqlite+pysqlite:///{Path('relative.db').absolute()}"),
        ("postgresql+psycopg://me@host/db?host=/run", "postgresql+psycopg://me@host/db?host=%2Frun"),
        ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
    ],
)
def test_urls_of_jdbc_and_sqlalchemy_are_understood(url: str, expected: str) -> None:
    assert translated(url) == expected


@pytest.mark.parametrize(
    ("url", "message"),
    [
        (
            "jdbc:oracle:thin:@host:1521:db",
            r"URLs of jdbc:oracle: cannot be translated, only those of mariadb, mysql",
        ),
        (f"jdbc:postgresql://me:{_SECRET}@host/db", r"does not name one server"),
        ("jdbc:postgresql://host:port/db", r"does not name one server"),
        ("jdbc:postgresql:/db", r"does not name one server"),
        ("jdbc:postgresql://one,two/db", r"does not name one server"),
        ("jdbc:postgresql://host/db?stringtype=unspecified&user=me", r"no translation: stringtype\n"),
        ("jdbc:sqlite:x.db?cache=shared", r"no translation: cache"),
        ("jdbc:sqlite::memory:", "in memory"),
        ("sqlite://", "in memory"),
        (f"sqlite://me:{_SECRET}@host/x.db", "has no host, user or password"),
        (f"nonsense {_SECRET}", "not a URL of JDBC or SQLAlchemy"),
        (f"nosuchdatabase://me:{_SECRET}@host/db", "not a URL of JDBC or SQLAlchemy"),
        (f"sqlite+aiosqlite:///x.db?password={_SECRET}", r"sqlite\+aiosqlite is a driver for asyncio"),
    ],
)
def test_other_urls_are_refused_without_showing_a_password(url: str, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message) as caught:
        translated(url)
    assert _SECRET not in str(caught.value)


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymysql", None)
    monkeypatch.setitem(sys.modules, "MySQLdb", None)
    with pytest.raises(MissingPackageError, match=r"no Python driver for mysql is installed, such as pymysql\nHint: pip install"):
        translated("jdbc:mysql://host/db")


def test_sqlalchemy_itself_is_named_if_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    with pytest.raises(MissingPackageError, match=r"needs the package sqlalchemy.*\nHint: pip install 'flinkish\[jdbc\]'"):
        translated("jdbc:sqlite:x.db")


def test_the_class_name_of_a_driver_must_fit_the_url() -> None:
    assert translated("jdbc:sqlite:/x.db", "org.sqlite.JDBC") == "sqlite+pysqlite:////x.db"
    with pytest.raises(InvalidArgumentError, match=r"org\.postgresql\.Driver is for postgresql; the URL is for sqlite"):
        translated("jdbc:sqlite:x.db", "org.postgresql.Driver")
    with pytest.raises(InvalidArgumentError, match=r"'oracle\.jdbc\.OracleDriver' is not a JDBC driver that flinkish knows"):
        translated("jdbc:sqlite:x.db", "oracle.jdbc.OracleDriver")


@pytest.mark.parametrize(
    ("dialect", "sql", "count", "text"),
    [
        ("sqlite", "INSERT INTO t VALUES (?, ?)", 2, "INSERT INTO t VALUES (?, ?)"),
        ("postgresql", "UPDATE t SET a = ? WHERE b LIKE '%?' AND c = ?", 2, "UPDATE t SET a = %s WHERE b LIKE '%%?' AND c = %s"),
        ("postgresql", 'INSERT INTO "odd?" VALUES (?) -- why?\n/* ? */', 1, 'INSERT INTO "odd?" VALUES (%s) -- why?\n/* ? */'),
        ("postgresql", "UPDATE t SET a = ? WHERE j ?? 'x'", 1, "UPDATE t SET a = %s WHERE j ? 'x'"),
        ("postgresql", r"SELECT E'it\'s ?', $f$ ? $f$, 'it''s ?', ?", 1, r"SELECT E'it\'s ?', $f$ ? $f$, 'it''s ?', %s"),
        ("mysql", r"UPDATE `t?` SET a = 'it\'s ?' WHERE b = ?", 1, r"UPDATE `t?` SET a = 'it\'s ?' WHERE b = %s"),
        ("sqlite", r"UPDATE t SET a = 'c:\' WHERE b = ?", 1, r"UPDATE t SET a = 'c:\' WHERE b = ?"),
    ],
)
def test_placeholders_are_found_where_values_can_be(dialect: str, sql: str, count: int, text: str) -> None:
    statement = parse(sql, dialect)

    assert statement.placeholders == count
    assert statement.text_for("qmark" if dialect == "sqlite" else "pyformat") == text


def test_a_driver_with_other_parameters_is_refused() -> None:
    with pytest.raises(InvalidProgramError, match="in the style 'numeric_dollar'"):
        parse("INSERT INTO t VALUES (?)", "postgresql").text_for("numeric_dollar")


@pytest.mark.parametrize("url", ["jdbc:sqlite:a b.db", "sqlite:///a b.db"])
def test_a_relative_path_of_sqlite_is_that_of_the_program_in_all_tasks(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, task = tmp_path / "program", tmp_path / "task"
    program.mkdir()
    task.mkdir()
    relative = options(url)
    row_type = Types.ROW_NAMED(["x"], [Types.INT()])
    with closing(sqlite3.connect(program / "a b.db")) as connection:
        connection.execute("CREATE TABLE t (x INT)")
    monkeypatch.chdir(program)
    sink = pickle.dumps(JdbcSink.sink("INSERT INTO t VALUES (?)", row_type, relative))
    source = pickle.dumps(JdbcSource(relative, row_type, table="t"))
    monkeypatch.chdir(task)
    writer = pickle.loads(sink).create_writer(FakeWriterContext(SinkRun(pickle.loads(sink), row_type), 0, {}))
    writer.write(Row(x=1), WriteContext(timestamp=None, watermark=0))
    writer.flush(True)
    writer.close()
    assert SourceRun(pickle.loads(source)).values() == [Row(x=1)]
    assert list(task.iterdir()) == []

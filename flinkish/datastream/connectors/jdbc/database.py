"""Connections to the database that JdbcConnectionOptions describe, and its errors without secrets."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl

from flinkish.common.errors import (
    FlinkishError,
    InvalidArgumentError,
    InvalidProgramError,
    MissingPackageError,
    SinkChangedError,
    SinkError,
    TargetRefusedError,
)
from flinkish.common.requirements import need
from flinkish.datastream.connectors.jdbc.options import JdbcConnectionOptions

if TYPE_CHECKING:
    import sqlalchemy

_log = logging.getLogger("flinkish.datastream.connectors.jdbc")

T = TypeVar("T")

#: Python drivers by database, the preferred one first: SQLAlchemy's name, the module, the package for pip.
_DRIVERS: Final = {
    "postgresql": (
        ("psycopg", "psycopg", "psycopg[binary]"),
        ("psycopg2", "psycopg2", "psycopg2-binary"),
        ("pg8000", "pg8000", "pg8000"),
    ),
    "mysql": (("pymysql", "pymysql", "pymysql"), ("mysqldb", "MySQLdb", "mysqlclient")),
    "mariadb": (("pymysql", "pymysql", "pymysql"), ("mysqldb", "MySQLdb", "mysqlclient")),
    "sqlite": (("pysqlite", "sqlite3", "sqlite3"),),
}
_DRIVER_CLASSES: Final = {
    "org.postgresql.Driver": "postgresql",
    "com.mysql.cj.jdbc.Driver": "mysql",
    "com.mysql.jdbc.Driver": "mysql",
    "org.mariadb.jdbc.Driver": "mariadb",
    "org.sqlite.JDBC": "sqlite",
}
#: Parameters of PostgreSQL's JDBC URLs that have the same meaning in libpq, with the names there.
_POSTGRESQL_PARAMETERS: Final = {
    **{name: name for name in ("sslmode", "sslrootcert", "sslcert", "sslkey", "options")},
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
}
#: SQLSTATEs of rows that a database refuses: data exceptions, violated constraints, views WITH CHECK OPTION, and errors that
#: triggers raise in PL/pgSQL.
_REFUSALS: Final = ("22", "23", "44", "P0001")
#: Error numbers of violated CHECK constraints in MySQL and MariaDB, whose drivers count them as operational errors.
_CHECKS_OF_MYSQL: Final = (3819, 4025)
#: Error numbers of MySQL and MariaDB: unknown column, syntax, number of columns, no such table, no default value.
_MISFITS_OF_MYSQL: Final = (1054, 1064, 1136, 1146, 1364)
#: SQLSTATE of PostgreSQL; the only one of its class that says nothing about a statement and its tables.
_NO_PRIVILEGE: Final = "42501"
_SERVER: Final = re.compile(r"//(?P<host>\[[^\]]*\]|[^/:,@?]*)(?::(?P<port>\d+))?/(?P<database>[^?]*)")


@dataclass(frozen=True, slots=True)
class Database:
    """Connects to a database; `user` names the sink or source in errors."""

    #: Of SQLAlchemy; it may hold a password.
    url: sqlalchemy.URL = field(repr=False)
    user: str

    @property
    def dialect(self) -> str:
        """SQLAlchemy's name of the kind of database, such as postgresql."""
        return self.url.get_backend_name()

    @property
    def paramstyle(self) -> str:
        """The driver's style of parameters (PEP 249)."""
        return self._engine().dialect.paramstyle

    @property
    def label(self) -> str:
        """The URL for messages, without password and parameters."""
        import sqlalchemy

        url = self.url
        shown = sqlalchemy.URL.create(url.drivername, username=url.username, host=url.host, port=url.port, database=url.database)
        return shown.render_as_string()

    def connect(self) -> sqlalchemy.Connection:
        """Open a connection; raises SQLAlchemy's errors."""
        return self._engine().connect()

    def described(self, error: BaseException) -> str:
        """Return the text of an error; passwords in it, which some drivers show, are replaced by ***."""
        original = getattr(error, "orig", None) or error
        text = f"{type(original).__name__}: {original}".strip()
        for secret in self._secrets():
            text = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", text)
        return text

    def refuses(self, error: BaseException) -> bool:
        """Return whether an error says that the database, or its driver, cannot take a value or row, however often it is sent."""
        import sqlalchemy

        # Drivers raise ValueError and OverflowError for values that they cannot send.
        kinds = (TargetRefusedError, sqlalchemy.exc.DataError, sqlalchemy.exc.IntegrityError, ValueError, OverflowError)
        if isinstance(error, kinds):
            return True
        return _sqlstate(error).startswith(_REFUSALS) or self._number(error) in _CHECKS_OF_MYSQL

    def misses(self, error: BaseException) -> bool:
        """Return whether an error says that a statement does not match the tables: a table or a column is missing."""
        original = getattr(error, "orig", None)
        code = _sqlstate(error)
        return (
            (code.startswith("42") and code != _NO_PRIVILEGE)
            or self._number(error) in _MISFITS_OF_MYSQL
            or getattr(original, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
        )

    def _number(self, error: BaseException) -> object:
        """Return the error number of MySQL or MariaDB; None for others."""
        original = getattr(error, "orig", None)
        return original.args[0] if original is not None and original.args and self.dialect in ("mysql", "mariadb") else None

    def _engine(self) -> sqlalchemy.Engine:
        import sqlalchemy

        url = self.url
        try:
            # Rows are parameters and must not be in errors. There are few connections, which live long, so there is no pool.
            engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool, hide_parameters=True)
        except ImportError as error:
            raise _missing(url, self.user, error) from error
        if url.get_backend_name() == "postgresql" and "timezone" not in str(url.query.get("options", "")).lower():
            sqlalchemy.event.listen(engine, "connect", _use_utc)
        return engine

    def _secrets(self) -> set[str]:
        query = self.url.query
        found = [self.url.password, *(query[name] for name in query if re.search("pass|secret|token", name, re.IGNORECASE))]
        return {str(secret) for secret in found if secret}


def database_of(options: JdbcConnectionOptions, user: str) -> Database:
    """Return the database that options describe; `user` names the sink or source in errors.

    It is the same in any process: a relative path of SQLite is below the working folder of this one. Tasks may have another one,
    in which SQLite would silently make another database. Raises InvalidArgumentError for other objects; InvalidProgramError,
    whose text does not contain the URL, if the URL cannot be used; and MissingPackageError if SQLAlchemy or a driver for the
    database is not installed.
    """
    if not isinstance(options, JdbcConnectionOptions):  # it is not shown, as it may hold a password
        raise InvalidArgumentError(
            f"{user} needs JdbcConnectionOptions; got {type(options).__name__}",
            hint="JdbcConnectionOptions.JdbcConnectionOptionsBuilder().with_url(...).build().",
        )
    need("sqlalchemy", user, "jdbc")
    text = options.get_db_url()
    url = _translated(text, user) if text.startswith("jdbc:") else _parsed(text, user)
    url = url.set(username=options.get_user_name(), password=options.get_password())
    dialect, path = url.get_backend_name(), url.database
    driver = options.get_driver_name()
    if driver is not None:
        _check_driver_class(driver, dialect, user)
    if dialect != "sqlite":
        return Database(url, user)
    if path in (None, "", ":memory:"):
        raise InvalidProgramError(
            f"{user} cannot use a SQLite database in memory: each task would have its own one",
            hint="name a file: jdbc:sqlite:/path/to/file.db.",
        )
    if url.username or url.password or url.host:
        raise InvalidProgramError(
            f"{user}: a SQLite database is a file; it has no host, user or password",
            hint="jdbc:sqlite:/path/to/file.db, without with_user_name() and with_password().",
        )
    assert path is not None
    return Database(url if path.startswith(("/", "file:")) else url.set(database=os.path.abspath(path)), user)


def _parsed(text: str, user: str) -> sqlalchemy.URL:
    """Parse a URL in SQLAlchemy's form."""
    import sqlalchemy

    try:
        url = sqlalchemy.make_url(text)
        is_async = url.get_dialect().is_async
    except (sqlalchemy.exc.ArgumentError, ValueError):
        # Without the original error, which may contain the password.
        raise InvalidProgramError(
            f"{user}: this is not a URL of JDBC or SQLAlchemy (it is not shown, as it may hold a password)",
            hint="jdbc:postgresql://host/database or postgresql+psycopg://host/database, for example.",
        ) from None
    except ImportError as error:
        raise _missing(url, user, error) from None
    if is_async:
        raise InvalidProgramError(
            f"{user}: {url.drivername} is a driver for asyncio, which sinks and sources cannot use",
            hint="postgresql+psycopg:// or mysql+pymysql://, for example.",
        )
    return url


def _missing(url: sqlalchemy.URL, user: str, error: ImportError) -> MissingPackageError:
    return MissingPackageError(
        f"{user}: the database driver {url.drivername} needs the package {error.name}, which is not installed",
        hint="install it, or name another driver in the URL, such as postgresql+psycopg://.",
    )


def _translated(text: str, user: str) -> sqlalchemy.URL:
    import sqlalchemy

    dialect, _, rest = text.removeprefix("jdbc:").partition(":")
    if dialect not in _DRIVERS:
        raise InvalidProgramError(
            f"{user}: URLs of jdbc:{dialect}: cannot be translated, only those of {', '.join(sorted(_DRIVERS))}",
            hint="give a URL of SQLAlchemy for the database, such as oracle+oracledb://host/?service_name=name.",
        )
    drivername = f"{dialect}+{_driver(dialect, user)}"
    # SQLAlchemy's parser reads other URLs: here, parameters may contain "@", and paths of files "%" and "//".
    address, _, parameters = rest.partition("?")
    query = dict(parse_qsl(parameters, keep_blank_values=True))
    host, port, database = None, None, address
    if dialect != "sqlite" and "/" in address:
        found = _SERVER.fullmatch(address)
        if found is None:
            raise InvalidProgramError(
                f"{user}: this jdbc:{dialect}: URL does not name one server as //host:port/database (it is not shown, as it "
                "may hold a password)",
                hint="user and password go to with_user_name() and with_password(); several hosts need a URL of SQLAlchemy.",
            )
        host, port, database = found["host"].strip("[]"), found["port"], found["database"]
    user_name, password = query.pop("user", None), query.pop("password", None)
    schema = query.pop("currentSchema", None) if dialect == "postgresql" else None
    known = _POSTGRESQL_PARAMETERS if drivername.startswith("postgresql+psycopg") else {}
    others = [name for name in query if name not in known]
    if others:
        raise InvalidProgramError(
            f"{user}: parameters of the jdbc:{dialect}: URL have no translation: {', '.join(others)}",
            hint="leave them out, or give a URL of SQLAlchemy with the parameters of the Python driver.",
        )
    taken = {known[name]: value for name, value in query.items()}
    if schema is not None:
        taken["options"] = f"{taken.get('options', '')} -csearch_path={schema}".strip()
    return sqlalchemy.URL.create(
        drivername, user_name, password, host or None, None if port is None else int(port), database or None, taken
    )


def _driver(dialect: str, user: str) -> str:
    for name, module, _ in _DRIVERS[dialect]:
        if importlib.util.find_spec(module) is not None:
            return name
    package = _DRIVERS[dialect][0][2]
    raise MissingPackageError(
        f"{user}: no Python driver for {dialect} is installed, such as {package}", hint=f"pip install '{package}'"
    )


def _check_driver_class(name: str, dialect: str, user: str) -> None:
    expected = _DRIVER_CLASSES.get(name)
    if expected is None:
        raise InvalidArgumentError(
            f"{user}: {name!r} is not a JDBC driver that flinkish knows: {', '.join(sorted(_DRIVER_CLASSES))}",
            hint="leave with_driver_name() out: the driver is a Python package, which a URL of SQLAlchemy can name.",
        )
    if {expected, dialect} not in ({dialect}, {"mysql", "mariadb"}):
        raise InvalidArgumentError(f"{user}: the driver {name} is for {expected}; the URL is for {dialect}")


def _sqlstate(error: BaseException) -> str:
    original = getattr(error, "orig", None)
    code = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
    if not code and original is not None and original.args and isinstance(original.args[0], dict):
        code = original.args[0].get("C")  # of pg8000, which has no classes for them
    return str(code or "")


def _use_utc(connection: Any, record: object) -> None:
    """Set the time zone of a session with PostgreSQL.

    The server converts between columns with and without time zone by the session's zone, which is the server's own by default. An
    INSTANT in a `timestamp` column would depend on it, and come back from there as another INSTANT.
    """
    with closing(connection.cursor()) as cursor:
        cursor.execute("SET TIME ZONE 'UTC'")
    connection.commit()


#: Hints for refused rows, and for a statement that does not match the tables.
_REFUSED_ROWS: Final = "change or filter such records before the sink, or the table so that it takes them."
_MISFIT: Final = "compare the statement with the columns of the tables; change one of them, and start the job again."


class Session:
    """A sink's connection to a database that is opened on first use and replaced after an error."""

    def __init__(self, database: Database, max_retries: int, wait: Callable[[float], None] = time.sleep) -> None:
        self._database = database
        self._max_retries = max_retries
        self._wait = wait
        self._connection: sqlalchemy.Connection | None = None

    def run(self, work: Callable[[sqlalchemy.Connection], T], what: str) -> T:
        """Call `work` in a transaction; `what` describes it in errors.

        If the database or its driver raises an error, the connection is replaced and the transaction is tried again, after 0, 1,
        2, ... seconds, as in Flink's JdbcOutputFormat. After `max_retries` retries, it raises SinkError: TargetRefusedError if
        the database refuses a row, SinkChangedError if the statement does not fit its tables.
        """
        import sqlalchemy

        tries = self._max_retries + 1
        for number in range(1, tries + 1):
            try:
                if self._connection is None:
                    self._connection = self._database.connect()
                with self._connection.begin():
                    return work(self._connection)
            except BaseException as error:
                self.close()
                if isinstance(error, FlinkishError) or not isinstance(error, Exception):
                    raise
                text = self._database.described(error)
                if number == tries or not isinstance(error, sqlalchemy.exc.DBAPIError):
                    after = f" in {tries} tries" if number > 1 else ""
                    # Without a cause, because the original error may contain the password.
                    kind, hint = SinkError, None
                    if self._database.refuses(error):
                        kind, hint = TargetRefusedError, _REFUSED_ROWS
                    elif self._database.misses(error):
                        kind, hint = SinkChangedError, _MISFIT
                    raise kind(f"{self._database.user} could not {what}{after}: {text}", hint=hint) from None
                _log.warning("%s could not %s (try %d of %d): %s", self._database.user, what, number, tries, text)
                self._wait(number - 1)
        raise AssertionError("unreachable")

    def close(self) -> None:
        """Close the connection; raises no error if it is lost."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            connection.close()
        except Exception as error:
            _log.debug("closing a connection of %s failed: %s", self._database.user, self._database.described(error))

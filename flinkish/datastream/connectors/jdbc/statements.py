"""The statement of a sink, with `?` as placeholders as in JDBC, and how it writes rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.jdbc.database import Database, Session
from flinkish.datastream.connectors.jdbc.options import JdbcExecutionOptions
from flinkish.datastream.connectors.jdbc.values import Rows, RowShape

if TYPE_CHECKING:
    import sqlalchemy

_QUOTED: Final = r"'(?:[^']|'')*'"
#: String literals of MySQL have escapes with backslashes.
_QUOTED_WITH_ESCAPES: Final = r"'(?:[^'\\]|\\.|'')*'"
#: Quoted names and comments, which contain no placeholders; neither do string literals.
_OTHERS: Final = r'"(?:[^"]|"")*"|`[^`]*`|--[^\n]*|/\*.*?\*/'
#: String literals of PostgreSQL: E'...' has escapes, $tag$...$tag$ has none.
_POSTGRESQL: Final = r"[eE]'(?:[^'\\]|\\.|'')*'|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$"
#: `??` is the operator `?` of PostgreSQL, as in its JDBC driver.
_PLACEHOLDER: Final = r"(?P<operator>\?\?)|(?P<placeholder>\?)"

#: Styles of Python's database drivers (PEP 249) with values by position.
_STYLES: Final = {"qmark": "?", "format": "%s", "pyformat": "%s"}


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement, split at its placeholders."""

    #: One part more than there are placeholders.
    _parts: tuple[str, ...]

    @property
    def placeholders(self) -> int:
        return len(self._parts) - 1

    def text_for(self, paramstyle: str) -> str:
        """Return the statement for a driver of a style of parameters (PEP 249); raises InvalidProgramError for other styles.

        >>> parse("INSERT INTO t VALUES (?, 'wow?', ? % 10)", "postgresql").text_for("pyformat")
        "INSERT INTO t VALUES (%s, 'wow?', %s %% 10)"
        """
        mark = _STYLES.get(paramstyle)
        if mark is None:
            raise InvalidProgramError(
                f"this database driver takes parameters in the style {paramstyle!r}; flinkish has {', '.join(_STYLES)}",
                hint="choose another driver in the URL, such as postgresql+psycopg://.",
            )
        parts = self._parts if mark == "?" else [part.replace("%", "%%") for part in self._parts]
        return mark.join(parts)


def parse(sql: str, dialect: str) -> Statement:
    """Find the placeholders of a statement, which are not in string literals, quoted names or comments.

    `dialect`: SQLAlchemy's name of the database, as each has its own string literals.
    """
    if not isinstance(sql, str) or not sql.strip():
        raise InvalidArgumentError(f"the SQL statement must be a text that is not empty; got {sql!r}")
    quoted = _QUOTED_WITH_ESCAPES if dialect in ("mysql", "mariadb") else _QUOTED
    tokens = [_POSTGRESQL] if dialect == "postgresql" else []
    pattern = "|".join([*tokens, quoted, _OTHERS, _PLACEHOLDER])

    def marked(token: re.Match[str]) -> str:
        return "?" if token["operator"] else "\0" if token["placeholder"] else token[0]

    return Statement(tuple(re.sub(pattern, marked, sql, flags=re.DOTALL).split("\0")))


@dataclass(frozen=True, slots=True)
class JdbcSinkSettings:
    """The settings of a sink; immutable."""

    sql: str
    type_info: TypeInformation
    database: Database
    execution: JdbcExecutionOptions
    #: None: at least once.
    checkpoint_table: str | None

    @property
    def shape(self) -> RowShape:
        return RowShape(self.type_info, "JdbcSink")

    def statement(self) -> Statement:
        """Return the statement; raises InvalidArgumentError if it is no text."""
        return parse(self.sql, self.database.dialect)


class Target:
    """Writes plain rows (see values.py) by the statement of a sink, in transactions of a session."""

    def __init__(self, settings: JdbcSinkSettings) -> None:
        self._database = database = settings.database
        self.label = database.label
        self.shape = settings.shape
        self.batch_size = settings.execution.get_batch_size()
        self.session = Session(database, settings.execution.get_max_retries())
        self._text = settings.statement().text_for(database.paramstyle)
        self._bind = self.shape.binder(database.dialect)

    def write(self, connection: sqlalchemy.Connection, rows: Rows) -> None:
        """Write rows; raises the errors of SQLAlchemy and the driver."""
        connection.exec_driver_sql(self._text, self._bind(rows))

    def sift(self, connection: sqlalchemy.Connection, rows: Rows) -> list[tuple[dict[str, Any], str]]:
        """Write rows in their order, and return those that the database refuses, each by field and with the reason."""
        if self._database.dialect == "postgresql":
            # Otherwise deferred constraints would be checked when it is too late to leave out a row.
            connection.exec_driver_sql("SET CONSTRAINTS ALL IMMEDIATE")
        return self._sifted(connection, rows)

    def _sifted(self, connection: sqlalchemy.Connection, rows: Rows) -> list[tuple[dict[str, Any], str]]:
        try:
            with connection.begin_nested():
                self.write(connection, rows)
            return []
        except Exception as error:
            if not self._database.refuses(error):
                raise
            if len(rows) == 1:
                row = dict(zip(self.shape.names, rows[0], strict=True))
                return [(row, f"{self.label}: {self._database.described(error)}")]
        middle = len(rows) // 2
        return [*self._sifted(connection, rows[:middle]), *self._sifted(connection, rows[middle:])]

    def batches(self, rows: Rows) -> list[Rows]:
        return [rows[begin : begin + self.batch_size] for begin in range(0, len(rows), self.batch_size)]

"""SQL statements with `?` as placeholders, as in JDBC."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError

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

    sql: str
    #: One part more than there are placeholders.
    _parts: tuple[str, ...]

    @property
    def placeholders(self) -> int:
        """The number of placeholders."""
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
    parts, begin = [""], 0
    for token in re.finditer("|".join([*tokens, quoted, _OTHERS, _PLACEHOLDER]), sql, re.DOTALL):
        if token["operator"]:
            parts[-1] += sql[begin : token.start()] + "?"
            begin = token.end()
        elif token["placeholder"]:
            parts[-1] += sql[begin : token.start()]
            parts.append("")
            begin = token.end()
    parts[-1] += sql[begin:]
    return Statement(sql, tuple(parts))

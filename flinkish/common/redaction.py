"""Hides secrets in text that others may read: logs, notices, messages of errors, tracebacks, answers of the server.

Two kinds are found: the values of secret settings that this process knows, wherever they stand; and what a text itself calls a
secret, such as `password=...`, `"token": "..."`, the user and password of a URL, or an Authorization header.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping

from flinkish.common.config_options import HIDDEN, is_sensitive, is_sensitive_word

#: Shorter values may be ordinary words; they are hidden only where the text calls them a secret.
_SHORTEST = 8
_URL_USER = re.compile(r"(?<=://)[^\s/@'\"]+(?=@)")
_AUTHORIZATION = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
#: A name with what follows it, and a value. Neither looks back, so that a long text takes no longer than its length.
_NAME = re.compile(r"""(?<![\w.-])([\w.-]++)["']?(?:=|:[ ]?)["']?""")
_VALUE = re.compile(r"""[^\s"',;&(){}\[\]]++""")
#: The line of a program, which stands behind this one in a traceback, names variables; values in it are quoted.
_BEFORE_SOURCE = re.compile(r'\s*File ".*", line \d+')

_lock = threading.Lock()
_values: frozenset[str] = frozenset()
_known: re.Pattern[str] | None = None


def remember(settings: Mapping[str, str]) -> None:
    """Hide the values of secret settings, or of variables of the environment with such names, from now on."""
    remember_values(value for key, value in settings.items() if is_sensitive(key))


def remember_values(values: Iterable[str]) -> None:
    """Hide these texts, if they have at least eight characters, from now on."""
    global _values, _known
    new = {value.strip() for value in values}
    with _lock:
        wanted = _values | {value for value in new if len(value) >= _SHORTEST}
        if wanted != _values:
            _values = wanted
            # The longest first: a secret may begin like another.
            _known = re.compile("|".join(map(re.escape, sorted(wanted, key=len, reverse=True))))


def redact(text: str, is_secret: Callable[[str], bool] = is_sensitive_word) -> str:
    """Return a text with its secrets hidden; `is_secret` tells which names in it have a secret behind them.

    >>> redact("cannot log in to postgresql://me:hush@db/x with password='hush', retries=3")
    "cannot log in to postgresql://******@db/x with password='******', retries=3"
    """
    if _known is not None:
        text = _known.sub(HIDDEN, text)
    text = _AUTHORIZATION.sub(rf"\1 {HIDDEN}", _URL_USER.sub(HIDDEN, text))
    lines = text.split("\n")
    for number, line in enumerate(lines):
        is_source = number > 0 and _BEFORE_SOURCE.match(lines[number - 1]) is not None
        lines[number] = _pairs_hidden(line, is_secret, quoted_only=is_source)
    return "\n".join(lines)


def _pairs_hidden(line: str, is_secret: Callable[[str], bool], *, quoted_only: bool) -> str:
    """Hide the values that stand behind names of secrets; `quoted_only` = only those that begin with a quotation mark."""
    parts: list[str] = []
    done = 0
    name = _NAME.search(line)
    while name is not None:
        end = name.end()
        value = _VALUE.match(line, end) if is_secret(name[1]) and (not quoted_only or name[0][-1] in "'\"") else None
        if value is not None:
            parts += [line[done:end], HIDDEN]
            done = end = value.end()
        name = _NAME.search(line, end)
    return "".join([*parts, line[done:]])


class RedactingFormatter(logging.Formatter):
    """Formats as another formatter does, and hides secrets in the line and its traceback."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self._formatter = formatter

    def format(self, record: logging.LogRecord) -> str:
        return redact(self._formatter.format(record))


def protect_log() -> None:
    """Hide secrets in what the handlers of the root logger write; for commands, which set these handlers up themselves."""
    for handler in logging.getLogger().handlers:
        if not isinstance(handler.formatter, RedactingFormatter):
            handler.setFormatter(RedactingFormatter(handler.formatter or logging.Formatter()))

"""Hides secrets in text that others may read: logs, notices, messages of errors, tracebacks, answers of the server.

Two kinds are found: the values of secret settings that this process knows, wherever they stand; and what a text itself calls a
secret: `password=...`, `"token": "..."`, `--password ...`, the user and password of a URL, an Authorization header, a private
key.

A value in quotation marks is hidden up to the closing one. Without them it ends at a blank, a comma, a semicolon or `&`; if a
line is nothing but a name with such a value, it ends with the line. So `password: see the docs` is hidden, too, but `token
bucket`, where nothing assigns a value, is not.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping

from flinkish.common.config_options import HIDDEN, is_sensitive, is_sensitive_word

#: Variables of the environment with the name of a password that have the working folder.
_FOLDERS = ("PWD", "OLDPWD")
#: Shorter values may be ordinary words; they are hidden only where the text calls them a secret.
_SHORTEST = 8
#: A user and a password, which may contain slashes; a number behind the colon is a port.
_URL_PASSWORD = re.compile(r"""(?<=://)[^\s/@:'"]*+:(?!\d{1,5}(?:[/?#,]|$))(?:(?!://)[^\s'"])*(?=@)""")
_URL_USER = re.compile(r"(?<=://)[^\s/@'\"]+(?=@)")
_AUTHORIZATION = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}")
_PRIVATE_KEY = re.compile(r"(?s)(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:(?=-----END [A-Z ]*PRIVATE KEY-----)|\Z)")
#: A name with what assigns a value to it, or the name of an option, whose value follows it. Neither this nor what follows looks
#: back, so that a long text takes no longer than its length.
_NAME = re.compile(
    r"""(?<![\w.-])(?:([\w.-]++)(?:\\*+["'])?+[ \t]*+(?:=>|[=:])[ \t]*+"""
    r"""|(--?\w[\w.-]*+)(?:[ \t]++(?!-)|["'][ \t]*+,[ \t]*+(?=["'])))"""
)
#: `("name", "value")`, and `<name>value<`.
_PAIR = re.compile(r"""[(\[]b?(["'])([\w.-]++)\1,[ \t]*+(?=b?["'])|<([\w.-]++)>""")
#: A name and a value as in spark-defaults.conf.
_TWO_WORDS = re.compile(r"[ \t]*+([\w-]++(?:\.[\w-]++)++)[ \t]++(?=\S++[ \t]*+$)")
_QUOTE = re.compile(r"""b?(\\*+)(["'])""")
_QUOTED = {quote: re.compile(rf"(?:[^{quote}\\]|\\.|{quote}{quote})*+(?={quote})") for quote in "\"'"}
_BACKSLASHES = {quote: re.compile(rf"(\\*+){quote}") for quote in "\"'"}
_PLAIN = re.compile(r"[^ \t\r\n,;&]++")
_LIST = re.compile(r"""(?:"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+'|[^\]])*+""")
_ELEMENT = re.compile(r"[^<]++")
#: The rest of a line of YAML or properties that is one value.
_LINE = re.compile(r"""(?=[^"'{\[])(?:(?!: |=).)++(?<![ \t\r])(?=[ \t\r]*+$)""")
_BEFORE_KEY = re.compile(r"[ \t]*+(?:- )?")
#: The line of a program, which stands behind this one in a traceback, names variables; values in it are quoted.
_BEFORE_SOURCE = re.compile(r'\s*File ".*", line \d+')

_lock = threading.Lock()
#: The texts that are hidden wherever they stand, and the pattern that finds them.
_known: tuple[frozenset[str], re.Pattern[str] | None] = frozenset(), None


def remember(settings: Mapping[str, str]) -> None:
    """Hide the values of secret settings, or of variables of the environment with such names, from now on."""
    remember_values(value for key, value in settings.items() if is_sensitive(key) and key not in _FOLDERS)


def remember_values(values: Iterable[str]) -> None:
    """Hide these texts, if they have at least eight characters, from now on."""
    global _known
    new = {value.strip() for value in values}
    with _lock:
        values, _ = _known
        wanted = values | {value for value in new if len(value) >= _SHORTEST}
        if wanted != values:
            # The longest first: a secret may begin like another.
            _known = wanted, re.compile("|".join(map(re.escape, sorted(wanted, key=len, reverse=True))))


def redact(text: str, is_secret: Callable[[str], bool] = is_sensitive_word) -> str:
    """Return a text with its secrets hidden; `is_secret` tells which names in it have a secret behind them.

    >>> redact("cannot log in to postgresql://me:hush@db/x with password='hush', retries=3")
    "cannot log in to postgresql://******@db/x with password='******', retries=3"
    """
    _, pattern = _known
    if pattern is not None:
        text = pattern.sub(HIDDEN, text)
    text = _PRIVATE_KEY.sub(rf"\1{HIDDEN}", _URL_USER.sub(HIDDEN, _URL_PASSWORD.sub(HIDDEN, text)))
    text = _AUTHORIZATION.sub(rf"\1 {HIDDEN}", text)
    lines = text.split("\n")
    for number, line in enumerate(lines):
        is_source = number > 0 and _BEFORE_SOURCE.match(lines[number - 1]) is not None
        lines[number] = _pairs_hidden(line, is_secret, quoted_only=is_source)
    return "\n".join(lines)


def _pairs_hidden(line: str, is_secret: Callable[[str], bool], *, quoted_only: bool) -> str:
    """Hide the values that stand behind names of secrets; `quoted_only` = only those that begin with a quotation mark."""
    parts: list[str] = []
    done = 0
    for begin, end in _values_in(line, is_secret):
        if begin >= done and (not quoted_only or line[begin - 1] in "'\""):
            parts += [line[done:begin], HIDDEN]
            done = end
    return "".join([*parts, line[done:]])


def _values_in(line: str, is_secret: Callable[[str], bool]) -> list[tuple[int, int]]:
    """Return where values of secrets begin and end, in order; one may lie inside another."""
    found = []
    two = _TWO_WORDS.match(line)
    if two is not None and is_secret(two[1]):
        found.append(_plain(line, two.end()))
    for pair in _PAIR.finditer(line):
        if is_secret(pair[2] or pair[3]):
            found.append(_value(line, pair.end()) if pair[2] else _span(_ELEMENT, line, pair.end()))
    _, first = _span(_BEFORE_KEY, line, 0)
    name = _NAME.search(line)
    while name is not None:
        end = name.end()
        if is_secret(name[1] or name[2]):
            whole = _LINE.match(line, end) if name.start() == first and line[end - 1] in " \t=" else None
            span = _value(line, end) if whole is None else whole.span()
            found.append(span)
            end = max(end, span[1])
        name = _NAME.search(line, end)
    return sorted(span for span in found if span[0] < span[1])


def _value(line: str, begin: int) -> tuple[int, int]:
    """Return where a value begins and ends, without the quotation marks that it may have."""
    quote = _QUOTE.match(line, begin)
    if quote is not None:
        end = _end_of_quoted(line, quote)
        return quote.end(), len(line) if end is None else end
    if line.startswith("[", begin):
        return _span(_LIST, line, begin + 1)
    # What is in braces has names of its own.
    return (begin, begin) if line.startswith("{", begin) else _plain(line, begin)


def _end_of_quoted(line: str, quote: re.Match[str]) -> int | None:
    """Return where the text behind a quotation mark ends; None = with the line."""
    escapes, sign = quote[1], quote[2]
    if escapes:
        # A quotation inside others: each level doubles the backslashes and puts one before the sign.
        depth = len(escapes)
        for run in _BACKSLASHES[sign].finditer(line, quote.end()):
            if len(run[1]) % (2 * depth + 2) == depth:
                return run.end() - depth - 1
        return None
    found = _QUOTED[sign].match(line, quote.end())
    return None if found is None else found.end()


def _plain(line: str, begin: int) -> tuple[int, int]:
    """Return where a value without quotation marks ends: before brackets and marks that enclose more than the value."""
    found = _PLAIN.match(line, begin)
    return (begin, begin) if found is None else (begin, begin + len(found[0].rstrip(")}]\"'\\")))


def _span(pattern: re.Pattern[str], line: str, begin: int) -> tuple[int, int]:
    found = pattern.match(line, begin)
    return (begin, begin) if found is None else found.span()


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

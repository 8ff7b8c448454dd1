"""Runs SQL statements in a Spark session with Delta, and shows their results as tables."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TextIO

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flinkish.common.config_file import load_configuration, parse_properties
from flinkish.common.configuration import Configuration
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.engine.spark.session import hold_delta_session, release_session
from flinkish.engine.spark.spark_settings import SparkSettings
from flinkish.state.reader import SavepointReader

_PROMPT = "flinkish> "
#: Interactive queries need few tasks, because Delta's logs and checkpoints are small.
_SETTINGS = {"spark.sql.shuffle.partitions": "4", "spark.databricks.delta.snapshotPartitions": "2"}


def run_statements(statements: Sequence[str], properties: Sequence[str], rows: int, states: Sequence[str] = ()) -> None:
    """Run the given statements, or those on standard input if none are given; show at most `rows` rows of each result.

    `states` are texts VIEW=PATH: a view to create, and the checkpoint or savepoint whose rows it shows.

    Each text may hold several statements, see `split_statements`. At a terminal, a statement that fails is reported, and the
    prompt continues. Otherwise the run ends with InvalidProgramError: Spark's reason, and which statement it was. Raises
    EngineError if Spark does not start.
    """
    for key in parse_properties(properties):
        if not key.startswith("spark."):
            text = f"flinkish sql: -D{key} has no effect on SQL"
            raise InvalidArgumentError(text, hint="give settings of Spark: -Dspark.KEY=VALUE.")
    configuration = load_configuration(properties, environment=os.environ)
    settings = SparkSettings.of(configuration)
    views = [_view(state, configuration) for state in states]
    asked = not statements and sys.stdin.isatty()
    texts: list[Iterable[str]] = [[text] for text in statements] or [_typed(sys.stdin) if asked else sys.stdin]
    given = chain.from_iterable(map(split_statements, texts))
    console = Console(soft_wrap=True)
    held = hold_delta_session(settings)
    try:
        session = held.session.newSession()
        for key, value in _SETTINGS.items():
            if key not in settings.passed_on:
                session.conf.set(key, value)
        for name, reader in views:
            reader.rows(session).createOrReplaceTempView(name)
        for number, statement in enumerate(given, 1):
            try:
                _show(session.sql(statement), rows, console)
            except PySparkException as error:
                reason = InvalidProgramError(f"{_reason(error)}\nin statement {number}: {statement}")
                if not asked:
                    raise reason from error
                console.print(Text(str(reason), style="red"))
    finally:
        release_session(held)


def _view(state: str, configuration: Configuration) -> tuple[str, SavepointReader]:
    name, given, path = state.partition("=")
    if not given or not name.isidentifier():
        raise InvalidArgumentError(f"--state {state}: expected VIEW=PATH", hint="such as --state counts=/path/of/the/savepoint.")
    return name, SavepointReader.read(path, configuration)


#: The next part of a statement, as Spark's SqlBaseLexer finds it; a quote that is not closed reaches to the end of the text.
_PART = re.compile(
    r"""
    --(?:\\\n|[^\r\n])*                                           # a comment to the end of the line
    | (?P<open>/\*)
    | (?P<end>;)
    | (?P<code>
        [rR]'[^']*(?:'|\Z) | [rR]"[^"]*(?:"|\Z)                   # a raw text: a backslash is a character
        | '(?:[^'\\]|\\.)*(?:'|\Z) | "(?:[^"\\]|\\.)*(?:"|\Z) | `[^`]*(?:`|\Z)
        | \w+ | \S
      )
    """,
    re.DOTALL | re.VERBOSE,
)
_IN_COMMENT = re.compile(r"(?P<open>/\*)|(?P<close>\*/)")
_SCRIPT = re.compile(r"\s*BEGIN\b", re.IGNORECASE)


def split_statements(lines: Iterable[str]) -> Iterator[str]:
    """Yield the statements of a text without the `;` between them; each is yielded once its last line is read.

    A `;` in quotes or in a comment ends no statement. A script of Spark (BEGIN ... END) reaches to the end of the text.
    """
    rest = ""
    for line in lines:
        rest += line
        while ";" in line:
            end, code = _end_of_statement(rest)
            if end is None:
                break
            if code:
                yield rest[:end].strip()
            rest = rest[end + 1 :]
    if _end_of_statement(rest)[1]:
        yield rest.strip()


def _end_of_statement(text: str) -> tuple[int | None, bool]:
    """Return the position of the first `;` that ends a statement, if any, and whether there is more than comments before it."""
    if _SCRIPT.match(text):
        return None, True
    depth, code, position = 0, False, 0  # bracketed comments are nested
    while (part := (_IN_COMMENT if depth else _PART).search(text, position)) is not None:
        position = part.end()
        match part.lastgroup:
            case "open":
                depth += 1
            case "close":
                depth -= 1
            case "code":
                code = True
            case "end":
                return part.start(), code
    return None, code


def _typed(stream: TextIO) -> Iterator[str]:
    while True:
        print(_PROMPT, end="", flush=True)
        line = stream.readline()
        if not line:
            print()
            return
        yield line


def _show(result: DataFrame, rows: int, console: Console) -> None:
    if not result.columns:
        return
    found = result.limit(rows + 1).collect()
    table = Table()
    for name in result.columns:
        table.add_column(Text(name), overflow="fold")
    for row in found[:rows]:
        table.add_row(*(Text("NULL" if value is None else _text(value)) for value in row))
    console.print(table)
    if len(found) > rows:
        console.print(f"The first {rows} rows; --rows shows more.")


def _text(value: object) -> str:
    return bytes(value).hex() if isinstance(value, bytes | bytearray) else str(value)


def _reason(error: PySparkException) -> str:
    """Return Spark's message without the plan and the stack trace that follow it."""
    lines = str(error).splitlines()
    end = next(
        (number for number, line in enumerate(lines) if line.startswith(("JVM stacktrace", "== SQL", "\tat ", "'"))), len(lines)
    )
    return "\n".join(line for line in lines[:end] if line.strip()).rstrip(";")

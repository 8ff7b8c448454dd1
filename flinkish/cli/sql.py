"""Runs SQL statements in a Spark session with Delta, and shows their results as tables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flinkish.common.config_file import load_configuration, parse_properties
from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.engine.spark.session import hold_delta_session, release_session
from flinkish.engine.spark.settings import SparkSettings

_PROMPT = "flinkish> "
#: Interactive queries need few tasks, because Delta's logs and checkpoints are small.
_SETTINGS = {"spark.sql.shuffle.partitions": "4", "spark.databricks.delta.snapshotPartitions": "2"}


def run_statements(statements: Sequence[str], properties: Sequence[str], rows: int) -> None:
    """Run the given statements, or those on standard input if none are given; show at most `rows` rows of each result.

    At a terminal, a statement that fails is reported, and the prompt continues. Otherwise it raises InvalidProgramError with
    Spark's reason. Raises EngineError if Spark does not start.
    """
    settings = SparkSettings.of(load_configuration(_of_spark(properties), environment=os.environ))
    asked = not statements and sys.stdin.isatty()
    given = statements or split_statements(_typed(sys.stdin) if asked else sys.stdin)
    console = Console(soft_wrap=True)
    held = hold_delta_session(settings)
    try:
        session = held.session.newSession()
        for key, value in _SETTINGS.items():
            if key not in settings.passed_on:
                session.conf.set(key, value)
        for statement in given:
            try:
                _show(session.sql(statement.strip().removesuffix(";")), rows, console)
            except PySparkException as error:
                reason = InvalidProgramError(f"{_reason(error)}\nin {statement.strip()}")
                if not asked:
                    raise reason from error
                console.print(Text(str(reason), style="red"))
    finally:
        release_session(held)


def _of_spark(properties: Sequence[str]) -> Sequence[str]:
    for key in parse_properties(properties):
        if not key.startswith("spark."):
            raise InvalidArgumentError(
                f"flinkish sql: -D{key} has no effect on SQL", hint="give settings of Spark: -Dspark.KEY=VALUE."
            )
    return properties


def split_statements(lines: Iterable[str]) -> Iterator[str]:
    """Yield the statements of a text: each ends with a `;` at the end of a line, the last one at the end of the text."""
    statement = ""
    for line in lines:
        statement += line
        if line.rstrip().endswith(";"):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


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

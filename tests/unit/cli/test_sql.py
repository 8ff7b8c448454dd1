from __future__ import annotations

from collections.abc import Iterator

import pytest

from flinkish.cli.sql import run_statements, split_statements
from flinkish.common.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        ("\n \n", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;\nSELECT\n 2;  \n", ["SELECT 1", "SELECT\n 2"]),
        ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
        (" ;; SELECT 1 ;;; ", ["SELECT 1"]),
        ("SELECT ';', \";\", `a;``b`; SELECT 2", ["SELECT ';', \";\", `a;``b`", "SELECT 2"]),
        (r"SELECT 'it\'s; one', 'a\\'; SELECT 2", [r"SELECT 'it\'s; one', 'a\\'", "SELECT 2"]),
        (r"SELECT r'\'; SELECT R'a;\', bar'a\';b'", [r"SELECT r'\'", r"SELECT R'a;\', bar'a\';b'"]),
        ("SELECT 'one;\ntwo;\n'; SELECT 2", ["SELECT 'one;\ntwo;\n'", "SELECT 2"]),
        ("SELECT 1 -- it's; one\n; -- none;\n--;", ["SELECT 1 -- it's; one"]),
        ("SELECT 1 -- a \\\n; b\n; SELECT 2", ["SELECT 1 -- a \\\n; b", "SELECT 2"]),
        ("/* it's; /* nested; */ ; */ SELECT 1; /* ; */", ["/* it's; /* nested; */ ; */ SELECT 1"]),
        ("SELECT 3 - -1 / 2 * 4; SELECT 2", ["SELECT 3 - -1 / 2 * 4", "SELECT 2"]),
        ("SELECT 'open; SELECT 2", ["SELECT 'open; SELECT 2"]),
        ("SELECT 1; begin SELECT 2; SELECT 3; END", ["SELECT 1", "begin SELECT 2; SELECT 3; END"]),
    ],
)
def test_statements_end_with_semicolons_outside_of_quotes_and_comments(text: str, statements: list[str]) -> None:
    assert list(split_statements([text])) == statements
    assert list(split_statements(text.splitlines(keepends=True))) == statements


def test_a_statement_typed_at_the_prompt_is_run_once_its_last_line_is_read() -> None:
    read: list[str] = []

    def lines() -> Iterator[str]:
        for line in ("SELECT ';\n", "'; SELECT\n", "2;\n", "SELECT 3"):
            read.append(line)
            yield line

    assert [(statement, len(read)) for statement in split_statements(lines())] == [
        ("SELECT ';\n'", 2),
        ("SELECT\n2", 3),
        ("SELECT 3", 4),
    ]


def test_a_setting_that_is_not_spark_s_is_refused_before_spark_starts() -> None:
    with pytest.raises(InvalidArgumentError, match=r"-Dexecution\.engine has no effect"):
        run_statements(["SELECT 1"], ["execution.engine=local"], 1)

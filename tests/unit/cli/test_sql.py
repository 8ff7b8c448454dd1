from __future__ import annotations

import pytest

from flinkish.cli.sql import run_statements, split_statements
from flinkish.common.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        ("\n \n", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1;\nSELECT\n 2;  \n", ["SELECT 1;\n", "SELECT\n 2;  \n"]),
        ("SELECT ';'\n, 2;\nSELECT 3", ["SELECT ';'\n, 2;\n", "SELECT 3"]),
    ],
)
def test_a_statement_ends_with_a_semicolon_at_the_end_of_a_line_or_with_the_text(text: str, statements: list[str]) -> None:
    assert list(split_statements(text.splitlines(keepends=True))) == statements


def test_a_setting_that_is_not_spark_s_is_refused_before_spark_starts() -> None:
    with pytest.raises(InvalidArgumentError, match=r"-Dexecution\.engine has no effect"):
        run_statements(["SELECT 1"], ["execution.engine=local"], 1)

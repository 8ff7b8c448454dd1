"""`flinkish sql` in the session of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import write_deltalake

from flinkish.cli.main import cli

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_sql_of_the_command_line_reads_versions_of_a_delta_table_and_names_a_wrong_statement(
    spark_session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "table"
    for number in (41, 42):
        write_deltalake(table, pa.table({"number": [number], "data": [b"\x00\xff"]}), mode="append")
    text = f"""\
SELECT number, data
FROM delta.`{table}` VERSION AS OF 0;
SELECT number FROM delta.`{table}` ORDER BY number; SELECT 'a;b' AS text; -- one more: it's
SELEC 1; SELECT 'not run'
"""
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)
    run = CliRunner().invoke(cli, ["sql", "--rows", "1"], input=text)
    assert run.exit_code == 1
    lines = [line.strip("│ ") for line in run.stdout.splitlines() if "│" in line or "rows" in line]
    assert lines == ["41     │ 00ff", "41", "The first 1 rows; --rows shows more.", "a;b"]
    assert "syntax error at or near 'selec'" in run.stderr.lower()
    assert "in statement 4:" in run.stderr
    assert "SELEC 1" in run.stderr
    assert "not run" not in run.output
    assert "Traceback" not in run.stderr

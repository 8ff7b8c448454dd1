"""`flinkish sql` in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake

pytestmark = pytest.mark.spark


def test_sql_of_the_command_line_reads_versions_of_a_delta_table_and_names_a_wrong_statement(tmp_path: Path) -> None:
    table = tmp_path / "table"
    for number in (41, 42):
        write_deltalake(table, pa.table({"number": [number], "data": [b"\x00\xff"]}), mode="append")
    text = f"""\
SELECT number, data
FROM delta.`{table}` VERSION AS OF 0;
SELECT number FROM delta.`{table}` ORDER BY number;
SELEC 1;
"""
    command = [str(Path(sys.executable).with_name("flinkish")), "sql", "--rows", "1"]
    run = subprocess.run(command, input=text, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 1
    lines = [line.strip("│ ") for line in run.stdout.splitlines() if "│" in line or "rows" in line]
    assert lines == ["41     │ 00ff", "41", "The first 1 rows; --rows shows more."]
    assert "syntax error at or near 'selec'" in run.stderr.lower()
    assert "SELEC 1;" in run.stderr
    assert "Traceback" not in run.stderr

"""Settings for a JVM are passed in a file that only this user can read, and that does not stay."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish.engine.spark.submission import property_file
from tests.kit.child import python
from tests.kit.own_process import set_temporary_folder


def test_the_file_is_private_and_removed_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_temporary_folder(monkeypatch, tmp_path)
    with property_file({"spark.a": "1"}) as path:
        assert path.read_text() == "spark.a=1\n"
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_the_file_of_a_killed_process_is_removed_by_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "import os, signal\nfrom flinkish.engine.spark.submission import property_file\n"
        "with property_file({'spark.a': 'hush'}): os.kill(os.getpid(), signal.SIGKILL)"
    )
    python("-c", script, status=-9, TMPDIR=str(tmp_path))
    [left] = tmp_path.iterdir()
    set_temporary_folder(monkeypatch, tmp_path)
    with property_file({"spark.a": "1"}):
        assert not left.exists()


def test_values_are_written_as_java_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_temporary_folder(monkeypatch, tmp_path)
    # The last one is outside of Unicode's first 65,536 characters: Java has two units for it.
    with property_file({"spark.a b": " x=\\\n#!:ä\U0001f600"}) as path:
        written = path.read_text()
    assert written == ("spark.a\\u0020b=\\u0020x\\u003d\\u005c\\u000a\\u0023\\u0021\\u003a\\u00e4\\ud83d\\ude00\n")

"""Sentences for the person who runs a job."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest

from flinkish.common import notices
from tests.kit.child import FLINKISH, python


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def said(level: str | None, stderr: io.StringIO | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tell a sentence as a program does that has set up logging at a level, or has not."""
    import logging

    logger = logging.Logger("flinkish.job")
    if level is not None:
        logger.setLevel(level)
        logger.addHandler(logging.StreamHandler(stderr))
    else:
        logger.setLevel("WARNING")
    monkeypatch.setattr(notices, "_log", logger)
    monkeypatch.setattr(sys, "stderr", stderr)
    notices.tell("The job starts.")


@pytest.mark.parametrize(
    ("level", "terminal", "text"),
    [
        (None, True, "The job starts.\n"),
        (None, False, ""),
        ("INFO", False, "The job starts.\n"),
        ("WARNING", True, ""),
    ],
)
def test_the_log_decides_and_without_one_a_terminal(
    level: str | None, terminal: bool, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stderr = Terminal() if terminal else io.StringIO()
    said(level, stderr, monkeypatch)
    assert stderr.getvalue() == text


@pytest.mark.parametrize("level", [None, "INFO", "WARNING"])
def test_the_command_line_says_everything_and_nothing_twice(level: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = io.StringIO()
    with notices.told_always():
        said(level, stderr, monkeypatch)
    assert stderr.getvalue() == "The job starts.\n"


def test_a_closed_or_missing_standard_error_harms_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = Terminal()
    closed.close()
    said(None, closed, monkeypatch)
    said(None, None, monkeypatch)


_SCRIPT = """
from flinkish.common import Configuration
from flinkish.datastream import StreamExecutionEnvironment
env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"execution.engine": "local"}))
env.set_parallelism(1).from_collection(["a"]).print()
env.execute("letters")
"""


@pytest.mark.parametrize(
    ("launcher", "told"),
    [([], ""), ([*FLINKISH, "run"], r"Job 'letters' \([0-9a-f]{32}\) starts\.\n")],
)
def test_a_script_that_nobody_watches_is_quiet_and_flinkish_run_is_not(launcher: list[str], told: str, tmp_path: Path) -> None:
    script = tmp_path / "letters.py"
    script.write_text(_SCRIPT, encoding="utf-8")
    run = python(*launcher, script)
    assert run.stdout == "a\n"
    assert re.fullmatch(told, run.stderr)

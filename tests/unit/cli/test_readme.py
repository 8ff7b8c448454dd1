from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.kit.own_process import set_arguments
from tests.unit.docs.pages import blocks

README = Path(__file__).parents[3] / "README.md"


@pytest.fixture
def as_in_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Set up a new user's process on the local engine, and return the namespace of a script."""
    monkeypatch.chdir(tmp_path)
    set_arguments(monkeypatch, "silence.py")
    monkeypatch.setenv("FLINKISH_PROPERTIES", "-Dexecution.engine=local")
    monkeypatch.setenv("HOME", str(tmp_path))
    return {"__name__": "readme"}


def test_the_program_of_the_readme_prints_what_it_says_and_its_test_passes(
    as_in_a_script: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    program, test_of_it = blocks(README, "python")
    exec(compile(program.content, str(README), "exec"), as_in_a_script)
    assert program.output
    assert capsys.readouterr().out == program.output
    exec(compile(test_of_it.content, str(README), "exec"), as_in_a_script)


def test_every_make_target_of_the_readme_and_of_the_page_on_development_exists() -> None:
    page = README.parent / "docs" / "pages" / "development.md"
    named = set(re.findall(r"`make ([a-z-]+)", README.read_text() + page.read_text()))
    defined = set(re.findall(r"^([a-z-]+):", (README.parent / "Makefile").read_text(), flags=re.MULTILINE))
    assert named <= defined


def test_every_file_that_the_readme_links_to_exists() -> None:
    for link in re.findall(r"\]\(([^)]+)\)", README.read_text()):
        assert (README.parent / link.partition("#")[0]).exists(), link

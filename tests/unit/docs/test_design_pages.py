"""The DESIGN pages name modules and pages that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = ROOT / "flinkish"
PAGES = sorted(PACKAGE.rglob("DESIGN.md"))
#: Every module of the package, tests, jobs and docs, as "/a/b/module.py".
MODULES = [
    f"/{path.relative_to(ROOT).as_posix()}"
    for folder in ("flinkish", "tests", "jobs", "docs")
    for path in (ROOT / folder).rglob("*.py")
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.parent.name)
def test_a_design_page_names_modules_that_exist(page: Path) -> None:
    named = set(re.findall(r"(?<![*\w/])[\w/]+\.py\b", page.read_text(encoding="utf-8")))
    assert sorted(name for name in named if not any(module.endswith(f"/{name}") for module in MODULES)) == []


def test_the_first_page_links_to_the_page_of_each_folder() -> None:
    linked = re.findall(r"\(([\w/]+/DESIGN\.md)\)", (PACKAGE / "DESIGN.md").read_text(encoding="utf-8"))
    assert sorted(PACKAGE / name for name in linked) == [page for page in PAGES if page.parent != PACKAGE]

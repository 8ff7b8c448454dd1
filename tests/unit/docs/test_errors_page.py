"""The page of errors: every error has its place on it."""

from __future__ import annotations

import inspect

from flinkish.common import errors
from tests.unit.docs.pages import PAGES_FOLDER


def test_every_error_is_on_the_page() -> None:
    page = (PAGES_FOLDER / "errors.md").read_text()
    classes = [name for name, value in inspect.getmembers(errors, inspect.isclass) if issubclass(value, errors.FlinkishError)]

    assert [name for name in classes if f"### {name}\n" not in page and f"`{name}`" not in page] == []


def test_no_error_on_the_page_is_unknown() -> None:
    lines = (PAGES_FOLDER / "errors.md").read_text().splitlines()
    headings = [line.removeprefix("### ") for line in lines if line.startswith("### ")]

    assert [heading for heading in headings if not hasattr(errors, heading)] == []

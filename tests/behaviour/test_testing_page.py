"""The tests on the page about tests are tests of ours: on both engines, by the fixtures of the plugin."""

from __future__ import annotations

from typing import Any

from tests.unit.docs.pages import PAGES_FOLDER, blocks

# As in a script: what is defined there is in no module that the tasks could import.
_page: dict[str, Any] = {"__name__": "testing_page"}
for _block in blocks(PAGES_FOLDER / "testing.md", "python"):
    exec(compile("\n" * (_block.line - 1) + _block.content, "testing.md", "exec"), _page)

globals().update({name: value for name, value in _page.items() if name.startswith("test_")})

"""The pages of the documentation and the fenced blocks in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGES_FOLDER = Path(__file__).parents[3] / "docs" / "pages"
PAGES = sorted(PAGES_FOLDER.rglob("*.md"))

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: what is in it, and the line of the page (from 1) at which that begins."""

    language: str
    content: str
    line: int
    #: What the page says that a Python block prints: the `text` block right behind it; empty if there is none.
    output: str = ""


def blocks(page: Path, language: str) -> list[Block]:
    """Return the blocks of a language, in order."""
    return blocks_of(page.read_text(), language)


def blocks_of(text: str, language: str) -> list[Block]:
    """Return the blocks of a language in a page's text."""
    fences = list(_FENCE.finditer(text))
    found = []
    for number, fence in enumerate(fences):
        if fence[1] != language:
            continue
        following = fences[number + 1] if number + 1 < len(fences) else None
        directly = following is not None and following[1] == "text" and not text[fence.end() : following.start()].strip()
        output = following[2] if following is not None and directly else ""
        found.append(Block(language, fence[2], text.count("\n", 0, fence.start(2)) + 1, output))
    return found


def title(page: Path) -> str:
    """Return a page's path below the folder of the pages."""
    return str(page.relative_to(PAGES_FOLDER))

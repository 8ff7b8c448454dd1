"""Pictures: drawn from their descriptions, and mistakes in these are named."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from docs.pictures import draw
from tests.unit.docs.pages import PAGES, blocks

_TWO = "boxes: {a: {at: [0, 0], text: one}, b: {at: [1, 0], text: 'two\n\n  lines'}}\n"


def test_all_pictures_of_the_pages_can_be_drawn() -> None:
    drawn = [draw(block.content) for page in PAGES for block in blocks(page, "picture")]

    assert len(drawn) > 5
    for picture in drawn:
        ElementTree.fromstring(picture)


def test_arrows_go_from_edge_to_edge() -> None:
    picture = draw(_TWO + "arrows: [{from: a, to: b, text: x < y}]")

    (x1, y1, x2, y2) = re.search(r'<line x1="(.*?)" y1="(.*?)" x2="(.*?)" y2="(.*?)"', picture).groups()  # type: ignore[union-attr]
    assert (float(x1), float(y1), float(x2), float(y2)) == (70, 0, 120, 0)
    assert "x &lt; y" in picture


def test_lines_of_text_are_lines_of_the_box() -> None:
    assert re.findall(r'<text [^>]*y="([\d.-]+)"[^>]*>(\w+)</text>', draw(_TWO)) == [
        ("4.0", "one"),
        ("-3.5", "two"),
        ("11.5", "lines"),
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("arrows: []", "boxes"),
        ("just text", "boxes"),
        (_TWO + "arrows: [{from: a, to: c}]", "no box 'c'"),
        (_TWO + "lines: []", "boxes"),
    ],
)
def test_a_mistake_is_named(source: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        draw(source)

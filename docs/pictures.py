"""Pictures of boxes and arrows, drawn as SVG from fenced blocks of YAML, without downloads and in the colours of the page.

```picture
boxes:
  a: {at: [0, 0], text: a box}
  b: {at: [1, 0], text: "another,\\nof two lines"}
arrows:
  - {from: a, to: b, text: what goes}
frames:
  - {around: [a, b], text: what they belong to}
```
`at` is column and row on a grid; fractions are allowed, and `width` is in columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, Final

import yaml

#: Style of labels: an outline in the background colour, so that lines do not cross the text.
_HALO: Final = 'paint-order="stroke" stroke="var(--md-default-bg-color, #fff)" stroke-width="4"'
#: Pixels between the middles of neighbouring boxes, and the size of a box.
_COLUMN: Final = 190
_ROW: Final = 92
_WIDTH: Final = 140
_HEIGHT: Final = 56
_MARGIN: Final = 26
_LINE: Final = 15
_KEYS: Final = {"boxes", "arrows", "frames"}


@dataclass(frozen=True, slots=True)
class _Box:
    """A box by its middle and size, in pixels."""

    x: float
    y: float
    width: float
    lines: tuple[str, ...]

    @property
    def height(self) -> float:
        return max(_HEIGHT, _LINE * len(self.lines) + 20)

    def edge_towards(self, other: _Box) -> tuple[float, float]:
        """Return the point at which a line between the centres of two boxes crosses the edge of this box."""
        dx, dy = other.x - self.x, other.y - self.y
        if dx == dy == 0:
            return self.x, self.y
        scale = min(self.width / 2 / abs(dx) if dx else 1e9, self.height / 2 / abs(dy) if dy else 1e9)
        return self.x + dx * scale, self.y + dy * scale


def draw(source: str) -> str:
    """Return the SVG of a picture; raise ValueError, which names the mistake, for a wrong description."""
    described = yaml.safe_load(source)
    if not isinstance(described, dict) or not set(described) <= _KEYS or not described.get("boxes"):
        raise ValueError(f"a picture has boxes, arrows and frames; got {source[:80]!r}")
    boxes = {name: _box(given) for name, given in described["boxes"].items()}
    frames = [_frame(given, boxes) for given in described.get("frames", ())]
    arrows = [_arrow(given, boxes) for given in described.get("arrows", ())]
    left = min(box.x - box.width / 2 for box in boxes.values()) - _MARGIN
    right = max(box.x + box.width / 2 for box in boxes.values()) + _MARGIN
    top = min(box.y - box.height / 2 for box in boxes.values()) - _MARGIN - 8
    bottom = max(box.y + box.height / 2 for box in boxes.values()) + _MARGIN
    drawn = "".join([*frames, *arrows, *map(_drawn_box, boxes.values())])
    head = (
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto-start-reverse"><path d="M0,0 L8,4 L0,8 z" fill="currentColor"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{left:.0f} {top:.0f} {right - left:.0f} {bottom - top:.0f}" '
        f'style="max-width:{right - left:.0f}px;width:100%" font-family="sans-serif" font-size="12" role="img">'
        f"{head}{drawn}</svg>"
    )


def fence(source: str, language: str, class_name: str, options: dict[str, Any], md: Any, **_: Any) -> str:
    """Draw a fenced block, for pymdownx.superfences."""
    return f'<div class="{class_name}">{draw(source)}</div>'


def _box(given: dict[str, Any]) -> _Box:
    column, row = given["at"]
    lines = tuple(str(given["text"]).split("\n"))
    return _Box(column * _COLUMN, row * _ROW, _WIDTH + (given.get("width", 1) - 1) * _COLUMN, lines)


def _known(name: str, boxes: dict[str, _Box]) -> _Box:
    if name not in boxes:
        raise ValueError(f"there is no box {name!r}; there are {', '.join(boxes)}")
    return boxes[name]


def _drawn_box(box: _Box) -> str:
    rectangle = (
        f'<rect x="{box.x - box.width / 2:.1f}" y="{box.y - box.height / 2:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="6" fill="var(--md-code-bg-color, #f5f5f5)" stroke="currentColor"/>'
    )
    return rectangle + _text(box.x, box.y, box.lines)


def _text(x: float, y: float, lines: tuple[str, ...], style: str = "") -> str:
    first = y - _LINE * (len(lines) - 1) / 2 + 4
    return "".join(
        f'<text x="{x:.1f}" y="{first + _LINE * number:.1f}" text-anchor="middle" fill="currentColor" {style}>'
        f"{escape(line)}</text>"
        for number, line in enumerate(lines)
    )


def _arrow(given: dict[str, Any], boxes: dict[str, _Box]) -> str:
    start, end = _known(given["from"], boxes), _known(given["to"], boxes)
    (x1, y1), (x2, y2) = start.edge_towards(end), end.edge_towards(start)
    both = ' marker-start="url(#head)"' if given.get("both") else ""
    line = f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="currentColor" marker-end="url(#head)"{both}/>'
    label = given.get("text")
    if not label:
        return line
    # The label is to the right of a vertical line, above a horizontal one, and below one that slopes down.
    middle_x, middle_y = (x1 + x2) / 2, (y1 + y2) / 2
    if abs(x2 - x1) < abs(y2 - y1):
        return line + f'<text x="{middle_x + 7:.1f}" y="{middle_y + 4:.1f}" fill="currentColor" {_HALO}>{escape(label)}</text>'
    distance = 10 if y1 == y2 else 14
    return line + _text(middle_x, middle_y + (distance if y2 > y1 else -distance), (label,), _HALO)


def _frame(given: dict[str, Any], boxes: dict[str, _Box]) -> str:
    around = [_known(name, boxes) for name in given["around"]]
    left = min(box.x - box.width / 2 for box in around) - 14
    top = min(box.y - box.height / 2 for box in around) - 22
    width = max(box.x + box.width / 2 for box in around) + 14 - left
    height = max(box.y + box.height / 2 for box in around) + 12 - top
    return (
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="8" fill="none" stroke="currentColor" '
        f'stroke-dasharray="5 4" opacity="0.7"/><text x="{left + 8:.1f}" y="{top + 14:.1f}" fill="currentColor" opacity="0.8">'
        f"{escape(str(given.get('text', '')))}</text>"
    )

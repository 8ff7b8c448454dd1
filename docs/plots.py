"""Plots of the pages Columns and Nexmark, drawn as SVG from the figures beside them: `make plots`."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

PAGES: Final = Path(__file__).with_name("pages")
#: Colours of the ways to do the same, in the order of their bars.
_WAYS: Final = {"records": "#9aa7b0", "Spark itself": "#d99a4e", "columns": "#3d7ea6"}
#: Pixels.
_WIDTH, _TOP, _BAR, _GAP = 720, 44, 12, 10
#: Records that the queries of Nexmark read of a million events: bids, persons and auctions, bids and auctions.
_OF_A_MILLION: Final = {"920000", "80000", "980000"}
_ENGINES: Final = {"flinkish": "records", "spark": "Spark itself", "columns": "columns"}

#: Of a work, records a second of each way that can do it.
Rates = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True)
class Plot:
    """How rates are shown, on a logarithmic scale."""

    title: str
    #: Rates with a line, from the least to the greatest.
    lines: tuple[float, ...]
    #: Pixels for the names of works.
    left: int

    def draw(self, rates: Rates) -> str:
        least, most = self.lines[0], self.lines[-1]
        scale = (_WIDTH - 70 - self.left) / math.log(most / least)

        def x(rate: float) -> int:
            return round(self.left + scale * math.log(rate / least))

        parts, y = [], _TOP
        for name, ways in rates.items():
            middle = y + (len(ways) * _BAR + 8) // 2
            parts.append(f'<text x="{self.left - 10}" y="{middle}" text-anchor="end">{escape(name)}</text>')
            for way, colour in _WAYS.items():
                if way in ways:
                    end = x(ways[way])
                    parts.append(f'<rect x="{self.left}" y="{y}" width="{end - self.left}" height="{_BAR - 1}" fill="{colour}"/>')
                    parts.append(f'<text x="{end + 5}" y="{y + 10}" font-size="10">{_text(ways[way])}</text>')
                    y += _BAR
            y += _GAP
        for number, (way, colour) in enumerate(_WAYS.items()):
            start = self.left + 140 * number
            parts.append(f'<rect x="{start}" y="10" width="12" height="12" fill="{colour}"/>')
            parts.append(f'<text x="{start + 18}" y="21">{way}</text>')
        for line in self.lines:
            at = x(line)
            parts.append(f'<line x1="{at}" x2="{at}" y1="36" y2="{y}" stroke="#999" stroke-opacity="0.3"/>')
            parts.append(f'<text x="{at}" y="{y + 18}" text-anchor="middle">{_text(line)}/s</text>')
        style = f'font-family="sans-serif" font-size="13" fill="#777" role="img" aria-label="{escape(self.title)}"'
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {y + 28}" {style}>'
        return "\n".join([head, *parts, "</svg>\n"])


def _text(rate: float) -> str:
    """Return a rate with two or three digits."""
    amount, unit = (rate / 1e6, "M") if rate >= 999_500 else (rate / 1e3, "k")
    return f"{amount:.{0 if amount >= 99.5 else 1}f} {unit}".replace(".0 ", " ")


def of_columns() -> Rates:
    """Return the rates of page Columns."""
    with (PAGES / "operators" / "columns.csv").open(encoding="utf-8", newline="") as file:
        return {row.pop("work"): {way: float(rate) for way, rate in row.items() if rate} for row in csv.DictReader(file)}


def of_nexmark() -> Rates:
    """Return the rates of page Nexmark for the first million events."""
    rates: dict[str, dict[str, float]] = {}
    with (PAGES / "nexmark.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["events"] in _OF_A_MILLION and row["engine"] in _ENGINES:
                rates.setdefault(row["query"], {})[_ENGINES[row["engine"]]] = float(row["events"]) / float(row["seconds"])
    return dict(sorted(rates.items(), key=lambda pair: int(pair[0][1:])))


def plots() -> dict[str, str]:
    """Return the names of the images and what is in them."""
    of_rows = Plot("Rows a second of each work", (100e3, 1e6, 10e6, 100e6), left=250)
    of_events = Plot("Events a second of the queries of Nexmark", (20e3, 50e3, 100e3, 200e3, 500e3, 1e6, 2e6), left=90)
    return {"columns.svg": of_rows.draw(of_columns()), "nexmark.svg": of_events.draw(of_nexmark())}


if __name__ == "__main__":
    for name, image in plots().items():
        (PAGES / "images" / name).write_text(image, encoding="utf-8")

"""The page that says what of PyFlink is supported, made by comparing the two."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Final

from docs.support import Name, Status, compare

_MARKS: Final = {
    Status.SUPPORTED: "yes",
    Status.DIFFERS: "differs",
    Status.LATER: "not yet",
    Status.UNSUPPORTED: "no",
    Status.UNEXPLAINED: "unexplained",
}

_INTRODUCTION: Final = """\
# What is supported

Every public class, method and constant of PyFlink 2.3.0's DataStream API, as recorded from its sources, against flinkish. This
page is made by comparing the two, and a test fails if a name is neither there nor explained.

| | names | |
|---|---|---|
| yes | {supported} | the same name, arguments and defaults |
| differs | {differs} | there; the note says in what it differs |
| not yet | {later} | will come; calling it says so |
| no | {unsupported} | makes no sense off the JVM |

Left out are {internal} names that only serve PyFlink's own operators. How programs with the same names behave is the matter of
[Migration](migration.md); what flinkish has beyond PyFlink stands at its end.
"""


def markdown() -> str:
    """Return the page."""
    names = compare()
    counts = {status.name.lower(): sum(name.status is status for name in names) for status in Status}
    parts = [_INTRODUCTION.format(**counts)]
    shown = [name for name in names if name.status is not Status.INTERNAL]
    for module, members in groupby(shown, key=lambda name: name.module):
        rows = "\n".join(_rows(members))
        parts.append(f"## `{module.removeprefix('pyflink.')}`\n\n| name | | note |\n|---|---|---|\n{rows}\n")
    return "\n".join(parts)


def _rows(names: Iterable[Name]) -> Iterator[str]:
    """Yield a row for each class, with the names in it that stand as it does, and rows for the others."""
    groups: list[list[Name]] = []
    for name in names:
        if name.is_class or not groups or name.owner != groups[-1][0].qualified:
            groups.append([])
        groups[-1].append(name)
    for first, *others in groups:
        alike = [name for name in others if (name.status, name.note) == (first.status, first.note)]
        yield _row(f"**`{first.qualified}`**", alike, first)
        rest = [name for name in others if name not in alike]
        plain = [name for name in rest if name.status is Status.SUPPORTED]
        if plain:
            yield _row("", plain, plain[0])
        for name in rest:
            if name not in plain:
                yield _row(f"`{name.qualified}`", [], name)


def _row(name: str, others: list[Name], example: Name) -> str:
    listed = ", ".join(f"`{other.name}`" for other in others)
    note = example.note.replace("|", "\\|")
    return f"| {'<br>'.join(filter(None, (name, listed)))} | {_MARKS[example.status]} | {note} |"

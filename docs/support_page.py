"""The page on the supported API of PyFlink, generated from a comparison of both."""

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

This page compares every public class, method and constant of PyFlink 2.3.0's DataStream API, as recorded from its sources, with
flinkish. It is generated, and a test fails if a name is missing without a reason.

| | names | |
|---|---|---|
| yes | {supported} | the same name, arguments and defaults |
| differs | {differs} | supported; the note says how it differs |
| not yet | {later} | planned; using it raises an error that says so |
| no | {unsupported} | not supported; most of these names have no meaning without Flink's JVM |

{internal} names that PyFlink only uses internally are left out. For differences in behaviour see [Migration](migration.md), which
also lists, at its end, the features of flinkish that PyFlink does not have.
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
    """Yield a row for each class, with its members of the same status, and rows for the other members."""
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

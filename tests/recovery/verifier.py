"""Compares what sinks made visible with what had to come: the verifier of the recovery tests, itself tested."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.kit.tables import rows_of
from tests.recovery import keyed_timers_job
from tests.recovery.folder_sink import committed_rows

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Findings:
    """All that can be wrong with an output."""

    lost: Rows = ()
    duplicated: Rows = ()
    unexpected: Rows = ()
    out_of_order: Rows = ()


def compare(got: Iterable[tuple[int, ...]], expected: Iterable[tuple[int, ...]], *, ordered: bool) -> Findings:
    """Classify each row; `ordered`: the counts of a key must rise (the job itself checks the order of its timers)."""
    rows = list(got)
    seen, wanted = Counter(rows), Counter(expected)
    return Findings(
        lost=tuple(sorted((wanted - seen).elements())),
        duplicated=tuple(sorted(row for row in (seen - wanted).elements() if row in wanted)),
        unexpected=tuple(sorted(row for row in (seen - wanted).elements() if row not in wanted)),
        out_of_order=_out_of_order(rows) if ordered else (),
    )


def _out_of_order(rows: Sequence[tuple[int, ...]]) -> Rows:
    last: dict[int, int] = {}
    found = []
    for key, count in rows:
        if count > 0:
            if count < last.get(key, 0):
                found.append((key, count))
            last[key] = count
    return tuple(found)


def table_rows(table: Path) -> list[tuple[int, ...]]:
    """Return the rows of a Delta table, in no order; none if it is not there yet."""
    return rows_of(table, "key", "count")


def assert_golden(output: Path, records: int = keyed_timers_job.RECORDS) -> None:
    """Both sinks of the job show exactly what an uninterrupted run shows."""
    wanted = keyed_timers_job.expected(records)
    assert compare(table_rows(output / "table"), wanted, ordered=False) == Findings()
    assert compare(committed_rows(output / "folder"), wanted, ordered=True) == Findings()

"""Tells in tests which records were aggregated as columns, and combined before they were sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinkish.runtime.operators.basic import DeduplicateOperator, TopNOperator
from flinkish.runtime.operators.column_fold import ColumnFold
from flinkish.runtime.operators.column_reduce import ColumnReduce


@pytest.fixture
def folded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of the runs that were aggregated as columns."""
    sizes: list[int] = []

    def counting(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(fold: Any, codes: Any, *others: Any) -> Any:
            found = method(fold, codes, *others)
            if found is not None:
                sizes.append(len(codes))
            return found

        return call

    methods = [(ColumnFold, "fold"), (ColumnFold, "rolled"), (ColumnReduce, "reduce")]
    for kind, name in (*methods, (DeduplicateOperator, "process_gathered"), (TopNOperator, "process_gathered")):
        monkeypatch.setattr(kind, name, counting(getattr(kind, name)))
    return sizes


def note_combined(monkeypatch: pytest.MonkeyPatch, number: Callable[[int, int], int]) -> list[int]:
    """Return a list that gets a number for each run that is combined; `number` makes it of the numbers of groups and records."""
    numbers: list[int] = []
    method = ColumnFold.combined

    def call(fold: ColumnFold, slots: Any, codes: Any, groups: int) -> Any:
        numbers.append(number(groups, len(codes)))
        return method(fold, slots, codes, groups)

    monkeypatch.setattr(ColumnFold, "combined", call)
    return numbers

"""Tells in tests which records were aggregated as columns."""

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

    methods = [(ColumnFold, "fold"), (ColumnFold, "running"), (ColumnReduce, "reduce")]
    for kind, name in (*methods, (DeduplicateOperator, "process_gathered"), (TopNOperator, "process_gathered")):
        monkeypatch.setattr(kind, name, counting(getattr(kind, name)))
    return sizes

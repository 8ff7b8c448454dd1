"""What Delta tables hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deltalake import DeltaTable


def rows_of(table: str | Path, *columns: str) -> list[tuple[Any, ...]]:
    """Return the rows of a table, with some columns or all, in no order; none if it is not there yet."""
    if not DeltaTable.is_deltatable(str(table)):
        return []
    data = DeltaTable(table).to_pyarrow_table()
    return list(zip(*(data[name].to_pylist() for name in columns or data.column_names), strict=True))

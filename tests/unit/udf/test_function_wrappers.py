"""Checks of the functions that programs pass."""

from __future__ import annotations

from typing import Any

from flinkish.udf.function_wrappers import check_function


def test_a_function_without_a_module_is_taken() -> None:
    names: dict[str, Any] = {}
    exec("def doubled(value):\n    return value * 2", names)
    assert names["doubled"].__module__ is None
    check_function(names["doubled"], "map")

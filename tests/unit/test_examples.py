"""Examples in docstrings run, of the packages and modules whose examples need no names but their own."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

from flinkish import common, metrics, testing

PACKAGES = [
    module.name
    for package in (common, metrics, testing)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
]
MODULES = [
    "flinkish.datastream.async_data_stream",
    "flinkish.datastream.async_retry_predicates",
    "flinkish.datastream.interval_join",
    "flinkish.udf.async_retry_strategies",
]


@pytest.mark.parametrize("name", [*PACKAGES, *MODULES])
def test_the_examples_of_a_module_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
    assert result.attempted or name in PACKAGES

"""The examples in the docstrings of flinkish.common and flinkish.metrics run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import flinkish.common
import flinkish.metrics

MODULES = [
    module.name
    for package in (flinkish.common, flinkish.metrics)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0

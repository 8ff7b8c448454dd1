"""The examples in the docstrings of flinkish.datastream run."""

from __future__ import annotations

import doctest
import importlib

import pytest


@pytest.mark.parametrize("name", ["async_data_stream", "async_retry_predicates", "interval_join"])
def test_the_examples_of_a_module_run(name: str) -> None:
    result = doctest.testmod(importlib.import_module(f"flinkish.datastream.{name}"))
    assert (result.failed, result.attempted > 0) == (0, True)

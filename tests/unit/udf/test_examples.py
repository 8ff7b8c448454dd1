"""The examples in the docstrings of flinkish.udf run."""

from __future__ import annotations

import doctest

from flinkish.udf import async_retry_strategies


def test_the_examples_of_a_module_run() -> None:
    result = doctest.testmod(async_retry_strategies)
    assert (result.failed, result.attempted > 0) == (0, True)

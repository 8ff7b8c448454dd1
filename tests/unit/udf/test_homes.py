"""Programs find all public names of `udf` in PyFlink's modules, and what was pickled when they were defined there can be read."""

from __future__ import annotations

import importlib
import pickle

import pytest

from flinkish.common import pickling
from flinkish.udf.window import TimeWindow

#: Modules whose names PyFlink has elsewhere, too: functions exports those of checkpoint.
HOMES = (
    "async_retry_strategies",
    "checkpoint",
    "evictors",
    "functions",
    "state",
    "window",
    "window.assigners",
    "window.triggers",
    "window.windows",
)


@pytest.mark.parametrize("name", HOMES)
def test_the_api_exports_every_public_name_of_a_module(name: str) -> None:
    module = importlib.import_module(f"flinkish.udf.{name}")
    home = importlib.import_module(f"flinkish.datastream.{name}")

    assert {each: getattr(home, each) for each in module.__all__} == {each: getattr(module, each) for each in module.__all__}


def test_a_star_import_of_a_home_gives_names_of_the_api_only() -> None:
    names: dict[str, object] = {}
    exec("from flinkish.datastream.functions import *", names)

    assert "MapFunction" in names
    assert {"names_of", "TYPE_CHECKING", "annotations"}.isdisjoint(names)


@pytest.mark.parametrize("reader", [pickle.loads, pickling.loads])
def test_pickles_that_name_the_former_home_are_read(reader) -> None:  # type: ignore[no-untyped-def]
    assert reader(b"cflinkish.datastream.window.windows\nTimeWindow\n.") is TimeWindow

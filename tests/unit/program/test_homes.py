"""Interfaces of sources and sinks are in PyFlink's home, too, and what was pickled when they were defined there can be read."""

from __future__ import annotations

import inspect
import pickle
from types import ModuleType

import pytest

from flinkish.common import pickling
from flinkish.datastream.connectors import base
from flinkish.program import sinks, sources


@pytest.mark.parametrize("module", [sources, sinks], ids=["sources", "sinks"])
def test_the_api_exports_every_interface_of_a_module(module: ModuleType) -> None:
    defined = {name: kind for name, kind in inspect.getmembers(module, inspect.isclass) if kind.__module__ == module.__name__}

    assert defined
    assert {name: getattr(base, name) for name in defined} == defined
    assert set(defined) <= set(module.__all__)


def test_pickles_that_name_the_former_home_are_read() -> None:
    # State declared as Types.PICKLED_BYTE_ARRAY holds such names in the checkpoints of earlier versions.
    stored = b"cflinkish.datastream.connectors.base\nDeliveryGuarantee\n(S'exactly-once'\ntR."

    assert pickle.loads(stored) is sinks.DeliveryGuarantee.EXACTLY_ONCE
    assert pickling.loads(stored) is sinks.DeliveryGuarantee.EXACTLY_ONCE

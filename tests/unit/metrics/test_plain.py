"""Values of users' metrics that are no ordinary numbers."""

from __future__ import annotations

import json
import logging
import math
import pickle
from collections.abc import Callable
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from flinkish.common.clock import ManualClock
from flinkish.common.errors import InvalidArgumentError
from flinkish.metrics import MetricRegistry
from flinkish.metrics.plain import plain, text_of
from flinkish.metrics.registry import merge


class Level(IntEnum):
    HIGH = 3


class Words(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7, 7),
        (2**64, 2**64),
        (-(2**999), -(2**999)),
        (10**400, math.inf),
        pytest.param(-(10**5_000), -math.inf, id="cannot be printed"),
        (1.5, 1.5),
        (True, True),
        ("text", "text"),
        (Words("text"), "text"),
        ("half \ud800", "half ?"),
        (Level.HIGH, 3),
        (Decimal("1.5"), 1.5),
        (Decimal("1e400"), math.inf),
        (Fraction(1, 4), 0.25),
        (Fraction(-(10**400), 3), -math.inf),
        (np.int64(5), 5),
        (np.uint64(2**64 - 1), 2**64 - 1),
        (np.float32(0.5), 0.5),
        (np.float64(0.5), 0.5),
        (np.bool_(True), True),
        (np.array(4), 4),
        (None, None),
    ],
)
def test_numbers_and_texts_are_plain(value: Any, expected: Any) -> None:
    found = plain(value)
    assert found == expected
    assert type(found) in (int, float, bool, str, type(None))
    assert type(found) is type(expected)


@pytest.mark.parametrize("value", [math.nan, Decimal("NaN"), Decimal("sNaN"), np.float32("nan")])
def test_no_number_is_a_float(value: Any) -> None:
    found = plain(value)
    assert type(found) is float
    assert math.isnan(found)


@pytest.mark.parametrize("value", [{"rate": 1}, [1], 1j, object(), b"x", np.array([1]), np.datetime64("2020"), np.complex64(1)])
def test_anything_else_is_no_value(value: Any) -> None:
    with pytest.raises(TypeError, match="is neither a number nor a text"):
        plain(value)


@pytest.mark.parametrize(
    ("value", "text"), [(math.nan, "NaN"), (math.inf, "Infinity"), (-math.inf, "-Infinity"), (1.5, "1.5"), (2**70, str(2**70))]
)
def test_texts_of_numbers_are_those_of_java(value: Any, text: str) -> None:
    assert text_of(value) == text


def _registered(gauges: dict[str, Callable[[], Any]]) -> MetricRegistry:
    registry = MetricRegistry(ManualClock())
    for name, function in gauges.items():
        registry.root.gauge(name, function)
    return registry


def test_a_gauge_without_a_usable_value_is_left_out_and_the_others_are_not(caplog: pytest.LogCaptureFixture) -> None:
    registry = _registered({"a": lambda: None, "b": lambda: {"rate": 1}, "c": lambda: registry, "d": lambda: Decimal(2)})
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert registry.values() == {"d": 2.0}
    assert len(caplog.records) == 2
    assert "The gauge b cannot be read, so it is left out: TypeError: a builtins.dict is neither" in caplog.text


def test_all_values_can_be_sent_and_merged() -> None:
    registry = _registered({"g": lambda: np.float32(1)})
    registry.root.counter("n").inc(np.int64(2**62))  # type: ignore[arg-type]
    registry.root.counter("large").inc(2**80)
    registry.root.meter("m").mark_event(np.int32(60))  # type: ignore[arg-type]
    for value in (Decimal(1), 10**400):
        registry.root.distribution("d").update(value)  # type: ignore[arg-type]
    values = registry.values()
    assert b"numpy" not in pickle.dumps(values)
    merged = merge([values] * 4)
    assert merged["n"] == 2**64
    assert merged["large"] == 2**82
    assert merged["d"] == {"count": 8, "sum": math.inf, "min": 1.0, "max": math.inf}
    json.dumps(merged)


def test_a_name_that_cannot_be_sent_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="is not valid Unicode"):
        MetricRegistry(ManualClock()).root.add_group("topic", "half \ud800")

"""Records are cut loose from objects that user code may change later, and only then copied."""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import pytest

from flinkish.common.types import Row, RowKind
from flinkish.runtime.isolation import isolate


class Point(NamedTuple):
    x: int
    y: Any


@dataclass(frozen=True)
class Frozen:
    x: int


@dataclass
class Open:
    x: list[int]


class Colour(Enum):
    RED = 1


@pytest.mark.parametrize(
    "value",
    [1, "a", None, 2.5, True, b"x", (1, "a"), decimal.Decimal(3), datetime.date(2020, 1, 1), Point(1, 2), Frozen(1), Colour.RED],
    ids=repr,
)
def test_what_cannot_change_is_passed_as_it_is(value: Any) -> None:
    assert isolate(value) is value


@pytest.mark.parametrize(
    "value", [[1, [2]], {"a": [1]}, (1, [2]), Row(1, [2]), Row(a=1, b={"c": 1}), Point(1, [2]), Open([1])], ids=repr
)
def test_what_can_change_is_copied_whole(value: Any) -> None:
    copied = isolate(value)
    assert copied == value
    assert type(copied) is type(value)
    assert copied is not value


def test_a_copied_row_keeps_its_kind_and_names() -> None:
    row = Row(a=[1], b=2)
    row.set_row_kind(RowKind.DELETE)
    copied = isolate(row)
    row["a"].append(3)
    assert (copied["a"], copied.get_row_kind()) == ([1], RowKind.DELETE)

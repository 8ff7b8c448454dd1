"""Records are cut loose from objects that user code may change later, and only then copied."""

from __future__ import annotations

import datetime
import decimal
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

import pytest

from flinkish.common import Types
from flinkish.common.types import Row, RowKind
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.functions import MapFunction
from flinkish.runtime.isolation import isolate
from tests.kit.environments import env_of


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


class Reuses(MapFunction):
    """Returns one and the same row for each record, and reads what the ones it returned before have become."""

    def __init__(self) -> None:
        self.row = Row(number=0, parts=[0])

    def map(self, value: int) -> Row:
        self.row["number"] = value
        self.row["parts"][0] = value
        return self.row


class Spoils(MapFunction):
    """Changes the rows that it gets."""

    def map(self, value: Row) -> int:
        value["number"] = -1
        value["parts"].append(-1)
        return 0


ROW_TYPE = Types.ROW_NAMED(["number", "parts"], [Types.LONG(), Types.LIST(Types.LONG())])
PICKLED_PARTS = Types.ROW_NAMED(["number", "parts"], [Types.LONG(), Types.PICKLED_BYTE_ARRAY()])


@pytest.mark.parametrize("row_type", [ROW_TYPE, PICKLED_PARTS, None], ids=["typed", "partly typed", "not typed"])
@pytest.mark.parametrize("shared", [False, True], ids=["one reader", "two readers"])
@pytest.mark.parametrize("keyed", [False, True], ids=["sink", "keys"])
def test_records_stay_as_they_were_whatever_functions_do_to_the_objects(row_type: Any, shared: bool, keyed: bool) -> None:
    rows = env_of().from_collection([1, 2, 3], Types.LONG()).map(Reuses(), row_type)
    if shared:
        rows.map(Spoils(), Types.LONG()).sink_to(DiscardingSink())
    read = rows.key_by(lambda row: row.number % 2, Types.LONG()).filter(lambda row: True) if keyed else rows
    with read.execute_and_collect() as results:
        found = sorted(results, key=lambda row: row.number)
    assert found == [Row(number=number, parts=[number]) for number in (1, 2, 3)]

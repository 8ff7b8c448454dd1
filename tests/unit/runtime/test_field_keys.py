"""Key selectors that only read a field are recognized; all others are called."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest

from flinkish.common.typeinfo import Types
from flinkish.graph.field_keys import field_read

NAMES = ["shop", "count", "price", "as_dict", "_kind"]
ORDERS = Types.ROW_NAMED(NAMES, [Types.STRING(), Types.LONG(), Types.DOUBLE(), Types.STRING(), Types.STRING()])


def shop(row: Any) -> Any:
    """With a docstring, as a function with a name."""
    return row["shop"]


def rounded(row: Any, digits: int = 0) -> Any:
    return row.count


@pytest.mark.parametrize(
    ("select", "position"),
    [
        (lambda row: row.shop, 0),
        (lambda order: order.count, 1),
        (lambda row: row["count"], 1),
        (lambda row: row["as_dict"], 3),
        (shop, 0),
        (cloudpickle.loads(cloudpickle.dumps(lambda row: row.count)), 1),
    ],
)
def test_a_selector_that_only_reads_a_field_is_recognized(select: Callable[[Any], Any], position: int) -> None:
    assert field_read(select, ORDERS) == position


def test_a_field_is_recognized_before_there_is_any_row_with_its_name() -> None:
    unused = Types.ROW_NAMED(["only_named_in_this_test"], [Types.LONG()])
    assert field_read(lambda row: row.only_named_in_this_test, unused) == 0


@pytest.mark.parametrize(
    "select",
    [
        lambda row: row.price,  # NaN and 1.0 are keys in another form
        lambda row: row.as_dict,  # the method
        lambda row: row._kind,
        lambda row: row.other,
        lambda row: row["other"],
        lambda row: row[0],
        lambda row: row.count % 10,
        lambda row: row.shop.count,
        lambda row: (row.shop, row.count),
        lambda row: (yield row.shop),
        lambda *row: row.shop,
        lambda: 1,
        rounded,
        operator.attrgetter("shop"),
        ORDERS.__eq__,
    ],
)
def test_any_other_selector_is_called(select: Callable[[Any], Any]) -> None:
    assert field_read(select, ORDERS) is None


def test_a_local_variable_is_no_field() -> None:
    shop = "x"
    assert field_read(lambda row: shop, ORDERS) is None
    assert field_read(lambda row: row[shop], ORDERS) is None

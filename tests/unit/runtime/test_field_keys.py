"""Key selectors that only read a field are recognized; all others are called."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import cloudpickle
import pytest

from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.graph.field_keys import field_read, fields_of_key
from flinkish.udf.function_wrappers import key_selector
from flinkish.udf.functions import NullByteKeySelector

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


PAIR = Types.TUPLE([Types.STRING(), Types.DOUBLE()])


@pytest.mark.parametrize(
    ("items", "type_info", "position"),
    [
        (("count",), ORDERS, 1),
        (("_kind",), ORDERS, 4),
        (("price",), ORDERS, None),  # NaN and 1.0 are keys in another form
        (("other",), ORDERS, None),
        ((1,), ORDERS, None),
        (("shop", "count"), ORDERS, None),
        ((0,), PAIR, 0),
        ((1,), PAIR, None),
        ((2,), PAIR, None),
        ((-2,), PAIR, None),
        (("f0",), PAIR, None),
        ((0,), Types.LIST(Types.STRING()), None),
        ((0,), Types.STRING(), None),
    ],
)
def test_items_that_key_by_gets_of_a_field(items: tuple[Any, ...], type_info: TypeInformation, position: int | None) -> None:
    for select in (operator.itemgetter(*items), cloudpickle.loads(cloudpickle.dumps(operator.itemgetter(*items)))):
        assert field_read(select, type_info) == position


@pytest.mark.parametrize(
    ("items", "type_info", "positions"),
    [
        (("count",), ORDERS, (1,)),
        (("count", "shop"), ORDERS, (1, 0)),
        (("shop", "shop"), ORDERS, (0, 0)),
        (("shop", "price"), ORDERS, None),  # NaN and 1.0 are keys in another form
        (("shop", "other"), ORDERS, None),
        ((1, 0), Types.TUPLE([Types.BOOLEAN(), Types.INT()]), (1, 0)),
        ((0, 1), PAIR, None),
    ],
)
def test_several_fields_that_key_by_gets(
    items: tuple[Any, ...], type_info: TypeInformation, positions: tuple[int, ...] | None
) -> None:
    assert fields_of_key(operator.itemgetter(*items), type_info, None) == positions


def test_several_fields_are_a_key_of_their_own_types_only() -> None:
    select = operator.itemgetter("count", "shop")
    for key_type in (Types.TUPLE([Types.LONG(), Types.STRING()]), Types.PICKLED_BYTE_ARRAY()):
        assert fields_of_key(select, ORDERS, key_type) == (1, 0)
    for key_type in (Types.TUPLE([Types.INT(), Types.STRING()]), Types.ROW([Types.LONG(), Types.STRING()])):
        assert fields_of_key(select, ORDERS, key_type) is None


def test_the_key_of_all_records_reads_no_field() -> None:
    select = key_selector(NullByteKeySelector(), "key_by")
    for type_info in (ORDERS, Types.STRING()):
        assert fields_of_key(cloudpickle.loads(cloudpickle.dumps(select)), type_info, None) == ()
        assert field_read(select, type_info) is None


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

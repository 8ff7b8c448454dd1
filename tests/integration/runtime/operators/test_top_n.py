"""The first records of each key in the order of a field: which records enter and leave, also restored at another parallelism."""

from __future__ import annotations

import datetime
import itertools
import math
from decimal import Decimal
from typing import Any

import pytest

from flinkish.common import Row, RowKind, Types
from flinkish.common.errors import FlinkishError, TypeMismatchError
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream import DataStream, RuntimeExecutionMode, StreamExecutionEnvironment
from flinkish.testing import OneInputHarness

BID = Types.ROW_NAMED(["item", "price"], [Types.STRING(), Types.LONG()])


def harness(n: int, *, ascending: bool = False, record_type: TypeInformation = BID, **options: Any) -> OneInputHarness:
    def build(stream: DataStream) -> DataStream:
        return stream.key_by("item").top_n(n, "price", ascending=ascending)

    return OneInputHarness(build, record_type, **options)


def changes(found: OneInputHarness) -> list[tuple[str, Any]]:
    return [(str(row.get_row_kind()), row.price) for row in found.take_values()]


def test_a_record_among_the_first_displaces_the_last_of_them() -> None:
    with harness(2) as first:
        first.process_elements([Row(item="a", price=price) for price in (5, 7, 6, 6, 1, 9)], 10)
        found = first.take_output()
        assert {timestamp for _, timestamp in found} == {10}
        expected = [("+I", 5), ("+I", 7), ("-D", 5), ("+I", 6), ("-D", 6), ("+I", 9)]
        assert [(str(row.get_row_kind()), row.price) for row, _ in found] == expected
        snapshot = first.snapshot()
    with harness(2, snapshot=snapshot, parallelism=3) as second:
        second.process_elements([Row(item="a", price=8), Row(item="b", price=0), Row(item="a", price=8)])
        assert changes(second) == [("-D", 7), ("+I", 8), ("+I", 0)]


@pytest.mark.parametrize(
    ("price_type", "values"),
    [
        (Types.DOUBLE(), [None, -math.inf, -0.5, 0.0, math.inf, math.nan]),
        (Types.LONG(), [None, -(2**63), 0, 2**63 - 1]),
        (Types.STRING(), [None, "", "Z", "a", "\uffff", "🙂"]),
        (Types.BOOLEAN(), [None, False, True]),
        (Types.BIG_DEC(), [None, Decimal("-1.50"), Decimal("2.25")]),
        (Types.SQL_DATE(), [None, datetime.date.min, datetime.date.max]),
        (Types.SQL_TIMESTAMP(), [None, datetime.datetime(1969, 1, 1), datetime.datetime(2024, 1, 1, microsecond=1000)]),
    ],
)
def test_none_is_least_and_nan_is_greatest(price_type: TypeInformation, values: list[Any]) -> None:
    record_type = Types.ROW_NAMED(["item", "price"], [Types.STRING(), price_type])
    for ascending in (False, True):
        rising = values if not ascending else values[::-1]
        with harness(1, ascending=ascending, record_type=record_type) as found:
            found.process_elements([Row(item="a", price=value) for value in (*rising, *rising)])
            expected = [("+I", rising[0])]
            for before, after in itertools.pairwise(rising):
                expected += [("-D", before), ("+I", after)]
            assert list(map(repr, changes(found))) == list(map(repr, expected))


def test_among_equals_the_earlier_one_stays() -> None:
    record_type = Types.ROW_NAMED(["item", "price", "number"], [Types.STRING(), Types.DOUBLE(), Types.LONG()])
    with harness(2, record_type=record_type) as found:
        for number, price in enumerate((0.0, -0.0, 0.0, 1.0)):
            found.process_element(Row(item="a", price=price, number=number))
        kept = [(str(row.get_row_kind()), row.number) for row in found.take_values()]
        assert kept == [("+I", 0), ("+I", 1), ("-D", 1), ("+I", 3)]


def test_in_batch_mode_only_the_records_in_the_end_are_emitted() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    rows = env.from_collection([Row("a", 5), Row("b", 1), Row("a", 7), Row("a", 6)], BID)
    found = list(rows.key_by("item").top_n(2, "price").execute_and_collect())
    assert sorted(map(repr, found)) == [f"Row(item='{item}', price={price})" for item, price in (("a", 6), ("a", 7), ("b", 1))]
    assert [row.price for row in found if row.item == "a"] == [7, 6]


def test_a_record_of_another_kind_is_refused() -> None:
    row = Row(item="a", price=1)
    row.set_row_kind(RowKind.UPDATE_AFTER)
    with harness(2) as found, pytest.raises(TypeMismatchError, match=r"needs records of kind INSERT.*UPDATE_AFTER"):
        found.process_element(row)


def test_an_operator_on_columns_refuses_a_record_that_leaves() -> None:
    def build(stream: DataStream) -> DataStream:
        return stream.key_by("item").top_n(1, "price").select("price")

    with OneInputHarness(build, BID) as found, pytest.raises(TypeMismatchError, match="of kind INSERT; got"):
        found.process_elements([Row(item="a", price=1), Row(item="a", price=2)])


@pytest.mark.parametrize(
    ("record_type", "n", "field", "message"),
    [
        (BID, 0, "price", r"the n of top_n\(\) must be an int of at least 1"),
        (BID, True, "price", r"the n of top_n\(\)"),
        (BID, 1, "other", r"there is no field 'other'; the records have \['item', 'price'\]"),
        (BID, 1, 1, "there is no field 1"),
        (Types.ROW_NAMED(["item"], [Types.LIST(Types.INT())]), 1, "item", "have no order"),
        (Types.TUPLE([Types.STRING(), Types.LONG()]), 1, "f1", "needs records that are rows"),
    ],
)
def test_what_cannot_be_ordered_is_refused(record_type: TypeInformation, n: Any, field: Any, message: str) -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    keyed = env.from_collection([], record_type).key_by(lambda record: record[0])
    with pytest.raises(FlinkishError, match=message):
        keyed.top_n(n, field)

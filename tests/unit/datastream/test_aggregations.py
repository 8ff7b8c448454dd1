"""Rolling aggregations: which record comes out."""

from __future__ import annotations

from collections import namedtuple
from functools import reduce
from typing import Any

import pytest

from flinkish.common import Row, Types
from flinkish.common.errors import InvalidProgramError, TypeMismatchError
from flinkish.udf.rolling import AggregatingReduceFunction, Aggregation, aggregating_function

_RECORDS = [(1, 5, "first"), (2, 3, "second"), (3, 9, "third"), (4, 3, "fourth"), (5, 9, "fifth")]
_EXPECTED = {
    Aggregation.SUM: (1, 29, "first"),
    Aggregation.MIN: (1, 3, "first"),
    Aggregation.MAX: (1, 9, "first"),
    Aggregation.MIN_BY: (2, 3, "second"),
    Aggregation.MAX_BY: (3, 9, "third"),
}
Named = namedtuple("Named", ["number", "amount", "text"])


def _aggregate(aggregation: Aggregation, position: int | str, records: list[Any]) -> Any:
    return reduce(AggregatingReduceFunction(aggregation, position).reduce, records)


@pytest.mark.parametrize("aggregation", Aggregation)
@pytest.mark.parametrize(
    "make", [tuple, list, lambda values: Row(*values), Named._make], ids=["tuple", "list", "row", "named tuple"]
)
def test_aggregations_change_only_the_field_or_keep_the_first_record_that_has_it(aggregation: Aggregation, make: Any) -> None:
    result = _aggregate(aggregation, 1, [make(record) for record in _RECORDS])

    assert result == make(_EXPECTED[aggregation])
    assert type(result) is type(make(_RECORDS[0]))


@pytest.mark.parametrize("position", [-2, 1], ids=str)
def test_positions_may_count_from_the_end(position: int) -> None:
    assert _aggregate(Aggregation.SUM, position, _RECORDS) == _EXPECTED[Aggregation.SUM]


def test_a_name_stands_for_a_field_of_rows() -> None:
    rows = [Row(number=number, amount=amount, text=text) for number, amount, text in _RECORDS]

    assert _aggregate(Aggregation.MAX, "amount", rows) == Row(number=1, amount=9, text="first")


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [(Aggregation.SUM, 9), (Aggregation.MIN, 1), (Aggregation.MAX, 5), (Aggregation.MIN_BY, 1), (Aggregation.MAX_BY, 5)],
)
def test_scalars_are_aggregated_as_a_whole(aggregation: Aggregation, expected: int) -> None:
    assert _aggregate(aggregation, 0, [3, 1, 5]) == expected


@pytest.mark.parametrize("make", [list, lambda values: Row(*values)], ids=["list", "row"])
def test_records_that_were_emitted_before_do_not_change(make: Any) -> None:
    first, second = make([1, 2]), make([1, 3])

    _aggregate(Aggregation.SUM, 1, [first, second])

    assert (first, second) == (make([1, 2]), make([1, 3]))


def test_records_without_type_are_checked_when_the_second_one_comes() -> None:
    function = aggregating_function(Aggregation.SUM, 1, Types.PICKLED_BYTE_ARRAY())

    with pytest.raises(TypeMismatchError, match=r"sum\(1\) was called on records without fields, such as 4"):
        function.reduce(3, 4)


@pytest.mark.parametrize(
    ("position", "record_type", "message"),
    [
        (2, Types.TUPLE([Types.INT(), Types.INT()]), "the records have 2 fields, 0 to 1"),
        (-3, Types.ROW([Types.INT(), Types.INT()]), "the records have 2 fields, 0 to 1"),
        ("a", Types.TUPLE([Types.INT(), Types.INT()]), "whose fields have no names"),
        ("c", Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()]), "no such field; the records have .'a', 'b'."),
        (1, Types.LONG(), "without fields"),
    ],
)
def test_a_field_that_is_not_there_is_refused(position: Any, record_type: Any, message: str) -> None:
    with pytest.raises(InvalidProgramError, match=message):
        aggregating_function(Aggregation.MAX, position, record_type)


def test_fields_that_are_there_are_accepted() -> None:
    named = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.INT()])
    for position in ("a", "b", 0, 1, -1):
        aggregating_function(Aggregation.SUM, position, named)
    aggregating_function(Aggregation.SUM, 5, Types.PICKLED_BYTE_ARRAY())
    aggregating_function(Aggregation.SUM, 0, Types.STRING())


def test_a_name_for_records_without_a_declared_type_that_are_tuples_is_refused_with_the_position() -> None:
    with pytest.raises(TypeMismatchError, match=r"sum\('amount'\): there is no such field in \(2, 3.*\nHint: give the position"):
        _aggregate(Aggregation.SUM, "amount", _RECORDS)


def test_a_function_in_the_place_of_a_field_is_refused_with_reduce() -> None:
    with pytest.raises(InvalidProgramError, match=r"sum\(\) needs the position.*\nHint: use reduce\(\)"):
        aggregating_function(Aggregation.SUM, lambda record: record.amount, Types.PICKLED_BYTE_ARRAY())

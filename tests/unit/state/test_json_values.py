"""Values of state from JSON."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from flinkish.common import Row, Types
from flinkish.common.errors import TypeMismatchError
from flinkish.common.time import Instant
from flinkish.common.typeinfo import TypeInformation
from flinkish.state.json_values import value_of_json
from flinkish.state.table import text_of

LONG, TEXT = Types.LONG(), Types.STRING()
VALUES: list[tuple[TypeInformation, Any]] = [
    (LONG, 2**63 - 1),
    (Types.DOUBLE(), 0.5),
    (Types.BOOLEAN(), True),
    (TEXT, "a"),
    (Types.BIG_DEC(), Decimal("1.10")),
    (Types.SQL_DATE(), datetime.date(2026, 1, 2)),
    (Types.SQL_TIME(), datetime.time(3, 4, 5)),
    (Types.SQL_TIMESTAMP(), datetime.datetime(2026, 1, 2, 3, 4, 5)),
    (Types.INSTANT(), Instant.of_epoch_milli(1_500)),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"\x00\x01"),
    (Types.LIST(TEXT), ["a", "b"]),
    (Types.MAP(LONG, TEXT), {1: "a"}),
    (Types.MAP(TEXT, LONG), {"a": 1}),
    (Types.TUPLE([LONG, TEXT]), (1, "a")),
    (Types.ROW_NAMED(["a", "b"], [LONG, Types.LIST(LONG)]), Row(a=None, b=[1])),
    (Types.PICKLED_BYTE_ARRAY(), {"a": [1, None]}),
]


@pytest.mark.parametrize(("type_info", "value"), VALUES, ids=lambda each: repr(each))
def test_a_value_comes_back_from_the_text_that_shows_it(type_info: TypeInformation, value: Any) -> None:
    assert value_of_json(text_of(value), type_info) == value


@pytest.mark.parametrize("text", ["customer 7", '"customer 7"'])
def test_quotes_may_be_left_out_around_a_text(text: str) -> None:
    assert value_of_json(text, TEXT) == "customer 7"


def test_digits_are_a_text_for_a_text() -> None:
    assert value_of_json("007", TEXT) == "007"


@pytest.mark.parametrize(
    ("type_info", "text"),
    [
        (LONG, "many"),
        (LONG, "1.5"),
        (LONG, str(2**63)),
        (Types.SQL_DATE(), "tomorrow"),
        (Types.LIST(LONG), "7"),
        (Types.LIST(LONG), '["a"]'),
        (Types.TUPLE([LONG, TEXT]), "[1]"),
        (Types.ROW_NAMED(["a"], [LONG]), '{"b": 1}'),
    ],
    ids=repr,
)
def test_a_value_of_another_type_is_refused(type_info: TypeInformation, text: str) -> None:
    with pytest.raises(TypeMismatchError):
        value_of_json(text, type_info)

"""Strict conversion of what operators return, lenient conversion of what programs hand in."""

from __future__ import annotations

import array
import datetime
import math
import struct
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.common import Row, RowKind, Types
from flinkish.common.conversion import converter, lenient_converter, shortest_floats, state_converter
from flinkish.common.errors import InvalidArgumentError, TypeMismatchError
from flinkish.common.time import Instant
from flinkish.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo, TypeInformation
from tests.unit.common.test_typeinfo import PLAIN

INT_STRING = [Types.INT(), Types.STRING()]
LOCAL = LocalTimeTypeInfo.TimeType
UTC_PLUS_2 = datetime.timezone(datetime.timedelta(hours=2))


def strict(type_info: TypeInformation, value: Any) -> Any:
    convert = converter(type_info)
    assert convert is not None
    return convert(value)


def lenient(type_info: TypeInformation, value: Any) -> Any:
    convert = lenient_converter(type_info)
    assert convert is not None
    return convert(value)


def test_pickled_values_need_no_conversion() -> None:
    assert converter(Types.PICKLED_BYTE_ARRAY()) is None
    assert lenient_converter(ExternalTypeInfo(Types.PICKLED_BYTE_ARRAY())) is None


@pytest.mark.parametrize(
    ("type_info", "value", "expected"),
    [
        (Types.INT(), 1.7, 1),
        (Types.INT(), True, 1),
        (Types.INT(), Decimal("1.9"), 1),
        (Types.BYTE(), -128, -128),
        (Types.LONG(), 2**63 - 1, 2**63 - 1),
        (Types.BIG_INT(), 10**30, 10**30),
        (Types.DOUBLE(), 1, 1.0),
        (Types.FLOAT(), 1.1, struct.unpack("<f", struct.pack("<f", 1.1))[0]),
        (Types.FLOAT(), -math.inf, -math.inf),
        (Types.FLOAT(), 3, 3.0),
        (Types.BOOLEAN(), 5, True),
        (Types.BOOLEAN(), 0, False),
        (Types.BOOLEAN(), 255.9, True),
        (Types.SQL_TIME(), datetime.datetime(2021, 1, 9, 5, 6, 7, 8_999), datetime.time(5, 6, 7, 8_000)),
        (Types.BIG_DEC(), "1.50", Decimal("1.50")),
        (Types.BIG_DEC(), 1.1, Decimal("1.1")),
        (Types.BIG_DEC(), 5, Decimal(5)),
        (Types.CHAR(), "x", "x"),
        (Types.STRING(), "x", "x"),
        (Types.INSTANT(), Instant.of_epoch_milli(1), Instant.of_epoch_milli(1)),
        (Types.SQL_DATE(), datetime.datetime(2021, 1, 9, 5), datetime.date(2021, 1, 9)),
        (Types.SQL_TIME(), datetime.time(12, 0, 1, 500_999), datetime.time(12, 0, 1, 500_000)),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 9, 12, 0, 0, 11_999), datetime.datetime(2021, 1, 9, 12, 0, 0, 11_000)),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 9, 12, tzinfo=UTC_PLUS_2), datetime.datetime(2021, 1, 9, 10)),
        (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME), datetime.time(1, 2, 3, 4), datetime.time(1, 2, 3, 4)),
        (Types.TUPLE(INT_STRING), (True, "a"), (1, "a")),
        (Types.TUPLE([Types.INT()]), (1,), (1,)),
        (Types.TUPLE([]), (), ()),
        (Types.TUPLE([Types.INT(), Types.PICKLED_BYTE_ARRAY()]), (1, None), (1, None)),
        (Types.LIST(Types.INT()), [1, None, 2.5], [1, None, 2]),
        (Types.LIST(Types.PICKLED_BYTE_ARRAY()), [1, "x"], [1, "x"]),
        (Types.BASIC_ARRAY(Types.STRING()), ["a", None], ["a", None]),
        (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), [1.5, 2], [1.5, 2.0]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), bytearray(b"ab"), b"ab"),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": True, "b": None}, {"a": 1, "b": None}),
        (Types.MAP(Types.PICKLED_BYTE_ARRAY(), Types.INT()), {None: 1}, {None: 1}),
        (ExternalTypeInfo(Types.ROW([Types.INT()])), Row(1), Row(f0=1)),
    ],
)
def test_values_are_brought_to_their_type(type_info: TypeInformation, value: Any, expected: Any) -> None:
    converted = strict(type_info, value)
    assert converted == expected
    assert type(converted) is type(expected)


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (Types.INT(), 2**31),
        (Types.INT(), "1"),
        (Types.INT(), math.nan),
        (Types.INT(), math.inf),
        (Types.SHORT(), -(2**15) - 1),
        (Types.LONG(), 2**63),
        (Types.BIG_INT(), "1"),
        (Types.DOUBLE(), "1"),
        (Types.FLOAT(), "1"),
        (Types.FLOAT(), -1e39),
        (Types.FLOAT(), 10**40),
        (Types.FLOAT(), Decimal("-1E+400")),
        (Types.DOUBLE(), Decimal("1E+400")),
        (Types.BOOLEAN(), "x"),
        (Types.BOOLEAN(), 256),
        (Types.BOOLEAN(), -1.7),
        (Types.LIST(Types.INT()), (1, 2)),
        (Types.BASIC_ARRAY(Types.INT()), (1, 2)),
        (Types.OBJECT_ARRAY(Types.INT()), array.array("i", [1, 2])),
        (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), array.array("d", [1.5, 2.0])),
        (Types.STRING(), b"ab"),
        (Types.STRING(), 5),
        (Types.CHAR(), "xy"),
        (Types.BIG_DEC(), "x"),
        (Types.BIG_DEC(), Decimal("NaN")),
        (Types.BIG_DEC(), Decimal("Infinity")),
        (Types.BIG_DEC(), math.nan),
        (Types.BIG_DEC(), True),
        (Types.INSTANT(), 5),
        (Types.SQL_DATE(), "2021-01-09"),
        (Types.SQL_TIME(), 5),
        (Types.SQL_TIMESTAMP(), datetime.date(2021, 1, 9)),
        (Types.TUPLE(INT_STRING), [1, "a"]),
        (Types.TUPLE(INT_STRING), Row(1, "a")),
        (Types.TUPLE(INT_STRING), (1,)),
        (Types.TUPLE(INT_STRING), (1, "a", 2)),
        (Types.TUPLE(INT_STRING), (1, None)),
        (Types.ROW(INT_STRING), (1, "a")),
        (Types.ROW(INT_STRING), {"f0": 1, "f1": "a"}),
        (Types.ROW(INT_STRING), Row(1)),
        (Types.ROW(INT_STRING), Row(1, "a", 2)),
        (Types.ROW_NAMED(["a", "b"], INT_STRING), Row(b="x", c=1)),
        (Types.LIST(Types.STRING()), "ab"),
        (Types.LIST(Types.INT()), {1}),
        (Types.PRIMITIVE_ARRAY(Types.INT()), [1, None]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [97]),
        (Types.MAP(Types.STRING(), Types.INT()), [("a", 1)]),
        (Types.MAP(Types.STRING(), Types.INT()), {None: 1}),
    ],
)
def test_values_of_another_type_are_refused(type_info: TypeInformation, value: Any) -> None:
    with pytest.raises(TypeMismatchError, match="does not have its declared type"):
        strict(type_info, value)


EVERY_TYPE: list[TypeInformation] = [
    *PLAIN,
    *map(LocalTimeTypeInfo, LocalTimeTypeInfo.TimeType),
    Types.PICKLED_BYTE_ARRAY(),
    Types.ROW(INT_STRING),
    Types.ROW_NAMED(["a", "b"], INT_STRING),
    Types.TUPLE(INT_STRING),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
    Types.PRIMITIVE_ARRAY(Types.DOUBLE()),
    Types.BASIC_ARRAY(Types.STRING()),
    Types.OBJECT_ARRAY(Types.ROW(INT_STRING)),
    Types.LIST(Types.INT()),
    Types.MAP(Types.STRING(), Types.INT()),
    ExternalTypeInfo(Types.INT()),
]
PICKLED = Types.PICKLED_BYTE_ARRAY()


@pytest.mark.parametrize("type_info", EVERY_TYPE, ids=repr)
@pytest.mark.parametrize("build", [converter, lenient_converter, state_converter])
def test_none_is_a_record_of_every_type_and_a_part_of_what_can_have_none(build: Any, type_info: TypeInformation) -> None:
    taken = [
        (type_info, None),
        (Types.ROW([type_info]), Row(f0=None)),
        (Types.LIST(type_info), [None]),
        (Types.OBJECT_ARRAY(type_info), [None]),
        (Types.MAP(Types.STRING(), type_info), {"k": None}),
    ]
    for whole, value in taken:
        convert = build(whole)
        assert (value if convert is None else convert(value)) == value

    refused: list[tuple[TypeInformation, Any]] = [(Types.TUPLE([type_info]), (None,))]
    with suppress(InvalidArgumentError):  # keys can neither be lists nor dicts
        refused.append((Types.MAP(type_info, Types.INT()), {None: 1}))
    for whole, value in refused:
        convert = build(whole)
        if type_info == PICKLED:
            assert convert(value) == value
        else:
            with pytest.raises(TypeMismatchError):
                convert(value)


@pytest.mark.parametrize("element", [Types.BOOLEAN(), Types.SHORT(), Types.INT(), Types.LONG(), Types.FLOAT(), Types.DOUBLE()])
def test_a_primitive_array_has_no_none(element: TypeInformation) -> None:
    with pytest.raises(TypeMismatchError, match="without None"):
        strict(Types.PRIMITIVE_ARRAY(element), [None])


class Color(str, Enum):  # noqa: UP042 - the str() of a StrEnum is its value
    RED = "red"


class Text(str):
    __slots__ = ("note",)


class Day(datetime.date):
    pass


class Clock(datetime.time):
    pass


class Moment(Instant):
    pass


@pytest.mark.parametrize("build", [converter, lenient_converter, state_converter])
@pytest.mark.parametrize(
    ("type_info", "value", "expected"),
    [
        (Types.STRING(), Color.RED, "red"),
        (Types.STRING(), Text("x"), "x"),
        (Types.STRING(), np.str_("x"), "x"),
        (Types.CHAR(), Text("x"), "x"),
        (Types.INT(), np.int64(5), 5),
        (Types.INT(), IntEnum("Level", {"HIGH": 3})(3), 3),
        (Types.DOUBLE(), np.float64(1.5), 1.5),
        (Types.BOOLEAN(), np.bool_(True), True),
        (Types.BIG_INT(), np.int64(5), 5),
        (Types.BIG_DEC(), np.int64(5), Decimal(5)),
        (Types.BIG_DEC(), np.float32(1.1), Decimal("1.1")),
        (Types.INSTANT(), Moment(1, 2), Instant(1, 2)),
        (Types.SQL_DATE(), Day(2021, 1, 9), datetime.date(2021, 1, 9)),
        (Types.SQL_DATE(), pd.Timestamp("2021-01-09"), datetime.date(2021, 1, 9)),
        (Types.SQL_TIME(), Clock(5, 6, 7, 8_000), datetime.time(5, 6, 7, 8_000)),
        (Types.SQL_TIMESTAMP(), pd.Timestamp("2021-01-09 12:00"), datetime.datetime(2021, 1, 9, 12)),
        (LocalTimeTypeInfo(LOCAL.LOCAL_DATE), Day(2021, 1, 9), datetime.date(2021, 1, 9)),
        (LocalTimeTypeInfo(LOCAL.LOCAL_TIME), Clock(5, 6, 7, 8), datetime.time(5, 6, 7, 8)),
        (LocalTimeTypeInfo(LOCAL.LOCAL_DATE_TIME), pd.Timestamp("2021-01-09 12:00"), datetime.datetime(2021, 1, 9, 12)),
    ],
)
def test_a_subclass_becomes_what_is_decoded_again(build: Any, type_info: TypeInformation, value: Any, expected: Any) -> None:
    converted = build(type_info)(value)
    assert converted == expected
    assert converted.__class__ is expected.__class__
    assert build(Types.ROW([type_info]))(Row(value))[0].__class__ is expected.__class__


@pytest.mark.parametrize(
    ("type_info", "expected"),
    [
        (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 8, 23, 30)),
        (LocalTimeTypeInfo(LOCAL.LOCAL_DATE_TIME), datetime.datetime(2021, 1, 8, 23, 30)),
        (Types.SQL_DATE(), datetime.date(2021, 1, 8)),
        (LocalTimeTypeInfo(LOCAL.LOCAL_DATE), datetime.date(2021, 1, 8)),
        (Types.SQL_TIME(), datetime.time(23, 30)),
    ],
)
def test_a_datetime_with_a_time_zone_is_brought_to_utc_by_every_type(type_info: TypeInformation, expected: Any) -> None:
    assert strict(type_info, datetime.datetime(2021, 1, 9, 1, 30, tzinfo=UTC_PLUS_2)) == expected
    assert strict(type_info, pd.Timestamp(2021, 1, 9, 1, 30, tzinfo=UTC_PLUS_2)) == expected


@pytest.mark.parametrize("type_info", [Types.SQL_TIME(), LocalTimeTypeInfo(LOCAL.LOCAL_TIME)])
def test_a_time_with_another_time_zone_than_utc_is_refused(type_info: TypeInformation) -> None:
    assert strict(type_info, datetime.time(5, tzinfo=datetime.UTC)) == datetime.time(5)
    with pytest.raises(TypeMismatchError, match=r"tzinfo=None"):
        strict(type_info, datetime.time(5, tzinfo=UTC_PLUS_2))


@pytest.mark.parametrize("type_info", [Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP()])
def test_a_time_that_is_missing_in_pandas_is_refused_by_name(type_info: TypeInformation) -> None:
    with pytest.raises(TypeMismatchError, match="NaT"):
        strict(type_info, pd.NaT)


def test_a_row_gets_the_declared_names_and_keeps_its_kind() -> None:
    type_info = Types.ROW_NAMED(["a", "b"], INT_STRING)
    assert strict(type_info, Row(1, "x")) == Row(a=1, b="x")
    assert strict(type_info, Row(b="x", a=1)).get_field_names() == ["a", "b"]
    assert strict(type_info, Row.of_kind(RowKind.DELETE, 1, "x")).get_row_kind() is RowKind.DELETE


def test_a_converted_row_shares_nothing_with_the_one_it_came_from() -> None:
    row = Row(1, [1])
    converted = strict(Types.ROW([Types.INT(), Types.LIST(Types.INT())]), row)
    row[0] = 2
    row[1].append(2)
    assert converted == Row(f0=1, f1=[1])


def test_the_message_names_the_way_to_the_wrong_part_what_it_must_be_and_what_it_is() -> None:
    inner = Types.ROW_NAMED(["zip"], [Types.INT()])
    type_info = Types.ROW_NAMED(["name", "homes"], [Types.STRING(), Types.LIST(inner)])
    with pytest.raises(TypeMismatchError) as error:
        strict(type_info, Row("Bob", [Row(1), Row("x")]))
    text = str(error.value)
    assert "field 0 ('zip') of an element of field 1 ('homes') must be a whole number from -2147483648 to 2147483647" in text
    assert "got 'x' of type str" in text
    assert "RowTypeInfo(name: String" in text


def test_a_datetime_in_the_place_of_an_instant_is_told_how_to_become_one() -> None:
    with pytest.raises(TypeMismatchError, match="to_epoch_milli"):
        strict(Types.INSTANT(), datetime.datetime(2021, 1, 9))


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(TypeMismatchError) as error:
        strict(Types.INT(), "x" * 10_000)
    assert len(str(error.value)) < 500


def test_a_collection_may_hold_rows_in_five_forms() -> None:
    @dataclass
    class Person:
        a: int
        b: str

    type_info = Types.ROW_NAMED(["a", "b"], INT_STRING)
    for value in (Row(1, "x"), Row(b="x", a=1), (1, "x"), [1, "x"], {"b": "x", "a": 1, "other": 5}, Person(1, "x")):
        assert lenient(type_info, value) == Row(a=1, b="x")
    assert lenient(type_info, {"a": 1}) == Row(a=1, b=None)


@pytest.mark.parametrize(
    ("type_info", "value", "expected"),
    [
        (Types.DOUBLE(), 1, 1.0),
        (Types.STRING(), 5, "5"),
        (Types.STRING(), True, "true"),
        (Types.STRING(), 1.5, "1.5"),
        (Types.INT(), 2.0, 2),
        (Types.TUPLE(INT_STRING), [1, "a"], (1, "a")),
        (Types.TUPLE(INT_STRING), Row(1, "a"), (1, "a")),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [97, 255, -1, -128], b"a\xff\xff\x80"),
        (Types.DOUBLE(), 2**53, float(2**53)),
        (Types.FLOAT(), 2**24, float(2**24)),
        (Types.FLOAT(), 1.1, struct.unpack("<f", struct.pack("<f", 1.1))[0]),
        (Types.FLOAT(), math.inf, math.inf),
        (Types.LIST(Types.TUPLE([Types.INT()])), [[1]], [(1,)]),
        (Types.LIST(Types.INT()), (1, 2), [1, 2]),
        (Types.PRIMITIVE_ARRAY(Types.DOUBLE()), array.array("d", [1.5, 2.0]), [1.5, 2.0]),
        (Types.BOOLEAN(), 1, True),
        (Types.BIG_INT(), 2.0, 2),
        (Types.CHAR(), "x", "x"),
    ],
)
def test_a_collection_may_hold_other_forms_too(type_info: TypeInformation, value: Any, expected: Any) -> None:
    assert lenient(type_info, value) == expected


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (Types.INT(), "5"),
        (Types.INT(), 1.7),
        (Types.LONG(), 2**63),
        (Types.STRING(), b"x"),
        (Types.ROW(INT_STRING), (1,)),
        (Types.ROW(INT_STRING), (1, "a", 3)),
        (Types.ROW(INT_STRING), 5),
        (Types.TUPLE(INT_STRING), (None, "a")),
        (Types.BOOLEAN(), "true"),
        (Types.BOOLEAN(), 5),
        (Types.BOOLEAN(), 0.5),
        (Types.BIG_INT(), 1.7),
        (Types.BYTE(), 300),
        (Types.BYTE(), -129),
        (Types.SHORT(), 43878),
        (Types.INT(), 2**31),
        (Types.ROW([Types.LIST(Types.INT())]), Row([3_000_000_000])),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [256]),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), [-129]),
        (Types.DOUBLE(), 2**53 + 1),
        (Types.FLOAT(), 2**24 + 1),
        (Types.FLOAT(), 1e300),
        (Types.FLOAT(), Decimal("1E+400")),
        (Types.DOUBLE(), Decimal("-1E+400")),
    ],
)
def test_a_collection_never_loses_a_value_silently(type_info: TypeInformation, value: Any) -> None:
    with pytest.raises(TypeMismatchError):
        lenient(type_info, value)


def test_field_names_with_quotes_or_code_do_no_harm() -> None:
    names = ["a'b", 'x"; raise SystemExit #', "class"]
    assert strict(Types.ROW_NAMED(names, [Types.INT()] * 3), Row(1, 2, 3)).get_field_names() == names


@given(st.integers(min_value=-(2**64), max_value=2**64), st.sampled_from([8, 16, 32, 64]))
def test_a_whole_number_comes_out_of_a_collection_as_it_is_or_is_refused(number: int, bits: int) -> None:
    type_info = {8: Types.BYTE(), 16: Types.SHORT(), 32: Types.INT(), 64: Types.LONG()}[bits]
    if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        assert lenient(type_info, number) == number
    else:
        with pytest.raises(TypeMismatchError, match="a whole number from"):
            lenient(type_info, number)


def test_floats_in_state_are_checked_and_not_rounded() -> None:
    convert = state_converter(Types.TUPLE([Types.FLOAT(), Types.INT()]))
    assert convert is not None
    assert convert((163.29999923706055, 1.7)) == (163.29999923706055, 1)
    with pytest.raises(TypeMismatchError, match="field 0"):
        convert(("x", 1))


@pytest.mark.parametrize(
    ("type_info", "value", "shortest"),
    [
        (Types.FLOAT(), 1.1, 1.1),
        (Types.FLOAT(), None, None),
        (Types.FLOAT(), math.inf, math.inf),
        (Types.ROW([Types.FLOAT(), Types.DOUBLE()]), Row(1.1, 0.30000000000000004), Row(f0=1.1, f1=0.30000000000000004)),
        (Types.TUPLE([Types.STRING(), Types.LIST(Types.FLOAT())]), ("a", [1.1, None]), ("a", [1.1, None])),
        (Types.PRIMITIVE_ARRAY(Types.FLOAT()), [0.1, 1e-10], [0.1, 1e-10]),
        (Types.MAP(Types.STRING(), Types.FLOAT()), {"k": 1.1}, {"k": 1.1}),
    ],
)
def test_collected_floats_have_the_fewest_decimals(type_info: TypeInformation, value: Any, shortest: Any) -> None:
    convert = shortest_floats(type_info)
    assert convert is not None
    assert convert(strict(type_info, value)) == shortest


def test_types_without_floats_need_no_shortening() -> None:
    assert shortest_floats(Types.ROW([Types.DOUBLE(), Types.MAP(Types.STRING(), Types.INT())])) is None
    assert shortest_floats(Types.PICKLED_BYTE_ARRAY()) is None


def test_the_kind_of_a_row_survives_shortening() -> None:
    convert = shortest_floats(Types.ROW([Types.FLOAT()]))
    assert convert is not None
    assert convert(Row.of_kind(RowKind.DELETE, 1.5)).get_row_kind() is RowKind.DELETE

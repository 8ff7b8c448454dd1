"""The text of records."""

from __future__ import annotations

import datetime
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.common import Row, RowKind, Types
from flinkish.common.text import double_text, float_text, print_function, text_function, to_text
from flinkish.common.time import Instant
from flinkish.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo, TypeInformation

LOCAL = LocalTimeTypeInfo.TimeType


@pytest.mark.parametrize(
    ("type_info", "value", "text"),
    [
        (Types.PICKLED_BYTE_ARRAY(), ("a", 1.0), "('a', 1.0)"),
        (Types.PICKLED_BYTE_ARRAY(), None, "None"),
        (Types.STRING(), "a", "a"),
        (Types.STRING(), None, "null"),
        (Types.BOOLEAN(), True, "true"),
        (Types.LONG(), -5, "-5"),
        (Types.BIG_DEC(), Decimal("1E+3"), "1E+3"),
        (Types.BIG_DEC(), Decimal("1.50"), "1.50"),
        (Types.ROW([Types.STRING(), Types.INT()]), Row("a", 1), "+I[a, 1]"),
        (
            Types.ROW([Types.INT(), Types.ROW([Types.STRING(), Types.INT()])]),
            Row(1, Row("a", None)),
            "+I[1, +I[a, null]]",
        ),
        (Types.ROW([Types.INT()]), Row.of_kind(RowKind.UPDATE_BEFORE, 1), "-U[1]"),
        (Types.ROW([Types.INT()]), Row.of_kind(RowKind.DELETE, 1), "-D[1]"),
        (Types.TUPLE([Types.STRING(), Types.INT()]), ("a", 1), "(a,1)"),
        (Types.TUPLE([Types.STRING(), Types.ROW([Types.STRING(), Types.INT()])]), ("ab", Row("a", 1)), "(ab,+I[a, 1])"),
        (Types.ROW([Types.BASIC_ARRAY(Types.DOUBLE())]), Row([1.1, None]), "+I[[1.1, null]]"),
        (Types.MAP(Types.STRING(), Types.BOOLEAN()), {"k": False, "l": None}, "{k=false, l=null}"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), b"ab\xff", "[97, 98, -1]"),
        (Types.SQL_DATE(), datetime.date(2021, 1, 9), "2021-01-09"),
        (Types.SQL_DATE(), datetime.date(1, 1, 9), "0001-01-09"),
        (Types.SQL_TIME(), datetime.time(12, 0, 1, 500_000), "12:00:01"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 9, 12), "2021-01-09 12:00:00.0"),
        (Types.SQL_TIMESTAMP(), datetime.datetime(2021, 1, 9, 12, 0, 0, 11_000), "2021-01-09 12:00:00.011"),
        (Types.INSTANT(), Instant.of_epoch_milli(1500), "1970-01-01T00:00:01.500Z"),
        (Types.INSTANT(), Instant.of_epoch_milli(-1000), "1969-12-31T23:59:59Z"),
        (Types.INSTANT(), Instant(0, 1000), "1970-01-01T00:00:00.000001Z"),
        (LocalTimeTypeInfo(LOCAL.LOCAL_TIME), datetime.time(1, 2), "01:02"),
        (LocalTimeTypeInfo(LOCAL.LOCAL_DATE_TIME), datetime.datetime(2021, 1, 9, 1, 2, 3, 4), "2021-01-09T01:02:03.000004"),
        (LocalTimeTypeInfo(LOCAL.LOCAL_DATE), datetime.date(2021, 1, 9), "2021-01-09"),
        (ExternalTypeInfo(Types.BOOLEAN()), False, "false"),
    ],
)
def test_values_look_as_flinks_java_objects(type_info: TypeInformation, value: Any, text: str) -> None:
    assert text_function(type_info)(value) == text


def test_print_shows_rows_with_pythons_fields_and_no_space() -> None:
    type_info = Types.ROW([Types.STRING(), Types.BOOLEAN(), Types.INT()])
    assert to_text(Row("a", True, None), type_info) == "+I[a,True,None]"
    assert to_text(None, ExternalTypeInfo(type_info)) == "null"


def test_print_shows_all_else_as_text_files_do() -> None:
    type_info = Types.TUPLE([Types.ROW([Types.INT(), Types.INT()]), Types.BOOLEAN()])
    assert print_function(type_info)((Row(1, 2), True)) == "(+I[1, 2],true)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1.0"),
        (1e10, "1.0E10"),
        (1e-5, "1.0E-5"),
        (1e7, "1.0E7"),
        (9999999.5, "9999999.5"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (-1.25e-7, "-1.25E-7"),
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (123456789012.5, "1.234567890125E11"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (5e-324, "4.9E-324"),
        (-1e-323, "-9.9E-324"),
        (2e-323, "2.0E-323"),
        (2e23, "2.0E23"),
        (1e23, "1.0E23"),
        (9007199254740993.0, "9.007199254740992E15"),
    ],
)
def test_doubles_look_as_in_java_19_and_later(value: float, text: str) -> None:
    assert double_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.23, "1.23"),
        (100.0, "100.0"),
        (1e10, "1.0E10"),
        (16777216.0, "1.6777216E7"),
        (0.1, "0.1"),
        (0.0, "0.0"),
        (2.0**-149, "1.4E-45"),
        (-(2.0**-148), "-2.8E-45"),
        (2.0**-146, "1.1E-44"),
        (2.0**66, "7.378698E19"),
        (2.0**-96, "1.2621775E-29"),
    ],
)
def test_floats_show_the_fewest_digits_of_their_32_bits(value: float, text: str) -> None:
    assert float_text(struct.unpack("<f", struct.pack("<f", value))[0]) == text


def test_a_float_that_was_never_rounded_shows_its_32_bits_or_if_it_is_too_large_itself() -> None:
    assert [float_text(value) for value in (-70.00335336517912, 1e300)] == ["-70.00336", "1.0E300"]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_any_double_reads_back(value: float) -> None:
    assert float(double_text(value)) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_text_of_any_float_reads_back_to_the_same_32_bits(value: float) -> None:
    assert struct.pack("<f", float(float_text(value))) == struct.pack("<f", value)

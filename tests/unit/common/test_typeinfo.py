"""The types, their names, equality and checks."""

from __future__ import annotations

import datetime
import pickle
from decimal import Decimal
from typing import Any

import pytest

from flinkish.common import Row, RowKind, Types
from flinkish.common.errors import InvalidArgumentError, UnsupportedError
from flinkish.common.time import Instant
from flinkish.common.typeinfo import (
    DecimalTypeInfo,
    ExternalTypeInfo,
    LocalTimeTypeInfo,
    RowTypeInfo,
    SqlTimeTypeInfo,
    TypeInformation,
)
from flinkish.table import DataTypes

#: Types without parts.
PLAIN = [
    Types.STRING(), Types.BYTE(), Types.BOOLEAN(), Types.SHORT(), Types.INT(), Types.LONG(), Types.FLOAT(), Types.DOUBLE(),
    Types.CHAR(), Types.BIG_INT(), Types.BIG_DEC(), Types.INSTANT(), Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(),
]  # fmt: skip
ALL = [
    *PLAIN,
    Types.PICKLED_BYTE_ARRAY(),
    Types.ROW([Types.INT(), Types.STRING()]),
    Types.TUPLE([Types.INT(), Types.STRING()]),
    Types.PRIMITIVE_ARRAY(Types.BYTE()),
    Types.BASIC_ARRAY(Types.STRING()),
    Types.OBJECT_ARRAY(Types.ROW([Types.INT()])),
    Types.LIST(Types.INT()),
    Types.MAP(Types.STRING(), Types.LONG()),
    LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE),
    ExternalTypeInfo(Types.INT()),
]


@pytest.mark.parametrize(
    ("type_info", "text"),
    [
        (Types.STRING(), "String"),
        (Types.INT(), "Integer"),
        (Types.BIG_DEC(), "BigDecimal"),
        (Types.SQL_DATE(), "DateTypeInfo"),
        (SqlTimeTypeInfo.TIMESTAMP(), "TimestampTypeInfo"),
        (Types.PICKLED_BYTE_ARRAY(), "PickledByteArrayTypeInfo"),
        (Types.ROW([Types.INT()]), "RowTypeInfo(Integer)"),
        (Types.ROW_NAMED(["a"], [Types.INT()]), "RowTypeInfo(a: Integer)"),
        (Types.TUPLE([Types.INT(), Types.STRING()]), "TupleTypeInfo(Integer, String)"),
        (Types.LIST(Types.INT()), "ListTypeInfo<Integer>"),
        (Types.MAP(Types.INT(), Types.STRING()), "MapTypeInfo<Integer, String>"),
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "PrimitiveArrayTypeInfo<Byte>"),
        (Types.BASIC_ARRAY(Types.STRING()), "BasicArrayTypeInfo<String>"),
        (Types.OBJECT_ARRAY(Types.INSTANT()), "ObjectArrayTypeInfo<Instant>"),
    ],
)
def test_types_print_as_in_pyflink(type_info: TypeInformation, text: str) -> None:
    assert repr(type_info) == text


def test_each_type_equals_only_itself_and_survives_pickling() -> None:
    assert len(set(ALL)) == len(ALL)
    for type_info in ALL:
        assert pickle.loads(pickle.dumps(type_info)) == type_info


def test_names_of_fields_do_not_count_in_comparisons() -> None:
    named, unnamed = Types.ROW_NAMED(["a"], [Types.INT()]), Types.ROW([Types.INT()])
    assert named == unnamed
    assert hash(named) == hash(unnamed)


def test_fields_without_names_are_called_f0_and_on() -> None:
    type_info = Types.ROW([Types.INT(), Types.STRING()])
    assert isinstance(type_info, RowTypeInfo)
    assert type_info.get_field_names() == ["f0", "f1"]
    assert (type_info.get_field_index("f1"), type_info.get_field_index("x")) == (1, -1)
    assert type_info.get_field_types() == [Types.INT(), Types.STRING()]


def test_a_type_that_was_not_called_is_refused_with_a_hint() -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"field 0 of ROW must be a TypeInformation(.|\n)*Hint: call it: Types.INT\(\)"
    ):
        Types.ROW([Types.INT])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Types.ROW_NAMED(["a", "a"], [Types.INT(), Types.INT()]), "must be different"),
        (lambda: Types.ROW_NAMED(["a"], [Types.INT(), Types.INT()]), "1 names .* for 2 types"),
        (lambda: Types.ROW_NAMED("ab", [Types.INT(), Types.INT()]), r"must be a list of names \(str\)"),
        (lambda: Types.TUPLE(Types.INT()), "TUPLE expects a list of types"),
        (lambda: Types.PRIMITIVE_ARRAY(Types.STRING()), "PrimitiveArrayTypeInfo holds elements"),
        (lambda: Types.BASIC_ARRAY(Types.ROW([Types.INT()])), "use OBJECT_ARRAY or LIST"),
        (
            lambda: Types.LIST(DataTypes.DECIMAL(3, 1)),
            r"element type of ListTypeInfo(.|\n)*write DataTypes.DECIMAL\(10, 2\)\.type_info",
        ),
        (lambda: Types.LIST("int"), "element type of ListTypeInfo must be a TypeInformation"),
        (lambda: Types.MAP(str, Types.INT()), "key type of MAP must be a TypeInformation"),
        (lambda: Types.MAP(Types.LIST(Types.INT()), Types.INT()), r"lists and dicts; got ListTypeInfo<Integer>"),
        (lambda: Types.MAP(Types.PRIMITIVE_ARRAY(Types.INT()), Types.INT()), "declare a LIST of TUPLEs of key and value"),
        (lambda: Types.MAP(Types.ROW([Types.MAP(Types.INT(), Types.INT())]), Types.INT()), "lists and dicts; got RowTypeInfo"),
        (lambda: Types.MAP(DataTypes.ARRAY(DataTypes.INT()).type_info, Types.INT()), "lists and dicts; got"),
    ],
)
def test_wrong_types_are_refused_when_they_are_made(build: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        build()


@pytest.mark.parametrize(
    "key", [Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.ROW([Types.TUPLE([Types.STRING()])]), Types.PICKLED_BYTE_ARRAY()]
)
def test_keys_of_maps_may_be_bytes_rows_and_tuples(key: Any) -> None:
    assert Types.MAP(key, Types.INT()).key_type == key


def test_there_are_no_java_types() -> None:
    with pytest.raises(UnsupportedError, match="no Java type"):
        Types.INT().get_java_type_info()


@pytest.mark.parametrize(
    ("type_info", "value"),
    [
        (Types.SQL_DATE(), datetime.date(1969, 12, 31)),
        (Types.SQL_TIME(), datetime.time(23, 59, 59, 999_999)),
        (Types.SQL_TIMESTAMP(), datetime.datetime(1960, 2, 29, 1, 2, 3, 4)),
        (Types.INSTANT(), Instant.of_epoch_milli(-1)),
        (Types.TUPLE([Types.SQL_DATE(), Types.INT()]), (datetime.date(2024, 2, 29), 1)),
        (Types.INT(), 5),
        (Types.SQL_DATE(), None),
    ],
)
def test_plain_forms_lead_back_to_the_value(type_info: TypeInformation, value: Any) -> None:
    assert type_info.from_internal_type(type_info.to_internal_type(value)) == value


def test_the_plain_form_of_a_row_starts_with_its_kind_and_takes_any_form_of_row() -> None:
    type_info = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.SQL_DATE()])
    day = datetime.date(1970, 1, 2)
    assert type_info.to_internal_type(Row.of_kind(RowKind.DELETE, b=day, a=1)) == (3, 1, 1)
    assert type_info.to_internal_type({"a": 1, "b": day}) == (0, 1, 1)
    assert type_info.to_internal_type((1, day)) == (0, 1, 1)
    with pytest.raises(ValueError, match="expected a Row, dict"):
        type_info.to_internal_type(5)


def test_decimals_have_no_minus_zero() -> None:
    assert str(DecimalTypeInfo(4, 2).rounded(Decimal("-0.001"))) == "0.00"

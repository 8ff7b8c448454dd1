"""Which changes of types keep the meaning of stored values."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.common import Row, RowKind, Types
from flinkish.common.type_evolution import evolve
from flinkish.common.typeinfo import BasicType, BasicTypeInfo, DecimalTypeInfo, ExternalTypeInfo, TypeInformation

BYTE, SHORT, INT, LONG = Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG()
FLOAT, DOUBLE, BIG_INT, BIG_DEC, TEXT = Types.FLOAT(), Types.DOUBLE(), Types.BIG_INT(), Types.BIG_DEC(), Types.STRING()
ANY = Types.PICKLED_BYTE_ARRAY()


def row(**fields: TypeInformation) -> TypeInformation:
    return Types.ROW_NAMED(list(fields), list(fields.values()))


ALLOWED: list[tuple[TypeInformation, TypeInformation, Any, Any]] = [
    (INT, LONG, 7, 7),
    (BYTE, DOUBLE, 7, 7.0),
    (LONG, BIG_INT, 7, 7),
    (FLOAT, DOUBLE, 0.5, 0.5),
    (DecimalTypeInfo(4, 2), DecimalTypeInfo(10, 3), 1, 1),
    (ExternalTypeInfo(INT), LONG, 7, 7),
    (row(a=INT), row(a=INT, b=TEXT), Row(a=1), Row(a=1, b=None)),
    (row(a=INT), row(b=TEXT, a=LONG), Row(a=1), Row(b=None, a=1)),
    (row(a=INT, b=TEXT), row(b=TEXT), Row(a=1, b="x"), Row(b="x")),
    (row(a=row(x=INT)), row(a=row(x=INT, y=INT)), Row(a=Row(x=1)), Row(a=Row(x=1, y=None))),
    (row(a=row(x=INT)), row(a=row(x=INT, y=INT)), Row(a=None), Row(a=None)),
    (Types.ROW([INT]), Types.ROW([INT, TEXT]), Row(1), Row(f0=1, f1=None)),
    (Types.ROW([INT]), row(a=DOUBLE), Row(1), Row(a=1.0)),
    (Types.LIST(row(a=INT)), Types.LIST(row(a=INT, b=INT)), [Row(a=1), None], [Row(a=1, b=None), None]),
    (Types.MAP(TEXT, INT), Types.MAP(TEXT, DOUBLE), {"x": 1}, {"x": 1.0}),
    (Types.TUPLE([INT, ANY]), Types.TUPLE([DOUBLE, ANY]), (1, "x"), (1.0, "x")),
    (ANY, ANY, object, object),
]


@pytest.mark.parametrize(("stored", "declared", "value", "expected"), ALLOWED, ids=repr)
def test_a_change_that_keeps_the_meaning_is_allowed(
    stored: TypeInformation, declared: TypeInformation, value: Any, expected: Any
) -> None:
    convert = evolve(stored, declared)
    converted = value if convert is None else convert(value)

    assert converted == expected
    assert type(converted) is type(expected)


REFUSED: list[tuple[TypeInformation, TypeInformation, str]] = [
    (LONG, INT, "Long cannot become Integer"),
    (LONG, DOUBLE, "cannot become"),
    (INT, FLOAT, "cannot become"),
    (DOUBLE, FLOAT, "cannot become"),
    (DOUBLE, LONG, "cannot become"),
    (BIG_INT, BIG_DEC, "cannot become"),
    (INT, TEXT, "cannot become"),
    (INT, Types.BOOLEAN(), "cannot become"),
    (ANY, INT, "cannot become"),
    (INT, ANY, "cannot become"),
    (row(a=INT), row(b=INT), "the field a would lose its values, if it was renamed to b"),
    (row(a=INT, b=INT), row(c=INT), "the fields a, b would lose their values"),
    (row(a=INT, b=INT), row(b=INT, a=INT), "fields were moved"),
    (row(a=INT, b=INT), row(b=INT, c=INT, a=INT), "fields were moved"),
    (row(a=INT), row(a=TEXT), "cannot become"),
    (Types.ROW([INT, INT]), Types.ROW([INT]), "f1 would lose"),
    (Types.ROW([INT]), row(a=INT, b=INT), "f0 would lose"),
    (Types.TUPLE([INT]), Types.TUPLE([INT, INT]), "no names"),
    (Types.TUPLE([INT]), Types.ROW([INT]), "cannot become"),
    (Types.LIST(INT), Types.PRIMITIVE_ARRAY(INT), "cannot become"),
    (Types.MAP(INT, INT), Types.MAP(LONG, INT), "keys of a map"),
]


@pytest.mark.parametrize(("stored", "declared", "reason"), REFUSED, ids=repr)
def test_a_change_that_would_lose_meaning_is_refused(stored: TypeInformation, declared: TypeInformation, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        evolve(stored, declared)


@pytest.mark.parametrize("basic", list(BasicType), ids=lambda basic: basic.name)
def test_a_type_can_stay_as_it_is(basic: BasicType) -> None:
    assert evolve(BasicTypeInfo(basic), BasicTypeInfo(basic)) is None


def test_the_kind_of_a_row_is_kept() -> None:
    value = Row(a=1)
    value.set_row_kind(RowKind.DELETE)
    convert = evolve(row(a=INT), row(a=INT, b=INT))
    assert convert is not None

    assert convert(value).get_row_kind() is RowKind.DELETE

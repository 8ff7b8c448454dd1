"""Tests of the kinds of types."""

from __future__ import annotations

import pytest

from flinkish.common import Types, typeinfo
from flinkish.common.kinds import Kind, fields_of, kind_of, part_names, shape_of
from flinkish.common.typeinfo import BasicType, DecimalTypeInfo, ExternalTypeInfo, LocalTimeTypeInfo, TypeInformation

_INT, _TEXT = Types.INT(), Types.STRING()
_TYPES = [
    *(typeinfo.BasicTypeInfo(basic) for basic in BasicType),
    *(LocalTimeTypeInfo(kind) for kind in LocalTimeTypeInfo.TimeType),
    *(Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(), Types.INSTANT(), Types.PICKLED_BYTE_ARRAY()),
    *(Types.LIST(_INT), Types.OBJECT_ARRAY(_INT), Types.BASIC_ARRAY(_INT), Types.PRIMITIVE_ARRAY(_INT), Types.MAP(_TEXT, _INT)),
    *(Types.ROW([_INT]), Types.TUPLE([_INT]), DecimalTypeInfo(4, 2), ExternalTypeInfo(_INT)),
]


def test_each_class_of_types_has_a_kind() -> None:
    classes = [getattr(typeinfo, name) for name in typeinfo.__all__]
    made = [cls for cls in classes if isinstance(cls, type) and issubclass(cls, TypeInformation)]
    # TypeInformation is the base, and SqlTimeTypeInfo makes the types of three other classes.
    assert {type(each) for each in _TYPES} == set(made) - {TypeInformation, typeinfo.SqlTimeTypeInfo}
    assert Kind.OTHER not in map(kind_of, _TYPES)


def test_a_class_of_the_users_own_is_of_another_kind() -> None:
    class Own(TypeInformation):
        pass

    assert shape_of(Own()) == (Kind.OTHER, ())


@pytest.mark.parametrize("each", _TYPES, ids=repr)
def test_each_part_of_a_type_has_a_name(each: TypeInformation) -> None:
    assert len(part_names(each)) == len(shape_of(each)[1])


def test_only_an_array_of_primitive_bytes_is_bytes() -> None:
    assert shape_of(Types.PRIMITIVE_ARRAY(Types.BYTE())) == (Kind.BYTES, ())
    assert shape_of(Types.BASIC_ARRAY(Types.BYTE())) == (Kind.LIST, (Types.BYTE(),))


def test_fields_are_those_of_rows_and_tuples_also_of_wrapped_ones() -> None:
    assert fields_of(ExternalTypeInfo(Types.ROW_NAMED(["a"], [_INT]))) == (("a",), (_INT,))
    assert fields_of(Types.TUPLE([_INT, _TEXT])) == (("f0", "f1"), (_INT, _TEXT))
    assert fields_of(Types.LIST(_INT)) is None

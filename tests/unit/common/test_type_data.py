"""Types as plain data."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from flinkish.common import Types
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.kinds import kind_of, plain_type
from flinkish.common.type_data import data_of, type_of_data
from flinkish.common.typeinfo import DecimalTypeInfo, PickledBytesTypeInfo, TypeInformation
from tests.unit.common.test_kinds import _TYPES

_NESTED = Types.ROW_NAMED(
    ["id", "price", "tags"],
    [Types.TUPLE([Types.LONG(), Types.INSTANT()]), DecimalTypeInfo(10, 2), Types.MAP(Types.STRING(), Types.LIST(Types.CHAR()))],
)


@pytest.mark.parametrize("type_info", [*_TYPES, _NESTED], ids=repr)
def test_a_type_comes_back_from_its_data(type_info: TypeInformation) -> None:
    back = type_of_data(msgspec.msgpack.decode(msgspec.msgpack.encode(data_of(type_info))))

    assert kind_of(back) is kind_of(type_info)
    assert repr(back) == repr(plain_type(type_info))
    assert str(back) == str(plain_type(type_info))


def test_names_of_fields_come_back() -> None:
    assert type_of_data(data_of(_NESTED)).get_field_names() == ["id", "price", "tags"]  # type: ignore[attr-defined]


def test_a_derived_class_of_types_is_described_by_its_base() -> None:
    class Own(PickledBytesTypeInfo):
        pass

    assert data_of(Own()) == "PICKLED_BYTE_ARRAY"


@pytest.mark.parametrize(
    "data",
    ["INT8", "__init__", "ROW", ["LONG", 1], ["MAP", "LONG"], ["ROW_NAMED", ["a"], ["LONG", "INT"]], [], None, 7, {"a": 1}, [[]]],
    ids=repr,
)
def test_other_data_is_refused(data: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="no type"):
        type_of_data(data)

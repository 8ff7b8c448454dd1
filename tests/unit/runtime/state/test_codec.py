from __future__ import annotations

import dataclasses
import datetime
import math
import os
from collections import OrderedDict, namedtuple
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from flinkish.common.errors import CorruptCheckpointError, TypeMismatchError
from flinkish.common.time import Instant
from flinkish.common.typeinfo import ExternalTypeInfo, LocalTimeTypeInfo, TypeInformation, Types
from flinkish.common.types import Row, RowKind
from flinkish.runtime.state.codec import (
    Codec,
    decode_plain,
    decode_untyped,
    encode_untyped,
    encoded_to_json,
    is_pickled,
    structure_of,
)
from flinkish.runtime.state.columns import decode_all, freeze_all, join_list, split_list

LONGS = st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
DATETIMES = st.datetimes()

#: Each type with values of it.
TYPES: list[tuple[TypeInformation, st.SearchStrategy[Any]]] = [
    (Types.STRING(), TEXTS),
    (Types.CHAR(), st.characters(exclude_categories=["Cs"])),
    (Types.BOOLEAN(), st.booleans()),
    (Types.BYTE(), st.integers(-128, 127)),
    (Types.SHORT(), st.integers(-(2**15), 2**15 - 1)),
    (Types.INT(), st.integers(-(2**31), 2**31 - 1)),
    (Types.LONG(), LONGS),
    (Types.FLOAT(), st.floats(width=32, allow_nan=False)),
    (Types.DOUBLE(), st.floats(allow_nan=False)),
    (Types.BIG_INT(), st.integers()),
    (Types.BIG_DEC(), st.decimals(allow_nan=False, allow_infinity=False)),
    (Types.INSTANT(), st.builds(Instant, st.integers(0, 2**40), st.integers(0, 999_999_999))),
    (Types.SQL_DATE(), st.dates()),
    (Types.SQL_TIME(), st.times()),
    (Types.SQL_TIMESTAMP(), DATETIMES),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE), st.dates()),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_TIME), st.times()),
    (LocalTimeTypeInfo(LocalTimeTypeInfo.TimeType.LOCAL_DATE_TIME), DATETIMES),
    (Types.PRIMITIVE_ARRAY(Types.BYTE()), st.binary(max_size=300)),
    (Types.PRIMITIVE_ARRAY(Types.LONG()), st.lists(LONGS, max_size=20)),
    (Types.BASIC_ARRAY(Types.STRING()), st.lists(st.none() | TEXTS, max_size=5)),
    (Types.OBJECT_ARRAY(Types.SQL_DATE()), st.lists(st.none() | st.dates(), max_size=5)),
    (Types.LIST(Types.BIG_DEC()), st.lists(st.none() | st.decimals(allow_nan=False, allow_infinity=False), max_size=5)),
    (Types.MAP(Types.STRING(), Types.SQL_DATE()), st.dictionaries(TEXTS, st.none() | st.dates(), max_size=4)),
    (Types.MAP(Types.TUPLE([Types.LONG()]), Types.LONG()), st.dictionaries(st.tuples(LONGS), LONGS, max_size=4)),
    (Types.TUPLE([Types.LONG(), Types.STRING()]), st.tuples(LONGS, TEXTS)),
    (
        Types.TUPLE([Types.DOUBLE(), Types.BOOLEAN(), Types.TUPLE([Types.STRING()])]),
        st.tuples(st.floats(allow_nan=False), st.booleans(), st.tuples(TEXTS)),
    ),
    (Types.TUPLE([]), st.just(())),
    (Types.TUPLE([Types.LONG(), Types.STRING()]), st.tuples(st.none() | LONGS, st.none() | TEXTS)),
    (Types.TUPLE([Types.SQL_DATE(), Types.LIST(Types.LONG())]), st.tuples(st.dates(), st.lists(LONGS, max_size=3))),
    (
        Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.SQL_TIME()]),
        st.builds(
            lambda a, b, kind: Row.of_kind(kind, a=a, b=b), st.none() | LONGS, st.none() | st.times(), st.sampled_from(RowKind)
        ),
    ),
    (
        Types.ROW_NAMED(["ä", "l"], [Types.DOUBLE(), Types.LIST(Types.STRING())]),
        st.builds(lambda a, b: Row(ä=a, l=b), st.none() | st.floats(allow_nan=False), st.none() | st.lists(TEXTS, max_size=2)),
    ),
    (Types.ROW_NAMED(['"', "\n"], [Types.LONG(), Types.LONG()]), st.builds(lambda a, b: Row(**{'"': a, "\n": b}), LONGS, LONGS)),
    (Types.LIST(Types.PICKLED_BYTE_ARRAY()), st.lists(st.none() | st.tuples(LONGS, TEXTS) | st.binary(), max_size=3)),
    (ExternalTypeInfo(Types.LONG()), LONGS),
]
SCALAR = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.decimals(allow_nan=False)
    | DATETIMES
    | st.datetimes(timezones=st.just(datetime.timezone(datetime.timedelta(hours=-3, minutes=-30))))
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.complex_numbers(allow_nan=False)
)
HASHABLE = st.recursive(SCALAR, lambda inner: st.tuples(inner, inner) | st.frozensets(inner, max_size=2), max_leaves=4)
PLAIN = st.recursive(
    SCALAR,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(HASHABLE, inner, max_size=3)
        | st.sets(HASHABLE, max_size=3)
        | st.builds(Row, inner, inner)
        | st.builds(lambda value: Row(a=value), inner)
        | st.builds(bytearray, st.binary(max_size=4))
    ),
    max_leaves=6,
)


@dataclasses.dataclass
class Point:
    x: int
    y: list[int]


Pair = namedtuple("Pair", "a b")


def same(one: Any, other: Any) -> bool:
    """Equal, with equal classes all the way down."""
    if one.__class__ is not other.__class__:
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return all(map(same, one.items(), other.items())) and len(one) == len(other)
    return bool(one == other)


@given(PLAIN)
def test_plain_untyped_values_come_back_as_they_were_and_are_not_pickled(value: Any) -> None:
    encoded = encode_untyped(value)
    assert not is_pickled(encoded)
    assert same(decode_plain(encoded), value)
    assert same(decode_untyped(encoded), value)
    codec = Codec(Types.PICKLED_BYTE_ARRAY())
    assert same(codec.thaw(codec.freeze(value)), value)
    assert codec.encode_frozen(codec.freeze(value)) == encoded
    (frozen,) = freeze_all(codec, pa.chunked_array([pa.array([encoded], pa.binary())]))
    assert same(codec.thaw(frozen), value)


@pytest.mark.parametrize(
    "value",
    [
        Point(1, [2]),
        [Point(1, [2])],
        Pair(1, 2),
        OrderedDict(a=1),
        datetime.datetime(2024, 7, 1, tzinfo=ZoneInfo("Europe/Paris")),
        RowKind.DELETE,
        "\ud800",
        Point(1, [10**30]),
    ],
    ids=str,
)
def test_other_untyped_values_are_pickled_and_come_back_only_if_that_is_allowed(value: Any) -> None:
    encoded = encode_untyped(value)
    assert is_pickled(encoded)
    assert same(decode_untyped(encoded), value)
    with pytest.raises(CorruptCheckpointError, match="must not be unpickled"):
        decode_plain(encoded)
    for type_info, typed in (
        (Types.PICKLED_BYTE_ARRAY(), value),
        (Types.LIST(Types.PICKLED_BYTE_ARRAY()), [value]),
        (Types.MAP(Types.STRING(), Types.PICKLED_BYTE_ARRAY()), {"a": value}),
        (Types.ROW([Types.PICKLED_BYTE_ARRAY()]), Row(f0=value)),
    ):
        stored = Codec(type_info).encode(typed)
        assert same(Codec(type_info).decode(stored), typed)
        with pytest.raises(CorruptCheckpointError, match="must not be unpickled"):
            Codec(type_info, trusted=False).decode(stored)


class _Trap:
    def __reduce__(self) -> Any:
        return os.system, ("exit 1",)


def test_no_pickle_hides_deeper_in_plain_data() -> None:
    import msgspec

    inner = encode_untyped(_Trap())
    nested = msgspec.msgpack.encode([msgspec.msgpack.decode(inner)])
    for decode in (decode_plain, decode_untyped):
        with pytest.raises(CorruptCheckpointError, match="extension of code 1"):
            decode(nested)


def test_a_list_that_holds_itself_is_pickled() -> None:
    value: list[Any] = [1]
    value.append(value)
    copy = decode_untyped(encode_untyped(value))
    assert copy[1] is copy


@given(st.binary(max_size=40))
def test_damaged_bytes_raise_errors_of_ours_in_batches(data: bytes) -> None:
    column = pa.chunked_array([pa.array([data], pa.binary())])
    for type_info, _ in TYPES:
        try:
            decode_all(Codec(type_info, trusted=False), column)
        except CorruptCheckpointError:
            continue


def test_what_makes_a_type_another_is_its_shape_not_its_names() -> None:
    assert structure_of(Types.ROW_NAMED(["a"], [Types.LONG()])) == structure_of(Types.ROW([Types.LONG()]))
    assert structure_of(Types.ROW([Types.LONG()])) != structure_of(Types.ROW([Types.INT()]))
    assert structure_of(Types.LIST(Types.LONG())) != structure_of(Types.PRIMITIVE_ARRAY(Types.LONG()))
    assert structure_of(ExternalTypeInfo(Types.LONG())) == structure_of(Types.LONG())


@pytest.mark.parametrize(
    ("type_info", "structure"),
    [
        (Types.PRIMITIVE_ARRAY(Types.BYTE()), "PrimitiveArray<Byte>"),
        (Types.PRIMITIVE_ARRAY(Types.LONG()), "PrimitiveArray<Long>"),
        (Types.BASIC_ARRAY(Types.STRING()), "BasicArray<String>"),
        (Types.OBJECT_ARRAY(Types.SQL_DATE()), "ObjectArray<DateTypeInfo>"),
        (Types.MAP(Types.STRING(), Types.LIST(Types.INT())), "Map<String, List<Integer>>"),
        (Types.TUPLE([Types.ROW_NAMED(["a"], [Types.BIG_DEC()]), Types.INSTANT()]), "Tuple(Row(BigDecimal), Instant)"),
        (Types.ROW([Types.PICKLED_BYTE_ARRAY(), Types.SQL_TIMESTAMP()]), "Row(PickledByteArrayTypeInfo, TimestampTypeInfo)"),
    ],
)
def test_checkpoints_have_these_structures(type_info: TypeInformation, structure: str) -> None:
    assert structure_of(type_info) == structure


def test_integers_that_are_too_large_for_a_long_are_named() -> None:
    check = Codec(Types.LONG()).check_all
    assert check is not None
    check([1, -(2**63)])
    with pytest.raises(TypeMismatchError, match=str(2**63)):
        check([1, 2**63])


@pytest.mark.parametrize(
    ("type_info", "value", "json"),
    [
        (Types.LONG(), 5, "5"),
        (Types.STRING(), 'a"b', '"a\\"b"'),
        (Types.DOUBLE(), 1.5, "1.5"),
        (Types.DOUBLE(), math.inf, '"inf"'),
        (Types.SQL_DATE(), datetime.date(2024, 1, 2), '"2024-01-02"'),
        (Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()]), Row(a=1, b=None), '{"a":1,"b":null}'),
        (Types.TUPLE([Types.LONG(), Types.STRING()]), (1, "x"), '[1,"x"]'),
        (Types.MAP(Types.STRING(), Types.LONG()), {"a": 1}, '{"a":1}'),
        (Types.PICKLED_BYTE_ARRAY(), {"a": (1, Decimal("1.5"))}, '{"a":[1,"1.5"]}'),
        (Types.PICKLED_BYTE_ARRAY(), Point(1, []), None),
        (Types.PICKLED_BYTE_ARRAY(), {(1, 2): 3}, None),
    ],
)
def test_values_have_a_readable_form_where_there_is_one(type_info: TypeInformation, value: Any, json: str | None) -> None:
    codec = Codec(type_info)
    assert encoded_to_json(codec, codec.encode(value)) == json


@given(st.lists(st.binary(max_size=3).map(encode_untyped), max_size=20))
def test_lists_are_joined_and_split_by_their_encodings(encodings: list[bytes]) -> None:
    assert split_list(join_list(encodings)) == encodings
    assert decode_untyped(join_list(encodings)) == [decode_untyped(data) for data in encodings]


def test_long_lists_have_longer_headers() -> None:
    for count in (15, 16, 65_535, 65_536):
        assert len(split_list(join_list([b"\x01"] * count))) == count


@dataclasses.dataclass
class _Pickled:
    number: int


def test_an_opaque_value_is_not_decoded_and_encodes_to_the_same_bytes() -> None:
    codec = Codec(Types.TUPLE([Types.LONG(), Types.PICKLED_BYTE_ARRAY()]), opaque=True)
    data = codec.encode((1, _Pickled(2)))

    number, opaque = codec.decode(data)

    assert (number, opaque.names) == (1, [f"{__name__}._Pickled"])
    assert codec.encode((number, opaque)) == data
    assert codec.decode(codec.encode((1, [2, "a"]))) == (1, [2, "a"])
    assert encode_untyped(opaque) == encode_untyped(_Pickled(2))
    assert decode_all(Codec(Types.PICKLED_BYTE_ARRAY(), opaque=True), pa.chunked_array([[b"\x01", opaque.encoding]])) == [
        1,
        opaque,
    ]


def test_an_opaque_value_cannot_become_a_part_of_another_pickle() -> None:
    opaque = Codec(Types.PICKLED_BYTE_ARRAY(), opaque=True).decode(encode_untyped(_Pickled(2)))

    with pytest.raises(TypeError, match=r"<pickled: .*_Pickled"):
        encode_untyped([opaque])

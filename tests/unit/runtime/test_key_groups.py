from __future__ import annotations

import dataclasses
import datetime
import enum
from collections import Counter, namedtuple
from decimal import Decimal
from fractions import Fraction
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given

from flinkish.common import pickling
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.types import Row, RowKind
from flinkish.runtime.key_groups import key_group, key_group_range, stable_hash, subtask_of_group
from flinkish.runtime.keys import CanonicalKey, as_key, original_key
from flinkish.runtime.state.columns import key_groups_of
from flinkish.runtime.tuple_hashes import crcs_of_tuples


class Colour(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Name(enum.StrEnum):
    A = "a"


@dataclasses.dataclass(frozen=True)
class Point:
    x: int
    y: int


class Plain:
    def __init__(self, a: int, b: str) -> None:
        self.a = a
        self.b = b


class Parts(Plain):
    def __getstate__(self) -> tuple[int, str]:
        return self.a, self.b


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    "keys",
    [
        (1, 1.0, True, Decimal(1), Fraction(1), complex(1), np.int64(1), np.float32(1), np.bool_(True), Level.LOW),
        (0, 0.0, -0.0, False, Decimal("-0")),
        (0.5, Decimal("0.5"), Fraction(1, 2), np.float64(0.5)),
        (2**70, float(2**70), Decimal(2**70)),
        (float("inf"), Decimal("Infinity")),
        ("a", Name.A, np.str_("a")),
        ((1, "a"), (1.0, "a"), Pair(1, "a"), (True, "a")),
        (b"a", bytes(bytearray(b"a"))),
        (frozenset([1, 2, 3]), frozenset([3.0, 2, 1])),
        (
            datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC),
            datetime.datetime(2024, 1, 1, 14, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),
        ),
        (Row(a=1, b=2), Row(b=2, a=1.0)),
        (Point(1, 2), Point(1.0, 2)),
    ],
)
def test_keys_that_are_equal_in_python_have_one_hash(keys: tuple[Any, ...]) -> None:
    assert all(key == keys[0] for key in keys)
    assert len({stable_hash(key) for key in keys}) == 1
    assert len({stable_hash((key, "x")) for key in keys}) == 1
    assert len({as_key([key]) for key in keys}) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", 1),
        ("a", b"a"),
        ((1, 2), (2, 1)),
        (("a", "bc"), ("ab", "c")),
        ((1, (2,)), (1, 2)),
        (None, 0),
        (Row(1, 2), Row(a=1, b=2)),
        (Row(1), Row.of_kind(RowKind.DELETE, 1)),
        (Point(1, 2), Point(2, 1)),
        (datetime.date(2024, 1, 1), datetime.datetime(2024, 1, 1)),
        (Parts(1, "a"), Parts(1, "b")),
        (Colour.RED, 1),
    ],
)
def test_keys_that_differ_mostly_have_other_hashes(one: Any, other: Any) -> None:
    assert stable_hash(one) != stable_hash(other)


def test_nan_keys_of_all_objects_share_a_group() -> None:
    assert key_group(float("nan"), 128) == key_group(Decimal("nan"), 128) == key_group(np.float64("nan"), 128)


def test_neighbouring_keys_spread_evenly_over_the_groups() -> None:
    for step in (1, 2, 10, 128, 1_000, 1 << 20, 1 << 40, 1 << 48):
        groups = Counter(key_group(step * number, 128) for number in range(12_800))
        assert 80 <= min(groups.values()) <= max(groups.values()) <= 120, step
    texts = Counter(key_group(f"user-{number}", 128) for number in range(12_800))
    assert 70 <= min(texts.values()) <= max(texts.values()) <= 130


@given(max_parallelism=st.integers(1, 2_000), data=st.data())
def test_every_key_group_belongs_to_exactly_one_subtask(max_parallelism: int, data: st.DataObject) -> None:
    parallelism = data.draw(st.integers(1, max_parallelism))
    for subtask in range(parallelism):
        groups = key_group_range(subtask, max_parallelism, parallelism)
        assert len(groups) > 0
        assert {subtask_of_group(group, max_parallelism, parallelism) for group in groups} == {subtask}
    assert sum(len(key_group_range(subtask, max_parallelism, parallelism)) for subtask in range(parallelism)) == max_parallelism


def test_a_parallelism_above_the_max_parallelism_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="max parallelism 4"):
        key_group_range(0, 4, 5)


def test_unhashable_keys_are_wrapped_and_others_are_not() -> None:
    plain = (1, "a", (1, "a"), 1.5, Decimal(1), None, Colour.RED, Name.A, Point(1, 2), Pair(1, "a"), np.int64(1), np.bool_(True))
    assert all(as_key(key) is key for key in plain)
    assert as_key((1, "a")) == (1, "a")
    for key in ([1], {"a": [1]}, (1, [2]), {1, 2}, Row([1], 2), np.array([1, 2])):
        wrapped = as_key(key)
        assert wrapped.__class__ is CanonicalKey
        assert wrapped == as_key(key)
        assert hash(wrapped) == hash(as_key(key))
        assert pickling.loads(pickling.dumps(wrapped)) == wrapped
        assert key_group(wrapped, 128) == key_group(pickling.loads(pickling.dumps(wrapped)), 128)
    assert as_key([1]) != as_key([2])
    assert as_key([1]) != as_key([1, 1])


def test_a_wrapped_key_does_not_change_with_the_object_it_was_made_of() -> None:
    key = [1, 2]
    wrapped = as_key(key)
    key.append(3)
    assert wrapped == as_key([1, 2])
    given = original_key(wrapped)
    assert given == [1, 2]
    given.append(4)
    assert original_key(wrapped) == [1, 2]
    assert original_key("a") == "a"


@given(keys=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200)), max_parallelism=st.integers(1, 32_768))
def test_batches_of_keys_go_to_the_same_groups(keys: list[int], max_parallelism: int) -> None:
    extremes = [-1, -2, 2**61 - 1, 2**61, -(2**61) + 1, -(2**61), 2**63 - 1, -(2**63)]
    expected = [key_group(key, max_parallelism) for key in keys + extremes]
    assert key_groups_of(keys + extremes, max_parallelism).to_pylist() == expected


@given(keys=st.lists(st.one_of(st.integers(), st.text(), st.booleans(), st.none(), st.floats())))
def test_batches_of_mixed_keys_go_to_the_same_groups(keys: list[Any]) -> None:
    assert key_groups_of(keys, 128).to_pylist() == [key_group(key, 128) for key in keys]


_ITEMS = [st.integers(-(2**63), 2**63 - 1), st.text(), st.booleans(), st.integers() | st.booleans(), st.floats(), st.none()]


@given(keys=st.lists(st.sampled_from(_ITEMS), max_size=3).flatmap(lambda items: st.lists(st.tuples(*items))))
def test_batches_of_tuples_go_to_the_same_groups(keys: list[tuple[Any, ...]]) -> None:
    for some in (keys, [*keys, (1,)], [*keys, (2**64, "\ud800")]):
        assert key_groups_of(some, 128).to_pylist() == [key_group(key, 128) for key in some]


LONGS = st.integers(-(2**63), 2**63 - 1) | st.integers(-200, 200)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))


@given(keys=st.lists(st.tuples(LONGS, TEXTS, st.booleans(), st.integers(-128, 127))))
@example(
    keys=[(number, "", True, 0) for power in range(19) for at in (10**power, -(10**power)) for number in (at - 1, at, at + 1)]
)
@example(keys=[(sign * (10**power + more), "", True, 0) for power in range(19) for sign in (1, -1) for more in (-1, 0)])
@example(keys=[(-(2**63), "", True, -1), (2**63 - 1, "", False, -1)])
def test_tuples_as_columns_have_the_same_hashes(keys: list[tuple[int, str, bool, int]]) -> None:
    keys = [(0, "", False, 0), *keys]
    types = (pa.int64(), pa.string(), pa.bool_(), pa.int8())
    # A column may be a part of a longer one.
    columns = [pa.array(items, arrow)[1:] for items, arrow in zip(zip(*keys, strict=True), types, strict=True)]
    assert crcs_of_tuples(columns).tolist() == list(map(stable_hash, keys[1:]))

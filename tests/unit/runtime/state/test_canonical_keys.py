"""One canonical encoding says which keys are equal and where they belong: in every process, whatever the key went through."""

from __future__ import annotations

import collections
import copy
import dataclasses
import datetime
import enum
import functools
import ipaddress
import pathlib
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings

from flinkish.common.errors import ForeignCheckpointError, TypeMismatchError
from flinkish.common.time import Instant
from flinkish.common.typeinfo import Types
from flinkish.common.types import Row, RowKind
from flinkish.datastream.state import ListStateDescriptor, ValueStateDescriptor
from flinkish.datastream.window import TimeWindow
from flinkish.runtime import keys as keys_module
from flinkish.runtime.key_encoding import canonical
from flinkish.runtime.key_groups import key_group, stable_hash, subtask_of_group
from flinkish.runtime.keys import as_key, original_key, sort_key
from tests.unit.runtime.state.harness import MAX_PARALLELISM, Slot

NAN = float("nan")
BERLIN = ZoneInfo("Europe/Berlin")
#: An hour that there is twice.
TWICE = datetime.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN)


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Right(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass(frozen=True)
class Point:
    x: Any
    y: Any = 0
    note: str = dataclasses.field(default="", compare=False)

    @functools.cached_property
    def sum(self) -> Any:
        return self.x + self.y


@dataclasses.dataclass
class Changing:
    x: Any


class Pair(NamedTuple):
    a: Any
    b: Any


class CachesAndSaysSo:
    """Has what the hint of the refusal asks for."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.hash: int | None = None

    def __hash__(self) -> int:
        self.hash = self.hash or hash(self.name)
        return self.hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CachesAndSaysSo) and self.name == other.name

    def __reduce__(self) -> Any:
        return CachesAndSaysSo, (self.name,)


class CachesItsHash(CachesAndSaysSo):
    __reduce__ = object.__reduce__


class Lazy:
    __slots__ = ("_upper", "name")

    def __init__(self, name: str) -> None:
        self.name = name


class EqualWithoutHash:
    def __eq__(self, other: object) -> bool:
        return True


@dataclasses.dataclass(frozen=True)
class CaseInsensitive:
    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CaseInsensitive) and self.name.lower() == other.name.lower()


class Caseless(str):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    __hash__ = str.__hash__


def warmed(key: Any) -> Any:
    """Have an object fill what it fills when it is looked at."""
    hash(key)
    str(key)
    for name in ("sum", "parts", "suffix", "broadcast_address", "hostmask"):
        getattr(key, name, None)
    return key


#: Keys that are one key each; none equal to one of another line.
EQUAL: list[tuple[Any, ...]] = [
    (pathlib.Path("a/b"), pathlib.Path("a") / "b", pathlib.PurePosixPath("a//b"), warmed(pathlib.Path("a/b"))),
    (pathlib.Path("a/B"),),
    (pathlib.PureWindowsPath("a/b"), pathlib.PureWindowsPath("A\\B")),
    ("a/b",),
    (NAN, float("nan"), Decimal("nan"), Decimal("sNaN"), np.float64("nan")),
    ((1, NAN), (1, float("nan")), (1.0, np.nan), Pair(1, NAN)),
    ((1, (NAN,)),),
    (Row(1, NAN), Row(True, float("nan"))),
    (Row(a=1, b=NAN), Row(b=NAN, a=1)),
    (Row(a=1, b="x"), Row(b="x", a=1)),
    (Row(a="x", b=1),),
    (Row(1, "x"),),
    (Row.of_kind(RowKind.DELETE, 1, "x"),),
    (Point(1, NAN), Point(1.0, NAN)),
    (Point(1, 2), Point(1, 2, note="other"), warmed(Point(1, 2))),
    (Point(Point(1, [2]), 2), Point(Point(1, [2]), 2)),
    (Changing(1), Changing(1)),
    (TWICE, datetime.datetime(2024, 10, 27, 0, 30, tzinfo=datetime.UTC)),
    (TWICE.replace(fold=1), datetime.datetime(2024, 10, 27, 1, 30, tzinfo=datetime.UTC)),
    (datetime.datetime(2024, 10, 27, 2, 30), datetime.datetime(2024, 10, 27, 2, 30, fold=1), pd.Timestamp("2024-10-27 02:30")),
    (pd.Timestamp("2024-10-27 02:30:00.000000001"),),
    (datetime.datetime(2024, 10, 27),),
    (datetime.date(2024, 10, 27),),
    (datetime.time(1, 2), datetime.time(1, 2, fold=1)),
    (
        datetime.time(1, 2, tzinfo=datetime.UTC),
        datetime.time(2, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
    ),
    (datetime.timedelta(days=1), datetime.timedelta(hours=24), pd.Timedelta(days=1)),
    (np.datetime64("2024-10-28"), np.datetime64("2024-10-28T00:00:00.000000000"), np.datetime64("2024-10-28T00", "h")),
    (np.datetime64("2024-11"), np.datetime64("2024-11-01")),
    (np.datetime64("NaT"), np.datetime64("NaT", "ns")),
    (np.timedelta64(60, "s"), np.timedelta64(1, "m")),
    (np.timedelta64(24, "M"), np.timedelta64(2, "Y")),
    (0.0, -0.0, 0, False, Decimal("-0"), np.float32(-0.0), np.bool_(False)),
    (1, True, 1.0, Decimal("1"), Decimal("1.0"), Fraction(1), np.int8(1), np.uint64(1), np.bool_(True)),
    (Decimal("0.1"), Decimal("0.10")),
    (0.1,),
    (2**64, float(2**64), Decimal(2**64)),
    (10**6_000, 10**6_000 + 0),
    ((10**6_000,), (10**6_000,)),
    ((Fraction(10**400, 3),), (Fraction(10**400, 3),)),
    ((Fraction(3, 10**6_000),),),
    (complex(NAN, 1), complex(NAN, 1)),
    (complex(1, NAN),),
    ("", np.str_("")),
    (b"", np.bytes_(b"")),
    ("\ud800",),
    ((), Pair.__mro__[1]()),
    ([],),
    (set(), frozenset()),
    ({},),
    ({1, "a"}, frozenset(["a", 1.0])),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}, collections.OrderedDict([("b", 2), ("a", 1)])),
    ({(): 1}, {(): True}),
    ({(1,): ()},),
    ([1, NAN], np.array([1, NAN]), [1, NAN]),
    (collections.deque([1, 2]), collections.deque([1, 2])),
    (Colour.RED, copy.copy(Colour.RED)),
    (Colour.BLUE,),
    (Right.READ,),
    (Right.READ | Right.WRITE, Right.WRITE | Right.READ),
    (Right(0),),
    (uuid.UUID(int=1), uuid.UUID(int=1)),
    (Instant(1, 2), Instant(1, 2)),
    (TimeWindow(1, 2), TimeWindow(1, 2)),
    (ipaddress.ip_address("10.0.0.1"), warmed(ipaddress.ip_address("10.0.0.1"))),
    (ipaddress.ip_network("10.0.0.0/8"), warmed(ipaddress.ip_network("10.0.0.0/8"))),
    (re.compile("a"), re.compile("a")),
    (BERLIN, ZoneInfo("Europe/Berlin")),
    (CachesAndSaysSo("a"), warmed(CachesAndSaysSo("a"))),
    (int, int),
    (None,),
]


@pytest.mark.parametrize("keys", EQUAL, ids=[f"{number}-{type(keys[0]).__name__}" for number, keys in enumerate(EQUAL)])
def test_equal_keys_are_one_key_in_each_form(keys: tuple[Any, ...]) -> None:
    for form in (lambda key: key, lambda key: (key, "x"), lambda key: [key], lambda key: Row(k=key)):
        wrapped = [as_key(form(key)) for key in keys]
        assert len(set(wrapped)) == 1
        assert len(set(map(stable_hash, wrapped))) == 1
        assert {key_group(key, 128) for key in wrapped} == {key_group(form(keys[0]), 128)}
        assert all(sort_key(key) == sort_key(wrapped[0]) for key in wrapped)


def test_keys_of_different_lines_are_different_keys() -> None:
    for form in (lambda key: key, lambda key: [key]):
        firsts = [as_key(form(keys[0])) for keys in EQUAL]
        assert len(set(firsts)) == len(EQUAL)
        assert len({canonical(form(keys[0])) for keys in EQUAL}) == len(EQUAL)


def _itself() -> list[Any]:
    key: list[Any] = []
    key.append(key)
    return key


@pytest.mark.parametrize(
    "key",
    [
        object(),
        CachesItsHash("a"),
        Lazy("a"),
        EqualWithoutHash(),
        CaseInsensitive("a"),
        Caseless("a"),
        lambda: None,
        (1, Lazy("a")),
        (1, bytearray(b"a")),
        {"a": [Lazy("a")]},
        Point(Lazy("a")),
        _itself(),
        (Decimal("1e99999999"),),
        (Decimal("1e-99999999"),),
    ],
    ids=lambda key: type(key).__name__,
)
def test_a_key_without_a_canonical_encoding_is_refused(key: Any) -> None:
    with pytest.raises(TypeMismatchError, match="key"):
        stable_hash(as_key(key))


def test_what_keys_give_back_is_what_was_given() -> None:
    for keys in EQUAL:
        for key in keys:
            assert type(original_key(as_key(key))) is type(key)
    assert original_key(as_key(bytearray(b"a"))) == b"a"


_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.decimals().filter(lambda number: not number.is_snan()),
    st.fractions(),
    st.dates(),
    st.datetimes(timezones=st.none() | st.timezones()),
    st.timedeltas(),
    st.uuids(),
    st.builds(pathlib.PurePosixPath, st.text("ab./", max_size=5)),
)
_HASHABLE = st.recursive(
    _SCALARS,
    lambda parts: st.one_of(
        st.lists(parts, max_size=3).map(tuple), st.frozensets(parts, max_size=3), st.builds(Row, a=parts, b=parts)
    ),
    max_leaves=5,
)
_KEYS = st.recursive(
    _HASHABLE,
    lambda parts: st.one_of(
        st.lists(parts, max_size=3),
        st.lists(parts, max_size=3).map(tuple),
        st.dictionaries(_HASHABLE, parts, max_size=3),
        st.builds(Row, parts, parts),
        st.builds(Row, a=parts, b=parts),
    ),
    max_leaves=8,
)


# -- through a checkpoint --------------------------------------------------------------------------------------------------------

COUNT = ValueStateDescriptor("count", Types.LONG())
ELEMENTS = ListStateDescriptor("elements", Types.LONG())


def _slots(make_slot: Callable[..., Slot], parallelism: int, attempt: str) -> list[Slot]:
    arguments: dict[str, Any] = {"parallelism": parallelism, "attempt": attempt, "key_type": Types.PICKLED_BYTE_ARRAY()}
    return [make_slot(subtask=subtask, **arguments) for subtask in range(parallelism)]


def _at(slots: list[Slot], key: Any) -> Slot:
    key = as_key(key)
    slot = slots[subtask_of_group(key_group(key, MAX_PARALLELISM), MAX_PARALLELISM, len(slots))]
    slot.key(key)
    return slot


def test_a_restore_finds_the_state_of_every_key_by_each_of_its_forms(make_slot: Callable[..., Slot]) -> None:
    before = _slots(make_slot, 2, "first")
    for slot in before:
        slot.begin()
    for number, keys in enumerate(EQUAL):
        for key in keys:
            state = _at(before, key).backend.get_state(COUNT)
            state.update((state.value() or 1_000 * number) + 1)
            _at(before, key).backend.get_list_state(ELEMENTS).add(number)
    files = tuple(file for slot in before for file in slot.snapshot())
    after = _slots(make_slot, 3, "second")
    for slot in after:
        slot.restore(files, old_parallelism=2, pickle_allowed=True)
    for number, keys in enumerate(EQUAL):
        for key in reversed(keys):
            assert _at(after, warmed(key) if isinstance(key, pathlib.Path) else key).backend.get_state(COUNT).value() == (
                1_000 * number + len(keys)
            )
            assert list(_at(after, key).backend.get_list_state(ELEMENTS)) == [number] * len(keys)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(keys=st.lists(_KEYS, max_size=20))
def test_a_restore_finds_the_state_of_every_generated_key(tmp_path_factory: pytest.TempPathFactory, keys: list[Any]) -> None:
    folder = tmp_path_factory.mktemp("keys")
    kept = {as_key(key): number for number, key in enumerate(keys)}
    before = Slot(folder, key_type=Types.PICKLED_BYTE_ARRAY())
    before.begin()
    for key in keys:
        before.key(as_key(key))
        before.backend.get_state(COUNT).update(kept[as_key(key)])
    files = before.snapshot()
    after = _slots(lambda **arguments: Slot(folder, **arguments), 2, "second")
    for slot in after:
        slot.restore(files, pickle_allowed=True)
    for key in copy.deepcopy(keys):
        assert _at(after, key).backend.get_state(COUNT).value() == kept[as_key(key)]


@pytest.mark.parametrize("key", [pathlib.PurePosixPath("a"), bytearray(b"a")], ids=["path", "bytearray"])
def test_keys_that_an_earlier_version_stored_in_another_group_are_refused(make_slot: Callable[..., Slot], key: Any) -> None:
    (slot,) = _slots(make_slot, 1, "first")
    slot.begin()
    for stored in ("a", 1, (1, "a"), keys_module._remade(key, b"another encoding")):
        slot.key(stored)
        slot.backend.get_state(COUNT).update(1)
    (restored,) = _slots(make_slot, 1, "second")
    restored.restore(slot.snapshot(), pickle_allowed=True)
    with pytest.raises(ForeignCheckpointError, match=r"state 'count' of operator op: 1 of its keys do not belong.*'a'"):
        restored.backend.get_state(COUNT)


@pytest.mark.parametrize("descriptor", [COUNT, ELEMENTS], ids=["value", "list"])
def test_keys_that_an_earlier_version_took_for_several_are_refused(make_slot: Callable[..., Slot], descriptor: Any) -> None:
    (slot,) = _slots(make_slot, 1, "first")
    slot.begin()
    # not as keys, which would be one
    for key in ((1, NAN), (1, float("nan"))):
        slot.key(key)
        if descriptor is COUNT:
            slot.backend.get_state(COUNT).update(1)
        else:
            slot.backend.get_list_state(ELEMENTS).add(1)
    files = slot.snapshot()
    (restored,) = _slots(make_slot, 1, "second")
    restored.restore(files, pickle_allowed=True)
    with pytest.raises(ForeignCheckpointError, match="some of its keys are equal"):
        restored.backend.get(descriptor)

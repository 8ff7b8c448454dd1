"""Keys with a declared type, and NaN: found again whatever object they are given as, also after a lost heap and a restore."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flinkish.common import Row, Time, Types
from flinkish.common.errors import TypeMismatchError
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream import BroadcastProcessFunction, KeyedProcessFunction, ProcessWindowFunction
from flinkish.datastream.functions import RuntimeContext
from flinkish.datastream.state import MapStateDescriptor, StateTtlConfig
from flinkish.testing import OneInputHarness, TwoInputHarness
from tests.kit.functions import CountByKey


@dataclasses.dataclass(frozen=True)
class Version:
    number: int
    folder: Path


T = Types
PAIR, NAMED = T.ROW([T.LONG(), T.STRING()]), T.ROW_NAMED(["x", "y"], [T.LONG(), T.STRING()])
MOMENT = datetime.datetime(2020, 1, 2, 3, 4, 5, 678_901)
#: Type, what the selector returns for one and the same key, the key that functions see. Where PyFlink 2.3.0 takes such a key, it
#: shows the same.
KEYS: list[tuple[TypeInformation | None, list[Any], Any]] = [
    (PAIR, [Row(1, "a"), Row(f0=1, f1="a"), Row(True, "a")], Row(f0=1, f1="a")),
    (NAMED, [Row(x=1, y="a"), Row(1, "a"), Row(y="a", x=1)], Row(x=1, y="a")),
    (PAIR, [Row(None, None)], Row(f0=None, f1=None)),
    (T.TUPLE([T.LONG(), T.ROW([T.LONG()])]), [(1, Row(2)), (1, Row(f0=2))], (1, Row(f0=2))),
    (T.LIST(T.LONG()), [[1, 2], [1.0, True + 1]], [1, 2]),
    (T.PRIMITIVE_ARRAY(T.BYTE()), [b"a", bytearray(b"a")], b"a"),
    (T.SQL_DATE(), [MOMENT, MOMENT.date(), MOMENT.replace(hour=7)], MOMENT.date()),
    (T.SQL_TIMESTAMP(), [MOMENT, MOMENT.replace(microsecond=678_000)], MOMENT.replace(microsecond=678_000)),
    (T.BIG_DEC(), [1.5, Decimal("1.5")], Decimal("1.5")),
    (T.DOUBLE(), [2, 2.0], 2.0),
    (T.DOUBLE(), [Decimal("0.1"), 0.1], 0.1),
    (T.DOUBLE(), [2**53 + 1, 2**53], 2.0**53),
    (T.DOUBLE(), [float("nan"), np.nan], float("nan")),
    (None, [float("nan"), float("nan")], float("nan")),
    (None, [Row(1, [2]), Row(1, [2])], Row(1, [2])),
    (None, [(1, float("nan")), (1, np.nan)], (1, float("nan"))),
    (None, [Path("a/b"), Path("a") / "b"], Path("a/b")),
    (None, [Version(1, Path("a")), Version(1, Path("a"))], Version(1, Path("a"))),
    (None, [bytearray(b"a"), b"a"], b"a"),
]
IDS = [f"{key_type!r} {given[0]!r}" for key_type, given, _ in KEYS]


@pytest.mark.parametrize("within", ["alone", "in a tuple"])
def test_numbers_that_are_the_same_float_are_one_key(within: str) -> None:
    if within == "alone":
        key_type, select = T.FLOAT(), lambda number: number
    else:
        key_type, select = T.TUPLE([T.STRING(), T.FLOAT()]), lambda number: ("a", number)
    with OneInputHarness(lambda stream: stream.key_by(select, key_type).process(CountByKey())) as harness:
        for number in (0.1 + 0.2, 0.3, 0.30000001192092896, 0.4):
            harness.process_element(number)
        assert [count for _, count in harness.take_values()] == [1, 2, 3, 1]
        harness.restart()
        harness.process_element(0.3)
        assert [count for _, count in harness.take_values()] == [4]


@pytest.mark.parametrize(("key_type", "given", "seen"), KEYS, ids=IDS)
def test_state_is_found_by_a_key_in_each_form_also_after_a_restore(key_type: Any, given: list[Any], seen: Any) -> None:
    with OneInputHarness(lambda stream: stream.key_by(lambda index: given[index], key_type).process(CountByKey())) as harness:
        for index in range(len(given)):
            harness.process_element(index)
        harness.lose_heap()
        harness.process_element(0)
        number = len(given) + 1
        results = harness.take_values()
        assert [count for _, count in results] == list(range(1, number + 1))
        # numbers are compared as Python does
        if key_type != T.DOUBLE():
            assert {key for key, _ in results} == {repr(seen)}
        harness.restart(parallelism=3)
        for index in range(len(given)):
            harness.process_element(index)
        assert [count for _, count in harness.take_values()] == list(range(number + 1, number + len(given) + 1))


def test_keys_that_are_not_of_their_type_are_refused_by_the_name_of_the_operator() -> None:
    for key_type, key in (
        (None, object()),
        (None, (1, Decimal("1e99999999"))),
        (PAIR, (1, "a")),
        (PAIR, Row("a", 1)),
        (T.SQL_DATE(), "2020-01-02"),
        (T.LIST(T.LONG()), "ab"),
    ):

        def build(stream: Any, key: Any = key, key_type: Any = key_type) -> Any:
            return stream.key_by(lambda _: key, key_type).process(CountByKey())

        harness = OneInputHarness(build)
        with pytest.raises(TypeMismatchError, match=r"the key that key_by\(\) selected for 'KEYED PROCESS'"):
            harness.process_element(1)
        harness.close()


def test_a_key_that_is_changed_after_it_was_emitted_stays_as_it_was() -> None:
    row = Row(name="a")

    def name(value: str) -> Row:
        row["name"] = value
        return row

    with OneInputHarness(lambda stream: stream.key_by(name).process(CountByKey())) as harness:
        for value in ("a", "b", "a"):
            harness.process_element(value)
        assert harness.take_values() == [("Row(name='a')", 1), ("Row(name='b')", 1), ("Row(name='a')", 2)]


class ShowKey(ProcessWindowFunction[Any, Any, Any, Any]):
    def process(self, key: Any, context: Any, elements: Any) -> Iterator[Any]:
        yield key, list(elements)


def test_windows_see_the_key_as_it_is_declared() -> None:
    def build(stream: Any) -> Any:
        return stream.key_by(lambda value: Row(value), T.ROW_NAMED(["number"], [T.LONG()])).count_window(2).process(ShowKey())

    with OneInputHarness(build) as harness:
        for _ in range(2):
            harness.process_element(5)
        assert harness.take_values() == [(Row(number=5), [5, 5])]


# -- keys of maps ----------------------------------------------------------------------------------------------------------------

#: As above, of what can be the key of a dict; NaN is not equal to itself there either.
MAP_KEYS = [*KEYS[:4], *KEYS[5:12]]


class PutAndGet(KeyedProcessFunction):
    """Looks up each form of a key, then puts an entry by it."""

    def __init__(self, key_type: TypeInformation, given: list[Any], *, ttl: bool) -> None:
        self.descriptor = MapStateDescriptor("map", key_type, T.LONG())
        if ttl:
            self.descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.given = given

    def open(self, runtime_context: RuntimeContext) -> None:
        self.map = runtime_context.get_map_state(self.descriptor)

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        for key in self.given:
            yield self.map.get(key), self.map.contains(key), self.map[key], key in self.map
            self.map.put(key, value)
        yield list(self.map.keys())
        if value == 9:
            self.map.remove(self.given[-1])
            yield self.map.is_empty()


@pytest.mark.parametrize("ttl", [False, True])
@pytest.mark.parametrize(("key_type", "key"), [(T.LONG(), 1.5), (T.INT(), Decimal("1.5")), (T.BOOLEAN(), 2)])
def test_a_key_that_its_type_would_change_is_not_put(key_type: Any, key: Any, ttl: bool) -> None:
    harness = OneInputHarness(lambda stream: stream.key_by(lambda _: 0).process(PutAndGet(key_type, [key], ttl=ttl)))
    with harness, pytest.raises(TypeMismatchError, match="which this type would change to"):
        harness.process_element(1)


@pytest.mark.parametrize("ttl", [False, True])
@pytest.mark.parametrize(("key_type", "given", "seen"), MAP_KEYS)
def test_entries_are_found_by_a_key_in_each_form_also_after_a_restore(key_type: Any, given: Any, seen: Any, ttl: bool) -> None:
    with OneInputHarness(lambda stream: stream.key_by(lambda _: 0).process(PutAndGet(key_type, given, ttl=ttl))) as harness:
        harness.process_element(1)
        found = (1, True, 1, True)
        assert harness.take_values() == [(None, False, None, False), *[found] * (len(given) - 1), [seen]]
        harness.lose_heap()
        harness.process_element(1)
        assert harness.take_values() == [*[found] * len(given), [seen]]
        harness.restart()
        harness.process_element(9)
        assert harness.take_values() == [found, *[(9, True, 9, True)] * (len(given) - 1), [seen], True]


def test_entries_of_broadcast_state_are_found_by_a_key_in_each_form() -> None:
    rules = MapStateDescriptor("rules", PAIR, T.LONG())

    class Rules(BroadcastProcessFunction):
        def process_element(self, value: Any, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Iterator[Any]:
            state = ctx.get_broadcast_state(rules)
            yield state.get(Row(1, "a")), state.contains(Row(f0=1, f1="a")), list(state.keys()), state.get(Row(2, "a"))

        def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> None:
            state = ctx.get_broadcast_state(rules)
            state.put(Row(1, "a"), value)
            state.put(Row(2, "a"), value)
            state.remove(Row(2, "a"))

    with TwoInputHarness(lambda first, second: first.connect(second.broadcast(rules)).process(Rules())) as harness:
        harness.process_element2(7)
        harness.process_element1(0)
        assert harness.take_values() == [(7, True, [Row(f0=1, f1="a")], None)]

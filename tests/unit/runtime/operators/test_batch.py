"""Batch mode in an operator: what waits for the end of the input survives lost processes."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from flinkish.common import Types
from flinkish.datastream import BroadcastProcessFunction, DataStream, KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from flinkish.runtime.protocol import EpochCommand
from flinkish.testing import OneInputHarness, TwoInputHarness

BATCH = {"execution.runtime-mode": "BATCH"}
NAMES = MapStateDescriptor("names", Types.STRING(), Types.STRING())


def total(stream: DataStream) -> DataStream:
    return stream.key_by(lambda pair: pair[0]).sum(1)


@pytest.mark.parametrize("lost", [False, True])
def test_a_keyed_operator_emits_nothing_before_the_end_and_loses_nothing_with_its_process(lost: bool) -> None:
    with OneInputHarness(total, settings=BATCH) as harness:
        for pair in [("b", 1), ("a", 2), ("b", 3)]:
            harness.process_element(pair, 5)
            if lost:
                harness.lose_heap()
        assert harness.take_output() == []
        harness.end_input()
        assert harness.take_output() == [(("a", 2), None), (("b", 4), None)]


class Counted(KeyedProcessFunction):
    """Emits the records of a key with their number, and with a timer at its end how many they were."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(100)
        # Long due, but not before the key has ended.
        ctx.timer_service().register_processing_time_timer(-1)
        yield value, self.count.value()

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield ctx.get_current_key(), ctx.time_domain().name, self.count.value()


def release(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Let operators hand on about `count` records in each epoch, in pieces of as many."""
    monkeypatch.setattr("flinkish.runtime.spilling._PIECE", count)
    monkeypatch.setattr("flinkish.testing.piece_harness.EpochCommand", functools.partial(EpochCommand, release=count))


@pytest.mark.parametrize("lost", [False, True])
def test_what_was_sorted_is_handed_on_over_several_epochs_also_within_a_key(monkeypatch: pytest.MonkeyPatch, lost: bool) -> None:
    release(monkeypatch, 2)
    monkeypatch.setattr("flinkish.runtime.operators.batch._LOOK_RECORDS", 1)
    expected: list[Any] = []
    for key, count in (("a", 1), ("b", 5), ("c", 2), ("d", 1)):
        expected += [((key, number), number + 1) for number in range(count)]
        expected += [(key, "EVENT_TIME", count), (key, "PROCESSING_TIME", count)]
    with OneInputHarness(lambda stream: stream.key_by(lambda pair: pair[0]).process(Counted()), settings=BATCH) as harness:
        for key, count in (("d", 1), ("b", 5), ("a", 1), ("c", 2)):
            for number in reversed(range(count)):
                harness.process_element((key, number), number)
        harness.end_input()
        parts = [harness.take_values()]
        while parts[-1]:
            if lost:
                harness.lose_heap()
            harness.set_processing_time(len(parts))
            parts.append(harness.take_values())
    assert [value for part in parts for value in part] == expected
    assert len(parts) == 5


@pytest.mark.parametrize("lost", [False, True])
def test_records_wait_for_the_end_of_the_broadcast_input(lost: bool) -> None:
    class Name(BroadcastProcessFunction):
        def process_element(self, value: str, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Any:
            yield ctx.get_broadcast_state(NAMES).get(value)

        def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Any:
            ctx.get_broadcast_state(NAMES).put(*value)

    with TwoInputHarness(lambda one, two: one.connect(two.broadcast(NAMES)).process(Name()), settings=BATCH) as harness:
        harness.process_element1("a")
        harness.process_element2(("b", "Berta"))
        if lost:
            harness.lose_heap()
        harness.process_element1("b")
        harness.process_element2(("a", "Anton"))
        assert harness.take_values() == []
        harness.end_input2()
        assert harness.take_values() == ["Anton", "Berta"]
        if lost:
            harness.lose_heap()
        harness.process_element1("a")
        assert harness.take_values() == ["Anton"]
        harness.end_input1()
        assert harness.take_values() == []


@pytest.mark.parametrize("cut", [False, True])
def test_state_of_every_kind_starts_empty_for_each_key(monkeypatch: pytest.MonkeyPatch, cut: bool) -> None:
    class All(KeyedProcessFunction):
        def open(self, runtime_context: RuntimeContext) -> None:
            self.value = runtime_context.get_state(ValueStateDescriptor("value", Types.PICKLED_BYTE_ARRAY()))
            self.list = runtime_context.get_list_state(ListStateDescriptor("list", Types.LONG()))
            self.map = runtime_context.get_map_state(MapStateDescriptor("map", Types.LONG(), Types.LIST(Types.LONG())))
            self.sum = runtime_context.get_reducing_state(
                ReducingStateDescriptor("sum", lambda one, two: one + two, Types.LONG())
            )

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            yield self.value.value(), list(self.list.get()), list(self.map.items()), self.sum.get()
            self.value.update([value])
            self.list.add(value)
            self.map.put(value, [value])
            self.sum.add(value)

    if cut:
        # One record in each epoch, and a new process for each.
        release(monkeypatch, 1)
    with OneInputHarness(lambda stream: stream.key_by(lambda value: value % 3).process(All()), settings=BATCH) as harness:
        harness.process_elements(range(3))
        harness.process_element(3)
        harness.end_input()
        values = harness.take_values()
        for epoch in range(3 if cut else 0):
            harness.lose_heap()
            harness.set_processing_time(epoch)
            values += harness.take_values()
        assert values == [
            (None, [], [], None),
            ([0], [0], [(0, [0])], 0),
            (None, [], [], None),
            (None, [], [], None),
        ]

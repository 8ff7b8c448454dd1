"""CheckpointedFunction and CheckpointListener in an operator: restore, redistribution, lost processes."""

from __future__ import annotations

from typing import Any

import pytest

from flinkish.common import Types
from flinkish.common.errors import EngineError, StateError
from flinkish.datastream import (
    CheckpointedFunction,
    CheckpointListener,
    DataStream,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    MapFunction,
    ProcessFunction,
    RuntimeContext,
)
from flinkish.datastream.functions import FlatMapFunction, KeyedProcessFunction
from flinkish.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from flinkish.testing import OneInputHarness

KEPT = ListStateDescriptor("kept", Types.LONG())


class Keep(FlatMapFunction, CheckpointedFunction):
    """Keeps numbers in a list; 'show' emits what it keeps, with what it knows of itself."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        self.state = store.get_list_state(KEPT) if self.kind == "list" else store.get_union_list_state(KEPT)
        self.kept = list(self.state.get())
        self.restored = context.is_restored(), context.get_restored_checkpoint_id()
        assert store.get_registered_state_names() == {"kept"}
        assert store.get_registered_broadcast_state_names() == set()

    def open(self, runtime_context: RuntimeContext) -> None:
        # initialize_state comes first
        self.index = runtime_context.get_index_of_this_subtask(), self.restored

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update(self.kept)

    def flat_map(self, value: Any) -> Any:
        if value == "show":
            yield self.index, self.kept
        else:
            self.kept.append(value)


def harness_of(function: Any, **options: Any) -> OneInputHarness:
    def build(stream: DataStream) -> DataStream:
        return stream.rebalance().flat_map(function)

    return OneInputHarness(build, **options)


def shown(harness: OneInputHarness) -> dict[int, list[int]]:
    with harness.epoch():
        for _ in range(harness.parallelism):
            harness.process_element("show")
    return {index: kept for (index, _), kept in harness.take_values()}


def filled(kind: str) -> OneInputHarness:
    harness = harness_of(Keep(kind), parallelism=2)
    with harness.epoch():
        for number in range(10):
            harness.process_element(number)
    return harness


def test_at_the_same_parallelism_each_subtask_gets_its_own_list_back() -> None:
    with filled("list") as harness:
        before = shown(harness)
        with harness.restored(harness.snapshot()) as restored:
            assert shown(restored) == before


@pytest.mark.parametrize("parallelism", [1, 3, 4, 12])
def test_at_another_parallelism_the_elements_are_dealt_out_evenly(parallelism: int) -> None:
    with filled("list") as harness, harness.restored(harness.snapshot(), parallelism=parallelism) as restored:
        lists = shown(restored)
        assert sorted(number for kept in lists.values() for number in kept) == list(range(10))
        lengths = sorted(map(len, lists.values()))
        assert lengths[-1] - lengths[0] <= 1


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_union_list_gives_every_subtask_the_elements_of_all(parallelism: int) -> None:
    with filled("union") as harness, harness.restored(harness.snapshot(), parallelism=parallelism) as restored:
        lists = shown(restored)
        assert sorted(lists) == list(range(parallelism))
        assert all(sorted(kept) == list(range(10)) for kept in lists.values())


def test_broadcast_operator_state_is_copied_to_new_subtasks() -> None:
    descriptor = MapStateDescriptor("map", Types.STRING(), Types.LONG())

    class Same(FlatMapFunction, CheckpointedFunction):
        def initialize_state(self, context: FunctionInitializationContext) -> None:
            store = context.get_operator_state_store()
            self.map = store.get_broadcast_state(descriptor)
            if not context.is_restored():
                self.map.put("answer", 42)
            assert store.get_registered_broadcast_state_names() == {"map"}

        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            pass

        def flat_map(self, value: Any) -> Any:
            yield list(self.map.items())

    with harness_of(Same(), parallelism=2) as harness, harness.restored(harness.snapshot(), parallelism=5) as restored:
        with restored.epoch():
            for _ in range(5):
                restored.process_element("show")
        assert restored.take_values() == [[("answer", 42)]] * 5


def test_a_function_learns_whether_and_from_which_checkpoint_it_was_restored() -> None:
    with harness_of(Keep("list")) as harness:
        harness.process_element("show")
        assert harness.take_values() == [((0, (False, None)), [])]
        harness.snapshot()
        with harness.restored(harness.snapshot()) as restored:
            restored.process_element("show")
            assert restored.take_values() == [((0, (True, 2)), [])]


def test_the_snapshot_context_names_the_checkpoint() -> None:
    class Note(Keep):
        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            self.kept.append((context.get_checkpoint_id(), context.get_checkpoint_timestamp()))

    with harness_of(Note("list")) as harness:
        harness.set_processing_time(7)
        harness.snapshot()
        harness.process_element("show")
        assert harness.take_values() == [((0, (False, None)), [(1, 7)])]


def test_snapshot_state_is_called_for_checkpoints_only_not_for_every_epoch() -> None:
    class Calls(Keep):
        calls = 0

        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            self.calls += 1

        def flat_map(self, value: Any) -> Any:
            yield self.calls

    with harness_of(Calls("list")) as harness:
        harness.process_element(1)
        harness.process_element(2)
        harness.snapshot()
        harness.process_element(3)
        assert harness.take_values() == [0, 0, 1]


def test_a_lost_process_fails_the_attempt_since_its_attributes_are_gone() -> None:
    with filled("list") as harness:
        harness.lose_heap()
        with pytest.raises(EngineError, match=r"Keep is lost.*go back to its last checkpoint"):
            harness.process_element(1)


def test_one_name_for_a_list_and_a_union_list_is_refused() -> None:
    class Both(Keep):
        def initialize_state(self, context: FunctionInitializationContext) -> None:
            super().initialize_state(context)
            context.get_operator_state_store().get_union_list_state(KEPT)

    with pytest.raises(StateError, match="'kept'"):
        harness_of(Both("list"))


def test_on_a_keyed_stream_the_keyed_state_store_has_keyed_state() -> None:
    class Count(KeyedProcessFunction, CheckpointedFunction):
        def initialize_state(self, context: FunctionInitializationContext) -> None:
            self.count = context.get_keyed_state_store().get_state(ValueStateDescriptor("count", Types.LONG()))

        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            pass

        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
            self.count.update((self.count.value() or 0) + 1)
            yield value, self.count.value()

    with OneInputHarness(lambda stream: stream.key_by(lambda value: value).process(Count())) as harness:
        harness.process_elements(["a", "b", "a"])
        assert harness.take_values() == [("a", 1), ("b", 1), ("a", 2)]


def test_without_keys_the_keyed_state_store_refuses_by_name() -> None:
    class Wrong(Keep):
        def initialize_state(self, context: FunctionInitializationContext) -> None:
            context.get_keyed_state_store().get_state(ValueStateDescriptor("count", Types.LONG()))

    with pytest.raises(StateError, match="keyed stream"):
        harness_of(Wrong("list"))


def test_all_functions_of_a_chain_take_part_in_the_same_checkpoint() -> None:
    class Total(MapFunction, CheckpointedFunction):
        total = 0

        def initialize_state(self, context: FunctionInitializationContext) -> None:
            self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("total", Types.LONG()))
            self.total = sum(self.state.get())

        def snapshot_state(self, context: FunctionSnapshotContext) -> None:
            self.state.update([self.total])

        def map(self, value: int) -> int:
            self.total += value
            return self.total

    with OneInputHarness(lambda stream: stream.map(Total()).map(Total())) as harness:
        harness.process_elements([1, 2, 3])
        assert harness.take_values() == [1, 4, 10]
        with harness.restored(harness.snapshot()) as restored:
            restored.process_element(4)
            assert restored.take_values() == [20]


class Listen(ProcessFunction, CheckpointListener):
    """Emits what it was told of since the last record."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.told.append(checkpoint_id)

    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Any:
        yield list(self.told)


def test_a_listener_learns_of_completed_checkpoints() -> None:
    with OneInputHarness(lambda stream: stream.process(Listen()), parallelism=2) as harness:
        harness.notify_checkpoint_complete(3)
        harness.notify_checkpoint_complete(4)
        with harness.epoch():
            harness.process_element(1)
            harness.process_element(1)
        assert harness.take_values() == [[3, 4], [3, 4]]


def test_a_listener_need_not_care_for_aborted_checkpoints() -> None:
    Listen().notify_checkpoint_aborted(1)

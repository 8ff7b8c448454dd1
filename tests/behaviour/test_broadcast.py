"""Broadcast state and CheckpointedFunction in whole jobs: restart, rescale, listeners; on both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    CheckpointListener,
    FunctionInitializationContext,
    FunctionSnapshotContext,
    KeyedBroadcastProcessFunction,
    RuntimeContext,
    SinkFunction,
    StreamExecutionEnvironment,
)
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import FlatMapFunction
from flinkish.datastream.state import ListStateDescriptor, MapStateDescriptor, ValueStateDescriptor
from tests.conftest import MakeEnvironment, locally
from tests.kit.restarts import recovering
from tests.kit.results import collect

NAMES = MapStateDescriptor("names", Types.LONG(), Types.STRING())
_PATH = "execution.state-recovery.path"


class Cached(BroadcastProcessFunction):
    """Pairs numbers with the names of their classes, whether numbers or names come first; as in PyFlink's own test."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting: dict[int, list[int]] = {}

    def process_element(self, value: int, ctx: BroadcastProcessFunction.ReadOnlyContext) -> Any:
        name = ctx.get_broadcast_state(NAMES).get(value % 2)
        if name is not None:
            yield f"{value}{name}"
        else:
            self.waiting.setdefault(value % 2, []).append(value)

    def process_broadcast_element(self, value: Any, ctx: BroadcastProcessFunction.Context) -> Any:
        key, name = value
        ctx.get_broadcast_state(NAMES).put(key, name)
        yield f"{name}!"
        for waited in self.waiting.pop(key, []):
            yield f"{waited}{name}"


def test_every_record_meets_the_broadcast_elements_and_these_come_once_to_each_subtask(env: StreamExecutionEnvironment) -> None:
    names = env.from_collection([(0, "even"), (1, "odd")]).broadcast(NAMES)
    stream = env.from_collection([1, 2, 3, 4], Types.LONG()).connect(names).process(Cached(), Types.STRING())

    assert sorted(collect(stream)) == sorted(["even!", "even!", "odd!", "odd!", "1odd", "2even", "3odd", "4even"])


class CountByKey(KeyedBroadcastProcessFunction):
    """Counts each key; fails at one number, unless the marker file exists."""

    def __init__(self, marker: Path | None = None, at: int = -1) -> None:
        self.marker = marker
        self.at = at

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedBroadcastProcessFunction.ReadOnlyContext) -> Any:
        if value == self.at and self.marker is not None and not self.marker.exists():
            self.marker.touch()
            raise RuntimeError("once")
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(1)
        return ()

    def process_broadcast_element(self, value: Any, ctx: KeyedBroadcastProcessFunction.Context) -> Any:
        state = ctx.get_broadcast_state(NAMES)
        state.put(value, f"n{value}")
        return ()

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastProcessFunction.OnTimerContext) -> Any:
        yield ctx.get_current_key(), self.count.value(), len(ctx.get_broadcast_state(NAMES).keys())


def numbers(env: StreamExecutionEnvironment, last: int, name: str) -> Any:
    return env.from_source(NumberSequenceSource(0, last), WatermarkStrategy.no_watermarks(), name).uid(name)


def count(env: StreamExecutionEnvironment, function: CountByKey, records: int = 700) -> Any:
    rules = numbers(env, 49, "rules").broadcast(NAMES)
    keyed = numbers(env, records - 1, "numbers").key_by(lambda value: value % 7, key_type=Types.LONG())
    return keyed.connect(rules).process(function).uid("count")


def checkpointed(tmp_path: Path, **settings: Any) -> dict[str, Any]:
    return recovering(tmp_path, 70, **settings)


def test_keyed_state_timers_and_broadcast_state_survive_a_restart(make_env: MakeEnvironment, tmp_path: Path) -> None:
    env = make_env(settings=checkpointed(tmp_path))
    marker = tmp_path / "failed"

    assert sorted(collect(count(env, CountByKey(marker, 400)))) == [(key, 100, 50) for key in range(7)]
    assert marker.exists()


@locally
@pytest.mark.parametrize("parallelism", [1, 3])
def test_state_and_timers_continue_from_a_savepoint_at_another_parallelism(
    make_env: MakeEnvironment, tmp_path: Path, parallelism: int
) -> None:
    records = 20_000
    settings = checkpointed(tmp_path, **{"execution.checkpointing.interval": "1 h", "restart-strategy.type": "none"})
    # It would take 4,000 epochs to the end.
    env = make_env(2, {**settings, "execution.epoch.max-records": 5})
    count(env, CountByKey(), records).add_sink(Ignore()).uid("sink")
    client = env.execute_async()
    path = client.stop_with_savepoint(False, str(tmp_path / "savepoints")).result(120)
    client.get_job_execution_result().result(120)

    env = make_env(parallelism, {**settings, _PATH: path, "execution.epoch.max-records": records})
    results = Results(tmp_path / "results")
    count(env, CountByKey(), records).add_sink(results).uid("sink")
    env.execute()
    rows = sorted(tuple(map(int, line.split())) for line in results.lines())
    assert rows == [(key, len(range(key, records, 7)), 50) for key in range(7)]


class Ignore(SinkFunction):
    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        pass


class Results(SinkFunction):
    """Appends to a file of each subtask."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def open(self, runtime_context: RuntimeContext) -> None:
        self.folder.mkdir(exist_ok=True)
        self.file = self.folder / str(runtime_context.get_index_of_this_subtask())

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        with self.file.open("a", encoding="utf-8") as file:
            file.write(" ".join(map(str, value)) + "\n")

    def lines(self) -> list[str]:
        return [line for path in self.folder.iterdir() for line in path.read_text(encoding="utf-8").splitlines()]


# -- CheckpointedFunction ----------------------------------------------------------------------------------------------------


class Hundreds(FlatMapFunction, CheckpointedFunction):
    """Emits numbers in lists of a hundred; fails once."""

    def __init__(self, marker: Path, at: int) -> None:
        self.marker = marker
        self.at = at
        self.kept: list[int] = []

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_operator_state_store().get_list_state(ListStateDescriptor("kept", Types.LONG()))
        self.kept = list(self.state.get())

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.state.update(self.kept)

    def flat_map(self, value: int) -> Any:
        if value == self.at and not self.marker.exists():
            self.marker.touch()
            raise RuntimeError("once")
        self.kept.append(value)
        if len(self.kept) == 100:
            yield self.kept
            self.kept = []


@locally
def test_what_a_checkpointed_function_keeps_in_attributes_survives_a_restart(make_env: MakeEnvironment, tmp_path: Path) -> None:
    env = make_env(1, checkpointed(tmp_path, **{"execution.epoch.max-records": 130}))
    marker = tmp_path / "failed"
    lists = collect(numbers(env, 999, "numbers").flat_map(Hundreds(marker, 777)))

    assert marker.exists()
    assert [len(numbers) for numbers in lists] == [100] * 10
    assert sorted(number for numbers in lists for number in numbers) == list(range(1_000))


class CommitOnNotice(SinkFunction, CheckpointedFunction, CheckpointListener):
    """Two-phase commit by hand, as in Flink's documentation: writes when it is notified of a completed checkpoint."""

    def __init__(self, folder: Path, marker: Path | None = None) -> None:
        self.folder = folder
        self.marker = marker

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        self.state = context.get_operator_state_store().get_list_state(
            ListStateDescriptor("pending", Types.TUPLE([Types.LONG(), Types.LONG()]))
        )
        self.pending = list(self.state.get())
        self.open_ones: list[int] = []
        self.told: set[int] = set()
        # The checkpoint is complete, but its content may not have been written before the failure.
        restored = context.get_restored_checkpoint_id()
        if restored is not None:
            self.commit(restored)

    def open(self, runtime_context: RuntimeContext) -> None:
        self.folder.mkdir(exist_ok=True)

    def invoke(self, value: int, context: SinkFunction.Context) -> None:
        if value == 400 and self.marker is not None and not self.marker.exists():
            self.marker.touch()
            raise RuntimeError("once")
        self.open_ones.append(value)

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.pending += [(context.get_checkpoint_id(), value) for value in self.open_ones]
        self.open_ones = []
        self.state.update(self.pending)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        assert checkpoint_id not in self.told
        self.told.add(checkpoint_id)
        self.commit(checkpoint_id)

    def commit(self, checkpoint_id: int) -> None:
        for covered, value in self.pending:
            if covered <= checkpoint_id:
                (self.folder / str(value)).touch()
        self.pending = [pair for pair in self.pending if pair[0] > checkpoint_id]


def test_a_sink_function_may_commit_when_a_checkpoint_is_complete_and_learns_of_the_last_one_too(
    make_env: MakeEnvironment, tmp_path: Path
) -> None:
    env = make_env(settings=checkpointed(tmp_path))
    marker, folder = tmp_path / "failed", tmp_path / "written"
    numbers(env, 599, "numbers").add_sink(CommitOnNotice(folder, marker))
    env.execute()

    assert marker.exists()
    assert sorted(int(path.name) for path in folder.iterdir()) == list(range(600))


@locally
def test_without_checkpoints_nothing_is_notified_and_nothing_is_stored(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    folder = tmp_path / "written"
    numbers(env, 9, "numbers").add_sink(CommitOnNotice(folder))
    env.execute()

    assert list(folder.iterdir()) == []

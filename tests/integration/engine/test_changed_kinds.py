"""A job that goes on from a savepoint with operators of another kind under the old uids: refused by name, or as in Flink."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any, cast

import pytest

from flinkish.common import Time, Types, WatermarkStrategy
from flinkish.common.errors import ForeignCheckpointError, JobExecutionError
from flinkish.datastream import DataStream, KeyedProcessFunction, RuntimeContext, StreamExecutionEnvironment
from flinkish.datastream.connectors.collection import CollectionSource
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.hybrid_source import HybridSource
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import MapFunction, ProcessJoinFunction
from flinkish.datastream.keyed_stream import KeyedStream
from flinkish.datastream.state import ValueStateDescriptor
from flinkish.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.program.sources import Source
from tests.kit.environments import env_of
from tests.kit.functions import Itself
from tests.kit.waiting import wait_for_checkpoints

_PATH = "execution.state-recovery.path"
_FAR = 1_000_000


class Last(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def map(self, value: int) -> int:
        before = self.last.value()
        self.last.update(value)
        return -1 if before is None else before


class LastWithTimer(KeyedProcessFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Any:
        ctx.timer_service().register_event_time_timer(_FAR)
        yield -1 if self.last.value() is None else self.last.value()
        self.last.update(value)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        yield timestamp


class Pairs(ProcessJoinFunction):
    def process_element(self, left: int, right: int, ctx: ProcessJoinFunction.Context) -> Any:
        yield left


def _joined(keyed: KeyedStream) -> DataStream:
    return keyed.interval_join(keyed).between(Time.milliseconds(-_FAR), Time.milliseconds(_FAR)).process(Pairs(), Types.LONG())


OPERATORS: dict[str, Callable[[KeyedStream], DataStream]] = {
    "map": lambda k: k.map(Last(), Types.LONG()),
    "process": lambda k: k.process(LastWithTimer(), Types.LONG()),
    "reduce": lambda k: k.reduce(max),
    "join": _joined,
    "tumbling": lambda k: k.window(TumblingEventTimeWindows.of(Time.milliseconds(_FAR))).reduce(max),
    "sessions": lambda k: k.window(EventTimeSessionWindows.with_gap(Time.milliseconds(_FAR))).reduce(max),
}
#: Operators of one kind, which check each other's state by its parts.
ALIKE: tuple[set[str], ...] = ({"map", "process"}, {"tumbling", "sessions"})
SOURCES: dict[str, Source[Any, Any, Any]] = {
    "sequence": NumberSequenceSource(1, 4),
    "collection": CollectionSource([1, 2, 3, 4], Types.LONG()),
    "generated": DataGeneratorSource(int, 4, type_info=Types.LONG()),
    "hybrid": HybridSource.builder(NumberSequenceSource(1, 4)).build(),
    "other hybrid": HybridSource.builder(CollectionSource([1, 2, 3, 4], Types.LONG())).build(),
}


def environment(folder: Path, **settings: Any) -> StreamExecutionEnvironment:
    configuration = {
        "execution.epoch.target-duration": "10 ms",
        "execution.checkpointing.interval": "20 ms",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        "execution.state-recovery.ignore-unclaimed-state": "true",
        "security.checkpoint.hmac-key-file": str(folder / "keys" / "key"),
        **settings,
    }
    return env_of(configuration)


def keyed(env: StreamExecutionEnvironment, source: Source[Any, Any, Any], uid: str) -> KeyedStream:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Itself())
    return env.from_source(source, strategy, uid, Types.LONG()).uid(uid).key_by(lambda value: 0, Types.LONG())


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder, and a savepoint in it with the state of all operators and of all sources, which are finished."""
    folder = tmp_path_factory.mktemp("kinds")
    env = environment(folder)
    numbers = keyed(env, DataGeneratorSource(lambda index: index % 10, type_info=Types.LONG(), records_per_second=100), "numbers")
    for uid, operator in OPERATORS.items():
        operator(numbers).uid(uid).sink_to(DiscardingSink())
    for uid, source in SOURCES.items():
        env.from_source(source, WatermarkStrategy.no_watermarks(), uid).uid(uid).sink_to(DiscardingSink())
    client = cast(EmbeddedJobClient, env.execute_async("all kinds"))
    wait_for_checkpoints(client, 3)
    return folder, client.stop_with_savepoint(False, str(folder / "savepoints")).result(120)


def go_on(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect("next") as results:
        return list(results)


@pytest.mark.parametrize(("before", "after"), [pair for pair in permutations(OPERATORS, 2) if set(pair) not in ALIKE])
def test_an_operator_does_not_take_over_state_of_another_kind(savepoint: tuple[Path, str], before: str, after: str) -> None:
    folder, path = savepoint
    env = environment(folder, **{_PATH: path})
    stream = OPERATORS[after](keyed(env, NumberSequenceSource(100, 100), "more")).uid(before)
    with pytest.raises(ForeignCheckpointError, match=rf"operator {before} \(.*\) cannot take over .* has its uid"):
        go_on(stream)


@pytest.mark.parametrize(("before", "after", "fired"), [("map", "process", [_FAR]), ("process", "map", [])])
def test_functions_find_the_state_that_they_name_alike(
    savepoint: tuple[Path, str], before: str, after: str, fired: list[int]
) -> None:
    folder, path = savepoint
    env = environment(folder, **{_PATH: path})
    last, *rest = go_on(OPERATORS[after](keyed(env, NumberSequenceSource(100, 100), "more")).uid(before))
    assert 0 <= last < 10
    assert rest == fired


@pytest.mark.parametrize(("before", "after"), list(permutations(SOURCES, 2)))
def test_a_finished_source_is_not_taken_for_the_end_of_another(savepoint: tuple[Path, str], before: str, after: str) -> None:
    folder, path = savepoint
    env = environment(folder, **{_PATH: path})
    stream = env.from_source(SOURCES[after], WatermarkStrategy.no_watermarks(), "next").uid(before)
    with pytest.raises((ForeignCheckpointError, JobExecutionError), match=r"ource .* with splits of the class") as refused:
        go_on(stream)
    assert isinstance(refused.value, ForeignCheckpointError) or isinstance(refused.value.__cause__, ForeignCheckpointError)


@pytest.mark.parametrize("uid", SOURCES)
def test_a_finished_source_of_the_same_kind_stays_finished(savepoint: tuple[Path, str], uid: str) -> None:
    folder, path = savepoint
    env = environment(folder, **{_PATH: path})
    assert go_on(env.from_source(SOURCES[uid], WatermarkStrategy.no_watermarks(), uid).uid(uid)) == []

"""Bounded sources whose order says nothing about event time, such as DataFrames: no record is late, on both engines."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Duration, Time, Types, WatermarkStrategy
from flinkish.common.errors import InvalidProgramError, UnsupportedError
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import ProcessJoinFunction, ProcessWindowFunction, StreamExecutionEnvironment, TimeWindow
from flinkish.datastream.connectors import NumberSequenceSource
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.window import TumblingEventTimeWindows
from flinkish.testing import JobHarness
from tests.conftest import MakeEnvironment, also_on_spark, locally
from tests.kit.functions import FailOnce
from tests.kit.programs import program_of
from tests.kit.restarts import restarting
from tests.kit.results import collect

COUNT = 1_000
#: Has no common factor with COUNT, so that all times differ and are far out of order.
STEP = 619
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
NONE = WatermarkStrategy.no_watermarks()


class Shuffled(NumberSequenceSource):
    """Numbers, which the test takes for positions in an arbitrary order."""

    unordered = True


class Scrambled(TimestampAssigner):
    """Event times that have nothing to do with the order."""

    def extract_timestamp(self, value: int, record_timestamp: int) -> int:
        return value * STEP % COUNT


STRATEGY = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Scrambled()).with_idleness(Duration.of_millis(1))


class Size(ProcessWindowFunction[Any, Any, int, TimeWindow]):
    def process(self, key: int, context: Any, elements: Iterable[Any]) -> Iterable[tuple[int, int]]:
        return [(context.window().start, len(list(elements)))]


class Pairs(ProcessJoinFunction):
    def process_element(self, left: int, right: int, ctx: Any) -> Iterable[tuple[int, int]]:
        return [(left, right)]


def small_epochs(**settings: Any) -> dict[str, Any]:
    return {"execution.runtime-mode": "STREAMING", "execution.epoch.max-records": 100, **settings}


def sizes(stream: Any) -> Any:
    windows = stream.key_by(lambda number: 0, key_type=Types.LONG()).window(TumblingEventTimeWindows.of(Time.milliseconds(100)))
    return windows.process(Size(), PAIR)


FULL = [(start, 100) for start in range(0, COUNT, 100)]


def shuffled(env: StreamExecutionEnvironment, strategy: WatermarkStrategy = STRATEGY) -> Any:
    return env.from_source(Shuffled(0, COUNT - 1), strategy, "rows", Types.LONG())


@also_on_spark("where", ["at the source", "behind it"], "at the source")
def test_windows_are_complete_and_fire_in_order_also_after_a_failure(
    make_env: MakeEnvironment, tmp_path: Path, where: str
) -> None:
    env = make_env(
        2,
        small_epochs(
            **{
                "execution.checkpointing.interval": "10 ms",
                "execution.checkpointing.dir": tmp_path / "checkpoints",
                **restarting(3, "10 ms"),
            }
        ),
    )
    markers = tmp_path / "failed"
    stream = shuffled(env) if where == "at the source" else shuffled(env, NONE)
    stream = stream.map(FailOnce(markers, COUNT // 3), output_type=Types.LONG())
    if where == "behind it":
        stream = stream.assign_timestamps_and_watermarks(STRATEGY)
    assert collect(sizes(stream)) == FULL
    assert list(markers.parent.glob("failed*"))


@locally
def test_an_interval_join_finds_all_partners(make_env: MakeEnvironment, caplog: pytest.LogCaptureFixture) -> None:
    env = make_env(2, small_epochs())
    left, right = (shuffled(env).key_by(lambda number: 0, Types.LONG()) for _ in range(2))
    join = left.interval_join(right).between(Time.milliseconds(0), Time.milliseconds(0)).process(Pairs(), PAIR)
    with caplog.at_level(logging.WARNING):
        assert sorted(collect(join)) == [(number, number) for number in range(COUNT)]
    assert "late" not in caplog.text


def test_a_stream_that_goes_on_waits_for_the_rows_and_then_has_its_own_watermarks() -> None:
    def program(env: StreamExecutionEnvironment, job: JobHarness) -> None:
        stream = shuffled(env).union(env.from_source(job.source("live", Types.LONG()), NONE, "live"))
        sizes(stream).sink_to(job.sink("sizes"))

    with JobHarness(program, settings=small_epochs()) as job:
        live = job.source("live")
        live.emit(7, 50)
        live.emit(8, 1_050)
        live.watermark(1_000)
        assert [record.value for record in job.sink("sizes").take_output()] == [(0, 101), *FULL[1:]]
        live.watermark(1_100)
        assert [record.value for record in job.sink("sizes").take_output()] == [(1_000, 1)]


@locally
def test_watermarks_behind_a_union_with_an_endless_stream_are_refused(make_env: MakeEnvironment) -> None:
    env = make_env(2)
    endless = env.from_source(DataGeneratorSource(lambda index: index, type_info=Types.LONG()), NONE, "live")
    stream = shuffled(env, NONE).map(lambda number: number, output_type=Types.LONG()).union(endless)
    stream.assign_timestamps_and_watermarks(STRATEGY).print()
    with pytest.raises(InvalidProgramError, match=r"'Timestamps/Watermarks' would have to.*'Source: rows'.*'Source: live'"):
        env.execute()


@locally
def test_rows_that_only_enrich_an_endless_stream_do_not_hold_its_watermarks_back(make_env: MakeEnvironment) -> None:
    from flinkish.datastream.functions import CoMapFunction
    from flinkish.engine.launcher import check
    from flinkish.program.operators import TimestampsAndWatermarksConfig

    class Left(CoMapFunction):
        def map1(self, value: Any) -> Any:
            return value

        def map2(self, value: Any) -> Any:
            return value

    env = make_env(2)
    endless = env.from_source(DataGeneratorSource(lambda index: index, type_info=Types.LONG()), NONE, "live")
    endless.connect(shuffled(env, NONE)).map(Left()).assign_timestamps_and_watermarks(STRATEGY).print()
    nodes = check(program_of(env)).stream_graph.nodes.values()
    [config] = [node.operator for node in nodes if isinstance(node.operator, TimestampsAndWatermarksConfig)]
    assert config.strategy.generates_watermarks


@locally
def test_alignment_is_refused(make_env: MakeEnvironment) -> None:
    aligned = STRATEGY.with_watermark_alignment("group", Duration.of_seconds(1))
    with pytest.raises(UnsupportedError, match="Shuffled is read on the driver or in Spark's order"):
        shuffled(make_env(2), aligned)

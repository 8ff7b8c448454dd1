"""Whole jobs against plain models: whatever happens to them, each result is committed once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkish.common import Time, Types, WatermarkStrategy
from flinkish.datastream import KeyedProcessFunction, ProcessJoinFunction, RuntimeContext, StreamExecutionEnvironment
from flinkish.datastream.data_stream import DataStream
from flinkish.datastream.state import MapStateDescriptor
from flinkish.datastream.window import EventTimeSessionWindows, TumblingEventTimeWindows
from flinkish.testing import JobHarness, StreamRecord
from flinkish.testing.steps import Emit, Step
from flinkish.testing.strategies import interleaved, job_faults, streams, with_faults
from tests.models.testing.examples import examples

RECORD = Types.TUPLE([Types.STRING(), Types.LONG()])
VALUES, KEYS = st.integers(1, 9), st.sampled_from("abc")
#: Two splits, of which one may be idle; no record is late, so the results do not depend on what is read when.
ONE = with_faults(streams(VALUES, keys=KEYS, splits=2, max_size=20, idle=True), job_faults(), max_faults=4)
TWO = with_faults(
    interleaved(*(streams(VALUES, keys=KEYS, source=side, max_size=12) for side in ("left", "right"))), job_faults(), max_faults=4
)

Program = Callable[[StreamExecutionEnvironment, JobHarness], None]
Records = list[tuple[str, int, int]]


def read(env: StreamExecutionEnvironment, job: JobHarness, name: str = "source", splits: int = 1) -> DataStream:
    return env.from_source(job.source(name, RECORD, splits=splits), WatermarkStrategy.no_watermarks(), name)


def outcome(program: Program, script: list[Step], parallelism: int) -> Counter[Any]:
    with JobHarness(program, parallelism=parallelism, max_parallelism=8) as job:
        job.play(script)
        job.finish()
        committed = job.sink("out").committed()
        written = Counter(job.sink("out").take_output())
    assert not Counter(committed) - written, "what was committed was written before"
    return Counter(committed)


def records(script: list[Step], source: str = "source") -> Records:
    """Return key, number and time of what a source gives."""
    emitted = (step for step in script if isinstance(step, Emit) and step.source == source)
    return [(*step.value, step.timestamp) for step in emitted if step.timestamp is not None]


def added(one: Any, other: Any) -> Any:
    return one[0], one[1] + other[1]


def tumbling(records: Records) -> Counter[Any]:
    sums: dict[tuple[str, int], int] = defaultdict(int)
    for key, number, timestamp in records:
        sums[key, timestamp - timestamp % 10 + 9] += number
    return Counter(StreamRecord((key, total), last) for (key, last), total in sums.items())


def sessions(records: Records) -> Counter[Any]:
    found: list[tuple[str, int, int]] = []
    previous: tuple[str, int] | None = None
    for key, number, timestamp in sorted(records, key=lambda record: (record[0], record[2])):
        if previous is not None and previous[0] == key and timestamp - previous[1] <= 5:
            number += found.pop()[1]
        found.append((key, number, timestamp + 4))
        previous = key, timestamp
    return Counter(StreamRecord((key, total), last) for key, total, last in found)


@pytest.mark.parametrize(
    ("assigner", "model"),
    [
        (TumblingEventTimeWindows.of(Time.milliseconds(10)), tumbling),
        (EventTimeSessionWindows.with_gap(Time.milliseconds(5)), sessions),
    ],
    ids=["tumbling", "sessions"],
)
@examples(8)
@given(script=ONE, parallelism=st.integers(1, 3))
def test_each_window_is_committed_once(
    assigner: Any, model: Callable[[Records], Counter[Any]], script: list[Step], parallelism: int
) -> None:
    def program(env: StreamExecutionEnvironment, job: JobHarness) -> None:
        windows = read(env, job, splits=2).key_by(lambda record: record[0], Types.STRING()).window(assigner)
        windows.reduce(added, output_type=RECORD).sink_to(job.sink("out"))

    assert outcome(program, script, parallelism) == model(records(script))


class Ranked(KeyedProcessFunction):
    """Keeps all numbers with their times and tells, when the watermark has passed a time, which is the how-manieth of its key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.waiting = runtime_context.get_map_state(MapStateDescriptor("waiting", Types.LONG(), Types.LIST(Types.LONG())))
        self.told = runtime_context.get_map_state(MapStateDescriptor("told", Types.STRING(), Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        timestamp = ctx.timestamp()
        self.waiting.put(timestamp, [*(self.waiting.get(timestamp) or []), value[1]])
        ctx.timer_service().register_event_time_timer(timestamp)

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Any:
        rank = self.told.get("count") or 0
        for number in sorted(self.waiting.get(timestamp)):
            rank += 1
            yield ctx.get_current_key(), rank, number
        self.told.put("count", rank)
        self.waiting.remove(timestamp)


@examples(8)
@given(script=ONE, parallelism=st.integers(1, 3))
def test_timers_put_the_records_of_a_key_in_order_and_none_is_lost(script: list[Step], parallelism: int) -> None:
    def program(env: StreamExecutionEnvironment, job: JobHarness) -> None:
        ranked = read(env, job, splits=2).key_by(lambda record: record[0], Types.STRING()).process(Ranked())
        ranked.sink_to(job.sink("out"))

    expected: Counter[Any] = Counter()
    ranks: Counter[str] = Counter()
    for key, timestamp, number in sorted((key, timestamp, number) for key, number, timestamp in records(script)):
        ranks[key] += 1
        expected[StreamRecord((key, ranks[key], number), timestamp)] += 1
    assert outcome(program, script, parallelism) == expected


class Pairs(ProcessJoinFunction):
    def process_element(self, left: Any, right: Any, ctx: ProcessJoinFunction.Context) -> Any:
        yield left[0], left[1], right[1]


@examples(8)
@given(script=TWO, parallelism=st.integers(1, 3))
def test_each_pair_of_a_join_is_committed_once(script: list[Step], parallelism: int) -> None:
    def program(env: StreamExecutionEnvironment, job: JobHarness) -> None:
        left, right = (read(env, job, side).key_by(lambda record: record[0], Types.STRING()) for side in ("left", "right"))
        join = left.interval_join(right).between(Time.milliseconds(-5), Time.milliseconds(8))
        join.process(Pairs()).sink_to(job.sink("out"))

    expected = Counter(
        StreamRecord((key, number, partner), max(timestamp, time))
        for key, number, timestamp in records(script, "left")
        for other, partner, time in records(script, "right")
        if key == other and -5 <= time - timestamp <= 8
    )
    assert outcome(program, script, parallelism) == expected

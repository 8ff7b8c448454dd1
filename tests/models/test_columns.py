"""Programs on columns give the results of the same programs on records, value for value."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from flinkish.common import Configuration, Duration, Time, TypeInformation, Types, WatermarkStrategy
from flinkish.datastream import DataStream, OutputTag, RuntimeExecutionMode, StreamExecutionEnvironment, aggregates
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.window import SlidingEventTimeWindows, TumblingEventTimeWindows
from flinkish.runtime.operators.column_fold import ColumnFold

#: Each seed is one program with its data.
SEEDS = range(60)
_LONGS = (0, 1, -1, 2**31, -(2**63), 2**63 - 1, 10**15)
_DOUBLES = (0.0, -0.0, 0.1, -2.5, math.inf, -math.inf, math.nan, 1e300)
_RECORDS = 700
_NUMERIC = ("long", "small", "double")
TYPES = {"long": Types.LONG(), "small": Types.INT(), "double": Types.DOUBLE(), "text": Types.STRING(), "time": Types.LONG()}
ROW = Types.ROW_NAMED(["key", *TYPES], [Types.LONG(), *TYPES.values()])
TEXT_ROW = Types.ROW_NAMED(["key", *TYPES], [Types.STRING(), *TYPES.values()])
LATE = OutputTag("late", ROW)


class Data:
    """Records by their numbers, as a batch."""

    def __init__(self, seed: int, row_type: TypeInformation) -> None:
        chance = random.Random(seed)
        keys: list[Any] = [
            chance.choice((-5, 7, 0, 2**62)) + chance.randrange(chance.choice((1, 5, 300))) for _ in range(_RECORDS)
        ]
        if row_type is TEXT_ROW:
            keys = [f"é{key % 97}" for key in keys]
        nulls, extremes = chance.choice((0, 0.2)), chance.choice((0, 0, 0.05))

        def values(make: Callable[[], Any], special: tuple[Any, ...]) -> list[Any]:
            return [
                None if chance.random() < nulls else chance.choice(special) if chance.random() < extremes else make()
                for _ in range(_RECORDS)
            ]

        times = [max(0, number * 20 - chance.randrange(chance.choice((1, 3_000)))) for number in range(_RECORDS)]
        self.columns = {
            "key": keys,
            "long": values(lambda: chance.randrange(-1000, 1000), _LONGS),
            "small": values(lambda: chance.randrange(-9, 9), (2**31 - 1, -(2**31))),
            "double": values(lambda: chance.uniform(-1, 1), _DOUBLES),
            "text": values(lambda: chance.choice("abc"), ("",)),
            "time": times,
        }

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = batch["value"].to_pylist()
        return pa.table({name: [column[number] for number in numbers] for name, column in self.columns.items()})


def chosen_aggregates(chance: random.Random) -> dict[str, Any]:
    makers = [aggregates.sum, aggregates.min, aggregates.max, aggregates.avg, aggregates.count]
    found = {f"a{number}": chance.choice(makers)(chance.choice(_NUMERIC)) for number in range(chance.randrange(1, 4))}
    if chance.random() < 0.2:
        found["last"] = chance.choice((aggregates.first, aggregates.last))("text")
        found["by"] = chance.choice((aggregates.min_by, aggregates.max_by))("text", "small")
    return {"key": aggregates.key(), **found, "n": aggregates.count()}


def program(seed: int, rows: DataStream) -> DataStream:
    """Return the results of the program of a seed."""
    chance = random.Random(-seed)
    figures = chosen_aggregates(chance)
    kind = chance.choice(("rolling", "tumbling", "sliding", "late", "epoch"))
    if kind == "rolling":
        return rows.key_by("key").aggregate(**figures)
    if kind == "epoch":
        # The records of a bounded source of this size are in one epoch... or in several: only the last result of a key counts.
        return rows.key_by("key").aggregate(per="epoch", **figures)
    bound = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(chance.choice((0, 1_000, 9_000))))
    timed = rows.assign_timestamps_and_watermarks(bound.with_timestamp_assigner("time"))
    size = Time.milliseconds(chance.choice((500, 3_000, 60_000)))
    slide = Time.milliseconds(chance.choice((500, 700, 1_500)))
    windows = timed.key_by("key").window(
        SlidingEventTimeWindows.of(size, slide) if kind == "sliding" else TumblingEventTimeWindows.of(size)
    )
    if kind == "late":
        windows = windows.allowed_lateness(Time.milliseconds(chance.choice((0, 2_000))))
    return windows.aggregate(start=aggregates.window_start(), end=aggregates.window_end(), **figures)


def results(seed: int, *, columns: bool, mode: RuntimeExecutionMode, parallelism: int) -> list[str]:
    row_type = TEXT_ROW if seed % 3 == 0 else ROW
    configuration = Configuration()
    configuration.set_string("execution.engine", "local")
    # Several epochs, so that there are several watermarks.
    configuration.set_string("execution.epoch.max-records", str(random.Random(seed).choice((40, 150, 400))))
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    env.set_runtime_mode(mode)
    numbers = env.from_source(NumberSequenceSource(0, _RECORDS - 1), WatermarkStrategy.no_watermarks(), "numbers")
    rows = numbers.set_parallelism(1).map_batches(Data(seed, row_type), row_type).set_parallelism(1)
    if not columns:
        rows = rows.map(lambda row: row, row_type).set_parallelism(1)
    try:
        return [repr(row) for row in program(seed, rows).execute_and_collect(limit=10**6)]
    except Exception as error:
        (reason,) = re.findall(r"TypeMismatchError: ([^\n]*)", str(error))[-1:]
        return [re.sub("operator [0-9a-f]*", "operator", reason)]


@pytest.mark.parametrize("seed", SEEDS)
def test_results_are_those_of_records(seed: int) -> None:
    found = [results(seed, columns=columns, mode=RuntimeExecutionMode.STREAMING, parallelism=1) for columns in (True, False)]
    assert found[0] == found[1]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_batch_mode_and_two_subtasks_change_nothing(seed: int) -> None:
    for mode in (RuntimeExecutionMode.BATCH, RuntimeExecutionMode.STREAMING):
        found = [sorted(results(seed, columns=columns, mode=mode, parallelism=2)) for columns in (True, False)]
        assert found[0] == found[1]


def test_the_programs_do_fold_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this, all programs might fall back to records and the others would show nothing."""
    calls = {"fold": 0, "running": 0}
    for name in calls:
        method = getattr(ColumnFold, name)

        def counted(self: Any, *arguments: Any, name: str = name, method: Any = method) -> Any:
            result = method(self, *arguments)
            calls[name] += result is not None
            return result

        monkeypatch.setattr(ColumnFold, name, counted)
    for seed in SEEDS:
        results(seed, columns=True, mode=RuntimeExecutionMode.STREAMING, parallelism=1)
    assert calls["fold"] > 30
    assert calls["running"] > 10

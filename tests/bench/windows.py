"""Windows and joins over 100,000 keys: records/s on both engines, compared with PyFlink's process mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkish.common import Time, Types
from flinkish.datastream.functions import ProcessJoinFunction
from tests.bench.programs import PROGRAMS, EventTime, drop, keyed, numbers, seconds

Program = Callable[[Any, int], None]

#: Records/s on two cores, and how many times PyFlink's process mode.
GOALS = {"tumbling": 200_000, "sliding, shared panes": 150_000}
PEER_GOAL = 20
#: As many as PyFlink takes some minutes for; with fewer its start, and ours, would be what is compared.
PEER_RECORDS = {"tumbling": 30_000, "sliding": 10_000, "sparse sliding": 10_000, "session": 30_000, "broadcast join": 2_000_000}


class Sum(ProcessJoinFunction):
    """Adds up the two records of a pair."""

    def process_element(self, left: int, right: int, ctx: ProcessJoinFunction.Context) -> tuple[int]:
        return (left + right,)


def interval_join(env: Any, records: int) -> None:
    """Two streams with one record of each key in a second; a record meets about two of the other. PyFlink has no such join."""
    half = records // 2
    left, right = (keyed(numbers(env, half, EventTime(half, 1))) for _ in range(2))
    drop(left.interval_join(right).between(Time.seconds(-1), Time.seconds(1)).process(Sum(), Types.LONG()))


BENCHED: dict[str, Program] = {
    **{name: program for name, program in PROGRAMS.items() if name != "count"},
    "interval join": interval_join,
}
_FOLDS = ("sliding", "sparse sliding")


def ways(name: str) -> dict[str, dict[str, str]]:
    """Return the ways in which a program may run, by what they are called in the report: settings of each."""
    if name not in _FOLDS:
        return {name: {}}
    return {f"{name}, window by window": {}, f"{name}, shared panes": {"execution.windows.share-panes": "true"}}


def after_warm_up(program: Program, small: int, large: int, settings: dict[str, str]) -> float:
    """Return the rate on Spark, by the difference of two runs."""
    settings = {"execution.engine": "spark", **settings}
    short = seconds(program, small, settings)
    return (large - small) / (seconds(program, large, settings) - short)


def end_to_end(program: Program, records: int, settings: dict[str, str]) -> float:
    """Return the rate on the local engine, which has nothing to warm up."""
    return records / seconds(program, records, {"execution.engine": "local", **settings})

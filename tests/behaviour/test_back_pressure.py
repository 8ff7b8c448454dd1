"""On Spark, REST points at the slow operator: what it says of back pressure, busy time and who waits for whom.

In virtual time, with exact figures, tests/unit/jobmaster/test_back_pressure.py has the same shapes of jobs, and more.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream import DataStream
from flinkish.datastream.connectors.base import Sink, SinkWriter, SinkWriterContext, WriteContext
from flinkish.datastream.connectors.discard import DiscardingSink
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from tests.conftest import MakeEnvironment
from tests.kit.waiting import wait_until
from tests.unit.server.support import Server, served

pytestmark = pytest.mark.parametrize("engine", [pytest.param("spark", marks=pytest.mark.spark)], indirect=True)

#: Figures that the page and the clients of Flink's REST ask for.
_FIGURES = ("busyTimeMsPerSecond", "backPressuredTimeMsPerSecond", "idleTimeMsPerSecond")
#: In an epoch, the slow operator sleeps for about a second, so that the engine's own time is small in comparison.
_SETTINGS = {"execution.epoch.target-duration": "2 s", "execution.epoch.max-records": "250"}
_EPOCHS = 4


def slow(value: int) -> int:
    time.sleep(0.004)
    return value


def slow_for_zero(value: int) -> int:
    return slow(value) if value == 0 else value


class SlowSink(Sink[Any, None]):
    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, None]:
        return SlowWriter()


class SlowWriter(SinkWriter[Any, None]):
    def write(self, value: Any, context: WriteContext) -> None:
        slow(value)


def slow_in_the_middle(numbers: DataStream) -> None:
    before = numbers.rebalance().map(lambda v: v, Types.LONG()).name("before")
    middle = before.rebalance().map(slow, Types.LONG()).name("slow")
    middle.rebalance().map(lambda v: v, Types.LONG()).name("after").sink_to(DiscardingSink())


def slow_sink(numbers: DataStream) -> None:
    numbers.rebalance().map(lambda v: v, Types.LONG()).name("before").rebalance().sink_to(SlowSink()).name("slow")


def slow_key(numbers: DataStream) -> None:
    # Two thirds of the records have the key 0, whose work is slow.
    keyed = numbers.rebalance().map(lambda v: int(v % 3 == 0), Types.LONG()).name("before").key_by(lambda v: v, Types.LONG())
    keyed.map(slow_for_zero, Types.LONG()).name("slow").rebalance().map(lambda v: v, Types.LONG()).name("after").sink_to(
        DiscardingSink()
    )


class Answers:
    """What REST says of the vertices of a job, by the first word of their names."""

    def __init__(self, server: Server, job_id: str) -> None:
        vertices = {each["name"].removeprefix("Sink: ").split()[0]: each for each in server.get(f"/jobs/{job_id}")["vertices"]}
        at = {name: f"/jobs/{job_id}/vertices/{each['id']}" for name, each in vertices.items()}
        self.back_pressure = {name: server.get(f"{place}/backpressure") for name, place in at.items()}
        wanted = ",".join(_FIGURES)
        self.figures = {
            name: {each["id"]: each for each in server.get(f"{place}/subtasks/metrics?get={wanted}")}
            for name, place in at.items()
        }

    def most(self, figure: str, name: str) -> float:
        return float(self.figures[name][figure]["max"])

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {self.back_pressure[name]} {self.figures[name]}" for name in self.figures)


@pytest.mark.parametrize(
    "shape",
    [
        slow_in_the_middle,
        pytest.param(slow_sink, marks=pytest.mark.soak),
        pytest.param(slow_key, marks=pytest.mark.soak),
    ],
)
def test_rest_points_at_the_slow_operator(make_env: MakeEnvironment, shape: Callable[[DataStream], None]) -> None:
    env = make_env(2, _SETTINGS)
    shape(env.from_source(NumberSequenceSource(0, 10**12), WatermarkStrategy.no_watermarks(), "numbers"))
    with served() as server:
        client = env.execute_async(shape.__name__)
        try:
            over = lambda: client.get_job_status().result().is_terminal_state()  # noqa: E731
            wait_until("some epochs", lambda: client.figures().epochs >= _EPOCHS, ended=over)
            found = Answers(server, str(client.get_job_id()))
        finally:
            client.cancel().result()
    # The slow vertex is the busiest and waits for nobody.
    names = set(found.figures)
    assert max(names, key=lambda name: found.most("busyTimeMsPerSecond", name)) == "slow", found
    # What is before it waits as long as it works; what is after it has nothing to do. How much of the whole time that is, and so
    # the level, depends on the engine's own time: on a busy machine, an epoch of a second of work may take thirty.
    waiting = {name for name in names if any(each["ratio"] > 0 for each in found.back_pressure[name]["subtasks"])}
    assert waiting == {"Source:", "before"}, found
    busy = found.most("busyTimeMsPerSecond", "slow")
    for name in names:
        held = found.most("backPressuredTimeMsPerSecond", name)
        assert held > 0.7 * busy if name in waiting else held == 0, (name, found)
    # Of several subtasks, REST shows which one has the slow key.
    if shape is slow_key:
        shares = sorted(each["busyRatio"] for each in found.back_pressure["slow"]["subtasks"])
        assert shares[0] < 0.1 * shares[1], found

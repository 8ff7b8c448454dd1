"""Records of any size: an epoch holds a bounded number of bytes of them, on every way that they can take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flinkish.common import WatermarkStrategy
from flinkish.datastream import DataStream, SourceFunction, StreamExecutionEnvironment
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.runtime.protocol import EpochReport
from tests.kit.environments import env_of

LARGE = 50_000
COUNT = 400
MAX_BYTES = 1_000_000
#: What is emitted before the first look, and between two.
SLACK = 130 * LARGE


class Emitting(SourceFunction):
    def run(self, ctx: SourceFunction.SourceContext) -> None:
        for number in range(COUNT):
            ctx.collect("x" * LARGE + str(number))


def generated(env: StreamExecutionEnvironment, size: int = LARGE) -> DataStream:
    source = DataGeneratorSource(lambda index: "x" * size + str(index), count=COUNT)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


def keyed(env: StreamExecutionEnvironment) -> DataStream:
    return generated(env).key_by(lambda value: value[-1]).map(len)


def collected(env: StreamExecutionEnvironment) -> DataStream:
    return generated(env)


def grown(env: StreamExecutionEnvironment) -> DataStream:
    return generated(env, 1).rebalance().map(lambda value: value * LARGE).key_by(lambda value: value[-1]).map(len)


def from_the_driver(env: StreamExecutionEnvironment) -> DataStream:
    return env.add_source(Emitting()).rebalance().map(len)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What was the most that a slot sent in each epoch."""
    from flinkish.jobmaster.attempt import Attempt

    sizes: list[int] = []
    finish = Attempt.finish_epoch

    def note(self: Attempt, reports: Any) -> None:
        sizes.append(max(_bytes(report) for report in reports))
        finish(self, reports)

    monkeypatch.setattr(Attempt, "finish_epoch", note)
    return sizes


def _bytes(report: EpochReport) -> int:
    return sum(metrics.bytes_out for metrics in report.metrics)


@pytest.mark.parametrize("program", [keyed, collected, grown, from_the_driver])
def test_an_epoch_sends_a_bounded_number_of_bytes(
    sent: list[int], program: Callable[[StreamExecutionEnvironment], DataStream]
) -> None:
    env = env_of({"execution.epoch.max-bytes": MAX_BYTES, "execution.epoch.max-records": 200})
    with program(env).execute_and_collect() as results:
        client = results.client
        values = list(results)
    assert isinstance(client, EmbeddedJobClient)
    digits = [len(str(number)) for number in range(COUNT)]
    lengths = [LARGE * (1 + more) if program is grown else LARGE + more for more in digits]
    assert sorted(value if isinstance(value, int) else len(value) for value in values) == sorted(lengths)
    # That the size grows further down is known after the first epoch only.
    first = 1 if program is grown else 0
    assert max(sent[first:]) <= MAX_BYTES + SLACK
    assert sum(size > MAX_BYTES / 4 for size in sent) > COUNT * LARGE / (MAX_BYTES + SLACK)


def test_small_records_are_not_held_up(sent: list[int]) -> None:
    env = env_of()
    assert len(list(generated(env, 1).key_by(lambda value: value[-1]).map(len).execute_and_collect())) == COUNT
    assert len([size for size in sent if size]) == 1

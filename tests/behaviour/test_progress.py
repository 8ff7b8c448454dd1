"""What the progress line says of a job in which nothing seems to move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkish.common import Types, WatermarkStrategy
from flinkish.datastream import RuntimeExecutionMode, StreamExecutionEnvironment
from flinkish.datastream.connectors.base import Sink, SinkWriter, SinkWriterContext, WriteContext
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.engine.job_client import EmbeddedJobClient
from flinkish.jobmaster import user_messages
from tests.kit.waiting import wait_until


class SlowWriter(SinkWriter[int, str]):
    """Writes nothing before a file is there."""

    def __init__(self, go: Path) -> None:
        self._go = go

    def write(self, value: int, context: WriteContext) -> None:
        wait_until("the end of the test", self._go.exists)

    def flush(self, end_of_input: bool) -> None:
        """Nothing is kept."""

    def close(self) -> None:
        """Nothing is open."""


class SlowSink(Sink[int, str]):
    def __init__(self, go: Path) -> None:
        self._go = go

    def create_writer(self, context: SinkWriterContext) -> SlowWriter:
        return SlowWriter(self._go)


@pytest.fixture
def go(tmp_path: Path) -> Iterator[Path]:
    """A file that lets the sink go on."""
    file = tmp_path / "go"
    yield file
    file.touch()


def test_progress_names_the_sink_that_a_long_epoch_is_in_and_not_the_source_before_it(
    env: StreamExecutionEnvironment, go: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(user_messages, "_LONG_EPOCH_MS", -1)
    env.set_runtime_mode(RuntimeExecutionMode.STREAMING)
    numbers = env.set_parallelism(1).from_source(
        NumberSequenceSource(0, 3), WatermarkStrategy.for_monotonous_timestamps(), "numbers"
    )
    # One chain from source to sink, so that the vertex alone says nothing.
    numbers.map(lambda value: value, Types.LONG()).name("same").sink_to(SlowSink(go)).name("book")
    job = env.execute_async("slow")
    assert isinstance(job, EmbeddedJobClient)
    try:
        wait_until("the sink in the progress line", lambda: "in 'Sink: book'" in job.job_master.progress(None, 1)[0])
        line = job.job_master.progress(None, 1)[0]
    finally:
        go.touch()
    job.get_job_execution_result().result(120)

    assert "Source" not in line
    assert "so far, in 'Sink: book'" in line

"""Jobs that never end and take no checkpoints: sinks that commit at checkpoints are refused, others write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Configuration, Encoder, Row, Types, WatermarkStrategy
from flinkish.common.errors import ConfigurationError
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors import DataFrameSink, NumberSequenceSource
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.connectors.delta.sink import DeltaSink
from flinkish.datastream.connectors.file_system import FileSink
from flinkish.engine.launcher import check
from flinkish.program.sinks import Committer, Sink, SinkWriter
from tests.kit.environments import env_of
from tests.kit.programs import program_of
from tests.kit.results import visible

ROW = Types.ROW_NAMED(["id"], [Types.LONG()])


class NeverCommits(Committer[Any]):
    """Fails the test if it is asked for a commit."""

    closed = 0

    def commit(self, checkpoint_id: int, requests: Any) -> None:
        raise AssertionError

    def close(self) -> None:
        type(self).closed += 1


class OwnSink(Sink[Any, Any]):
    """A user's sink, with a committer or without."""

    def __init__(self, committer: Committer[Any] | None) -> None:
        self._committer = committer

    def create_writer(self, context: Any) -> SinkWriter[Any, Any]:
        raise AssertionError

    def create_committer(self, configuration: Configuration) -> Committer[Any] | None:
        return self._committer


def numbers(env: StreamExecutionEnvironment, *, endless: bool = True) -> Any:
    source = DataGeneratorSource(lambda index: index, type_info=Types.LONG()) if endless else NumberSequenceSource(1, 5)
    return env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")


def file_sink(folder: Path) -> Any:
    return FileSink.for_row_format(str(folder), Encoder.simple_string_encoder()).build()


@pytest.mark.parametrize("kind", ["file", "delta", "own"])
def test_a_sink_that_commits_at_checkpoints_is_refused_in_an_endless_job_without_them(tmp_path: Path, kind: str) -> None:
    env = env_of()
    NeverCommits.closed = 0
    sink = {"file": file_sink(tmp_path), "delta": DeltaSink(str(tmp_path)), "own": OwnSink(NeverCommits())}[kind]
    rows = numbers(env).map(lambda number: Row(id=number), output_type=ROW)
    rows.sink_to(sink).name("out")

    message = rf"sink '.*out' \({type(sink).__name__}\) commits with the job's checkpoints.*'Source: numbers' never ends"
    with pytest.raises(ConfigurationError, match=message) as raised:
        env.execute()

    assert "execution.checkpointing.interval" in str(raised.value)
    assert not list(tmp_path.iterdir())
    assert NeverCommits.closed == (kind == "own")


def test_a_bounded_stream_beside_an_endless_one_is_refused_too(tmp_path: Path) -> None:
    env = env_of()
    numbers(env).print()
    numbers(env, endless=False).sink_to(file_sink(tmp_path))

    with pytest.raises(ConfigurationError, match="never ends"):
        env.execute()


def test_an_interval_below_one_millisecond_takes_no_checkpoints(tmp_path: Path) -> None:
    env = env_of({"execution.checkpointing.interval": "0"})
    numbers(env).sink_to(file_sink(tmp_path))

    with pytest.raises(ConfigurationError, match="never ends"):
        env.execute()


def test_a_sink_without_a_committer_and_a_job_with_checkpoints_are_not_refused(tmp_path: Path) -> None:
    plain = env_of()
    numbers(plain).sink_to(OwnSink(None))
    check(program_of(plain))
    with_checkpoints = env_of({"execution.checkpointing.interval": "1 s"})
    numbers(with_checkpoints).sink_to(file_sink(tmp_path))
    check(program_of(with_checkpoints))


def test_a_bounded_job_without_checkpoints_commits_at_its_end(tmp_path: Path) -> None:
    env = env_of({"execution.runtime-mode": "STREAMING"})
    numbers(env, endless=False).sink_to(file_sink(tmp_path))

    env.execute()

    assert sorted(line for path in visible(tmp_path) for line in path.read_text().split()) == ["1", "2", "3", "4", "5"]


def test_a_data_frame_sink_names_itself() -> None:
    env = env_of({"execution.engine": "spark"})
    rows = numbers(env).map(lambda number: Row(id=number), output_type=ROW)
    rows.sink_to(DataFrameSink(lambda df, checkpoint_id: None))

    with pytest.raises(ConfigurationError, match="DataFrameSink"):
        env.execute()

"""Jobs whose input is in the program get a hint that they do not need Spark."""

from __future__ import annotations

import pytest

from flinkish.common import Configuration, Types, WatermarkStrategy
from flinkish.common.notices import told_always
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors import NumberSequenceSource
from flinkish.engine.launcher import check, hint_at_local_engine
from tests.kit.programs import program_of


@pytest.mark.parametrize(
    ("engine", "numbers", "interval", "hinted"),
    [("spark", False, None, True), ("local", False, None, False), ("spark", True, None, False), ("spark", False, 1_000, False)],
)
def test_only_a_job_on_spark_whose_input_is_in_the_program_is_told_of_the_local_engine(
    engine: str, numbers: bool, interval: int | None, hinted: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"execution.engine": engine}))
    stream = env.from_collection([1, 2], Types.LONG())
    if interval is not None:
        env.enable_checkpointing(interval)
    if numbers:
        stream = stream.union(env.from_source(NumberSequenceSource(1, 3), WatermarkStrategy.no_watermarks(), "numbers"))
    stream.print()

    with told_always():
        hint_at_local_engine(check(program_of(env)))

    assert ("--engine local" in capsys.readouterr().err) == hinted

"""Failures of user code, restarts, and their results, on both engines."""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Types, WatermarkStrategy
from flinkish.common.errors import JobExecutionError
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import ValueStateDescriptor
from tests.conftest import MakeEnvironment, also_on_spark, locally
from tests.kit.restarts import recovering
from tests.kit.results import collect


def test_the_error_of_a_failed_job_holds_the_users_message_and_traceback(env: StreamExecutionEnvironment) -> None:
    def explode(value: int) -> int:
        raise ValueError(f"cannot digest {value}")

    with pytest.raises(JobExecutionError) as error:
        collect(env.from_collection([41]).map(explode).name("Digest"))
    text = str(error.value)
    assert "cannot digest 41" in text
    assert "explode" in text
    assert "Digest" in text
    assert f'File "{__file__}"' in text
    assert "Record: 41" in text
    assert "flinkish/runtime" not in text
    assert f"Operator made in {__file__} line " in text


@also_on_spark("full", [False, True], True)
def test_the_traceback_of_user_code_is_shown_once(make_env: MakeEnvironment, full: bool) -> None:
    def explode(value: int) -> int:
        try:
            return value // 0
        except ZeroDivisionError as error:
            raise ValueError(f"cannot digest {value}") from error

    env = make_env(settings={"execution.full-traceback": full})
    env.from_collection([41]).map(explode).print()
    with pytest.raises(JobExecutionError) as failed:
        env.execute()
    assert isinstance(failed.value.__cause__, ValueError)
    shown = "".join(traceback.format_exception(failed.value))
    assert shown.count("return value // 0") == 1
    assert shown.count("in explode") == 2  # of both errors


@locally
def test_a_debugger_in_a_shell_finds_the_frames_of_user_code(
    env: StreamExecutionEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(value: int) -> int:
        return value // 0

    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    env.from_collection([41]).map(explode).print()
    with pytest.raises(JobExecutionError) as failed:
        env.execute()
    assert failed.value.__cause__ is not None
    frames = traceback.extract_tb(failed.value.__cause__.__traceback__)
    assert frames[-1].name == "explode"


@locally
@pytest.mark.parametrize("failing", ["numbers", "First", "Second", "Third", "Fourth"])
def test_a_stop_iteration_of_user_code_is_an_error_of_its_own_operator(
    env: StreamExecutionEnvironment, engine: str, failing: str
) -> None:
    def function(name: str, result: Any) -> Any:
        return lambda value: next(iter([])) if name == failing else result(value)

    class Numbers(NumberSequenceSource):
        def create_reader(self, context: Any) -> Any:
            reader = super().create_reader(context)
            if failing == "numbers":
                reader.poll_next = lambda output: output.collect_all(next(iter([])) for _ in range(3))  # type: ignore[method-assign]
            return reader

    numbers = env.from_source(Numbers(1, 10), WatermarkStrategy.no_watermarks(), "numbers")
    mapped = numbers.map(function("First", lambda value: value)).name("First")
    filtered = mapped.filter(function("Second", lambda value: True)).name("Second")
    flat = filtered.flat_map(function("Third", lambda value: [value])).name("Third")
    with pytest.raises(JobExecutionError, match=f"operator '(Source: )?{failing}'"):
        collect(flat.map(function("Fourth", lambda value: value)).name("Fourth"))


class CountAndFail(KeyedProcessFunction):
    """Counts per key; fails once in the whole life of the job, when the marker file does not exist yet."""

    def __init__(self, marker: Path, at: int) -> None:
        self.marker = marker
        self.at = at

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value: int, ctx: KeyedProcessFunction.Context) -> Any:
        if value == self.at and not self.marker.exists():
            self.marker.write_text("failed", encoding="utf-8")
            raise RuntimeError("once")
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield ctx.get_current_key(), count


def test_a_job_restarts_from_its_last_checkpoint_and_repeats_nothing(make_env: MakeEnvironment, tmp_path: Path) -> None:
    env = make_env(settings=recovering(tmp_path, 100))
    marker = tmp_path / "failed"
    numbers = env.from_source(NumberSequenceSource(0, 999), WatermarkStrategy.no_watermarks(), "numbers")
    counts = numbers.key_by(lambda value: value % 7, key_type=Types.LONG()).process(CountAndFail(marker, 400))
    results = collect(counts)
    assert marker.exists()
    expected = [(key, count) for key in range(7) for count in range(1, len(range(key, 1000, 7)) + 1)]
    assert sorted(results) == expected


@locally
def test_without_a_restart_strategy_the_first_failure_is_the_last(make_env: MakeEnvironment, tmp_path: Path) -> None:
    env = make_env()
    marker = tmp_path / "failed"
    numbers = env.from_source(NumberSequenceSource(0, 9), WatermarkStrategy.no_watermarks(), "numbers")
    with pytest.raises(JobExecutionError, match="once"):
        collect(numbers.key_by(lambda value: value).process(CountAndFail(marker, 5)))


def test_a_function_that_ends_the_program_is_an_error_of_its_operator(env: StreamExecutionEnvironment) -> None:
    def leave(value: int) -> int:
        sys.exit(f"cannot go on with {value}")

    with pytest.raises(JobExecutionError, match=r"SystemExit: cannot go on with 41") as failed:
        collect(env.from_collection([41]).map(leave).name("Leave"))
    assert "operator 'Leave'" in str(failed.value)
    assert "in leave" in str(failed.value)


class Panic(BaseException):
    """An error as a library in Rust raises it: it is not an Exception, and its class has no public module."""


@locally
@pytest.mark.parametrize("error", [KeyboardInterrupt("mine"), GeneratorExit("mine"), Panic("mine")])
def test_whatever_a_function_raises_is_an_error_of_its_operator(env: StreamExecutionEnvironment, error: BaseException) -> None:
    def explode(value: int) -> int:
        raise error

    with pytest.raises(JobExecutionError, match=rf"operator 'Explode'.*{type(error).__name__}: mine"):
        collect(env.from_collection([41]).map(explode).name("Explode"))

"""Bad input raises an error that says what is wrong and where, or follows the chosen policy; it is never ignored silently."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Row, Types, WatermarkStrategy
from flinkish.common.errors import (
    ConfigurationError,
    FlinkishError,
    InvalidProgramError,
    JobExecutionError,
    UnsupportedError,
)
from flinkish.common.typeinfo import TypeInformation
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import OutputTag, StreamExecutionEnvironment
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.connectors.file_system import FileSource, StreamFormat
from flinkish.datastream.connectors.record_errors import RECORD_ERROR_TYPE, RecordErrorPolicy
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import MapStateDescriptor, ValueStateDescriptor
from tests.conftest import MakeEnvironment
from tests.kit.environments import env_of
from tests.kit.results import collect

NO_WATERMARKS = WatermarkStrategy.no_watermarks()
FLIGHT = Types.ROW_NAMED(["origin", "delay"], [Types.STRING(), Types.INT()])


def failure_of(stream: Any) -> str:
    with pytest.raises(JobExecutionError) as error:
        collect(stream)
    return str(error.value)


# Records that cannot be read


@pytest.fixture
def dirty(tmp_path: Path) -> Path:
    """Files with one good record, and some that cannot be read."""
    (tmp_path / "x.csv").write_bytes(b"origin,delay\nJFK,1\nLGA,late\n\xff,3\nEWR\n")
    (tmp_path / "x.json").write_bytes(b'{"origin": "JFK", "delay": 1}\n{"origin": 5}\nnot json\n{"origin": "\xff"}\n')
    (tmp_path / "x.txt").write_bytes(b"good\nb\xe4d\n")
    return tmp_path


def file_source(path: Path, format_: StreamFormat, policy: RecordErrorPolicy | None = None) -> FileSource:
    builder = FileSource.for_record_stream_format(format_, str(path))
    return builder.build() if policy is None else builder.on_record_error(policy).build()


def test_a_record_that_cannot_be_read_fails_the_job_and_is_named(make_env: MakeEnvironment, dirty: Path) -> None:
    env = make_env(parallelism=1)
    text = failure_of(env.from_source(file_source(dirty / "x.csv", StreamFormat.csv_format(FLIGHT)), NO_WATERMARKS, "flights"))
    assert "Source: flights" in text
    assert f"{dirty / 'x.csv'}, line 3: column 'delay' must be Integer; got 'late'" in text
    assert "SourceError" in text
    assert "RecordErrorPolicy.skip()" in text


def test_records_that_cannot_be_read_are_skipped_or_put_aside_and_counted(
    make_env: MakeEnvironment, dirty: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    env = make_env(parallelism=1)
    tag = OutputTag("bad flights", RECORD_ERROR_TYPE)
    aside = env.from_source(
        file_source(dirty / "x.csv", StreamFormat.csv_format(FLIGHT), RecordErrorPolicy.side_output(tag)), NO_WATERMARKS, "aside"
    )
    aside.print("good")
    aside.get_side_output(tag).map(lambda bad: (bad.line, bad.record)).print("bad")
    skip = RecordErrorPolicy.skip()
    json_lines = file_source(dirty / "x.json", StreamFormat.json_lines_format(FLIGHT), skip)
    env.from_source(json_lines, NO_WATERMARKS, "skipping").print("json")
    lines = file_source(dirty / "x.txt", StreamFormat.text_line_format(), skip)
    env.from_source(lines, NO_WATERMARKS, "lines").print("text")
    counted = env.execute().get_all_accumulator_results()
    assert sorted(capsys.readouterr().out.splitlines()) == [
        "bad> (3, 'LGA,late')", "bad> (4, '\\\\xff,3')", "bad> (5, 'EWR')", "good> +I[JFK,1]", "json> +I[JFK,1]", "text> good",
    ]  # fmt: skip
    errors = {name: count for name, count in counted.items() if name.endswith("numRecordsInErrors")}
    assert errors == {
        "Source: aside.numRecordsInErrors": 3,
        "Source: skipping.numRecordsInErrors": 3,
        "Source: lines.numRecordsInErrors": 1,
    }


# Missing files, columns, servers


# Values that are not of the declared type


def test_a_result_of_another_type_than_declared_names_operator_field_and_value(env: StreamExecutionEnvironment) -> None:
    flights = env.from_collection([1], Types.INT()).map(lambda _: Row(origin="JFK", delay="late"), FLIGHT).name("Parse flights")
    text = failure_of(flights)
    assert "operator 'Parse flights'" in text
    assert "TypeMismatchError" in text
    assert "field 1 ('delay') must be a whole number" in text
    assert "got 'late' of type str" in text


@pytest.mark.parametrize(
    ("value", "type_info", "expected"),
    [
        ([1, "a"], Types.TUPLE([Types.INT(), Types.STRING()]), "must be a tuple of 2 fields"),
        ((1, None), Types.TUPLE([Types.INT(), Types.STRING()]), "field 1 must be String, not None"),
        ((1, "a"), Types.ROW([Types.INT(), Types.STRING()]), "must be a Row"),
        ({"a": 1}, Types.ROW_NAMED(["a"], [Types.INT()]), "must be a Row"),
        (Row(a=1), FLIGHT, "a Row of 2 fields"),
        (5, Types.STRING(), "must be a str"),
        (2**31, Types.INT(), "from -2147483648 to 2147483647"),
        ("2013-01-01", Types.SQL_DATE(), "a datetime.date"),
        (b"abc", Types.LIST(Types.INT()), "must be a list"),
        ([1, None], Types.PRIMITIVE_ARRAY(Types.INT()), "without None"),
        ({None: 1}, Types.MAP(Types.STRING(), Types.INT()), "without None as a key"),
        (datetime.time(12), Types.SQL_TIMESTAMP(), "a datetime.datetime"),
    ],
)
def test_each_type_says_what_it_must_be(value: Any, type_info: TypeInformation, expected: str) -> None:
    text = failure_of(env_of().from_collection([1], Types.INT()).map(lambda _: value, type_info))
    assert "TypeMismatchError" in text
    assert expected in text


@pytest.mark.parametrize("result", [None, 5])
def test_what_flat_map_returns_must_be_iterable(result: Any) -> None:
    text = failure_of(env_of().from_collection([1]).flat_map(lambda _: result).name("Split"))
    assert f"flat_map of 'Split' must return an iterable of results; got {result}" in text


@pytest.mark.parametrize("key", ["x", 1.5, [1], 2**40])
def test_keys_must_be_of_the_type_that_key_by_was_given(key: Any) -> None:
    text = failure_of(env_of().from_collection([1]).key_by(lambda _: key, Types.INT()).map(lambda value: value).name("Count"))
    assert "the key that key_by() selected for 'Count'" in text
    assert "TypeMismatchError" in text
    assert repr(key) in text


class Keep(KeyedProcessFunction):
    """Puts a value into a state of type LONG, or under a key of type STRING."""

    def __init__(self, value: Any, in_map: bool = False) -> None:
        self.kept = value
        self.in_map = in_map

    def open(self, runtime_context: RuntimeContext) -> None:
        self.number = runtime_context.get_state(ValueStateDescriptor("number", Types.LONG()))
        self.map = runtime_context.get_map_state(MapStateDescriptor("by name", Types.STRING(), Types.LONG()))

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Any:
        if self.in_map:
            self.map.put(self.kept, 1)
        else:
            self.number.update(self.kept)
        yield value


@pytest.mark.parametrize(("value", "in_map", "state"), [("x", False, "number"), (None, False, "number"), (5, True, "by name")])
def test_values_of_another_type_do_not_get_into_state(value: Any, in_map: bool, state: str) -> None:
    text = failure_of(env_of().from_collection([1]).key_by(lambda value: value).process(Keep(value, in_map)))
    assert f"state '{state}' of operator" in text
    assert "TypeMismatchError" in text


class NotANumber(TimestampAssigner):
    def extract_timestamp(self, value: Any, record_timestamp: int) -> Any:
        return value


@pytest.mark.parametrize("timestamp", ["2013-01-01", None, datetime.datetime(2013, 1, 1), 2**63, -(2**70), 1e20, 1.7e9, True])
@pytest.mark.parametrize("at_the_source", [True, False])
def test_timestamps_must_be_numbers(timestamp: Any, at_the_source: bool) -> None:
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(NotANumber())
    if at_the_source:
        stream = env_of().from_source(DataGeneratorSource(lambda _: timestamp, 1), strategy, "times")
    else:
        stream = env_of().from_collection([timestamp]).assign_timestamps_and_watermarks(strategy)
    text = failure_of(stream)
    assert "NotANumber.extract_timestamp must return milliseconds as an int of 64 bits" in text
    assert "to_epoch_milli(value)" in text
    assert repr(timestamp) in text


class TimerAt(KeyedProcessFunction):
    def __init__(self, method: str, time: Any) -> None:
        self.method = method
        self.time = time

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> None:
        getattr(ctx.timer_service(), self.method)(self.time)


@pytest.mark.parametrize("time", ["5", None, datetime.datetime(2013, 1, 1), 2**63, -(2**70), float("nan")])
@pytest.mark.parametrize("method", ["register_event_time_timer", "register_processing_time_timer", "delete_event_time_timer"])
def test_timers_need_a_time(method: str, time: Any) -> None:
    text = failure_of(env_of().from_collection([1]).key_by(lambda value: value).process(TimerAt(method, time)))
    assert f"{method}() needs milliseconds as an int of 64 bits; got {time!r}" in text


# Settings


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("execution.checkpointing.interval", "soon", "10 s"),
        ("parallelism.default", "many", "whole number"),
        ("parallelism.default", "0", "at least 1"),
        ("execution.engine", "flink", "spark"),
        ("execution.runtime-mode", "QUICK", "BATCH"),
        ("pipeline.operator-chaining.enabled", "perhaps", "true"),
        ("restart-strategy.type", "never", "fixed-delay"),
        ("restart-strategy.fixed-delay.attempts", "-1", "-1"),
    ],
)
def test_a_bad_value_names_key_value_and_what_was_expected(key: str, value: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        env_of({key: value})
    text = str(error.value)
    assert key in text
    assert value in text
    assert expected in text


def test_an_unknown_key_is_warned_of_with_the_known_one_that_it_resembles(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "flinkish"):
        env_of({"execution.checkpointing.intervall": "1 s", "my.own.setting": "x", "spark.sql.shuffle.partitions": 3})
    assert "'execution.checkpointing.intervall'" in caplog.messages[0]
    assert "did you mean 'execution.checkpointing.interval'?" in caplog.messages[0]
    assert "'my.own.setting'" in caplog.messages[1]
    assert "did you mean" not in caplog.messages[1]
    assert len(caplog.messages) == 2


# What is not supported


def test_another_interpreter_is_refused_before_anything_runs() -> None:
    env = env_of()
    env.set_python_executable("/usr/bin/python-of-old")
    env.from_collection([1]).print()
    with pytest.raises(UnsupportedError, match="python-of-old"):
        env.execute()


def test_jars_that_nothing_could_use_are_refused_before_anything_runs() -> None:
    def env_on(engine: str) -> StreamExecutionEnvironment:
        return env_of({"execution.engine": engine})

    refused: list[tuple[str, Callable[[StreamExecutionEnvironment], None], type[FlinkishError], str]] = [
        ("local", lambda env: env.add_jars("file:///a.jar"), UnsupportedError, "pipeline.jars.*there is no JVM"),
        ("local", lambda env: env.add_classpaths("/lib"), UnsupportedError, "pipeline.classpaths.*there is no JVM"),
        (
            "spark",
            lambda env: env.add_jars("file:///no/such.jar"),
            InvalidProgramError,
            "names file:///no/such.jar, which is not",
        ),
        ("spark", lambda env: env.add_classpaths("http://h/a.jar"), UnsupportedError, "pipeline.classpaths names http://h/a.jar"),
    ]
    for engine, prepare, kind, found in refused:
        env = env_on(engine)
        prepare(env)
        env.from_collection([1]).print()
        with pytest.raises(kind, match=found):
            env.execute()

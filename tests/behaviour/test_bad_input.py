"""Bad input raises an error that says what is wrong and where, or follows the chosen policy; it is never ignored silently."""

from __future__ import annotations

import datetime
import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flinkish.common import Row, Types, WatermarkStrategy
from flinkish.common.errors import (
    ConfigurationError,
    FlinkishError,
    InvalidProgramError,
    JobExecutionError,
    SourceError,
    TypeMismatchError,
    UnsupportedError,
)
from flinkish.common.typeinfo import TypeInformation
from flinkish.common.watermark_strategy import TimestampAssigner
from flinkish.datastream import OutputTag, RuntimeExecutionMode, StreamExecutionEnvironment
from flinkish.datastream.connectors.datagen import DataGeneratorSource
from flinkish.datastream.connectors.file_system import BulkFormat, FileSource, StreamFormat
from flinkish.datastream.connectors.record_errors import RECORD_ERROR_TYPE, RecordErrorPolicy
from flinkish.datastream.connectors.socket import SocketSource
from flinkish.datastream.functions import KeyedProcessFunction, RuntimeContext
from flinkish.datastream.state import MapStateDescriptor, ValueStateDescriptor
from tests.conftest import MakeEnvironment, locally
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


@pytest.mark.parametrize(
    ("name", "make_format", "line", "reason"),
    [
        ("x.json", lambda: StreamFormat.json_lines_format(FLIGHT), 2, "origin"),
        ("x.txt", StreamFormat.text_line_format, 2, "not text in the character set utf-8"),
    ],
)
def test_each_format_names_file_line_and_reason(
    dirty: Path, name: str, make_format: Callable[[], StreamFormat], line: int, reason: str
) -> None:
    text = failure_of(env_of().from_source(file_source(dirty / name, make_format()), NO_WATERMARKS, "lines"))
    assert f"{dirty / name}, line {line}: " in text
    assert reason in text


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


def test_a_wrong_policy_is_refused_when_it_is_made() -> None:
    with pytest.raises(InvalidProgramError, match="cannot take records"):
        RecordErrorPolicy.side_output(OutputTag("bad", Types.INT()))


# Missing files, columns, servers


def test_missing_files_and_columns_are_named(tmp_path: Path, dirty: Path) -> None:
    with pytest.raises(SourceError, match=f"nothing is at {tmp_path}/flights/2013"):
        env_of().from_source(file_source(tmp_path / "flights" / "2013", StreamFormat.text_line_format()), NO_WATERMARKS, "f")
    other = Types.ROW_NAMED(["origin", "arr_delay"], [Types.STRING(), Types.INT()])
    text = failure_of(env_of().from_source(file_source(dirty / "x.csv", StreamFormat.csv_format(other)), NO_WATERMARKS, "f"))
    assert "columns ['arr_delay'] of the schema are missing; the header has ['origin', 'delay']" in text
    pq.write_table(pa.table({"origin": ["JFK"], "delay": ["late"]}), tmp_path / "x.parquet")
    for type_info, found in ((other, "arr_delay"), (FLIGHT, "delay")):
        parquet = FileSource.for_bulk_file_format(BulkFormat.parquet_format(type_info), str(tmp_path / "x.parquet")).build()
        text = failure_of(env_of().from_source(parquet, NO_WATERMARKS, "f"))
        assert "SourceError" in text
        assert str(tmp_path / "x.parquet") in text
        assert found in text


def test_a_file_that_goes_away_while_the_job_runs_fails_it_by_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text("line\n" * 50, encoding="utf-8")
    env = env_of({"execution.epoch.max-records": 10})

    def remove(line: str) -> str:
        (tmp_path / "b").unlink(missing_ok=True)
        return line

    lines = env.from_source(file_source(tmp_path, StreamFormat.text_line_format()), NO_WATERMARKS, "lines")
    assert f"{tmp_path / 'b'} is gone" in failure_of(lines.map(remove))


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(b"\x1f\x8b\x08 this is not compressed")
    text = failure_of(
        env_of().from_source(file_source(tmp_path / "x.gz", StreamFormat.text_line_format()), NO_WATERMARKS, "lines")
    )
    assert f"cannot decompress {tmp_path / 'x.gz'}" in text
    (tmp_path / "x.parquet").write_bytes(b"PAR1 no")
    parquet = FileSource.for_bulk_file_format(BulkFormat.parquet_format(FLIGHT), str(tmp_path / "x.parquet")).build()
    text = failure_of(env_of().from_source(parquet, NO_WATERMARKS, "rows"))
    assert "SourceError" in text
    assert str(tmp_path / "x.parquet") in text


@locally
def test_a_server_that_is_not_there_is_named(env: StreamExecutionEnvironment) -> None:
    text = failure_of(env.from_source(SocketSource("127.0.0.1", 1), NO_WATERMARKS, "socket"))
    assert "cannot connect to 127.0.0.1:1" in text


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


@locally
def test_nulls_pass_where_the_type_allows_them(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(1)
    ones = env.from_collection([1], Types.INT())
    streams = [
        ones.map(lambda _: None),
        ones.map(lambda _: None, FLIGHT),
        ones.map(lambda _: None, Types.STRING()),
        ones.map(lambda _: Row(origin=None, delay=None), FLIGHT),
        ones.map(lambda _: [None, 1], Types.LIST(Types.INT())),
        ones.map(lambda _: {"k": None}, Types.MAP(Types.STRING(), Types.INT())),
    ]
    shown = [stream.map(repr) for stream in streams]
    assert sorted(collect(shown[0].union(*shown[1:]))) == [
        "None", "None", "None", "Row(origin=None, delay=None)", "[None, 1]", "{'k': None}",
    ]  # fmt: skip


def test_collections_are_checked_when_the_job_is_built() -> None:
    for elements, type_info, found in (
        (["x"], Types.INT(), "'x'"),
        ([("JFK",)], FLIGHT, "2 fields"),
        ([("JFK", "late")], FLIGHT, "field 1 \\('delay'\\)"),
        ([(1, None)], Types.TUPLE([Types.INT(), Types.INT()]), "None"),
    ):
        with pytest.raises(TypeMismatchError, match=found):
            env_of().from_collection(elements, type_info)


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


def test_a_configuration_file_with_a_mistake_names_file_and_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLINKISH_CONF_DIR", str(tmp_path))
    file = tmp_path / "config.yaml"
    for text, line, found in (
        ("parallelism:\n  default: many\n", 2, "parallelism.default"),
        ("execution:\n  engine: [unclosed\n", 3, "not valid YAML"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError, match=found) as error:
            StreamExecutionEnvironment.get_execution_environment()
        assert str(file) in str(error.value)
        assert re.search(rf"line {line}\b", str(error.value))


# What is not supported


def numbers(env: StreamExecutionEnvironment, count: int | None) -> Any:
    return env.from_source(DataGeneratorSource(lambda index: index, count), NO_WATERMARKS, "numbers")


def test_batch_mode_refuses_a_source_that_never_ends_before_anything_runs() -> None:
    env = env_of()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    numbers(env, None).print()
    with pytest.raises(InvalidProgramError, match="numbers"):
        env.execute()


def test_an_automatic_job_with_a_source_that_never_ends_is_a_streaming_one(make_env: MakeEnvironment) -> None:
    env = make_env(parallelism=1, settings={"execution.runtime-mode": "AUTOMATIC"})
    assert numbers(env, None).union(numbers(env, 3)).execute_and_collect(limit=1) == [0]


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

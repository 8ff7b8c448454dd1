"""StreamExecutionEnvironment: settings, sources, and the program that is handed over."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from flinkish.common import Configuration, RestartStrategies, Types, WatermarkStrategy
from flinkish.common.errors import (
    ConfigurationError,
    InvalidArgumentError,
    InvalidProgramError,
    NotSerializableError,
    TypeMismatchError,
    UnsupportedError,
)
from flinkish.common.execution_config import ExecutionConfig, default_parallelism
from flinkish.common.io import InputFormat
from flinkish.datastream import (
    CheckpointedFunction,
    CheckpointingMode,
    CheckpointListener,
    EmbeddedRocksDBStateBackend,
    HashMapStateBackend,
    RuntimeExecutionMode,
    SlotSharingGroup,
    SourceFunction,
    StreamExecutionEnvironment,
)
from flinkish.datastream.connectors.number_seq import NumberSequenceSource
from flinkish.datastream.stream_execution_environment import _properties
from flinkish.program.program import CachedFile, PythonArchive, PythonRequirements
from flinkish.program.transformations import SourceTransformation
from tests.kit.functions import Itself
from tests.kit.own_process import set_arguments
from tests.kit.programs import id_of, last, program_of
from tests.unit.datastream.helpers import FakeExecutor, make_env, numbers


class Emitting(SourceFunction):
    def run(self, ctx: SourceFunction.SourceContext) -> None:
        ctx.collect(1)


# Settings.


def test_defaults_are_those_of_flink() -> None:
    env = make_env()

    assert env.get_parallelism() == default_parallelism()
    assert env.get_max_parallelism() == -1
    assert env.get_buffer_timeout() == 100
    assert env.is_chaining_enabled()
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()
    assert env.get_checkpoint_interval() == -1
    assert env.get_checkpointing_mode() is env.get_checkpointing_consistency_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert env.is_changelog_state_backend_enabled() is None
    assert env.get_default_savepoint_directory() is None
    assert not env.is_unaligned_checkpoints_enabled()
    assert not env.is_force_unaligned_checkpoints()


def test_settings_are_read_back() -> None:
    env = make_env()

    env.set_parallelism(3).set_max_parallelism(64).set_buffer_timeout(-1).disable_operator_chaining()
    env.enable_checkpointing(500, CheckpointingMode.AT_LEAST_ONCE).enable_changelog_state_backend(True)
    env.set_default_savepoint_directory("file:///tmp/s").set_runtime_mode(RuntimeExecutionMode.BATCH)

    assert (env.get_parallelism(), env.get_max_parallelism(), env.get_buffer_timeout()) == (3, 64, -1)
    assert not env.is_chaining_enabled()
    assert (env.get_checkpoint_interval(), env.get_checkpointing_mode()) == (500, CheckpointingMode.AT_LEAST_ONCE)
    assert env.is_changelog_state_backend_enabled() is True
    assert env.get_default_savepoint_directory() == "file:///tmp/s"
    assert env.set_parallelism(ExecutionConfig.PARALLELISM_UNKNOWN).get_parallelism() == 3
    assert env.set_parallelism(-1).get_parallelism() == default_parallelism()


def test_checkpointing_is_exactly_once_unless_told_otherwise() -> None:
    assert make_env().enable_checkpointing(500).get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE


def test_the_configuration_and_its_views_are_one() -> None:
    env = make_env()

    env.configure(
        Configuration.from_dict(
            {
                "pipeline.operator-chaining": "false",
                "execution.buffer-timeout": "1 min",
                "execution.checkpointing.interval": "20 s",
                "parallelism.default": "7",
            }
        )
    )

    assert not env.is_chaining_enabled()
    assert env.get_buffer_timeout() == 60_000
    assert env.get_checkpoint_config().get_checkpoint_interval() == 20_000
    assert env.get_config().get_parallelism() == env.get_parallelism() == 7
    env.get_checkpoint_config().set_checkpoint_interval(50)
    assert env.get_checkpoint_interval() == 50


def test_an_older_name_of_a_key_overrides_what_was_set_before() -> None:
    env = make_env().set_buffer_timeout(5)

    env.configure(Configuration.from_dict({"execution.buffer-timeout": "30 ms"}))

    assert env.get_buffer_timeout() == 30


def test_malformed_values_are_refused_when_they_are_configured() -> None:
    with pytest.raises(ConfigurationError, match=r"execution\.checkpointing\.interval"):
        make_env().configure(Configuration.from_dict({"execution.checkpointing.interval": "soon"}))


def test_an_unknown_key_is_reported_with_the_nearest_known_one(caplog: pytest.LogCaptureFixture) -> None:
    make_env().configure(Configuration.from_dict({"execution.checkpointing.intervall": "1 s"}))

    assert "did you mean 'execution.checkpointing.interval'" in caplog.text


def test_file_command_line_and_program_override_each_other_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.yaml").write_text("parallelism.default: 2\npipeline.name: file\npipeline.max-parallelism: 32\n")
    monkeypatch.setenv("FLINKISH_CONF_DIR", str(tmp_path))
    set_arguments(monkeypatch, "job.py", "-Dpipeline.name=line", "-Dpipeline.max-parallelism=64")

    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"pipeline.max-parallelism": "256"}))

    env.from_collection([1]).print()
    assert (env.get_parallelism(), program_of(env).job_name, env.get_max_parallelism()) == (2, "line", 256)


def test_properties_come_from_flinkish_run_and_then_from_the_script() -> None:
    given = _properties(["input", "-Da=2", "-D", "--out=x"], {"FLINKISH_PROPERTIES": "-Da=1 '-Db=x y'"})

    assert given == ["-Da=1", "-Db=x y", "-Da=2"]


def test_each_call_returns_a_new_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    set_arguments(monkeypatch, "job.py")
    get = StreamExecutionEnvironment.get_execution_environment

    assert get() is not get()


def test_the_default_local_parallelism_holds_for_environments_made_later(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(StreamExecutionEnvironment, "_default_local_parallelism", None)
    set_arguments(monkeypatch, "job.py")
    monkeypatch.chdir(tmp_path)
    assert make_env().get_default_local_parallelism() == default_parallelism()

    make_env().set_default_local_parallelism(9)

    assert StreamExecutionEnvironment.get_execution_environment().get_parallelism() == 9
    assert make_env().get_default_local_parallelism() == 9


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("set_parallelism", 0),
        ("set_parallelism", -3),
        ("set_max_parallelism", 0),
        ("set_max_parallelism", 32769),
        ("set_buffer_timeout", -2),
        ("set_default_local_parallelism", 0),
        ("enable_checkpointing", 9),
    ],
)
def test_settings_out_of_range_are_refused(method: str, value: int) -> None:
    with pytest.raises(InvalidProgramError, match=f"got {value}"):
        getattr(make_env(), method)(value)


@pytest.mark.parametrize(
    ("method", "value"),
    [
        ("set_parallelism", "2"),
        ("set_runtime_mode", "BATCH"),
        ("configure", {"a": "b"}),
        ("get_execution_environment", {"a": "b"}),
        ("register_slot_sharing_group", "g"),
        ("set_restart_strategy", "fixed-delay"),
        ("set_state_backend", "hashmap"),
        ("set_default_savepoint_directory", None),
        ("set_python_executable", ""),
        ("add_python_file", None),
        ("from_collection", 5),
    ],
)
def test_arguments_of_a_wrong_type_are_refused(method: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        getattr(make_env(), method)(value)


def test_a_slot_sharing_group_is_registered_once() -> None:
    group = SlotSharingGroup.builder("g").set_cpu_cores(1).set_task_heap_memory_mb(1).build()
    env = make_env().register_slot_sharing_group(group).register_slot_sharing_group(group)

    with pytest.raises(InvalidProgramError, match="'g' is already registered"):
        env.register_slot_sharing_group(SlotSharingGroup.builder("g").build())


# Sources.


def test_from_collection_always_runs_in_one_subtask(env: StreamExecutionEnvironment) -> None:
    stream = env.from_collection([1, 2])

    made = last(stream)
    assert isinstance(made, SourceTransformation)
    assert (made.name, made.parallelism, made.can_be_parallel, made.watermarks) == ("Collection Source", 1, False, None)
    assert stream.get_type() == Types.PICKLED_BYTE_ARRAY()
    with pytest.raises(InvalidProgramError, match="can only run with parallelism 1; got 2"):
        stream.set_parallelism(2)


def test_from_collection_takes_any_collection_also_an_empty_one(env: StreamExecutionEnvironment) -> None:
    collections: tuple[Any, ...] = ([], (), {1, 2}, {"a": 1}.items(), range(3))
    for collection in collections:
        env.from_collection(collection)
    assert env.from_collection([], Types.INT()).get_type() == Types.INT()


def test_from_collection_refuses_elements_that_are_not_of_the_type(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(TypeMismatchError):
        env.from_collection([("a", 1), "b"], Types.TUPLE([Types.STRING(), Types.INT()]))


def test_from_collection_refuses_elements_that_cannot_be_pickled(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(NotSerializableError, match=r"the collection of from_collection\(\)"):
        env.from_collection([threading.Lock()])


def test_from_source_asks_the_source_for_its_type(env: StreamExecutionEnvironment) -> None:
    source = NumberSequenceSource(1, 10)

    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    typed = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.INT())

    made = last(stream)
    assert isinstance(made, SourceTransformation)
    assert (made.name, made.source, made.parallelism, made.can_be_parallel) == ("numbers", source, None, True)
    assert (stream.get_type(), typed.get_type()) == (Types.LONG(), Types.INT())


@pytest.mark.parametrize(
    ("strategy", "kept"),
    [
        (WatermarkStrategy.no_watermarks(), False),
        (WatermarkStrategy.for_monotonous_timestamps(), True),
        (WatermarkStrategy.no_watermarks().with_timestamp_assigner(Itself()), True),
    ],
    ids=["none", "watermarks", "timestamps only"],
)
def test_from_source_keeps_a_strategy_that_does_something(
    env: StreamExecutionEnvironment, strategy: WatermarkStrategy, kept: bool
) -> None:
    made = last(env.from_source(NumberSequenceSource(1, 2), strategy, "numbers"))

    assert isinstance(made, SourceTransformation)
    assert (made.watermarks is not None) == kept
    if made.watermarks is not None:
        assert made.watermarks.generates_watermarks == strategy.generates_watermarks
        assert type(made.watermarks.timestamp_assigner) is type(strategy.timestamp_assigner)


@pytest.mark.parametrize(
    "arguments",
    [
        ("file", WatermarkStrategy.no_watermarks(), "n"),
        (NumberSequenceSource(1, 2), None, "n"),
        (NumberSequenceSource(1, 2), WatermarkStrategy.no_watermarks(), ""),
        (NumberSequenceSource(1, 2), WatermarkStrategy.no_watermarks(), None),
    ],
    ids=["source", "strategy", "empty name", "no name"],
)
def test_wrong_arguments_of_from_source_are_type_errors(env: StreamExecutionEnvironment, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(TypeError):
        env.from_source(*arguments)


def test_a_source_may_refuse_how_it_is_configured(env: StreamExecutionEnvironment) -> None:
    class Refusing(NumberSequenceSource):
        def validate(self) -> None:
            raise InvalidProgramError("no such folder")

    with pytest.raises(InvalidProgramError, match="no such folder"):
        env.from_source(Refusing(1, 2), WatermarkStrategy.no_watermarks(), "n")


def test_a_source_function_runs_in_one_subtask(env: StreamExecutionEnvironment) -> None:
    made = last(env.add_source(Emitting(), type_info=Types.INT()))

    assert (made.name, made.parallelism, made.can_be_parallel, made.output_type) == ("Custom Source", 1, False, Types.INT())
    assert isinstance(last(env.add_source(NumberSequenceSource(1, 2), "n")), SourceTransformation)


@pytest.mark.parametrize("interface", [CheckpointedFunction, CheckpointListener])
def test_add_source_refuses_a_source_function_that_wants_to_be_checkpointed(
    env: StreamExecutionEnvironment, interface: type
) -> None:
    members = dict.fromkeys(("initialize_state", "snapshot_state", "notify_checkpoint_complete"), lambda *_: None)
    both = type("Both", (Emitting, interface), members)
    with pytest.raises(UnsupportedError, match=r"Both is a SourceFunction with state in checkpoints.*\n.*write a Source"):
        env.add_source(both())


@pytest.mark.parametrize("source", ["org.example.Source", Emitting, 5], ids=repr)
def test_add_source_refuses_what_is_no_source(env: StreamExecutionEnvironment, source: Any) -> None:
    with pytest.raises(TypeError, match=r"add_source\(\) needs a SourceFunction"):
        env.add_source(source)


def test_an_input_format_names_a_source(env: StreamExecutionEnvironment) -> None:
    class Numbers(InputFormat):
        def create_source(self) -> Any:
            return NumberSequenceSource(1, 3)

    stream = env.create_input(Numbers())
    assert (stream.get_name(), stream.get_type()) == ("Custom File source", Types.LONG())
    assert env.create_input(Numbers(), Types.INT()).get_type() == Types.INT()
    with pytest.raises(TypeError, match=r"create_input\(\) needs an? InputFormat"):
        env.create_input(NumberSequenceSource(1, 3))  # type: ignore[arg-type]


# Programs.


def test_a_program_holds_what_leads_to_operators_and_nothing_else(env: StreamExecutionEnvironment) -> None:
    unused = numbers(env)
    used = numbers(env)
    dangling = used.map(abs)
    keyed = used.key_by(abs)
    used.key_by(str)
    sink = keyed.print()

    program = program_of(env, "job")

    assert list(program.transformations) == [id_of(used), id_of(dangling), id_of(keyed), id_of(sink)]
    assert id_of(unused) not in program.transformations
    assert program.job_name == "job"


def test_a_program_has_the_settings_as_they_are_when_it_is_executed(env: StreamExecutionEnvironment) -> None:
    numbers(env).print()
    env.set_max_parallelism(64).set_buffer_timeout(5).disable_operator_chaining().enable_checkpointing(1000)

    program = program_of(env)
    env.enable_checkpointing(5000)

    assert program.configuration.to_dict() == {
        "execution.buffer-timeout.interval": "5",
        "execution.checkpointing.interval": "1000",
        "parallelism.default": "4",
        "pipeline.max-parallelism": "64",
        "pipeline.operator-chaining.enabled": "false",
    }
    assert program.job_name == "Flink Streaming Job"


def test_a_new_default_parallelism_is_for_the_operators_that_follow(env: StreamExecutionEnvironment) -> None:
    before = numbers(env).map(abs)
    env.set_parallelism(2)
    after = before.map(abs)

    assert (last(before).parallelism, last(after).parallelism) == (4, None)


def test_execute_waits_for_the_result_and_clears_the_program(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    numbers(env).print()

    result: Any = env.execute("job")

    assert (result, executor.programs[0].job_name) == ("result", "job")
    with pytest.raises(InvalidProgramError, match="No operators defined in streaming topology"):
        env.execute()


def test_a_failed_job_raises_its_error(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    executor.client.error = ValueError("boom")
    numbers(env).print()

    with pytest.raises(ValueError, match="boom"):
        env.execute()


def test_a_stream_can_be_built_upon_again_after_an_execution(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    stream = numbers(env).map(abs)
    first = stream.print()
    env.execute()
    second = stream.print("again")

    env.execute()

    assert list(executor.programs[0].transformations) == [*last(stream).inputs, id_of(stream), id_of(first)]
    assert list(executor.programs[1].transformations) == [*last(stream).inputs, id_of(stream), id_of(second)]


def test_execute_async_returns_the_client(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    numbers(env).print()

    client: Any = env.execute_async()

    assert client is executor.client
    assert executor.programs[0].job_name == "Flink Streaming Job"


def test_the_job_name_may_come_from_the_configuration(executor: FakeExecutor) -> None:
    env = make_env(pipeline__name="configured")
    numbers(env).print()

    env.execute()

    assert executor.programs[0].job_name == "configured"


def test_plans_do_not_clear_the_program(env: StreamExecutionEnvironment, executor: FakeExecutor) -> None:
    numbers(env).print()

    assert json.loads(env.get_execution_plan()) == {}
    assert env.explain() == "plan"
    env.execute()

    assert len(executor.programs) == 3
    assert executor.programs[0].transformations == executor.programs[2].transformations


@pytest.mark.parametrize("method", ["execute", "execute_async", "get_execution_plan", "explain"])
def test_a_program_without_operators_is_refused(env: StreamExecutionEnvironment, method: str) -> None:
    numbers(env)

    with pytest.raises(InvalidProgramError, match="No operators defined in streaming topology"):
        getattr(env, method)()


# Dependencies.


def test_dependencies_stand_in_the_program(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    paths = {}
    for name in ("a.py", "b.zip", "requirements.txt", "data.zip", "model.bin"):
        (tmp_path / name).touch()
        paths[name] = str(tmp_path / name)

    env.add_python_file(paths["a.py"])
    env.add_python_file(paths["b.zip"])
    env.set_python_requirements(paths["requirements.txt"], str(tmp_path))
    env.add_python_archive(paths["data.zip"])
    env.add_python_archive(paths["data.zip"], "data")
    env.set_python_executable("python3.12")
    env.register_cached_file(paths["model.bin"], "model", True)
    env.add_jars("file:///a.jar")
    env.add_jars("file:///b.jar")
    env.add_classpaths("file:///c.jar", "file:///d.jar")
    numbers(env).print()

    program = program_of(env)

    assert program.python_files == (paths["b.zip"], paths["a.py"])
    assert program.python_requirements == PythonRequirements(path=paths["requirements.txt"], cache_directory=str(tmp_path))
    assert program.python_archives == (
        PythonArchive(path=paths["data.zip"]),
        PythonArchive(path=paths["data.zip"], target_directory="data"),
    )
    assert program.configuration.to_dict()["python.executable"] == "python3.12"
    assert program.cached_files == (CachedFile(name="model", path=paths["model.bin"], executable=True),)
    assert program.configuration.to_dict()["pipeline.jars"] == "file:///a.jar;file:///b.jar"
    assert program.configuration.to_dict()["pipeline.classpaths"] == "file:///c.jar;file:///d.jar"


def test_dependencies_that_are_not_there_are_refused(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing.py")
    for method, arguments in (
        ("add_python_file", [missing]),
        ("set_python_requirements", [missing]),
        ("add_python_archive", [missing]),
        ("register_cached_file", [missing, "name"]),
    ):
        with pytest.raises(InvalidProgramError, match=r"missing.py.*there is no such file"):
            getattr(env, method)(*arguments)


def test_a_name_of_a_cached_file_is_taken_once(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    env.register_cached_file(str(tmp_path), "name")

    with pytest.raises(InvalidProgramError, match="'name' is already registered"):
        env.register_cached_file(str(tmp_path), "name")


# Flink 1.x.


def test_restart_strategies_and_state_backends_of_flink_1_set_the_keys() -> None:
    env = make_env()
    assert isinstance(env.get_state_backend(), HashMapStateBackend)

    backend = EmbeddedRocksDBStateBackend(True)
    env.set_restart_strategy(RestartStrategies.fixed_delay_restart(3, 1000)).set_state_backend(backend)
    env.set_restart_strategy(RestartStrategies.fall_back_restart())

    settings = env._configuration.to_dict()
    assert settings["restart-strategy.type"] == "fixed-delay"
    assert settings["restart-strategy.fixed-delay.attempts"] == "3"
    assert (settings["state.backend.type"], env.get_state_backend()) == ("rocksdb", backend)
    assert isinstance(make_env(state__backend__type="rocksdb").get_state_backend(), EmbeddedRocksDBStateBackend)


def test_sources_of_flink_1_are_there(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("a\nb\n")

    assert env.read_text_file(str(tmp_path / "lines.txt")).get_type() == Types.STRING()
    assert env.generate_sequence(1, 5).get_type() == Types.LONG()
    socket = last(env.socket_text_stream("localhost", 9999))
    assert (socket.output_type, socket.parallelism, socket.can_be_parallel) == (Types.STRING(), 1, False)

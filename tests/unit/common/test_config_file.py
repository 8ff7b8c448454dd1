"""conf/config.yaml, -D properties and who wins."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from flinkish.common import Configuration, options
from flinkish.common.config_file import load_configuration, parse_properties, read_config_file
from flinkish.common.errors import ConfigurationError


def write(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text)
    return path


def load(folder: Path, *properties: str) -> Configuration:
    return load_configuration(properties, environment={"FLINKISH_CONF_DIR": str(folder)})


def test_nested_and_flat_keys_mean_the_same(tmp_path: Path) -> None:
    nested = read_config_file(write(tmp_path, "execution:\n  checkpointing:\n    interval: 10 s\nparallelism.default: 3\n"))
    assert nested.get(options.CHECKPOINTING_INTERVAL) == 10_000
    assert nested.get(options.DEFAULT_PARALLELISM) == 3


def test_a_part_of_a_key_may_be_nested_below_a_flat_part(tmp_path: Path) -> None:
    configuration = read_config_file(write(tmp_path, "execution.checkpointing:\n  mode: AT_LEAST_ONCE\n  min-pause: 500 ms\n"))
    assert configuration.key_set() == {"execution.checkpointing.mode", "execution.checkpointing.min-pause"}


def test_lists_maps_and_dates_are_kept(tmp_path: Path) -> None:
    configuration = read_config_file(
        write(
            tmp_path, "pipeline:\n  jars: [a.jar, b.jar]\n  global-job-parameters: {from: 2013-01-01, n: 5}\n  name: 2013-01-01\n"
        )
    )
    assert configuration.get(options.JARS) == ["a.jar", "b.jar"]
    assert configuration.get(options.GLOBAL_JOB_PARAMETERS) == {"from": "2013-01-01", "n": "5"}
    assert configuration.get(options.PIPELINE_NAME) == "2013-01-01"


def test_values_are_read_as_they_are_written(tmp_path: Path) -> None:
    configuration = read_config_file(
        write(tmp_path, "parallelism.default: 010\npipeline: {name: 1.10, jars: [on, 1:30], global-job-parameters: {n: 010}}\n")
    )
    assert configuration.get(options.DEFAULT_PARALLELISM) == 10
    assert configuration.get(options.PIPELINE_NAME) == "1.10"
    assert configuration.get(options.JARS) == ["on", "1:30"]
    assert configuration.get(options.GLOBAL_JOB_PARAMETERS) == {"n": "010"}
    with pytest.raises(ConfigurationError, match="bad value '1:30'"):
        read_config_file(write(tmp_path, "execution.checkpointing.interval: 1:30\n")).get(options.CHECKPOINTING_INTERVAL)


@pytest.mark.parametrize("text", ["", "# only a comment\n", "execution:\n"])
def test_an_empty_file_is_an_empty_configuration(tmp_path: Path, text: str) -> None:
    assert read_config_file(write(tmp_path, text)).key_set() == set()


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        ("a: 1\nb: [1\n", 3, "not valid YAML"),
        ("a: 1\n  b: 2\n", 2, "not valid YAML"),
        ("- a\n- b\n", 1, "got a list"),
        ("just text\n", 1, "got 'just text'"),
        ("a.b: 1\na:\n  b: 2\n", 3, "given twice"),
        ("a: !!python/object/apply:os.getcwd []\n", 1, "not valid YAML"),
    ],
)
def test_a_bad_file_is_told_with_file_and_line(tmp_path: Path, text: str, line: int, problem: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigurationError) as error:
        read_config_file(path)
    assert f"{path} line {line}" in str(error.value)
    assert problem in str(error.value)


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        read_config_file(path)


def test_properties_win_over_the_file(tmp_path: Path) -> None:
    write(tmp_path, "parallelism.default: 1\npipeline.name: file\nexecution.engine: local\n")
    configuration = load(tmp_path, "-Dparallelism.default=2", "-Dpipeline.name=property")
    assert configuration.get(options.DEFAULT_PARALLELISM) == 2
    assert configuration.get(options.PIPELINE_NAME) == "property"
    assert configuration.get(options.ENGINE) == "local"


def test_an_older_name_on_the_command_line_wins_over_the_newer_in_the_file(tmp_path: Path) -> None:
    write(tmp_path, "execution.checkpointing.dir: /file\n")
    assert load(tmp_path, "-Dstate.checkpoints.dir=/property").get(options.CHECKPOINTS_DIRECTORY) == "/property"


def test_a_malformed_value_in_the_file_is_told_with_its_line(tmp_path: Path) -> None:
    write(tmp_path, "pipeline.name: x\nparallelism:\n  default: many\n")
    with pytest.raises(ConfigurationError, match=r"'many'.*'parallelism.default'.*config.yaml line 3"):
        load(tmp_path)


def test_an_unknown_key_is_a_warning_that_names_the_nearest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(tmp_path, "execution:\n  checkpointing:\n    intervall: 10 s\n")
    load(tmp_path)
    assert len(caplog.records) == 1
    message = caplog.records[0].getMessage()
    assert "'execution.checkpointing.intervall'" in message
    assert "config.yaml line 3" in message
    assert "did you mean 'execution.checkpointing.interval'?" in message


def test_settings_for_spark_and_keys_of_flinks_processes_are_no_warnings(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write(tmp_path, "spark.executor.memory: 2g\ntaskmanager.memory.process.size: 4g\n")
    with caplog.at_level(logging.WARNING):
        configuration = load(tmp_path)
    assert caplog.records == []
    assert configuration.get_string("spark.executor.memory", "") == "2g"


def test_the_folder_of_the_environment_must_hold_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="FLINKISH_CONF_DIR"):
        load(tmp_path)


def test_without_the_variable_the_file_is_in_conf_or_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load_configuration(environment={}).key_set() == set()
    (tmp_path / "conf").mkdir()
    write(tmp_path / "conf", "pipeline.name: here\n")
    assert load_configuration(environment={}).get(options.PIPELINE_NAME) == "here"


def test_properties_may_hold_equals_signs_and_lack_the_dash_d() -> None:
    configuration = parse_properties(["-Da=b=c", "d=e"])
    assert configuration.to_dict() == {"a": "b=c", "d": "e"}
    assert configuration.origin("a") == "-Da on the command line"


@pytest.mark.parametrize("wrong", ["-Dkey", "=value", "-D=x"])
def test_a_property_without_key_or_value_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="expected -Dkey=value"):
        parse_properties([wrong])


@pytest.mark.parametrize("folder", [".", "conf"])
def test_a_file_with_flinks_older_name_is_told_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / folder).mkdir(exist_ok=True)
    file = tmp_path / folder / "flink-conf.yaml"
    file.write_text("parallelism.default: 7")
    for _ in range(2):
        configuration = load_configuration(environment={})
    assert not configuration.contains_key("parallelism.default")
    assert caplog.messages == [f"{file} is not read: flinkish reads conf/config.yaml, with the same keys."]

"""Paths and URLs: '#' and '?' are part of a name, wherever one is given."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish.checkpoint.paths import local_path as checkpoint_folder
from flinkish.common import Configuration
from flinkish.common.errors import ConfigurationError, InvalidProgramError, UnsupportedError
from flinkish.common.paths import Location, as_flink_shows, location
from flinkish.datastream import StreamExecutionEnvironment
from flinkish.datastream.connectors.file_system.paths import local_path as file_path
from flinkish.engine.dependencies import _local as dependency
from flinkish.engine.spark.spark_settings import local_path as jar_path
from flinkish.engine.support import _check_jars


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/a#b", Location("", "", "/a#b")),
        ("a:b", Location("", "", "a:b")),
        ("/a:b", Location("", "", "/a:b")),
        ("file:/a#b", Location("file", "", "/a#b")),
        ("FILE:///a", Location("file", "", "/a")),
        ("file:a", Location("file", "", "a")),
        ("file://host/a", Location("file", "host", "/a")),
        ("s3://bucket", Location("s3", "bucket", "")),
        ("hdfs:/a?b", Location("hdfs", "", "/a?b")),
    ],
)
def test_a_location_is_split_as_flink_s_path(text: str, expected: Location) -> None:
    assert location(text) == expected


@pytest.mark.parametrize(
    "written", ["/{}/a#b?c", "file:///{}/a%23b?c", "file:/{}/a#b?c", "file://localhost/{}/a#b?c", "file:////{}/a#b?c"]
)
def test_a_name_with_a_number_sign_is_found_wherever_it_is_given(tmp_path: Path, written: str) -> None:
    folder = tmp_path / "a#b?c"
    folder.mkdir()
    text = written.format(str(tmp_path).lstrip("/"))

    assert file_path(text, "the path") == str(folder)
    assert checkpoint_folder(text, key="the key") == folder
    assert dependency(text, "archive") == str(folder)
    assert jar_path(text) == str(folder)


def test_a_host_is_refused_wherever_it_is_given(tmp_path: Path) -> None:
    text = f"file:/{tmp_path}"
    assert location(text).host == str(tmp_path).split("/")[1]

    for refuse in (
        lambda: file_path(text, "the path"),
        lambda: checkpoint_folder(text, key="the key"),
        lambda: dependency(text, "archive"),
        lambda: _check_jars(Configuration.from_dict({"execution.engine": "spark", "pipeline.jars": text})),
    ):
        with pytest.raises((UnsupportedError, ConfigurationError, InvalidProgramError)):
            refuse()


def test_a_jar_whose_name_spark_would_cut_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a#b.jar").touch()
    configuration = Configuration.from_dict({"execution.engine": "spark", "pipeline.jars": f"{tmp_path}/a#b.jar"})

    with pytest.raises(InvalidProgramError, match=r"a#b\.jar: Spark takes what follows '#'.*\nHint: rename the file\."):
        _check_jars(configuration)


@pytest.mark.parametrize("text", ["hdfs:/a", "hdfs:///a", "s3://bucket/a"])
def test_a_place_that_is_no_folder_is_no_relative_path(text: str) -> None:
    assert not location(as_flink_shows(text)).is_local
    with pytest.raises(ConfigurationError, match="checkpoints are kept in folders"):
        checkpoint_folder(as_flink_shows(text), key="the key")


def test_a_path_with_a_character_that_separates_paths_is_refused(tmp_path: Path) -> None:
    env = StreamExecutionEnvironment(Configuration())
    for name in ("a#b.zip", "a,b.zip"):
        (tmp_path / name).touch()

    for add in (env.add_python_archive, env.set_python_requirements):
        with pytest.raises(InvalidProgramError, match=r"a#b\.zip'\): '#' separates paths here"):
            add(f"{tmp_path}/a#b.zip")
    for add in (env.add_python_archive, env.add_python_file):
        with pytest.raises(InvalidProgramError, match=r"a,b\.zip'\): ',' separates paths here"):
            add(f"{tmp_path}/a,b.zip")
    env.add_python_file(f"{tmp_path}/a#b.zip")

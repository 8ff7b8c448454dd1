"""Jars of a program: given to the session that flinkish makes, refused where one runs without them."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from flinkish.common import Configuration
from flinkish.common.errors import JobExecutionError
from flinkish.datastream import StreamExecutionEnvironment
from tests.kit.child import python

pytestmark = pytest.mark.spark

_SCRIPT = """
import sys
from pyspark import SparkContext
from flinkish.common import Configuration
from flinkish.common.errors import EngineError
from flinkish.engine.spark.session import hold_session, release_session
from flinkish.engine.spark.spark_settings import SparkSettings

def held(jars, paths=""):
    return hold_session(SparkSettings.of(Configuration.from_dict({"pipeline.jars": jars, "pipeline.classpaths": paths})))

first = held(sys.argv[1], sys.argv[2])
loader = SparkContext._jvm.java.lang.Thread.currentThread().getContextClassLoader()
print("found", loader.getResource("in_jar.txt") is not None, loader.getResource("in_folder.txt") is not None)
release_session(held(sys.argv[1]))
for state in ("running", "stopped"):
    try:
        held(sys.argv[1] + ";/other.jar")
    except EngineError as error:
        print(state, str(error).splitlines()[0])
    release_session(first)
release_session(held(sys.argv[1], sys.argv[2]))
print("again")
"""


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    path = tmp_path / "some.jar"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
        file.writestr("in_jar.txt", "")
    return path


def test_a_session_of_ours_has_the_jars_and_one_that_runs_must_have_them(jar: Path, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "in_folder.txt").touch()
    run = python("-c", _SCRIPT, jar.as_uri(), tmp_path / "folder", folder=tmp_path, FLINKISH_CONF_DIR=str(tmp_path))
    assert run.stdout.splitlines() == [
        "found True True",
        "running pipeline.jars names /other.jar, but a Spark session runs already, without.",
        "stopped pipeline.jars names /other.jar, but Spark's JVM runs already, without.",
        "again",
    ]


@pytest.mark.usefixtures("spark_session")
def test_a_job_whose_jars_the_running_session_does_not_have_fails_by_name(jar: Path) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict({"execution.engine": "spark"}))
    env.add_jars(jar.as_uri())
    env.from_collection([1]).print()
    with pytest.raises(JobExecutionError, match=r"pipeline.jars names file:.*some.jar, but a Spark session runs already"):
        env.execute()

"""Settings of sessions: layers, files, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest

from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError, EngineError
from flinkish.engine.spark import spark_settings
from flinkish.engine.spark.spark_settings import SparkSettings


def test_later_layers_win_and_ours_come_first() -> None:
    result = spark_settings.own_session_settings(
        {"spark.master": "local[3]", "spark.a": "1"}, {"spark.a": "2"}, {"spark.master": "yarn"}
    )
    assert (result["spark.master"], result["spark.a"]) == ("yarn", "2")
    assert result["spark.python.unix.domain.socket.enabled"] == "true"


def test_the_driver_has_the_quick_compiler_alone_unless_its_options_are_given() -> None:
    key = "spark.driver.extraJavaOptions"
    assert spark_settings.own_session_settings()[key] == spark_settings.QUICK_COMPILER
    assert spark_settings.own_session_settings({key: "-Xss4m"})[key] == "-Xss4m"


def test_a_session_of_ours_tries_tasks_again() -> None:
    assert spark_settings.own_session_settings()["spark.master"] == "local[*,4]"


def test_only_on_one_machine_the_driver_listens_on_the_loopback_address() -> None:
    assert spark_settings.own_session_settings()["spark.driver.bindAddress"] == "127.0.0.1"
    assert "spark.driver.bindAddress" not in spark_settings.own_session_settings({"spark.master": "yarn"})


def test_on_a_cluster_sockets_are_in_a_folder_that_every_machine_has() -> None:
    key = "spark.python.unix.domain.socket.dir"
    assert spark_settings.own_session_settings({"spark.master": "spark://host:7077"})[key] == "/tmp"
    assert spark_settings.own_session_settings({"spark.master": "yarn", key: "/run/spark"})[key] == "/run/spark"
    assert key not in spark_settings.own_session_settings({"spark.master": "local[2]"})


def test_executors_that_were_lost_long_ago_do_not_end_a_job() -> None:
    key = "spark.executor.failuresValidityInterval"
    assert spark_settings.own_session_settings({"spark.master": "yarn"})[key] == "1h"
    assert spark_settings.own_session_settings({"spark.master": "yarn", key: "2h"})[key] == "2h"
    assert key not in spark_settings.own_session_settings({"spark.master": "local[2]"})


def test_job_settings_hold_one_state_partition_a_slot() -> None:
    assert spark_settings.job_settings(7)["spark.sql.shuffle.partitions"] == "7"


@pytest.mark.parametrize(
    ("master", "local", "one_machine"),
    [("local", True, True), ("local[2,4]", True, True), ("local-cluster[2,1,1024]", False, True), ("yarn", False, False)],
)
def test_masters_are_told_apart(master: str, local: bool, one_machine: bool) -> None:
    assert (spark_settings.is_local(master), spark_settings.is_one_machine(master)) == (local, one_machine)


def test_a_configuration_hands_on_spark_keys_and_the_scratch_folder() -> None:
    configuration = Configuration()
    configuration.set_string("spark.executor.memory", "2g")
    configuration.set_string("io.tmp.dirs", "/mnt/shared")
    configuration.set_string("execution.engine", "spark")
    read = SparkSettings.of(configuration)
    assert (dict(read.passed_on), read.scratch_dir) == ({"spark.executor.memory": "2g"}, Path("/mnt/shared"))


def test_jars_and_class_paths_join_those_of_the_settings() -> None:
    configuration = Configuration.from_dict({"pipeline.jars": "file:///a%20b.jar;/c.jar", "pipeline.classpaths": "file:///lib"})
    wanted = SparkSettings.of(configuration)
    joined = spark_settings.with_jars({"spark.jars": "/d.jar", "spark.driver.extraClassPath": "/e"}, wanted)
    assert joined == {
        "spark.jars": "/d.jar,file:///a%20b.jar,/c.jar",
        "spark.driver.extraClassPath": "/e:/lib",
        "spark.executor.extraClassPath": "/lib",
    }
    spark_settings.check_jars(wanted, {**joined, "spark.jars": "file:///c.jar,/a b.jar"}, "it runs")
    for key, value, missing in (
        ("spark.jars", "/c.jar", "file:///a%20b.jar"),
        ("spark.driver.extraClassPath", "", "file:///lib"),
    ):
        with pytest.raises(EngineError, match=f"names {missing}, but it runs already"):
            spark_settings.check_jars(wanted, {**joined, key: value}, "it runs")


def test_spark_defaults_are_read_with_blanks_equals_signs_and_comments(tmp_path: Path) -> None:
    path = tmp_path / "spark-defaults.conf"
    path.write_text("# comment\n\nspark.a   1\nspark.b=two words\n  spark.c\t-Dx=y\n")
    assert spark_settings.read_spark_defaults(path) == {"spark.a": "1", "spark.b": "two words", "spark.c": "-Dx=y"}


@pytest.mark.parametrize("line", ["spark.a", "a.b c"])
def test_a_malformed_line_of_spark_defaults_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "spark-defaults.conf"
    path.write_text(f"spark.ok 1\n{line}\n")
    with pytest.raises(ConfigurationError, match=r"line 2: expected `spark.<key> <value>`"):
        spark_settings.read_spark_defaults(path)


def test_spark_defaults_are_looked_for_in_the_configuration_folder(tmp_path: Path) -> None:
    environment = {"FLINKISH_CONF_DIR": str(tmp_path)}
    assert spark_settings.project_file("spark-defaults.conf", environment) is None
    (tmp_path / "spark-defaults.conf").touch()
    assert spark_settings.project_file("spark-defaults.conf", environment) == tmp_path / "spark-defaults.conf"


_DELTA = {"spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension", "spark.x": "1"}


def test_delta_gets_its_jars_if_they_are_there() -> None:
    result = spark_settings.with_delta(_DELTA, [Path("/j/a.jar"), Path("/j/b.jar")])
    assert result == {**_DELTA, "spark.jars": "/j/a.jar,/j/b.jar"}


def test_delta_is_left_out_without_its_jars() -> None:
    assert spark_settings.with_delta(_DELTA, []) == {"spark.x": "1"}


def test_packages_given_by_the_user_are_left_alone() -> None:
    given = {**_DELTA, "spark.jars.packages": "io.delta:delta-spark_4.2_2.13:4.4.0"}
    assert spark_settings.with_delta(given, []) == given


def test_delta_jars_that_spark_does_not_have_are_taken_from_the_cache_of_ivy(tmp_path: Path) -> None:
    spark_jars = tmp_path / "spark"
    spark_jars.mkdir()
    (spark_jars / "hadoop-client-api-3.5.0.jar").touch()
    assert spark_settings.cached_delta_jars(tmp_path, spark_jars) == []
    folder = tmp_path / ".ivy2.5.2" / "jars"
    folder.mkdir(parents=True)
    for name in ("io.delta_delta-storage-4.4.0.jar", "org.apache.hadoop_hadoop-client-api-3.4.2.jar"):
        (folder / name).touch()
    assert spark_settings.cached_delta_jars(tmp_path, spark_jars) == []
    (folder / "io.delta_delta-spark_4.2_2.13-4.4.0.jar").touch()
    assert [path.name for path in spark_settings.cached_delta_jars(tmp_path, spark_jars)] == [
        "io.delta_delta-spark_4.2_2.13-4.4.0.jar",
        "io.delta_delta-storage-4.4.0.jar",
    ]

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path

import pytest

from flinkish.common.config_file import PROPERTIES_VARIABLE
from flinkish.common.errors import ConfigurationError, InvalidArgumentError
from flinkish.engine.spark.spark_settings import QUICK_COMPILER, delta_coordinates
from flinkish.engine.spark.submission import (
    SparkInstallation,
    SparkSubmit,
    environment_of,
    find_spark,
    parse_command_line,
    spark_submit,
    submit_arguments,
    unread_config,
)

HOME = Path("/spark")
PACKAGE = Path("/packed/flinkish.zip")


def place(**given: object) -> SparkInstallation:
    usual = {"home": HOME, "defaults": {}, "project_defaults": {}, "delta_jars": (Path("/ivy/delta.jar"),), "log4j": None}
    return SparkInstallation(**{**usual, **given})  # type: ignore[arg-type]


FILE = Path("/private/spark.properties")


def submitted(text: str, **given: object) -> SparkSubmit:
    return spark_submit(parse_command_line(shlex.split(text)), place(**given), PACKAGE)


def command(text: str, **given: object) -> list[str]:
    return submitted(text, **given).command(FILE)


def settings_of(text: str, **given: object) -> Mapping[str, str]:
    return submitted(text, **given).settings


def value_of(command: list[str], option: str) -> str:
    assert command.count(option) == 1
    return command[command.index(option) + 1]


def test_options_of_spark_and_of_flinkish_are_told_from_the_script_and_its_arguments() -> None:
    line = parse_command_line(
        shlex.split(
            "--master yarn -Da.b=1 --verbose --conf=spark.x=2 -c spark.y=3 -p 4 -s /save/1 -n -D c=d job.py -p 9 --master z -De=f"
        )
    )
    assert line.options == (("--master", "yarn"), ("--verbose", None), ("--conf", "spark.x=2"), ("-c", "spark.y=3"))
    assert line.properties == (
        "a.b=1",
        "parallelism.default=4",
        "execution.state-recovery.path=/save/1",
        "execution.state-recovery.ignore-unclaimed-state=true",
        "c=d",
    )
    assert (line.job, line.arguments) == ("job.py", ("-p", "9", "--master", "z", "-De=f"))


def test_an_option_wins_over_the_property_of_its_key() -> None:
    line = parse_command_line(shlex.split("-Dparallelism.default=3 -p 4 -D parallelism.default=5 -Da=b job.py"))
    assert line.properties == ("parallelism.default=4", "a=b")


def test_the_value_of_an_option_is_not_taken_for_the_script() -> None:
    assert parse_command_line(["--py-files", "other.py", "job.py"]).job == "job.py"


@pytest.mark.parametrize(("text", "what"), [("", "no script"), ("--master yarn", "no script"), ("-p", "-p needs a value")])
def test_a_command_line_without_a_script_or_a_value_is_refused(text: str, what: str) -> None:
    with pytest.raises(InvalidArgumentError, match=what):
        parse_command_line(shlex.split(text))


def test_flinkish_delta_and_the_settings_that_spark_needs_at_its_start_are_added() -> None:
    found = command("job.py a b")
    assert found[0] == "/spark/bin/spark-submit"
    assert found[-3:] == ["job.py", "a", "b"]
    assert (value_of(found, "--py-files"), value_of(found, "--jars")) == (str(PACKAGE), "/ivy/delta.jar")
    assert value_of(found, "--master") == "local[*,4]"
    assert settings_of("job.py a b") == {
        "spark.app.name": "job",
        "spark.driver.extraJavaOptions": QUICK_COMPILER,
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }


def test_on_a_cluster_sockets_are_in_a_folder_that_every_machine_has() -> None:
    key = "spark.python.unix.domain.socket.dir"
    assert settings_of("--master spark://host:7077 job.py")[key] == "/tmp"
    assert settings_of(f"--master yarn --conf {key}=/run/spark job.py")[key] == "/run/spark"


def test_delta_is_fetched_by_its_coordinates_where_its_jars_are_not_there_yet() -> None:
    found = command("--packages a:b:1 job.py", delta_jars=())
    assert value_of(found, "--packages") == f"a:b:1,{delta_coordinates()}"
    assert "--jars" not in found


def test_lists_that_the_user_gives_are_kept() -> None:
    found = command("--py-files x.zip --jars y.jar job.py", defaults={"spark.jars": "never.jar"})
    assert (value_of(found, "--py-files"), value_of(found, "--jars")) == (f"x.zip,{PACKAGE}", "y.jar,/ivy/delta.jar")
    assert value_of(command("job.py", defaults={"spark.jars": "z.jar"}), "--jars") == "z.jar,/ivy/delta.jar"


def test_what_the_user_sets_goes_before_spark_s_defaults_these_before_the_project_s_and_these_before_ours() -> None:
    defaults = {"spark.a": "spark", "spark.master": "yarn"}
    project = {"spark.a": "project", "spark.b": "project", "spark.c": "project", "spark.app.name": "project"}
    line = submitted("--conf spark.b=user job.py", defaults=defaults, project_defaults=project)
    found, set_ = line.command(FILE), line.settings
    assert "spark.a" not in set_
    assert (set_["spark.b"], set_["spark.c"], set_["spark.app.name"]) == ("user", "project", "project")
    assert "--master" not in found
    assert value_of(command("--master local[2] job.py", defaults=defaults), "--master") == "local[2]"


def test_the_log_configuration_is_added_to_the_java_options_unless_they_name_one() -> None:
    log4j = Path("/packed/log4j2.properties")
    assert settings_of("job.py", log4j=log4j)["spark.driver.extraJavaOptions"] == (
        f"{QUICK_COMPILER} -Dlog4j2.configurationFile=file:///packed/log4j2.properties"
    )
    own = "-Xms1g -Dlog4j2.configurationFile=file:///own"
    given = f"--conf 'spark.driver.extraJavaOptions={own}' job.py"
    assert settings_of(given, log4j=log4j)["spark.driver.extraJavaOptions"] == own


@pytest.mark.parametrize(
    ("master", "key"), [("yarn", "spark.yarn.appMasterEnv."), ("k8s://https://host", "spark.kubernetes.driverEnv.")]
)
def test_properties_travel_to_a_driver_in_the_cluster(master: str, key: str) -> None:
    found = settings_of(f"--master {master} --deploy-mode cluster -Da=1 -p 2 job.py")
    assert found[f"{key}{PROPERTIES_VARIABLE}"] == "a=1 parallelism.default=2"


@pytest.mark.parametrize(
    ("text", "project"),
    [("--deploy-mode cluster", {}), ("-c spark.submit.deployMode=cluster", {}), ("", {"spark.submit.deployMode": "cluster"})],
)
def test_properties_travel_to_a_driver_in_the_cluster_however_the_deploy_mode_is_set(text: str, project: dict[str, str]) -> None:
    found = settings_of(f"--master yarn {text} -Da=1 job.py", project_defaults=project)
    assert found[f"spark.yarn.appMasterEnv.{PROPERTIES_VARIABLE}"] == "a=1"
    line = parse_command_line(shlex.split(f"--master yarn {text} job.py"))
    assert "PYSPARK_DRIVER_PYTHON" not in environment_of(line, place(project_defaults=project), "/python", {})
    found = settings_of("--master yarn --deploy-mode client -Da=1 job.py", project_defaults=project)
    assert f"spark.yarn.appMasterEnv.{PROPERTIES_VARIABLE}" not in found


def test_a_driver_on_yarn_gets_the_log_settings_and_the_configuration_of_the_project(tmp_path: Path) -> None:
    given = {"log4j": tmp_path / "log4j2.properties", "config": tmp_path / "config.yaml"}
    given["config"].write_text("a: b\n")
    line = submitted("--master yarn --deploy-mode cluster --files key job.py", **given)
    assert value_of(line.command(FILE), "--files") == f"key,{given['log4j']},{given['config']}"
    assert line.settings["spark.yarn.appMasterEnv.FLINKISH_CONF_DIR"] == "."
    # A path of this machine would mean nothing there.
    assert "log4j2.configurationFile" not in line.settings["spark.driver.extraJavaOptions"]
    for elsewhere in ("--master yarn", "--master k8s://host --deploy-mode cluster"):
        assert "--files" not in command(f"{elsewhere} job.py", **given)
    own = "--conf spark.driver.extraJavaOptions=-Dlog4j2.configurationFile=x"
    assert value_of(command(f"--master yarn --deploy-mode cluster {own} job.py", **given), "--files") == str(given["config"])


def test_a_configuration_that_does_not_reach_the_driver_is_named(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    line = parse_command_line(shlex.split("--master k8s://host --deploy-mode cluster job.py"))
    assert unread_config(line, place(config=config)) == config
    assert (
        unread_config(parse_command_line(shlex.split("--master yarn --deploy-mode cluster job.py")), place(config=config)) is None
    )


def test_the_configuration_is_looked_for_only_if_the_driver_is_in_the_cluster(tmp_path: Path) -> None:
    environment = {"SPARK_CONF_DIR": str(tmp_path), "FLINKISH_CONF_DIR": str(tmp_path)}
    there = parse_command_line(shlex.split("--master yarn --deploy-mode cluster job.py"))
    with pytest.raises(ConfigurationError, match=r"no config\.yaml in the folder"):
        find_spark(there, HOME, (), tmp_path / "log4j", environment)
    (tmp_path / "config.yaml").touch()
    assert find_spark(there, HOME, (), tmp_path / "log4j", environment).config == tmp_path / "config.yaml"
    assert find_spark(parse_command_line(["job.py"]), HOME, (), tmp_path / "log4j", environment).config is None


@pytest.mark.parametrize(
    ("option", "text", "restarts"),
    [("", "", False), ("-D high-availability.cluster-id=a", "", True), ("", "high-availability: {cluster-id: a}", True)],
)
def test_yarn_starts_a_lost_driver_again_only_if_its_job_resumes(tmp_path: Path, option: str, text: str, restarts: bool) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(text)
    found = settings_of(f"--master yarn --deploy-mode cluster {option} job.py", config=config)
    assert found.get("spark.yarn.maxAppAttempts") == (None if restarts else "1")
    assert ("spark.yarn.am.attemptFailuresValidityInterval" in found) == restarts
    own = settings_of(f"--master yarn --deploy-mode cluster -c spark.yarn.maxAppAttempts=3 {option} job.py")
    assert own["spark.yarn.maxAppAttempts"] == "3"


@pytest.mark.parametrize(("master", "wanted"), [("yarn", "1h"), ("k8s://host", "1h"), ("local[2]", None)])
def test_executors_that_were_lost_long_ago_do_not_end_a_job(master: str, wanted: str | None) -> None:
    key = "spark.executor.failuresValidityInterval"
    assert settings_of(f"--master {master} job.py").get(key) == wanted
    assert key not in settings_of(f"--master {master} job.py", defaults={key: "2h"})


def test_properties_that_cannot_reach_a_driver_in_the_cluster_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="spark://host:7077"):
        command("--master spark://host:7077 --deploy-mode cluster -Da=1 job.py")


def test_a_driver_on_this_machine_gets_properties_and_python_by_its_environment() -> None:
    line = parse_command_line(["--master", "yarn", "-Da=b c", "job.py"])
    found = environment_of(line, place(), "/python", {PROPERTIES_VARIABLE: "z=1"})
    assert shlex.split(found[PROPERTIES_VARIABLE]) == ["z=1", "a=b c"]
    assert found["PYSPARK_DRIVER_PYTHON"] == "/python"
    assert "PYSPARK_PYTHON" not in found
    assert environment_of(parse_command_line(["job.py"]), place(), "/python", {})["PYSPARK_PYTHON"] == "/python"


def test_spark_s_own_configuration_folder_and_the_project_s_are_read(tmp_path: Path) -> None:
    for name in ("spark", "project"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "spark-defaults.conf").write_text(f"spark.from {name}\n")
    environment = {"SPARK_CONF_DIR": str(tmp_path / "spark"), "FLINKISH_CONF_DIR": str(tmp_path / "project")}
    found = find_spark(parse_command_line(["job.py"]), HOME, (), tmp_path / "log4j", environment)
    assert (found.defaults, found.project_defaults) == ({"spark.from": "spark"}, {"spark.from": "project"})
    assert found.log4j == tmp_path / "log4j"
    (tmp_path / "spark" / "log4j2.properties").touch()
    assert find_spark(parse_command_line(["job.py"]), HOME, (), tmp_path / "log4j", environment).log4j is None


def test_a_flag_of_spark_submit_does_not_take_the_script_for_its_value() -> None:
    assert parse_command_line(["--load-spark-defaults", "job.py"]).job == "job.py"


def test_tasks_on_a_cluster_that_spark_s_defaults_name_do_not_get_the_python_of_this_machine() -> None:
    line = parse_command_line(["job.py"])
    assert "PYSPARK_PYTHON" not in environment_of(line, place(defaults={"spark.master": "yarn"}), "/python", {})
    line = parse_command_line(["--conf", "spark.master=yarn", "job.py"])
    assert "PYSPARK_PYTHON" not in environment_of(line, place(), "/python", {})


@pytest.mark.parametrize(("flag", "usual"), [("", {}), ("--load-spark-defaults", {"spark.usual": "1"})])
def test_a_properties_file_goes_before_what_flinkish_adds(tmp_path: Path, flag: str, usual: dict[str, str]) -> None:
    (tmp_path / "spark-defaults.conf").write_text("spark.usual 1\nspark.app.name usual\n")
    (tmp_path / "own.conf").write_text("spark.app.name own\n")
    line = parse_command_line(shlex.split(f"{flag} --properties-file {tmp_path / 'own.conf'} job.py"))
    found = find_spark(line, HOME, (), tmp_path, {"SPARK_CONF_DIR": str(tmp_path), "FLINKISH_CONF_DIR": str(tmp_path / "none")})
    assert found.defaults == {"spark.app.name": "own", **usual}
    made = spark_submit(line, found, PACKAGE)
    # spark-submit reads one file, which has the settings of both.
    assert made.settings["spark.app.name"] == "own"
    assert made.settings.keys() >= usual.keys()
    assert value_of(made.command(FILE), "--properties-file") == str(FILE)
    assert "--load-spark-defaults" not in made.command(FILE)


def test_no_setting_is_on_the_command_line_and_spark_reads_its_own_defaults_besides() -> None:
    made = submitted(
        "--conf spark.a.password=typed -c spark.b=1 job.py", project_defaults={"spark.hadoop.fs.s3a.secret.key": "hush"}
    )
    assert made.settings["spark.a.password"] == "typed"
    assert made.settings["spark.hadoop.fs.s3a.secret.key"] == "hush"
    found = made.command(FILE)
    assert found[:3] == ["/spark/bin/spark-submit", "--properties-file", str(FILE)]
    assert "--load-spark-defaults" in found
    assert not {"--conf", "-c"} & set(found)


def test_settings_in_pyspark_s_own_arguments_are_passed_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "own.conf").write_text("spark.a file\nspark.b file\nspark.c file\n")
    given = shlex.split(f"--name x --conf spark.a=given --properties-file {tmp_path / 'own.conf'} --verbose pyspark-shell")
    found, others = submit_arguments(given, {"spark.a": "session", "spark.b": "session"})
    assert found == {"spark.a": "given", "spark.b": "session", "spark.c": "file"}
    assert others == ["--name", "x", "--verbose", "pyspark-shell"]
    assert submit_arguments(["pyspark-shell"], {"spark.a": "1"}) == ({"spark.a": "1"}, ["--load-spark-defaults", "pyspark-shell"])

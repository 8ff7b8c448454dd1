"""Builds the `spark-submit` command of a job from the user's options and those that flinkish adds.

All settings of the user, on the command line or in Spark's own configuration folder, override those of flinkish.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from flinkish.common import options as job_options
from flinkish.common.config_file import PROPERTIES_VARIABLE
from flinkish.common.errors import InvalidArgumentError
from flinkish.engine.spark import settings

#: The options of spark-submit that have no value; all others have one.
_FLAGS = ("--verbose", "-v", "--supervise", "--load-spark-defaults", "--usage-error", "--version")
#: Options whose values are lists: flinkish appends its own entries to the user's.
_LISTS = {"--py-files": "spark.submit.pyFiles", "--jars": "spark.jars", "--packages": "spark.jars.packages"}
#: Prefix of the settings for the environment of a driver in the cluster, by the beginning of the master's URL.
_DRIVER_ENVIRONMENT = {"yarn": "spark.yarn.appMasterEnv.", "k8s://": "spark.kubernetes.driverEnv."}


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """The arguments of `flinkish submit`.

    `options` are those of spark-submit, each with its value (None for a flag); `properties` are flinkish's, as `key=value`.
    """

    options: tuple[tuple[str, str | None], ...]
    properties: tuple[str, ...]
    job: str
    arguments: tuple[str, ...]

    def values(self, *names: str) -> list[str]:
        """Return the values of an option, which may have several names, in their order."""
        return [value for name, value in self.options if name in names and value is not None]


#: Options of `flinkish run` that set a configuration key, with the key's value if the option itself has none.
_SHORT: Mapping[str, tuple[str, str | None]] = {
    "-p": (job_options.DEFAULT_PARALLELISM.key, None),
    "--parallelism": (job_options.DEFAULT_PARALLELISM.key, None),
    "-s": (job_options.SAVEPOINT_PATH.key, None),
    "--fromSavepoint": (job_options.SAVEPOINT_PATH.key, None),
    "-n": (job_options.SAVEPOINT_IGNORE_UNCLAIMED_STATE.key, "true"),
    "--allowNonRestoredState": (job_options.SAVEPOINT_IGNORE_UNCLAIMED_STATE.key, "true"),
}


def parse_command_line(arguments: Sequence[str]) -> CommandLine:
    """Split a command line into options of spark-submit, options of flinkish, the script, and the script's arguments.

    The script is the first argument that is neither an option nor the value of one. Raises InvalidArgumentError if there is none.
    """
    options: list[tuple[str, str | None]] = []
    properties: list[str] = []
    rest = list(arguments)

    def value_of(name: str) -> str:
        if not rest:
            raise InvalidArgumentError(f"flinkish submit: the option {name} needs a value, but nothing follows it")
        return rest.pop(0)

    while rest:
        given = rest.pop(0)
        name, equals, value = given.partition("=")
        if not given.startswith("-"):
            return CommandLine(options=tuple(options), properties=tuple(properties), job=given, arguments=tuple(rest))
        if given.startswith("-D"):
            properties.append(given[2:] or value_of("-D"))
        elif name in _SHORT:
            key, fixed = _SHORT[name]
            properties.append(f"{key}={fixed or (value if equals else value_of(name))}")
        elif given in _FLAGS:
            options.append((given, None))
        elif name.startswith("--") and equals:
            options.append((name, value))
        else:
            options.append((given, value_of(given)))
    raise InvalidArgumentError(
        "flinkish submit: no script is given",
        hint="flinkish submit [OPTIONS] JOB [ARGUMENTS], such as `flinkish submit --master yarn job.py`.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkPlace:
    """The installation of Spark, and the settings for all applications.

    `defaults` has those of Spark's own configuration folder, `project_defaults` those of conf/spark-defaults.conf.
    """

    home: Path
    defaults: Mapping[str, str]
    project_defaults: Mapping[str, str]
    delta_jars: Sequence[Path]
    #: A log configuration for the driver; None = Spark's own folder has one.
    log4j: Path | None


def spark_submit(line: CommandLine, place: SparkPlace, package: Path) -> list[str]:
    """Return the arguments of the `spark-submit` that runs a job, with flinkish itself in the zip file `package`."""
    given = dict(entry.partition("=")[::2] for entry in line.values("--conf", "-c"))
    given["spark.master"] = master_of(line, place)
    ours = {
        "spark.app.name": Path(line.job).stem,
        "spark.driver.extraJavaOptions": settings.QUICK_COMPILER,
        "spark.python.unix.domain.socket.enabled": "true",
        **({} if settings.is_one_machine(given["spark.master"]) else settings.EXECUTOR_SOCKETS),
        **settings.DELTA_CLASSES,
        **place.project_defaults,
    }
    wanted = {key: value for key, value in ours.items() if key not in place.defaults} | given
    java_options = wanted.get("spark.driver.extraJavaOptions", place.defaults.get("spark.driver.extraJavaOptions", ""))
    if place.log4j is not None and "log4j2.configurationFile" not in java_options:
        wanted["spark.driver.extraJavaOptions"] = f"{java_options} -Dlog4j2.configurationFile={place.log4j.resolve().as_uri()}"
    wanted |= _driver_environment(line, given["spark.master"])
    added = {
        "--py-files": [str(package)],
        "--jars": [str(jar) for jar in place.delta_jars],
        "--packages": [] if place.delta_jars else [settings.delta_coordinates()],
    }
    command = [str(place.home / "bin" / "spark-submit")]
    master = wanted.pop("spark.master")
    if master != place.defaults.get("spark.master"):
        command += ["--master", master]
    for name, key in _LISTS.items():
        set_before = wanted.pop(key, None) or place.defaults.get(key)
        before = line.values(name) or ([set_before] if set_before else [])
        if before or added[name]:
            command += [name, ",".join([*before, *added[name]])]
    for key, value in wanted.items():
        command += ["--conf", f"{key}={value}"]
    for name, option in line.options:
        if name not in ("--master", "--conf", "-c", *_LISTS):
            command += [name] if option is None else [name, option]
    return [*command, line.job, *line.arguments]


def master_of(line: CommandLine, place: SparkPlace) -> str:
    """Return the URL of the master: from the command line, else from the settings of Spark or the project, else this machine."""
    for entry in line.values("--conf", "-c"):
        key, _, value = entry.partition("=")
        if key == "spark.master" and not line.values("--master"):
            return value
    default = place.defaults.get("spark.master", place.project_defaults.get("spark.master", settings.DEFAULT_MASTER))
    return (line.values("--master") or [default])[-1]


def _driver_environment(line: CommandLine, master: str) -> dict[str, str]:
    """Return the settings that pass properties to a driver in the cluster; a local driver gets them by its environment."""
    if not line.properties or line.values("--deploy-mode")[-1:] != ["cluster"]:
        return {}
    for prefix, key in _DRIVER_ENVIRONMENT.items():
        if master.startswith(prefix):
            return {f"{key}{PROPERTIES_VARIABLE}": shlex.join(line.properties)}
    raise InvalidArgumentError(
        f"flinkish submit: properties cannot reach a driver that the master {master} starts in the cluster: "
        f"{', '.join(line.properties)}",
        hint="set them in the program's Configuration, or leave out --deploy-mode cluster.",
    )


def environment_of(line: CommandLine, place: SparkPlace, python: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the `spark-submit` process; `python` runs the driver, and tasks on the same machine."""
    result = dict(environment)
    if line.properties:
        result[PROPERTIES_VARIABLE] = shlex.join([*shlex.split(result.get(PROPERTIES_VARIABLE, "")), *line.properties])
    if line.values("--deploy-mode")[-1:] != ["cluster"]:
        result.setdefault("PYSPARK_DRIVER_PYTHON", python)
    if settings.is_one_machine(master_of(line, place)):
        result.setdefault("PYSPARK_PYTHON", python)
    return result


def find_spark(
    line: CommandLine, home: Path, delta_jars: Sequence[Path], log4j: Path, environment: Mapping[str, str] = os.environ
) -> SparkPlace:
    """Read the settings of Spark and of the project; `log4j` is used if Spark has no log configuration.

    Like spark-submit: --properties-file replaces Spark's spark-defaults.conf, or adds to it with --load-spark-defaults.
    """
    folder = Path(environment.get("SPARK_CONF_DIR") or home / "conf")
    given = [Path(name) for name in line.values("--properties-file")[-1:]]
    usual = [] if given and ("--load-spark-defaults", None) not in line.options else [folder / "spark-defaults.conf"]
    defaults: dict[str, str] = {}
    for file in (*usual, *given):
        if file.is_file():
            defaults |= settings.read_spark_defaults(file)
    project = settings.find_spark_defaults(environment)
    return SparkPlace(
        home=home,
        defaults=defaults,
        project_defaults={} if project is None else settings.read_spark_defaults(project),
        delta_jars=delta_jars,
        log4j=None if (folder / "log4j2.properties").is_file() else log4j,
    )

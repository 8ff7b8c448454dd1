"""Builds the `spark-submit` command of a job from the user's options and those that flinkish adds.

All settings of the user, on the command line or in Spark's own configuration folder, override those of flinkish.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flinkish.common import options as job_options
from flinkish.common.config_file import (
    DIRECTORY_VARIABLE,
    PROPERTIES_VARIABLE,
    config_file,
    parse_properties,
    read_config_file,
)
from flinkish.common.errors import InvalidArgumentError
from flinkish.engine.scratch import DiskFolder
from flinkish.engine.spark import spark_settings

#: The options of spark-submit that have no value; all others have one.
_FLAGS = ("--verbose", "-v", "--supervise", "--load-spark-defaults", "--usage-error", "--version")
#: Options whose values are lists: flinkish appends its own entries to the user's.
_LISTS = {
    "--py-files": "spark.submit.pyFiles",
    "--jars": "spark.jars",
    "--packages": "spark.jars.packages",
    "--files": "spark.files",
}
_PROPERTIES_FILE = "--properties-file"
#: With it, spark-submit reads its usual spark-defaults.conf in addition to a file of properties.
_WITH_DEFAULTS = "--load-spark-defaults"
_YARN, _KUBERNETES = "yarn", "k8s://"
#: Prefix of the settings for the environment of a driver in the cluster, by the beginning of the master's URL.
_DRIVER_ENVIRONMENT = {_YARN: "spark.yarn.appMasterEnv.", _KUBERNETES: "spark.kubernetes.driverEnv."}
_DEPLOY_MODE = "spark.submit.deployMode"
#: As for executors (spark_settings.FOR_EXECUTORS), for drivers that YARN starts again; Spark's default is to count all.
_FORGET_LOST_DRIVERS = {"spark.yarn.am.attemptFailuresValidityInterval": "1h"}
_LOG4J = "log4j2.properties"
#: Prefix of the folders for files of properties, and the characters that need no escape in one.
_PREFIX = "flinkish-spark"
_PLAIN = frozenset(string.ascii_letters + string.digits + "._-/,*[]+%@$")


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLine:
    """The arguments of `flinkish submit`.

    `options` are for spark-submit, each with its value (None for a flag); `properties` are for flinkish, as `key=value`.
    """

    options: tuple[tuple[str, str | None], ...]
    properties: tuple[str, ...]
    job: str
    arguments: tuple[str, ...]

    def values(self, *names: str) -> list[str]:
        """Return the values of an option, which may have several names, in their order."""
        return [value for name, value in self.options if name in names and value is not None]

    @property
    def conf(self) -> dict[str, str]:
        return dict(entry.partition("=")[::2] for entry in self.values("--conf", "-c"))


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

    The script is the first argument that is neither an option nor the value of one. As in Flink, an option such as -p wins over a
    property of its key, which is left out. Raises InvalidArgumentError if there is no script.
    """
    options: list[tuple[str, str | None]] = []
    properties: list[str] = []
    #: Properties that were given as options, by their keys.
    short: dict[str, str] = {}
    rest = list(arguments)

    def value_of(name: str) -> str:
        if not rest:
            raise InvalidArgumentError(f"flinkish submit: the option {name} needs a value, but nothing follows it")
        return rest.pop(0)

    while rest:
        given = rest.pop(0)
        name, equals, value = given.partition("=")
        if not given.startswith("-"):
            kept = tuple(each for each in properties if short.get(each.partition("=")[0].strip(), each) == each)
            return CommandLine(options=tuple(options), properties=kept, job=given, arguments=tuple(rest))
        if given.startswith("-D"):
            properties.append(given[2:] or value_of("-D"))
        elif name in _SHORT:
            key, fixed = _SHORT[name]
            short[key] = f"{key}={fixed or (value if equals else value_of(name))}"
            properties.append(short[key])
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
class SparkInstallation:
    """The installation of Spark, and the settings for all applications.

    `defaults` come from Spark's own configuration folder, `project_defaults` from conf/spark-defaults.conf.
    """

    home: Path
    defaults: Mapping[str, str]
    project_defaults: Mapping[str, str]
    delta_jars: Sequence[Path]
    #: A log configuration for the driver, called log4j2.properties; None = Spark's own folder has one.
    log4j: Path | None
    #: config.yaml of the project, for a driver in the cluster; None if there is none.
    config: Path | None = None


@dataclass(frozen=True, slots=True)
class SparkSubmit:
    """A `spark-submit` to run: its options and the job, and the settings, which may be secret and so are passed in a file."""

    home: Path
    arguments: tuple[str, ...]
    settings: Mapping[str, str]

    def command(self, properties_file: Path) -> list[str]:
        """Return the command line; the file has the settings."""
        return [str(self.home / "bin" / "spark-submit"), "--properties-file", str(properties_file), *self.arguments]


def spark_submit(line: CommandLine, installation: SparkInstallation, package: Path) -> SparkSubmit:
    """Return the `spark-submit` that runs a job, with flinkish itself in the zip file `package`.

    Raises InvalidArgumentError if the driver starts in the cluster and its configuration cannot reach it there, and
    ConfigurationError if config.yaml, which is sent to a driver on YARN, cannot be read.
    """
    master = master_of(line, installation)
    wanted, files = _settings(line, installation, master)
    added = {
        "--py-files": [str(package)],
        "--jars": [str(jar) for jar in installation.delta_jars],
        "--packages": [] if installation.delta_jars else [spark_settings.delta_coordinates()],
        "--files": [str(file) for file in files],
    }
    command = [] if master == installation.defaults.get("spark.master") else ["--master", master]
    for name, key in _LISTS.items():
        set_before = wanted.pop(key, None) or installation.defaults.get(key)
        before = line.values(name) or ([set_before] if set_before else [])
        if before or added[name]:
            command += [name, ",".join([*before, *added[name]])]
    if line.values(_PROPERTIES_FILE):
        # spark-submit reads only one such file: ours has the settings of the user's.
        wanted = {**installation.defaults, **wanted}
    else:
        command.append(_WITH_DEFAULTS)
    for name, option in line.options:
        if name not in ("--master", "--conf", "-c", _PROPERTIES_FILE, _WITH_DEFAULTS, *_LISTS):
            command += [name] if option is None else [name, option]
    return SparkSubmit(installation.home, (*command, line.job, *line.arguments), wanted)


def _settings(line: CommandLine, installation: SparkInstallation, master: str) -> tuple[dict[str, str], list[Path]]:
    """Return the settings of a job in addition to Spark's own defaults, without its master, and the files that they need."""
    given = line.conf
    given.pop("spark.master", None)
    in_cluster = is_driver_in_cluster(line, installation)
    ours = {
        "spark.app.name": Path(line.job).stem,
        "spark.driver.extraJavaOptions": spark_settings.QUICK_COMPILER,
        "spark.python.unix.domain.socket.enabled": "true",
        **({} if spark_settings.is_one_machine(master) else spark_settings.FOR_EXECUTORS),
        **spark_settings.DELTA_CLASSES,
        **(_restarts_by_yarn(line, installation) if in_cluster and master == _YARN else {}),
        **installation.project_defaults,
    }
    ours.pop("spark.master", None)
    wanted = {key: value for key, value in ours.items() if key not in installation.defaults} | given
    java_options = wanted.get("spark.driver.extraJavaOptions", installation.defaults.get("spark.driver.extraJavaOptions", ""))
    log4j = None if "log4j2.configurationFile" in java_options else installation.log4j
    files: list[Path] = []
    if in_cluster:
        wanted |= _driver_environment(line, master)
        if master == _YARN:
            # YARN puts them into the working folder of the driver, where Java finds a log configuration of this name by itself.
            files = [file for file in (log4j, installation.config) if file is not None]
            if installation.config is not None:
                wanted.setdefault(f"{_DRIVER_ENVIRONMENT[_YARN]}{DIRECTORY_VARIABLE}", ".")
    elif log4j is not None:
        wanted["spark.driver.extraJavaOptions"] = f"{java_options} -Dlog4j2.configurationFile={log4j.resolve().as_uri()}"
    return wanted, files


def submit_arguments(given: Sequence[str], values: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Take the settings out of arguments for spark-submit; return all settings, and the other arguments.

    As with spark-submit, `--conf` overrides `values`, which override the file of `--properties-file`.
    """
    line = parse_command_line(given)
    files = line.values(_PROPERTIES_FILE)
    others = [] if files else [_WITH_DEFAULTS]
    for name, value in line.options:
        if name not in ("--conf", "-c", _PROPERTIES_FILE):
            others += [name] if value is None else [name, value]
    of_file = spark_settings.read_spark_defaults(Path(files[-1])) if files else {}
    return {**of_file, **values, **line.conf}, [*others, line.job, *line.arguments]


def master_of(line: CommandLine, installation: SparkInstallation) -> str:
    """Return the URL of the master: from the command line, else from the settings of Spark or the project, else this machine."""
    return _last_of(line, installation, "spark.master", spark_settings.DEFAULT_MASTER, "--master")


def is_driver_in_cluster(line: CommandLine, installation: SparkInstallation) -> bool:
    """Tell whether the driver starts on a machine of the cluster: --deploy-mode, or the setting, which Spark reads after it."""
    return _last_of(line, installation, _DEPLOY_MODE, "client", "--deploy-mode") == "cluster"


def _last_of(line: CommandLine, installation: SparkInstallation, key: str, default: str, option: str) -> str:
    default = installation.defaults.get(key, installation.project_defaults.get(key, default))
    return [line.conf.get(key, default), *line.values(option)][-1]


def unread_config(line: CommandLine, installation: SparkInstallation) -> Path | None:
    """Return the config.yaml that the driver does not read, because it starts in a cluster to which it is not sent."""
    return None if master_of(line, installation) == _YARN else installation.config


def _restarts_by_yarn(line: CommandLine, installation: SparkInstallation) -> dict[str, str]:
    """Return whether YARN starts a lost driver again: not if it would begin from the first record, without a cluster id."""
    key = job_options.HA_CLUSTER_ID.key
    resumes = parse_properties(line.properties).contains_key(key) or (
        installation.config is not None and read_config_file(installation.config).contains_key(key)
    )
    return _FORGET_LOST_DRIVERS if resumes else {"spark.yarn.maxAppAttempts": "1"}


def _driver_environment(line: CommandLine, master: str) -> dict[str, str]:
    """Return the settings that pass properties to a driver in the cluster; a local driver gets them by its environment."""
    if not line.properties:
        return {}
    for beginning, prefix in _DRIVER_ENVIRONMENT.items():
        if master.startswith(beginning):
            text = shlex.join(line.properties)
            return {f"{prefix}{PROPERTIES_VARIABLE}": _as_read_by_yarn(text) if beginning == _YARN else text}
    raise InvalidArgumentError(
        f"flinkish submit: properties cannot reach a driver that the master {master} starts in the cluster: "
        f"{', '.join(line.properties)}",
        hint="set them in the program's Configuration, or leave out --deploy-mode cluster.",
    )


def _as_read_by_yarn(quoted: str) -> str:
    """Return a value of an environment variable, quoted as for a shell, in the form in which YARN passes it on unchanged.

    YARN writes `export NAME="VALUE"` into a script, without escapes, and replaces `{{`, `}}` and `<CPS>` before. These are inside
    of single quotes here, because shlex quotes words that have such characters.
    """
    apart = re.sub(r"(?<=\{)(?=\{)|(?<=\})(?=\})|(?<=<)(?=CPS>)", "''", quoted)
    return re.sub(r'(["$`\\])', r"\\\1", apart)


def environment_of(
    line: CommandLine, installation: SparkInstallation, python: str, environment: Mapping[str, str]
) -> dict[str, str]:
    """Return the environment of the `spark-submit` process; `python` runs the driver, and tasks on the same machine."""
    result = dict(environment)
    if line.properties:
        result[PROPERTIES_VARIABLE] = shlex.join([*shlex.split(result.get(PROPERTIES_VARIABLE, "")), *line.properties])
    if not is_driver_in_cluster(line, installation):
        result.setdefault("PYSPARK_DRIVER_PYTHON", python)
    if spark_settings.is_one_machine(master_of(line, installation)):
        result.setdefault("PYSPARK_PYTHON", python)
    return result


def find_spark(
    line: CommandLine, home: Path, delta_jars: Sequence[Path], log4j: Path, environment: Mapping[str, str] = os.environ
) -> SparkInstallation:
    """Read the settings of Spark and of the project; `log4j` is used if Spark has no log configuration.

    Like spark-submit: --properties-file replaces Spark's spark-defaults.conf, or adds to it with --load-spark-defaults. Raises
    ConfigurationError if the driver starts in the cluster and FLINKISH_CONF_DIR names a folder without config.yaml.
    """
    folder = Path(environment.get("SPARK_CONF_DIR") or home / "conf")
    given = [Path(name) for name in line.values(_PROPERTIES_FILE)[-1:]]
    usual = [] if given and (_WITH_DEFAULTS, None) not in line.options else [folder / "spark-defaults.conf"]
    defaults: dict[str, str] = {}
    for file in (*usual, *given):
        if file.is_file():
            defaults |= spark_settings.read_spark_defaults(file)
    project = spark_settings.project_file("spark-defaults.conf", environment)
    installation = SparkInstallation(
        home=home,
        defaults=defaults,
        project_defaults={} if project is None else spark_settings.read_spark_defaults(project),
        delta_jars=delta_jars,
        log4j=None if (folder / _LOG4J).is_file() else log4j,
    )
    return replace(installation, config=config_file(environment)) if is_driver_in_cluster(line, installation) else installation


@contextlib.contextmanager
def property_file(settings: Mapping[str, str]) -> Iterator[Path]:
    """Yield a file for `--properties-file` of spark-submit that only this user can read; it is removed at the end.

    Settings may be secret, and every user of the machine can read command lines.

    The file of a process that was killed is removed by the next process that writes one. Raises EngineError if no folder can be
    made, OSError if the file cannot be written.
    """
    folder = DiskFolder(None, _PREFIX)
    try:
        path = folder.path() / "spark.properties"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
            file.writelines(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())
        yield path
    finally:
        folder.remove()


def _escaped(text: str) -> str:
    """Return a text as java.util.Properties reads it: everything but letters, digits and some signs as UTF-16 units."""
    units = text.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[index : index + 2], "big") for index in range(0, len(units), 2)]
    return "".join(chr(code) if chr(code) in _PLAIN else f"\\u{code:04x}" for code in codes)

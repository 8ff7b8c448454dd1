"""The settings of a session, read from the configuration."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path, PurePath

from flinkish.checkpoint import paths
from flinkish.checkpoint.signing import SigningKey
from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError, InvalidArgumentError
from flinkish.engine.scratch import temporary_folder
from flinkish.engine.spark import spark_settings
from flinkish.engine.spark.submission import CommandLine, parse_command_line
from flinkish.server.server_settings import DEFAULT_PORT, ServerSettings, server_settings
from flinkish.server.session.supervision import Limits

_FOLDER = "session"
_CHECKPOINTS = "checkpoints"
#: Stands for the script of a driver, while the options before it are checked.
_SCRIPT = "driver.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """The settings of a Dispatcher; durations are milliseconds."""

    server: ServerSettings
    #: The session's folder, which outlives the Dispatcher.
    root: PurePath
    #: The folder of this machine for logs and for the files of running programs.
    local: Path
    logs: Path
    key: SigningKey
    lease: int
    limits: Limits
    start_timeout: int
    #: Options of `flinkish submit` for drivers; None = they are Python processes.
    submit_options: tuple[str, ...] | None
    #: The folder in which drivers are started: the Dispatcher's own, so that they read its conf/.
    working_folder: Path
    submit_enabled: bool
    #: Whether the session's folder is one for temporary files.
    temporary: bool
    #: The folder for checkpoints of jobs whose configuration names none; None = tasks run on machines that may not have it.
    checkpoints: PurePath | None
    #: The settings that the Dispatcher was started with, as `key=value`; drivers get them, too.
    properties: tuple[str, ...] = ()


def session_settings(configuration: Configuration, properties: tuple[str, ...] = ()) -> SessionSettings:
    """Read the settings; raises ConfigurationError."""
    configuration = Configuration(configuration)
    if not configuration.contains(options.REST_PORT) and not configuration.contains(options.REST_BIND_PORT):
        configuration.set(options.REST_PORT, DEFAULT_PORT)
    server = server_settings(configuration)
    assert server is not None
    port = server.ports[0] or os.getpid()
    local = Path(temporary_folder(configuration) or tempfile.gettempdir()) / f"flinkish-session-{os.getuid()}-{port}"
    directory = configuration.get(options.HA_STORAGE_PATH)
    cluster = configuration.get(options.HA_CLUSTER_ID)
    root = local if directory is None else paths.durable_root(directory, key=options.HA_STORAGE_PATH.key)
    logs = configuration.get(options.LOG_DIR)
    folder = root / _FOLDER if cluster is None else root / f"{_FOLDER}-{_safe(cluster)}"
    submit_options = _submit_options(configuration)
    return SessionSettings(
        server=server,
        root=folder,
        local=local,
        logs=local / "log" if logs is None else paths.local_path(logs, key=options.LOG_DIR.key),
        key=SigningKey.load(configuration.get(options.CHECKPOINT_HMAC_KEY_FILE)),
        lease=configuration.get(options.HA_LEASE_DURATION),
        limits=Limits(
            heartbeat_timeout=configuration.get(options.HEARTBEAT_TIMEOUT),
            max_restarts=configuration.get(options.DRIVER_MAX_RESTARTS),
            restart_window=configuration.get(options.DRIVER_RESTART_WINDOW),
        ),
        start_timeout=configuration.get(options.DRIVER_START_TIMEOUT),
        submit_options=submit_options,
        working_folder=Path.cwd(),
        submit_enabled=configuration.get(options.WEB_SUBMIT_ENABLE),
        temporary=directory is None,
        checkpoints=folder / _CHECKPOINTS if directory is not None or _is_one_machine(configuration, submit_options) else None,
        properties=properties,
    )


def _submit_options(configuration: Configuration) -> tuple[str, ...] | None:
    key = options.DRIVER_SUBMIT_OPTIONS.key
    listed = configuration.get(options.DRIVER_SUBMIT_OPTIONS)
    if configuration.get(options.DRIVER_LAUNCHER) != "spark-submit":
        if listed:
            raise ConfigurationError(
                f"{key} is set, but {options.DRIVER_LAUNCHER.key} is not spark-submit, so the options would have no effect",
                hint=f"set {options.DRIVER_LAUNCHER.key}: spark-submit, or leave the options out.",
            )
        return None
    given = tuple(listed or ())
    try:
        line = parse_command_line([*given, _SCRIPT])
    except InvalidArgumentError:
        # The last option has taken the script for its value.
        _refuse_pair(key, given[-1])
        raise ConfigurationError(f"{key}: the option {given[-1]!r} has no value", hint="see spark-submit --help.") from None
    for name, _ in line.options:
        _refuse_pair(key, name)
    if line.job != _SCRIPT or line.arguments:
        raise ConfigurationError(
            f"{key}: {line.job!r} is neither an option of spark-submit nor the value of one",
            hint="leave it out; the session adds the script and its arguments.",
        )
    if _deploys_into_cluster(line):
        raise ConfigurationError(
            f"{key}: a session starts its drivers on its own machine, not in the cluster",
            hint="leave out --deploy-mode cluster; executors are in the cluster all the same.",
        )
    return given


def _refuse_pair(key: str, name: str) -> None:
    pair = name.split(maxsplit=1)
    if len(pair) > 1:
        raise ConfigurationError(
            f"{key}: {name!r} is an option and its value in one entry of the list",
            hint=f"make two entries of it: {pair[0]} and {pair[1]}.",
        )


def _deploys_into_cluster(line: CommandLine) -> bool:
    confs = [conf.partition("=")[::2] for conf in line.values("--conf", "-c")]
    modes = [*line.values("--deploy-mode"), *(value for key, value in confs if key.strip() == "spark.submit.deployMode")]
    return "cluster" in (mode.strip() for mode in modes)


def _is_one_machine(configuration: Configuration, submit_options: tuple[str, ...] | None) -> bool:
    """Tell whether the tasks of jobs run on this machine, unless a job's own settings name another master."""
    master = configuration.get_string("spark.master", spark_settings.DEFAULT_MASTER)
    if submit_options is not None:
        line = parse_command_line([*submit_options, _SCRIPT])
        master = (line.values("--master") or [line.conf.get("spark.master", master)])[-1]
    return spark_settings.is_one_machine(master)


def _safe(cluster: str) -> str:
    if not cluster.replace("-", "").replace("_", "").isalnum() or not cluster.isascii() or len(cluster) > 64:
        raise ConfigurationError(
            f"{options.HA_CLUSTER_ID.key} = {cluster!r} cannot name a session: its folder has that name",
            hint="use letters, digits, '-' and '_', at most 64.",
        )
    return cluster


def make_private(folder: Path) -> None:
    """Make a folder that only its owner can use; raises ConfigurationError if it belongs to someone else, or cannot be made."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.lstat()
        if folder.is_symlink() or state.st_uid != os.getuid():
            raise ConfigurationError(f"the folder {folder} belongs to someone else or is a link", hint="set io.tmp.dirs.")
        folder.chmod(0o700)
    except OSError as error:
        raise ConfigurationError(
            f"the folder {folder} cannot be made: {error}", hint="set io.tmp.dirs or env.log.dir."
        ) from error

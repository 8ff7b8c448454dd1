"""The executor of scripts that Flink's own `flink run -py script.py` has started: it sends them to a session cluster.

Flink's command line only starts the script, and passes its options through a py4j gateway. The script runs up to its execute(),
so that errors before that are raised here. Then the same file is sent to the cluster and run there, and the local script ends.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import click
import yaml

from flinkish.cli.client import RestClient, find_address
from flinkish.cli.connection import errors_printed
from flinkish.cli.remote import follow, packed, submit
from flinkish.common import options
from flinkish.common.config_file import load_configuration
from flinkish.common.errors import EngineError, InvalidProgramError, UnsupportedError
from flinkish.engine import executor
from flinkish.program.executor_loader import GATEWAY_VARIABLE
from flinkish.program.program import Program

execution_plan_json = executor.execution_plan_json
explain = executor.explain

#: Keys that are fields of the request.
_SHORT = (options.DEFAULT_PARALLELISM.key, options.SAVEPOINT_PATH.key, options.SAVEPOINT_IGNORE_UNCLAIMED_STATE.key)
#: Keys that say how and where to start a program; they are not sent.
_OF_CLIENT = frozenset(
    {
        "execution.attached",
        "execution.shutdown-on-attached-exit",
        "execution.target",
        "pipeline.jars",
        "python.client.executable",
        options.PYTHON_FILES.key,
    }
)
_OF_CONNECTION = ("jobmanager.", "rest.", "security.")


def execute_async(program: Program) -> NoReturn:
    """Send the script to the cluster that `flink run -m HOST:PORT` names, and end it with the exit code of `flinkish run`."""
    with errors_printed():
        sys.exit(_submit(read_options(), sys.argv[1:]))
    raise AssertionError


def _submit(given: Mapping[str, str], arguments: list[str]) -> int:
    target = given.get("execution.target")
    if target != "remote":
        raise UnsupportedError(
            f"flink run has the target {target!r}; a script of flinkish is sent to a session cluster of flinkish only",
            hint="use flink run -m HOST:PORT -py SCRIPT; to run the script on this machine, use flinkish run SCRIPT.",
        )
    # Token and certificates come from flinkish's configuration, because Flink's certificates are in Java keystores.
    configuration = load_configuration(environment=os.environ)
    for key in (options.REST_ADDRESS.key, options.REST_PORT.key):
        if key in given:
            configuration.put(key, given[key], "flink run")
    client = RestClient(find_address(None, configuration))
    script, module = _program()
    files = [each for each in given.get(options.PYTHON_FILES.key, "").split(",") if each]
    with packed(script, files, module) as program:
        job_id = submit(client, program, arguments, _settings(given), {key: given[key] for key in _SHORT if key in given})
    # Flink's command line prints this line, but only for programs that it submits itself.
    click.echo(f"Job has been submitted with JobID {job_id}")
    if given.get("execution.attached") != "true":
        return 0
    return follow(client, job_id, cancel_on_interrupt=given.get("execution.shutdown-on-attached-exit") == "true")


def _settings(given: Mapping[str, str]) -> dict[str, str]:
    """Return those options of `flink run` that are settings of the job."""
    settings = {
        key: value
        for key, value in given.items()
        if key in options.OPTIONS_BY_ANY_KEY and key not in {*_OF_CLIENT, *_SHORT} and not key.startswith(_OF_CONNECTION)
    }
    # Flink adds its own jar for Python programs, which flinkish does not need.
    jars = [jar for jar in yaml.safe_load(given.get("pipeline.jars", "[]")) or () if "flink-python" not in jar.rpartition("/")[2]]
    if jars:
        settings["pipeline.jars"] = ";".join(jars)
    return settings


def _program() -> tuple[Path | None, str | None]:
    """Return the script's file, or the module that `flink run -pym` has started."""
    main: Any = sys.modules["__main__"]
    if main.__spec__ is not None:
        return None, str(main.__spec__.name)
    file = getattr(main, "__file__", None)
    if file is None:
        raise InvalidProgramError(
            "the program is not in a file, so it cannot be sent to a cluster", hint="use flink run -py SCRIPT."
        )
    return Path(file), None


def read_options() -> dict[str, str]:
    """Return the configuration of `flink run`, from its options and its configuration file, through its gateway.

    Raises EngineError if the gateway does not answer.
    """
    from py4j.java_gateway import GatewayParameters, JavaGateway
    from py4j.protocol import Py4JError

    port = os.environ[GATEWAY_VARIABLE]
    try:
        # Test the connection first: py4j leaves its socket open if there is no answer.
        socket.create_connection(("127.0.0.1", int(port)), timeout=10).close()
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=int(port), auto_convert=True))
        try:
            environments = gateway.jvm.org.apache.flink.streaming.api.environment.StreamExecutionEnvironment
            found = environments.getExecutionEnvironment().getConfiguration().toMap()
            return {str(key): str(value) for key, value in dict(found).items()}
        finally:
            gateway.close()
    except (Py4JError, OSError, ValueError) as error:
        raise EngineError(
            f"the options of `flink run` cannot be read from its gateway ({GATEWAY_VARIABLE}={port}): {error}",
            hint=f"unset {GATEWAY_VARIABLE} if the script was not started by `flink run`.",
        ) from error

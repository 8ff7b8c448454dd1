"""Runs `spark-submit` for a job script."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from flinkish.cli.connection import say
from flinkish.common.errors import InvalidProgramError
from flinkish.engine.spark.installation import check_java, delta_jars, spark_home
from flinkish.engine.spark.package import pack
from flinkish.engine.spark.session_start import log_configuration
from flinkish.engine.spark.submission import (
    environment_of,
    find_spark,
    parse_command_line,
    property_file,
    spark_submit,
    unread_config,
)
from flinkish.server.session.driver_protocol import SUBMIT_VARIABLE


def submit(arguments: Sequence[str]) -> int:
    """Run `spark-submit` with the arguments of `flinkish submit`; return its exit code.

    Raises InvalidArgumentError for a command line without a script, InvalidProgramError if the script does not exist, EngineError
    if there is no Java, ConfigurationError if config.yaml cannot be read and a driver in the cluster needs it.
    """
    line = parse_command_line([*shlex.split(os.environ.pop(SUBMIT_VARIABLE, "")), *arguments])
    if "://" not in line.job and not Path(line.job).is_file():
        raise InvalidProgramError(f"flinkish submit: there is no file {line.job}")
    check_java(os.environ)
    with tempfile.TemporaryDirectory(prefix="flinkish-submit-") as folder:
        package = Path(folder) / "flinkish.zip"
        pack(package)
        place = find_spark(line, spark_home(), delta_jars(), log_configuration(Path(folder)))
        submitted = spark_submit(line, place, package)
        unread = unread_config(line, place)
        if unread is not None:
            say(f"{unread} is not read: the driver starts in the cluster, which needs the file in FLINKISH_CONF_DIR there.")
        environment = environment_of(line, place, sys.executable, os.environ)
        with property_file(submitted.settings) as file, subprocess.Popen(submitted.command(file), env=environment) as process:

            def pass_on(number: int, _frame: FrameType | None) -> None:
                process.send_signal(number)

            # Ctrl-C reaches the whole process group; SIGTERM only this process.
            before = signal.signal(signal.SIGINT, signal.SIG_IGN), signal.signal(signal.SIGTERM, pass_on)
            try:
                return process.wait()
            finally:
                signal.signal(signal.SIGINT, before[0])
                signal.signal(signal.SIGTERM, before[1])

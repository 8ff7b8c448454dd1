"""Installs the packages in a program's requirements file for its tasks: once per job, before anything runs."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from flinkish.common.errors import DependencyError
from flinkish.runtime.protocol import Dependencies

_log = logging.getLogger("flinkish.engine.requirements")

#: Number of lines of pip's output that the error message shows.
_LAST_LINES = 20


def install(dependencies: Dependencies, python: str | None, folder: Path) -> Dependencies:
    """Install the packages into a folder that all tasks can access; return the dependencies with that folder.

    `python` is the tasks' interpreter (None = this one), whose pip is used. As in Flink, all packages are installed, even if the
    interpreter already has them. Raises DependencyError, with the end of pip's output, if pip fails or does not exist.
    """
    requirements = dependencies.requirements
    assert requirements is not None
    # An interpreter in an archive is not unpacked yet; it must have the same version as this one.
    interpreter = shutil.which(python or sys.executable) or sys.executable
    folder.mkdir(parents=True, exist_ok=True)
    command = [interpreter, "-m", "pip", "install", "--target", str(folder), "--requirement", requirements.path]
    command += ["--no-input", "--disable-pip-version-check"]
    if requirements.cache_directory is not None:
        command += ["--no-index", "--find-links", requirements.cache_directory]
    _log.info("Installing %s for the tasks.", requirements.path)
    try:
        # A user's --user setting would contradict --target.
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PIP_USER": "0"},
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise DependencyError(f"{interpreter} -m pip, which installs {requirements.path}, does not run: {error}") from error
    if done.returncode:
        output = "\n".join(done.stdout.strip().splitlines()[-_LAST_LINES:])
        where = "" if requirements.cache_directory is None else f" from {requirements.cache_directory}"
        raise DependencyError(
            f"the packages of {requirements.path} could not be installed{where} for the tasks: pip of {interpreter} ended with "
            f"{done.returncode}:\n{output}",
            hint="try the same by hand: " + " ".join(command[1:]).replace(str(folder), "/tmp/packages"),
        )
    return replace(dependencies, packages=str(folder))

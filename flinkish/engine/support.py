"""What a program may ask for that flinkish, or the engine that it chose, does not offer: refused before anything runs."""

from __future__ import annotations

import os
import shutil
import sys

from flinkish.common import options
from flinkish.common.errors import UnsupportedError
from flinkish.datastream.program import Program


def check_supported(program: Program) -> None:
    """Raise UnsupportedError, naming the setting, for a program that would not run as it says."""
    if program.python_requirements is not None:
        raise UnsupportedError(
            f"{options.PYTHON_REQUIREMENTS.key} (set_python_requirements) is not supported: packages are not installed for the "
            f"tasks; got {program.python_requirements.path!r}.",
            hint="install them where the tasks run; Spark can send a packed environment: spark.archives and PYSPARK_PYTHON.",
        )
    python = program.python_executable
    if python is not None and program.configuration.get(options.ENGINE) == "local":
        found = shutil.which(python)
        if found is None or os.path.abspath(found) != os.path.abspath(sys.executable):
            raise UnsupportedError(
                f"{options.PYTHON_EXECUTABLE.key} (set_python_executable) is {python!r}, but with execution.engine local the "
                f"tasks run in this process, which is {sys.executable}.",
                hint="start the program with that interpreter, or set execution.engine to spark.",
            )

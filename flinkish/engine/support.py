"""Refuses, before anything runs, settings of a program that flinkish or the chosen engine does not support."""

from __future__ import annotations

import os
import shutil
import sys

from flinkish.common import options
from flinkish.common.configuration import Configuration
from flinkish.common.engines import ENGINES
from flinkish.common.errors import InvalidProgramError, UnsupportedError
from flinkish.common.paths import location
from flinkish.datastream.execution_mode import RuntimeExecutionMode
from flinkish.program.driver_objects import NeedsDataFrames
from flinkish.program.program import Program


def check_supported(program: Program, mode: RuntimeExecutionMode) -> None:
    """Raise UnsupportedError, naming the setting, for a program with settings that cannot be honoured.

    Raises InvalidProgramError for jars that do not exist.
    """
    _check_jars(program.configuration)
    _check_data_frames(program)
    for option in (options.SORTED_INPUTS_ENABLED, options.BATCH_STATE_BACKEND_ENABLED):
        if mode is RuntimeExecutionMode.BATCH and not program.configuration.get(option):
            raise UnsupportedError(
                f"{option.key} is false: a batch without sorted input would need the state of all keys at once.",
                hint="leave it out, or set execution.runtime-mode to STREAMING.",
            )
    python = program.python_executable
    engine = ENGINES[program.configuration.get(options.ENGINE)]
    if python is not None and not engine.own_processes:
        found = shutil.which(python)
        if found is None or os.path.abspath(found) != os.path.abspath(sys.executable):
            raise UnsupportedError(
                f"{options.PYTHON_EXECUTABLE.key} (set_python_executable) is {python!r}, but with execution.engine {engine.name} "
                f"the tasks run in this process, which is {sys.executable}.",
                hint="start the program with that interpreter, or set execution.engine to "
                f"{' or '.join(name for name, record in ENGINES.items() if record.own_processes)}.",
            )


def _check_data_frames(program: Program) -> None:
    engine = ENGINES[program.configuration.get(options.ENGINE)]
    if engine.data_frames:
        return
    for transformation in program.transformations.values():
        parts = [getattr(transformation, name, None) for name in ("source", "sink")]
        for part in parts:
            if isinstance(part, NeedsDataFrames):
                able = " or ".join(name for name, record in ENGINES.items() if record.data_frames)
                raise UnsupportedError(
                    f"{transformation.name!r} works with a DataFrame of Spark, which execution.engine {engine.name} does not.",
                    hint=f"set execution.engine to {able}, or {part.instead}.",
                )


def _check_jars(configuration: Configuration) -> None:
    engine = ENGINES[configuration.get(options.ENGINE)]
    for option in (options.JARS, options.CLASSPATHS):
        for url in configuration.get(option) or ():
            place = location(url)
            if not engine.jvm:
                raise UnsupportedError(
                    f"{option.key} (add_jars, add_classpaths) names {url}, but with execution.engine {engine.name} there "
                    "is no JVM.",
                    hint="leave it out; connectors of flinkish need no jars.",
                )
            if place.scheme not in ("", "file"):
                if option is options.CLASSPATHS:
                    raise UnsupportedError(
                        f"{option.key} names {url}: class paths of Spark are of the machines' file systems.",
                        hint=f"use {options.JARS.key} (add_jars), which Spark fetches.",
                    )
            elif not place.is_local or not os.path.exists(place.file):
                raise InvalidProgramError(f"{option.key} names {url}, which is not there.")
            elif option is options.JARS and "#" in url:
                raise InvalidProgramError(
                    f"{option.key} names {url}: Spark takes what follows '#' for a name to call it by.",
                    hint="rename the file.",
                )

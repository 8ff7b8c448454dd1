"""The driver of a session's job: `python -m flinkish.cli.driver`, which the Dispatcher starts.

The program, its arguments and its settings are in the environment, so that the command line shows none of them. As in Flink, the
job continues when the script ends, even if the script ends with an error.
"""

from __future__ import annotations

import functools
import logging
import os
import runpy
import shlex
import shutil
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import msgspec

from flinkish.cli.script import Explained, ExplainingExecutor, error_text, remind, run_script, write_plan
from flinkish.common import notices, options, redaction
from flinkish.common.config_file import PROPERTIES_VARIABLE, load_configuration
from flinkish.common.errors import FlinkishError, InvalidProgramError
from flinkish.program import executor_loader
from flinkish.server.session.driver_protocol import (
    JOB_VARIABLE,
    LOG_VARIABLE,
    PLAN_VARIABLE,
    PROGRAM_VARIABLE,
    STDOUT_VARIABLE,
    Program,
)
from flinkish.server.session.reporter import SessionDriver, become_driver


def main() -> None:
    """Run the program that the environment names, or write its plan; the exit code is 1 if it fails."""
    _write_to_files(os.environ)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True)
    # Clients are shown this log, also after the end of this process, which alone knows the secrets of its job.
    redaction.protect_log()
    sys.exit(_main())


def _write_to_files(environment: Mapping[str, str]) -> None:
    """Redirect standard output and standard error to the driver's files.

    spark-submit gives the driver one pipe for both, which ends up in its standard output. Processes that the driver starts
    inherit the redirection.
    """
    for descriptor, name in ((1, STDOUT_VARIABLE), (2, LOG_VARIABLE)):
        if file := environment.get(name):
            opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(opened, descriptor)
            os.close(opened)


@notices.told_always()
def _main() -> int:
    plan = os.environ.pop(PLAN_VARIABLE, None)
    try:
        driver = become_driver(os.environ) if plan is None else None
        program = msgspec.json.decode(os.environ.pop(PROGRAM_VARIABLE), type=Program)
    except (FlinkishError, KeyError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    if plan is not None:
        show = functools.partial(write_plan, file=Path(plan), job_id=os.environ[JOB_VARIABLE])
        executor_loader.replace_executor(ExplainingExecutor(executor_loader.load_executor(), show))
    code = _run(program, driver)
    if driver is not None:
        driver.wait()
    return code


def _run(program: Program, driver: SessionDriver | None) -> int:
    path = Path(program.file)
    try:
        if zipfile.is_zipfile(path):
            _run_zip(path, program, driver)
        elif program.entry_class:
            raise InvalidProgramError(
                f"{path.name} is a script, so it has no entry class {program.entry_class!r}", hint="leave the entry class out."
            )
        else:
            run_script(path, program.arguments)
    except Explained:
        return 0
    except SystemExit as end:
        if end.code not in (None, 0):
            print(f"{path.name} ended with exit code {end.code}.", file=sys.stderr)
            return 1
    except BaseException as error:
        module = path.with_suffix("") / f"{(program.entry_class or '__main__').replace('.', '/')}.py"
        print(error_text(error, path, module, with_traceback=_wants_traceback()), file=sys.stderr)
        return 1
    return remind(path.name, functools.partial(print, file=sys.stderr))


def _wants_traceback() -> bool:
    try:
        properties = shlex.split(os.environ.get(PROPERTIES_VARIABLE, ""))
        return load_configuration(properties, environment=os.environ).get(options.FULL_TRACEBACK)
    except FlinkishError:  # this may be the error that is being printed
        return False


def _run_zip(path: Path, program: Program, driver: SessionDriver | None) -> None:
    folder = unpacked(path)
    if driver is not None:
        driver.take_modules(path)
    sys.argv = [str(path), *program.arguments]
    if not program.entry_class:
        runpy.run_path(str(folder), run_name="__main__")
        return
    sys.path.insert(0, str(folder))
    runpy.run_module(program.entry_class, run_name="__main__", alter_sys=True)


def unpacked(path: Path, *, largest: int = 1 << 30) -> Path:
    """Unpack a program of at most `largest` bytes next to its zip file, as it may need files next to its modules (`__file__`)."""
    folder = path.with_suffix("")
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
        if size > largest:
            raise InvalidProgramError(
                f"{path.name} has {size:,} bytes when it is unpacked; at most {largest:,} are allowed",
                hint="leave data out of the zip file, and pass the program the path of a folder or an object store.",
            )
        # A driver that was killed may have left this folder.
        shutil.rmtree(folder, ignore_errors=True)
        archive.extractall(folder)
    return folder


if __name__ == "__main__":
    main()

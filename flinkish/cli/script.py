"""Runs a job script in this process as if it had been started with `python script`, or up to its first job, which is shown."""

from __future__ import annotations

import sys
import traceback
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import msgspec

from flinkish.common import redaction, safe_files
from flinkish.common.errors import FlinkishError, InvalidProgramError
from flinkish.program.executor_loader import Executor
from flinkish.program.forgotten import forgotten_programs
from flinkish.program.program import Program


def run_script(path: Path, arguments: Sequence[str]) -> None:
    """Run a script; its exceptions are not caught.

    The script becomes `__main__` permanently, not only while it runs: its classes are pickled as members of `__main__`, also by
    threads that still run after its last line. Raises InvalidProgramError if the file cannot be read or is not Python.
    """
    code = _compile(path)
    module = types.ModuleType("__main__")
    module.__file__ = str(path)
    module.__builtins__ = __builtins__  # type: ignore[attr-defined]
    sys.argv = [str(path), *arguments]
    # As python does: the script can import modules from its own folder.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def _compile(path: Path) -> types.CodeType:
    try:
        # Compile bytes instead of text, so that Python honours an encoding line.
        return compile(path.read_bytes(), str(path), "exec", dont_inherit=True)
    except OSError as error:
        raise InvalidProgramError(f"the job script {path} cannot be read: {error.strerror or error}") from error
    except (SyntaxError, ValueError) as error:
        where = f"{path} line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else str(path)
        text = error.msg if isinstance(error, SyntaxError) else str(error)
        raise InvalidProgramError(f"the job script is not valid Python: {where}: {text}") from error


def error_text(error: BaseException, *paths: Path, with_traceback: bool) -> str:
    """Return the text of an error that ended a script, which is in the first of the paths that the error has passed.

    For an error of flinkish this is its message, and the script's line that raised it, as `in script.py line 3: env.execute()`.
    For all others, or with `with_traceback`, it is the traceback without the launcher's frames, which precede the script's.
    """
    frames = traceback.extract_tb(error.__traceback__)
    path = next((path for path in paths if any(frame.filename == str(path) for frame in frames)), paths[0])
    if with_traceback or not isinstance(error, FlinkishError):
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != str(path):
            trace = trace.tb_next
        text = "".join(traceback.format_exception(error if trace is None else error.with_traceback(trace))).rstrip("\n")
    else:
        lines = [f"\nin {path.name} line {frame.lineno}: {frame.line}" for frame in frames if frame.filename == str(path)]
        text = f"{type(error).__name__}: {error}" + (lines[-1] if lines else "")
    return redaction.redact(text)


def remind(name: str, tell: Callable[[str], None]) -> int:
    """Tell which programs the script with this name has built but not executed; return the exit code."""
    programs = forgotten_programs()
    for text in programs:
        tell(f"{name}: {text}")
    return 1 if programs else 0


class Explained(BaseException):
    """Ends the script after its job was shown.

    Flink's `info` does the same: the code after execute() would need results, and there are none. It is not an Exception, so
    that the script does not catch it.
    """


class ExplainingExecutor:
    """An `Executor` that passes a program to `show` and ends the script; it describes programs as the usual executor does."""

    def __init__(self, usual: Executor, show: Callable[[Program], None]) -> None:
        self._show = show
        self.execution_plan_json = usual.execution_plan_json
        self.explain = usual.explain

    def execute_async(self, program: Program) -> NoReturn:
        """Show the program and end the script."""
        self._show(program)
        raise Explained


def write_plan(program: Program, file: Path, job_id: str) -> None:
    """Check a program as for a start, and write its plan in the form in which REST shows the plans of jobs."""
    from flinkish.engine.launcher import check
    from flinkish.graph.chaining import build_job_graph
    from flinkish.graph.execution_plan import plan
    from flinkish.server.views.jobs import plan_of

    checked = check(program)
    found = plan_of(plan(build_job_graph(checked.stream_graph)).job_graph, checked.configuration, job_id)
    # In one step, so that a reader never sees half of the file.
    safe_files.replace_file(file.parent, file.name, msgspec.json.encode(found), sync=False)

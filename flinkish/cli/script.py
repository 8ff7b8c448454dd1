"""Runs a job script in this process as if it had been started with `python script`."""

from __future__ import annotations

import sys
import traceback
import types
from collections.abc import Sequence
from pathlib import Path

from flinkish.common.errors import InvalidProgramError


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


def line_of(error: BaseException, path: Path) -> str | None:
    """Return the script's line that raised an error, as `script.py line 3: env.execute()`; None if the error arose elsewhere."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    if not frames:
        return None
    last = frames[-1]
    return f"{path.name} line {last.lineno}: {last.line}"


def without_launcher(error: BaseException, path: Path) -> BaseException:
    """Remove the launcher's frames, which precede the script's, from an error's traceback."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != str(path):
        trace = trace.tb_next
    return error if trace is None else error.with_traceback(trace)

"""What a person is shown of an error: the frames of the program, without those of flinkish around them.

A frame is flinkish's own if its code lies in the installed package, or was made by `conversion`. Code of a library counts as the
program's, unless flinkish called it before any code of the program did, such as an event loop that runs a function.
"""

from __future__ import annotations

import linecache
import os
import site
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from types import FrameType, TracebackType

import flinkish
from flinkish.common.conversion import COMPILED
from flinkish.common.errors import FlinkishError

_OWN = os.path.dirname(os.path.abspath(flinkish.__file__)) + os.sep
_LIBRARIES = tuple(
    {folder + os.sep for folder in (*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages())}
)

#: Said of an error whose traceback has no frame of the program.
NO_FRAMES = "(No frame of the program; `flinkish run --traceback` or execution.full-traceback show those of flinkish.)"


def is_own(file: str) -> bool:
    """Return whether code of a file, as its frames name it, is flinkish's."""
    return file.startswith(_OWN) or file == COMPILED


def calling_line() -> str | None:
    """Return `file:line` of the innermost caller that is not flinkish; None if there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_own(frame.f_code.co_filename):
        frame = frame.f_back
    return None if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


def with_source(place: str) -> str:
    """Return `file line n: source` for a `file:line`; without the source where the file is not here.

    >>> with_source("/nowhere/job.py:3")
    '/nowhere/job.py line 3'
    """
    file, _, number = place.rpartition(":")
    source = linecache.getline(file, int(number)).strip()
    return f"{file} line {number}" + (f": {source}" if source else "")


def full(error: BaseException) -> str:
    """Return the text of an error with all frames."""
    return "".join(traceback.format_exception(error))


def shown(error: BaseException) -> str:
    """Return the text of an error, and of those that it came from, with the frames of the program only."""
    copy = traceback.TracebackException.from_exception(error)
    _cut(copy)
    text = "".join(copy.format())
    # The text of an error of flinkish itself says what happened and where.
    return text if copy.stack or isinstance(error, FlinkishError) else f"{text}{NO_FRAMES}\n"


def cut(error: BaseException) -> None:
    """Remove the frames of flinkish from an error, and from those that it came from."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        traces = []
        trace = each.__traceback__
        while trace is not None:
            traces.append(trace)
            trace = trace.tb_next
        kept: TracebackType | None = None
        for place in reversed(_of_program([trace.tb_frame.f_code.co_filename for trace in traces])):
            kept = TracebackType(kept, traces[place].tb_frame, traces[place].tb_lasti, traces[place].tb_lineno)
        each.__traceback__ = kept
        waiting += [each.__cause__, each.__context__, *(each.exceptions if isinstance(each, BaseExceptionGroup) else ())]


def _cut(error: traceback.TracebackException | None) -> None:
    # What an error came from is shown once only: the standard library has cut circles already.
    if error is not None:
        frames = list(error.stack)
        error.stack[:] = [frames[place] for place in _of_program([frame.filename for frame in frames])]
        for other in (error.__cause__, error.__context__, *(error.exceptions or ())):
            _cut(other)


def _of_program(files: Sequence[str]) -> list[int]:
    """Return which of a traceback's frames to keep, by their files."""
    kept = [place for place, file in enumerate(files) if not is_own(file)]
    first = next((place for place in kept if not files[place].startswith(_LIBRARIES)), 0)
    return [place for place in kept if place >= first]

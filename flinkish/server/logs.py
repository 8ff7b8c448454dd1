"""The logs that a server shows: log files of this process, files that receive its standard output and standard error, and the
last log messages in memory.

A request names one of these logs, never a path. Secrets are hidden (`common/redaction.py`). Only the end of a long file is shown.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from flinkish.common.clock import SystemClock
from flinkish.common.redaction import redact

#: Maximum number of bytes of a file that are shown; the last ones are.
LONGEST = 1 << 20
#: Name of the messages that are kept in memory.
MEMORY_NAME = "flinkish.log"
_MESSAGES = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A log that clients can request by its name; `size` is bytes, `modified` milliseconds since 1970."""

    name: str
    size: int
    modified: int
    #: None = the messages in memory.
    path: Path | None


class Logs(logging.Handler):
    """The logs of this process. As a handler of the logger `flinkish`, it keeps the last messages in memory."""

    def __init__(self, more: Callable[[], Iterable[Path]] = tuple) -> None:
        """`more` returns further files, which need not exist."""
        super().__init__()
        self._more = more
        self._clock = SystemClock()
        self._messages: deque[str] = deque(maxlen=_MESSAGES)
        self._changed = self._clock.wall_time()
        self._messages_lock = threading.Lock()
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)-5s %(name)s - %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a message; called by logging."""
        try:
            text = self.format(record)
        except Exception:
            self.handleError(record)
            return
        with self._messages_lock:
            self._messages.append(text)
            self._changed = self._clock.wall_time()

    def all(self) -> list[LogFile]:
        """Return the logs, the main one first."""
        found: dict[str, LogFile] = {}
        _add(found, (*_files_of_logging(), *filter(None, map(_file_behind, (2, 1)))))
        with self._messages_lock:
            size = sum(len(message.encode(errors="replace")) + 1 for message in self._messages)
            found.setdefault(MEMORY_NAME, LogFile(name=MEMORY_NAME, size=size, modified=self._changed, path=None))
        # After the logs of this process, because the first one in the list is the main log.
        _add(found, self._more())
        return list(found.values())

    def output(self) -> str | None:
        """Return the end of the standard output; None if it does not go to a file."""
        path = _file_behind(1)
        return None if path is None else self.text(path.name)

    def text(self, name: str) -> str | None:
        """Return the end of a log; None if there is no log of this name."""
        log = next((log for log in self.all() if log.name == name), None)
        if log is None:
            return None
        if log.path is None:
            with self._messages_lock:
                return redact("".join(f"{message}\n" for message in self._messages))
        try:
            return redact(end_of(log.path))
        except OSError:
            return None


def _add(found: dict[str, LogFile], paths: Iterable[Path]) -> None:
    """Add the files that exist; of those with one name, the first stays."""
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        found.setdefault(path.name, LogFile(name=path.name, size=status.st_size, modified=int(1000 * status.st_mtime), path=path))


def _files_of_logging() -> list[Path]:
    loggers = [logging.getLogger("flinkish"), logging.getLogger()]
    handlers = [handler for logger in loggers for handler in logger.handlers]
    return [Path(handler.baseFilename) for handler in handlers if isinstance(handler, logging.FileHandler)]


def _file_behind(descriptor: int) -> Path | None:
    """Return the file that a descriptor of this process writes to; None if it is a terminal, a pipe or a removed file."""
    try:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
    except OSError:
        return None
    return path if path.is_file() else None


def end_of(path: Path) -> str:
    """Return the last lines of a file, of at most LONGEST bytes; raises OSError if it cannot be read."""
    hidden, content = _end(path)
    return f"(the first {hidden} bytes are not shown)\n{content}" if hidden else content


def tail(path: Path, longest: int) -> str:
    """Return the last lines of a log with secrets hidden, of at most as many characters; "" if it cannot be read.

    If the last line is longer, it is the end of this line.
    """
    try:
        text = redact(_end(path)[1])
    except OSError:
        return ""
    if len(text) <= longest:
        return text
    end = text[-longest:]
    return end.partition("\n")[2] or end


def _end(path: Path) -> tuple[int, str]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - LONGEST))
        content = file.read(LONGEST)
    if size > LONGEST:
        # The first line is incomplete: it may begin within a secret, which would not be recognized.
        content = content.partition(b"\n")[2]
    return max(0, size - len(content)), content.decode(errors="replace")

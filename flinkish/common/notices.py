"""Messages for the person who runs a job: that it starts, how it progresses, how to resume it.

They are log records of the logger "flinkish.job" at level INFO, so a program that configures logging decides where they go. If no
logging is configured and the standard error is a terminal, they are written there. `flinkish run` always writes them there.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator

from flinkish.common.redaction import redact

_log = logging.getLogger("flinkish.job")
_always = False


def tell(text: str) -> None:
    """Log or print one message; never raises."""
    text = redact(text)
    configured = _log.hasHandlers()
    if configured and _log.isEnabledFor(logging.INFO):
        _log.info("%s", text)
    elif _always or (not configured and _is_terminal()):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # the standard error is closed, or None under pythonw
            print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def told_always() -> Iterator[None]:
    """Write messages to the standard error whatever the log level is; for commands that people type."""
    global _always
    before, _always = _always, True
    try:
        yield
    finally:
        _always = before


def _is_terminal() -> bool:
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return sys.stderr.isatty()
    return False


def is_interactive() -> bool:
    """Tell whether a person types the program, in a shell or a notebook."""
    main = sys.modules.get("__main__")
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or (main is not None and hasattr(main, "get_ipython"))

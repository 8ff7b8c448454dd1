"""The start of the command `flinkish`: Ctrl-C ends it without a traceback also while its modules are imported."""

from __future__ import annotations

import sys


def main() -> None:
    """Start the command line."""
    try:
        from flinkish.cli.main import main as start
    except KeyboardInterrupt:
        sys.exit(130)
    start()

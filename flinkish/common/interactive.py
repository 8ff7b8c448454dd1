"""Tells whether a person types the program."""

from __future__ import annotations

import sys


def is_interactive() -> bool:
    """Tell whether a person types the program, in a shell or a notebook."""
    main = sys.modules.get("__main__")
    return hasattr(sys, "ps1") or bool(sys.flags.interactive) or (main is not None and hasattr(main, "get_ipython"))

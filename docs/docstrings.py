"""A Griffe extension that shows the examples in docstrings as code, with or without a line `Example:` before them."""

from __future__ import annotations

from typing import Any

import griffe

from docs.reference import fenced


class Doctests(griffe.Extension):
    """Adds fences around doctests."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

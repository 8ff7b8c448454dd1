"""A Griffe extension: the examples in docstrings are shown as code, whether or not `Example:` stands before them."""

from __future__ import annotations

from typing import Any

import griffe

from docs.reference import fenced


class Doctests(griffe.Extension):
    """Puts fences around doctests."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of a module, class, function or attribute."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)

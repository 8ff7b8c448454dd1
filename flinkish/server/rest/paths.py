"""The rule for paths of requests. Path parameters name jobs, vertices and files; their names need nothing that is refused.

One rule applies to all routes, including those of files, before any route is looked up. A handler that opens a file checks the
name again with `file_below`.
"""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path
from urllib.parse import unquote_to_bytes

LONGEST_PATH = 2_048
#: Maximum length of a file's name on common file systems, in bytes.
_LONGEST_NAME = 255
#: Characters that look like a dot, a slash or a backslash, or that another program may convert to one.
_LOOKALIKES = frozenset(
    "\u2024\u2025\u2026\u2044\u2215\u2216\u29f5\u29f8\u29f9\u3002\uff61\ufe52\ufe68\uff0e\uff0f\uff3c\u2571\u2572"
)
_ENCODED = re.compile(r"%(?:[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4})")
#: The ids of task managers have a colon: host:port-digits.
_COLON_OF_PORT = re.compile(r"(?:[^:]{2,}|\[[0-9A-Fa-f:.]+\]):[0-9]+(?:-[0-9A-Za-z]+)?")


def refused(raw_path: bytes) -> str | None:
    """Return why a path, as it is in the request, is refused; None if it is allowed."""
    if len(raw_path) > LONGEST_PATH:
        return f"it is longer than {LONGEST_PATH} bytes"
    try:
        path = unquote_to_bytes(raw_path).decode()
    except UnicodeDecodeError:
        return "it is not UTF-8"
    if path.count("/") != raw_path.count(b"/"):
        return "a slash in it is encoded"
    first, *names = path.split("/")
    if first or not names:
        return "it does not begin with a slash"
    if names[-1] == "":
        # One slash at the end is ignored, as in Flink.
        names.pop()
    for name in names:
        why = refused_name(name)
        if why is not None:
            return why
    return None


def refused_name(name: str) -> str | None:
    """Return why a decoded name is refused as the name of a file or as an id in a path; None if it is allowed."""
    if not name:
        return "it has an empty part"
    if len(name.encode(errors="surrogatepass")) > _LONGEST_NAME:
        return f"a part of it is longer than {_LONGEST_NAME} bytes"
    if _ENCODED.search(name):
        return "it is encoded twice"
    if not name.isprintable() or any(character in _LOOKALIKES for character in name):
        return "it has characters that are not allowed"
    for form in (name, unicodedata.normalize("NFKC", name)):
        if "/" in form or "\\" in form or ";" in form or form.startswith("~"):
            return "it has characters that are not allowed"
        if not form.strip(". "):
            return "it has a part of dots"
        if ":" in form and not _COLON_OF_PORT.fullmatch(form):
            return "it has a colon"
    return None


def file_below(folder: Path, name: str) -> Path | None:
    """Return the regular file with this name directly in a folder; None if there is none.

    The result is also None for a name that leads out of the folder, and for a symbolic link.
    """
    if refused_name(name) is not None:
        return None
    path = folder / name
    if path.parent != folder or os.path.islink(path) or not path.is_file():
        return None
    return path

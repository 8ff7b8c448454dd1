"""Begins a log again while its writers have it open: they inherited the file, so it cannot be replaced by another one.

What was copied is removed from the beginning of the file by the file system itself (FALLOC_FL_COLLAPSE_RANGE; ext4 and XFS), in
one step, so lines that are written meanwhile are not lost. Elsewhere the file is cut to nothing after it was copied: a line that
is written in that instant is lost.
"""

from __future__ import annotations

import ctypes
import fcntl
import functools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import IO

#: The removed part is a multiple of this many bytes, because it must be a multiple of the file system's blocks.
_WHOLE = 1 << 16
_COLLAPSE_RANGE = 0x08
_CHUNK = 1 << 20


def remove_beginning(descriptor: int, size: int) -> bool:
    """Remove the first bytes of a file, which has more; return False if the file system cannot do that."""
    call = _fallocate()
    return call is not None and call(descriptor, _COLLAPSE_RANGE, 0, size) == 0


@functools.cache
def _fallocate() -> Callable[[int, int, int, int], int] | None:
    """Return the C library's function, which Python does not have; None if there is none, as on macOS."""
    library = ctypes.CDLL(None)
    found = getattr(library, "fallocate64", None) or getattr(library, "fallocate", None)
    if found is not None:
        found.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
        found.restype = ctypes.c_int
    return found


def begin_again(file: Path, old: Path, collapse: Callable[[int, int], bool] = remove_beginning) -> None:
    """Move the content of a file to `old`, whose former content is lost; raises OSError.

    `collapse` removes the first bytes of an open file, or returns False; the file system does it by default.

    Lines stay whole, because half of a secret would not be recognized: instead of the line that the removed part ends in, the
    file begins with blanks. It keeps at most 64 KB. If this process is killed meanwhile, lines are in both files.
    """
    draft = old.with_suffix(".new")
    with file.open("r+b", buffering=0) as content:
        # A Dispatcher that has just lost its lease may do the same.
        fcntl.flock(content, fcntl.LOCK_EX | fcntl.LOCK_NB)
        size = os.fstat(content.fileno()).st_size
        whole = size - size % _WHOLE
        with open(draft, "wb", opener=lambda path, flags: os.open(path, flags, 0o600)) as copy:
            _copy(content, copy, whole)
            rest = content.read(size - whole)
            length = rest.find(b"\n")
            copy.write(rest[: length + 1])
        draft.replace(old)
        if whole and length >= 0:
            os.pwrite(content.fileno(), b" " * length, whole)
            if collapse(content.fileno(), whole):
                return
        content.seek(whole + length + 1)
        with old.open("ab") as copy:
            shutil.copyfileobj(content, copy, _CHUNK)
            copy.flush()
            os.ftruncate(content.fileno(), 0)


def _copy(content: IO[bytes], copy: IO[bytes], size: int) -> None:
    while size > 0:
        part = content.read(min(size, _CHUNK))
        if not part:
            raise OSError("the file became shorter while it was copied")
        copy.write(part)
        size -= len(part)

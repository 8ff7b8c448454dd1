"""Work that deltalake leaves to its callers: turning Rust panics into errors, syncing files, refusing odd folder names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from deltalake.exceptions import DeltaError

from flinkish.common.disk import sync
from flinkish.common.files.store_settings import without_secrets

if TYPE_CHECKING:
    import pyarrow as pa
    from deltalake import DeltaTable

#: In folder names deltalake panics on brackets, ^ and |, reads %20 and backslashes as another name, and refuses the rest.
_UNUSABLE: Final = re.compile(r"%[0-9A-Fa-f]{2}|[\[\]^|\\]|[\x00-\x1f\x7f]|[\ud800-\udfff]")
_LOG: Final = "_delta_log"
_LONGEST: Final = 300
#: `<version>.json`, or `<version>.checkpoint...`, which summarizes the versions up to it.
_LOG_ENTRY: Final = re.compile(r"([0-9]{20})\.(checkpoint\.)?.*")


@contextmanager
def panics_as_errors() -> Iterator[None]:
    """Turn a panic of deltalake into a DeltaError; a context manager and a decorator. Credentials are removed from errors.

    pyo3 raises a panic as `pyo3_runtime.PanicException`, a BaseException that cannot be imported. No `except Exception` catches
    it, so it would end threads that other threads wait for.
    """
    try:
        yield
    except BaseException as error:
        shown = without_secrets(str(error))
        if not isinstance(error, Exception) and type(error).__module__ == "pyo3_runtime":
            raise DeltaError(f"deltalake panicked: {shown}") from (error if shown == str(error) else None)
        if shown == str(error):
            raise
        # The answer of an object store to a wrong signature contains the id of the key.
        raise (type(error) if type(error).__module__.startswith(("deltalake", "_internal")) else DeltaError)(shown) from None


def one_line(error: BaseException) -> str:
    """Return the text of an error of deltalake without credentials; what an object store answered is shortened to one line."""
    text = without_secrets(str(error))
    if "\x1b" not in text and "<?xml" not in text:
        return text
    code = re.search(r"<Code>(\w+)</Code>", text)
    plain = re.sub(r"\x1b\[[0-9;]*m|↳|\?\S*", "", text.partition("<?xml")[0])
    said = ": ".join(part for line in plain.splitlines() if (part := " ".join(line.split())))
    return (said[:_LONGEST] + (f" ({code[1]})" if code else "")).strip()


def unusable_name(path: str) -> tuple[str, str] | None:
    """Return the first folder of a path below which no Delta table can be, and the characters of its name that prevent it.

    >>> unusable_name("/data/a%20b/[x]"), unusable_name("/data/50% #1?/ü")
    (('a%20b', '%20'), None)
    """
    for name in path.split("/"):
        match = _UNUSABLE.search(name)
        if match is not None:
            return name, match[0]
    return None


def sync_log(root: str | Path, synced: int) -> tuple[int, bool]:
    """Make the entries of a table's log after version `synced` survive a crash of the machine.

    -1 stands for all entries that are needed to read the table. Returns the newest version, and whether one of the synced entries
    summarizes the versions before it. Call this after each commit: an entry lost by the disk would leave a gap in the log.
    """
    log = os.path.join(root, _LOG)
    found = [(int(match[1]), bool(match[2]), name) for name in os.listdir(log) if (match := _LOG_ENTRY.fullmatch(name))]
    first = synced + 1 if synced >= 0 else max((version for version, summary, _ in found if summary), default=0)
    entries = [(summary, name) for version, summary, name in found if version >= first]
    summarized = any(summary for summary, _ in entries)
    for name in [*(name for _, name in entries), *(["_last_checkpoint"] if summarized else [])]:
        with suppress(FileNotFoundError):  # another writer has removed old entries of the log
            sync(os.path.join(log, name))
    sync(log)
    return max((version for version, _, _ in found), default=synced), summarized


def rows_of(table: DeltaTable, root: PurePath) -> pa.Table:
    """Return all rows of the table at a root.

    The file system that deltalake gives to Arrow is a Python object. If a thread of Arrow still holds it when the program ends,
    the process aborts ("terminate called without an active exception"; pyarrow 26). So Arrow reads folders by its own file
    system.
    """
    from pyarrow.fs import LocalFileSystem, SubTreeFileSystem

    filesystem = SubTreeFileSystem(str(root), LocalFileSystem()) if isinstance(root, Path) else None
    return table.to_pyarrow_table(filesystem=filesystem)

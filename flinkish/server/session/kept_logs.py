"""The ends of the logs of drivers whose jobs have ended, in the session's folder: a Dispatcher on another machine shows them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from flinkish.common.redaction import redact
from flinkish.server.logs import end_of
from flinkish.server.session import driver_protocol
from flinkish.server.session.storage import SessionStorage


def keep(storage: SessionStorage, job_id: str, driver_id: str, files: Sequence[Path]) -> None:
    """Write the end of a driver's log and of its standard output, with secrets hidden; raises OSError if the storage fails."""
    for inside, file in zip(driver_protocol.log_files(job_id, driver_id), files, strict=True):
        if file.exists():
            storage.write(inside, redact(end_of(file)).encode("utf-8", "replace"))


def fetch(storage: SessionStorage, job_id: str, driver_id: str, files: Sequence[Path], earlier: Sequence[Path]) -> None:
    """Copy what `keep` has written on another machine to `files`; raises OSError.

    Files of earlier drivers that are there already become `earlier`.
    """
    for inside, file, before in zip(driver_protocol.log_files(job_id, driver_id), files, earlier, strict=True):
        content = storage.read(inside)
        if not content or (file.exists() and file.read_bytes() == content):
            continue
        draft = file.with_name(f".{file.name}.new")
        draft.unlink(missing_ok=True)
        draft.touch(mode=0o600)
        draft.write_bytes(content)
        if file.exists():
            file.replace(before)
        draft.replace(file)

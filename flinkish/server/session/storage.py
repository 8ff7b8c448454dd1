"""The folder of a session below high-availability.storageDir: leaders, programs, archives and logs, next to the registry."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path, PurePath

import msgspec

from flinkish.common.files.schemes import files_at, root_of
from flinkish.common.redaction import redact
from flinkish.server.logs import end_of
from flinkish.server.session.driver_protocol import LEADERS, LeaderRecord, leader_file, log_files

#: Maximum size of a file in bytes.
FILE_LIMIT = 1 << 28
#: Number of attempts to read the leader's record: each new leader removes the record of the one before.
_TRIES = 10
_LEADER = re.compile(r"[0-9]{12}\.json")


class SessionStorage:
    """Reads and writes files of the session's folder; all methods raise OSError if the storage fails."""

    def __init__(self, root: PurePath | str) -> None:
        self.root = root_of(root) if isinstance(root, str) else root
        self._files = files_at(self.root)

    def make(self) -> None:
        """Create the folder; a local one is readable only by its owner."""
        self._files.make_root(sync=True)
        if isinstance(self.root, Path):
            self.root.chmod(0o700)

    def read(self, inside: str) -> bytes | None:
        """Return the content of a file; None if there is none."""
        try:
            return self._files.read(inside, limit=FILE_LIMIT)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, inside: str, content: bytes) -> None:
        """Write a file atomically."""
        folder, _, _ = inside.rpartition("/")
        self._files.make_folders(folder)
        self._files.replace(inside, content, sync=True)

    def remove(self, inside: str) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            self._files.remove(inside)

    def keep_logs(self, job_id: str, driver_id: str, files: Sequence[Path]) -> None:
        """Write the ends of a driver's log and of its standard output, with secrets hidden, for Dispatchers on other machines."""
        for inside, file in zip(log_files(job_id, driver_id), files, strict=True):
            if file.exists():
                self.write(inside, redact(end_of(file)).encode("utf-8", "replace"))

    def fetch_logs(self, job_id: str, driver_id: str, files: Sequence[Path], earlier: Sequence[Path]) -> None:
        """Copy logs that `keep_logs` has written on another machine to `files`.

        Files of earlier drivers that are there already become `earlier`.
        """
        for inside, file, before in zip(log_files(job_id, driver_id), files, earlier, strict=True):
            content = self.read(inside)
            if not content or (file.exists() and file.read_bytes() == content):
                continue
            draft = file.with_name(f".{file.name}.new")
            draft.unlink(missing_ok=True)
            draft.touch(mode=0o600)
            draft.write_bytes(content)
            if file.exists():
                file.replace(before)
            draft.replace(file)

    def leader(self) -> LeaderRecord | None:
        """Return the record of the leader with the highest generation; None if there was none."""
        for _ in range(_TRIES):
            try:
                names = sorted(name for name in self._files.names(LEADERS) if _LEADER.fullmatch(name))
            except (FileNotFoundError, NotADirectoryError):
                return None
            if not names:
                return None
            content = self.read(f"{LEADERS}/{names[-1]}")
            if content is not None:
                try:
                    return msgspec.json.decode(content, type=LeaderRecord)
                except msgspec.MsgspecError as error:
                    raise OSError(f"the record {LEADERS}/{names[-1]} in {self.root} is damaged: {error}") from error
            # A leader with a higher generation has removed it in the meantime.
        raise OSError(f"the records {LEADERS} in {self.root} are removed faster than they can be read")

    def write_leader(self, record: LeaderRecord) -> None:
        self.write(leader_file(record.generation), msgspec.json.encode(record))

    def forget_leaders(self, before: int) -> None:
        """Remove the records of earlier generations."""
        for name in self._files.names(LEADERS):
            if _LEADER.fullmatch(name) and int(name[:12]) < before:
                self.remove(f"{LEADERS}/{name}")

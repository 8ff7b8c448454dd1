"""Signs manifests, so that our own checkpoints can be distinguished from data that others put into the storage.

Pickled values in a checkpoint are decoded only if its signature is valid. The key is in a file outside of the storage.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from flinkish.common.disk import make_folders, sync
from flinkish.common.errors import ConfigurationError

KEY_OPTION = "security.checkpoint.hmac-key-file"
_CONTEXT = b"flinkish checkpoint manifest 1\0"
_KEY_BYTES = 32
_LEAST_KEY_BYTES = 16
_MOST_KEY_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature, with the public id of its key."""

    key_id: str
    mac: bytes


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The secret key of the user who runs jobs."""

    secret: bytes = field(repr=False)
    path: Path | None = None

    def __post_init__(self) -> None:
        if not _LEAST_KEY_BYTES <= len(self.secret) <= _MOST_KEY_BYTES:
            raise ConfigurationError(
                f"{KEY_OPTION}: {self.path or 'the key'} holds {len(self.secret)} bytes, "
                f"expected {_LEAST_KEY_BYTES} to {_MOST_KEY_BYTES}",
                hint="remove the file, so that a new key is created, or write 32 random bytes to it.",
            )

    @property
    def key_id(self) -> str:
        """An id of the key that does not reveal it."""
        return hashlib.sha256(b"flinkish key id\0" + self.secret).hexdigest()[:16]

    def sign(self, data: bytes) -> Signature:
        """Sign the bytes of a manifest (HMAC-SHA256)."""
        return Signature(self.key_id, hmac.new(self.secret, _CONTEXT + data, hashlib.sha256).digest())

    def verify(self, data: bytes, signature: Signature) -> bool:
        """Tell whether this key signed these bytes; takes the same time for every wrong signature."""
        return hmac.compare_digest(self.sign(data).mac, signature.mac)

    @staticmethod
    def load(path: str | None = None, *, random_bytes: Callable[[int], bytes] = os.urandom) -> SigningKey:
        """Read the key file, by default ~/.flinkish/checkpoint.key; if there is none, create one that only its owner can read.

        Raises ConfigurationError if others may read it, or if it cannot be read or created.
        """
        file = Path(os.path.expanduser(path or "~/.flinkish/checkpoint.key"))
        try:
            if not file.exists():
                _make(file, random_bytes(_KEY_BYTES))
            mode = stat.S_IMODE(file.stat().st_mode)
            if mode & 0o077:
                raise ConfigurationError(
                    f"{KEY_OPTION}: {file} has mode {mode:04o}, so users other than its owner can access it",
                    hint=f"chmod 600 {file}",
                )
            return SigningKey(file.read_bytes(), file)
        except OSError as error:
            raise ConfigurationError(
                f"{KEY_OPTION}: {file} cannot be read or created: {error}",
                hint=f"set {KEY_OPTION} to a file in a folder of yours.",
            ) from error


def _make(file: Path, secret: bytes) -> None:
    make_folders(file.parent, mode=0o700)
    descriptor, draft = tempfile.mkstemp(prefix=f"{file.name}.", suffix=".new", dir=file.parent)  # with mode 0600
    try:
        with open(descriptor, "wb") as stream:
            stream.write(secret)
            stream.flush()
            os.fsync(stream.fileno())
        # A link, unlike a rename, does not replace the key of a process that was quicker.
        with contextlib.suppress(FileExistsError):
            os.link(draft, file)
        sync(file.parent)
    finally:
        os.unlink(draft)

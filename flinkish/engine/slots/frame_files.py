"""Frames that wait in files for the slots of the same machine, instead of being copied through Spark five times.

What Spark transports is a reference: file, offset and length. A file has all large bodies that one call of a slot host has sent.
It is needed only within its epoch: when Spark repeats a task of a later level, it reads the same file again. When the next epoch
begins, the host of the slot that wrote it removes it; what is left goes with the folder of the attempt.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from flinkish.common.ids import random_id
from flinkish.runtime.protocol import Frame

#: First byte of a reference; bodies begin with others, see `elements.py`.
_MARK = b"\x03"
#: Minimum number of bytes of bodies that are worth a file, and of a body that goes into it.
_LEAST_TOTAL, _LEAST_BODY = 128 << 10, 4 << 10


class FrameFiles:
    """The files of frames that the host of one slot writes, and those that it reads."""

    def __init__(self, folder: Path, slot: int) -> None:
        self._folder = folder
        self._prefix = f"{slot}-"
        self._epoch = -1

    def begin_epoch(self, epoch: int) -> None:
        """Remove the files of earlier epochs, also those of a host that this one has replaced."""
        if epoch == self._epoch:
            return
        self._epoch = epoch
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for entry in list(os.scandir(self._folder)):
            if entry.name.startswith(self._prefix) and int(entry.name.split("-")[1]) < epoch:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(entry.path)

    def put(self, frames: Sequence[Frame]) -> list[Frame]:
        """Write large bodies into a file, and return the frames with references to it; the same frames if that fails."""
        bodies = [frame.body for frame in frames if len(frame.body) >= _LEAST_BODY]
        if sum(map(len, bodies)) < _LEAST_TOTAL:
            return list(frames)
        name = f"{self._prefix}{self._epoch}-{random_id()}"
        try:
            with open(self._folder / name, "wb") as file:
                file.writelines(bodies)
        except OSError:  # such as no space: then Spark transports them
            with contextlib.suppress(OSError):
                os.unlink(self._folder / name)
            return list(frames)
        return list(_references(frames, name))

    def get(self, frames: Iterable[Frame]) -> list[Frame]:
        """Return the frames with the bodies that references stand for; raise OSError if a file is gone or was cut off."""
        found: list[Frame] = []
        files: dict[str, int] = {}
        try:
            for frame in frames:
                if frame.body[:1] == _MARK:
                    name, offset, length = msgspec.msgpack.decode(frame.body[1:], type=tuple[str, int, int])
                    if name not in files:
                        files[name] = os.open(self._folder / name, os.O_RDONLY)
                    body = os.pread(files[name], length, offset)
                    if len(body) != length:
                        raise OSError(f"{self._folder / name} was cut off: bytes {offset} to {offset + length} are not there")
                    frame = frame._replace(body=body)
                found.append(frame)
        finally:
            for descriptor in files.values():
                os.close(descriptor)
        return found


def _references(frames: Iterable[Frame], name: str) -> Iterable[Frame]:
    offset = 0
    for frame in frames:
        length = len(frame.body)
        if length < _LEAST_BODY:
            yield frame
            continue
        yield frame._replace(body=_MARK + msgspec.msgpack.encode((name, offset, length)))
        offset += length

"""Logs that are begun again while others write to them."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from flinkish.server.session.rotation import begin_again, remove_beginning
from tests.kit.waiting import wait_until


def _append(file: Path) -> int:
    """Open a file as a driver inherits it."""
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """Return a folder whose file system can remove the beginning of a file; those in memory, where `tmp_path` may be, cannot."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        folder = Path(name)
        with (folder / "probe").open("w+b") as file:
            file.write(bytes(2 << 16))
            file.flush()
            if not remove_beginning(file.fileno(), 1 << 16):
                pytest.skip("this file system cannot remove the beginning of a file")
        yield folder


def test_no_line_is_lost_that_is_written_while_a_log_is_begun_again(on_disk: Path) -> None:
    file, old = on_disk / "a.log", on_disk / "a.log.1"
    lines: list[bytes] = []
    enough = threading.Event()

    def write() -> None:
        target = _append(file)
        while not enough.is_set():
            lines.append(b"line %d %s\n" % (len(lines), b"x" * 90))
            os.write(target, lines[-1])
        os.close(target)

    writer = threading.Thread(target=write)
    writer.start()
    parts = []
    try:
        for _ in range(5):
            wait_until("a long log", lambda: file.exists() and file.stat().st_size > 200_000)
            begin_again(file, old)
            parts.append(old.read_bytes())
    finally:
        enough.set()
        writer.join()

    # Each part begins with blanks instead of the line that the part before ends with.
    blanks = re.compile(rb"^ *\n")
    found = [parts[0], *(blanks.sub(b"", part) for part in (*parts[1:], file.read_bytes()))]
    assert all(part.endswith(b"\n") for part in found)
    assert b"".join(found) == b"".join(lines)


def test_a_line_that_is_written_after_the_copy_stays_in_the_file(on_disk: Path) -> None:
    file, old = on_disk / "a.log", on_disk / "a.log.1"
    target = _append(file)
    before, secret = b"a" * 65_530, b"password=hunter2"
    os.write(target, b"%s\n%s\nrest\n" % (before, secret))

    def late(descriptor: int, size: int) -> bool:
        os.write(target, b"late\n")
        return remove_beginning(descriptor, size)

    begin_again(file, old, collapse=late)
    os.close(target)

    # The line at which the file is cut is whole in one of the two, and is in no part in the other.
    assert old.read_bytes() == b"%s\n%s\n" % (before, secret)
    assert file.read_bytes() == b" " * 11 + b"\nrest\nlate\n"


def test_a_long_line_without_an_end_is_moved_as_a_whole(tmp_path: Path) -> None:
    file, old = tmp_path / "a.log", tmp_path / "a.log.1"
    file.write_bytes(b"a" * 100_000)
    begin_again(file, old)
    assert (old.read_bytes(), file.read_bytes()) == (b"a" * 100_000, b"")


def test_a_log_is_begun_again_where_its_beginning_cannot_be_removed(tmp_path: Path) -> None:
    file, old = tmp_path / "a.log", tmp_path / "a.log.1"
    target = _append(file)
    os.write(target, b"a" * 70_000 + b"\n" + b"b" * 30_000)

    def refuses(descriptor: int, size: int) -> bool:
        os.write(target, b"a line of that time")
        return False

    begin_again(file, old, collapse=refuses)
    os.write(target, b"the end")
    os.close(target)

    assert (old.read_bytes(), file.read_bytes()) == (
        b"a" * 70_000 + b"\n" + b"b" * 30_000 + b"a line of that time",
        b"the end",
    )
    assert old.stat().st_mode & 0o777 == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.log", "a.log.1"]


def test_a_log_that_another_process_begins_again_is_left_to_it(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(b"a" * 100_000)
    with file.open() as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError):
            begin_again(file, tmp_path / "a.log.1")

    assert file.stat().st_size == 100_000

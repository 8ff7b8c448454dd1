"""Unpacks zip and tar files of a program; nothing that they contain is written outside of the target folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO

from flinkish.common import safe_files
from flinkish.common.errors import InvalidProgramError


def unpack(archive: str, target: Path) -> None:
    """Unpack a zip or tar file. Raises InvalidProgramError if it cannot be, or if a part of it would leave the folder."""
    target.mkdir(parents=True, exist_ok=True)
    try:
        with contextlib.ExitStack() as stack:
            if zipfile.is_zipfile(archive):
                members = _members_of_zip(stack.enter_context(zipfile.ZipFile(archive)))
            else:
                members = _members_of_tar(stack.enter_context(tarfile.open(archive)))
            links = []
            for member in members:
                path = _checked_path(archive, member)
                if member.link is not None:
                    links.append((path, member.link))
                elif path:
                    _put(archive, member, target, path)
            # Links come last, so that no file of this archive is written through them.
            for path, link in links:
                _put_link(archive, target, path, link)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, OSError, NotImplementedError, RuntimeError, zlib.error) as error:
        raise InvalidProgramError(f"the archive {archive} cannot be unpacked: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Member:
    """A member of an archive: a symbolic link if `link` is set, a folder if it cannot be opened, otherwise a file."""

    name: str
    mode: int
    open: Callable[[], IO[bytes]] | None = None
    link: str | None = None
    #: Modification time in seconds, if it is to be preserved.
    changed: float | None = None


def _members_of_zip(archive: zipfile.ZipFile) -> Iterator[_Member]:
    for info in archive.infolist():
        mode = info.external_attr >> 16
        if stat.S_ISLNK(mode):
            yield _Member(name=info.filename, mode=mode, link=archive.read(info).decode(errors="surrogateescape"))
        else:
            yield _Member(name=info.filename, mode=mode, open=None if info.is_dir() else partial(archive.open, info))


def _members_of_tar(archive: tarfile.TarFile) -> Iterator[_Member]:
    for info in archive.getmembers():
        if info.issym():
            yield _Member(name=info.name, mode=info.mode, link=info.linkname)
        elif info.isfile() or info.islnk():
            # A hard link refers to a file of the archive, which tarfile finds; it is unpacked as a copy.
            # Compiled Python files identify their source by its modification time.
            changed = float(info.mtime)
            yield _Member(name=info.name, mode=info.mode, open=partial(_open_in_tar, archive, info), changed=changed)
        elif info.isdir():
            yield _Member(name=info.name, mode=info.mode)
        else:
            raise tarfile.ExtractError(f"{info.name!r} is a device or a pipe")


def _open_in_tar(archive: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    try:
        file = archive.extractfile(info)
    except KeyError as error:
        raise tarfile.ExtractError(f"{info.name!r} is a link to {info.linkname!r}, which is not in the archive") from error
    if file is None:
        raise tarfile.ExtractError(f"{info.name!r} is a link to {info.linkname!r}, which is no file")
    return file


def _checked_path(archive: str, member: _Member) -> str:
    """Return the path of a member relative to the folder, empty for the folder itself; refuse one that leads outside."""
    parts = [part for part in member.name.split("/") if part not in ("", ".")]
    if member.name.startswith("/") or ".." in parts or "\0" in member.name:
        raise _leaves(archive, f"{member.name!r} is not a path inside of it")
    return "/".join(parts)


def _put(archive: str, member: _Member, target: Path, path: str) -> None:
    parent = path if member.open is None else os.path.dirname(path)
    with _inside_only(archive, member.name):
        safe_files.make_folders(target, parent)
    if member.open is None:
        return
    with contextlib.suppress(FileNotFoundError), _inside_only(archive, member.name):
        safe_files.remove_file(target, path)  # from another archive with the same target, or a duplicate name
    with _inside_only(archive, member.name):
        copy = safe_files.create_file(target, path)
    with copy, member.open() as source:
        shutil.copyfileobj(source, copy)
        # zipfile does not restore the executable bit, which packed environments need.
        if member.mode & 0o111:
            os.fchmod(copy.fileno(), os.fstat(copy.fileno()).st_mode | member.mode & 0o111)
        if member.changed is not None:
            copy.flush()
            os.utime(copy.fileno(), (member.changed, member.changed))


def _put_link(archive: str, target: Path, path: str, link: str) -> None:
    """Create a symbolic link, if it leads to a path in the folder or to a program such as an environment's Python.

    Its path may have `..` only at the beginning. So it stays inside of the folder even if it leads through other links, because
    each of these does so, too.
    """
    parts = [part for part in link.split("/") if part not in ("", ".")]
    climbs = next((index for index, part in enumerate(parts) if part != ".."), len(parts))
    stays = not link.startswith("/") and climbs <= path.count("/") and ".." not in parts[climbs:]
    is_program = link.startswith("/") and os.path.isfile(link) and os.access(link, os.X_OK)
    if not path or not link or "\0" in link or not (stays or is_program):
        raise _leaves(archive, f"{path!r} is a link to {link!r}, which is neither a path inside of it nor a program")
    with _inside_only(archive, path):
        safe_files.make_folders(target, os.path.dirname(path))
        with contextlib.suppress(FileNotFoundError):
            safe_files.remove_file(target, path)
        with safe_files.open_folder(target, os.path.dirname(path)) as folder:
            os.symlink(link, os.path.basename(path), dir_fd=folder)


@contextlib.contextmanager
def _inside_only(archive: str, name: str) -> Iterator[None]:
    try:
        yield
    except (NotADirectoryError, IsADirectoryError) as error:
        raise InvalidProgramError(
            f"the archive {archive} cannot be unpacked: {name!r} is in the place of, or below, something of another kind"
        ) from error


def _leaves(archive: str, why: str) -> InvalidProgramError:
    return InvalidProgramError(
        f"the archive {archive} is refused, as it would write outside of its folder: {why}",
        hint="pack it again, with the files themselves instead of links: `zip -r` without `-y`, `tar --dereference`.",
    )

"""The dependencies of user functions: Python files and packages on sys.path, archives and cached files in the working folder.

Packages are installed once per job (engine/requirements.py). The driver copies everything else once per attempt to a folder that
all slots can access (`stage`); without such a folder, Spark unpacks Python files for each executor (`pack_python_files`). A slot
host sets up its process with it before it unpickles the program (`take_over`). The local engine's slots run in the driver's
process: Python files and packages are on its sys.path, and its working folder is changed while an epoch runs (`working_folder`).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import sys
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Final

from flinkish.common import options, safe_files
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError, InvalidProgramError, UnsupportedError
from flinkish.common.paths import location
from flinkish.program.program import CachedFile, Program, PythonArchive, PythonRequirements

_FOLDER: Final = "dependencies"
_LAYOUT: Final = "layout.json"
#: Only one of this process's local jobs with a working folder runs an epoch at a time.
_working_folder_lock = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """The dependencies of a program; all paths are absolute paths on the driver's machine."""

    python_files: tuple[str, ...] = ()
    archives: tuple[PythonArchive, ...] = ()
    cached_files: tuple[CachedFile, ...] = ()
    #: A zip file with modules of the program that this process has on its sys.path; tasks on other machines need them, too.
    own_modules: str | None = None
    requirements: PythonRequirements | None = None
    #: Folder into which the required packages are installed; every slot must be able to access it.
    packages: str | None = None

    @staticmethod
    def of(program: Program) -> Dependencies:
        """Return the dependencies of a program.

        Raises InvalidProgramError for a file that does not exist or is of an unusable kind, UnsupportedError for one that is not
        in the file system.
        """
        cached = (*program.cached_files, *_configured(program.configuration))
        result = Dependencies(
            python_files=tuple(_local(path, "Python file") for path in program.python_files),
            archives=tuple(
                PythonArchive(
                    path=_local(archive.path, "archive"),
                    target_directory=_inside(
                        archive.target_directory or os.path.basename(archive.path), f"target of archive {archive.path}"
                    ),
                )
                for archive in program.python_archives
            ),
            cached_files=tuple(
                CachedFile(
                    name=_inside(file.name, "name of a cached file"),
                    path=_local(file.path, "cached file"),
                    executable=file.executable,
                )
                for file in cached
            ),
            own_modules=program.own_modules,
            requirements=_requirements(program.python_requirements),
        )
        for path in result.python_files:
            if os.path.isfile(path) and not path.endswith(".py") and not zipfile.is_zipfile(path):
                raise InvalidProgramError(
                    f"the Python file {path} is neither a .py file nor a folder nor a zip file (.zip, .whl, .egg)"
                )
        for archive in result.archives:
            if not (os.path.isfile(archive.path) and (zipfile.is_zipfile(archive.path) or tarfile.is_tarfile(archive.path))):
                raise InvalidProgramError(f"the archive {archive.path} is neither a zip nor a tar file")
        return result

    def driver_path(self) -> Iterator[str]:
        """Yield the entries of sys.path that make Python files and packages importable; for a .py file that is its folder."""
        for path in self.python_files:
            yield os.path.dirname(path) if path.endswith(".py") else path
        if self.packages is not None:
            yield self.packages

    @property
    def files(self) -> Dependencies:
        """What the driver copies to a folder that all slots can access: all but the program's own modules."""
        return replace(self, own_modules=None)

    @property
    def needs_working_folder(self) -> bool:
        """Whether tasks need a working folder: there are archives or cached files."""
        return bool(self.archives or self.cached_files)


NO_DEPENDENCIES: Final = Dependencies()


def stage(dependencies: Dependencies, folder: Path, *, copy: bool) -> Path | None:
    """Put everything below a folder of the attempt; return the tasks' working folder, None if they need none.

    With `copy`, all files are copied there, because tasks cannot access the driver's files.
    """
    if dependencies.files == NO_DEPENDENCIES:
        return None
    root = folder / _FOLDER
    root.mkdir(parents=True)
    put: Callable[[str, Path], object] = _copy if copy else os.symlink
    path = []
    for number, file in enumerate(dependencies.python_files):
        if file.endswith(".py"):
            entry = root / f"python-{number}"
            entry.mkdir()
            put(file, entry / os.path.basename(file))
        elif copy:
            entry = root / f"python-{number}" / os.path.basename(file)
            entry.parent.mkdir()
            put(file, entry)
        else:
            entry = Path(file)
        path.append(str(entry))
    if dependencies.packages is not None:
        path.append(dependencies.packages)
    work: Path | None = None
    if dependencies.needs_working_folder:
        work = root / "work"
        work.mkdir()
        for archive in dependencies.archives:
            _unpack(archive.path, work / (archive.target_directory or os.path.basename(archive.path)))
        for cached in dependencies.cached_files:
            target = _place(work, cached.name)
            if cached.executable and os.path.isfile(cached.path):
                _copy(cached.path, target)
                target.chmod(target.stat().st_mode | 0o111)
            else:
                put(cached.path, target)
    layout = {"path": path, "working_folder": str(work) if work else None}
    (root / _LAYOUT).write_text(json.dumps(layout), encoding="utf-8")
    return work


def pack_python_files(files: Sequence[str], target: Path) -> tuple[str, ...]:
    """Write Python files, folders and zip files into a zip file; return the entries of sys.path in its unpacked content."""
    entries = []
    with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
        for number, file in enumerate(files):
            # Names of our own: PYTHONPATH takes no colons.
            entry = f"python-{number}"
            if file.endswith(".py") and os.path.isfile(file):
                archive.write(file, f"{entry}/{os.path.basename(file)}")
            elif os.path.isdir(file):
                for folder, names, inside in os.walk(file, followlinks=True):
                    names[:] = [name for name in names if name != "__pycache__"]
                    for name in inside:
                        path = os.path.join(folder, name)
                        archive.write(path, f"{entry}/{os.path.relpath(path, file)}")
            else:
                entry += ".zip"
                archive.write(file, entry)
            entries.append(entry)
    return tuple(entries)


def _place(work: Path, name: str) -> Path:
    """Return the target path of a cached file. Raises InvalidProgramError if it exists, or is reached through a link only."""
    target = work / name
    try:
        safe_files.make_folders(work, os.path.dirname(name))
        free = not os.path.lexists(target)
    except NotADirectoryError:
        free = False
    if not free:
        raise InvalidProgramError(
            f"the cached file {name!r} has no place in the tasks' working folder: an archive or another file is in the way",
            hint="give it another name.",
        )
    return target


def interpreter(python: str | None, working_folder: Path | None) -> str | None:
    """Return the tasks' interpreter; a path in the working folder, such as of a packed environment, is taken from there."""
    if python is not None and working_folder is not None and not os.path.isabs(python) and (working_folder / python).exists():
        return str(working_folder / python)
    return python


def take_over(folder: Path) -> None:
    """Put the staged Python files first on this process's sys.path, and change to the working folder.

    For processes that run only tasks; does nothing if nothing was staged below `folder`.
    """
    file = folder / _FOLDER / _LAYOUT
    if not file.exists():
        return
    layout = json.loads(file.read_text(encoding="utf-8"))
    sys.path[:0] = layout["path"]
    if layout["working_folder"] is not None:
        os.chdir(layout["working_folder"])


def extend_driver_path(dependencies: Dependencies) -> None:
    """Append Python files and packages to this process's sys.path, because sources and sinks have parts on the driver."""
    for path in dependencies.driver_path():
        if path not in sys.path:
            sys.path.append(path)


def forget_packages(dependencies: Dependencies) -> None:
    """Remove the job's packages from this process's sys.path, because they are deleted with the job."""
    if dependencies.packages in sys.path:
        sys.path.remove(dependencies.packages)


@contextlib.contextmanager
def working_folder(folder: Path | None) -> Iterator[None]:
    """Change this process's working folder within the `with` block; None = do not change it."""
    if folder is None:
        yield
        return
    with _working_folder_lock:
        before = os.getcwd()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def _configured(configuration: Configuration) -> Iterator[CachedFile]:
    """Yield the entries of pipeline.cached-files, each like `name:n,path:p,executable:true`."""
    option = options.CACHED_FILES
    for entry in configuration.get(option) or ():
        fields = dict(part.split(":", 1) for part in entry.split(",") if ":" in part)
        if not fields.get("name") or not fields.get("path") or not set(fields) <= {"name", "path", "executable"}:
            raise ConfigurationError(
                f"{option.key} in {configuration.origin(option.key)}: {entry!r} is not of the form name:n,path:p,executable:true"
            )
        executable = fields.get("executable", "false").strip().lower() == "true"
        yield CachedFile(name=fields["name"].strip(), path=fields["path"].strip(), executable=executable)


def _requirements(given: PythonRequirements | None) -> PythonRequirements | None:
    if given is None:
        return None
    path, cache = _local(given.path, "requirements file"), given.cache_directory
    if not os.path.isfile(path):
        raise InvalidProgramError(f"the requirements file {path} is no file")
    if cache is not None:
        cache = _local(cache, "folder of packages")
        if not os.path.isdir(cache):
            raise InvalidProgramError(f"the folder of packages {cache} is no folder", hint="fill one with `pip download -d`.")
    return PythonRequirements(path=path, cache_directory=cache)


def _local(path: str, what: str) -> str:
    place = location(path)
    if not place.is_local:
        raise UnsupportedError(
            f"the {what} {path} is on {place.scheme}://{place.host}; only files of the driver's file system are sent to tasks",
            hint="write file:///, with three slashes." if place.scheme == "file" else "download it first.",
        )
    absolute = os.path.abspath(place.file)
    if not os.path.exists(absolute):
        raise InvalidProgramError(f"the {what} {path} is not there ({absolute})")
    return absolute


def _inside(name: str, what: str) -> str:
    """Return the normalised path of a name, which must stay inside of the working folder."""
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise InvalidProgramError(f"the {what} must be a path inside of the tasks' working folder; got {name!r}")
    return str(path)


def _copy(source: str, target: Path) -> None:
    if os.path.isdir(source):
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy2(source, target)


def _unpack(archive: str, target: Path) -> None:
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
    if not path or not link or "\0" in link or not (stays or _is_program(link)):
        raise _leaves(archive, f"{path!r} is a link to {link!r}, which is neither a path inside of it nor a program")
    with _inside_only(archive, path):
        safe_files.make_folders(target, os.path.dirname(path))
        with contextlib.suppress(FileNotFoundError):
            safe_files.remove_file(target, path)
        with safe_files.open_folder(target, os.path.dirname(path)) as folder:
            os.symlink(link, os.path.basename(path), dir_fd=folder)


def _is_program(link: str) -> bool:
    return link.startswith("/") and os.path.isfile(link) and os.access(link, os.X_OK)


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

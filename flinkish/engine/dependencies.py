"""The dependencies of user functions: Python files and packages on sys.path, archives and cached files in the working folder.

Packages are installed once per job (`install`). The driver copies everything else once per attempt to a folder that
all slots can access (`stage`); without such a folder, Spark unpacks Python files for each executor (`pack_python_files`). A slot
host sets up its process with it before it unpickles the program (`take_over`). The local engine's slots run in the driver's
process: Python files and packages are on its sys.path, and its working folder is changed while an epoch runs (`working_folder`).
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Final

from flinkish.common import options, safe_files
from flinkish.common.configuration import Configuration
from flinkish.common.errors import ConfigurationError, DependencyError, InvalidProgramError, UnsupportedError
from flinkish.common.paths import location
from flinkish.engine.archives import unpack
from flinkish.program.program import CachedFile, Program, PythonArchive, PythonRequirements
from flinkish.runtime.protocol import NO_DEPENDENCIES, Dependencies

_log = logging.getLogger("flinkish.engine.dependencies")

_FOLDER: Final = "dependencies"
_LAYOUT: Final = "layout.json"
#: Number of lines of pip's output that the error message shows.
_LAST_LINES: Final = 20
#: Only one of this process's local jobs with a working folder runs an epoch at a time.
_working_folder_lock = threading.Lock()


def dependencies_of(program: Program) -> Dependencies:
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


def install(dependencies: Dependencies, python: str | None, folder: Path) -> Dependencies:
    """Install the packages into a folder that all tasks can access; return the dependencies with that folder.

    `python` is the tasks' interpreter (None = this one), whose pip is used. As in Flink, all packages are installed, even if the
    interpreter already has them. Raises DependencyError, with the end of pip's output, if pip fails or does not exist.
    """
    requirements = dependencies.requirements
    assert requirements is not None
    # An interpreter in an archive is not unpacked yet; it must have the same version as this one.
    interpreter = shutil.which(python or sys.executable) or sys.executable
    folder.mkdir(parents=True, exist_ok=True)
    command = [interpreter, "-m", "pip", "install", "--target", str(folder), "--requirement", requirements.path]
    command += ["--no-input", "--disable-pip-version-check"]
    if requirements.cache_directory is not None:
        command += ["--no-index", "--find-links", requirements.cache_directory]
    _log.info("Installing %s for the tasks.", requirements.path)
    try:
        # A user's --user setting would contradict --target.
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PIP_USER": "0"},
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise DependencyError(f"{interpreter} -m pip, which installs {requirements.path}, does not run: {error}") from error
    if done.returncode:
        output = "\n".join(done.stdout.strip().splitlines()[-_LAST_LINES:])
        where = "" if requirements.cache_directory is None else f" from {requirements.cache_directory}"
        raise DependencyError(
            f"the packages of {requirements.path} could not be installed{where} for the tasks: pip of {interpreter} ended with "
            f"{done.returncode}:\n{output}",
            hint="try the same by hand: " + " ".join(command[1:]).replace(str(folder), "/tmp/packages"),
        )
    return replace(dependencies, packages=str(folder))


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
            unpack(archive.path, work / (archive.target_directory or os.path.basename(archive.path)))
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
    for path in (*map(_importable, dependencies.python_files), dependencies.packages):
        if path is not None and path not in sys.path:
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
    with _working_folder_lock, contextlib.chdir(folder):
        yield


def extend_script_path(python_files: Sequence[str]) -> None:
    """Put Python files first on this process's sys.path, so that the script that it will run can import them.

    Raises InvalidProgramError or UnsupportedError for a file that is not there or not on this machine.
    """
    sys.path[:0] = [_importable(_local(path, "Python file")) for path in python_files]


def _importable(python_file: str) -> str:
    """Return the entry of sys.path for a Python file, folder or zip file; for a .py file that is its folder."""
    return os.path.dirname(python_file) if python_file.endswith(".py") else python_file


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

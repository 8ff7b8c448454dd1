"""The program that is sent to a session cluster: a script, or a zip file with the script and the files that it needs."""

from __future__ import annotations

import os
import re
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError
from flinkish.common.paths import location


@dataclass(frozen=True, slots=True)
class Program:
    """A file to upload; `module` is the module of a zip file to run as the script, None = run the file itself."""

    file: Path
    module: str | None = None

    @property
    def name(self) -> str:
        """The name under which the file is uploaded; it has only characters that all servers accept."""
        name = re.sub(r"[^A-Za-z0-9._-]", "_", self.file.name)[-100:].lstrip(".-")
        return name if name.endswith((".py", ".zip")) else f"{name or 'program'}.py"


@contextmanager
def packed(script: Path | None, files: Sequence[str], module: str | None = None) -> Iterator[Program]:
    """Yield the program of a script, or of a module in `files`; it exists until the end of the block.

    `files` are Python files, folders and zip files (also wheels), as paths or file: URLs. Raises InvalidProgramError if one of
    them cannot be read, or if two of them have a file of the same name.
    """
    if not files and script is not None:
        yield Program(script, module)
        return
    with tempfile.TemporaryDirectory(prefix="flinkish-run-") as folder:
        if script is not None:
            # A valid module name, so that the server can run the script as a module; it stays recognizable in tracebacks.
            module = re.sub(r"\W", "_", script.stem, flags=re.ASCII)
            module = f"_{module}" if module[:1].isdigit() else module
        name = "program" if module is None else module.partition(".")[0]
        target = Path(folder, f"{name}.zip")
        origins: dict[str, str] = {}
        with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
            own = [] if script is None else [(f"{module}.py", _read(script), str(script))]
            for inside, content, origin in chain(own, *map(_contents, files)):
                if inside in origins:
                    raise InvalidProgramError(
                        f"the program has two files named {inside}: of {origins[inside]} and of {origin}",
                        hint="rename one of them, or leave it out.",
                    )
                origins[inside] = origin
                archive.writestr(inside, content)
        yield Program(target, module)


def _contents(text: str) -> Iterator[tuple[str, bytes, str]]:
    """Yield the files that a Python file, folder or zip file makes importable: name below a folder of sys.path, content, text."""
    place = location(text)
    if not place.is_local:
        raise InvalidArgumentError(f"--py-files: {text}: only files of this machine are sent", hint="give a local path.")
    path = Path(place.file).expanduser()
    if not path.exists():
        raise InvalidArgumentError(f"--py-files: there is no file {text}")
    if path.is_dir():
        for file in sorted(path.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                yield file.relative_to(path).as_posix(), _read(file), text
    elif zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if not info.is_dir():
                    yield info.filename, archive.read(info), text
    elif path.suffix == ".py":
        yield path.name, _read(path), text
    else:
        raise InvalidArgumentError(f"--py-files: {text} is not a .py file, a folder or a zip file")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidProgramError(f"{path} cannot be read: {error.strerror}") from error


def absolute(savepoint: str) -> str:
    """Return the absolute path of a savepoint, because the server runs in another folder; URLs stay the same."""
    return savepoint if "://" in savepoint or savepoint.startswith("file:") else os.path.abspath(os.path.expanduser(savepoint))

"""Packs flinkish itself for executors: by `spark-submit --py-files`, or sent by the session that flinkish makes."""

from __future__ import annotations

import zipfile
from pathlib import Path

import flinkish
from flinkish.common.errors import InvalidProgramError


def pack(target: Path) -> None:
    """Write the installed flinkish into a zip file that Python can import from.

    Raises InvalidProgramError if flinkish itself does not run from a folder, OSError if the file cannot be written.
    """
    package = Path(flinkish.__file__).resolve().parent
    if not package.is_dir():
        raise InvalidProgramError(
            f"flinkish cannot be packed: it runs from {package.parent}, which is no folder",
            hint="use that file itself, or install flinkish with pip.",
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                archive.write(path, path.relative_to(package.parent))


def package_in(folder: Path) -> Path:
    """Return a zip file of flinkish: the one that it runs from, else one that is written into the folder."""
    root = Path(flinkish.__file__).parent.parent
    if root.is_file():
        return root
    target = folder / "flinkish.zip"
    pack(target)
    return target

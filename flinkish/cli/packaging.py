"""Packs a virtual environment for `--archives`."""

from __future__ import annotations

import json
import os
import sys
import tarfile
from importlib import metadata
from pathlib import Path

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError

#: Spark's own parts of an environment, which every machine of a cluster has: 400 MB.
_LEFT_OUT = ("pyspark/jars", "pyspark/examples", "pyspark/licenses")


def pack_environment(target: Path, environment: Path = Path(sys.prefix), base: Path = Path(sys.base_prefix)) -> Path:
    """Write a virtual environment into a tar file that Spark unpacks on each machine; return the interpreter that it needs there.

    A virtual environment has packages, but no interpreter: `bin/python` is a link to the one that made it. `base` is the folder
    of that one's installation. Raises InvalidArgumentError for a name that Spark does not unpack, InvalidProgramError if
    `environment` is no virtual environment or has packages in folders elsewhere, OSError if the file cannot be written.
    """
    if not target.name.endswith((".tar", ".tar.gz", ".tgz")):
        raise InvalidArgumentError(f"{target}: an environment is packed into a file .tar.gz, .tgz or .tar")
    if not (environment / "pyvenv.cfg").is_file() or environment == base:
        raise InvalidProgramError(
            f"{environment} is not a virtual environment, so it cannot be packed",
            hint="run flinkish from one (python -m venv), or pack a conda environment with conda-pack.",
        )
    packages = environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    if elsewhere := _editable(packages):
        raise InvalidProgramError(
            f"packages of {environment} are in folders elsewhere, which would be missing: {', '.join(elsewhere)}",
            hint="install them without --editable, or send them with --py-files from another environment.",
        )
    left_out = {packages / name for name in _LEFT_OUT}
    target.parent.mkdir(parents=True, exist_ok=True)
    # The quickest level: libraries hardly become smaller by a higher one.
    how = {} if target.suffix == ".tar" else {"compresslevel": 1}
    with tarfile.open(target, "w" if target.suffix == ".tar" else "w:gz", **how) as archive:  # type: ignore[call-overload]
        for folder, names, files in os.walk(environment):
            names[:] = sorted(name for name in names if Path(folder, name) not in left_out)
            links = [name for name in names if Path(folder, name).is_symlink()]
            for name in sorted([*files, *links]):
                path = Path(folder, name)
                if path.resolve() != target.resolve():
                    archive.add(path, path.relative_to(environment), recursive=False)
    return Path(os.path.realpath(environment / "bin" / "python"))


def _editable(packages: Path) -> list[str]:
    """Return the names of the packages that are installed as links to folders, without flinkish, which is sent by itself."""
    found = []
    for distribution in metadata.distributions(path=[str(packages)]):
        url = json.loads(distribution.read_text("direct_url.json") or "{}")
        if url.get("dir_info", {}).get("editable") and distribution.name != "flinkish":
            found.append(distribution.name)
    return sorted(found)

"""Packs a virtual environment for `--archives`."""

from __future__ import annotations

import json
import os
import sys
import tarfile
from importlib import metadata
from pathlib import Path

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError

#: Parts of pyspark that every machine of a cluster has already: 400 MB.
_LEFT_OUT = ("pyspark/jars", "pyspark/examples", "pyspark/licenses")


def pack_environment(target: Path, environment: Path = Path(sys.prefix), base: Path = Path(sys.base_prefix)) -> Path:
    """Write a virtual environment into a tar file that Spark unpacks on each machine; return the interpreter that it needs there.

    A virtual environment contains packages, but no interpreter: `bin/python` is a link to the interpreter that created it. `base`
    is the folder where that interpreter is installed. Raises InvalidArgumentError for a name that Spark does not unpack,
    InvalidProgramError if `environment` is not a virtual environment or has packages in other folders, OSError if the file cannot
    be written.
    """
    if not target.name.endswith((".tar", ".tar.gz", ".tgz")):
        raise InvalidArgumentError(f"{target}: an environment is packed into a file .tar.gz, .tgz or .tar: choose such a name")
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
    target.parent.mkdir(parents=True, exist_ok=True)
    # The fastest level: a higher one hardly makes libraries smaller.
    how = {} if target.suffix == ".tar" else {"compresslevel": 1}
    # Half a file would be found on the cluster only, so the target is complete or as it was.
    draft = target.with_name(f".{target.name}.new")
    left_out = {path.resolve() for path in (*(packages / name for name in _LEFT_OUT), target, draft)}
    try:
        with tarfile.open(draft, "w" if target.suffix == ".tar" else "w:gz", **how) as archive:  # type: ignore[call-overload]
            for path in sorted(environment.iterdir()):
                archive.add(
                    path, path.name, filter=lambda file: None if (environment / file.name).resolve() in left_out else file
                )
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)
    return Path(os.path.realpath(environment / "bin" / "python"))


def _editable(packages: Path) -> list[str]:
    """Return the names of editable packages, which are only links to folders; without flinkish, which is sent separately."""
    found = []
    for distribution in metadata.distributions(path=[str(packages)]):
        url = json.loads(distribution.read_text("direct_url.json") or "{}")
        if url.get("dir_info", {}).get("editable") and distribution.name != "flinkish":
            found.append(distribution.name)
    return sorted(found)

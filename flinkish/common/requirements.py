"""The packages that flinkish needs, and those of its extras, such as `flinkish[jdbc]`; the errors for a Python without them.

`spark-submit` does not ship packages.

This module imports only the errors, because it must work when other modules cannot be imported.
"""

from __future__ import annotations

import importlib
import importlib.util
import platform
import sys
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from flinkish.common.errors import MissingPackageError

#: Names of the packages in setup.cfg, by the module that is imported.
REQUIREMENTS: Final[Mapping[str, str]] = {
    "pyspark": "pyspark==4.2.0",
    "delta": "delta-spark==4.4.0",
    "pandas": "pandas>=2.2,<3",
    "pyarrow": "pyarrow>=18",
    "deltalake": "deltalake>=1.6.6,<2",
    "fastavro": "fastavro>=1.9",
    "msgspec": "msgspec>=0.19",
    "cloudpickle": "cloudpickle>=3.1",
    "yaml": "PyYAML>=6.0",
    "rich": "rich>=13.7",
    "click": "click>=8.1",
    "starlette": "starlette>=0.46",
    "uvicorn": "uvicorn>=0.34",
    "psutil": "psutil>=5.9",
    "prometheus_client": "prometheus-client>=0.21",
}
#: Installed together with pandas.
_IMPORTED = {"numpy": "pandas"}


def refuse_missing(module: str) -> NoReturn:
    """Raise MissingPackageError, which names all packages that are missing, for a module that code of flinkish imports."""
    package = _IMPORTED.get(module, module)
    missing = [name for name in REQUIREMENTS if name == package or importlib.util.find_spec(name) is None]
    wanted = " ".join(f"'{REQUIREMENTS[name]}'" for name in missing)
    error = MissingPackageError(
        f"flinkish needs {'these packages' if len(missing) > 1 else 'a package'} that {sys.executable} on {platform.node()} does "
        f"not have: {', '.join(REQUIREMENTS[name] for name in missing)}",
        hint=f"install them for that Python on each machine (pip install {wanted}), or name one that has them by PYSPARK_PYTHON, "
        "for the driver PYSPARK_DRIVER_PYTHON. `flinkish submit` runs the driver with the Python that flinkish is installed for; "
        "the zip file of `flinkish package` holds flinkish only.",
    )
    error.name = module
    raise error


def need(package: str, what_for: str, extra: str) -> Any:
    """Import a package of an extra; raises MissingPackageError, which names it as pip does and says how to install it.

    >>> need("no_such_package", "JdbcSink", "jdbc")
    Traceback (most recent call last):
    flinkish.common.errors.MissingPackageError: JdbcSink needs the package no-such-package, which is not installed
    Hint: pip install 'flinkish[jdbc]'
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] != package:
            raise
        raise MissingPackageError(
            f"{what_for} needs the package {package.replace('_', '-')}, which is not installed",
            hint=f"pip install 'flinkish[{extra}]'",
        ) from error


class LateModule:
    """An object with the names of a module, which is imported when one of them is used."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self._module), name)

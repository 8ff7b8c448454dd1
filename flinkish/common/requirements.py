"""The packages that flinkish needs, and the error for a Python without them, as `spark-submit` does not ship them.

This module imports only the errors, because it must work when other modules cannot be imported.
"""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Mapping
from typing import Final, NoReturn

from flinkish.common.errors import MissingPackageError

#: Names of the packages in setup.cfg, by the module that is imported.
REQUIREMENTS: Final[Mapping[str, str]] = {
    "pyspark": "pyspark==4.2.0",
    "delta": "delta-spark==4.4.0",
    "pandas": "pandas>=2.2,<3",
    "pyarrow": "pyarrow>=18",
    "deltalake": "deltalake>=1.6,<2",
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

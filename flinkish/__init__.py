"""Flink's DataStream API on Spark Structured Streaming."""

import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if sys.platform == "win32":
    raise ImportError(
        "flinkish runs on Linux and macOS only: it needs Unix sockets and file locks.\n"
        "Hint: on Windows, use it in WSL 2, which is Linux."
    )


#: Packages of others that modules of flinkish import; `common.requirements` has them with their versions.
_NEEDED = frozenset(
    (
        "click",
        "cloudpickle",
        "delta",
        "deltalake",
        "fastavro",
        "msgspec",
        "numpy",
        "pandas",
        "prometheus_client",
        "psutil",
        "starlette",
        "uvicorn",
        "pyarrow",
        "pyspark",
        "rich",
    )
) | {"yaml"}


class _AbsentModules:
    """The last of Python's finders: says why a module of PyFlink, or a package that flinkish needs, is not there."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name.startswith("flinkish."):
            from flinkish.common.absent import refuse_module

            refuse_module(name)
        # Code of flinkish imports it; whoever else looks for it gets Python's own answer.
        if name in _NEEDED and _importer().startswith("flinkish."):
            from flinkish.common.requirements import refuse_missing

            refuse_missing(name)


def _importer() -> str:
    """Return the module that contains the import statement for which a finder was called."""
    frame = sys._getframe(2)
    while "importlib._bootstrap" in frame.f_code.co_filename and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__"))


sys.meta_path.append(_AbsentModules)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # Loaded when needed: whatever imports a part of flinkish imports this module.
        from flinkish.common.absent import find_name

        return find_name(__name__, name, caller=sys._getframe(1))

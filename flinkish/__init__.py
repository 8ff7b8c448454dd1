"""Flink's DataStream API on Spark Structured Streaming."""

import sys
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"


class _AbsentModules:
    """The last of Python's finders: says why modules of PyFlink are not there, where others have found nothing."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name.startswith("flinkish."):
            from flinkish.common.absent import refuse_module

            refuse_module(name)


sys.meta_path.append(_AbsentModules)

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # Loaded when needed: whatever imports a part of flinkish imports this module.
        from flinkish.common.absent import find_name

        return find_name(__name__, name, caller=sys._getframe(1))

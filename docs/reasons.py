"""The one table of reasons: what of PyFlink's API is not here as it is there, and why.

A key is a module of PyFlink without `pyflink.` (for all that is in it), a class, `Class.name`, or `*.name` for one of any class.
What the docstrings in flinkish say under "Differs from Flink:" need not be repeated here, nor what flinkish says when a program
asks for a name that it has not (flinkish/common/absent_names.py).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any

from flinkish.common.absent_names import ABSENT

RECORDED_FILE = Path(__file__).parents[1] / "tests" / "unit" / "datastream" / "pyflink_signatures.json"


class Kind(Enum):
    """What a reason stands for."""

    #: There, but not just as in PyFlink.
    DIFFERS = "differs"
    #: Makes no sense off the JVM.
    UNSUPPORTED = "unsupported"
    #: Will come.
    LATER = "not yet"
    #: Public by its name only: part of how PyFlink works inside, or of how it is tested.
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a name is not there as in PyFlink; text for users."""

    kind: Kind
    text: str


def _differs(text: str) -> Reason:
    return Reason(Kind.DIFFERS, text)


def _unsupported(text: str) -> Reason:
    return Reason(Kind.UNSUPPORTED, text)


def recorded() -> dict[str, Any]:
    """Return what was recorded of PyFlink: exports, modules with their classes, functions."""
    loaded: dict[str, Any] = json.loads(RECORDED_FILE.read_text())
    return loaded


def _refused() -> dict[str, Reason]:
    """Return the reasons that flinkish itself gives for names of the modules in the table; those of Flink 1.x are not in it."""
    known = recorded()
    reasons = {}
    for key, absence in ABSENT.items():
        module, _, name = f"pyflink.{key}".rpartition(".")
        is_module = f"pyflink.{key}" in known["modules"]
        names = {*known["modules"].get(module, ()), *known["functions"].get(module, ())}
        if absence.kind != "gone" and (is_module or name in names):
            reasons[key if is_module else name] = Reason(Kind[absence.kind.upper()], f"{absence.reason}; {absence.see}")
    return reasons


_JAVA_CLASS = _unsupported("wraps a Java class")
_ARGUMENT_NAME = _differs("its argument is called `obj`, as in the base class")
_FILE_SINK_BUILDER = _differs("the builders are those of FileSink")

REASONS: Mapping[str, Reason] = MappingProxyType(
    {
        **_refused(),
        # Java objects.
        "AssignerWithPeriodicWatermarksWrapper": _JAVA_CLASS,
        "CustomCheckpointStorage": _JAVA_CLASS,
        "CustomStateBackend": _JAVA_CLASS,
        "EmbeddedRocksDBStateBackend.set_options": _unsupported("names a Java class"),
        "InputFormat": _JAVA_CLASS,
        "Sink.__init__": _differs("an interface to be implemented in Python; there it wraps a Java object"),
        "Source.__init__": _differs("an interface to be implemented in Python; there it wraps a Java object"),
        # Files.
        "StreamingFileSink.BaseBuilder.with_rolling_policy": _differs("its argument is called `rolling_policy`, as in FileSink"),
        "StreamingFileSink.DefaultBulkFormatBuilder": _FILE_SINK_BUILDER,
        "StreamingFileSink.DefaultRowFormatBuilder": _FILE_SINK_BUILDER,
        # Streams.
        # Types and configuration.
        "DateTypeInfo.from_internal_type": _ARGUMENT_NAME,
        "DateTypeInfo.to_internal_type": _ARGUMENT_NAME,
        "TimeTypeInfo.from_internal_type": _ARGUMENT_NAME,
        "TimeTypeInfo.to_internal_type": _ARGUMENT_NAME,
        "TimestampTypeInfo.from_internal_type": _ARGUMENT_NAME,
        "TimestampTypeInfo.to_internal_type": _ARGUMENT_NAME,
        "RestartStrategies.FailureRateRestartStrategyConfiguration.__init__": _differs(
            "its arguments are needed; there all are optional, for a Java object"
        ),
        "RestartStrategies.FixedDelayRestartStrategyConfiguration.__init__": _differs(
            "its arguments are needed; there all are optional, for a Java object"
        ),
    }
)

"""The one table of reasons why names of PyFlink's API are absent in flinkish or differ from PyFlink.

A key is a module of PyFlink without `pyflink.` (for all names in it), a class, `Class.name`, or `*.name` for a member of any
class. Do not repeat the differences that docstrings in flinkish describe under "Differs from Flink:", nor the reasons of absent
names in flinkish/common/absent_names.py.
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
    """The kinds of reasons."""

    #: The name exists, but differs from PyFlink.
    DIFFERS = "differs"
    #: The name has no meaning without Flink's JVM.
    UNSUPPORTED = "unsupported"
    #: The name is planned.
    LATER = "not yet"
    #: The name is public by its spelling only; PyFlink uses it internally or in tests.
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Reason:
    """The reason why a name is absent, or differs from PyFlink; `text` is for users."""

    kind: Kind
    text: str


def _differs(text: str) -> Reason:
    return Reason(Kind.DIFFERS, text)


def _unsupported(text: str) -> Reason:
    return Reason(Kind.UNSUPPORTED, text)


def recorded() -> dict[str, Any]:
    """Return the recorded API of PyFlink: exports, modules with their classes, functions."""
    loaded: dict[str, Any] = json.loads(RECORDED_FILE.read_text())
    return loaded


def _refused() -> dict[str, Reason]:
    """Return the reasons of flinkish's own table for recorded names of PyFlink, without names of Flink 1.x."""
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

"""The kinds of state that operators keep. A restore compares them: an operator can only use state of its own kind.

Operators of the same kind either understand each other's state or refuse it by the names and types of its parts. State of another
kind could be taken for their own: a finished source of any class has no splits, for example, and the timers of sessions and of
functions look alike. Checkpoints record the kinds: after a change of a text, checkpoints with the old text are refused.
"""

from __future__ import annotations

from typing import Any

from flinkish.program.operators import (
    IntervalJoinConfig,
    OperatorConfig,
    ReduceConfig,
    SinkConfig,
    SinkWriterConfig,
    SourceConfig,
    WindowConfig,
)
from flinkish.program.sources import AnySource, DriverSource, NativeSource


def state_kind(operator: OperatorConfig) -> str:
    """Return the kind of an operator's state, as a phrase with an article.

    All functions of users are of one kind, because users name their states, as in Flink: a map may go on as a process function.
    """
    match operator:
        case SourceConfig(source=source):
            return source_kind(source)
        case SinkConfig(sink=sink) | SinkWriterConfig(sink=sink):
            committed = sink.committable_type
            return "a sink without commits" if committed is Any else f"a sink that commits {_name(committed)}"
        case WindowConfig():
            return "a window operator"
        case IntervalJoinConfig():
            return "an interval join"
        case ReduceConfig():
            return "a rolling reduce"
        case _:
            return "a function"


def source_kind(source: AnySource) -> str:
    """Return the kind of a source's position: sources with the same class of splits may go on from each other's."""
    if isinstance(source, NativeSource):
        return "a source that Spark reads"
    if isinstance(source, DriverSource):
        return f"a source that the driver reads ({_name(type(source))})"
    return f"a source with splits of the class {_name(source.split_type)}"


def _name(of: Any) -> str:
    name: str = getattr(of, "__name__", repr(of))
    return name

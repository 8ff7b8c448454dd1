"""The sink of DataStream.print: lines are sent to the driver with the report of their epoch, and printed there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkish.common.text import print_function
from flinkish.program.sinks import PRINT, Sink, SinkWriter, SinkWriterContext, WriteContext


@dataclass(frozen=True)
class PrintSink(Sink[Any, None]):
    """Prints the text of every record on the driver's standard output.

    A line starts with the identifier if there is one, and with the number of the subtask (from 1) if there are several:
    `2> x`, `id> x`, `id:2> x`.
    """

    sink_identifier: str | None = None

    def create_writer(self, context: SinkWriterContext) -> _PrintWriter:
        return _PrintWriter(context, line_prefix(self.sink_identifier, context.subtask_index, context.parallelism))


def line_prefix(identifier: str | None, subtask_index: int, parallelism: int) -> str:
    """Return the prefix of each line; source of the rule: Flink's PrintSinkOutputWriter."""
    parts = [identifier] if identifier else []
    if parallelism > 1:
        parts.append(str(subtask_index + 1))
    return f"{':'.join(parts)}> " if parts else ""


class _PrintWriter(SinkWriter[Any, None]):
    def __init__(self, context: SinkWriterContext, prefix: str) -> None:
        self._context = context
        self._text = print_function(context.input_type)
        self._prefix = prefix
        self._lines: list[str] = []

    def write(self, value: Any, context: WriteContext) -> None:
        self._lines.append(self._prefix + self._text(value))

    def buffered_bytes(self) -> int:
        return len(self._lines) * len(self._lines[-1]) if self._lines else 0

    def end_epoch(self) -> None:
        if self._lines:
            self._context.emit_to_driver(PRINT, self._lines)
            self._lines = []

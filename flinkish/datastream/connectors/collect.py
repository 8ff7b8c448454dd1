"""The sink of execute_and_collect: records are sent to the driver with the report of their epoch.

It has the parallelism of the operator that it reads from, and is chained to it, so that no exchange is needed to bring all
records to one subtask. The driver merges the records of all subtasks by the watermarks before them, in the order in which one
subtask that reads from all of them would take them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkish.common.conversion import shortest_floats
from flinkish.common.sizes import rough_size
from flinkish.program.sinks import COLLECT, Sink, SinkWriter, SinkWriterContext, WriteContext


@dataclass(frozen=True)
class CollectSink(Sink[Any, None]):
    """Sends every record to the driver, in the order of each subtask."""

    def create_writer(self, context: SinkWriterContext) -> _CollectWriter:
        return _CollectWriter(context)


class _CollectWriter(SinkWriter[Any, None]):
    def __init__(self, context: SinkWriterContext) -> None:
        self._context = context
        self._values: list[Any] = []
        #: The watermark that came before these values.
        self._watermark: int | None = None
        #: Approximate size of the values sent in this epoch.
        self._bytes = 0
        self._convert = shortest_floats(context.input_type)

    def write(self, value: Any, context: WriteContext) -> None:
        if context.watermark != self._watermark:
            self._send(context.watermark)
        self._values.append(value)

    def buffered_bytes(self) -> int:
        return self._bytes + (len(self._values) * rough_size(self._values[-1]) if self._values else 0)

    def end_epoch(self) -> None:
        self._send(self._watermark)
        self._bytes = 0

    def _send(self, next_watermark: int | None) -> None:
        if self._values:
            self._bytes = self.buffered_bytes()
            values = self._values if self._convert is None else list(map(self._convert, self._values))
            self._context.emit_to_driver(COLLECT, values, self._watermark)
            self._values = []
        self._watermark = next_watermark

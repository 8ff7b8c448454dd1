"""The sink of execute_and_collect: records are sent to the driver with the report of their epoch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkish.common.conversion import shortest_floats
from flinkish.common.sizes import rough_size
from flinkish.program.sinks import COLLECT, Sink, SinkWriter, SinkWriterContext, WriteContext


@dataclass(frozen=True)
class CollectSink(Sink[Any, None]):
    """Sends every record to the driver, in the order of each subtask."""

    def create_writer(self, context: SinkWriterContext) -> SinkWriter[Any, None]:
        return _CollectWriter(context)


class _CollectWriter(SinkWriter[Any, None]):
    def __init__(self, context: SinkWriterContext) -> None:
        self._context = context
        self._values: list[Any] = []
        convert = shortest_floats(context.input_type)
        if convert is not None:
            self._convert = convert
            self.write = self._write_converted  # type: ignore[method-assign]

    def write(self, value: Any, context: WriteContext) -> None:
        self._values.append(value)

    def _write_converted(self, value: Any, context: WriteContext) -> None:
        self._values.append(self._convert(value))

    def buffered_bytes(self) -> int:
        return len(self._values) * rough_size(self._values[-1]) if self._values else 0

    def end_epoch(self) -> None:
        if self._values:
            self._context.emit_to_driver(COLLECT, self._values)
            self._values = []

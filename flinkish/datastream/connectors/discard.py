"""A sink that drops all records, for performance measurements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flinkish.common.columns import Columns
from flinkish.program.sinks import Sink, SinkWriter, SinkWriterContext, WriteContext


@dataclass(frozen=True)
class DiscardingSink(Sink[Any, None]):
    """Drops every record; Flink's DiscardingSink."""

    why_records = None

    def create_writer(self, context: SinkWriterContext) -> _DiscardingWriter:
        return _DiscardingWriter()


class _DiscardingWriter(SinkWriter[Any, None]):
    def write(self, value: Any, context: WriteContext) -> None:
        pass

    def write_columns(self, columns: Columns) -> bool:
        return True

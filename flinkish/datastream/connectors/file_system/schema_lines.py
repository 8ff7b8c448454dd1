"""The format of lines that a DeserializationSchema reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from flinkish.common.arguments import instance_of
from flinkish.common.errors import UnsupportedError
from flinkish.common.serialization import DeserializationSchema
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.file_system.file_format import SplitReader
from flinkish.datastream.connectors.file_system.formats import LineFormat
from flinkish.datastream.connectors.file_system.line_source import LineSource, LineSplitReader
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors


@dataclass(frozen=True)
class SchemaLineFormat(LineFormat):
    """Lines read by a schema; a line for which it raises ValueError is a bad record, and one read as None is skipped."""

    schema: DeserializationSchema = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        instance_of("StreamFormat.line_format()", self.schema, DeserializationSchema)
        if type(self.schema).is_end_of_stream is not DeserializationSchema.is_end_of_stream:
            raise UnsupportedError(
                f"StreamFormat.line_format: {type(self.schema).__name__}.is_end_of_stream() would not be asked, as files end by "
                "themselves",
                hint="leave the method out, and filter() what comes behind such a record.",
            )

    def produced_type(self) -> TypeInformation:
        return self.schema.get_produced_type()

    def open(self, split: FileSourceSplit, errors: RecordErrors) -> SplitReader:
        self.schema.open()
        return _SchemaLineReader(LineSource(split, self.charset_name), self.schema, errors)


class _SchemaLineReader(LineSplitReader):
    def __init__(self, source: LineSource, schema: DeserializationSchema, errors: RecordErrors) -> None:
        super().__init__(source, errors)
        self._deserialize = schema.deserialize

    def read(self, limit: int) -> Sequence[Any]:
        records: list[Any] = []
        while not records and (lines := self._source.take(limit)):
            for index, line in enumerate(lines):
                try:
                    record = self._deserialize(line.removesuffix(b"\r"))
                except ValueError as error:
                    record = self._bad_line(str(error), line, len(lines) - index)
                except Exception as error:
                    # Without dead letters, an error of other kinds is one of the program.
                    if not self._errors.keeps:
                        raise
                    record = self._bad_line(f"{type(error).__name__}: {error}", line, len(lines) - index)
                if record is not None:
                    records.append(record)
        return records

"""JSON: the format with one value per line."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from typing import Any

import msgspec

from flinkish.common.arguments import instance_of
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.file_system.file_format import SplitReader
from flinkish.datastream.connectors.file_system.formats import LineFormat
from flinkish.datastream.connectors.file_system.json_reader import JsonReader
from flinkish.datastream.connectors.file_system.json_values import JsonConverters
from flinkish.datastream.connectors.file_system.lines import NO_RECORD, LineSource, LineSplitReader
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors

__all__ = ["JsonLinesFormat"]


@dataclass(frozen=True)
class JsonLinesFormat(LineFormat):
    """Reads one JSON value per line; empty lines are skipped.

    Without `type_info`, records are the decoded JSON values: dicts, lists, numbers, text. With a type they are checked and
    converted: objects become Rows (missing fields are None, unknown fields are ignored), arrays become tuples or lists, and
    ISO 8601 texts become dates and times.
    """

    type_info: TypeInformation | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.type_info is not None:
            instance_of("type_info of the JSON lines format", self.type_info, TypeInformation)
            JsonReader(self.type_info, JsonConverters())

    @property
    def why_records(self) -> str | None:  # type: ignore[override]
        if self.type_info is None:
            return "the JSON lines format has no type_info with the fields"
        if not _is_utf8(self.charset_name):
            return "only lines of UTF-8 are read as columns"
        return JsonReader(self.type_info, JsonConverters()).why_records

    @property
    def makes_new_records(self) -> bool:  # type: ignore[override]
        # A reader of a subclass may keep them.
        return type(self).open is JsonLinesFormat.open

    def produced_type(self) -> TypeInformation | None:
        return self.type_info

    def open(self, split: FileSourceSplit, errors: RecordErrors, *, by_columns: bool = False) -> SplitReader:
        return _JsonLinesReader(self, split, errors, by_columns=by_columns)


def _is_utf8(charset: str) -> bool:
    return codecs.lookup(charset).name in ("utf-8", "ascii")


class _JsonLinesReader(LineSplitReader):
    def __init__(self, format_: JsonLinesFormat, split: FileSourceSplit, errors: RecordErrors, *, by_columns: bool) -> None:
        source = LineSource(split, format_.charset_name, strip_bom=True)
        super().__init__(source, errors)
        type_info = format_.type_info
        reader = None if type_info is None else JsonReader(type_info, JsonConverters())
        self._read = msgspec.json.decode if reader is None else reader.read
        if by_columns and reader is not None:
            self.batch = reader.batch  # a carriage return is white space
        self._is_utf8 = _is_utf8(source.encoding)

    def parse(self, line: bytes) -> Any:
        text = line if self._is_utf8 else self.decoded(line)
        if not text or text.isspace():
            return NO_RECORD
        try:
            return self._read(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.decoded(line)  # raises the error for a line that is not text
            raise ValueError(f"not valid JSON: {error}") from error
        except RecursionError as error:
            raise ValueError("not valid JSON: nested too deeply") from error

"""The format with one JSON value per line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from flinkish.common.arguments import instance_of
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.file_system.file_format import SplitReader
from flinkish.datastream.connectors.file_system.formats import LineFormat
from flinkish.datastream.connectors.file_system.json_values import JsonConverter, JsonConverters, json_decoder
from flinkish.datastream.connectors.file_system.line_source import LineSource, LineSplitReader
from flinkish.datastream.connectors.file_system.lines import decode_lines
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors

_NOTHING: Final = object()


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
            JsonConverters().build(self.type_info)

    def produced_type(self) -> TypeInformation | None:
        return self.type_info

    def open(self, split: FileSourceSplit, errors: RecordErrors) -> SplitReader:
        convert = None if self.type_info is None else JsonConverters().build(self.type_info)
        decoder = json_decoder(self.type_info)
        return _JsonLinesReader(LineSource(split, self.charset_name, strip_bom=True), decoder, convert, errors)


class _JsonLinesReader(LineSplitReader):
    def __init__(
        self, source: LineSource, decoder: msgspec.json.Decoder[Any], convert: JsonConverter | None, errors: RecordErrors
    ) -> None:
        super().__init__(source, errors)
        self._convert = convert
        self._decoder = decoder

    def read(self, limit: int) -> Sequence[Any]:
        records: list[Any] = []
        utf8 = self._source.encoding in ("utf-8", "ascii")
        while not records and (lines := self._source.take(limit)):
            texts: Sequence[str | bytes | None] = lines if utf8 else decode_lines(lines, self._source.encoding)
            for index, text in enumerate(texts):
                record = self._parse(text, lines[index], len(lines) - index)
                if record is not _NOTHING:
                    records.append(record)
        return records

    def _parse(self, text: str | bytes | None, line: bytes, back: int) -> Any:
        try:
            if text is not None:
                if not text or text.isspace():
                    return _NOTHING
                value = self._decoder.decode(text)
                return value if self._convert is None else self._convert(value, "")
            reason = self._undecodable
        except UnicodeDecodeError:
            reason = self._undecodable
        except msgspec.DecodeError as error:
            reason = f"not valid JSON: {error}"
        except RecursionError:
            reason = "not valid JSON: nested too deeply"
        except ValueError as error:
            reason = str(error)
        result = self._bad_line(reason, line, back)
        return _NOTHING if result is None else result

"""Comma-separated values, as StreamFormat.csv_format reads them."""

from __future__ import annotations

from dataclasses import dataclass, field

from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream.connectors.file_system.csv_reader import CsvReader
from flinkish.datastream.connectors.file_system.csv_settings import CsvDialect, CsvSettings, HeaderUse
from flinkish.datastream.connectors.file_system.file_format import SplitReader
from flinkish.datastream.connectors.file_system.formats import LineFormat
from flinkish.datastream.connectors.file_system.line_source import LineSource
from flinkish.datastream.connectors.file_system.splits import FileSourceSplit
from flinkish.datastream.connectors.record_errors import RecordErrors


@dataclass(frozen=True)
class CsvLinesFormat(LineFormat):
    """Base of the CSV formats."""

    settings: CsvSettings = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.settings.check()

    @property
    def splittable(self) -> bool:
        return super().splittable and not self.settings.multiline

    def produced_type(self) -> TypeInformation | None:
        return self.settings.schema

    def open(self, split: FileSourceSplit, errors: RecordErrors) -> SplitReader:
        source = LineSource(split, self.charset_name, strip_bom=True)
        try:
            return CsvReader(self.settings, source, errors)
        except BaseException:
            source.close()
            raise


class CsvFormat(CsvLinesFormat):
    """Rows of comma-separated values, read as RFC 4180 says.

    `schema`: the type of the records, ROW_NAMED or TUPLE. With a header, the columns of a ROW_NAMED are found by their names, and
    others in the file are left out; a TUPLE, and all files without a header, are read by position. Without a schema the file must
    have a header; records are then Rows with its names and STRING values, and their type is not declared.
    Empty fields are None except in columns of STRING, arrays and bytes; what is in `null_values` (such as "NA") is None for all.
    Arrays and nested rows stand in one field, their elements separated by ';'; bytes in base64.
    `multiline`: whether quoted fields may hold line feeds; False lets readers share a big file. Empty lines are skipped.
    For PyFlink's CsvSchema see flinkish.datastream.formats.csv.
    """

    def __init__(
        self,
        schema: TypeInformation | None = None,
        *,
        header: bool = True,
        delimiter: str = ",",
        quote_char: str | None = '"',
        escape_char: str | None = None,
        comment: str | None = None,
        null_values: tuple[str, ...] = (),
        multiline: bool = True,
        charset_name: str = "UTF-8",
    ) -> None:
        dialect = CsvDialect(
            delimiter=delimiter, quote_char=quote_char, escape_char=escape_char, comment=comment, null_values=null_values
        )
        settings = CsvSettings(
            dialect=dialect, schema=schema, header=HeaderUse.FIND if header else HeaderUse.NONE, multiline=multiline
        )
        super().__init__(charset_name, settings=settings)

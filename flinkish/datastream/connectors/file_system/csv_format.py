"""The format of comma-separated values that StreamFormat.csv_format returns."""

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
    """Reads rows of comma-separated values, as in RFC 4180.

    `schema`: the type of the records, ROW_NAMED or TUPLE. With a header, the columns of a ROW_NAMED are found by name, and other
    columns of the file are ignored; columns of a TUPLE, and of files without a header, are found by position. Without a schema
    the file must have a header; records are then Rows with the names of the header and STRING values, and their type is not
    declared. Empty fields are None, except in columns of STRING, arrays and bytes; texts in `null_values` (such as "NA") are
    always None. An array or nested row is in one field, with its elements separated by ';'; bytes are base64.
    `multiline`: whether quoted fields may contain line feeds; with False, several readers can share a large file. Empty lines are
    skipped.
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
        super().__init__(charset_name=charset_name, settings=settings)

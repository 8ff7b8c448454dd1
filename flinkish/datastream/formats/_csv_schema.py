"""CsvSchema: the columns and the syntax of CSV files."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from flinkish.common.arguments import bool_of, instance_of, text_of
from flinkish.common.builder import SettingsBuilder
from flinkish.common.errors import InvalidArgumentError
from flinkish.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation, Types
from flinkish.datastream.connectors.file_system.csv_values import ARRAY_SEPARATOR, CsvDialect
from flinkish.table.types import DataType, type_info_of

#: First character of comment lines, if comments are allowed.
COMMENT: Final = "#"


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    #: Jackson's name for the kind of column, used by str().
    kind: str
    type_info: TypeInformation
    #: Separator of the elements of an array; empty = the schema's separator.
    separator: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvSchema:
    """The columns and the syntax of CSV files. Make it by `builder()`.

    >>> schema = CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header().build()
    >>> print(schema)
    [CsvSchema: columns=["id"/NUMBER,"name"/STRING], header? true, skipFirst? false, comments? false, any-properties? N/A]
    """

    columns: tuple[_Column, ...] = ()
    dialect: CsvDialect = field(default_factory=CsvDialect)
    array_element_separator: str = ARRAY_SEPARATOR
    line_separator: str = "\n"
    use_header: bool = False
    strict_headers: bool = False
    skip_first_data_row: bool = False
    any_property_name: str | None = None

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Return a builder without columns."""
        return CsvSchemaBuilder()

    def size(self) -> int:
        """Return how many columns there are."""
        return len(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __str__(self) -> str:
        columns = ",".join(f'"{column.name}"/{column.kind}' for column in self.columns)
        flags = {"header": self.use_header, "skipFirst": self.skip_first_data_row, "comments": self.dialect.comment is not None}
        shown = ", ".join(f"{name}? {'true' if value else 'false'}" for name, value in flags.items())
        rest = "N/A" if self.any_property_name is None else f'as "{self.any_property_name}"'
        return f"[CsvSchema: columns=[{columns}], {shown}, any-properties? {rest}]"

    def __repr__(self) -> str:
        return str(self)

    def row_type(self) -> RowTypeInfo:
        """Return the type of the records; raise InvalidArgumentError if two columns have the same name."""
        return Types.ROW_NAMED([column.name for column in self.columns], [column.type_info for column in self.columns])

    def separators(self) -> tuple[str, ...]:
        """Return the separator of array elements for each column."""
        return tuple(column.separator or self.array_element_separator or ARRAY_SEPARATOR for column in self.columns)


class CsvSchemaBuilder(SettingsBuilder[CsvSchema]):
    """Builder of a CsvSchema; as in PyFlink, its settings have Jackson's names."""

    def __init__(self) -> None:
        super().__init__(CsvSchema())

    def build(self) -> CsvSchema:
        """Return the schema."""
        return self._settings

    def add_array_column(
        self, name: str, separator: str = ";", element_type: DataType | TypeInformation | None = None
    ) -> CsvSchemaBuilder:
        """Add a column of lists, whose elements are in one field, divided by `separator`; their default type is STRING."""
        element = Types.STRING() if element_type is None else type_info_of(element_type, "element_type of add_array_column")
        return self._add(name, "ARRAY", Types.LIST(element), text_of("separator", separator, empty=True))

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of BOOLEAN."""
        return self._add(name, "BOOLEAN", Types.BOOLEAN())

    def add_number_column(self, name: str, number_type: DataType | TypeInformation | None = None) -> CsvSchemaBuilder:
        """Add a column of numbers; their default type is LONG (BIGINT)."""
        type_info = Types.LONG() if number_type is None else type_info_of(number_type, "number_type of add_number_column")
        if not isinstance(type_info, BasicTypeInfo) or type_info.basic_type in _NOT_NUMBERS:
            raise InvalidArgumentError(
                f"number_type of add_number_column must be a type of numbers; got {number_type!r}", hint="DataTypes.INT()."
            )
        return self._add(name, "NUMBER", type_info)

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of STRING."""
        return self._add(name, "STRING", Types.STRING())

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Add all columns of another schema."""
        instance_of("add_columns_from()", schema, CsvSchema, hint="call build() on a builder.")
        return self._set(columns=self._settings.columns + schema.columns)

    def clear_columns(self) -> CsvSchemaBuilder:
        """Remove all columns."""
        return self._set(columns=())

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Skip lines that begin with '#', with or without blanks before it."""
        return self._set_dialect(comment=COMMENT if bool_of("allow", allow) else None)

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Allow lines with more fields than columns, which are errors otherwise; as in Flink, surplus fields are ignored."""
        return self._set(any_property_name=text_of("name", name, empty=True))

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Restore the separators of the columns, by default ';'."""
        return self._set(array_element_separator="")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Make the array column at a position use the separator of the schema."""
        columns = list(self._settings.columns)
        if not isinstance(index, int) or not 0 <= index < len(columns):
            raise InvalidArgumentError(f"there is no column {index!r}; there are {len(columns)}")
        columns[index] = replace(columns[index], separator="")
        return self._set(columns=tuple(columns))

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set the separator of array elements in columns without a separator of their own."""
        return self._set(array_element_separator=text_of("separator", separator, empty=True))

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Set the delimiter of columns; ',' by default."""
        return self._set_dialect(delimiter=character(char, "Column separator"))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """Use no escape character; the default."""
        return self._set_dialect(escape_char=None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Set the escape character: the next character loses its special meaning.

        Differs from Flink: there, an escaped `n` is a line feed, and so on.
        """
        return self._set_dialect(escape_char=character(char, "Escape char"))

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        r"""Set the end of written lines; '\n' by default. When lines are read, they end with '\n' or '\r\n'."""
        return self._set(line_separator=text_of("the line separator", separator))

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set the text that stands for None. Empty fields are always None, too, except in columns of STRING and arrays."""
        return self._set_dialect(null_values=(text_of("null_value", null_value, empty=True),))

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Use no quote character."""
        return self._set_dialect(quote_char=None)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Set the character that quotes a field; '"' by default."""
        return self._set_dialect(quote_char=character(char, "Quote char"))

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Skip the first line, or the first line after the header."""
        return self._set(skip_first_data_row=bool_of("skip", skip))

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Check the header, if one is used: it must contain the names of the columns in their order."""
        return self._set(strict_headers=bool_of("strict", strict))

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Read the first line of a file as a header, and write a header to each file."""
        return self._set(use_header=bool_of("use", use))

    def size(self) -> int:
        """Return how many columns there are."""
        return len(self._settings)

    def __len__(self) -> int:
        return len(self._settings)

    def _add(self, name: str, kind: str, type_info: TypeInformation, separator: str = "") -> CsvSchemaBuilder:
        column = _Column(text_of("name", name, empty=True), kind, type_info, separator)
        return self._set(columns=(*self._settings.columns, column))

    def _set_dialect(self, **changes: Any) -> CsvSchemaBuilder:
        return self._set(dialect=replace(self._settings.dialect, **changes))


_NOT_NUMBERS = (BasicType.STRING, BasicType.CHAR, BasicType.BOOLEAN, BasicType.INSTANT)


def character(value: Any, what: str) -> str:
    """Return the value; raise InvalidArgumentError unless it is one character."""
    if not isinstance(value, str) or len(value) != 1:
        raise InvalidArgumentError(f"{what} must be a single char, got {value!r}")
    return value

"""CsvSchema: the columns of CSV files and how they are written down."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from flinkish.common.errors import InvalidArgumentError
from flinkish.common.typeinfo import BasicType, BasicTypeInfo, RowTypeInfo, TypeInformation, Types
from flinkish.datastream.connectors.file_system.csv_settings import ARRAY_SEPARATOR, CsvDialect
from flinkish.table.types import DataType, type_info_of

#: What lines begin with that are no records, if comments are allowed.
COMMENT: Final = "#"


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    #: Jackson's name for the kind of column, for the printed form.
    kind: str
    type_info: TypeInformation
    #: Of the elements of an array; empty: what the schema says.
    separator: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvSchema:
    """The columns of CSV files and how they are written down. Made by `builder()`.

    >>> schema = CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header().build()
    >>> print(schema)
    [CsvSchema: columns=["id"/NUMBER,"name"/STRING], header? true, skipFirst? false, comments? false, any-properties? N/A]
    """

    columns: tuple[_Column, ...] = ()
    column_separator: str = ","
    array_element_separator: str = ARRAY_SEPARATOR
    quote_char: str | None = '"'
    escape_char: str | None = None
    line_separator: str = "\n"
    null_value: str | None = None
    allow_comments: bool = False
    use_header: bool = False
    strict_headers: bool = False
    skip_first_data_row: bool = False
    any_property_name: str | None = None

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Begin a schema without columns."""
        return CsvSchemaBuilder()

    def size(self) -> int:
        """Return how many columns there are."""
        return len(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def __str__(self) -> str:
        columns = ",".join(f'"{column.name}"/{column.kind}' for column in self.columns)
        flags = {"header": self.use_header, "skipFirst": self.skip_first_data_row, "comments": self.allow_comments}
        shown = ", ".join(f"{name}? {'true' if value else 'false'}" for name, value in flags.items())
        rest = "N/A" if self.any_property_name is None else f'as "{self.any_property_name}"'
        return f"[CsvSchema: columns=[{columns}], {shown}, any-properties? {rest}]"

    def __repr__(self) -> str:
        return str(self)

    def row_type(self) -> RowTypeInfo:
        """Return the type of the records; raises InvalidArgumentError if a name stands twice."""
        return Types.ROW_NAMED([column.name for column in self.columns], [column.type_info for column in self.columns])

    def dialect(self) -> CsvDialect:
        """Return the characters that have a meaning."""
        return CsvDialect(
            delimiter=self.column_separator,
            quote_char=self.quote_char,
            escape_char=self.escape_char,
            comment=COMMENT if self.allow_comments else None,
            null_values=() if self.null_value is None else (self.null_value,),
        )

    def separators(self) -> tuple[str, ...]:
        """Return what separates the elements of each column."""
        return tuple(column.separator or self.array_element_separator or ARRAY_SEPARATOR for column in self.columns)


class CsvSchemaBuilder:
    """Sets up a CsvSchema; as in PyFlink, Jackson's names for the settings."""

    def __init__(self) -> None:
        self._schema = CsvSchema()

    def build(self) -> CsvSchema:
        """Return the schema."""
        return self._schema

    def add_array_column(
        self, name: str, separator: str = ";", element_type: DataType | TypeInformation | None = None
    ) -> CsvSchemaBuilder:
        """Add a column of lists, whose elements stand in one field between separators; of STRING if no type is given."""
        element = Types.STRING() if element_type is None else type_info_of(element_type, "element_type of add_array_column")
        return self._add(_Column(text(name, "name"), "ARRAY", Types.LIST(element), text(separator, "separator")))

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of BOOLEAN."""
        return self._add(_Column(text(name, "name"), "BOOLEAN", Types.BOOLEAN()))

    def add_number_column(self, name: str, number_type: DataType | TypeInformation | None = None) -> CsvSchemaBuilder:
        """Add a column of numbers, of LONG (BIGINT) if no type is given."""
        type_info = Types.LONG() if number_type is None else type_info_of(number_type, "number_type of add_number_column")
        if not isinstance(type_info, BasicTypeInfo) or type_info.basic_type in _NOT_NUMBERS:
            raise InvalidArgumentError(
                f"number_type of add_number_column must be a type of numbers; got {number_type!r}", hint="DataTypes.INT()."
            )
        return self._add(_Column(text(name, "name"), "NUMBER", type_info))

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of STRING."""
        return self._add(_Column(text(name, "name"), "STRING", Types.STRING()))

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Add all columns of another schema."""
        if not isinstance(schema, CsvSchema):
            raise InvalidArgumentError(f"add_columns_from takes a CsvSchema; got {schema!r}", hint="call build() on a builder.")
        for column in schema.columns:
            self._add(column)
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        """Remove all columns."""
        return self._set(columns=())

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Pass over lines that begin with '#', perhaps after blanks."""
        return self._set(allow_comments=flag(allow, "allow"))

    def set_any_property_name(self, name: str) -> CsvSchemaBuilder:
        """Allow lines with more fields than there are columns, which fail otherwise; as in Flink the others are left out."""
        return self._set(any_property_name=text(name, "name"))

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Go back to the separators of the columns, or ';'."""
        return self._set(array_element_separator="")

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Have the array column at a position use the separator of the schema."""
        columns = list(self._schema.columns)
        if not isinstance(index, int) or not 0 <= index < len(columns):
            raise InvalidArgumentError(f"there is no column {index!r}; there are {len(columns)}")
        columns[index] = replace(columns[index], separator="")
        return self._set(columns=tuple(columns))

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set what separates the elements of arrays in columns that have no separator of their own."""
        return self._set(array_element_separator=text(separator, "separator"))

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Set what stands between columns; ',' by default."""
        return self._set(column_separator=character(char, "Column separator"))

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """Give no character the meaning of an escape; the default."""
        return self._set(escape_char=None)

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Set the character that takes the meaning from the one behind it.

        Differs from Flink: that is all it does; there `n` behind it is a line feed, and so on.
        """
        return self._set(escape_char=character(char, "Escape char"))

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        r"""Set what ends a line when it is written; '\n' by default. When lines are read, '\n' and '\r\n' end them."""
        if not text(separator, "separator"):
            raise InvalidArgumentError("the line separator must not be empty")
        return self._set(line_separator=separator)

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set the text that stands for None. Whatever it is, empty fields are None but in columns of STRING and arrays."""
        return self._set(null_value=text(null_value, "null_value"))

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Give no character the meaning of a quote."""
        return self._set(quote_char=None)

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Set the character that quotes a field; '"' by default."""
        return self._set(quote_char=character(char, "Quote char"))

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Pass over the first line, or that after the header."""
        return self._set(skip_first_data_row=flag(skip, "skip"))

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Have the header, if one is used, checked: it must have the names of the columns in their order."""
        return self._set(strict_headers=flag(strict, "strict"))

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Take the first line of a file for a header; write one into each file."""
        return self._set(use_header=flag(use, "use"))

    def size(self) -> int:
        """Return how many columns there are."""
        return len(self._schema)

    def __len__(self) -> int:
        return len(self._schema)

    def _add(self, column: _Column) -> CsvSchemaBuilder:
        return self._set(columns=(*self._schema.columns, column))

    def _set(self, **changes: Any) -> CsvSchemaBuilder:
        self._schema = replace(self._schema, **changes)
        return self


_NOT_NUMBERS = (BasicType.STRING, BasicType.CHAR, BasicType.BOOLEAN, BasicType.INSTANT)


def text(value: Any, name: str) -> str:
    """Return the value; raises InvalidArgumentError unless it is a str."""
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{name} must be a str; got {value!r}")
    return value


def flag(value: Any, name: str) -> bool:
    """Return the value; raises InvalidArgumentError unless it is a bool."""
    if not isinstance(value, bool):
        raise InvalidArgumentError(f"{name} must be a bool; got {value!r}")
    return value


def character(value: Any, what: str) -> str:
    """Return the value; raises InvalidArgumentError unless it is one character."""
    if not isinstance(value, str) or len(value) != 1:
        raise InvalidArgumentError(f"{what} must be a single char, got {value!r}")
    return value

"""CSV by CsvSchema, and CSV lines as messages. What is compared to was seen in PyFlink 2.3."""

from __future__ import annotations

import datetime
import decimal
import math
import random
from pathlib import Path
from typing import Any

import pytest

from flinkish.common.errors import (
    DeserializationError,
    InvalidArgumentError,
    InvalidProgramError,
    SinkError,
    SourceError,
    TypeMismatchError,
    UnsupportedError,
)
from flinkish.common.pickling import dumps, loads
from flinkish.common.time import Instant
from flinkish.common.typeinfo import Types
from flinkish.common.types import Row, RowKind
from flinkish.datastream.connectors.file_system import FileCompactor, FileCompactStrategy, FileSink
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy
from flinkish.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvRowDeserializationSchema,
    CsvRowSerializationSchema,
    CsvSchema,
    CsvSchemaBuilder,
)
from flinkish.table import DataTypes
from tests.unit.datastream.formats import support


def columns() -> CsvSchemaBuilder:
    return CsvSchema.builder().add_number_column("n", DataTypes.INT()).add_string_column("s").add_boolean_column("b")


def read(tmp_path: Path, schema: CsvSchemaBuilder, text: str, **run: Any) -> list[Any]:
    (tmp_path / "a.csv").write_bytes(text.encode())
    return support.read(tmp_path / "a.csv", CsvReaderFormat.for_schema(schema.build()), **run)


@pytest.mark.parametrize(
    ("schema", "text", "rows"),
    [
        (columns(), "1,x,true\r\n\r\n2,y,FALSE", [(1, "x", True), (2, "y", False)]),
        (columns(), "1,,false\n", [(1, "", False)]),
        (columns(), ",,\n", [(None, "", None)]),
        (columns().set_null_value("NA"), "NA,NA,NA\n", [(None, None, None)]),
        (columns().set_null_value(""), ",,\n", [(None, None, None)]),
        (columns(), " 1 , x , true \n", [(1, " x ", True)]),
        (columns(), '"1","x ""y"" \nz","true"\n', [(1, 'x "y" \nz', True)]),
        (columns().set_use_header(), "a,b,c\n1,x,true\n", [(1, "x", True)]),
        (columns().set_use_header(), 'a,"b,c\n1,x,true\n', SourceError),
        (columns().set_use_header().set_strict_headers(), "n,s,b\n1,x,true\n", [(1, "x", True)]),
        (columns().set_skip_first_data_row(), "q\n1,x,true\n", [(1, "x", True)]),
        (columns().set_use_header().set_skip_first_data_row(), "n,s,b\n0,x,y\n1,x,true\n", [(1, "x", True)]),
        (columns().set_use_header().set_allow_comments(), "#c\na,b,c\n1,x,true\n", [(1, "x", True)]),
        (columns().set_skip_first_data_row().set_allow_comments(), "#c\nq\n1,x,true\n", [(1, "x", True)]),
        (columns().set_any_property_name("rest"), "1,x,true\n2,y,true,5,6\n", [(1, "x", True), (2, "y", True)]),
        (columns().set_allow_comments(), "#c\n1,x,true\n #d\n2,#,true\n", [(1, "x", True), (2, "#", True)]),
        (columns().set_escape_char("\\"), "1,a\\,b,true\n", [(1, "a,b", True)]),
        (columns().set_column_separator("|").set_quote_char("`"), "1|`a|b`|true\n", [(1, "a|b", True)]),
        (columns().disable_quote_char(), '1,"x",true\n', [(1, '"x"', True)]),
    ],
)
@pytest.mark.usefixtures("both_ways")
def test_a_schema_says_how_lines_are_read(tmp_path: Path, schema: CsvSchemaBuilder, text: str, rows: Any) -> None:
    if rows is SourceError:
        with pytest.raises(SourceError, match=r"a\.csv, line 1"):
            read(tmp_path, schema, text)
        return
    for credit in (1, 2, 100):
        for restart in (False, True):
            found = read(tmp_path, schema, text, credit=credit, restart_readers=restart)
            assert found == [Row(n=n, s=s, b=b) for n, s, b in rows]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1,x", "expected 3 fields, found 2"),
        ("1,x,true,5", "expected 3 fields, found 4"),
        ("1.5,x,true", "column 'n' must be Integer; got '1.5'"),
        ("1,x,yes", "column 'b' must be Boolean; got 'yes'"),
        ("  ", "expected 3 fields, found 1"),
        ("1,x\r,true", "not valid CSV"),
    ],
)
@pytest.mark.usefixtures("both_ways")
def test_bad_records_are_named_by_file_line_and_column(tmp_path: Path, line: str, reason: str) -> None:
    text = f"7,x,true\n{line}\n8,y,false\n"
    with pytest.raises(SourceError, match=rf"a\.csv, line 2: {reason}"):
        read(tmp_path, columns(), text)
    assert [row.n for row in read(tmp_path, columns(), text, policy=RecordErrorPolicy.skip())] == [7, 8]


@pytest.mark.parametrize("header", ["n,b,s", "n,s", "n,s,b,d", "", "N,s,b"])
@pytest.mark.usefixtures("both_ways")
def test_strict_headers_must_be_the_names_in_their_order(tmp_path: Path, header: str) -> None:
    with pytest.raises(SourceError, match=r"line 1: the header must be \['n', 's', 'b'\]; it is"):
        read(tmp_path, columns().set_use_header().set_strict_headers(), f"{header}\n1,x,true\n")


@pytest.mark.parametrize(
    ("schema", "text", "values"),
    [
        (CsvSchema.builder().add_array_column("a"), "x;y\n\nx\n;\n", [["x", "y"], ["x"], ["", ""]]),
        (CsvSchema.builder().add_array_column("a", ",", DataTypes.INT()).set_column_separator("|"), "1,2\n", [[1, 2]]),
        (CsvSchema.builder().add_array_column("a"), '"a;b;""c"""\n', [["a", "b", '"c"']]),
        (CsvSchema.builder().add_array_column("a").set_array_element_separator(":"), "a;b:c\n", [["a", "b:c"]]),
        (CsvSchema.builder().add_array_column("a", "").set_array_element_separator(":"), "a;b:c\n", [["a;b", "c"]]),
        (CsvSchema.builder().add_array_column("a").disable_array_element_separator(), "a;b:c\n", [["a", "b:c"]]),
        (CsvSchema.builder().add_array_column("a", ":").remove_array_element_separator(0), "a;b:c\n", [["a", "b:c"]]),
    ],
)
@pytest.mark.usefixtures("both_ways")
def test_arrays_have_separators_of_their_own_or_of_the_schema(
    tmp_path: Path, schema: CsvSchemaBuilder, text: str, values: list[Any]
) -> None:
    assert [row.a for row in read(tmp_path, schema, text)] == values


@pytest.mark.usefixtures("both_ways")
def test_numbers_of_all_types(tmp_path: Path) -> None:
    types = {
        "tinyint": DataTypes.TINYINT(), "smallint": DataTypes.SMALLINT(), "int": DataTypes.INT(), "bigint": None,
        "float": DataTypes.FLOAT(), "double": Types.DOUBLE(), "decimal": DataTypes.DECIMAL(4, 2), "big": Types.BIG_INT(),
    }  # fmt: skip
    schema = CsvSchema.builder()
    for name, number_type in types.items():
        schema.add_number_column(name, number_type)
    (row,) = read(tmp_path, schema, f"127,-32767,2147483647,-9223372036854775808,1.1,2e-308,12.345,{10**30}\n")
    assert row == Row(
        tinyint=127, smallint=-32767, int=2147483647, bigint=-(2**63), float=1.100000023841858, double=2e-308,
        decimal=decimal.Decimal("12.35"), big=10**30,
    )  # fmt: skip
    with pytest.raises(SourceError, match=r"column 'decimal' must be BigDecimal\(4, 2\); got '123\.4'"):
        read(tmp_path, schema, "1,1,1,1,1,1,123.4,1\n")


def test_the_type_of_records_is_that_of_the_columns() -> None:
    schema = columns().add_array_column("l", element_type=DataTypes.DOUBLE()).build()
    types = [Types.INT(), Types.STRING(), Types.BOOLEAN(), Types.LIST(Types.DOUBLE())]
    assert repr(CsvReaderFormat.for_schema(schema).produced_type()) == repr(Types.ROW_NAMED(["n", "s", "b", "l"], types))


def test_a_schema_prints_as_jacksons_does() -> None:
    schema = columns().add_array_column("i").set_use_header().set_skip_first_data_row().set_allow_comments()
    text = '[CsvSchema: columns=["n"/NUMBER,"s"/STRING,"b"/BOOLEAN,"i"/ARRAY], '
    assert str(schema.build()) == text + "header? true, skipFirst? true, comments? true, any-properties? N/A]"
    assert repr(schema.set_any_property_name("x").build()).endswith('any-properties? as "x"]')
    assert (len(schema), schema.size(), len(schema.build()), schema.build().size()) == (4, 4, 4, 4)
    copied = CsvSchema.builder().add_columns_from(schema.build()).build()
    assert copied.row_type() == schema.build().row_type()
    assert len(schema.clear_columns()) == 0


def write(tmp_path: Path, schema: CsvSchemaBuilder, values: list[Any], input_type: Any = None) -> str:
    return support.write(tmp_path / "out", CsvBulkWriters.for_schema(schema.build()), values, input_type).read_bytes().decode()


@pytest.mark.parametrize(
    ("schema", "rows", "text"),
    [
        (columns(), [(1, "x y", True), (2, "a,b", False), (3, "", None)], '1,"x y",true\n2,"a,b",false\n3,,\n'),
        (columns().set_use_header(), [(1, "x", True)], "n,s,b\n1,x,true\n"),
        (columns().set_null_value("NULL"), [(None, None, None)], "NULL,NULL,NULL\n"),
        (columns().set_line_separator("\r\n"), [(1, "x", True)], "1,x,true\r\n"),
        (columns().set_line_separator("||"), [(1, "x", True), (2, "y", True)], '1,"x",true||2,"y",true||'),
        (columns().set_column_separator("|"), [(1, "x", True)], '1|"x"|true\n'),
        (columns().set_escape_char("*"), [(1, 'x,y*z"', True)], '1,"x,y**z""",true\n'),
        (columns().disable_quote_char(), [(1, 'x "y"', True)], '1,x "y",true\n'),
        (columns().disable_quote_char().set_escape_char("*"), [(1, "x,y*z", True)], "1,x*,y**z,true\n"),
        (CsvSchema.builder().add_array_column("i", ":"), [(["a", "b"],), (["", ""],), ([],)], 'a:b\n:\n""\n'),
        (
            CsvSchema.builder().add_number_column("d", DataTypes.DOUBLE()).add_number_column("p", DataTypes.DECIMAL(4, 2)),
            [(1.5, decimal.Decimal("1.234")), (100, decimal.Decimal("12.345")), (1e20, decimal.Decimal("1"))],
            "1.5,1.23\n100.0,12.35\n1.0E20,1.00\n",
        ),
    ],
)
def test_a_schema_says_how_lines_are_written(tmp_path: Path, schema: CsvSchemaBuilder, rows: list[Any], text: str) -> None:
    assert write(tmp_path, schema, rows) == text


@pytest.mark.usefixtures("both_ways")
def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    texts = ["", " ", "a b", 'a"b', "a\nb", "a\r\nb", "#c", "'", "\\", "x" * 30, "ü;", "a|b"]
    for schema in (
        columns(), columns().set_escape_char("\\"), columns().set_column_separator("|").set_quote_char("'"),
        columns().set_use_header().set_strict_headers(), columns().set_line_separator("\r\n"),
        columns().disable_quote_char().set_escape_char("*"),
    ):  # fmt: skip
        rows = [Row(n=i, s=text, b=i % 2 == 0) for i, text in enumerate(texts)]
        if schema.build().dialect.quote_char is None:
            rows = [row for row in rows if "\n" not in row.s]
        file = tmp_path / str(id(schema))
        path = support.write(file, CsvBulkWriters.for_schema(schema.build()), rows, schema.build().row_type())
        assert support.read(path, CsvReaderFormat.for_schema(schema.build()), credit=3, restart_readers=True) == rows


@pytest.mark.usefixtures("both_ways")
def test_random_texts_are_read_back_in_all_dialects(tmp_path: Path) -> None:
    chance = random.Random(7)
    for round_ in range(60):
        schema = CsvSchema.builder().add_string_column("a").add_array_column("l", ":").add_string_column("b")
        schema.set_column_separator(chance.choice(",;|\t")).set_line_separator(chance.choice(["\n", "\r\n"]))
        schema.set_quote_char(chance.choice("\"'`")).set_use_header(chance.random() < 0.5)
        if chance.random() < 0.5:
            schema.set_escape_char(chance.choice("\\*"))
        if chance.random() < 0.5:
            schema.set_null_value("NULL")

        def text() -> str:
            return "x" + "".join(chance.choice("ab,;|\t\"'`\\*#\n ü") for _ in range(chance.randrange(8)))

        rows = [
            Row(a=text(), l=[text() for _ in range(chance.randrange(1, 4))], b=text()) for _ in range(chance.randrange(1, 20))
        ]
        factory = CsvBulkWriters.for_schema(schema.build())
        path = support.write(tmp_path / str(round_), factory, rows, schema.build().row_type())
        format_ = CsvReaderFormat.for_schema(schema.build())
        assert support.read(path, format_, credit=chance.randrange(1, 6), restart_readers=True) == rows, f"round {round_}"


def test_rows_dicts_and_tuples_are_written_and_checked(tmp_path: Path) -> None:
    assert write(tmp_path, columns(), [Row(b=True, s="x", n=1), {"n": 2}, (3, "y", False), [4, None, None]]) == (
        "1,x,true\n2,,\n3,y,false\n4,,\n"
    )


@pytest.mark.parametrize(
    ("row", "error", "text"),
    [
        (Row(n="x", s="y", b=True), TypeMismatchError, "column 'n' is Integer; 'x' of type str cannot be written as CSV"),
        (Row(n=2**31, s="y", b=True), TypeMismatchError, "column 'n' is Integer; .*does not fit into 32 bits"),
        (Row(n=1, s=5, b=True), TypeMismatchError, "column 's' is String; 5 of type int cannot be written"),
        (Row(n=1, s="", b=1), TypeMismatchError, "column 'b' is Boolean; 1 of type int cannot be written"),
        (Row(a=1), TypeMismatchError, r"expected a row with the fields \['n', 's', 'b'\]"),
        ((1, "x"), TypeMismatchError, "expected 3 fields, got 2"),
        (7, TypeMismatchError, "expected a Row, tuple, list or dict"),
        (Row.of_kind(RowKind.DELETE, 1, "x", True), SinkError, "only appends; got a row of kind -D"),
    ],
)
def test_records_of_another_type_are_refused(tmp_path: Path, row: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        write(tmp_path, columns(), [row])


@pytest.mark.parametrize(
    ("schema", "row", "text"),
    [
        (CsvSchema.builder().add_array_column("a"), (["x;y"],), "column 'a' .* the element 'x;y' holds the separator ';'"),
        (CsvSchema.builder().add_array_column("a"), ([""],), "column 'a' .* would be read as an empty array"),
        (CsvSchema.builder().add_array_column("a"), ("xy",), "column 'a' .* a text is no array"),
        (CsvSchema.builder().add_number_column("p", DataTypes.DECIMAL(9, 2)), (decimal.Decimal("NaN"),), "column 'p' "),
        (columns().disable_quote_char(), (1, "x,y", True), "column 's' .*'x,y' holds a character that has a meaning"),
        (columns().set_null_value("NA"), (1, "NA", True), "column 's' .* read as None, as 'NA' is the null value"),
        (columns().set_null_value("a b"), (1, "a b", True), "column 's' .* read as None"),
        (columns().set_null_value("-1"), (-1, "-", True), "column 'n' .* read as None"),
        (CsvSchema.builder().add_array_column("a").set_null_value("NA"), (["NA"],), "column 'a' .* read as None"),
    ],
)
def test_what_could_not_be_read_back_is_refused(tmp_path: Path, schema: CsvSchemaBuilder, row: Any, text: str) -> None:
    with pytest.raises(TypeMismatchError, match=text):
        write(tmp_path, schema, [row])


MARK = "\ufeff"


@pytest.mark.parametrize(
    ("schema", "rows"),
    [
        # A byte order mark at the beginning of a file is no part of its contents.
        (columns().clear_columns().add_string_column("s"), [(MARK,), (f"{MARK}a",)]),
        (columns().clear_columns().add_string_column(f"{MARK}s").set_use_header().set_strict_headers(), [("a",)]),
        (columns().clear_columns().add_string_column("s").disable_quote_char().set_escape_char("*"), [(f"{MARK}a",), (MARK,)]),
        (columns().clear_columns().add_number_column("n", DataTypes.DOUBLE()).set_column_separator("."), [(1.5,), (-2.0,)]),
        (columns().clear_columns().add_number_column("n").add_boolean_column("b").set_column_separator("-"), [(-1, True)]),
        (columns().clear_columns().add_boolean_column("b").set_column_separator("u").disable_quote_char().set_escape_char("*"),
         [(True,)]),
        (columns().set_null_value("N,A"), [(1, None, True), (None, "x", None)]),
        (columns().set_escape_char("\\").set_null_value("\\N"), [(1, None, True), (None, "x", None)]),
    ],
)  # fmt: skip
def test_marks_numbers_and_null_values_with_characters_that_have_a_meaning_are_read_back(
    tmp_path: Path, schema: CsvSchemaBuilder, rows: list[Any]
) -> None:
    found = read(tmp_path, schema, write(tmp_path, schema, rows))
    assert [tuple(row) for row in found] == rows


def test_what_has_a_meaning_and_can_be_neither_quoted_nor_escaped_is_refused(tmp_path: Path) -> None:
    text = columns().clear_columns().add_string_column("s").add_string_column("t").disable_quote_char()
    assert write(tmp_path, text, [("a", MARK)]) == f"a,{MARK}\n"
    with pytest.raises(TypeMismatchError, match=r"begins with U\+FEFF, which is left out"):
        write(tmp_path, text, [(MARK, "a")])
    with pytest.raises(InvalidProgramError, match="the null value of CSV files cannot be written: 'N,A' holds a character"):
        CsvBulkWriters.for_schema(text.set_null_value("N,A").build())


def test_an_empty_field_that_is_alone_in_its_line_is_read_back(tmp_path: Path) -> None:
    schema = CsvSchema.builder().add_number_column("n")
    text = write(tmp_path, schema, [(1,), (None,), (2,)])
    assert text == '1\n""\n2\n'
    assert read(tmp_path, schema, text) == [Row(n=1), Row(n=None), Row(n=2)]
    row_type = Types.ROW_NAMED(["s"], [Types.STRING()])
    line = CsvRowSerializationSchema.Builder(row_type).build().serialize(Row(s=""))
    assert CsvRowDeserializationSchema.Builder(row_type).build().deserialize(line) == Row(s="")
    with pytest.raises(TypeMismatchError, match="would be an empty line"):
        CsvRowSerializationSchema.Builder(row_type).disable_quote_character().build().serialize(Row(s=""))


def with_comments() -> CsvSchemaBuilder:
    return CsvSchema.builder().add_string_column("s").add_string_column("t").set_allow_comments().set_column_separator("\t")


@pytest.mark.parametrize(
    "schema", [with_comments(), with_comments().disable_quote_char().set_escape_char("\\")], ids=["quoted", "escaped"]
)
def test_a_text_that_begins_like_a_comment_is_read_back(tmp_path: Path, schema: CsvSchemaBuilder) -> None:
    rows = [Row(s="#a", t="#"), Row(s=" #b", t="x"), Row(s="c#", t="y"), Row(s="", t="#d")]
    assert read(tmp_path, schema, write(tmp_path, schema, rows)) == rows


def test_a_row_or_header_that_would_be_a_comment_is_refused(tmp_path: Path) -> None:
    schema = with_comments().disable_quote_char()
    assert write(tmp_path, schema, [("a", "#b")]) == "a\t#b\n"
    for row in (("#a", "b"), (" #a", "b"), ("", "#b")):
        with pytest.raises(TypeMismatchError, match="would be a comment, which is left out when it is read"):
            write(tmp_path, schema, [row])
    named = CsvSchema.builder().add_string_column("#s").set_allow_comments().disable_quote_char().set_use_header()
    with pytest.raises(InvalidProgramError, match="the header of CSV files cannot be written: it would be a comment"):
        CsvBulkWriters.for_schema(named.build())


def test_a_header_that_could_not_be_read_back_is_refused() -> None:
    schema = CsvSchema.builder().add_string_column("a,b").disable_quote_char()
    CsvBulkWriters.for_schema(schema.build())
    with pytest.raises(InvalidProgramError, match="the header of CSV files cannot be written: 'a,b' holds a character"):
        CsvBulkWriters.for_schema(schema.set_use_header().build())


def test_csv_files_can_be_joined_unless_each_has_a_header(tmp_path: Path) -> None:
    strategy = FileCompactStrategy.builder().set_size_threshold(1).build()
    plain = FileSink.for_bulk_format("/tmp/x", CsvBulkWriters.for_schema(columns().build()))
    plain.enable_compact(strategy, FileCompactor.concat_file_compactor())
    factory: Any = CsvBulkWriters.for_schema(columns().set_use_header().build())
    with pytest.raises(InvalidProgramError, match="cannot be put behind one another"):
        FileSink.for_bulk_format("/tmp/x", factory).enable_compact(strategy, FileCompactor.concat_file_compactor())
    for name in "12":
        (tmp_path / name).write_text(f"n,s,b\n{name},x,true\n")
    factory.merge([str(tmp_path / "1"), str(tmp_path / "2")], str(tmp_path / "3"))
    assert (tmp_path / "3").read_text() == "n,s,b\n1,x,true\n2,x,true\n"


def test_wrong_settings_of_a_schema_are_refused() -> None:
    builder = CsvSchema.builder
    for call, text in (
        (lambda: builder().set_column_separator("ab"), "Column separator must be a single char, got 'ab'"),
        (lambda: builder().set_quote_char(""), "Quote char must be a single char"),
        (lambda: builder().set_escape_char("ab"), "Escape char must be a single char"),
        (lambda: builder().add_number_column("n", DataTypes.STRING()), "must be a type of numbers"),
        (lambda: builder().add_number_column("n", int), "must be one of DataTypes or Types"),
        (lambda: builder().add_string_column(1), "name must be a str"),
        (lambda: builder().set_use_header("yes"), "use must be a bool"),
        (lambda: builder().remove_array_element_separator(3), "there is no column 3"),
        (lambda: builder().add_columns_from(builder()), "needs a CsvSchema"),
        (lambda: CsvReaderFormat.for_schema(columns()), "needs a CsvSchema"),
        (lambda: builder().set_line_separator(""), "must be a non-empty str"),
    ):
        with pytest.raises(InvalidArgumentError, match=text):
            call()  # type: ignore[no-untyped-call]
    with pytest.raises(ValueError, match="single char"):  # as in PyFlink
        builder().set_column_separator("ab")
    with pytest.raises(InvalidProgramError, match="has no columns"):
        CsvReaderFormat.for_schema(builder().build())
    with pytest.raises(InvalidArgumentError, match="must be different"):
        CsvBulkWriters.for_schema(builder().add_string_column("a").add_number_column("a").build())
    nested = builder().add_array_column("a", element_type=DataTypes.ARRAY(DataTypes.INT())).build()
    with pytest.raises(InvalidProgramError, match=r"column 'a' .*only simple types can be nested"):
        CsvReaderFormat.for_schema(nested)
    with pytest.raises(InvalidProgramError, match=r"column 'a'.*cannot be written as CSV"):
        CsvBulkWriters.for_schema(nested)


# Messages.

PAIR = Types.ROW_NAMED(["a", "b"], [Types.INT(), Types.STRING()])


def reader(type_info: Any = PAIR, **settings: Any) -> CsvRowDeserializationSchema:
    builder = CsvRowDeserializationSchema.Builder(type_info)
    for name, value in settings.items():
        getattr(builder, name)(value)
    schema: CsvRowDeserializationSchema = loads(dumps(builder.build()))
    schema.open()
    return schema


@pytest.mark.parametrize(
    ("message", "row"),
    [
        (b"1,x", (1, "x")), (b"1,x\n2,y\n", (1, "x")), (b'"1",x', (1, "x")), (b" 1 , x ", (1, " x ")), (b"1,", (1, "")),
        (b'1,a"b', (1, 'a"b')), (b"1,x\r\n", (1, "x")), (b'1, "q"', (1, ' "q"')), (b",x", (None, "x")),
        (b'1,"a\nb"', (1, "a\nb")), ("1,ü".encode(), (1, "ü")),
        ("1,a\u2028b\x0bc".encode(), (1, "a\u2028b\x0bc")),
    ],
)  # fmt: skip
def test_a_line_is_read_as_a_row(message: bytes, row: Any) -> None:
    assert reader().deserialize(message) == Row(a=row[0], b=row[1])
    assert reader().get_produced_type() == PAIR


@pytest.mark.parametrize(
    ("message", "reason", "ignored"),
    [
        (b"1", "Row length mismatch. 2 fields expected but was 1", Row(a=1, b=None)),
        (b"1,x,y", "Row length mismatch. 2 fields expected but was 3", None),
        (b"", "Row length mismatch", None),
        (b"x,1", "field 'a' must be Integer; got 'x'", Row(a=None, b="1")),
        (b'1,"a', "unexpected end of data", None),
        (b'1,"a"b', "expected after", None),
        (b"\xff,1", "can't decode", None),
    ],
)
def test_what_is_no_such_line_is_an_error_or_null(message: bytes, reason: str, ignored: Any) -> None:
    with pytest.raises(DeserializationError, match=f"Failed to deserialize CSV row .*{reason}"):
        reader().deserialize(message)
    assert reader(set_ignore_parse_errors=True).deserialize(message) == ignored


def test_settings_of_messages() -> None:
    assert reader(set_null_literal="n/a").deserialize(b"n/a,n/a") == Row(a=None, b=None)
    assert reader(set_null_literal="").deserialize(b",") == Row(a=None, b=None)
    assert reader(set_field_delimiter=";").deserialize(b"1;x") == Row(a=1, b="x")
    assert reader(set_quote_character="'").deserialize(b"1,'a,b'") == Row(a=1, b="a,b")
    assert reader(set_escape_character="\\").deserialize(b"1,a\\,b") == Row(a=1, b="a,b")
    assert reader(set_allow_comments=True).deserialize(b"#1\n1,#") == Row(a=1, b="#")
    with pytest.raises(DeserializationError, match="Row length mismatch"):
        reader(set_allow_comments=True).deserialize(b" #1,x")


ALL = {
    "STRING": (Types.STRING(), {"x": "x", "": ""}),
    "BOOLEAN": (Types.BOOLEAN(), {"true": True, "false": False}),
    "DOUBLE": (Types.DOUBLE(), {"1.0": 1.0, "1.0E10": 1e10, "Infinity": math.inf}),
    "FLOAT": (Types.FLOAT(), {"1.5": 1.5}),
    "BIG_DEC": (Types.BIG_DEC(), {"1.10": decimal.Decimal("1.10"), "1000": decimal.Decimal("1E+3")}),
    "BIG_INT": (Types.BIG_INT(), {str(10**30): 10**30}),
    "DATE": (Types.SQL_DATE(), {"2021-01-09": datetime.date(2021, 1, 9)}),
    "TIME": (Types.SQL_TIME(), {"10:11:12": datetime.time(10, 11, 12), "10:11:12.500000": datetime.time(10, 11, 12, 500000)}),
    "TIMESTAMP": (
        Types.SQL_TIMESTAMP(),
        {
            '"2021-01-09 10:11:12.0"': datetime.datetime(2021, 1, 9, 10, 11, 12),
            '"2021-01-09 10:11:12.123456"': datetime.datetime(2021, 1, 9, 10, 11, 12, 123456),
        },
    ),
    "INSTANT": (
        Types.INSTANT(),
        {
            '"1970-01-01 00:00:01.5Z"': Instant.of_epoch_milli(1500),
            '"1970-01-01 00:00:01Z"': Instant.of_epoch_milli(1000),
        },
    ),
    "INSTANT to the nanosecond": (Types.INSTANT(), {'"1969-12-31 23:59:59.123456789Z"': Instant(-1, 123_456_789)}),
    "BYTES": (Types.PRIMITIVE_ARRAY(Types.BYTE()), {"aGk=": b"hi"}),
    "ROW": (Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()]), {"1;a": Row(x=1, y="a")}),
    "OBJECT_ARRAY": (Types.OBJECT_ARRAY(Types.STRING()), {"a;b": ["a", "b"], "": [], '"a b;c"': ["a b", "c"]}),
    "BASIC_ARRAY": (Types.BASIC_ARRAY(Types.INT()), {"1;": [1, None]}),
}


@pytest.mark.parametrize(
    ("type_info", "text", "value"),
    [
        pytest.param(type_info, text, value, id=f"{n} {text}")
        for n, (type_info, cases) in ALL.items()
        for text, value in cases.items()
    ],
)
def test_values_of_all_types_are_written_and_read(type_info: Any, text: str, value: Any) -> None:
    row_type = Types.ROW_NAMED(["p", "a", "z"], [Types.INT(), type_info, Types.INT()])
    writer = loads(dumps(CsvRowSerializationSchema.Builder(row_type).build()))
    writer.open()
    assert writer.serialize(Row(p=1, a=value, z=2)) == f"1,{text},2\n".encode()
    row = reader(row_type).deserialize(f"1,{text},2\n".encode())
    assert row is not None
    assert row.a == value


def test_times_with_a_zone_are_written_in_utc() -> None:
    zone = datetime.timezone(datetime.timedelta(hours=2))
    row_type = Types.ROW_NAMED(["a", "t"], [Types.SQL_TIMESTAMP(), Types.SQL_TIME()])
    schema = CsvRowSerializationSchema.Builder(row_type).build()
    when = datetime.datetime(2024, 1, 1, tzinfo=zone)
    assert schema.serialize(Row(a=when, t=datetime.time(1, tzinfo=datetime.UTC))) == b'"2023-12-31 22:00:00.0",01:00:00\n'
    with pytest.raises(TypeMismatchError, match="a time of day has no zone"):
        schema.serialize(Row(a=None, t=when.timetz()))


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("", ""), ("a b", '"a b"'), ("a,b", '"a,b"'), ('a"b', '"a""b"'), ("a\nb", '"a\nb"'), ("a#b", '"a#b"'), ("-", "-"),
        ("x" * 24, "x" * 24), ("x" * 25, f'"{"x" * 25}"'), ("ü;", "ü;"), ("null", "null"), (" a", '" a"'), ("a'b", '"a\'b"'),
        ("a\tb", '"a\tb"'), ("a\\b", '"a\\b"'), ("a;b", "a;b"), ("a\rb", '"a\rb"'), ("+1", '"+1"'), ("a.b", "a.b"),
        ("a!b", '"a!b"'),
    ],
)  # fmt: skip
def test_texts_are_quoted_where_flink_quotes_them(text: str, written: str) -> None:
    schema = CsvRowSerializationSchema.Builder(Types.ROW([Types.STRING(), Types.STRING()])).build()
    assert schema.serialize(Row(text, "q")) == f"{written},q\n".encode()


def test_flinks_own_example_of_messages() -> None:
    """Source: test_csv_row_serialization_schema of PyFlink."""
    for field_type, text, value in (
        (Types.STRING(), "'123''4**'", "123'4*"),
        (Types.STRING(), "'a;b''c'", "a;b'c"),
        (Types.INT(), "12", 12),
        (Types.ROW([Types.STRING(), Types.STRING()]), "'1:hello'", Row("1", "hello")),
        (Types.ROW([Types.STRING(), Types.STRING()]), "'1:hello world'", Row("1", "hello world")),
        (Types.STRING(), "null", "null"),
    ):
        row_type = Types.ROW([Types.STRING(), field_type, Types.STRING()])
        expected = f"BEGIN;{text};END\n".encode()
        builder: Any
        for builder in (CsvRowSerializationSchema.Builder(row_type), CsvRowDeserializationSchema.Builder(row_type)):
            builder.set_escape_character("*").set_quote_character("'").set_array_element_delimiter(":").set_field_delimiter(";")
            schema = builder.build()
            if isinstance(schema, CsvRowSerializationSchema):
                assert schema.serialize(Row("BEGIN", value, "END")) == expected
            else:
                assert list(schema.deserialize(expected)) == ["BEGIN", value if not isinstance(value, Row) else Row(
                    f0=value[0], f1=value[1]), "END"]  # fmt: skip


def test_settings_of_written_messages() -> None:
    def serialize(row: Any, **settings: Any) -> bytes:
        builder = CsvRowSerializationSchema.Builder(PAIR)
        for name, value in settings.items():
            getattr(builder, name)(*([] if value is None else [value]))
        return builder.build().serialize(row)

    assert serialize(Row(None, None)) == b",\n"
    assert serialize((None, "x"), set_null_literal="n/a", set_line_delimiter="\r\n", set_field_delimiter="|") == b'n/a|"x"\r\n'
    assert serialize({"a": 1}, set_line_delimiter="") == b"1,"
    assert serialize(Row(1, 'a"b'), disable_quote_character=None) == b'1,a"b\n'
    for row, text in (
        (Row("x", "y"), "column 'a' is Integer"),
        (Row(1), "Could not serialize row"),
        (5, "Could not serialize"),
    ):
        with pytest.raises(TypeMismatchError, match=text):
            serialize(row)


@pytest.mark.parametrize("text", ["ab", ""])
def test_a_char_is_one_character_when_it_is_written(text: str) -> None:
    schema = CsvRowSerializationSchema.Builder(Types.ROW_NAMED(["c", "s"], [Types.CHAR(), Types.STRING()])).build()
    assert schema.serialize(Row(c=";", s="")) == b";,\n"
    with pytest.raises(TypeMismatchError, match=f"column 'c' .*'{text}' is not one character"):
        schema.serialize(Row(c=text, s=""))


def test_wrong_settings_of_messages_are_refused() -> None:
    for kind in (CsvRowSerializationSchema.Builder, CsvRowDeserializationSchema.Builder):
        with pytest.raises(TypeError, match="Type information must not be None"):
            kind(None)  # type: ignore[arg-type]
        with pytest.raises(InvalidArgumentError, match="Row type information expected"):
            kind(Types.TUPLE([Types.INT()]))
        with pytest.raises(InvalidArgumentError, match="must be a single char"):
            kind(PAIR).set_quote_character("ab")
        with pytest.raises(InvalidArgumentError, match="must be one character"):
            kind(PAIR).set_field_delimiter("ab")
        with pytest.raises(InvalidArgumentError, match="must be a non-empty str"):
            kind(PAIR).set_array_element_delimiter("")
        with pytest.raises(InvalidProgramError, match="cannot be"):
            kind(Types.ROW([Types.MAP(Types.STRING(), Types.STRING())])).build()
    with pytest.raises(InvalidArgumentError, match="Unsupported new line delimiter"):
        CsvRowSerializationSchema.Builder(PAIR).set_line_delimiter("|")


# DataTypes.


def test_data_types_stand_for_types() -> None:
    row = DataTypes.ROW(
        [
            DataTypes.FIELD("c", DataTypes.CHAR(3)), DataTypes.FIELD("v", DataTypes.VARBINARY(3)),
            DataTypes.FIELD("t", DataTypes.TIMESTAMP(3).bridged_to("java.sql.Timestamp"), "when"),
            DataTypes.FIELD("l", DataTypes.TIMESTAMP_LTZ(3)),
            DataTypes.FIELD("m", DataTypes.MAP(DataTypes.STRING(), DataTypes.DATE())),
            DataTypes.FIELD("a", DataTypes.ARRAY(DataTypes.ROW([DataTypes.INT(), DataTypes.TIME()]))),
        ]
    )  # fmt: skip
    assert row.type_info == Types.ROW_NAMED(
        ["c", "v", "t", "l", "m", "a"],
        [
            Types.STRING(), Types.PRIMITIVE_ARRAY(Types.BYTE()), Types.SQL_TIMESTAMP(), Types.INSTANT(),
            Types.MAP(Types.STRING(), Types.SQL_DATE()), Types.LIST(Types.ROW([Types.INT(), Types.SQL_TIME()])),
        ],
    )  # fmt: skip
    assert row.field_names() == ["c", "v", "t", "l", "m", "a"]
    times = "t TIMESTAMP(3), l TIMESTAMP_LTZ(3)"
    assert str(row) == f"ROW<c CHAR(3), v VARBINARY(3), {times}, m MAP<STRING, DATE>, a ARRAY<ROW<f0 INT, f1 TIME(0)>>>"
    assert DataTypes.DECIMAL(10, 2).type_info == Types.BIG_DEC()
    assert Types.BIG_DEC() == DataTypes.DECIMAL(10, 2).type_info
    assert DataTypes.BIGINT().nullable().type_info == Types.LONG()


def test_what_data_types_cannot_say_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="INT NOT NULL"):
        DataTypes.INT(nullable=False)
    with pytest.raises(UnsupportedError, match="STRING NOT NULL"):
        DataTypes.STRING().not_null()
    for call in (
        lambda: DataTypes.DECIMAL(39, 2), lambda: DataTypes.DECIMAL(3, 4), lambda: DataTypes.CHAR(0),
        lambda: DataTypes.TIMESTAMP(10),
        lambda: DataTypes.ARRAY(Types.INT()), lambda: DataTypes.ROW(DataTypes.INT()), lambda: DataTypes.FIELD("a", int),
        lambda: DataTypes.FIELD(1, DataTypes.INT()),
    ):  # fmt: skip
        with pytest.raises(InvalidArgumentError):
            call()  # type: ignore[no-untyped-call]

"""CSV lines read as columns have the values and errors of records."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from flinkish.common.column_layout import Layout
from flinkish.common.errors import SourceError
from flinkish.common.typeinfo import TypeInformation, Types
from flinkish.datastream.connectors.file_system import FileSource, StreamFormat
from flinkish.datastream.connectors.file_system.csv_format import CsvFormat
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy, RecordErrors
from flinkish.table import DataTypes
from flinkish.table.types import type_info_of
from tests.unit.datastream.connectors.fakes import FakeReaderContext, SourceRun

#: For each type, texts that its columns surely take.
TEXTS: dict[str, tuple[TypeInformation, list[str]]] = {
    "byte": (Types.BYTE(), ["1", "-128", "127"]),
    "short": (Types.SHORT(), ["-3", "32767"]),
    "int": (Types.INT(), ["7", "2147483647"]),
    "long": (Types.LONG(), ["5", "-9223372036854775808"]),
    "double": (Types.DOUBLE(), ["1.5", "-0.0", "1e10", "0.1", "12", "1.7976931348623157e308"]),
    "float": (Types.FLOAT(), ["0.1", "16777217", "3.4e38"]),
    "boolean": (Types.BOOLEAN(), ["true", "0", "1", "FALSE"]),
    "string": (Types.STRING(), ["a", "", "ä b", " x ", "NULL", "#N/A"]),
    "char": (Types.CHAR(), ["a", "ä"]),
    "date": (Types.SQL_DATE(), ["2024-01-02", "0001-01-01", "20240102"]),
    "time": (Types.SQL_TIME(), ["12:00:01.5", "00:00"]),
    "timestamp": (Types.SQL_TIMESTAMP(), ["2024-01-02T03:04:05", "2024-01-02 03:04:05.123456"]),
    "instant": (Types.INSTANT(), ["2024-01-02T03:04:05Z"]),
    "bytes": (Types.PRIMITIVE_ARRAY(Types.BYTE()), ["", "YQ=="]),
    "decimal": (type_info_of(DataTypes.DECIMAL(8, 2), "decimal"), ["1.5", "-2", "1.005", "123456.78"]),
    "integer": (Types.BIG_INT(), ["12345678901234567890123", "-5"]),
}
#: Texts that Arrow, or another parser of CSV or numbers, may read in another way than Python.
ODD = [
    *("", " ", " 7", "7 ", "\t7", "+7", "-", "0x1F", "0X1f", "1_0", "007", "-0", "128", "40000", "3000000000", "1" * 400),
    *("1e400", "1e-400", "4.9e-324", "2.2250738585072011e-308", "0.30000000000000004", "9007199254740993", "1.", ".5", "1E5"),
    *("1d5", "1f", "1e", "٣", "nan", "NaN", "nan(1)", "inf", "-Infinity", "True", "tRUE", " true", "yes", "T"),
    *("2024-1-2", "2024-W01-1", "0000-01-01", " 2024-01-02", "10000-01-01", "24:00", "2024-01-02T03:04:05.1234567Z"),
    *("NA", " NA", "null", "N/A", 'q"q', '"', '""', '"a,b"', '"a""b"', '"a"b', '"a', '"NA"', '""""', '"1"', '"\r"'),
    *("\r", "x\ry", "\\n", "\0", "\u2028", "\ufeff"),
]


def errors(policy: RecordErrorPolicy) -> RecordErrors:
    return RecordErrors(policy, FakeReaderContext())


@pytest.mark.parametrize("is_row", [True, False])
@pytest.mark.parametrize("nulls", [(), ("NA", "1")])
@pytest.mark.parametrize("name", TEXTS)
def test_each_text_is_the_same_value_or_left_to_records(tmp_path: Path, name: str, nulls: tuple[str, ...], is_row: bool) -> None:
    type_info, known = TEXTS[name]
    types = [type_info, Types.STRING()]
    schema = Types.ROW_NAMED(["value", "more"], types) if is_row else Types.TUPLE(types)
    format_ = StreamFormat.csv_format(schema, header=False, null_values=nulls)
    (tmp_path / "a.csv").touch()
    reader: Any = format_.open(format_.whole(str(tmp_path / "a.csv"), 0), errors(RecordErrorPolicy.fail()), by_columns=True)
    layout = Layout(schema)
    taken = set()
    for text in (*known, *ODD):
        lines = [f"{text},a".encode()]
        batch = reader.batch(lines)
        if batch is not None:
            assert repr(layout.records_of(batch)) == repr(reader.records(lines)), text
            taken.add(text)
    if is_row:
        assert taken >= set(known)
    reader.close()


@pytest.mark.parametrize(
    ("lines", "settings", "by_columns"),
    [
        ("a,1\r\n\r\nb,2\r\n", {}, True),
        ("a,1\r\n\nb,2\r", {}, True),
        ("a\rb,1\n", {}, False),
        ('"a,b",1\n"","2"\n', {}, True),
        ('"a ""b"", c",1\n', {}, True),
        ('"a\nb",1\n', {}, False),
        ('"a\nb",1\n', {"multiline": False}, False),
        ("'a,b',1\n", {"quote_char": "'"}, True),
        ('"a,1\n', {"quote_char": None}, True),
        ("a]1\n^]2\n", {"delimiter": "]", "quote_char": "^"}, False),
        ("a]1\n^b]^]2\n", {"delimiter": "]", "quote_char": "^"}, True),
        ("#a,1\n", {}, True),
        ("b,1\n#a,1\n", {"comment": "#"}, False),
        ("b\\,,1\n", {"escape_char": "\\"}, False),
        ("b,1\n", {"escape_char": "\\", "comment": "#"}, True),
        ("a,1\nb\n", {}, False),
        ("\n\n", {}, False),
    ],
)
def test_lines_of_usual_syntax_are_columns(tmp_path: Path, lines: str, settings: dict[str, Any], by_columns: bool) -> None:
    schema = Types.ROW_NAMED(["name", "number"], [Types.STRING(), Types.INT()])
    (tmp_path / "a.csv").write_bytes(lines.encode())
    format_ = StreamFormat.csv_format(schema, header=False, **settings)
    split = format_.whole(str(tmp_path / "a.csv"), len(lines))
    found: list[Any] = []
    for wanted in (False, True):
        reader: Any = format_.open(split, errors(RecordErrorPolicy.skip()), by_columns=wanted)
        found.append(reader.read(100))
        if wanted and by_columns:
            found[-1] = Layout(schema).records_of(found[-1])
        reader.close()
    records, columns = found
    assert columns == records
    assert not isinstance(columns, tuple) or not by_columns


def random_file(chance: random.Random) -> tuple[CsvFormat, bytes]:
    names = chance.sample(list(TEXTS), chance.randint(1, 5))
    with_header = chance.random() < 0.5
    delimiter, quote = chance.choice([",", ";", "\t"]), chance.choice(['"', "'"])
    odd, quoted = chance.choice([0, 0, 0.05]), chance.choice([0, 0.3, 1])

    def field(name: str) -> str:
        text = chance.choice(ODD if chance.random() < odd else ["", *TEXTS[name][1]])
        return f"{quote}{text}{quote}" if chance.random() < quoted and not set(text) & set("\"'\r") else text

    written = chance.sample([*names, "string"], len(names) + 1) if with_header and "string" not in names else names
    lines = [delimiter.join(written)] if with_header else []
    for _ in range(chance.randint(0, 15)):
        lines.append(chance.choice(["", delimiter, "#"]) if chance.random() < 0.03 else delimiter.join(map(field, written)))
    text = chance.choice(["\n", "\r\n"]).join(lines) + chance.choice(["", "\n"])
    format_ = StreamFormat.csv_format(
        Types.ROW_NAMED(names, [TEXTS[name][0] for name in names]),
        header=with_header,
        delimiter=delimiter,
        quote_char=quote,
        comment=chance.choice([None, None, "#"]),
        null_values=chance.choice([(), ("NA", "1")]),
        multiline=chance.random() < 0.5,
    )
    return format_, text.encode().replace("ä b".encode(), b"\xff" if chance.random() < 0.1 else b"a b")


def test_random_files_are_read_the_same_by_columns(tmp_path: Path) -> None:
    chance = random.Random(5)
    from_columns = 0
    for round_ in range(200):
        format_, data = random_file(chance)
        (tmp_path / "a.csv").write_bytes(data)
        policy = chance.choice([RecordErrorPolicy.skip(), RecordErrorPolicy.fail()])
        source = FileSource.for_record_stream_format(format_, str(tmp_path / "a.csv")).on_record_error(policy).build()
        found = []
        for by_columns in (False, True):
            credit, again = chance.choice([1, 4, 100]), chance.random() < 0.5
            run = SourceRun(source, credit=credit, restart_readers=again, by_columns=by_columns)
            try:
                found.append(repr(run.values()))
            except SourceError as error:
                found.append(str(error))
            from_columns += run.from_columns
        assert found[0] == found[1], f"round {round_}: {data!r}"
    assert from_columns > 300


def test_why_lines_are_read_one_by_one() -> None:
    def reason(type_info: TypeInformation, **settings: Any) -> str:
        return StreamFormat.csv_format(Types.ROW_NAMED(["x"], [type_info]), **settings).why_records or ""

    assert reason(Types.LONG()) == ""
    assert "has no schema" in (StreamFormat.csv_format().why_records or "")
    for settings in ({"charset_name": "latin-1"}, {"charset_name": "ascii"}, {"delimiter": "→"}, {"quote_char": "»"}):
        assert "only CSV of UTF-8" in reason(Types.LONG(), **settings)
    for type_info in (Types.BIG_DEC(), Types.OBJECT_ARRAY(Types.INT()), Types.ROW_NAMED(["y"], [Types.INT()])):
        assert reason(type_info) == "the field 'x' of CSV lines is read one by one"

"""CSV files: headers, types, bad records."""

from __future__ import annotations

import csv
import datetime
import decimal
import io
import math
import random
from pathlib import Path
from typing import Any

import pytest

from flinkish.common.errors import InvalidArgumentError, InvalidProgramError, SourceError
from flinkish.common.time import Instant
from flinkish.common.typeinfo import DecimalTypeInfo, Types
from flinkish.common.types import Row
from flinkish.datastream.connectors.file_system import FileEnumeratorProvider, FileSource, StreamFormat, csv_format
from flinkish.datastream.connectors.record_errors import RecordErrorPolicy, SideOutputRecord
from flinkish.datastream.output_tag import OutputTag
from tests.unit.datastream.connectors.fakes import FakeMetricGroup, SourceRun

pytestmark = pytest.mark.usefixtures("both_ways")

PERSON = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])


def read(path: Path, format_: Any, policy: RecordErrorPolicy | None = None, **run: Any) -> list[Any]:
    builder = FileSource.for_record_stream_format(format_, str(path))
    if policy is not None:
        builder.on_record_error(policy)
    return SourceRun(builder.build(), **run).values()


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "people.csv"


def test_a_header_without_a_schema_gives_rows_of_text(file: Path) -> None:
    write(file, "name,age\nAnn,31\nBob,\n")
    assert read(file, StreamFormat.csv_format()) == [Row(name="Ann", age="31"), Row(name="Bob", age="")]


def test_columns_are_found_by_name_and_others_left_out(file: Path) -> None:
    write(file, "id,age,city,name\n1,31,Rome,Ann\n2,,Bonn,\n")
    assert read(file, StreamFormat.csv_format(PERSON)) == [Row(name="Ann", age=31), Row(name="", age=None)]
    assert StreamFormat.csv_format(PERSON).produced_type() == PERSON


def test_without_a_header_columns_are_taken_by_position(file: Path) -> None:
    write(file, "Ann;31\nBob;7")
    assert read(file, StreamFormat.csv_format(PERSON, header=False, delimiter=";")) == [
        Row(name="Ann", age=31),
        Row(name="Bob", age=7),
    ]
    pairs = Types.TUPLE([Types.STRING(), Types.LONG()])
    assert read(file, StreamFormat.csv_format(pairs, header=False, delimiter=";")) == [("Ann", 31), ("Bob", 7)]


def test_all_types_are_parsed(file: Path) -> None:
    types = [
        Types.STRING(), Types.BOOLEAN(), Types.BYTE(), Types.SHORT(), Types.INT(), Types.LONG(), Types.FLOAT(), Types.DOUBLE(),
        Types.CHAR(), Types.BIG_INT(), Types.BIG_DEC(), Types.SQL_DATE(), Types.SQL_TIME(), Types.SQL_TIMESTAMP(),
        Types.INSTANT(),
    ]  # fmt: skip
    write(
        file,
        "x,TRUE,-128,300,70000,5000000000,1.5,1e3,c,123456789012345678901,1.50,2021-01-09,12:00:01,2021-01-09 12:00:00.5,"
        "1970-01-01T00:00:01.5Z\n"
        ",0,,,,,,NaN,,,,,,2021-01-09T12:00:00+02:00,\n",
    )
    first, second = read(file, StreamFormat.csv_format(Types.TUPLE(types), header=False))
    assert first == (
        "x", True, -128, 300, 70000, 5_000_000_000, 1.5, 1000.0, "c", 123456789012345678901, decimal.Decimal("1.50"),
        datetime.date(2021, 1, 9), datetime.time(12, 0, 1), datetime.datetime(2021, 1, 9, 12, 0, 0, 500_000),
        Instant.of_epoch_milli(1500),
    )  # fmt: skip
    assert second[:7] == ("", False, None, None, None, None, None)
    assert second[7] != second[7]
    assert second[13:] == (datetime.datetime(2021, 1, 9, 10), None)


def test_null_values_are_none_in_all_columns(file: Path) -> None:
    write(file, "name,age\nNA,NA\n-,1\n")
    assert read(file, StreamFormat.csv_format(PERSON, null_values=["NA", "-"])) == [
        Row(name=None, age=None),
        Row(name=None, age=1),
    ]


def test_quotes_protect_delimiters_line_ends_and_quotes(file: Path) -> None:
    rows = [["a,b", "1"], ['say "hi"', "2"], ["two\nlines", "3"], ["", "4"], ["win\r\ndows", "5"]]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([["name", "age"], *rows])
    write(file, text.getvalue())
    for credit in (1, 2, 100):
        for restart in (False, True):
            values = read(file, StreamFormat.csv_format(PERSON), credit=credit, restart_readers=restart)
            assert [[row.name, str(row.age)] for row in values] == rows


def test_random_files_read_the_same_as_by_the_csv_module(file: Path) -> None:
    chance = random.Random(11)
    for round_ in range(80):
        rows = [
            ["".join(chance.choice('ab,"\n ü') for _ in range(chance.randrange(6))) + "x", str(chance.randrange(99))]
            for _ in range(chance.randrange(1, 25))
        ]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n", quoting=chance.choice([csv.QUOTE_ALL, csv.QUOTE_MINIMAL])).writerows(rows)
        write(file, text.getvalue())
        format_ = StreamFormat.csv_format(PERSON, header=False)
        values = read(file, format_, credit=chance.randrange(1, 6), restart_readers=chance.random() < 0.7)
        assert [[row.name, str(row.age)] for row in values] == rows, f"round {round_}"


def test_single_line_files_can_be_shared_by_readers(file: Path) -> None:
    write(file, "name,age\n" + "".join(f"p{i},{i}\n" for i in range(100)))
    format_ = StreamFormat.csv_format(PERSON, multiline=False)
    source = (
        FileSource.for_record_stream_format(format_, str(file))
        .set_file_enumerator(FileEnumeratorProvider.default_splittable_file_enumerator(64))
        .build()
    )
    result = SourceRun(source, parallelism=3, credit=7, restart_readers=True).by_subtask()
    assert all(result.values())
    assert sorted(row.age for rows in result.values() for row in rows) == list(range(100))


def test_empty_lines_comments_and_a_byte_order_mark_are_left_out(file: Path) -> None:
    write(file, '\ufeffname,age\n\n# none, of this " \nAnn,31\n\n')
    assert read(file, StreamFormat.csv_format(PERSON, comment="#")) == [Row(name="Ann", age=31)]


def test_a_comment_may_hold_quotes_and_stand_behind_blanks_but_not_within_a_record(file: Path) -> None:
    write(file, 'name,age\n# a,"b\nAnn,31\n \t#"c\n"B\n#ob",7\n#,"last')
    for credit in (1, 2, 100):
        rows = read(file, StreamFormat.csv_format(PERSON, comment="#"), credit=credit, restart_readers=True)
        assert rows == [Row(name="Ann", age=31), Row(name="B\n#ob", age=7)]


def test_arrays_nested_rows_and_bytes_stand_in_one_field(file: Path) -> None:
    types = [
        Types.LIST(Types.STRING()), Types.PRIMITIVE_ARRAY(Types.INT()), Types.BASIC_ARRAY(Types.DOUBLE()),
        Types.ROW_NAMED(["x", "y"], [Types.INT(), Types.STRING()]), Types.PRIMITIVE_ARRAY(Types.BYTE()),
    ]  # fmt: skip
    schema = Types.ROW_NAMED(["a", "b", "c", "d", "e"], types)
    write(file, "a;b,1;2,1.5;,7;z,aGk=\n,,,,\n;,3,NA,NA,NA\n")
    assert read(file, StreamFormat.csv_format(schema, header=False, null_values=["NA"])) == [
        Row(a=["a", "b"], b=[1, 2], c=[1.5, None], d=Row(x=7, y="z"), e=b"hi"),
        Row(a=[], b=[], c=[], d=None, e=b""),
        Row(a=["", ""], b=[3], c=None, d=None, e=None),
    ]
    for line, column in (("x,1;x,,,", "b"), ("x,1;,,,", "b"), ("x,1,,7,", "d"), ("x,1,,,a", "e")):
        write(file, f"{line}\n")
        with pytest.raises(SourceError, match=rf"line 1: column '{column}' must be"):
            read(file, StreamFormat.csv_format(schema, header=False))


def test_numbers_have_the_precision_of_their_types(file: Path) -> None:
    write(file, "1.1,1.235,Infinity\n-inf,-1.235,-1\n")
    schema = Types.TUPLE([Types.FLOAT(), DecimalTypeInfo(4, 2), Types.FLOAT()])
    assert read(file, StreamFormat.csv_format(schema, header=False)) == [
        (1.100000023841858, decimal.Decimal("1.24"), math.inf),
        (-math.inf, decimal.Decimal("-1.24"), -1.0),
    ]
    for text in ("123.4", "x", "NaN"):
        write(file, f"1,{text},1\n")
        with pytest.raises(SourceError, match=rf"column '2' must be BigDecimal\(4, 2\); got '{text}'"):
            read(file, StreamFormat.csv_format(schema, header=False))


@pytest.mark.parametrize("text", ["", "name,age", "name,age\n"])
def test_a_file_without_rows_has_no_records(file: Path, text: str) -> None:
    write(file, text)
    assert read(file, StreamFormat.csv_format(PERSON)) == []


def test_missing_columns_are_named_with_the_header(file: Path) -> None:
    write(file, "Name;age\nAnn;31\n")
    with pytest.raises(
        SourceError, match=r"people\.csv, line 1: columns \['name', 'age'\] .*missing; the header has \['Name;age'\]"
    ):
        read(file, StreamFormat.csv_format(PERSON))


def test_a_column_that_stands_twice_is_refused_if_it_is_read(file: Path) -> None:
    write(file, "name,age,age\nAnn,31,32\n")
    with pytest.raises(SourceError, match="more than once"):
        read(file, StreamFormat.csv_format(PERSON))
    write(file, "name,age,x,x\nAnn,31,,\n")
    assert read(file, StreamFormat.csv_format(PERSON)) == [Row(name="Ann", age=31)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("Cy,old", r"column 'age' must be Integer; got 'old'"),
        ("Cy,1_0", r"column 'age' must be Integer"),
        ("Cy,3000000000", r"column 'age' must be Integer; got '3000000000'"),
        ("Cy", r"expected 2 fields, found 1"),
        ("Cy,1,2", r"expected 2 fields, found 3"),
        ('"Cy"x,1', r"not valid CSV"),
    ],
)
def test_a_bad_record_fails_the_job_with_file_line_and_column(file: Path, line: str, reason: str) -> None:
    write(file, f"name,age\nAnn,31\n{line}\nBob,7\n")
    with pytest.raises(SourceError, match=rf"people\.csv, line 3: {reason}"):
        read(file, StreamFormat.csv_format(PERSON))
    for credit in (1, 100):
        metrics = FakeMetricGroup()
        kept = read(
            file,
            StreamFormat.csv_format(PERSON),
            RecordErrorPolicy.skip(),
            credit=credit,
            restart_readers=True,
            metric_group=metrics,
        )
        assert kept == [Row(name="Ann", age=31), Row(name="Bob", age=7)]


def test_bad_records_go_to_a_side_output_between_the_good_ones(file: Path) -> None:
    write(file, b"name,age\nAnn,31\nCy,old\nD\xff,5\nBob,7\n")
    tag = OutputTag("bad")
    values = read(file, StreamFormat.csv_format(PERSON), RecordErrorPolicy.side_output(tag))
    assert [v.value.line if isinstance(v, SideOutputRecord) else v.name for v in values] == ["Ann", 3, 4, "Bob"]
    assert values[2].value.record == "D\\xff,5"
    assert "character set" in values[2].value.reason


def test_the_line_number_of_a_record_of_several_lines_is_that_of_its_first(file: Path) -> None:
    write(file, 'name,age\n"a\nb\nc",1\n"d\ne",old\n')
    for credit in (1, 100):
        with pytest.raises(SourceError, match=r"people\.csv, line 5: column 'age'"):
            read(file, StreamFormat.csv_format(PERSON), credit=credit)


def test_a_quote_that_is_never_closed_is_one_bad_record(file: Path) -> None:
    write(file, 'name,age\nAnn,31\n"Bob,7\nCy,8\n')
    with pytest.raises(SourceError, match=r"people\.csv, line 3: not valid CSV: unexpected end of data"):
        read(file, StreamFormat.csv_format(PERSON))
    assert read(file, StreamFormat.csv_format(PERSON), RecordErrorPolicy.skip()) == [Row(name="Ann", age=31)]


def test_an_open_quote_takes_no_other_line_where_each_line_is_a_record(file: Path) -> None:
    write(file, 'name,age\n"Ann,31\nBob,7\n"Cy",8\n')
    for credit in (1, 2, 100):
        rows = read(file, StreamFormat.csv_format(PERSON, multiline=False), RecordErrorPolicy.skip(), credit=credit)
        assert rows == [Row(name="Bob", age=7), Row(name="Cy", age=8)]
    with pytest.raises(SourceError, match=r"people\.csv, line 2: not valid CSV: unexpected end of data"):
        read(file, StreamFormat.csv_format(PERSON, multiline=False))


def test_comments_before_the_header_are_left_out(file: Path) -> None:
    write(file, "# people\n # and more\nname,age\nAnn,31\n")
    for credit in (1, 100):
        rows = read(file, StreamFormat.csv_format(PERSON, comment="#"), credit=credit, restart_readers=True)
        assert rows == [Row(name="Ann", age=31)]


def test_a_field_may_be_longer_than_pythons_own_limit(file: Path) -> None:
    write(file, f'name,age\n"{"x" * 200_000}",31\n')
    (row,) = read(file, StreamFormat.csv_format(PERSON))
    assert len(row.name) == 200_000


@pytest.mark.parametrize(
    ("type_info", "text"),
    [
        (Types.BIG_DEC(), "1_000"),
        (Types.BIG_DEC(), "NaN"),
        (DecimalTypeInfo(5, 2), "Infinity"),
        (Types.SQL_TIME(), "10:00+02:00"),
        (Types.INSTANT(), "2024-01-01T00:00:00.1234567890Z"),
    ],
)
def test_what_is_no_value_of_a_type_is_a_bad_record(file: Path, type_info: Any, text: str) -> None:
    write(file, f"{text},x\n")
    with pytest.raises(SourceError, match=r"line 1: column '1' must be"):
        read(file, StreamFormat.csv_format(Types.TUPLE([type_info, Types.STRING()]), header=False))


def test_points_in_time_keep_their_nanoseconds(file: Path) -> None:
    write(file, "2024-01-01T00:00:00.123456789Z,1969-12-31 23:59:59.9999999Z\n")
    (values,) = read(file, StreamFormat.csv_format(Types.TUPLE([Types.INSTANT(), Types.INSTANT()]), header=False))
    assert values == (Instant(1_704_067_200, 123_456_789), Instant(-1, 999_999_900))


def test_a_bad_record_of_several_lines_is_told_in_whole_however_it_is_read(file: Path) -> None:
    write(file, 'name,age\n"a\nb"c,1\nd,2\n')
    for credit in (1, 100):
        bad, good = read(file, StreamFormat.csv_format(PERSON), RecordErrorPolicy.side_output(OutputTag("bad")), credit=credit)
        assert (bad.value.line, bad.value.record, good) == (2, '"a\nb"c,1', Row(name="d", age=2))


def test_bytes_that_are_no_text_are_found_in_each_line_of_a_record(file: Path) -> None:
    file.write_bytes(b'name,age\n"a\n\xff",1\nd,2\n')
    for credit in (1, 100):
        bad, good = read(file, StreamFormat.csv_format(PERSON), RecordErrorPolicy.side_output(OutputTag("bad")), credit=credit)
        assert (bad.value.line, bad.value.reason, good) == (
            2,
            "the line is not text in the character set utf-8",
            Row(name="d", age=2),
        )


def test_lines_with_comments_between_them_are_read_by_columns(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(file, "name,age\nAnn,31\n # a comment\nBob,7\n")
    monkeypatch.delattr(csv_format._CsvReader, "_parse")
    for multiline in (True, False):
        rows = read(file, StreamFormat.csv_format(PERSON, comment="#", multiline=multiline))
        assert rows == [Row(name="Ann", age=31), Row(name="Bob", age=7)]


def test_a_format_keeps_its_null_values_if_the_list_is_changed_later() -> None:
    nulls = ["NA"]
    format_ = StreamFormat.csv_format(PERSON, null_values=nulls)
    nulls.append("-")
    assert (format_, hash(format_)) == (StreamFormat.csv_format(PERSON, null_values=("NA",)), hash(format_))


def test_wrong_settings_are_refused_when_the_format_is_made() -> None:
    with pytest.raises(InvalidArgumentError, match="null_values of the CSV format must be texts; got 'NA'"):
        StreamFormat.csv_format(PERSON, null_values="NA")
    with pytest.raises(InvalidProgramError, match="needs a schema"):
        StreamFormat.csv_format(header=False)
    with pytest.raises(InvalidArgumentError, match="delimiter"):
        StreamFormat.csv_format(delimiter="::")
    with pytest.raises(InvalidArgumentError, match="schema"):
        StreamFormat.csv_format(Types.STRING())
    with pytest.raises(InvalidProgramError, match=r"column 'tags'.*cannot be read from CSV"):
        StreamFormat.csv_format(Types.ROW_NAMED(["tags"], [Types.MAP(Types.STRING(), Types.STRING())]))
    with pytest.raises(InvalidProgramError, match=r"column 'tags' .*only simple types can be nested"):
        StreamFormat.csv_format(Types.ROW_NAMED(["tags"], [Types.LIST(Types.LIST(Types.STRING()))]))

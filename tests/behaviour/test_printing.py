"""What print() shows, on both engines. Where nothing else is said, PyFlink 2.3.0 prints the same."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from flinkish.common import Instant, Row, RowKind, Types
from flinkish.common.errors import JobExecutionError
from flinkish.common.typeinfo import TypeInformation
from flinkish.datastream import StreamExecutionEnvironment
from tests.conftest import MakeEnvironment, locally

T = Types
DAY, NOON = datetime.date(2021, 1, 9), datetime.datetime(2021, 1, 9, 12)
UNTYPED = None
#: Value that a function returns, its declared type, what is printed.
FORMS: list[tuple[Any, TypeInformation | None, str]] = [
    # untyped: Python's str
    (("a", None, 1.5), UNTYPED, "('a', None, 1.5)"),
    ({"k": [True]}, UNTYPED, "{'k': [True]}"),
    ("x y", UNTYPED, "x y"),
    (True, UNTYPED, "True"),
    (None, UNTYPED, "None"),
    (Row(a=1, b="x"), UNTYPED, "Row(a=1, b='x')"),
    (Row(1, "x"), UNTYPED, "<Row(1, 'x')>"),
    # rows: the kind, then Python's str of each field, without a space
    (Row("a", 1), T.ROW([T.STRING(), T.INT()]), "+I[a,1]"),
    (Row(a=1, b="x"), T.ROW_NAMED(["a", "b"], [T.INT(), T.STRING()]), "+I[1,x]"),
    (Row(None, True), T.ROW([T.STRING(), T.BOOLEAN()]), "+I[None,True]"),
    (Row.of_kind(RowKind.UPDATE_BEFORE, 1), T.ROW([T.INT()]), "-U[1]"),
    (Row.of_kind(RowKind.UPDATE_AFTER, 1), T.ROW([T.INT()]), "+U[1]"),
    (Row.of_kind(RowKind.DELETE, 1), T.ROW([T.INT()]), "-D[1]"),
    (Row(1e10, Decimal("1.50")), T.ROW([T.DOUBLE(), T.BIG_DEC()]), "+I[10000000000.0,1.50]"),
    (Row([1.1, None]), T.ROW([T.BASIC_ARRAY(T.DOUBLE())]), "+I[[1.1, None]]"),
    (Row({"k": 1}), T.ROW([T.MAP(T.STRING(), T.INT())]), "+I[{'k': 1}]"),
    (Row(b"a\xff"), T.ROW([T.PRIMITIVE_ARRAY(T.BYTE())]), "+I[b'a\\xff']"),
    (Row((1, "a")), T.ROW([T.TUPLE([T.INT(), T.STRING()])]), "+I[(1, 'a')]"),
    (
        Row(DAY, datetime.time(12, 0, 1), NOON.replace(microsecond=11_000)),
        T.ROW([T.SQL_DATE(), T.SQL_TIME(), T.SQL_TIMESTAMP()]),
        "+I[2021-01-09,12:00:01,2021-01-09 12:00:00.011000]",
    ),
    # tuples, and what is in them: as Java's objects
    (("a", 1), T.TUPLE([T.STRING(), T.INT()]), "(a,1)"),
    (("ab", Row("a", 1)), T.TUPLE([T.STRING(), T.ROW([T.STRING(), T.INT()])]), "(ab,+I[a, 1])"),
    (("ab", Row("a", None)), T.TUPLE([T.STRING(), T.ROW([T.STRING(), T.INT()])]), "(ab,+I[a, null])"),
    ((1.1, 1e10, True), T.TUPLE([T.FLOAT(), T.DOUBLE(), T.BOOLEAN()]), "(1.1,1.0E10,true)"),
    (([1.1, 2.0],), T.TUPLE([T.BASIC_ARRAY(T.DOUBLE())]), "([1.1, 2.0])"),
    ((b"ab",), T.TUPLE([T.PRIMITIVE_ARRAY(T.BYTE())]), "([97, 98])"),
    (({"k": 1},), T.TUPLE([T.MAP(T.STRING(), T.INT())]), "({k=1})"),
    # all else as Java's objects
    ("x y", T.STRING(), "x y"),
    (-5, T.LONG(), "-5"),
    (False, T.BOOLEAN(), "false"),
    (1.0, T.DOUBLE(), "1.0"),
    (1e-5, T.DOUBLE(), "1.0E-5"),
    (float("nan"), T.DOUBLE(), "NaN"),
    (1.23, T.FLOAT(), "1.23"),
    (Decimal("1E+3"), T.BIG_DEC(), "1E+3"),
    (DAY, T.SQL_DATE(), "2021-01-09"),
    (datetime.time(12, 0, 1, 5_000), T.SQL_TIME(), "12:00:01"),
    (NOON, T.SQL_TIMESTAMP(), "2021-01-09 12:00:00.0"),
    (NOON.replace(microsecond=11_000), T.SQL_TIMESTAMP(), "2021-01-09 12:00:00.011"),
    (Instant.of_epoch_milli(1500), T.INSTANT(), "1970-01-01T00:00:01.500Z"),
    ([1, 2], T.LIST(T.INT()), "[1, 2]"),
    ({"k": 1}, T.MAP(T.STRING(), T.INT()), "{k=1}"),
    # PyFlink prints the address of a Java array
    (b"a\xff", T.PRIMITIVE_ARRAY(T.BYTE()), "[97, -1]"),
    # the rounding of 32 bits shows in rows, as it does in PyFlink for rows from a source
    (Row(1.1), T.ROW([T.FLOAT()]), "+I[1.100000023841858]"),
]


@locally
def test_each_type_has_the_text_form_of_flink(make_env: MakeEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    env = make_env(parallelism=1)
    start = env.from_collection([1], Types.INT())

    def show(index: int, value: Any, type_info: TypeInformation | None) -> None:
        start.map(lambda _: value, type_info).print(f"{index:02}")

    for index, (value, type_info, _) in enumerate(FORMS):
        show(index, value, type_info)
    env.execute()
    shown = dict(line.split("> ", 1) for line in capsys.readouterr().out.splitlines())
    assert [shown[f"{index:02}"] for index in range(len(FORMS))] == [text for _, _, text in FORMS]


def test_lines_begin_with_the_identifier_and_with_the_subtask_if_there_are_several(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = env.from_collection([("a", 1), ("b", 2)], Types.TUPLE([Types.STRING(), Types.INT()]))
    pairs.partition_custom(lambda key, count: key % count, lambda pair: pair[1]).map(lambda pair: pair).print()
    pairs.print("id").set_parallelism(1)
    pairs.rebalance().print("sink")
    # a keyed stream prints its records without the key; PyFlink forgets the identifier
    pairs.key_by(lambda pair: pair[0]).print("keyed").set_parallelism(1)
    pairs.key_by(lambda pair: pair[0]).sum(1).print("sum").set_parallelism(1)
    env.execute()
    lines = sorted(capsys.readouterr().out.splitlines())
    assert {line.replace("sink:1>", "sink:N>").replace("sink:2>", "sink:N>") for line in lines} == {
        "1> ('b', 2)", "2> ('a', 1)", "id> (a,1)", "id> (b,2)", "sink:N> (a,1)", "sink:N> (b,2)",
        "keyed> (a,1)", "keyed> (b,2)", "sum> (a,1)", "sum> (b,2)",
    }  # fmt: skip


def test_what_is_printed_before_a_failure_has_been_printed(make_env: MakeEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    env = make_env(parallelism=1, settings={"execution.epoch.max-records": 2})
    numbers = env.generate_sequence(1, 5)
    numbers.map(lambda number: number // (5 - number) and number).print()
    with pytest.raises(JobExecutionError, match="ZeroDivisionError"):
        env.execute()
    printed = capsys.readouterr().out.split()
    assert printed[:4] == ["0", "0", "3", "4"]
